"""The ops of real networks: those of torchvision's from networks.json, and of other families from their tables.

networks.json is made by tools/collect_ops.py from ONNX models: the ops of their graphs as plans run them, with
activations and residuals fused. What has no such export here is spelled out from the papers' tables.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .case import Case

__all__ = ["network_cases"]


def _dcgan() -> Iterator[Case]:
    """Radford et al. 2015: 100 -> 1024 -> 512 -> 256 -> 128 -> 3 by transposed convolutions, and the way back."""
    widths = (100, 1024, 512, 256, 128, 3)
    for n in (1, 4):
        for layer, (ic, oc) in enumerate(itertools.pairwise(widths)):
            size = 1 if layer == 0 else 2 ** (layer + 1)
            stride, padding = (1, 0) if layer == 0 else (2, 1)
            for bias in (None, f"f32:{oc}"):
                for activation in ("relu", "tanh") if oc == 3 else ("relu", None):
                    inputs = (f"f32:{n}x{ic}x{size}x{size}", f"f32:{ic}x{oc}x4x4", bias)
                    attributes: dict[str, Any] = {"stride": [stride] * 2, "padding": [padding] * 2}
                    if activation:
                        attributes["activation"] = activation
                    yield Case("conv_transpose2d", inputs, attributes, "", "dcgan")
        for ic, oc, size in ((3, 128, 64), (128, 256, 32), (256, 512, 16), (512, 1024, 8)):
            attributes = {"stride": [2, 2], "padding": [1, 1], "activation": "leaky_relu", "activation_alpha": 0.2}
            inputs = (f"f32:{n}x{ic}x{size}x{size}", f"f32:{oc}x{ic}x4x4", f"f32:{oc}")
            yield Case("conv2d", inputs, attributes, "", "dcgan")
    # The same growth in three dimensions (3D-GAN, Wu et al. 2016).
    for ic, oc, size in ((512, 256, 4), (256, 128, 8), (128, 64, 8)):
        inputs = (f"f32:1x{ic}x{size}x{size}x{size}", f"f32:{ic}x{oc}x4x4x4", f"f32:{oc}")
        yield Case("conv_transpose3d", inputs, {"stride": [2] * 3, "padding": [1] * 3}, "", "3d-gan")


def _unet() -> Iterator[Case]:
    """Ronneberger et al. 2015; concats of skip connections, whose parts are written in place as strided views."""
    for level, (ic, oc) in enumerate(((3, 64), (64, 128), (128, 256), (256, 512), (512, 1024))):
        size = 96 >> level
        same = {"padding": [1, 1], "activation": "relu"}
        image, weight = f"f32:1x{ic}x{size}x{size}", f"f32:{oc}x{ic}x3x3"
        yield Case("conv2d", (image, weight, f"f32:{oc}"), same, "", "unet")
        yield Case(
            "conv2d", (f"f32:1x{oc}x{size}x{size}", f"f32:{oc}x{oc}x3x3", f"f32:{oc}"), same, "output NHWC", "unet"
        )
        if level == 4:
            continue
        half = size // 2
        up = (f"f32:1x{2 * oc}x{half}x{half}", f"f32:{2 * oc}x{oc}x2x2", f"f32:{oc}")
        yield Case("conv_transpose2d", up, {"stride": [2, 2]}, "", "unet")
        joined = f"f32:1x{2 * oc}x{size}x{size}"
        yield Case("conv2d", (joined, f"f32:{oc}x{2 * oc}x3x3", f"f32:{oc}"), same, "", "unet")
        yield Case("concat", (f"f32:1x{oc}x{size}x{size}",) * 2, {"dim": 1}, "", "unet")
        yield Case("max_pool2d", (f"f32:1x{oc}x{size}x{size}",), {"kernel_size": [2, 2]}, "input NHWC", "unet")
    # 3-D (Cicek et al. 2016).
    for ic, oc, size in ((1, 32, 24), (32, 64, 24), (64, 128, 12), (128, 256, 6), (256, 512, 3)):
        inputs = (f"f32:1x{ic}x{size}x{size}x{size}", f"f32:{oc}x{ic}x3x3x3", f"f32:{oc}")
        yield Case("conv3d", inputs, {"padding": [1] * 3, "activation": "relu"}, "", "unet3d")
        if oc >= 64:
            up = (f"f32:1x{oc}x{size // 2 or 1}x{size // 2 or 1}x{size // 2 or 1}", f"f32:{oc}x{oc}x2x2x2", f"f32:{oc}")
            yield Case("conv_transpose3d", up, {"stride": [2] * 3}, "", "unet3d")


def _video() -> Iterator[Case]:
    """r3d_18 and r2plus1d_18 (Tran et al. 2018), of one clip of 16 frames of 112 x 112."""

    def layer(dtype: str, ic: int, oc: int, image: str, kernel: str, last: str = "", **window: list[int]) -> Case:
        inputs = [f"{dtype}:1x{ic}x{image}", f"{dtype}:{oc}x{ic}x{kernel}", f"{dtype}:{oc}"]
        if last:  # of a block: with what it is added to
            inputs.append(f"{dtype}:1x{oc}x{last}")
        origin = "r2plus1d" if "1" in kernel else "r3d"
        return Case("conv3d", tuple(inputs), {**window, "activation": "relu"}, "", origin)

    for dtype in ("f32", "f16"):
        yield layer(dtype, 3, 64, "16x112x112", "3x7x7", padding=[1, 3, 3], stride=[1, 2, 2])
        yield layer(dtype, 3, 45, "16x112x112", "1x7x7", padding=[0, 3, 3], stride=[1, 2, 2])
        yield layer(dtype, 45, 64, "16x56x56", "3x1x1", padding=[1, 0, 0])
        for level, oc in enumerate((64, 128, 256, 512)):
            image = "x".join(str(side >> level) for side in (16, 56, 56))
            yield layer(dtype, oc, oc, image, "3x3x3", image, padding=[1] * 3)
            middle = 27 * oc * oc // (12 * oc)
            yield layer(dtype, oc, middle, image, "1x3x3", padding=[0, 1, 1])
            yield layer(dtype, middle, oc, image, "3x1x1", image, padding=[1, 0, 0])
            if level == 0:
                continue
            ic, larger = oc // 2, "x".join(str(side >> (level - 1)) for side in (16, 56, 56))
            between = "x".join(str(side) for side in (16 >> (level - 1), 56 >> level, 56 >> level))
            middle = 27 * ic * oc // (9 * ic + 3 * oc)
            yield layer(dtype, ic, oc, larger, "3x3x3", padding=[1] * 3, stride=[2] * 3)
            yield layer(dtype, ic, oc, larger, "1x1x1", stride=[2] * 3)
            yield layer(dtype, ic, middle, larger, "1x3x3", padding=[0, 1, 1], stride=[1, 2, 2])
            yield layer(dtype, middle, oc, between, "3x1x1", padding=[1, 0, 0], stride=[2, 1, 1])


def _speech() -> Iterator[Case]:
    """HiFi-GAN V1 (Kong et al. 2020): growth by 8, 8, 2, 2, dilated residual blocks. Conformer (Gulati et al. 2020)."""
    yield Case("conv1d", ("f32:1x80x64", "f32:512x80x7", "f32:512"), {"padding": [3]}, "", "hifigan")
    steps = 64
    for ic, kernel, stride in ((512, 16, 8), (256, 16, 8), (128, 4, 2), (64, 4, 2)):
        inputs = (f"f32:1x{ic}x{steps}", f"f32:{ic}x{ic // 2}x{kernel}", f"f32:{ic // 2}")
        attributes: dict[str, Any] = {"stride": [stride], "padding": [(kernel - stride) // 2]}
        yield Case("conv_transpose1d", inputs, attributes, "", "hifigan")
        steps, c = min(steps * stride, 4096), ic // 2
        for k in (3, 7, 11):
            for dilation in (1, 3, 5):
                attributes = {
                    "padding": [dilation * (k - 1) // 2],
                    "dilation": [dilation],
                    "activation": "leaky_relu",
                    "activation_alpha": 0.1,
                }
                image = f"f32:1x{c}x{min(steps, 1024)}"
                yield Case("conv1d", (image, f"f32:{c}x{c}x{k}", f"f32:{c}"), attributes, "", "hifigan")
            attributes = {"padding": [(k - 1) // 2]}
            yield Case("conv1d", (image, f"f32:{c}x{c}x{k}", f"f32:{c}", image), attributes, "", "hifigan")
    last = {"padding": [3], "activation": "tanh"}
    yield Case("conv1d", ("f32:1x32x4096", "f32:1x32x7", "f32:1"), last, "", "hifigan")
    for d in (144, 256, 512):
        t = 128
        rows = f"f32:1x{t}x{d}"
        yield Case("linear", (rows, f"f32:{4 * d}x{d}", f"f32:{4 * d}"), {"activation": "silu"}, "", "conformer")
        yield Case("linear", (f"f32:1x{t}x{4 * d}", f"f32:{d}x{4 * d}", f"f32:{d}", rows), {}, "", "conformer")
        yield Case("layer_norm", (rows, f"f32:{d}", f"f32:{d}"), {"normalized_shape": [d]}, "", "conformer")
        frames = f"f32:1x{d}x{t}"
        yield Case("conv1d", (frames, f"f32:{2 * d}x{d}x1", f"f32:{2 * d}"), {}, "", "conformer")
        depthwise = {"groups": d, "padding": [15], "activation": "silu"}
        yield Case("conv1d", (frames, f"f32:{d}x1x31", f"f32:{d}"), depthwise, "", "conformer")
        q = f"f32:1x4x{t}x{d // 4}"
        yield Case("scaled_dot_product_attention", (q, q, q), {}, "", "conformer")
        column = f"f32:{d}"
        yield Case("batch_norm", (frames, *[column] * 4), {"activation": "silu"}, "", "conformer")


def _text() -> Iterator[Case]:
    """BERT-base, GPT-2 and a Llama of 7 billion parameters (one layer each; the last in bf16 and f16, too)."""
    for name, d, heads, tokens, activation, causal, vocabulary in (
        ("bert", 768, 12, 128, "gelu", False, 30522),
        ("gpt2", 768, 12, 64, "gelu_tanh", True, 50257),
    ):
        rows = f"f32:1x{tokens}x{d}"
        for oc in (d, 3 * d):
            yield Case("linear", (rows, f"f32:{oc}x{d}", f"f32:{oc}"), {}, "", name)
        yield Case("linear", (rows, f"f32:{d}x{d}", f"f32:{d}", rows), {}, "", name)
        yield Case("linear", (rows, f"f32:{4 * d}x{d}", f"f32:{4 * d}"), {"activation": activation}, "", name)
        yield Case("linear", (f"f32:1x{tokens}x{4 * d}", f"f32:{d}x{4 * d}", f"f32:{d}", rows), {}, "", name)
        yield Case("matmul", (rows, f"f32:{d}x{4 * d}", f"f32:{4 * d}"), {"activation": activation}, "", name)
        yield Case("layer_norm", (rows, f"f32:{d}", f"f32:{d}"), {"normalized_shape": [d]}, "", name)
        q = f"f32:1x{heads}x{tokens}x{d // heads}"
        yield Case("scaled_dot_product_attention", (q, q, q), {"is_causal": causal}, "", name)
        yield Case("matmul", (q, q), {"transpose_b": True}, "", name)
        yield Case("softmax", (f"f32:1x{heads}x{tokens}x{tokens}",), {"dim": 3}, "", name)
        yield Case("matmul", (f"f32:1x{heads}x{tokens}x{tokens}", q), {}, "", name)
        yield Case("embedding", (f"s64:1x{tokens}", f"f32:{vocabulary}x{d // 4}"), {}, "", name)
    for dtype in ("f32", "bf16", "f16"):
        for tokens in (1, 16):
            for ic, oc in ((4096, 4096), (4096, 11008), (11008, 4096)):
                yield Case("linear", (f"{dtype}:1x{tokens}x{ic}", f"{dtype}:{oc}x{ic}"), {}, "", "llama")
        q, k = f"{dtype}:1x32x1x128", f"{dtype}:1x32x512x128"
        yield Case("scaled_dot_product_attention", (q, k, k), {}, "", "llama")
        q = f"{dtype}:1x8x128x128"
        yield Case("scaled_dot_product_attention", (q, q, q), {"is_causal": True}, "", "llama")
        gates = f"{dtype}:1x16x11008"
        yield Case("silu", (gates,), {}, "", "llama")
        yield Case("mul", (gates, gates), {}, "", "llama")


def _recommenders() -> Iterator[Case]:
    """DLRM (Naumov et al. 2019): dense layers, tables, and the products of all pairs of features."""
    for n in (1, 128):
        for widths in ((13, 512, 256, 64), (479, 1024, 1024, 512, 256, 1)):
            for ic, oc in itertools.pairwise(widths):
                attributes = {"activation": "sigmoid" if oc == 1 else "relu"}
                yield Case("linear", (f"f32:{n}x{ic}", f"f32:{oc}x{ic}", f"f32:{oc}"), attributes, "", "dlrm")
        yield Case("embedding", (f"s64:{n}", "f32:40000x64"), {}, "", "dlrm")
        yield Case("matmul", (f"f32:{n}x27x64", f"f32:{n}x27x64"), {"transpose_b": True}, "", "dlrm")
        yield Case("concat", (f"f32:{n}x64", f"f32:{n}x351"), {"dim": 1}, "", "dlrm")


def _recurrent() -> Iterator[Case]:
    """LSTM language models (Zaremba et al. 2014), a GRU as in Deep Speech 2 and a bidirectional LSTM of a tagger."""
    for op, gates, features, hidden, steps, batch in (
        ("lstm", 4, 650, 650, 35, 1),
        ("lstm", 4, 1500, 1500, 4, 2),
        ("lstm", 4, 128, 512, 20, 4),
        ("gru", 3, 800, 800, 10, 4),
        ("gru", 3, 256, 256, 50, 1),
    ):
        for direction in ("forward", "bidirectional"):
            d = 2 if direction == "bidirectional" else 1
            inputs = (
                f"f32:{steps}x{batch}x{features}",
                f"f32:{d}x{gates * hidden}x{features}",
                f"f32:{d}x{gates * hidden}x{hidden}",
                f"f32:{d}x{2 * gates * hidden}",
            )
            attributes: dict[str, Any] = {"direction": direction}
            if op == "gru":
                attributes["linear_before_reset"] = True
            yield Case(op, inputs, attributes, "", op)


def _super_resolution() -> Iterator[Case]:
    """ESPCN (Shi et al. 2016): few channels, tanh, pixel shuffle as a permutation. EDSR's residual blocks."""
    for ic, oc, k, activation in ((1, 64, 5, "tanh"), (64, 32, 3, "tanh"), (32, 9, 3, None)):
        attributes: dict[str, Any] = {"padding": [k // 2] * 2}
        if activation:
            attributes["activation"] = activation
        inputs = (f"f32:1x{ic}x90x160", f"f32:{oc}x{ic}x{k}x{k}", f"f32:{oc}")
        yield Case("conv2d", inputs, attributes, "", "espcn")
    for c in (64, 256):
        image = f"f32:1x{c}x24x24"
        yield Case("conv2d", (image, f"f32:{c}x{c}x3x3", f"f32:{c}", image), {"padding": [1, 1]}, "", "edsr")
        yield Case("conv2d", (image, f"f32:{4 * c}x{c}x3x3", f"f32:{4 * c}"), {"padding": [1, 1]}, "", "edsr")
    upscaled: dict[str, Any] = {"scale_factor": [2.0, 2.0], "mode": "bilinear"}
    yield Case("interpolate", ("f32:1x256x24x24",), upscaled, "", "edsr")


def _in_strided_views(cases: list[Case]) -> Iterator[Case]:
    """Some of the convolutions of networks once more where their tensors are parts of concats."""
    for number, case in enumerate(case for case in cases if case.op == "conv2d" and len(case.inputs) < 4):
        if number % 4 or case.strided:
            continue
        weight = case.specs()[1]
        assert weight is not None
        groups = int(case.attributes.get("groups", 1))
        blocks = weight[1][0] % 16 == 0 and weight[1][1] * groups % 16 == 0  # views begin and end with one
        layout = "nChw16c" if blocks and number % 8 == 4 else "NHWC"
        which = ("input", "output", "both")[number // 4 % 3]
        yield Case(case.op, case.inputs, case.attributes, f"{which} {layout}", case.origin)


def network_cases() -> list[Case]:
    """Every different op of the networks, in the order in which they are listed."""
    text = Path(__file__).with_name("networks.json").read_text("utf-8")
    cases = [Case.from_json(data) for data in json.loads(text)]
    for family in (_dcgan, _unet, _video, _speech, _text, _recommenders, _recurrent, _super_resolution):
        cases += family()
    cases += _in_strided_views(cases)
    return list({case.key: case for case in cases}.values())

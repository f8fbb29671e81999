"""Random cases at the sizes that networks have: channels on both sides of every provider's blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import functions
from .case import Case, parse_spec
from .generate_sampling import sampling_case
from .generate_training import training_case

__all__ = ["FAMILIES", "random_case"]

Generator = np.random.Generator

# Where blocks begin and end: of vectors (8, 16), of register tiles (32, 48, 64), of cache blocks of the reduction.
_FEW = (1, 2, 3, 4, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 40, 47, 48, 49, 63, 64, 65, 72, 80, 96, 112, 127, 128, 129)
_MANY = (160, 192, 240, 255, 256, 257, 272, 288, 320, 336, 383, 384, 400, 448, 480, 511, 512, 513, 528, 576, 640, 672)
_MOST = (720, 767, 768, 769, 832, 896, 960, 1000, 1023, 1024, 1025, 1088, 1152, 1280, 1344, 1536, 1792, 2016, 2047)
_LAST = (2048, 2049, 2304, 2560, 3072, 3584, 4095, 4096)
# Of the first layers of networks and of small ones, whose images are large.
_FIRST = (1, 2, 3, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 32, 40, 48, 64)
_FLOPS = 4e8  # at most, of a random case
_ELEMENTS = 1 << 22  # at most, of a tensor
_ACTIVATIONS: tuple[str, ...] = (
    "relu",
    "relu6",
    "silu",
    "gelu",
    "gelu_tanh",
    "hardswish",
    "hardsigmoid",
    "sigmoid",
    "tanh",
    "elu",
)
_ACTIVATIONS += ("leaky_relu", "clip", "mish", "softplus", "abs", "square")
_LISTED: tuple[str, ...] = (*_ACTIVATIONS, "leaky_relu(0.2)", "clip(-0.5, 0.75)", "scale(0.5)", "scale(-1.5)")


def _channels(rng: Generator, large: float = 0.6) -> int:
    pool = _MANY + _MOST + _LAST if rng.random() < large else _FEW
    if rng.random() < 0.1:
        return int(rng.integers(1, 700))
    return int(rng.choice(pool))


def _chance(rng: Generator, share: float) -> bool:
    return bool(rng.random() < share)


def _dtype(rng: Generator) -> str:
    return str(rng.choice(["f32", "f32", "f32", "f32", "bf16", "f16"]))


def _spec(dtype: str, *sizes: int) -> str:
    return f"{dtype}:" + "x".join(str(size) for size in sizes)


def _epilogue(rng: Generator, attributes: dict[str, Any], residual: bool = False, gate: bool = False) -> None:
    """Post-ops, in short or as a list."""
    if gate or _chance(rng, 0.2):
        steps = [str(name) for name in rng.choice(_LISTED, int(rng.integers(1, 3)))]
        for given, step in ((residual, "add(residual)"), (gate, "multiply(gate)")):
            if given:
                steps.insert(int(rng.integers(0, len(steps) + 1)), step)
        attributes["post_ops"] = ", ".join(steps)
    elif _chance(rng, 0.5):
        name = str(rng.choice(_ACTIVATIONS))
        attributes["activation"] = name
        if name in ("leaky_relu", "elu") and _chance(rng, 0.5):
            attributes["activation_alpha"] = 0.2
        if name == "clip":
            attributes.update(activation_alpha=-0.5, activation_beta=0.75)


def _operands(spec: str, *given: bool) -> list[str | None]:
    """What post-ops read, as far as the last that is given."""
    listed = [spec if each else None for each in given]
    while listed and listed[-1] is None:
        listed.pop()
    return listed


def _strided(rng: Generator, share: float, *channels: int) -> str:
    """Blocked strided views begin and end with a block."""
    if not _chance(rng, share):
        return ""
    layouts = ["NHWC"] + [f"nChw{block}c" for block in (8, 16) if all(c % block == 0 for c in channels)]
    return f"{rng.choice(['input', 'output', 'both'])} {rng.choice(layouts)}"


def _conv(rng: Generator, transposed: bool = False) -> Case | None:
    spatial = int(rng.choice([1, 2, 2, 2, 3]))
    depthwise = _chance(rng, 0.15)
    groups = 1
    early = _chance(rng, 0.25)
    ic, oc = (int(c) for c in rng.choice(_FIRST, 2)) if early else (_channels(rng), _channels(rng))
    if depthwise:
        groups = ic
        oc = ic * int(rng.choice([1, 1, 1, 2]))
    elif _chance(rng, 0.15):
        groups = int(rng.choice([2, 3, 4, 8, 16, 32]))
        ic, oc = max(1, ic // groups) * groups, max(1, oc // groups) * groups
    kernel = [int(k) for k in rng.choice([1, 2, 3, 3, 3, 4, 4, 5, 7], spatial)]
    if _chance(rng, 0.7):
        kernel = kernel[:1] * spatial
    stride = (
        [int(s) for s in rng.choice([1, 1, 2, 2, 3], spatial)]
        if _chance(rng, 0.2)
        else [int(rng.choice([1, 1, 2, 2, 4 if transposed else 3]))] * spatial
    )
    dilation = int(rng.choice([1, 1, 1, 2, 3])) if not _chance(rng, 0.5) else 1
    padding = [int(rng.integers(0, max(1, dilation * (k - 1)) + 1)) for k in kernel]
    if _chance(rng, 0.6):
        padding = [dilation * (k - 1) // 2 for k in kernel]
    if transposed and _chance(rng, 0.5):
        padding = [max(0, (k - s) // 2) for k, s in zip(kernel, stride, strict=True)]
    n = int(rng.choice([1, 1, 1, 2, 3, 4]))
    taps = int(np.prod(kernel)) * ic * (oc // groups)
    # As many pixels as the operations that are left permit, near to those of networks.
    budget = _FLOPS / (2 * taps * n)
    side = max(1.0, min(256.0 if early else 64.0, budget ** (1 / spatial)))
    if budget < 1 or taps / groups * groups > _ELEMENTS * 2 or ic * oc // groups * np.prod(kernel) > _ELEMENTS:
        return None
    sizes = [max(1, int(side ** rng.uniform(0.7 if early else 0.3, 1.0))) for _ in range(spatial)]
    if not transposed:
        sizes = [max(size, dilation * (k - 1) + 1 - 2 * p) for size, k, p in zip(sizes, kernel, padding, strict=True)]
    dtype = _dtype(rng)
    attributes: dict[str, Any] = {"stride": stride, "padding": padding}
    if dilation > 1:
        attributes["dilation"] = [dilation] * spatial
    if groups > 1:
        attributes["groups"] = groups
    if not transposed and _chance(rng, 0.15):
        attributes["padding"] = [*padding, *(int(rng.integers(0, max(1, k))) for k in kernel)]
    if transposed:
        extra = [int(rng.integers(0, max(s, dilation))) for s in stride]
        if _chance(rng, 0.2) and any(extra):
            attributes["output_padding"] = extra
    residual, gate = _chance(rng, 0.25), not transposed and _chance(rng, 0.1)
    _epilogue(rng, attributes, residual, gate)
    weight = (ic, oc // groups, *kernel) if transposed else (oc, ic // groups, *kernel)
    inputs: list[str | None] = [_spec(dtype, n, ic, *sizes), _spec(dtype, *weight)]
    inputs.append(_spec(dtype, oc) if _chance(rng, 0.7) else None)
    strided = ""
    if transposed:
        outputs = [
            (s - 1) * st - 2 * p + dilation * (k - 1) + 1
            for s, st, p, k in zip(sizes, stride, padding, kernel, strict=True)
        ]
        if "output_padding" in attributes:
            outputs = [size + more for size, more in zip(outputs, attributes["output_padding"], strict=True)]
        if min(outputs) < 1 or n * oc * np.prod(outputs) > _ELEMENTS:
            return None
        inputs += _operands(_spec(dtype, n, oc, *outputs), residual)
    else:
        from .products import convolved_geometry

        output = convolved_geometry(attributes, tuple(sizes), tuple(kernel))[3]
        if min(output) < 1 or n * oc * np.prod(output) > _ELEMENTS:
            return None
        inputs += _operands(_spec(dtype, n, oc, *output), residual, gate)
        if not residual and not gate:
            strided = _strided(rng, 0.15 if dtype == "f32" else 0, ic, oc)
    if n * ic * np.prod(sizes) > _ELEMENTS:
        return None
    name = f"conv{'_transpose' if transposed else ''}{spatial}d"
    return Case(name, tuple(inputs), attributes, strided, "random")


def _linear(rng: Generator) -> Case | None:
    m = int(rng.choice([1, 2, 3, 5, 8, 16, 17, 31, 49, 64, 77, 128, 197, 255, 256, 384, 512, 1024]))
    k, n = _channels(rng, 0.8), _channels(rng, 0.8)
    if 2.0 * m * n * k > _FLOPS or n * k > 2 * _ELEMENTS:
        return None
    dtype = _dtype(rng)
    attributes: dict[str, Any] = {}
    residual, gate = _chance(rng, 0.25), _chance(rng, 0.1)
    _epilogue(rng, attributes, residual, gate)
    lead = (m,) if _chance(rng, 0.6) else (int(rng.choice([1, 2])), m)
    inputs: list[str | None] = [_spec(dtype, *lead, k), _spec(dtype, n, k)]
    inputs.append(_spec(dtype, n) if _chance(rng, 0.7) else None)
    inputs += _operands(_spec(dtype, *lead, n), residual, gate)
    return Case("linear", tuple(inputs), attributes, "", "random")


def _matmul(rng: Generator) -> Case | None:
    batch = [int(b) for b in rng.choice([1, 2, 3, 8, 12, 16], int(rng.choice([0, 1, 2])))]
    m, n = (int(v) for v in rng.choice([1, 7, 16, 33, 49, 64, 77, 100, 127, 128, 197, 256, 257, 384, 512, 1000], 2))
    k = _channels(rng, 0.6)
    count = int(np.prod(batch)) if batch else 1
    if 2.0 * count * m * n * k > _FLOPS or count * max(m * k, n * k, m * n) > _ELEMENTS:
        return None
    dtype = _dtype(rng)
    attributes: dict[str, Any] = {}
    a, b = [m, k], [k, n]
    if _chance(rng, 0.3):
        attributes["transpose_a"], a = True, [k, m]
    if _chance(rng, 0.4):
        attributes["transpose_b"], b = True, [n, k]
    shared = batch if _chance(rng, 0.7) else []
    residual, gate = _chance(rng, 0.25), _chance(rng, 0.1)
    _epilogue(rng, attributes, residual, gate)
    inputs: list[str | None] = [_spec(dtype, *batch, *a), _spec(dtype, *shared, *b)]
    inputs.append(_spec(dtype, n) if _chance(rng, 0.5) else None)
    inputs += _operands(_spec(dtype, *batch, m, n), residual, gate)
    return Case("matmul", tuple(inputs), attributes, "", "random")


def _grouped(rng: Generator) -> Case | None:
    groups, rows = int(rng.choice([1, 2, 5, 8, 16, 33])), int(rng.choice([1, 2, 7, 16, 33, 64, 100, 257, 512]))
    k, n = _channels(rng, 0.4), _channels(rng, 0.4)
    if 2.0 * rows * k * n > _FLOPS or groups * k * n > _ELEMENTS:
        return None
    dtype, offsets = _dtype(rng), _spec(str(rng.choice(["s32", "s64"])), groups)
    if _chance(rng, 0.4):
        inputs = (_spec(dtype, rows, k), _spec(dtype, rows, n), offsets)
        return Case("grouped_mm_backward_weights", inputs, {}, "", "random")
    transposed = _chance(rng, 0.5)
    weight = _spec(dtype, groups, *((n, k) if transposed else (k, n)))
    attributes = {"transpose_weight": True} if transposed else {}
    return Case("grouped_mm", (_spec(dtype, rows, k), weight, offsets), attributes, "", "random")


def _fourier(rng: Generator) -> Case | None:
    n = int(rng.choice([1, 2, 3, 5, 7, 16, 30, 49, 64, 97, 128, 400, 512, 1000, 2048]))
    lines = int(rng.choice([1, 2, 7, 16, 33, 100]))
    kind, scale = int(rng.integers(4)), {"scale": 0.5} if _chance(rng, 0.3) else {}
    if kind == 0:
        return Case("fft", (_spec("f32", lines, n, 2),), {"inverse": _chance(rng, 0.5), **scale}, "", "random")
    if kind == 1:
        return Case("irfft", (_spec("f32", lines, n // 2 + 1, 2),), {"size": n, **scale}, "", "random")
    window = [_spec("f32", n)] if _chance(rng, 0.5) else []
    if kind == 2:
        return Case("rfft", (_spec("f32", lines, n), *window), scale, "", "random")
    hop = int(rng.integers(1, n + 2))
    x = _spec("f32", int(rng.integers(1, 4)), n + min(lines * hop, 4096))
    return Case("rfft", (x, *window), {"size": n, "hop": hop, **scale}, "", "random")


def _few_bits(rng: Generator) -> Case | None:
    m = int(rng.choice([1, 1, 2, 3, 5, 8, 17, 33, 64, 128, 197]))
    k, n = _channels(rng, 0.8), _channels(rng, 0.8)
    bits, block = int(rng.choice([2, 4, 4, 4, 8])), int(rng.choice([16, 24, 32, 32, 64, 128]))
    if 2.0 * m * n * k > _FLOPS or n * k > 2 * _ELEMENTS:
        return None
    dtype, blocks = _dtype(rng), -(-k // block)
    lead = (m,) if _chance(rng, 0.6) else (int(rng.choice([1, 2])), m)
    inputs: list[str | None] = [_spec(dtype, *lead, k), _spec("u8", n, blocks * block * bits // 8)]
    inputs.append(_spec(dtype, n, blocks))
    inputs.append(_spec("u8", n, blocks) if _chance(rng, 0.5) else None)
    inputs.append(_spec(dtype, n) if _chance(rng, 0.4) else None)
    return Case("linear_nbits", tuple(inputs), {"bits": bits, "block_size": block}, "", "random")


def _attention(rng: Generator) -> Case | None:
    heads = int(rng.choice([1, 2, 8, 12, 16]))
    queries = int(rng.choice([1, 7, 16, 49, 64, 77, 127, 197, 256, 384, 512]))
    keys = queries if _chance(rng, 0.6) else int(rng.choice([1, 77, 100, 255, 256, 257, 512, 1024, 1025]))
    e = int(rng.choice([16, 32, 40, 64, 80, 96, 128, 160, 256]))
    dtype = _dtype(rng)
    if 4.0 * heads * queries * keys * e > _FLOPS:
        return None
    n = int(rng.choice([1, 1, 2]))
    attributes: dict[str, Any] = {"is_causal": True} if _chance(rng, 0.3) else {}
    shared = heads
    if heads % 4 == 0 and _chance(rng, 0.25):
        attributes["enable_gqa"], shared = True, heads // 4
    if _chance(rng, 0.1):
        attributes["softcap"] = 5.0
    inputs = [_spec(dtype, n, heads, queries, e), _spec(dtype, n, shared, keys, e), _spec(dtype, n, shared, keys, e)]
    if "is_causal" not in attributes and _chance(rng, 0.4):
        shape = (1, 1, queries, keys) if _chance(rng, 0.5) else (n, 1, 1, keys)
        inputs.append(_spec("bool" if _chance(rng, 0.5) else dtype, *shape))
    given: list[str | None] = [*inputs]
    if _chance(rng, 0.15):
        attributes["dropout_p"] = float(rng.choice([0.1, 0.5]))
        given += [None] * (4 - len(given)) + [str(rng.choice(["s64:", "s64:2"]))]
    if _chance(rng, 0.1):
        given += [None] * (5 - len(given)) + [_spec(dtype, heads, 1, 1)]
    elif n * heads * queries * keys <= 1 << 20 and _chance(rng, 0.3):
        given.insert(3, _spec(dtype, n, heads, queries, e))
        return Case("scaled_dot_product_attention_backward", tuple(given), attributes, "", "random")
    return Case("scaled_dot_product_attention", tuple(given), attributes, "", "random")


def _image(rng: Generator, most: int = 1 << 20) -> tuple[int, ...]:
    """(n, c, ...) of rank 3 to 5."""
    spatial = int(rng.choice([1, 2, 2, 2, 3]))
    n, c = int(rng.choice([1, 1, 2, 4])), _channels(rng)
    side = max(1.0, min(112.0, (most / (n * c)) ** (1 / spatial)))
    return (n, c, *(max(1, int(side ** rng.uniform(0.4, 1.0))) for _ in range(spatial)))


def _rows(rng: Generator) -> tuple[int, ...]:
    last = _channels(rng, 0.8)
    return (int(rng.choice([1, 2, 4])), int(rng.choice([1, 16, 49, 77, 128, 197])), last)


def _norm(rng: Generator) -> Case | None:
    dtype = _dtype(rng)
    kinds = ["batch_norm", "layer_norm", "group_norm", "instance_norm", "local_response_norm"]
    kind = str(rng.choice([*kinds, "rms_norm", "l2_normalize"]))
    if kind in ("rms_norm", "l2_normalize"):
        shape = _rows(rng)
        weight = (_spec(dtype, shape[-1]),) if kind == "rms_norm" else ()
        return Case(kind, (_spec(dtype, *shape), *weight), {"normalized_shape": [shape[-1]]}, "", "random")
    if kind == "layer_norm":
        shape = _rows(rng)
        optional = [_spec(dtype, shape[-1])] * 2 if _chance(rng, 0.8) else [None, None]
        return Case(kind, (_spec(dtype, *shape), *optional), {"normalized_shape": [shape[-1]]}, "", "random")
    shape = _image(rng)
    c = _spec(dtype, shape[1])
    if kind == "batch_norm":
        attributes: dict[str, Any] = {}
        residual, gate = _chance(rng, 0.25), _chance(rng, 0.1)
        _epilogue(rng, attributes, residual, gate)
        x = _spec(dtype, *shape)
        strided = "" if residual or gate else _strided(rng, 0.2, shape[1])
        return Case(kind, (x, c, c, c, c, *_operands(x, residual, gate)), attributes, strided, "random")
    if kind == "local_response_norm":
        return Case(kind, (_spec(dtype, *shape),), {"size": int(rng.choice([3, 5]))}, "", "random")
    attributes = {}
    if kind == "group_norm":
        divisors = [g for g in (1, 2, 3, 4, 5, 8, 16, 32, shape[1]) if shape[1] % g == 0]
        attributes["num_groups"] = int(rng.choice(divisors))
    if np.prod(shape[2:]) * shape[1] // attributes.get("num_groups", shape[1]) < 2:
        return None
    return Case(kind, (_spec(dtype, *shape), c, c), attributes, "", "random")


def _softmax(rng: Generator) -> Case | None:
    shape = _rows(rng) if _chance(rng, 0.6) else _image(rng, 1 << 18)
    name = str(rng.choice(["softmax", "softmax", "log_softmax"]))
    dim = len(shape) - 1 if _chance(rng, 0.7) else int(rng.integers(0, len(shape)))
    return Case(name, (_spec(_dtype(rng), *shape),), {"dim": dim}, "", "random")


def _reduce(rng: Generator) -> Case | None:
    running = ["cumsum", "cumprod", "logcumsumexp"]
    name = str(rng.choice(["sum", "mean", "amax", "amin", "reduce_l2", "reduce_l1", "argmax", "argmin", *running]))
    shape = _rows(rng) if _chance(rng, 0.4) else _image(rng, 1 << 19)
    dtype = _dtype(rng)
    if name in ("argmax", "argmin", *running):
        return Case(name, (_spec(dtype, *shape),), {"dim": int(rng.integers(0, len(shape)))}, "", "random")
    dims = sorted(int(d) for d in rng.choice(len(shape), int(rng.integers(1, len(shape) + 1)), replace=False))
    return Case(name, (_spec(dtype, *shape),), {"dim": dims, "keepdim": _chance(rng, 0.5)}, "", "random")


def _pool(rng: Generator) -> Case | None:
    shape, dtype = _image(rng, 1 << 18), _dtype(rng)
    spatial = len(shape) - 2
    kind = int(rng.integers(0, 5))
    if kind == 0:
        name = str(rng.choice(["global_avg_pool", "global_max_pool"]))
        return Case(name, (_spec(dtype, *shape),), {}, "", "random")
    if kind == 1:
        size = [int(rng.integers(1, min(8, s) + 1)) for s in shape[2:]]
        name = f"adaptive_{rng.choice(['avg', 'max'])}_pool{spatial}d"
        return Case(name, (_spec(dtype, *shape),), {"output_size": size}, "", "random")
    kernel = [min(int(rng.choice([2, 2, 3, 3, 5])), s) for s in shape[2:]]
    padding = [int(rng.integers(0, k // 2 + 1)) for k in kernel]
    attributes: dict[str, Any] = {
        "kernel_size": kernel,
        "stride": [int(rng.choice([1, 2, 2, 3]))] * spatial,
        "padding": padding,
    }
    largest = _chance(rng, 0.5)
    if not largest:
        attributes["count_include_pad"] = _chance(rng, 0.5)
    if _chance(rng, 0.2):
        attributes["ceil_mode"] = True
    name = f"{'max' if largest else 'avg'}_pool{spatial}d"
    share = 0.2 if dtype == "f32" else 0
    return Case(name, (_spec(dtype, *shape),), attributes, _strided(rng, share, shape[1]), "random")


def _pool_indices(rng: Generator) -> Case | None:
    case = _pool(rng)
    if case is None or "max" not in case.op or case.op.startswith("global"):
        return None
    return Case(f"{case.op}_indices", case.inputs, case.attributes, "", "random")


def _elementwise(rng: Generator) -> Case | None:
    shape, dtype = _image(rng, 1 << 18), _dtype(rng)
    kind = int(rng.integers(0, 5))
    if kind == 4:
        name = str(rng.choice(sorted(functions.BITS)))
        whole = str(rng.choice(["s8", "u8", "s32", "s64"]))
        return Case(name, (_spec(whole, *shape),) * (1 if name == "bitwise_not" else 2), {}, "", "random")
    if kind == 0:
        names = sorted(set(functions.UNARY) - {"gelu_erf", "gelu_tanh", "acosh", "isnan", "isinf", "threshold"})
        return Case(str(rng.choice([*names, "gelu"])), (_spec(dtype, *shape),), {}, "", "random")
    if kind == 1:
        return Case("prelu", (_spec(dtype, *shape), _spec(dtype, shape[1])), {}, "", "random")
    if kind == 2:
        inputs = (_spec("bool", *shape), _spec(dtype, *shape), _spec(dtype, *shape))
        return Case("where", inputs, {}, "", "random")
    name = str(rng.choice(["add", "add", "mul", "mul", *sorted(functions.BINARY)]))
    if name in ("fmod", "remainder"):  # of floats they jump where x / y is an integer
        return Case(name, (_spec("s32", *shape), _spec("s32", 1)), {}, "", "random")
    if name.startswith("logical"):
        return Case(name, (_spec("bool", *shape), _spec("bool", *shape)), {}, "", "random")
    other = tuple(1 if _chance(rng, 0.3) else size for size in shape)
    attributes: dict[str, Any] = {}
    if name in ("add", "mul"):
        _epilogue(rng, attributes)
    strided = _strided(rng, 0.15, shape[1]) if name in ("add", "mul") and dtype == "f32" else ""
    return Case(name, (_spec(dtype, *shape), _spec(dtype, *other)), attributes, strided, "random")


def _move(rng: Generator) -> Case | None:
    shape, dtype = _image(rng, 1 << 18), _dtype(rng)
    kind = int(rng.integers(0, 8))
    if kind == 0:
        sizes = [int(_channels(rng, 0.3)) for _ in range(int(rng.integers(2, 5)))]
        return Case("concat", tuple(_spec(dtype, shape[0], c, *shape[2:]) for c in sizes), {"dim": 1}, "", "random")
    if kind == 1:
        groups = next(g for g in (4, 3, 2, 1) if shape[1] % g == 0)
        return Case("channel_shuffle", (_spec(dtype, *shape),), {"groups": groups}, "", "random")
    if kind == 2:
        rows, width, count = int(rng.choice([1000, 30522, 50257])), _channels(rng, 0.3), int(rng.choice([1, 77, 512]))
        if rows * width > 2 * _ELEMENTS:
            return None
        if _chance(rng, 0.5):
            bags, mode = int(rng.choice([1, 7, 64])), str(rng.choice(["sum", "mean", "max"]))
            scales = [_spec(dtype, count)] if mode == "sum" and _chance(rng, 0.5) else []
            bag = (_spec("s64", count), _spec(dtype, rows, width), _spec("s64", bags), *scales)
            if mode == "max" and _chance(rng, 0.5):
                return Case("embedding_bag_rows", bag, {}, "", "random")
            return Case("embedding_bag", bag, {"mode": mode}, "", "random")
        if _chance(rng, 0.3):
            places = (_spec(dtype, rows), _spec(dtype, count, width))
            return Case("searchsorted", places, {"right": _chance(rng, 0.5)}, "", "random")
        return Case("embedding", (_spec("s64", count), _spec(dtype, rows, width)), {}, "", "random")
    if kind == 3 and _chance(rng, 0.3):
        axis, step = int(rng.integers(0, len(shape))), int(rng.integers(1, 4))
        start = int(rng.integers(0, shape[axis]))
        part = [*shape]
        part[axis] = -(-(shape[axis] - start) // step)
        put = {"starts": [start], "axes": [axis], "steps": [step]}
        return Case("slice_scatter", (_spec(dtype, *shape), _spec(dtype, *part)), put, "", "random")
    if kind == 3:
        pads = [int(p) for p in rng.integers(0, 4, 2 * (len(shape) - 2))]
        mode = str(rng.choice(["constant", "replicate"]))
        return Case("pad", (_spec(dtype, *shape),), {"pad": pads, "mode": mode}, "", "random")
    if kind == 4:
        mode = "nearest" if _chance(rng, 0.4) else ("linear", "bilinear", "trilinear")[len(shape) - 3]
        attributes: dict[str, Any] = {"mode": mode}
        if _chance(rng, 0.6):
            attributes["scale_factor"] = [2.0] * (len(shape) - 2)
        else:
            attributes["size"] = [int(rng.integers(1, 2 * s + 2)) for s in shape[2:]]
        if mode != "nearest":
            attributes["align_corners"] = _chance(rng, 0.4)
        return Case("interpolate", (_spec(dtype, *shape),), attributes, "", "random")
    if kind == 5:
        half = (shape[0], shape[1], *shape[2:])
        back = {"groups": half[1], "sections": [half[1], half[1]]} if _chance(rng, 0.5) else {}
        return Case("interleave", (_spec(dtype, *half), _spec(dtype, *half)), back, "", "random")
    if kind == 6:
        repeats = [int(r) for r in rng.integers(1, 3, len(shape))]
        return Case("tile", (_spec(dtype, *shape),), {"dims": repeats}, "", "random")
    layouts = {3: ["NCW", "NWC", "nCw16c", "nCw8c"], 4: ["NCHW", "NHWC", "nChw16c", "nChw8c"]}
    layouts[5] = ["NCDHW", "NDHWC", "nCdhw16c", "nCdhw8c"]
    source, target = rng.choice(layouts[len(shape)], 2, replace=False)
    return Case("reorder", (f"{_spec(dtype, *shape)}@{source}",), {"target": str(target)}, "", "random")


def _recurrent(rng: Generator) -> Case | None:
    name, gates = [("lstm", 4), ("gru", 3), ("rnn", 1)][int(rng.integers(0, 3))]
    hidden = int(rng.choice([16, 33, 64, 128, 200, 255, 256, 257, 320, 512, 640, 1024]))
    features = int(rng.choice([1, 13, 40, 80, 128, 256, 300, 512, 768, 1024]))
    steps, batch = int(rng.choice([1, 2, 5, 16, 35])), int(rng.choice([1, 1, 2, 4, 16]))
    direction = str(rng.choice(["forward", "forward", "reverse", "bidirectional"]))
    directions = 2 if direction == "bidirectional" else 1
    if 2.0 * steps * batch * directions * gates * hidden * (hidden + features) > _FLOPS:
        return None
    dtype = "f32" if _chance(rng, 0.8) else _dtype(rng)
    attributes: dict[str, Any] = {"direction": direction}
    first = _chance(rng, 0.3)
    if first:
        attributes["batch_first"] = True
    if name == "gru":
        attributes["linear_before_reset"] = _chance(rng, 0.6)
    x = (batch, steps, features) if first else (steps, batch, features)
    state = _spec(dtype, *((batch, directions, hidden) if first else (directions, batch, hidden)))
    inputs: list[str | None] = [
        _spec(dtype, *x),
        _spec(dtype, directions, gates * hidden, features),
        _spec(dtype, directions, gates * hidden, hidden),
        _spec(dtype, directions, 2 * gates * hidden) if _chance(rng, 0.8) else None,
    ]
    if _chance(rng, 0.3):
        y = _spec(dtype, *((batch, steps, directions, hidden) if first else (steps, directions, batch, hidden)))
        inputs[3:3] = [y, y]
        if _chance(rng, 0.4):
            lengths = f"s64:{batch}" if _chance(rng, 0.5) else None
            inputs += [lengths, state, *([state, None, state, state] if name == "lstm" else [state])]
        return Case(f"{name}_backward", tuple(inputs), attributes, "", "random")
    if _chance(rng, 0.4):
        inputs += [None, state] + ([state] if name == "lstm" else [])
    return Case(name, tuple(inputs), attributes, "", "random")


def _quantized(rng: Generator) -> Case | None:
    scales = ("f32:", "f32:", "f32:")
    if _chance(rng, 0.3):
        m, k, n = int(rng.choice([1, 16, 77, 128])), _channels(rng), _channels(rng)
        if 2.0 * m * k * n > _FLOPS or k * n > _ELEMENTS:
            return None
        tensors = (f"u8:{m}x{k}", f"s8:{k}x{n}")
        if _chance(rng, 0.3):
            return Case("matmul_integer", (*tensors, "u8:", "s8:"), {}, "", "random")
        return Case("qlinear_matmul", (*tensors, *scales, "u8:", "s8:", "u8:"), {}, "", "random")
    case = _conv(rng)
    if case is None or "conv" not in case.op:
        return None
    specs = case.specs()
    x, weight = specs[0], specs[1]
    assert x is not None and weight is not None
    kept = ("stride", "padding", "dilation", "groups")
    attributes = {name: value for name, value in case.attributes.items() if name in kept}
    inputs: tuple[str | None, ...] = (_spec("u8", *x[1]), _spec("s8", *weight[1]))
    if _chance(rng, 0.2):
        return Case("conv_integer", (*inputs, "u8:"), attributes, "", "random")
    each = f"f32:{weight[1][0]}" if _chance(rng, 0.5) else "f32:"
    bias = f"s32:{weight[1][0]}" if _chance(rng, 0.7) else None
    inputs = (*inputs, "f32:", each, "f32:", "u8:", None, "u8:", bias)
    return Case("qlinear_conv", inputs, attributes, "", "random")


def _squeeze_excite(rng: Generator) -> Case | None:
    shape, dtype = _image(rng, 1 << 17), _dtype(rng)
    squeezed = max(1, shape[1] // int(rng.choice([4, 16])))
    inputs = (_spec(dtype, *shape), _spec(dtype, squeezed, shape[1]), _spec(dtype, squeezed))
    attributes = {"hidden": str(rng.choice(["relu", "silu"])), "gate": str(rng.choice(["sigmoid", "hardsigmoid"]))}
    weights = (*inputs[1:], _spec(dtype, shape[1], squeezed), _spec(dtype, shape[1]))
    if _chance(rng, 0.5):
        return Case("squeeze_excite_backward", (inputs[0], inputs[0], *weights), attributes)
    return Case("squeeze_excite", (inputs[0], *weights), attributes)


_EXPRESSIONS = (
    ("y0 = x0 * s0 + x1", None),
    ("t = sigmoid(x0); y0 = t * x1 + (1 - t) * s0", None),
    ("y0 = x0 > x1 ? x0 * x0 : exp(min(x1, 1))", None),
    ("y0 = clip(x0 + x1, -1, s0); y1 = max(x0, x1) * tanh(x1)", None),
    ("y0 = x0 * x1", "reduce_y0 += y0; y0 = reduce_y0 / count"),
    ("y0 = abs(x0 - x1)", "reduce_y0 max= y0"),
)


def _rare(rng: Generator) -> Case | None:
    """Ops that networks seldom have."""
    shape, dtype = _image(rng, 1 << 17), _dtype(rng)
    x = _spec(dtype, *shape)
    kind = int(rng.integers(0, 10))
    if kind == 0:
        expressions, reductions = _EXPRESSIONS[int(rng.integers(len(_EXPRESSIONS)))]
        attributes: dict[str, Any] = {"expressions": expressions, "scalars": [0.75]}
        if reductions:
            attributes.update(reductions=reductions, dim=[int(rng.integers(1, len(shape)))])
        return Case("pointwise", (x, x), attributes)
    if kind == 1:
        rows = _rows(rng)
        return Case("topk", (_spec(dtype, *rows),), {"k": int(rng.integers(1, min(64, rows[-1]) + 1))})
    if kind == 2:
        return Case("gather", (x, _spec("s64", *shape[:-1], 3)), {"dim": len(shape) - 1})
    if kind == 3:
        dim = int(rng.integers(0, len(shape)))
        return Case("index_select", (x, f"s64:{int(rng.integers(1, 70))}"), {"dim": dim})
    if kind == 4:
        return Case("cast", (x,), {"dtype": str(rng.choice([d for d in ("f32", "f16", "bf16", "s32") if d != dtype]))})
    if kind == 5:
        narrow = _spec(dtype, *(1 if _chance(rng, 0.4) else size for size in shape))
        return Case("expand", (narrow,), {"shape": list(shape)})
    if kind == 6:
        per_channel = f"f32:{shape[1]}" if _chance(rng, 0.5) else "f32:"
        zero = per_channel.replace("f32", "u8")
        if _chance(rng, 0.5):
            return Case("quantize_linear", (_spec("f32", *shape), per_channel, zero))
        return Case("dequantize_linear", (_spec("u8", *shape), per_channel, zero))
    if kind == 7:
        name = str(rng.choice(["prod", "reduce_sum_square"]))
        return Case(name, (x,), {"dim": [int(rng.integers(0, len(shape)))]})
    if kind == 8 and len(shape) > 2:
        rows = _rows(rng)
        columns = max(2, rows[-1] // 2 * 2)
        table = _spec(dtype, rows[-2], columns)
        turned = {"interleaved": True} if _chance(rng, 0.5) else {}
        return Case("rotary_embedding", (_spec(dtype, *rows[:-1], max(2, rows[-1])), table, table), turned)
    if kind == 9 and _chance(rng, 0.5):
        n, d, steps, states = int(rng.integers(1, 3)), *(int(rng.integers(1, most)) for most in (600, 50, 33))
        channels, by_step = _spec(dtype, n, d, steps), _spec(dtype, n, steps, states)
        inputs = (channels, channels, _spec(dtype, d, states), by_step, by_step)
        if _chance(rng, 0.5):
            return Case("selective_scan", inputs)
        return Case("selective_scan_backward", (*inputs, channels))
    name = str(rng.choice(["acosh", "isnan", "isinf", "threshold", "identity"]))
    return Case(name, (x,), {"threshold": 0.25, "value": -1.5} if name == "threshold" else {})


# By name: how often, and the generator.
FAMILIES: dict[str, tuple[float, Callable[[Generator], Case | None]]] = {
    "conv": (8, _conv),
    "conv_transpose": (5, lambda rng: _conv(rng, True)),
    "linear": (3, _linear),
    "matmul": (2, _matmul),
    "grouped": (1, _grouped),
    "few_bits": (1, _few_bits),
    "fourier": (1, _fourier),
    "attention": (2, _attention),
    "norm": (2, _norm),
    "softmax": (1, _softmax),
    "reduce": (1, _reduce),
    "pool": (2, _pool),
    "pool_indices": (0.5, _pool_indices),
    "elementwise": (2, _elementwise),
    "move": (2, _move),
    "recurrent": (1, _recurrent),
    "quantized": (2, _quantized),
    "squeeze_excite": (0.5, _squeeze_excite),
    "rare": (1, _rare),
    "sampling": (1, lambda rng: sampling_case(rng, _image)),
    "training": (2, lambda rng: training_case(rng, _conv, _pool, _image)),
}


def random_case(seed: int, number: int, ops: frozenset[str] = frozenset()) -> Case:
    """Case `number` of that seed: the same on every machine. ops: of these alone, where any is given."""
    rng = np.random.default_rng([seed, number])
    names = list(FAMILIES)
    shares = np.array([1.0 if ops else FAMILIES[name][0] for name in names])
    for _ in range(100_000):  # one op of a large family takes some thousand draws
        case = FAMILIES[str(rng.choice(names, p=shares / shares.sum()))][1](rng)
        if case is None or (ops and case.op not in ops):
            continue
        assert all(parse_spec(text) for text in case.inputs if text)
        return Case(case.op, case.inputs, case.attributes, case.strided, "random", int(rng.integers(1 << 30)))
    raise ValueError(f"no random case is of {', '.join(sorted(ops))}")

"""Networks of real widths against PyTorch in float64: their results agree to 1e-5 of the largest one."""

from __future__ import annotations

import io
import itertools
import math
import warnings
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import pylayout as pl  # noqa: E402
import pylayout.onnx  # noqa: E402


def seeded(module: Any, samples: tuple[Any, ...]) -> Any:
    """Weights and statistics that keep activations near unit scale, so that errors show.

    Statistics are those of `samples`: of few values some would be near zero by chance, and divide by that.
    """
    for part in module.modules():
        if isinstance(part, nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d):
            reached = math.prod(max(1, k // s) for k, s in zip(part.kernel_size, part.stride, strict=True))
            nn.init.normal_(part.weight, std=(2 / (part.in_channels * reached)) ** 0.5)
        elif isinstance(part, nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.Linear):
            nn.init.kaiming_normal_(part.weight, nonlinearity="relu")
        if getattr(part, "bias", None) is not None and isinstance(part.bias, torch.Tensor):
            nn.init.normal_(part.bias, std=0.5)
        if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):
            part.momentum = None
    if any(isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d) for part in module.modules()):
        module.train()
        with torch.no_grad():
            module(*samples)
    return module.eval()


class Dcgan(nn.Module):
    """The generator of Radford et al. 2015; each layer has a bias, as when its batch norm was folded."""

    def __init__(self) -> None:
        super().__init__()
        widths = (100, 1024, 512, 256, 128, 3)
        self.layers = nn.ModuleList(
            nn.ConvTranspose2d(ic, oc, 4, 1 if i == 0 else 2, 0 if i == 0 else 1)
            for i, (ic, oc) in enumerate(itertools.pairwise(widths))
        )

    def forward(self, x: Any) -> Any:
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        return torch.tanh(self.layers[-1](x) / 2)


class Double(nn.Sequential):
    def __init__(self, ic: int, oc: int) -> None:
        norms = [nn.BatchNorm2d(oc), nn.BatchNorm2d(oc)]
        convolutions = [nn.Conv2d(ic, oc, 3, padding=1), nn.Conv2d(oc, oc, 3, padding=1)]
        super().__init__(convolutions[0], norms[0], nn.ReLU(), convolutions[1], norms[1], nn.ReLU())


class UNet(nn.Module):
    """Ronneberger et al. 2015, 64 to 1,024 channels."""

    def __init__(self) -> None:
        super().__init__()
        widths = (64, 128, 256, 512, 1024)
        self.down = nn.ModuleList(Double(ic, oc) for ic, oc in zip((3, *widths), widths, strict=False))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * c, c, 2, 2) for c in widths[-2::-1])
        self.join = nn.ModuleList(Double(2 * c, c) for c in widths[-2::-1])
        self.last = nn.Conv2d(64, 2, 1)

    def forward(self, x: Any) -> Any:
        kept = []
        for level, block in enumerate(self.down):
            x = block(x if level == 0 else functional.max_pool2d(x, 2))
            kept.append(x)
        for up, join, skipped in zip(self.up, self.join, kept[-2::-1], strict=True):
            x = join(torch.cat([skipped, up(x)], 1))
        return self.last(x)


class HifiGan(nn.Module):
    """The generator V1 of Kong et al. 2020 with one of the three residual blocks a level."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(80, 512, 7, padding=3)
        sizes = ((512, 16, 8), (256, 16, 8), (128, 4, 2), (64, 4, 2))
        self.ups = nn.ModuleList(nn.ConvTranspose1d(c, c // 2, k, s, (k - s) // 2) for c, k, s in sizes)
        self.blocks = nn.ModuleList(
            nn.ModuleList(nn.Conv1d(c // 2, c // 2, 7, dilation=d, padding=3 * d) for d in (1, 3, 5))
            for c, _, _ in sizes
        )
        self.last = nn.Conv1d(32, 1, 7, padding=3)

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        for up, block in zip(self.ups, self.blocks, strict=True):
            x = up(functional.leaky_relu(x, 0.1))
            for layer in block:
                x = x + 0.3 * layer(functional.leaky_relu(x, 0.1))
        return torch.tanh(self.last(functional.leaky_relu(x)) / 8)


class Conformer(nn.Module):
    """One block of Gulati et al. 2020, width 256."""

    def __init__(self, d: int = 256, heads: int = 4, kernel: int = 31) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(5))
        self.feeds = nn.ModuleList(nn.ModuleList([nn.Linear(d, 4 * d), nn.Linear(4 * d, d)]) for _ in range(2))
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.enter, self.leave = nn.Conv1d(d, 2 * d, 1), nn.Conv1d(d, d, 1)
        self.depthwise = nn.Conv1d(d, d, kernel, padding=kernel // 2, groups=d)
        self.norm = nn.BatchNorm1d(d)

    def feed(self, x: Any, i: int) -> Any:
        return self.feeds[i][1](functional.silu(self.feeds[i][0](x)))

    def forward(self, x: Any) -> Any:
        n, t, d = x.shape
        x = x + 0.5 * self.feed(self.norms[0](x), 0)
        q, k, v = (
            part.reshape(n, t, self.heads, d // self.heads).transpose(1, 2)
            for part in self.qkv(self.norms[1](x)).split(d, dim=2)
        )
        weights = torch.softmax(q @ k.transpose(2, 3) / math.sqrt(d // self.heads), dim=-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(n, t, d))
        y = functional.glu(self.enter(self.norms[2](x).transpose(1, 2)), dim=1)
        x = x + self.leave(functional.silu(self.norm(self.depthwise(y)))).transpose(1, 2)
        x = x + 0.5 * self.feed(self.norms[3](x), 1)
        return self.norms[4](x)


class Lstm(nn.Module):
    """Two layers, the second bidirectional, and a projection."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.LSTM(300, 512, batch_first=True)
        self.second = nn.LSTM(512, 256, batch_first=True, bidirectional=True)
        self.last = nn.Linear(512, 1000)

    def forward(self, x: Any) -> Any:
        return self.last(self.second(self.first(x)[0])[0])


class Dlrm(nn.Module):
    """Naumov et al. 2019 with 26 tables of width 64."""

    def __init__(self, tables: int = 26, width: int = 64) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(1000, width) for _ in range(tables))
        self.bottom = self.layers(13, 512, 256, width)
        pairs = (tables + 1) * tables // 2
        self.top = self.layers(width + pairs, 1024, 1024, 512, 256, 1)
        rows, columns = np.tril_indices(tables + 1, -1)
        self.register_buffer("pairs", torch.from_numpy(rows * (tables + 1) + columns))

    @staticmethod
    def layers(*widths: int) -> Any:
        parts: list[Any] = []
        for ic, oc in itertools.pairwise(widths):
            parts += [nn.Linear(ic, oc), nn.ReLU()]
        return nn.Sequential(*(parts[:-1] if widths[-1] == 1 else parts))

    def forward(self, dense: Any, index: Any) -> Any:
        x = self.bottom(dense)
        features = torch.stack([x, *(table(index[:, i]) for i, table in enumerate(self.tables))], 1)
        products = features @ features.transpose(1, 2) / 8
        chosen = torch.index_select(products.flatten(1), 1, self.pairs)
        return torch.sigmoid(self.top(torch.cat([x, chosen], 1)))


class Espcn(nn.Module):
    """Shi et al. 2016, factor 3."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Conv2d(ic, oc, k, padding=k // 2) for ic, oc, k in ((1, 64, 5), (64, 32, 3), (32, 9, 3))
        )

    def forward(self, x: Any) -> Any:
        x = torch.tanh(self.layers[1](torch.tanh(self.layers[0](x))))
        return functional.pixel_shuffle(self.layers[2](x), 3)


NETWORKS: dict[str, tuple[Any, Any]] = {
    "dcgan": (Dcgan, lambda: (torch.randn(2, 100, 1, 1),)),
    "unet": (UNet, lambda: (torch.randn(1, 3, 64, 48),)),
    "hifigan": (HifiGan, lambda: (torch.randn(1, 80, 12),)),
    "conformer": (Conformer, lambda: (torch.randn(1, 60, 256),)),
    "lstm": (Lstm, lambda: (torch.randn(2, 12, 300),)),
    "dlrm": (Dlrm, lambda: (torch.randn(16, 13), torch.randint(0, 1000, (16, 26)))),
    "espcn": (Espcn, lambda: (torch.randn(1, 1, 45, 80),)),
}

# For the statistics of batch norms, where one input is not enough.
SAMPLES: dict[str, Any] = {"unet": lambda: (torch.randn(4, 3, 96, 96),)}


def export(module: Any, inputs: tuple[Any, ...]) -> Any:
    content = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = [f"x{i}" for i in range(len(inputs))]
        torch.onnx.export(module, inputs, content, dynamo=False, opset_version=17, input_names=names)
    return onnx.load_model_from_string(content.getvalue())


def check(name: str, device: str, layout: str) -> None:
    torch.manual_seed(0)
    make, inputs_of = NETWORKS[name]
    inputs = inputs_of()
    module = seeded(make(), SAMPLES[name]() if name in SAMPLES else inputs)
    model = export(module, inputs)
    with torch.no_grad():
        own = module(*inputs).numpy()
        wanted = module.double()(*(x.double() if x.is_floating_point() else x for x in inputs)).numpy()
    plan = pl.compile(pl.onnx.load(model), device=device, layout=layout)
    (found,) = plan.run(*(x.numpy() for x in inputs))

    def error_of(values: Any) -> float:
        return float(np.abs(np.asarray(values) - wanted).max() / np.abs(wanted).max())

    assert error_of(found) < 1e-5, f"{name} on {device} in {layout}: {error_of(found):.2e}, PyTorch {error_of(own):.2e}"


@pytest.mark.parametrize("name", NETWORKS)
def test_agrees_with_pytorch(name: str, untuned: None) -> None:
    check(name, "cpu", "auto")


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["auto", "NCHW", "NHWC", "nChw16c"])
@pytest.mark.parametrize("name", NETWORKS)
def test_agrees_in_each_layout(name: str, device: str, layout: str, untuned: None) -> None:
    check(name, device, layout)

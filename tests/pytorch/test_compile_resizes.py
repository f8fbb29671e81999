"""torch.compile(backend="pylayout") and pl.compile: resized images run in plans, as one op each way."""

import pytest

torch = pytest.importorskip("torch")

from compile_testing import close, compiled, fresh  # noqa: E402, F401

import pylayout as pl  # noqa: E402
import pylayout.torch  # noqa: E402

nn = torch.nn
pytestmark = pytest.mark.usefixtures("untuned")

MODES = [
    (1, "nearest", {"scale_factor": 1.5}),
    (1, "linear", {"size": 9, "align_corners": True}),
    (2, "nearest", {"scale_factor": 2}),
    (2, "nearest", {"scale_factor": (1.5, 0.7)}),
    (2, "nearest-exact", {"size": (9, 4)}),
    (2, "bilinear", {"scale_factor": 2, "align_corners": False}),
    (2, "bilinear", {"scale_factor": 1.3, "align_corners": False}),
    (2, "bilinear", {"scale_factor": 1.3, "recompute_scale_factor": True}),
    (2, "bilinear", {"size": (4, 9), "antialias": True}),
    (2, "bicubic", {"size": (4, 9), "align_corners": True}),
    (3, "trilinear", {"scale_factor": (2, 1.5, 1)}),
    # Where the size stays some of PyTorch's functions pass over the scale.
    (1, "nearest", {"scale_factor": 1.1}),
    (1, "linear", {"scale_factor": 1.1}),
    (2, "nearest", {"scale_factor": 1.1}),
    (2, "nearest", {"scale_factor": 2.1}),
    (2, "bilinear", {"scale_factor": (1.1, 1.6)}),
    (2, "bilinear", {"scale_factor": 1.1, "antialias": True}),
    (2, "bicubic", {"scale_factor": 1.1}),
    (2, "bicubic", {"scale_factor": 1.1, "antialias": True}),
    (1, "nearest-exact", {"scale_factor": 1.1}),
    (2, "nearest-exact", {"scale_factor": 1.1}),
    (3, "nearest", {"scale_factor": 1.1}),
    (3, "trilinear", {"scale_factor": 1.1}),
]


def resized(mode, options):
    return lambda x: nn.functional.interpolate(x * 2, mode=mode, **options) * 3


@pytest.mark.parametrize(("rank", "mode", "options"), MODES)
def test_resizing_is_one_op_each_way(rank, mode, options):
    function = resized(mode, options)
    x = torch.randn(2, 3, *(5, 6, 4)[:rank])
    if rank == 2:
        x = x.contiguous(memory_format=torch.channels_last)
    fast, y = compiled(function), x.clone().requires_grad_()
    x.requires_grad_()
    made, expected = fast(x), function(y)
    close(made, expected)
    assert made.stride() == expected.stride()
    made.square().sum().backward()
    expected.square().sum().backward()
    close(x.grad, y.grad, 1e-4)
    for graph in pylayout.torch.report().graphs:
        assert graph.planned == 3 and not graph.left, str(graph)


@pytest.mark.parametrize(
    ("mode", "options"),
    [
        ("bilinear", {"scale_factor": 2}),
        ("nearest", {"scale_factor": 2}),
        ("bilinear", {"scale_factor": 1.5, "align_corners": True}),
        ("nearest", {"scale_factor": 1.5}),  # for odd sizes the scale is not their ratio
        ("bicubic", {"size": (9, 4)}),
    ],
)
def test_resizing_images_of_any_size(mode, options):
    function = resized(mode, options)
    fast = torch.compile(function, backend="pylayout", dynamic=True)
    for h, w in ((4, 6), (8, 10), (5, 7)):
        x = torch.randn(2, 3, h, w)
        y = x.clone().requires_grad_()
        x.requires_grad_()
        made, expected = fast(x), function(y)
        close(made, expected)
        made.square().sum().backward()
        expected.square().sum().backward()
        close(x.grad, y.grad, 1e-4)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_resizing_to_the_size_of_another_image_is_one_plan_for_any(mode):
    def function(x, y):
        return nn.functional.interpolate(x, size=y.shape[-2:], mode=mode, align_corners=False) + y

    fast = torch.compile(function, backend="pylayout", dynamic=True)
    for h, w in ((8, 10), (9, 13)):
        x, y = torch.randn(2, 3, 4, 5), torch.randn(2, 3, h, w)
        close(fast(x, y), function(x, y))
    (graph,) = pylayout.torch.report().graphs
    assert graph.partitions == 1 and not graph.left, str(graph)


def test_mixed_precision_resizes_in_float32_as_eager_mode_does():
    function = resized("bilinear", {"scale_factor": 2})
    layer, x = nn.Conv2d(3, 4, 1), torch.randn(1, 3, 4, 4)

    def mixed(x):
        with torch.autocast("cpu", torch.bfloat16):
            return function(layer(x))

    made, expected = compiled(mixed)(x), mixed(x)
    assert made.dtype == expected.dtype
    torch.testing.assert_close(made.float(), expected.float(), rtol=2e-2, atol=2e-2)


def test_integers_and_areas_are_left_to_pytorch():
    def function(x, y):
        resize = nn.functional.interpolate
        return resize(x, scale_factor=2), resize(y, size=3, mode="area")

    x, y = torch.arange(12, dtype=torch.uint8).reshape(1, 1, 3, 4), torch.randn(1, 2, 6, 9)
    for mine, theirs in zip(compiled(function)(x, y), function(x, y), strict=True):
        close(mine, theirs)
    with pytest.raises(Exception, match="only one of size or scale_factor"):
        compiled(lambda x: nn.functional.interpolate(x, size=3, scale_factor=2.0))(y)


@pytest.mark.parametrize(("mode", "scale"), [("nearest", 1.5), ("bilinear", 1.5), ("bilinear", (0.75, 2.25))])
def test_exported_modules_resize_images_of_any_size_by_fractions(mode, scale):
    class Resized(nn.Module):
        def forward(self, x):
            y = nn.functional.interpolate(x, scale_factor=scale, mode=mode)
            return y.flatten(2) * 2  # whose sizes follow, too

    model, dim = Resized(), torch.export.Dim
    shapes = {"x": {2: dim("h", min=4, max=64), 3: dim("w", min=4, max=64)}}
    plan = pl.compile(model, (torch.randn(1, 3, 8, 10),), dynamic=shapes)
    for h, w in ((8, 10), (9, 11), (13, 7)):
        x = torch.randn(1, 3, h, w)
        torch.testing.assert_close(torch.tensor(plan.run(x.numpy())[0]), model(x), rtol=1e-4, atol=1e-5)


def test_exported_modules_refuse_sizes_that_are_rounded():
    class Resized(nn.Module):
        def forward(self, x):
            return nn.functional.interpolate(x, scale_factor=1.1)

    shapes = {"x": {2: torch.export.Dim("h", min=4, max=64)}}
    with pytest.raises(pl.errors.UnsupportedError, match=r"a size times 1\.1, of which floats are rounded"):
        pl.compile(Resized(), (torch.randn(1, 3, 8, 10),), dynamic=shapes)


@pytest.mark.parametrize(
    ("dynamic", "rank", "mode", "options"), [(True, *MODES[2]), (False, *MODES[6]), (True, *MODES[5])]
)
def test_exported_modules_resize(dynamic, rank, mode, options):
    class Resized(nn.Module):
        def forward(self, x):
            return nn.functional.interpolate(x, mode=mode, **options)

    model, x = Resized(), torch.randn(2, 3, *(5, 6, 4)[:rank])
    shapes = ({0: torch.export.Dim("n", min=1)},) if dynamic else None
    plan = pl.compile(model, (x,), dynamic=shapes)
    for n in (2, 3) if dynamic else (2,):
        x = torch.randn(n, *x.shape[1:])
        torch.testing.assert_close(torch.tensor(plan.run(x.numpy())[0]), model(x), rtol=1e-5, atol=1e-5)

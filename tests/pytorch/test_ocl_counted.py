"""Ops of the device ocl whose results are as large as values say, against the CPU."""

import pytest

torch = pytest.importorskip("torch")

import ocl_device  # noqa: E402, F401

OCL = "ocl:0"
SHAPES = [(), (1,), (300,), (7, 5), (2, 3, 4, 5), (0,), (3, 0)]


@pytest.fixture(autouse=True)
def quiet(unoptimised):
    torch.ocl.clear_fallbacks()
    torch.ocl.set_fallback("silent")
    yield
    assert torch.ocl.fallbacks() == []


def few(shape, dtype=torch.float32):
    """Often zero, often equal."""
    generator = torch.Generator().manual_seed(3)
    return torch.randint(-1, 2, shape, generator=generator).to(dtype)


def same(made, wanted):
    torch.testing.assert_close(tuple(each.cpu() for each in made), tuple(wanted), rtol=0, atol=0)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_nonzero(shape):
    for dtype in (torch.float32, torch.int64, torch.bool):
        x = few(shape, dtype)
        same([x.to(OCL).nonzero()], [x.nonzero()])
    none = torch.zeros(shape)
    same([none.to(OCL).nonzero()], [none.nonzero()])
    same([torch.nonzero_static(few((9,)).to(OCL), size=12)], [torch.nonzero_static(few((9,)), size=12)])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_masked_select(shape):
    x, mask = torch.arange(float(few(shape).numel())).reshape(shape), few(shape) > 0
    same([x.to(OCL).masked_select(mask.to(OCL))], [x.masked_select(mask)])
    same([x.to(OCL)[mask.to(OCL)]], [x[mask]])


def test_masks_that_broadcast_or_are_wrong():
    x, mask = torch.randn(3, 4), torch.tensor([True, False, True])
    same([x.to(OCL).masked_select(mask[:, None].to(OCL))], [x.masked_select(mask[:, None])])
    same([x.to(OCL)[mask.to(OCL)], x.to(OCL)[:, few((4,)).to(OCL) > 0]], [x[mask], x[:, few((4,)) > 0]])
    with pytest.raises(IndexError, match="shape of the mask"):
        x.to(OCL)[torch.tensor([True, False], device=OCL)]
    with pytest.raises(RuntimeError, match="BoolTensor"):
        x.to(OCL).masked_select(torch.ones(3, 4, dtype=torch.int64, device=OCL))


def put(x, mask, values):
    """By the device of x."""
    changed, mask = x.clone(), mask.to(x.device)
    changed[mask] = values.to(x.device) if isinstance(values, torch.Tensor) else values
    return changed


@pytest.mark.parametrize(
    "mask", [few((4, 6)) > 0, few((4,)) > 0, torch.zeros(4, 6, dtype=torch.bool)], ids=["all", "rows", "none"]
)
def test_putting_by_masks(mask):
    x = torch.randn(4, 6)
    count = int(mask.sum())
    each = torch.randn(count, *x.shape[mask.dim() :])
    for values in (2.5, each, torch.randn(1)):
        same([put(x.to(OCL), mask, values)], [put(x, mask, values)])
    assert torch.ocl.fallbacks() == []
    if count:  # the CPU's kernel says what is wrong
        with pytest.raises((IndexError, RuntimeError), match="shape"):
            put(x.to(OCL), mask, torch.randn(count + 1, *x.shape[mask.dim() :]))
        torch.ocl.clear_fallbacks()


def test_gradients_by_masks():
    made = []
    for device in ("cpu", OCL):
        x = torch.linspace(-1, 1, 24).reshape(4, 6).to(device).requires_grad_()
        (x[x > 0].square().sum() + x[:, torch.tensor([True, False] * 3, device=device)].sum()).backward()
        made.append(x.grad.cpu())
    torch.testing.assert_close(*made)


@pytest.mark.parametrize("shape", [(300,), (4, 6), (0,)], ids=str)
def test_unique(shape):
    x = few(shape)
    options = {"return_inverse": True, "return_counts": True}
    for function in (torch.unique, torch.unique_consecutive):
        same(function(x.to(OCL), **options), function(x, **options))


def test_unique_slices_that_are_neighbours():
    x = few((9, 2))[:, :1].expand(9, 2).contiguous()
    options = {"return_inverse": True, "return_counts": True, "dim": 0}
    same(torch.unique_consecutive(x.to(OCL), **options), torch.unique_consecutive(x, **options))


def test_an_unsafe_view_shares_memory():
    x = torch.randn(4, 6, device=OCL)
    assert torch.ops.aten._unsafe_view(x, [2, 12]).data_ptr() == x.data_ptr()


def test_eye():
    same([torch.eye(3, 5, device=OCL), torch.eye(2, device=OCL)], [torch.eye(3, 5), torch.eye(2)])

"""What modules call on the device ocl beside common ops: layers of encoders, indices of the host, counts in bins."""

import copy

import pytest

torch = pytest.importorskip("torch")

import ocl_device  # noqa: E402, F401

nn = torch.nn
OCL = "ocl:0"


@pytest.fixture(autouse=True)
def quiet(unoptimised):
    torch.ocl.clear_fallbacks()
    torch.ocl.set_fallback("silent")
    yield
    assert torch.ocl.fallbacks() == []


@pytest.mark.parametrize("padded", [False, True])
def test_an_encoder_in_evaluation_stays_on_the_device(padded):
    """Also with a mask of padding, for which PyTorch makes nested tensors where a device has them."""
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 24, batch_first=True), 1).eval()
    x, mask = torch.randn(2, 5, 16), torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    given = {"src_key_padding_mask": mask} if padded else {}
    there = {key: value.to(OCL) for key, value in given.items()}
    moved = copy.deepcopy(model).to(OCL)
    with torch.no_grad():
        made, wanted = moved(x.to(OCL), **there).cpu(), model.double()(x.double(), **given)
    counts = ~mask if padded else torch.ones_like(mask)  # of padding PyTorch gives zeros where it has nested tensors
    torch.testing.assert_close(made[counts].double(), wanted[counts], rtol=1e-5, atol=1e-5)


def test_attention_of_several_heads_in_evaluation_stays_on_the_device():
    model, x = nn.MultiheadAttention(16, 2, batch_first=True).eval(), torch.randn(2, 5, 16)
    mask = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    moved = copy.deepcopy(model).to(OCL)
    with torch.no_grad():
        there = moved(*[x.to(OCL)] * 3, key_padding_mask=mask.to(OCL))
        for made, wanted in zip(there, model(x, x, x, key_padding_mask=mask), strict=True):
            torch.testing.assert_close(made.cpu(), wanted, rtol=1e-5, atol=1e-5)


def test_indices_of_the_host():
    x, places = torch.randn(5, 6), torch.tensor([3, 1, -1])
    mask = torch.tensor([True, False, True, False, True])
    functions = [
        lambda t: t[places],
        lambda t: t[:, places],
        lambda t: t[mask],
        lambda t: t[places.to(t.device), places],
        lambda t: t.clone().index_put_((places,), torch.ones(6, device=t.device), accumulate=True),
        lambda t: t.clone().index_put_((mask,), torch.tensor(2.0)),
    ]
    for function in functions:
        assert torch.equal(function(x.to(OCL)).cpu(), function(x))
    leaf = x.to(OCL).requires_grad_()
    (leaf[places].sum() + leaf[mask].sum()).backward()
    assert leaf.grad.cpu()[:, 0].tolist() == [1, 1, 1, 1, 2]


def test_counts_in_bins():
    x = torch.cat([torch.randn(90), torch.tensor([float("nan"), 2.5, -2.5])])
    for arguments in ((7, -1, 1.5), (4, 0.25, 9), (5, -2.5, 2.5)):
        assert torch.equal(torch.histc(x.to(OCL), *arguments).cpu(), torch.histc(x, *arguments))
    assert torch.equal(torch.histc(x[:90].to(OCL), 9).cpu(), torch.histc(x[:90], 9))
    assert torch.equal(torch.histc(torch.full((3,), 2.0, device=OCL), 4).cpu(), torch.histc(torch.full((3,), 2.0), 4))
    whole = torch.tensor([0, 3, 3, 1, 7, -1, 3], dtype=torch.int32, device=OCL)  # which the CPU does not count
    made = torch.histc(whole, 4, 0, 3)
    assert made.dtype == torch.int32 and made.tolist() == [1, 1, 0, 3]
    with pytest.raises(RuntimeError, match="0 bins between"):
        torch.histc(x.to(OCL), 0, 0, 1)


def test_numbers_at_equal_distances():
    assert torch.equal(torch.linspace(-1, 2, 7, device=OCL).cpu(), torch.linspace(-1, 2, 7))
    grid = nn.functional.affine_grid(torch.eye(2, 3, device=OCL)[None], [1, 1, 3, 4], align_corners=False)
    torch.testing.assert_close(
        grid.cpu(), nn.functional.affine_grid(torch.eye(2, 3)[None], [1, 1, 3, 4], align_corners=False)
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool], ids=str)
def test_the_largest_and_the_smallest_so_far(dtype):
    for shape, dim in (((3, 33, 2), 1), ((2, 9), -1), ((1, 5), 0), ((4,), 0), ((), 0), ((0, 3), 1)):
        x = torch.randint(0, 2 if dtype == torch.bool else 5, shape).to(dtype)
        if dtype.is_floating_point and x.numel() > 4:
            x.view(-1)[2], x.view(-1)[-1] = float("nan"), -float("inf")
        for function in (torch.cummax, torch.cummin):
            for mine, theirs in zip(function(x.to(OCL), dim), function(x, dim), strict=True):
                torch.testing.assert_close(mine.cpu(), theirs, rtol=0, atol=0, equal_nan=True)
    if dtype == torch.float32:
        x = torch.randn(4, 9)
        leaves = [x.clone().requires_grad_(), x.to(OCL).requires_grad_()]
        for leaf in leaves:
            leaf.cummax(1)[0].square().sum().backward()
        torch.testing.assert_close(leaves[1].grad.cpu(), leaves[0].grad)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.float16], ids=str)
def test_quotients_and_order_of_integers_and_halves(dtype):
    x = torch.randint(0 if dtype == torch.uint8 else -9, 9, (6, 7)).to(dtype)
    y = torch.randint(1, 5, (6, 7)).to(dtype)
    functions = [
        lambda x, y: x // y, lambda x, y: x % y, torch.fmod, lambda x, y: torch.div(x, y, rounding_mode="trunc"),
        lambda x, y: x.topk(3)[0], lambda x, y: x.kthvalue(2)[0], lambda x, y: x.median(1)[0],
        lambda x, y: (x > 0).sort(dim=1, stable=True), lambda x, y: ((x > 0).amax(1), (x > 0).amin()),
    ]  # fmt: skip
    for function in functions:
        made, wanted = function(x.to(OCL), y.to(OCL)), function(x, y)
        for mine, theirs in zip(
            *[each if isinstance(each, tuple) else (each,) for each in (made, wanted)], strict=True
        ):
            assert torch.equal(mine.cpu(), theirs)


def test_indices_around_other_dimensions():
    x, first, last = torch.randn(3, 5, 4), torch.tensor([2, 0]), torch.tensor([[1], [-1]])
    assert torch.equal(x.to(OCL)[first.to(OCL), :, last.to(OCL)].cpu(), x[first, :, last])
    values = torch.randn(2, 2, 5)
    wanted = x.clone().index_put_((first, torch.arange(5)[:, None, None], last), values.permute(2, 0, 1))
    made = x.to(OCL)
    made[first.to(OCL), :, last.to(OCL)] = values.to(OCL)
    assert torch.equal(made.cpu(), wanted)


def _dual(function):
    def tangent(weight, x, target):
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(weight, weight + 1)
            return torch.autograd.forward_ad.unpack_dual(function(dual, x, target)).tangent

    return tangent


TRANSFORMED = {
    "cross entropy": lambda weight, x, target: nn.functional.cross_entropy(x @ weight, target),
    "pooling": lambda weight, x, target: nn.functional.max_pool2d((x @ weight)[None, None], 2).square().sum(),
    "pooling of volumes": lambda weight, x, target: (
        nn.functional.max_pool3d((x @ weight)[None, None, None], (1, 2, 2)).square().sum()
    ),
    "dropout": lambda weight, x, target: (
        nn.functional.dropout(x.square() @ weight.square(), 0.5).lt(-1).sum() + (x @ weight).square().sum()
    ),
}
TRANSFORMS = {
    "grad": torch.func.grad,
    "vmap of grad": lambda function: (
        lambda weight, x, target: torch.func.vmap(torch.func.grad(function), (None, 0, 0), randomness="different")(
            weight, x.reshape(3, 2, 4), target.reshape(3, 2)
        )
    ),
    "jvp": lambda function: (
        lambda weight, x, target: torch.func.jvp(lambda weight: function(weight, x, target), (weight,), (weight + 1,))[
            1
        ]
    ),
    "forward mode": _dual,
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", TRANSFORMED)
def test_transforms_of_functions_with_gradients_of_their_own(name, transform):
    """Gradients that are written in C++ are not known within transforms of torch.func: PyTorch's ops are taken."""
    function = TRANSFORMS[transform](TRANSFORMED[name])
    weight, x, target = torch.randn(4, 4), torch.randn(6, 4), torch.randint(0, 4, (6,))
    made = function(*[each.to(OCL) for each in (weight, x, target)])
    torch.testing.assert_close(made.cpu().double(), function(weight.double(), x.double(), target), rtol=1e-5, atol=1e-5)


def test_an_empty_batch_trains():
    model = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(54, 2)).to(OCL)
    x = torch.randn(0, 3, 8, 8, device=OCL, requires_grad=True)
    model(x).sum().backward()
    assert x.grad.shape == x.shape
    for parameter in model.parameters():
        assert not parameter.grad.cpu().any() and parameter.grad.shape == parameter.shape

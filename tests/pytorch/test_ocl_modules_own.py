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

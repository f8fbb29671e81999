"""Bits of integers on the device ocl: every form of the ops gives what the CPU does, and runs on the device."""

import operator

import pytest

torch = pytest.importorskip("torch")

import ocl_device  # noqa: E402, F401

OCL = "ocl:0"
DTYPES = (torch.uint8, torch.int8, torch.int32, torch.int64)
SIGNS = (operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift)
IN_PLACE = (operator.iand, operator.ior, operator.ixor, operator.ilshift, operator.irshift)


@pytest.fixture(autouse=True)
def on_the_device(unoptimised):
    torch.ocl.clear_fallbacks()
    torch.ocl.set_fallback("error")
    yield
    torch.ocl.set_fallback("silent")


def some(dtype, *shape, seed=0):
    limits = torch.iinfo(dtype)
    generator = torch.Generator().manual_seed(seed)
    made = torch.randint(limits.min, limits.max, shape, generator=generator, dtype=dtype)
    made.view(-1)[:2] = torch.tensor([limits.min, limits.max], dtype=dtype)
    return made


def counts(dtype):
    return torch.tensor([0, 1, 7, 8, 31, 32, 63, 64, 100, -1, -64]).to(dtype)


def same(made, wanted):
    assert made.device.type == "ocl"
    torch.testing.assert_close(made.cpu(), wanted, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("sign", SIGNS, ids=lambda sign: sign.__name__)
def test_operators(sign, dtype):
    x = some(dtype, 3, 11)
    y = counts(dtype) if "shift" in sign.__name__ else some(dtype, 11, seed=1)
    same(sign(x.to(OCL), y.to(OCL)), sign(x, y))
    for number in (0, 3, 64, -1):
        same(sign(x.to(OCL), number), sign(x, number))
    same(sign(77, y.to(OCL)), sign(77, y))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("sign", IN_PLACE, ids=lambda sign: sign.__name__)
def test_in_place(sign, dtype):
    for y in (counts(dtype) if "shift" in sign.__name__ else some(dtype, 11, seed=1), 3):
        x = some(dtype, 3, 11)
        there, place = x.to(OCL), None
        place = there.data_ptr()
        made = sign(there, y.to(OCL) if isinstance(y, torch.Tensor) else y)
        assert made is there and made.data_ptr() == place
        same(made, sign(x, y))


@pytest.mark.parametrize("name", ["and", "or", "xor", "left_shift", "right_shift"])
def test_named_with_out_and_in_place(name):
    function = getattr(torch, f"bitwise_{name}")
    x, y = some(torch.int32, 4, 11), counts(torch.int32)
    out = torch.empty(0, dtype=torch.int32, device=OCL)
    same(function(x.to(OCL), y.to(OCL), out=out), function(x, y))
    wide = torch.empty(4, 11, dtype=torch.int64, device=OCL)  # a result of another dtype that holds it
    same(function(x.to(OCL), y.to(OCL), out=wide), function(x, y).to(torch.int64))
    there = x.to(OCL)
    getattr(there, f"bitwise_{name}_")(y.to(OCL))
    same(there, function(x, y))
    view = x.to(OCL).t()
    same(function(view, 3), function(x.t(), 3))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_negated(dtype):
    x = some(dtype, 3, 5)
    there = x.to(OCL)
    same(~there, ~x)
    same(torch.bitwise_not(there, out=torch.empty_like(there)), ~x)
    same(there.bitwise_not_(), ~x)


def test_of_truth_values_they_are_logical():
    x, y = torch.tensor([False, False, True, True]), torch.tensor([False, True, False, True])
    for sign in SIGNS[:3]:
        same(sign(x.to(OCL), y.to(OCL)), sign(x, y))
        same(sign(x.to(OCL), True), sign(x, True))
    same(~x.to(OCL), ~x)
    # As generate() ends texts: whole numbers and truth values.
    live = torch.tensor([1, 1, 0, 1])
    same(live.to(OCL) & ~x.to(OCL), live & ~x)


def test_numbers_that_no_double_holds():
    x, odd = some(torch.int64, 9), (1 << 62) + 1
    same(x.to(OCL) & odd, x & odd)
    same(x.to(OCL) ^ odd, x ^ odd)
    same(x.to(OCL) & torch.tensor(odd), x & torch.tensor(odd))


def test_empty_tensors():
    x = torch.empty(3, 0, dtype=torch.int64)
    same(x.to(OCL) & 1, x & 1)
    same(~x.to(OCL), ~x)
    same(x.to(OCL) << torch.empty(0, dtype=torch.int64, device=OCL), x)


def test_vector_of_whole_numbers_in_a_compiled_graph():
    """One plan, of what a hash does."""
    import pylayout.torch

    def hashed(x, y):
        x = (x ^ (x >> 16)) * 0x45D9F3B
        return ((x ^ (x >> 16)) & 0x7FFFFFFF) | (y << 3), ~x

    x, y = some(torch.int64, 7, 5), torch.arange(5)
    torch._dynamo.reset()
    pylayout.torch.reset()
    made = torch.compile(hashed, backend="pylayout", fullgraph=True)(x.to(OCL), y.to(OCL))
    for mine, theirs in zip(made, hashed(x, y), strict=True):
        same(mine, theirs)
    (graph,) = pylayout.torch.report().graphs
    assert graph.partitions == 1 and not graph.left, str(graph)


def test_the_sampler_of_detectors(torchvision_models):
    """Faster R-CNN chooses among its proposals by masks of bytes."""
    utils = pytest.importorskip("torchvision.models.detection._utils")
    matched = torch.randint(-1, 3, (60,), generator=torch.Generator().manual_seed(3))
    positive, negative = utils.BalancedPositiveNegativeSampler(16, 0.25)([matched.to(OCL)])
    chosen = torch.where(positive[0] | negative[0])[0]
    assert positive[0].dtype == torch.uint8 and chosen.device.type == "ocl"
    assert chosen.numel() == 16 and (matched[chosen.cpu()] >= 0).all()

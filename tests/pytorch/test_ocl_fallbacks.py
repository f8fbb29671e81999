"""What the CPU runs in the place of the device ocl is counted, warned about and refused, whoever runs it there."""

import logging
import warnings

import pytest

torch = pytest.importorskip("torch")

import ocl_device  # noqa: E402, F401

import pylayout as pl  # noqa: E402
from pylayout.ocl import programs  # noqa: E402
from pylayout.ocl.shim import shim  # noqa: E402
from pylayout.torch.registry import converter, converters  # noqa: E402

OCL = "ocl:0"


@pytest.fixture(autouse=True)
def quiet(unoptimised):
    torch.ocl.clear_fallbacks()
    torch.ocl.set_fallback("warn")
    yield
    torch.ocl.clear_fallbacks()
    torch.ocl.set_fallback("silent")


@torch.library.custom_op("pylayout_tests::widen", mutates_args=())
def widen(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """An op of PyTorch that is one of the library's: with scales along this axis `cpu` alone has a kernel of it."""
    return torch.relu(x * torch.relu(scale).view(1, 1, -1, 1))


@widen.register_fake
def _(x, scale):
    return x.new_empty(x.shape, dtype=scale.dtype)


@pytest.fixture(scope="module", autouse=True)
def registered():
    converters()

    @converter("pylayout_tests.widen.default")
    def convert(call, x, scale):
        return call.op("relu", call.op("dequantize_linear", x, call.op("relu", scale), axis=2))

    shim().call("register", b"pylayout_tests::widen")
    yield
    del converters()["pylayout_tests.widen.default"]


def given():
    torch.manual_seed(1)
    return torch.randint(-99, 99, (2, 3, 5, 4), dtype=torch.int8), torch.randn(5)


def test_an_op_that_the_library_runs_on_the_host_counts_as_a_fallback(capfd):
    x, scale = given()
    wanted = widen(x, scale)
    there = x.to(OCL), scale.to(OCL)
    with warnings.catch_warnings(record=True) as told:  # newer versions of PyTorch: Python's, not lines of stderr
        warnings.simplefilter("always")
        for _ in range(2):
            torch.testing.assert_close(widen(*there).cpu(), wanted)
    text = capfd.readouterr().err + "".join(str(each.message) for each in told)
    assert text.count("pylayout_tests::widen runs on the CPU (no kernel of dequantize_linear") == 1
    (found,) = torch.ocl.fallbacks()
    assert (found.op, found.count) == ("pylayout_tests::widen", 2)
    assert found.reason.startswith("no kernel of dequantize_linear on opencl:0: ")


def test_the_switch_refuses_it_and_forgets_that():
    x, scale = given()
    there = x.to(OCL), scale.to(OCL)
    torch.ocl.set_fallback("error")
    for _ in range(2):
        with pytest.raises(NotImplementedError, match=r"::widen is not there \(no kernel of dequantize_linear"):
            widen(*there)
    assert torch.ocl.fallbacks() == []
    torch.ocl.set_fallback("silent")
    torch.testing.assert_close(widen(*there).cpu(), widen(x, scale))
    assert [each.count for each in torch.ocl.fallbacks()] == [1]


def test_what_the_profile_says_ran_on_the_host_is_what_is_counted():
    x, scale = given()
    there = x.to(OCL), scale.to(OCL)
    torch.ocl.set_fallback("silent")
    calls = (
        lambda: widen(*there),
        lambda: torch.relu(there[1]) + 1,
        lambda: torch.sort(there[1]),
        lambda: there[0].to(torch.int64).cumsum(1),
    )
    for call in calls:
        torch.ocl.clear_fallbacks()
        with pl.profile() as profile:
            call()
        on_host = [event["op"] for event in profile.events if event["kind"] == "op" and event["device"] == "cpu"]
        told = [each for each in torch.ocl.fallbacks() if each.reason.startswith("no kernel of")]
        assert bool(on_host) == bool(told), (on_host, told)


def test_calls_of_the_library_itself_are_nobody_s_fallback():
    x, scale = (pl.asarray(each.numpy()).to("opencl:0") for each in given())
    torch.ocl.set_fallback("error")
    made = pl.ops.dequantize_linear(x, scale, axis=2)
    assert made.shape == (2, 3, 5, 4) and torch.ocl.fallbacks() == []


def test_copies_that_change_a_dtype_on_the_host_are_counted():
    torch.ocl.set_fallback("silent")
    x = torch.arange(4.0, device=OCL)
    x.double()
    (found,) = torch.ocl.fallbacks()
    assert found.op == "aten::_copy_from" and "Double" in found.reason
    torch.ocl.set_fallback("error")
    with pytest.raises(NotImplementedError, match="aten::_copy_from"):
        x.double()
    assert x.half().tolist() == [0, 1, 2, 3]  # of dtypes that the device has
    torch.arange(4.0, dtype=torch.float64).to(OCL).clone()  # neither dtype changes


def test_what_pytorch_refuses_to_describe_leaves_no_traceback(caplog):
    """The kernel for the CPU says to the caller what is wrong; the log has nothing."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    logger.addHandler(caplog.handler)
    try:
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            torch.ones(2, 3, device=OCL) @ torch.ones(4, 2, device=OCL)
    finally:
        logger.removeHandler(caplog.handler)
    assert caplog.records == []


def test_a_defect_of_a_converter_is_told_as_such(monkeypatch, caplog):
    def broken(*_):
        raise AttributeError("no such thing")

    monkeypatch.setattr(programs, "make", broken)
    torch.ocl.set_fallback("silent")
    with caplog.at_level("WARNING", "pylayout.ocl"):
        x = torch.rand(3, 11, device=OCL)
        made = torch.frac(x * 1.0625)
    assert made.shape == (3, 11)
    assert all("a defect of pylayout" in each.reason for each in torch.ocl.fallbacks()) and torch.ocl.fallbacks()
    assert "runs on the CPU" in caplog.text and "AttributeError" in caplog.text
    shim().forget_programs()


def test_sparse_tensors_are_refused_with_what_to_do():
    words = torch.nn.Embedding(5, 3, sparse=True).to(OCL)
    with pytest.raises(NotImplementedError, match=r"the device has no sparse tensors; .* sparse=False"):
        words(torch.tensor([1, 2], device=OCL)).sum().backward()
    with pytest.raises(NotImplementedError, match="the device has no sparse tensors"):
        torch.eye(3).to_sparse().to(OCL)


def test_sizes_that_follow_from_data_are_said_to_do_so():
    assert torch.bincount(torch.tensor([0, 2, 2], device=OCL)).tolist() == [1, 0, 2]
    (found,) = torch.ocl.fallbacks()
    assert (found.op, found.reason) == ("aten::bincount", "what it gives follows from data")


@pytest.mark.filterwarnings("ignore:.*runs on the CPU")
@pytest.mark.parametrize("number", [0.5, 7, torch.tensor(9)])
def test_a_number_before_a_tensor_leaves_the_result_on_the_device(number):
    x = torch.tensor([2.0, 5.0])
    made, expected = torch.special.zeta(number, x.to(OCL)), torch.special.zeta(number, x)
    assert "aten::special_zeta" in {each.op.split(".")[0] for each in torch.ocl.fallbacks()}
    assert made.device == torch.device(OCL) and made.dtype == expected.dtype
    torch.testing.assert_close(made.cpu(), expected, equal_nan=True)

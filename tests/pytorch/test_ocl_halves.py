"""Halves on the device `ocl`, in eager mode and compiled: as exact as PyTorch's CPU, which computes them in float32."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from ocl_testing import OCL, quiet  # noqa: E402, F401

import pylayout as pl  # noqa: E402
import pylayout.torch  # noqa: E402

F = torch.nn.functional
HALVES = [torch.float16, torch.bfloat16]


def run(function: Callable[..., Any], compiled: bool, *tensors: torch.Tensor) -> torch.Tensor:
    """What it gives on the device, and there alone."""
    if compiled:
        torch._dynamo.reset()
        pylayout.torch.reset()
        function = torch.compile(function, backend="pylayout")
    made: torch.Tensor = function(*[each.to(OCL) for each in tensors])
    assert not compiled or not pylayout.torch.report().left
    return made.cpu()


def error(made: torch.Tensor, exact: torch.Tensor) -> float:
    return float((made.double() - exact).norm() / exact.norm())


def as_exact_as_on_the_cpu(function: Callable[..., Any], compiled: bool, times: float, *tensors: torch.Tensor) -> None:
    exact = function(*[each.double() for each in tensors])
    wanted, made = function(*tensors), run(function, compiled, *tensors)
    assert made.dtype == wanted.dtype and made.isfinite().all()
    assert error(made, exact) <= times * error(wanted, exact)


def started(call: Callable[[], Any]) -> list[str]:
    call()
    with pl.profile() as profile:
        call()
        torch.ocl.synchronize()
    return [event["op"] for event in profile.events if event["kind"] == "op"]


STATISTICS = {
    "usual": (0.0, 1.0, 3.0),
    "beyond f16": (0.0, 1e6, 1e3),
    "of many bits": (300.3, 1e4, 100.0),
}  # of a norm: the mean, the variance, and by how much its argument differs from the mean


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("statistics", STATISTICS)
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_batch_norms_read_statistics_of_float32(dtype: Any, compiled: bool, statistics: str, affine: bool) -> None:
    torch.manual_seed(0)
    mean, variance, spread = STATISTICS[statistics]
    norm = torch.nn.BatchNorm2d(8, affine=affine).eval()
    norm.running_mean.normal_().add_(mean)
    norm.running_var.uniform_(0.5, 1).mul_(variance)
    for each in norm.parameters():
        each.data.normal_()
    x = (torch.randn(3, 8, 7, 6) * spread + mean).to(dtype)

    def function(x: torch.Tensor) -> torch.Tensor:
        of = [each if each is None else each.to(x.device) for each in (*norm.buffers(), norm.weight, norm.bias)]
        if x.dtype == torch.float64:
            of = [each if each is None else each.double() for each in of]
        mean, variance, _, weight, bias = of
        return F.batch_norm(x, mean, variance, weight, bias, False)

    with torch.no_grad():
        as_exact_as_on_the_cpu(function, compiled, 3 if compiled else 1.01, x)


def test_a_batch_norm_of_mixed_precision_is_one_launch() -> None:
    norm, x = torch.nn.BatchNorm2d(8).eval().to(OCL), torch.randn(2, 8, 5, 5).half().to(OCL)
    with torch.no_grad():
        assert len(started(lambda: norm(x))) == 1


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_a_batch_norm_of_mixed_precision_is_folded_into_a_convolution(dtype: Any) -> None:
    torch.manual_seed(0)
    nn = torch.nn
    module = nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU()).eval()
    module[1].running_var.fill_(1e6)
    x = torch.randn(2, 3, 9, 9) * 1e3
    with torch.no_grad():
        exact = module.double()(x.double())
        module.float().to(OCL)
        torch._dynamo.reset()
        fast = torch.compile(module, backend="pylayout")
        with torch.autocast("ocl", dtype):
            assert error(fast(x.to(OCL)).cpu(), exact) <= (2e-3 if dtype == torch.float16 else 1e-2)
            assert started(lambda: fast(x.to(OCL))) == ["cast", "conv2d"]


# PyTorch multiplies and divides halves by these in float32.
BY_NUMBERS = {
    "product": lambda x: x * 0.1,
    "quotient": lambda x: x / 3.3,
    "quotient by what f16 does not hold": lambda x: x / 65536.0,
    "in place": lambda x: x.clone().mul_(0.3).div_(0.7),
    "mask": lambda x: (1 - (x > 0).to(x.dtype)) * -1e9,
    "rounded quotients": lambda x: (x // 0.3) + torch.div(x, 0.3, rounding_mode="trunc"),
    "number of the CPU": lambda x: x * torch.tensor(0.3),
    "number of the device": lambda x: x / torch.full((), 0.3, device=x.device),
    "lists": lambda x: torch._foreach_mul(torch._foreach_div([x, x], 3.3), [0.1, 0.3])[1],
}


@pytest.mark.parametrize("form", BY_NUMBERS)
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_numbers_beside_halves_stay_as_they_are(dtype: Any, form: str) -> None:
    torch.manual_seed(0)
    x = (torch.randn(64, 64) * 3).to(dtype)
    assert torch.equal(run(BY_NUMBERS[form], False, x), BY_NUMBERS[form](x))


@pytest.mark.parametrize("form", ["product", "quotient", "quotient by what f16 does not hold", "mask"])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_numbers_beside_halves_stay_as_they_are_in_plans(dtype: Any, form: str) -> None:
    torch.manual_seed(0)
    x = (torch.randn(64, 64) * 3).to(dtype)
    assert torch.equal(run(BY_NUMBERS[form], True, x), BY_NUMBERS[form](x))


def _heads(scores: Callable[[Any], Any]) -> Callable[[Any, Any, Any], Any]:
    return lambda q, k, v: scores(q @ k.mT).softmax(-1) @ v


_Q = (2, 2, 9, 24)
# What plans know by a number that halves do not hold: shapes, and the one op.
RECOGNISED: dict[str, tuple[Any, list[tuple[int, ...]], str]] = {
    "scaled scores": (_heads(lambda x: x / math.sqrt(24)), [_Q] * 3, "scaled_dot_product_attention"),
    "limited scores": (
        _heads(lambda x: torch.tanh(x * 24**-0.5 / 30.3) * 30.3), [_Q] * 3, "scaled_dot_product_attention",
    ),
    "scaled queries": (
        lambda q, k, v: ((q * 24**-0.5) @ k.mT).softmax(-1) @ v, [_Q] * 3, "scaled_dot_product_attention",
    ),
    "gelu": (lambda x: 0.5 * x * (1 + torch.erf(x / math.sqrt(2))), [(9, 24)], "gelu"),
    "gelu by tanh": (
        lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))), [(9, 24)], "gelu",
    ),
    "hardswish": (lambda x: x * F.relu6(x + 3) * (1 / 6), [(9, 24)], "hardswish"),
    "hardsigmoid": (lambda x: (x + 3).clamp(0, 6) * (1 / 6), [(9, 24)], "hardsigmoid"),
}  # fmt: skip


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", RECOGNISED)
def test_what_is_spelled_with_numbers_is_recognised_in_halves(name: str, dtype: Any) -> None:
    function, shapes, op = RECOGNISED[name]
    torch._dynamo.reset()
    pylayout.torch.reset()
    with torch.no_grad():
        torch.compile(function, backend="pylayout")(*[torch.randn(shape).to(dtype).to(OCL) for shape in shapes])
    steps = [step.get("op") for step in pylayout.torch.report().graphs[0].plans[0].summary()["steps"]]
    assert steps == [op]


_generator = torch.Generator().manual_seed(7)


def r(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=_generator)


def _peaks(*shape: int) -> torch.Tensor:
    """Weights of a softmax, of which a few are large."""
    return (r(*shape) * 8).softmax(-1)


aten = torch.ops.aten
_ROWS = [r(4, 16).abs() * 300, r(16, 5).abs() * 300]
# Ops that are made of several: on values whose squares and products f16 does not hold, or that nearly cancel.
COMPOSED: dict[str, tuple[Callable[..., Any], list[torch.Tensor]]] = {
    "dot": (torch.dot, [torch.tensor([300.0, -300, 280, 5]), torch.tensor([300.0, 300, 5, 280])]),
    "addmm": (lambda c, a, b: torch.addmm(c, a, b, alpha=0.01), [torch.zeros(4, 5), *_ROWS]),
    "addmm of a row": (lambda c, a, b: torch.addmm(c, a, b, beta=0.3, alpha=0.001), [torch.ones(5), *_ROWS]),
    "addmm without the sum": (lambda c, a, b: torch.addmm(c, a, b, beta=0, alpha=0.001), [torch.ones(5), *_ROWS]),
    "addmv": (lambda c, a, b: torch.addmv(c, a, b[:, 0], beta=2, alpha=0.001), [torch.ones(4), *_ROWS]),
    "baddbmm": (
        lambda c, a, b: torch.baddbmm(c, a[None], b[None], beta=0.3, alpha=0.001), [torch.ones(1, 4, 5), *_ROWS]
    ),
    "addbmm": (lambda c, a, b: torch.addbmm(c, a[None], b[None], beta=0.3, alpha=0.001), [torch.ones(4, 5), *_ROWS]),
    "softmax": (lambda dy, y: aten._softmax_backward_data(dy, y, 1, y.dtype), [r(16, 99).abs() + 9, _peaks(16, 99)]),
    "log_softmax": (
        lambda dy, y: aten._log_softmax_backward_data(dy, y, 1, y.dtype), [r(16, 99).abs(), _peaks(16, 99).log()]
    ),
    "var": (lambda x: x.var(1), [r(16, 99) * 100 + 500]),
    "std": (lambda x: x.std(1), [r(16, 99) * 500]),
    "mean by another divisor": (lambda x: F.avg_pool2d(x, 2, divisor_override=7), [r(1, 1, 64, 64)]),
}  # fmt: skip


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", COMPOSED)
def test_what_is_made_of_several_ops_rounds_once(name: str, dtype: Any, compiled: bool) -> None:
    function, tensors = COMPOSED[name]
    as_exact_as_on_the_cpu(function, compiled, 1.5, *[each.to(dtype) for each in tensors])


def test_a_weighted_sum_of_a_product_is_one_launch() -> None:
    c, a, b = (torch.randn(8, 8).half().to(OCL) for _ in range(3))
    assert started(lambda: torch.addmm(c, a, b, beta=0.3, alpha=0.7)) == ["matmul"]


def test_a_variance_of_many_sizes_rounds_once() -> None:
    torch._dynamo.reset()
    fast = torch.compile(lambda x: x.var(1), backend="pylayout", dynamic=True)
    for size in (70, 99, 300):
        x = (torch.randn(16, size) * 100 + 500).half()
        made, exact = fast(x.to(OCL)).cpu(), x.double().var(1)
        assert error(made, exact) <= 1e-3

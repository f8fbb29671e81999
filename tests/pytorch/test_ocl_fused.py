"""Fused steps of optimizers and GradScaler on the device ocl: they give what PyTorch's kernels for the CPU give."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from ocl_testing import OCL, quiet  # noqa: E402, F401

import pylayout as pl  # noqa: E402

SHAPES = [(3, 5), (7,), (2, 3, 4)]
OPTIMIZERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "adam": (torch.optim.Adam, {"weight_decay": 0.1}),
    "amsgrad": (torch.optim.Adam, {"amsgrad": True}),
    "adamw": (torch.optim.AdamW, {}),
    "maximize": (torch.optim.AdamW, {"maximize": True}),
    "sgd": (torch.optim.SGD, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    "dampened": (torch.optim.SGD, {"momentum": 0.9, "dampening": 0.5, "maximize": True}),
    "plain": (torch.optim.SGD, {}),
}


def some(seed: int) -> list[Any]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator) for shape in SHAPES]


def pairs(kind: str, **others: Any) -> list[tuple[list[Any], Any]]:
    """Weights with their fused optimizer, on the CPU and on the device."""
    make, options = OPTIMIZERS[kind]
    made = []
    for device in ("cpu", OCL):
        weights = [torch.nn.Parameter(each.to(device)) for each in some(0)]
        made.append((weights, make(weights, lr=0.01, fused=True, **options, **others)))
    return made


def assert_alike(sides: list[tuple[list[Any], Any]]) -> None:
    for here, there in zip(sides[0][0], sides[1][0], strict=True):
        torch.testing.assert_close(there.detach().cpu(), here.detach(), rtol=2e-5, atol=2e-6)
        torch.testing.assert_close(there.grad.cpu(), here.grad, rtol=1e-6, atol=1e-6)


def step(sides: list[tuple[list[Any], Any]], seed: int, scale: float = 1) -> None:
    for weights, optimizer in sides:
        for weight, gradient in zip(weights, some(seed), strict=True):
            weight.grad = (gradient * scale).to(weight.device)
        optimizer.step()


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_gradients_are_left_unscaled(kind: str) -> None:
    sides = pairs(kind)
    for n, found in enumerate([0.0, 0.0, 1.0, 0.0]):  # nothing changes where a gradient was not finite
        for weights, optimizer in sides:
            optimizer.grad_scale = torch.tensor(1024.0, device=weights[0].device)
            optimizer.found_inf = torch.tensor(found, device=weights[0].device)
        step(sides, n + 1, 1024)
        assert_alike(sides)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("scale", [2.0**26, 2.0**16, 1000.0, 1.0])
def test_unscaling_loses_nothing(scale: float, dtype: Any) -> None:
    found = []
    for device in ("cpu", OCL):
        gradients = [(each * 1000).to(device, dtype) for each in (*some(1), torch.empty(0))]
        infinite, inverse = torch.zeros((), device=device), torch.tensor(1 / scale, device=device)
        torch._amp_foreach_non_finite_check_and_unscale_(gradients, infinite, inverse)
        found.append([each.cpu() for each in (*gradients, infinite)])
    for here, there in zip(*found, strict=True):
        torch.testing.assert_close(there, here, rtol=1e-6, atol=0)
    assert found[1][0].count_nonzero() == found[1][0].numel()


def scheduled(kind: str, optimizer: Any, number: float) -> None:
    """As schedulers change a momentum and a decay."""
    group = optimizer.param_groups[0]
    if "betas" in group:
        group["betas"] = (number, 1 - (1 - number) / 50)
    elif kind != "plain":
        group["momentum"] = number
    group["weight_decay"] = number / 10


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_numbers_that_change(kind: str) -> None:
    sides = pairs(kind)
    for n in range(12):
        for _, optimizer in sides:
            scheduled(kind, optimizer, 0.95 - min(n, 9) / 100)
        step(sides, n + 1)
        assert_alike(sides)


@pytest.mark.parametrize("kind", ["sgd", "adamw"])
def test_numbers_that_change_need_no_new_kernels(kind: str) -> None:
    sides = pairs(kind)[1:]

    def steps(first: int, last: int) -> set[str]:
        torch.ocl.synchronize()
        with pl.profile() as profile:
            for n in range(first, last):
                scheduled(kind, sides[0][1], 0.95 - n / 1000)
                step(sides, n)
        return {event["op"] for event in profile.events}

    assert any(op.endswith("_step") for op in steps(0, 2))
    assert not any(op.endswith("_step") for op in steps(2, 9))
    for _ in range(130):  # they stay, and are a part of kernels again
        step(sides, 1)
    assert any(op.endswith("_step") for op in steps(9, 10))

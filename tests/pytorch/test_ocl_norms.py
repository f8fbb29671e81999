"""Layer and group norms in eager mode on the device `ocl`: an op forward and one backward."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from ocl_testing import OCL, quiet  # noqa: E402, F401

import pylayout as pl  # noqa: E402

F = torch.nn.functional
DTYPES = [torch.float32, torch.float16, torch.bfloat16]

# By name: the norm of x, weight and bias, and their shapes.
NORMS: dict[str, tuple[Any, tuple[int, ...], tuple[int, ...]]] = {
    "rows": (lambda x, w, b: F.layer_norm(x, (48,), w, b, 1e-3), (4, 10, 48), (48,)),
    "planes": (lambda x, w, b: F.layer_norm(x, (3, 16), w, b), (5, 3, 16), (3, 16)),
    "groups": (lambda x, w, b: F.group_norm(x, 4, w, b), (2, 16, 7, 5), (16,)),
    "channels": (lambda x, w, b: F.group_norm(x, 6, w, b, 1e-2), (3, 6, 11), (6,)),
}


def given(name: str, affine: bool = True, strided: bool = False) -> list[Any]:
    generator = torch.Generator().manual_seed(3)
    _, shape, own = NORMS[name]
    x = torch.randn(shape, generator=generator)
    if strided:
        x = torch.randn(shape[::-1], generator=generator).permute(*range(len(shape) - 1, -1, -1))
    return [x, *(torch.randn(own, generator=generator) for _ in range(2))] if affine else [x, None, None]


def moved(tensors: list[Any], dtype: Any) -> list[Any]:
    return [each if each is None else each.to(dtype).to(OCL).requires_grad_() for each in tensors]


def both_ways(norm: Any, tensors: list[Any]) -> list[Any]:
    y = norm(*tensors)
    weight = torch.arange(y.numel()).sin().reshape(y.shape).to(y.device, y.dtype)
    return [y, *torch.autograd.grad((y * weight).sum(), [each for each in tensors if each is not None])]


def started(call: Any) -> list[str]:
    for _ in range(2):
        call()
    torch.ocl.synchronize()
    with pl.profile() as profile:
        call()
        torch.ocl.synchronize()
    return [event["op"] for event in profile.events if event["kind"] == "op"]


@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", NORMS)
def test_values_and_gradients(name: str, dtype: Any, affine: bool, strided: bool) -> None:
    norm = NORMS[name][0]
    tensors = given(name, affine, strided)
    exact = both_ways(norm, [each if each is None else each.to(dtype).double().requires_grad_() for each in tensors])
    made = both_ways(norm, moved(tensors, dtype))
    for found, wanted in zip(made, exact, strict=True):
        assert found.dtype == dtype and found.device.type == "ocl"
        tolerance = {torch.float32: 2e-6, torch.float16: 3e-3, torch.bfloat16: 2e-2}[dtype]
        error = (found.detach().cpu().double() - wanted.detach()).abs().max()
        assert error <= tolerance * wanted.abs().max() * 4


@pytest.mark.parametrize("name", NORMS)
def test_an_op_each_way(name: str) -> None:
    norm = NORMS[name][0]
    tensors = moved(given(name), torch.float32)
    op = "group_norm" if name in ("groups", "channels") else "layer_norm"
    with torch.no_grad():
        assert started(lambda: norm(*tensors)) == [op]
    y = norm(*tensors)
    grad = torch.ones_like(y)
    assert started(lambda: torch.autograd.grad(norm(*tensors), tensors, grad)) == [op, f"{op}_backward"]
    frozen = [tensors[0].detach(), tensors[1], tensors[2].detach()]
    found = torch.autograd.grad(norm(*frozen), [tensors[1]], grad)[0]
    torch.testing.assert_close(found, torch.autograd.grad(norm(*tensors), tensors, grad)[1])


@pytest.mark.parametrize("name", NORMS)
def test_gradients_of_gradients(name: str) -> None:
    norm = NORMS[name][0]

    def second(tensors: list[Any]) -> list[Any]:
        first = torch.autograd.grad(norm(*tensors).square().sum(), tensors, create_graph=True)
        return list(torch.autograd.grad(sum(each.square().sum() for each in first), tensors))

    wanted = second([each.double().requires_grad_() for each in given(name)])
    for found, exact in zip(second(moved(given(name), torch.float32)), wanted, strict=True):
        assert (found.cpu().double() - exact).abs().max() <= 1e-4 * exact.abs().max()


def test_gradients_of_gradients_of_what_hangs_together() -> None:
    """A weight and a bias that are parts of what is normalised."""

    def second(x: Any) -> Any:
        y = torch.nn.functional.layer_norm(x, x.shape[1:], x[0], x[1])
        (first,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
        return first, torch.autograd.grad(first.square().sum(), x)[0]

    x = torch.randn(2, 3, 4)
    found, wanted = second(x.to(OCL).requires_grad_()), second(x.double().requires_grad_())
    for mine, exact in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine.cpu().double(), exact, rtol=1e-4, atol=1e-4)


def test_transforms() -> None:
    x = torch.randn(5, 48)
    norm = torch.nn.LayerNorm(48)
    wanted = torch.func.jvp(norm, (x,), (x.flip(0),))[1], torch.func.grad(lambda x: norm(x).square().sum())(x)
    norm, x = norm.to(OCL), x.to(OCL)
    found = torch.func.jvp(norm, (x,), (x.flip(0),))[1], torch.func.grad(lambda x: norm(x).square().sum())(x)
    for each, exact in zip(found, wanted, strict=True):
        torch.testing.assert_close(each.cpu(), exact, atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(torch.func.vmap(norm)(x).cpu(), norm.cpu()(x.cpu()), atol=2e-5, rtol=1e-4)


def test_parameters_of_another_dtype_and_autocast() -> None:
    x = torch.randn(5, 48).half()
    norm = torch.nn.LayerNorm(48)
    with torch.autocast("cpu", torch.bfloat16):
        wanted = norm(x.float())
    with torch.autocast("ocl", torch.float16):
        made = norm.to(OCL)(x.to(OCL))
    assert made.dtype == torch.float32
    torch.testing.assert_close(made.cpu(), wanted, atol=2e-5, rtol=1e-4)
    mixed = F.layer_norm(x.to(OCL), (48,), norm.weight, norm.bias)
    torch.testing.assert_close(mixed.cpu().float(), wanted, atol=2e-2, rtol=1e-2)


def test_what_is_refused_is_refused_as_on_the_cpu() -> None:
    x = torch.randn(4, 6, device=OCL)
    with pytest.raises(RuntimeError, match="normalized_shape"):
        F.layer_norm(x, (5,))
    with pytest.raises(RuntimeError, match="num_groups"):
        F.group_norm(x, 4)
    with pytest.raises(RuntimeError, match="weight"):
        F.layer_norm(x, (6,), torch.ones(5, device=OCL))
    assert F.layer_norm(x[:0], (6,)).shape == (0, 6)

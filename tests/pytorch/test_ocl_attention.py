"""Attention in eager mode on the device `ocl`: an op forward and one backward, as on GPUs."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from ocl_testing import OCL, quiet  # noqa: E402, F401

import pylayout as pl  # noqa: E402

attention = torch.nn.functional.scaled_dot_product_attention


@pytest.fixture(autouse=True)
def as_on_gpus(quiet: None) -> Any:  # noqa: F811
    from pylayout.ocl.shim import shim

    torch.zeros(1).to(OCL)
    shim().gain_by_attention(0, True)
    yield
    shim().gain_by_attention(0, False)


def heads(heads: int = 4, words: int = 33, width: int = 16) -> Any:
    return torch.randn(2, heads, words, width)


MASKS = {
    "none": {},
    "causal": {"is_causal": True},
    "scale": {"scale": 0.3},
    "hidden": {"attn_mask": torch.rand(2, 1, 33, 33, generator=torch.Generator().manual_seed(1)) > 0.3},
    "added": {"attn_mask": torch.randn(33, 33, generator=torch.Generator().manual_seed(1))},
}


def both_ways(given: list[Any], weight: Any, **how: Any) -> list[Any]:
    y = attention(*given, **how)
    return [y, *torch.autograd.grad((y * weight).sum(), given)]


def moved(how: dict[str, Any], device: str, dtype: Any = torch.float32) -> dict[str, Any]:
    return {
        name: value.to(device, value.dtype if value.dtype == torch.bool else dtype)
        if isinstance(value, torch.Tensor)
        else value
        for name, value in how.items()
    }


@pytest.mark.parametrize("shares", [False, True])
@pytest.mark.parametrize("how", MASKS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_against_float64(how: str, shares: bool, dtype: Any) -> None:
    torch.manual_seed(0)
    more = {"enable_gqa": True} if shares else {}
    given = [each.to(dtype) for each in (heads(), heads(2 if shares else 4), heads(2 if shares else 4))]
    weight = heads()
    exact = [each.double().requires_grad_() for each in given]
    wanted = both_ways(exact, weight.double(), **moved(MASKS[how], "cpu", torch.float64), **more)
    there = [each.to(OCL).requires_grad_() for each in given]
    with pl.profile() as profile:
        made = both_ways(there, weight.to(OCL, dtype), **moved(MASKS[how], OCL, dtype), **more)
    for ours, right in zip(made, wanted, strict=True):
        error = (ours.detach().cpu().double() - right).abs().max() / right.abs().max()
        assert error < (1e-5 if dtype == torch.float32 else 5e-3)
    found = [event["op"] for event in profile.events]
    assert "scaled_dot_product_attention" in found and "scaled_dot_product_attention_backward" in found
    assert "softmax" not in found


def test_dropout_has_the_numbers_of_products_and_a_softmax() -> None:
    from pylayout.ocl.shim import shim

    torch.manual_seed(0)
    there = [heads().to(OCL).requires_grad_() for _ in range(3)]
    weight, results = heads().to(OCL), []
    for gains in (True, False):
        shim().gain_by_attention(0, gains)
        torch.ocl.manual_seed(5)
        results.append([*both_ways(there, weight, dropout_p=0.4), torch.rand(3, device=OCL)])
    for ours, composed in zip(*results, strict=True):
        torch.testing.assert_close(ours, composed, rtol=1e-4, atol=1e-5)


def test_gradients_have_gradients() -> None:
    def penalty(given: list[Any], how: dict[str, Any]) -> list[Any]:
        y = attention(*given, **how)
        first = torch.autograd.grad(y.square().sum(), given, create_graph=True)
        return list(torch.autograd.grad(sum(each.square().sum() for each in first), given))

    torch.manual_seed(0)
    given = [heads(words=9, width=4) for _ in range(3)]
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):  # the CPU's op has no such gradients
        exact = penalty([each.double().requires_grad_() for each in given], {"is_causal": True})
    there = [each.to(OCL).requires_grad_() for each in given]
    for ours, right in zip(penalty(there, {"is_causal": True}), exact, strict=True):
        torch.testing.assert_close(ours.cpu().double(), right, rtol=1e-3, atol=1e-3)
    assert all(each.isfinite().all() for each in penalty(there, {"dropout_p": 0.2}))


@pytest.mark.parametrize("given", [lambda x: (x, x, x), lambda x: (x, 2 * x, x.detach())], ids=["one", "apart"])
def test_gradients_have_gradients_where_keys_are_made_of_queries(given: Any) -> None:
    def penalty(x: Any) -> Any:
        (first,) = torch.autograd.grad(attention(*given(x)).square().sum(), x, create_graph=True)
        return first, torch.autograd.grad(first.square().sum(), x)[0]

    torch.manual_seed(0)
    x = heads(words=9, width=4)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        exact = penalty(x.double().requires_grad_())
    for ours, right in zip(penalty(x.to(OCL).requires_grad_()), exact, strict=True):
        torch.testing.assert_close(ours.cpu().double(), right, rtol=1e-3, atol=1e-3)


def test_autocast_lowers() -> None:
    given = [heads().to(OCL).requires_grad_() for _ in range(3)]
    with torch.autocast("ocl", torch.float16):
        y = attention(*given)
    assert y.dtype == torch.float16
    y.float().sum().backward()
    assert all(each.grad.dtype == torch.float32 for each in given)


def test_transforms_and_wide_rows_are_made_of_other_ops() -> None:
    torch.manual_seed(0)
    wide = [heads(words=5, width=80) for _ in range(3)]
    close = {"rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close(attention(*(each.to(OCL) for each in wide)).cpu(), attention(*wide), **close)
    stacked = [torch.randn(3, 2, 4, 9, 8) for _ in range(3)]
    torch.ocl.set_fallback("silent")
    made = torch.vmap(attention)(*(each.to(OCL) for each in stacked))
    torch.testing.assert_close(made.cpu(), torch.vmap(attention)(*stacked), **close)


def test_a_transformer_trains() -> None:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(32, 2, 48, dropout=0.0, batch_first=True)
    x = torch.rand(3, 11, 32)
    layer(x).square().sum().backward()
    wanted = [each.grad.clone() for each in layer.parameters()]
    layer.zero_grad()
    layer.to(OCL)
    layer(x.to(OCL)).square().sum().backward()
    for ours, right in zip(layer.parameters(), wanted, strict=True):
        torch.testing.assert_close(ours.grad.cpu(), right, rtol=1e-3, atol=1e-3)

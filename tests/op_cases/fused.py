"""Fused blocks."""

from __future__ import annotations

from .case import Case, into, normal

CASES: list[Case] = []
add = into(CASES)


def _squeeze_excite(torch, F, t, attributes):
    x, weight1, bias1, weight2, bias2 = t
    positions = tuple(range(2, x.ndim))
    hidden = F.linear(x.mean(positions), weight1.reshape(weight1.shape[:2]), bias1)
    hidden = getattr(F, attributes.get("hidden", "relu"))(hidden)
    gate = F.linear(hidden, weight2.reshape(weight2.shape[:2]), bias2)
    gate = F.hardsigmoid(gate) if attributes.get("gate") == "hardsigmoid" else torch.sigmoid(gate)
    return x * gate.reshape(gate.shape + (1,) * len(positions))


_SQUEEZE = normal((2, 20, 5, 3), (6, 20, 1, 1), (6,), (20, 6, 1, 1), (20,))
add("squeeze_excite", _SQUEEZE, reference=_squeeze_excite, hidden="silu")
add("squeeze_excite", _SQUEEZE, reference=_squeeze_excite, gate="hardsigmoid")
add("squeeze_excite", normal((3, 7, 4), (5, 7), (5,), (7, 5), (7,)), reference=_squeeze_excite, hidden="hardswish")


def _squeeze_excite_gradients(torch, F, t, attributes):
    x, grad, *weights = t
    inputs = [each.detach().requires_grad_() for each in (x, *weights)]
    with torch.enable_grad():
        made = _squeeze_excite(torch, F, inputs, attributes)
    return list(torch.autograd.grad(made, inputs, grad))


_GRADIENTS = normal((2, 20, 5, 3), (2, 20, 5, 3), (6, 20, 1, 1), (6,), (20, 6, 1, 1), (20,))
add("squeeze_excite_backward", _GRADIENTS, reference=_squeeze_excite_gradients, hidden="silu")
add("squeeze_excite_backward", _GRADIENTS, reference=_squeeze_excite_gradients, gate="hardsigmoid")
add(
    "squeeze_excite_backward", normal((3, 7, 4), (3, 7, 4), (5, 7), (5,), (7, 5), (7,)),
    reference=_squeeze_excite_gradients, hidden="hardswish",
)  # fmt: skip

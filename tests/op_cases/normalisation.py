"""Normalisation and softmax."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .case import X4, Case, into, normal, operands, post_ops

CASES: list[Case] = []
add = into(CASES)


def _with_operands(steps: str, tensors: Callable[..., list[np.ndarray | None]], y: tuple[int, ...]):
    return lambda rng: [*tensors(rng), *operands(steps, y)(rng)]


def _statistics(channels: int, shape: tuple[int, ...]):
    def make(rng: np.random.Generator) -> list[np.ndarray | None]:
        vectors = [
            rng.standard_normal(channels),
            rng.uniform(0.5, 2, channels),
            rng.standard_normal(channels),
            rng.standard_normal(channels),
        ]
        return [rng.standard_normal(shape).astype(np.float32), *(v.astype(np.float32) for v in vectors)]

    return make


add("batch_norm", _statistics(19, X4), lambda torch, f, t, a: torch.relu(f.batch_norm(*t)), activation="relu")
add(
    "batch_norm",
    _statistics(19, X4),
    lambda torch, f, t, a: post_ops(f, f.batch_norm(*t), a["post_ops"], t),
    post_ops="silu, scale(-0.5)",
)
LISTED = ["add(residual), relu", "silu, multiply(gate), scale(0.5), add(residual), clip(-1, 2)", "multiply(gate)"]
for steps in LISTED:
    add(
        "batch_norm",
        _with_operands(steps, _statistics(19, X4), X4),
        lambda torch, f, t, a: post_ops(f, f.batch_norm(*t[:5]), a["post_ops"], t),
        post_ops=steps,
    )
add("batch_norm", _statistics(6, (4, 6)), lambda torch, f, t, a: f.batch_norm(*t, eps=1e-3), eps=1e-3)
add(
    "layer_norm",
    normal((2, 5, 33), (33,), (33,)),
    lambda torch, f, t, a: f.layer_norm(t[0], (33,), t[1], t[2]),
    normalized_shape=[33],
)
add(
    "rms_norm",
    lambda rng: [v + 3 for v in normal((2, 5, 33), (33,))(rng)],  # a mean that must stay
    lambda torch, f, t, a: f.rms_norm(t[0], (33,), t[1], eps=1e-3),
    normalized_shape=[33],
    eps=1e-3,
)
add(
    "rms_norm",
    normal((2, 3, 5, 6)),
    lambda torch, f, t, a: f.rms_norm(t[0], (5, 6), eps=1e-6),
    normalized_shape=[5, 6],
)
add(
    "l2_normalize",
    lambda rng: [np.concatenate([rng.standard_normal((2, 4, 33)) + 1, np.zeros((2, 1, 33))], 1).astype(np.float32)],
    lambda torch, f, t, a: f.normalize(t[0], dim=-1, eps=1e-3),
    normalized_shape=[33],
    eps=1e-3,
)
add(
    "l2_normalize",
    normal((2, 3, 5, 6)),
    lambda torch, f, t, a: f.normalize(t[0].flatten(2), dim=-1).reshape(t[0].shape),
    normalized_shape=[5, 6],
)
add("layer_norm", normal((2, 3, 5, 6)), lambda torch, f, t, a: f.layer_norm(t[0], (5, 6)), normalized_shape=[5, 6])
add(
    "group_norm",
    normal((2, 18, 5, 6), (18,), (18,)),
    lambda torch, f, t, a: f.group_norm(t[0], 3, t[1], t[2]),
    num_groups=3,
)
add("instance_norm", normal((2, 17, 5, 6)), lambda torch, f, t, a: f.instance_norm(t[0]), tolerance=5e-5)
add(
    "instance_norm",
    normal((2, 17, 5, 6), (17,), (17,)),
    lambda torch, f, t, a: f.instance_norm(t[0], weight=t[1], bias=t[2]),
    tolerance=5e-5,
    name="weight and bias",
)
add("softmax", normal(X4), dim=1)
add("softmax", normal((5, 33)), dim=-1)
add("log_softmax", normal(X4), dim=3)

add("local_response_norm", normal(X4), size=5, alpha=0.1, beta=0.75, k=2.0)
add("local_response_norm", normal((0, 19, 9, 10)), size=5)

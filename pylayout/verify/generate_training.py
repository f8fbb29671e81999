"""Random cases of what training adds, made of random cases of what it derives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator

from .case import Case

__all__ = ["training_case"]

Draw = Callable[[Generator], Case | None]


def _text(dtype: str, shape: tuple[int, ...]) -> str:
    return f"{dtype}:{'x'.join(map(str, shape))}"


def _shape_of_result(case: Case) -> tuple[int, ...]:
    """By the library's own inference, which other tests check."""
    from ..graph import Graph

    graph = Graph()
    names = "abcd"
    values = [None if spec is None else graph.input(names[i], spec[1], spec[0]) for i, spec in enumerate(case.specs())]
    made = graph.op(case.op, *values[:2], **case.attributes)
    return tuple(made.shape)


def _conv_weights(rng: Generator, conv: Draw) -> Case | None:
    case = conv(rng)
    if case is None or not case.op.startswith("conv") or "transpose" in case.op:
        return None
    specs = case.specs()
    assert specs[0] and specs[1]
    keep: dict[str, Any] = {
        key: case.attributes[key] for key in ("stride", "padding", "dilation", "groups") if key in case.attributes
    }
    y = _shape_of_result(Case(case.op, case.inputs[:2], keep))
    if int(np.prod(specs[1][1])) * int(np.prod(y[2:])) * y[0] > 2e9:  # the exact result takes too long
        return None
    keep["kernel_size"] = list(specs[1][1][2:])
    return Case(f"{case.op}_backward_weights", (case.inputs[0], _text(specs[0][0], y)), keep)


def _pool_gradient(rng: Generator, pool: Draw) -> Case | None:
    case = pool(rng)
    if case is None or case.op.startswith("global"):
        return None
    spec = case.specs()[0]
    assert spec
    if spec[0] not in ("f32", "f16", "bf16"):
        return None
    y = _shape_of_result(case)
    if int(np.prod(y[2:])) > 4096:
        return None
    attributes = {key: value for key, value in case.attributes.items() if key != "output_size"}
    grad = _text(spec[0], y)
    if "avg" in case.op:
        return Case(f"{case.op}_backward", (grad,), {**attributes, "input_size": list(spec[1][2:])})
    return Case(f"{case.op}_backward", (case.inputs[0], grad), attributes)


def _resize_gradient(rng: Generator, dtype: str, shape: tuple[int, ...]) -> Case | None:
    spatial = len(shape) - 2
    if not 1 <= spatial <= 3:
        return None
    attributes: dict[str, Any] = {"input_size": [int(rng.integers(1, 40)) for _ in range(spatial)]}
    if rng.random() < 0.7:
        attributes["mode"] = ("linear", "bilinear", "trilinear")[spatial - 1]
        attributes["align_corners"] = bool(rng.random() < 0.3)
    return Case("interpolate_backward", (_text(dtype, shape),), attributes)


def _random(rng: Generator, dtype: str, shape: tuple[int, ...]) -> Case:
    """Random numbers, from the counter 0 or a later one."""
    seed = str(rng.choice(["s64:", "s64:2"]))
    kind = int(rng.integers(0, 8))
    asked: dict[str, Any] = {"shape": list(shape), "dtype": dtype}
    if kind == 0:
        return Case("random_dropout", (_text(dtype, shape), seed), {"p": 0.25})
    if kind == 1:
        return Case("random_uniform", (seed,), {**asked, "low": -1.5, "high": 0.25})
    if kind == 2:
        return Case("random_normal", (seed,), {**asked, "mean": 0.5, "std": 0.75})
    if kind == 3:
        return Case("random_exponential", (seed,), {**asked, "rate": 2.5})
    if kind == 4:
        return Case("random_bernoulli", (seed,), {**asked, "dtype": str(rng.choice(["bool", dtype])), "p": 0.3})
    if kind == 5:
        return Case("random_integers", (seed,), {"shape": list(shape), "dtype": "s32", "low": -100, "high": 1000})
    if kind == 6:
        return Case("random_integers", (seed,), {"shape": list(shape), "low": -(2**40), "high": 2**50})
    return Case("random_permutation", (seed,), {"n": int(rng.integers(1, 3000))})


def training_case(
    rng: Generator, conv: Draw, pool: Draw, image: Callable[[Generator, int], tuple[int, ...]]
) -> Case | None:
    kind = int(rng.integers(0, 10))
    if kind < 2:
        return _conv_weights(rng, conv)
    if kind < 4:
        return _pool_gradient(rng, pool)
    shape = image(rng, 1 << 17)
    dtype = "f32" if rng.random() < 0.8 else "bf16"
    x, channel = _text(dtype, shape), f"{dtype}:{shape[1]}"
    if kind == 4:
        if int(np.prod(shape)) // shape[1] < 2:
            return None
        name = str(rng.choice(["batch_norm_training", "batch_norm_backward", "group_norm_backward"]))
        statistic = f"f32:{shape[1]}"
        parameter = channel if rng.random() < 0.5 else statistic
        limits: dict[str, Any] = {}
        if rng.random() < 0.5:
            limits = {"low": 0.0} if rng.random() < 0.5 else {"low": -0.25, "high": 0.75}
        if name == "batch_norm_training":
            residual, gate = rng.random() < 0.3, rng.random() < 0.1
            if gate or rng.random() < 0.4:
                steps = [str(rng.choice(["relu", "relu6", "silu", "leaky_relu(0.2)", "clip(-0.5, 0.5)", "sigmoid"]))]
                for given, step in ((residual, "add(residual)"), (gate, "multiply(gate)")):
                    if given:
                        steps.insert(int(rng.integers(0, len(steps) + 1)), step)
                limits = {"post_ops": ", ".join(steps)}
            read = [x] * residual + ([x] if residual else [None, x]) * gate
            return Case(name, (x, channel, parameter, *read), limits)
        if name == "batch_norm_backward":
            behind: dict[str, Any] = {}
            if rng.random() < 0.5:
                chosen = str(rng.choice(["relu", "relu6", "silu", "hardswish", "mish", "gelu", "leaky_relu", "clip"]))
                behind = {"activation": chosen}
                if chosen == "clip":
                    behind |= {"activation_alpha": -0.25, "activation_beta": 0.75}
            biased = bool(behind)
            if rng.random() < 0.3:
                behind["inverted"] = True
            return Case(name, (x, x, statistic, statistic, parameter, *[parameter] * biased), behind)
        groups = int(rng.choice([g for g in range(1, min(shape[1], 32) + 1) if shape[1] % g == 0]))
        return Case(name, (x, x, channel), {"num_groups": groups})
    if kind == 9:
        return _resize_gradient(rng, dtype, shape)
    if kind == 5:
        name = str(rng.choice(["layer_norm_backward", "rms_norm_backward"]))
        return Case(name, (x, x, _text(dtype, shape[-1:])), {"normalized_shape": [shape[-1]]})
    if kind == 6:
        attributes: dict[str, Any] = {"reduction": str(rng.choice(["mean", "sum", "none"]))}
        if rng.random() < 0.5:
            attributes["label_smoothing"] = 0.1
        targets = (shape[0], *shape[2:])
        target = _text("s64", targets)
        if rng.random() < 0.5:
            return Case("cross_entropy", (x, target, channel), attributes)
        grad = _text(dtype, targets if attributes["reduction"] == "none" else ())
        return Case("cross_entropy_backward", (x, target, grad, channel), attributes)
    if kind == 7:
        size = int(rng.integers(1, 99))
        if rng.random() < 0.5:
            dim = int(rng.integers(0, len(shape)))
            return Case("gather_backward", (x, _text("s64", shape)), {"dim": dim, "size": size})
        return Case("index_select_backward", (x, f"s64:{shape[1]}"), {"dim": 1, "size": size})
    if rng.random() < 0.5:
        return _random(rng, dtype, shape)
    name = str(rng.choice(["sgd_step", "adam_step", "adamw_step", "all_finite"]))
    if name == "all_finite":
        return Case(name, (x, channel, _text("f16", shape[:1])), {})
    if rng.random() < 0.5:  # a gradient of another dtype, and a factor of it
        grad = _text("f16", shape)
        if name == "sgd_step":
            return Case(name, (x, grad, "f32:", None, "f32:"), {"weight_decay": 0.01})
        return Case(name, (x, grad, "f32:", x, x, "f32:", "f32:"), {"weight_decay": 0.01})
    if name == "sgd_step":
        return Case(
            name, (x, x, "f32:", x), {"momentum": 0.9, "nesterov": bool(rng.random() < 0.5), "weight_decay": 0.01}
        )
    return Case(name, (x, x, "f32:", x, x, "f32:"), {"weight_decay": 0.01})

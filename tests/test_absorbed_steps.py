"""Products of few rows that do their neighbours' work, too: on OpenCL devices treated as GPUs (PYLAYOUT_OPENCL_AS)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

import pylayout as pl

EPS = 1e-5
# Of the largest error, in parts of the largest result: products add up to 4104 terms.
BOUNDS = {"f32": 1e-6, "f16": 2e-3, "bf16": 1e-2}

# What is absorbed: the ops whose launches are left, in order.
GATED = ["linear", "linear"]
CASES: dict[str, dict[str, Any]] = {
    "one row": {"left": GATED},
    "two rows": {"rows": 2, "left": GATED},
    "three rows": {"rows": 3, "left": ["rms_norm", "linear", "pointwise", "linear"]},
    "no weight": {"weighted": False, "left": GATED},
    "half precision": {"dtype": "f16", "left": GATED},
    "bf16, two rows": {"dtype": "bf16", "rows": 2, "left": GATED},
    "odd sizes": {"terms": 520, "width": 51, "left": GATED},
    "many terms": {"terms": 4104, "width": 20, "left": GATED},
    "a bias": {"bias": True, "left": GATED},
    "the other order": {"swapped": True, "left": GATED},
    "parts that overlap": {"second": 40, "left": GATED},
    "the norm is read twice": {"again": "norm", "left": ["rms_norm", "linear", "linear"]},
    "the product is read twice": {"again": "product", "left": ["linear", "pointwise", "linear"]},
    "a centred norm": {"norm": "layer_norm", "left": ["layer_norm", "linear", "linear"]},
}


def run(
    device: str,
    rows: int = 1,
    terms: int = 256,
    width: int = 96,
    dtype: str = "f32",
    weighted: bool = True,
    bias: bool = False,
    swapped: bool = False,
    second: int | None = None,
    again: str = "",
    norm: str = "rms_norm",
    left: object = None,
) -> dict[str, Any]:
    """A gated layer: its largest error, in parts of its largest result, and what was launched."""
    del left
    rng = np.random.default_rng(rows * terms + width)
    second = width if second is None else second
    given = {
        "x": 3 * rng.standard_normal((rows, terms)),
        "scale": rng.standard_normal(terms),
        "wide": rng.standard_normal((width + second, terms)) / terms**0.5,
        "bias": rng.standard_normal(width + second),
        "narrow": rng.standard_normal((8, width)),
    }
    tensors = {name: pl.asarray(value.astype("f4"), dtype=dtype) for name, value in given.items()}
    exact = {name: np.asarray(tensor.astype("f32")).astype("f8") for name, tensor in tensors.items()}
    g = pl.Graph()
    x = g.input("x", (rows, terms), dtype)
    weights = [tensors["scale"]] if weighted else []
    n = g.op(norm, x, [terms], *weights, eps=EPS)
    h = g.op("linear", n, tensors["wide"], *([tensors["bias"]] if bias else []))
    a, b = h[:, :width], h[:, second:]
    y = g.op("linear", g.op("silu", b) * a if swapped else g.op("silu", a) * b, tensors["narrow"])
    g.output(y, "y")
    if again:
        g.output(n if again == "norm" else h, "again")
    plan = pl.compile(g, device=device, tune="off")
    with pl.profile() as profile:
        results = plan.run(tensors["x"])
    moment = exact["x"] - exact["x"].mean(-1, keepdims=True) if norm == "layer_norm" else exact["x"]
    n = moment / np.sqrt((moment**2).mean(-1, keepdims=True) + EPS) * (exact["scale"] if weighted else 1)
    h = n @ exact["wide"].T + (exact["bias"] if bias else 0)
    a, b = h[:, :width], h[:, second:]
    y = (b / (1 + np.exp(-b)) * a if swapped else a / (1 + np.exp(-a)) * b) @ exact["narrow"].T
    expected = [y, n if again == "norm" else h]
    errors = [
        np.abs(np.asarray(pl.asarray(result).astype("f32")) - value).max() / np.abs(value).max()
        for result, value in zip(results, expected, strict=False)
    ]
    return {"error": float(max(errors)), "launched": [e["op"] for e in profile.events if e["kind"] == "op"]}


def run_all() -> None:
    pl.set_tuning("off")
    device = next(device.name for device in pl.devices() if device.name.startswith("opencl"))
    print(json.dumps({name: run(device, **case) for name, case in CASES.items()}))


def test_products_of_few_rows_do_the_work_of_norms_and_gates(run_as_gpu: Callable[..., str]) -> None:
    found = json.loads(run_as_gpu(__file__))
    assert found.keys() == CASES.keys()
    for name, case in CASES.items():
        assert found[name]["launched"] == case["left"], name
        assert found[name]["error"] <= BOUNDS[case.get("dtype", "f32")], name


if __name__ == "__main__":
    run_all()

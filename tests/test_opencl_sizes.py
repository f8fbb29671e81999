"""A new size on an OpenCL device: how many programs are compiled on the way.

PoCL keeps a file of each program that it compiles, in a folder of the process's own here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import pylayout as pl

# Programs compiled for new sizes, where that is not none: no kernel in f16 that the first size took suits all others.
MOST = {("convolutions", "f16"): 2}

PROGRAM = """
import json, pathlib, sys
import numpy as np
import pylayout as pl

device, kind, dtype, cache = sys.argv[1:]
rng = np.random.default_rng(0)
np_dtype = {"f32": "float32", "f16": "float16"}[dtype]


def w(*shape):
    return (rng.standard_normal(shape) / 8).astype(np_dtype)


def convolutions():
    g = pl.Graph(sizes={"n": 1, "h": 16, "w": 16})
    y = g.conv2d(g.input("x", ("n", 4, "h", "w"), dtype=dtype), w(16, 4, 3, 3), padding=1, activation="relu")
    y = g.conv2d(y, w(16, 1, 3, 3), padding=1, groups=16, activation="relu")
    a = g.conv2d(g.max_pool2d(y, 2, 2), w(16, 16, 1, 1))
    y = g.concat([y, g.interpolate(a, scale_factor=2)], 1)
    g.output(g.conv2d(y, w(8, 32, 3, 3), padding=1), "y")
    return g, [(1, 4, 16, 16), (1, 4, 20, 24), (1, 4, 18, 22), (1, 4, 32, 28)]


def text():
    g = pl.Graph(sizes={"s": 16})
    x, s = g.input("x", (1, "s", 64), dtype=dtype), g.size("s")
    q, k, v = (g.permute(g.reshape(g.linear(x, w(64, 64)), [1, s, 4, 16]), [0, 2, 1, 3]) for _ in range(3))
    y = g.matmul(g.softmax(g.matmul(q, k, transpose_b=True), -1), v)
    y = g.layer_norm(g.add(x, g.reshape(g.permute(y, [0, 2, 1, 3]), [1, s, 64])), [64], w(64), w(64))
    g.output(g.linear(g.gelu(g.linear(y, w(128, 64))), w(64, 128)), "y")
    return g, [(1, s, 64) for s in (16, 17, 8, 40, 33, 100, 5, 64, 21, 77)]


def compiled():
    return len(list(pathlib.Path(cache).rglob("program.bc")))


graph, shapes = {"convolutions": convolutions, "text": text}[kind]()
plan, counts = pl.compile(graph, device=device, tune="off"), []
for shape in shapes:
    x = rng.standard_normal(shape).astype(np_dtype)
    (y,) = plan.run(x)
    counts.append(compiled())
    sizes = {name: size for name, size in zip("nchw", shape, strict=False) if name in "nhw"}
    sizes = {"s": shape[1]} if kind == "text" else {name: sizes[name] for name in "nhw"}
    (want,) = pl.compile(graph.bind(**sizes), device="cpu", tune="off").run(x)
    np.testing.assert_allclose(np.asarray(y, "f4"), np.asarray(want, "f4"), rtol=3e-2, atol=3e-2)
print(json.dumps(counts))
"""


def pocl() -> str:
    for device in pl.devices():
        if device.capabilities.get("platform") == "Portable Computing Language":
            return str(device.name)
    pytest.skip("no PoCL, which keeps a file of each program that it compiles")


@pytest.mark.parametrize("dtype", ["f32", pytest.param("f16", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["convolutions", pytest.param("text", marks=pytest.mark.slow)])
def test_a_new_size_takes_kernels_that_are_compiled(kind: str, dtype: str, tmp_path: Path) -> None:
    root = str(Path(pl.__file__).parent.parent)
    path = os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH", "")) if p)
    cache = str(tmp_path / "pocl")
    environment = {**os.environ, "PYTHONPATH": path, "POCL_CACHE_DIR": cache, "PYLAYOUT_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", PROGRAM, pocl(), kind, dtype, cache]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-3000:]
    counts = json.loads(result.stdout.splitlines()[-1])
    assert counts[0] > 3
    assert counts[-1] <= counts[0] + MOST.get((kind, dtype), 0), counts


def test_a_size_that_comes_again_gets_kernels_of_its_own(untuned: None) -> None:
    rng = np.random.default_rng(2)
    g = pl.Graph(sizes={"n": 1, "h": 8})
    y = g.conv2d(g.input("x", ("n", 3, "h", 8)), rng.standard_normal((8, 3, 3, 3)).astype("f4"), padding=1)
    g.output(g.relu(y), "y")
    plan = pl.compile(g, device=pocl())
    x = rng.standard_normal((5, 3, 40, 8)).astype("f4")
    (expected,) = pl.compile(g.bind(n=5, h=40), device="cpu").run(x)

    def made() -> tuple[int, int]:
        sizes = plan.summary()["sizes"]
        return sizes["made"], sizes["specialised"]

    for _ in range(8):
        (result,) = plan.run(x)
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
    assert made() == (1, 0)
    plan.run(x)
    until = time.monotonic() + 120
    while made() == (1, 0) and time.monotonic() < until:
        time.sleep(0.05)
        plan.run(x)
    assert made() == (1, 1)
    for _ in range(20):
        (result,) = plan.run(x)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
    assert made() == (1, 1)


def test_a_plan_goes_while_a_program_is_made(untuned: None) -> None:
    rng = np.random.default_rng(3)
    for size in (24, 28, 30):
        g = pl.Graph(sizes={"h": 8})
        weight = rng.standard_normal((8, 3, 3, 3)).astype("f4")
        g.output(g.conv2d(g.input("x", (1, 3, "h", size)), weight, padding=1, activation="tanh"), "y")
        plan = pl.compile(g, device=pocl())
        for _ in range(9):
            plan.run(np.ones((1, 3, 16, size), "f4"))
        del plan

"""Many sizes in one process: programs, packed weights and segments stay within what they may take."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

# The address space that a process may have beyond what it has after the first sizes.
ROOM = 400 << 20

PROGRAM = """
import json, resource, sys
import numpy as np
import pylayout as pl

count, kind, room = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
pl.configure(opencl=False)
rng = np.random.default_rng(0)
weights = [rng.standard_normal(shape).astype("f4") / 8 for shape in ((48, 32), (32, 48), (8, 3, 3, 3))]
options = {"device": "cpu", "tune": "off", "program_memory": 8 << 20}

if kind == "text":
    g = pl.Graph(sizes={"n": 1, "s": 4})
    x = g.input("x", ("n", "s", 32))
    y = g.relu(g.linear(x, weights[0]))
    y = g.softmax(g.reshape(y, [g.size("n"), g.size("s") * 2, 24]), -1)
    y = g.linear(g.reshape(y, [g.size("n"), g.size("s"), 48]), weights[1])
    g.output(g.add(x, y), "y")
    plan = pl.compile(g, **options)
elif kind == "pictures":
    g = pl.Graph(sizes={"h": 8, "w": 8})
    y = g.conv2d(g.input("x", (1, 3, "h", "w")), weights[2], padding=1, activation="relu")
    g.output(g.mean(y, [2, 3]), "y")
    plan = pl.compile(g, **options)
else:
    import onnx.parser
    plan = pl.compile(onnx.parser.parse_model('''<ir_version: 9, opset_import: ["" : 20]>
        agraph (float[n, 3] x) => (float[n, 3] y, float[k] z) {
            y = Relu(x)
            p = NonZero(y)
            q = Transpose(p)
            z = GatherND(x, q)
        }'''), **options)

def shape_of(i):
    if kind == "text":
        return (1 + i % 40, 1 + i // 40, 32)
    return (1, 3, 3 + i % 100, 3 + i // 100) if kind == "pictures" else (1 + i, 3)

def is_right(x, results):
    if kind == "text":
        y = np.maximum(x @ weights[0].T, 0).reshape(x.shape[0], -1, 24)
        y = np.exp(y - y.max(-1, keepdims=True))
        y = x + (y / y.sum(-1, keepdims=True)).reshape(*x.shape[:2], 48) @ weights[1].T
        return np.allclose(results[0], y, 1e-3, 1e-4)
    if kind == "pictures":
        return results[0].shape == (1, 8) and (results[0] > 0).any()
    return np.array_equal(results[0], np.maximum(x, 0)) and np.array_equal(results[1], x[x > 0])

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

early = 0
for i in range(count):
    x = rng.standard_normal(shape_of(i)).astype("f4")
    results = plan.run(x)
    assert i % 20 or is_right(x, results), shape_of(i)
    if i == min(count // 3, 1000):
        early = resident()
        space = int(open("/proc/self/statm").read().split()[0]) * 4096 + room
        resource.setrlimit(resource.RLIMIT_AS, (space, space))
print(json.dumps({"grown": resident() - early}))
"""


def check(count: int, kind: str) -> None:
    if kind == "segments":
        pytest.importorskip("onnx")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(count), kind, str(ROOM)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    grown = json.loads(done.stdout)["grown"]
    assert grown < 64 << 20, f"{grown >> 20} MiB more than after the first sizes"


@pytest.mark.parametrize("kind", ["text", "pictures", "segments"])
def test_some_hundred_sizes(kind: str) -> None:
    check(200, kind)


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["text", "pictures", "segments"])
def test_ten_thousand_sizes(kind: str) -> None:
    check(10_000, kind)


CHOICES = """
import numpy as np
import pylayout as pl
from pylayout.device import costs

pl.configure(opencl=False)
g = pl.Graph(sizes={"n": 1, "s": 40})
weights = [np.random.default_rng(i).standard_normal((64, 64)).astype("f4") / 8 for i in range(4)]
x = g.input("x", ("n", "s", 64))
q, k, v = (g.reshape(g.linear(x, w), [g.size("n"), g.size("s"), 4, 16]) for w in weights[:3])
y = g.scaled_dot_product_attention(*(g.permute(each, [0, 2, 1, 3]) for each in (q, k, v)))
y = g.reshape(g.permute(y, [0, 2, 1, 3]), [g.size("n"), g.size("s"), 64])
g.output(g.add(x, g.linear(y, weights[3])), "y")
plan = pl.compile(g, device="cpu", tune="off")

def run(sizes):
    for n, s in sizes:
        x = np.full((n, s, 64), 0.5, "f4")
        assert plan.run(x)[0].shape == x.shape
    return costs()

before = run([(1, 33), (2, 50)])
after = run([(n, s) for n in (3, 4) for s in range(40, 64)])
for name in ("choices", "choice_bytes"):
    assert after[name] <= 1.1 * before[name], (name, before[name], after[name])
assert plan.summary()["sizes"]["made"] >= 40
"""


def test_programs_of_further_sizes_leave_no_choices_behind() -> None:
    """What was looked at for a size goes with the size's program: no eager call asked for it."""
    done = subprocess.run([sys.executable, "-c", CHOICES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

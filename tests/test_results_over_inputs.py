"""Results of plans that are written into the tensors that the same run reads: pl_plan_run with an input as output."""

import numpy as np
import pytest

import pylayout as pl
from pylayout._load import ffi, lib
from pylayout.errors import check


def run_into(plan, inputs, outputs):
    """One run on these tensors; what it had to move beside its ops."""
    given = [tensor._handle for tensor in inputs]
    out = ffi.new("pl_tensor[]", [tensor._handle for tensor in outputs])
    with pl.profile() as profile:
        check(lib.pl_plan_run(plan._handle, given, len(given), out, len(outputs)))
    for result, tensor in zip(out, outputs, strict=True):
        assert result == tensor._handle
    return [event for event in profile.events if event["kind"] != "op"]


def statistics(read_later):
    """A running mean; read_later: an op behind it reads the old one, too."""
    g = pl.Graph()
    mean, x = g.input("mean", (5,)), g.input("x", (5,))
    g.output(g.pointwise([mean, x], "y0 = x0 * s0 + x1 * s1", scalars=[0.75, 0.25]), "next")
    shifted = g.relu(g.sub(x, mean)) if read_later else g.relu(x)
    g.output(g.reshape(g.cumsum(shifted, 0), (5, 1)), "y")
    return g


@pytest.mark.parametrize("read_later", [False, True])
def test_a_running_mean(device, read_later):
    plan = pl.compile(statistics(read_later), device=device, deterministic=True)
    mean, x = np.float32([1, -2, 3, 0, 5]), np.float32([4, 4, -4, 8, 1])
    held, given = pl.asarray(mean, device=device), pl.asarray(x, device=device)
    y = pl.asarray(np.full((5, 1), np.nan, np.float32), device=device)
    for _ in range(3):
        expected = np.cumsum(np.maximum(x - mean if read_later else x, 0))[:, None]
        mean = np.float32(0.75) * mean + np.float32(0.25) * x
        moved = run_into(plan, [held, given], [held, y])
        np.testing.assert_allclose(held.numpy(), mean, rtol=1e-6)
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-6)
        assert read_later or not moved, moved


def test_the_same_tensor_for_two_results(device):
    """The last one is left."""
    g = pl.Graph()
    x = g.input("x", (4,))
    g.output(g.relu(x), "a")
    g.output(g.mul(x, 2.0), "b")
    plan = pl.compile(g, device=device, deterministic=True)
    x = pl.asarray(np.float32([-1, 2, -3, 4]), device=device)
    run_into(plan, [x], [x, x])
    np.testing.assert_array_equal(x.numpy(), [-2, 4, -6, 8])


def test_an_array_that_is_borrowed_twice():
    """One array, once as an input of the call and once by the tensor that its result is written to."""
    rng = np.random.default_rng(1)
    a, w = rng.standard_normal((24, 24), "f4"), rng.standard_normal((24, 24), "f4")
    expected = a @ w
    pl.ops.matmul(a, w, out=pl.asarray(a, copy=False))
    np.testing.assert_allclose(a, expected, atol=1e-4)


@pytest.mark.parametrize("shift", [1, 5, -3])
def test_a_result_over_a_part_of_an_input(shift):
    memory = np.arange(64, dtype="f4")
    first, last = max(0, -shift), max(0, shift)
    x, out = memory[first : first + 48], memory[last : last + 48]
    expected = np.cumsum(x), x + 1
    pl.ops.cumsum(x, 0, out=pl.asarray(out, copy=False))
    np.testing.assert_array_equal(out, expected[0])
    memory[:] = np.arange(64)
    pl.ops.add(x, 1.0, out=pl.asarray(out, copy=False))
    np.testing.assert_array_equal(out, expected[1])


def test_two_inputs_in_one_tensor(device):
    g = pl.Graph()
    a, b = g.input("a", (4,)), g.input("b", (4,))
    g.output(g.sub(g.mul(a, 3.0), b), "y")
    plan = pl.compile(g, device=device, deterministic=True)
    x = pl.asarray(np.float32([-1, 2, -3, 4]), device=device)
    run_into(plan, [x, x], [x])
    np.testing.assert_array_equal(x.numpy(), [-2, 4, -6, 8])


def test_copies_that_were_kept_are_forgotten(device):
    """A reordered copy is kept with a tensor: not of what was there before the run."""
    g = pl.Graph()
    x = g.input("x", (1, 20, 3, 3))
    g.output(g.add(x, 1.0), "y")
    plan = pl.compile(g, device=device, deterministic=True)
    values = np.arange(180, dtype=np.float32).reshape(1, 20, 3, 3)
    x = pl.asarray(values, device=device)
    before = x.to(layout="NHWC")
    run_into(plan, [x], [x])
    np.testing.assert_array_equal(x.to(layout="NHWC").numpy(), values + 1)
    np.testing.assert_array_equal(before.numpy(), values)


def test_live_runs_write_once():
    """While programs compete a run may be left and begun again: what it reads is as it was."""
    g = pl.Graph()
    state, x = g.input("state", (1, 16, 12, 12)), g.input("x", (1, 16, 12, 12))
    filters = g.constant(np.eye(16, dtype=np.float32)[:, :, None, None], "filters")
    g.output(g.add(state, 1.0), "next")
    for _ in range(6):
        x = g.relu(g.conv2d(x, filters))
    g.output(x, "y")
    plan = pl.compile(g, device="cpu", tune="live")
    state = pl.zeros((1, 16, 12, 12))
    given, y = pl.asarray(np.ones((1, 16, 12, 12), np.float32)), pl.zeros((1, 16, 12, 12))
    for number in range(300):
        run_into(plan, [state, given], [state, y])
        assert state.numpy()[0, 3, 5, 7] == number + 1

"""Every op against PyTorch in float64, in every layout, on every device; and against itself without PyTorch."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from op_cases import CASES, FAMILIES, Case, tensor_parameters

import pylayout as pl
from pylayout import ops
from pylayout._load import ffi, lib
from pylayout.composed import COMPOSED

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

import ops_page

# Nothing is measured: results do not depend on it, and to measure is to build several kernels for each call.
# test_measured_candidates does, and is slow.
pytestmark = pytest.mark.usefixtures("unoptimised")

LAYOUTS = ["auto", "NCHW", "NHWC", "nChw16c", "nChw8c", "per-op"]
CASE_IDS = [case.name for case in CASES]


def as_list(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def reference(case: Case, tensors: list[np.ndarray | None]) -> list[np.ndarray]:
    torch = pytest.importorskip("torch", reason="the float64 reference is PyTorch's")
    import torch.nn.functional as f

    inputs = [torch.from_numpy(t.astype(np.float64) if t.dtype == np.float32 else t) for t in tensors if t is not None]
    if case.reference:
        results = case.reference(torch, f, inputs, case.attributes)
    else:
        function = getattr(f, case.op, None) or getattr(torch, case.op)
        results = function(*inputs, **case.attributes)
    return [r.numpy() for r in as_list(results)]


BY_RANK = {
    "NHWC": {3: "NWC", 4: "NHWC", 5: "NDHWC"},
    "nChw16c": {3: "nCw16c", 4: "nChw16c", 5: "nCdhw16c"},
    "nChw8c": {3: "nCw8c", 4: "nChw8c", 5: "nCdhw8c"},
}


def placed(tensors: list[np.ndarray | None], device: str, layout: str) -> list[pl.Tensor | None]:
    """The tensors on a device, activations in the layout."""
    family = BY_RANK.get(layout, {})
    return [None if t is None else pl.asarray(t, device=device, layout=family.get(t.ndim)) for t in tensors]


def check(case: Case, results: list[Any], expected: list[np.ndarray], what: str) -> None:
    assert len(results) == len(expected), what
    for got, want in zip(results, expected, strict=True):
        array = np.asarray(got)
        assert array.shape == want.shape, what
        if want.dtype.kind in "biu":
            np.testing.assert_array_equal(array, want, err_msg=what)
        else:
            scale = max(1.0, float(np.abs(want).max(initial=0)))
            np.testing.assert_allclose(
                array.astype(np.float64), want, rtol=0, atol=case.tolerance * scale, err_msg=what
            )


def check_padding(tensor: pl.Tensor, what: str) -> None:
    """Padding elements are zero: the storage holds no more non-zero elements than the logical array."""
    if not tensor.layout.is_blocked or tensor.dtype != "f32" or not tensor.is_dense:
        return
    local = tensor.to(device="cpu")
    data, info = ffi.new("void **"), ffi.new("pl_tensor_info *")
    assert lib.pl_tensor_data(local._handle, data) == lib.PL_OK
    assert lib.pl_tensor_describe(local._handle, info) == lib.PL_OK
    raw = np.frombuffer(ffi.buffer(data[0], info.storage_bytes), np.float32)
    assert np.count_nonzero(raw) == np.count_nonzero(np.asarray(local)), f"{what}: padding is not zero"


@pytest.mark.one_in(4)
@pytest.mark.parametrize("case", CASES, ids=CASE_IDS)
def test_against_float64(case: Case, device: str) -> None:
    tensors = case.make()
    expected = reference(case, tensors)
    for layout in LAYOUTS:
        what = f"{case.name} in {layout} on {device}"
        there = placed(tensors, device, layout)
        results = as_list(case.call(ops, there, layout=layout))
        assert all(r.device == device for r in results), what
        check(case, results, expected, what)
        for result in results:
            check_padding(result, what)
        check_repeats(case, there, layout, results, what)
        if layout == "auto":
            check_what_was_chosen_could_be_built(case, there, device)


def check_repeats(case: Case, tensors: list[pl.Tensor | None], layout: str, results: list[Any], what: str) -> None:
    """The same call again gives the same bits, unless dispatch takes another implementation, now that it saw one."""
    again = as_list(case.call(ops, tensors, layout=layout))
    if layout not in ("auto", "per-op"):
        assert [np.asarray(r).tobytes() for r in again] == [np.asarray(r).tobytes() for r in results], what


def check_what_was_chosen_could_be_built(case: Case, tensors: list[pl.Tensor | None], device: str) -> None:
    """A call falls back to another implementation where the first one's kernel does not compile, so results hide it."""
    arguments = [list(tensors)] if case.variadic else []
    named = {} if case.variadic else dict(zip(tensor_parameters(case.op), tensors, strict=False))
    answer = pl.query(case.op, *arguments, device=device, **named, **case.attributes)
    assert [r for r in answer.refusals if "building" in r["reason"]] == []


@pytest.mark.skipif(find_spec("torch") is not None, reason="test_against_float64 makes the same calls, and more")
@pytest.mark.parametrize("case", CASES, ids=CASE_IDS)
def test_layouts_agree(case: Case, device: str) -> None:
    """Where there is no PyTorch: each layout and device gives what the plain layout on `cpu` gives."""
    tensors = case.make(seed=1)
    expected = [np.asarray(r) for r in as_list(case.call(ops, placed(tensors, "cpu", "NCHW"), layout="NCHW"))]
    wanted = [e.astype(np.float64) if e.dtype.kind == "f" else e for e in expected]
    for layout in ("NHWC", "nChw16c"):
        there = placed(tensors, device, layout)
        results = as_list(case.call(ops, there, layout=layout))
        what = f"{case.name} in {layout} on {device}"
        check(case, results, wanted, what)
        check_repeats(case, there, layout, results, what)


@pytest.mark.parametrize("layout", ["nChw4c", "CHWN", "acdb", "aBcd32b", "NHcW4c"])
def test_any_layout_may_be_forced(layout: str, device: str, rng: np.random.Generator) -> None:
    """A layout is a value: one that nobody listed works like the known ones where an implementation is generic."""
    x = rng.standard_normal((2, 19, 9, 10)).astype(np.float32)
    y = ops.abs(ops.add(pl.asarray(x, device=device), pl.asarray(x, device=device), layout=layout), layout=layout)
    assert y.layout == layout
    np.testing.assert_array_equal(np.asarray(y), np.abs(x + x))


def test_every_op_has_a_case() -> None:
    names = set(dir(ops)) - set(ops.ALIASES) - set(COMPOSED)  # composed ones: test_composed_ops.py
    assert names == {case.op for case in CASES}


def test_every_case_is_where_it_is_looked_for() -> None:
    """In the file named as the op's page; gradients there, or beside the op that they are of."""
    page = {op: name for name, (_, of_page) in ops_page.families().items() for op in of_page}
    for family, cases in FAMILIES.items():
        for case in cases:
            forward = case.op.removesuffix("_backward")
            assert family in (page[case.op], page.get(forward)), f"{case.name}: in op_cases/{family}.py"


@pytest.fixture
def tuned(unoptimised: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PYLAYOUT_OPENCL_OPTIONS", "")  # what is measured is what users have
    pl.set_tuning("auto")
    yield
    pl.set_tuning("off")


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=CASE_IDS)
def test_measured_candidates(case: Case, device: str, tuned: None) -> None:
    """The same where dispatch measures: it builds what lies near the best, compares their results, takes any."""
    test_against_float64(case, device)


@pytest.mark.parametrize("dtype", ["f4", "i1", "u1", "i4", "i8"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "nChw16c"])
def test_windows_that_dilation_leads_past_the_input(dtype: str, layout: str, device: str) -> None:
    """A maximum of nothing is the lowest number, and has no gradient."""
    x = np.arange(1, 25).reshape(2, 3, 1, 4).astype(dtype)
    given = pl.asarray(x, device=device, layout=layout)
    window = {"kernel_size": (2, 1), "stride": 1, "padding": (2, 0), "dilation": (4, 1)}  # rows -2 and 2, of one
    lowest = -np.inf if dtype == "f4" else np.iinfo(dtype).min
    y = np.asarray(ops.max_pool2d(given, layout=layout, **window))
    np.testing.assert_array_equal(y, np.full((2, 3, 1, 4), lowest, dtype))
    if dtype == "f4":
        grad = pl.asarray(np.ones_like(y), device=device, layout=layout)
        np.testing.assert_array_equal(np.asarray(ops.max_pool2d_backward(given, grad, **window)), np.zeros_like(x))

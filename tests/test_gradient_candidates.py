"""Every candidate of the ops that gradients are made of, by provider and layout, against float64; and its bits again.

Dispatch takes one candidate of each call; which one depends on costs. So here all are run, as `pylayout verify` does
at networks' sizes, on the cases of op_cases.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gradient_graphs import call_in_pytorch, is_real
from op_cases import CASES, Case

import pylayout as pl
from pylayout.calls import schemas
from pylayout.verify.case import Case as Call
from pylayout.verify.check import Candidates

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

import support_page

torch = pytest.importorskip("torch", reason="the calls in float64 are PyTorch's")

pytestmark = pytest.mark.usefixtures("unoptimised")

# Ops that are parts of gradients and of forward passes: the gradient of a convolution by x, of a product.
OTHERS = {f"conv{kind}{n}d" for kind in ("", "_transpose") for n in (1, 2, 3)} | {"matmul"}
LARGEST = 40_000  # elements of a tensor


def is_part(case: Case) -> bool:
    tensors = case.make()
    if case.variadic or schemas()[case.op]["view"] or not all(t is None or 0 < t.size <= LARGEST for t in tensors):
        return False
    return case.op in OTHERS or case.op.endswith(("_backward", "_backward_weights"))


PARTS = [case for case in CASES if is_part(case)]


def providers_of(device: str) -> set[str]:
    return {"host", "onednn"} if device == "cpu" else {"opencl"}  # tensors on the CPU may be moved to the others


def candidates_of(case: Case, tensors: list[np.ndarray | None], device: str) -> Candidates:
    texts = [None if t is None else f"{pl.asarray(t).dtype}:{'x'.join(map(str, t.shape))}" for t in tensors]
    return Candidates(Call(case.op, tuple(texts), case.attributes), device, tensors, False)


@pytest.mark.one_in(1000)  # on OpenCL devices one call of each op, as kernels are built for each
@pytest.mark.parametrize("case", PARTS, ids=[case.name for case in PARTS])
def test_every_candidate(case: Case, device: str) -> None:
    tensors = case.make(seed=11)
    given = [None if t is None else torch.from_numpy(t.astype("f8") if is_real(t) else t) for t in tensors]
    expected = [y.detach().numpy() for y in call_in_pytorch(case, given)]
    candidates = candidates_of(case, tensors, device)
    try:
        description = candidates.describe()
        found: list[dict[str, Any]] = description["candidates"]
        own = [(k, each) for k, each in enumerate(found) if each["provider"] in providers_of(device)]
        if not own:  # the op runs elsewhere
            reasons = [each["reason"] for each in description["refusals"] if each["provider"] in providers_of(device)]
            assert reasons
            pytest.skip("; ".join(reasons))
        for index, each in own:
            what = f"{case.name}: {each['implementation']} of {each['provider']}, {each['outputs']}"
            report, results = candidates.run(index, len(expected))
            assert report["prepared"] and not report["damage"], (what, report)
            for (got, _), want in zip(results, expected, strict=True):
                scale = max(1.0, float(np.abs(want).max(initial=0)))
                off = max(case.tolerance, 5e-5) * scale
                np.testing.assert_allclose(got, want, rtol=0, atol=off, err_msg=what)
            again = candidates.run(index, len(expected))[1]
            assert [a.tobytes() for a, _ in again] == [a.tobytes() for a, _ in results], f"{what}: other bits"
    finally:
        candidates.close()


def test_candidates_are_of_each_provider_and_layout(device: str) -> None:
    """Those that the test above runs: in f32 all that the support page has, of oneDNN those of this processor."""
    page = json.loads(support_page.DATA.read_text("utf-8"))["ops"]
    seen: dict[tuple[str, str], set[str]] = {}
    for case in PARTS:
        candidates = candidates_of(case, case.make(seed=11), device)
        try:
            for each in candidates.describe()["candidates"]:
                letter = support_page.layout_letter(each["outputs"][0])
                seen.setdefault((case.op, each["provider"]), set()).add(letter)
        finally:
            candidates.close()
    own = {(op, provider) for op, _ in seen for provider in page[op].keys() & providers_of(device) - {"onednn"}}
    missing = {each: set(page[each[0]][each[1]]["f32"]) - seen.get(each, set()) for each in own}
    assert not {each: letters for each, letters in missing.items() if letters}
    if device == "cpu":
        assert any(provider == "onednn" for _, provider in seen)

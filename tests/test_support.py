"""docs/reference/support.json is what the library answers: ops and providers, asked anew for one dtype of each op."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import pylayout as pl

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import support_page  # noqa: E402

DATA = json.loads(support_page.DATA.read_text("utf-8"))
ADVICE = "run `python tools/support_page.py --collect`"


def providers_here(device: str) -> set[str]:
    return {"host", "onednn"} if device == "cpu" else {"opencl"}


def lacks_code_of_onednn() -> bool:
    """Whether oneDNN makes code for a lesser processor than the table's, which has AVX-512 with products of 8 bits."""
    (version,) = (p["version"] for p in pl.device.describe()["providers"] if p["name"] == "onednn")
    return "avx512_core_" not in version


def test_ops_are_those_of_the_schemas() -> None:
    assert support_page.problems(DATA) == []
    named = {provider for of_op in DATA["ops"].values() for provider in of_op}
    assert named == set(support_page.PROVIDERS) == {p["name"] for p in pl.device.describe()["providers"]}


@pytest.mark.usefixtures("untuned")
def test_providers_of_each_op_are_those_that_have_candidates(device: str) -> None:
    """In f32, or the only dtype of an op, which depends least on the processor. Cases are asked until all are found.

    What oneDNN has no code for on this processor, others compute.
    """
    wanted: dict[str, set[str]] = {}
    found: dict[str, set[str]] = {}
    for case in support_page.cases_of_ops():
        dtype = support_page.own_dtype(case)
        of_op = DATA["ops"].get(case.op, {})
        there = {provider for provider in providers_here(device) if dtype in of_op.get(provider, {})}
        wanted.setdefault(case.op, set()).update(there)
        if case.op not in found or not there <= found[case.op]:
            candidates = support_page.candidates_of(case, dtype, device)
            found.setdefault(case.op, set()).update(candidate["provider"] for candidate in candidates)
    lost = {op for op in found if wanted[op] - found[op] == {"onednn"}} if lacks_code_of_onednn() else set()
    assert all(found[op] for op in lost), "an op that oneDNN has no code for here has no candidate"
    wrong = {
        op: (found[op], wanted[op])
        for op in found
        if op not in lost and found[op] & providers_here(device) != wanted[op]
    }
    assert not wrong, ADVICE
    assert len(lost) <= sum("onednn" in providers for providers in wanted.values()) // 8, sorted(lost)

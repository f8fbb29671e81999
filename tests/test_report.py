"""The HTML report and the numbers in it, from a small recording with one of everything (data/profile_events.json)."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import pylayout as pl
from pylayout.comparison import relative_error
from pylayout.policy_results import Comparison, PolicyRuns, Split, split_events
from pylayout.report import analysis, write_comparison, write_profile_report

EVENTS = json.loads((Path(__file__).parent / "data" / "profile_events.json").read_text("utf-8"))["events"]

VOID = {"meta", "input", "br", "link", "img", "hr"}


class Balanced(HTMLParser):
    """Fails on a tag that is not closed, and on anything loaded from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.identities: list[str] = []
        self.references: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        assert not {"src", "href"} & set(given), f"<{tag}> loads something"
        if "id" in given:
            self.identities.append(given["id"] or "")
        self.references += [given[key] or "" for key in ("data-panel", "data-timeline") if key in given]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()


def parsed(path: Path) -> tuple[str, Balanced]:
    text = path.read_text("utf-8")
    parser = Balanced()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    assert len(set(parser.identities)) == len(parser.identities)
    assert set(parser.references) <= set(parser.identities)
    assert "http://" not in text and "https://" not in text and "@import" not in text
    return text, parser


def runs(name: str, total: float, events: list[dict] = EVENTS, error: float | None = 1e-6) -> PolicyRuns:
    return PolicyRuns(
        name, totals=[total, total + 1, total - 1], splits=[split_events(events)], events=events, error=error
    )


@pytest.fixture
def comparison() -> Comparison:
    policies = {
        "per-op": runs("per-op", 30.0),
        "NCHW": runs("NCHW", 20.0, error=0.0),
        "auto": runs("auto", 10.0, [event for event in EVENTS if event["kind"] == "op"], error=None),
    }
    return Comparison("<resnet50>", "cpu", 2, policies, np.zeros((2, 1000)))


def test_comparison_report_is_whole_and_alone(comparison, tmp_path):
    path = tmp_path / "report.html"
    write_comparison(path, comparison, {"image": "a&b.jpg"}, {"cpu": "<fast>"})
    text, parser = parsed(path)
    assert "<resnet50>" not in text and "&lt;resnet50&gt;" in text
    assert "a&amp;b.jpg" in text and "&lt;fast&gt;" in text
    assert [identity for identity in parser.identities if identity.startswith("panel-")] == [
        "panel-0",
        "panel-1",
        "panel-2",
    ]
    assert "2.00×" in text  # NCHW's total over auto's
    assert "3.00×" in text  # per-op's
    assert "not finite" in text
    assert "This run needed none." in text  # auto's reorders


def test_profile_report_names_what_ran(tmp_path):
    path = tmp_path / "report.html"
    write_profile_report(pl.Profile(EVENTS), path)
    text, _ = parsed(path)
    for expected in ("max_pool2d", "brgconv:avx512_core", "1×3×8×8", "NCHW → NHWC", "cpu to opencl:0", "gather: x"):
        assert expected in text, expected
    assert "op 1 of 4" in text


def test_report_of_nothing(tmp_path):
    path = tmp_path / "report.html"
    write_profile_report(pl.Profile([]), path)
    text, _ = parsed(path)
    assert "Nothing was recorded." in text


def test_report_method_writes_the_same(tmp_path):
    pl.Profile(EVENTS).report(tmp_path / "report.html")
    text, _ = parsed(tmp_path / "report.html")
    assert "The dearest reorders" in text


def test_widths_of_the_bars_add_up(comparison, tmp_path):
    write_comparison(tmp_path / "report.html", comparison)
    text = (tmp_path / "report.html").read_text("utf-8")
    tracks = re.findall(r'<div class="track">(.*?)</div>', text, re.DOTALL)
    widths = [sum(map(float, re.findall(r"width:([\d.]+)%", track))) for track in tracks]
    assert widths == pytest.approx([80.0, 80 * 20 / 30, 80 * 10 / 30], abs=0.01)


def test_dearest_reorders_and_their_cause():
    found = analysis.dearest_reorders(EVENTS)
    assert [reorder.ms for reorder in found] == [0.3, 0.08, 0.05, 0.02]
    transfer, read, weight, data = found
    assert transfer.kind == "transfer" and transfer.cause == "gather: x" and transfer.place.startswith("op 3 of 4")
    assert read.cause == "read" and read.place == ""
    assert weight.role == "weights" and weight.place == "op 1 of 4, 1×3×8×8 → 1×16×8×8"
    assert (data.source.layout, data.target.layout, data.bytes) == ("NCHW", "NHWC", 1536)
    assert len(analysis.dearest_reorders(EVENTS, 2)) == 2


def test_reorder_of_an_output_belongs_to_the_op_before():
    conv = EVENTS[2]
    moved = {**EVENTS[-1], "cause": "conv2d: output", "start_ms": 1.0}
    (found,) = analysis.dearest_reorders([conv, moved, {**conv, "start_ms": 2.0}])
    assert found.place.startswith("op 1 of 2")


def test_ops_by_time_groups_equal_calls():
    groups = analysis.ops_by_time(EVENTS)
    assert [(group.op, group.count) for group in groups] == [("conv2d", 2), ("gather", 1), ("max_pool2d", 1)]
    conv = groups[0]
    assert conv.ms == pytest.approx(0.95)
    assert conv.rate == "0 GFLOP/s"  # 110,592 in 0.95 ms
    assert groups[1].rate.endswith("GB/s")


def test_lanes_never_overlap():
    # Work for a device is queued faster than it runs: all of these start at once by the host's clock.
    queued = [{**EVENTS[5], "start_ms": 0.1 * i, "ms": 1.0} for i in range(4)]
    (placed,) = analysis.lanes(queued).values()
    starts = [start for start, _ in placed]
    assert starts == pytest.approx([0.0, 1.0, 2.0, 3.0])


def test_lanes_by_thread():
    twice = [EVENTS[2], {**EVENTS[2], "thread": 7}]
    assert sorted(analysis.lanes(twice)) == ["cpu, thread 1", "cpu, thread 2"]
    assert sorted(analysis.lanes(EVENTS)) == ["cpu", "opencl:0"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f32 (1, 64, 56, 56) nChw16c", ("f32", "1×64×56×56", "nChw16c")),
        ("s64 (2,) a", ("s64", "2", "a")),
        ("f32 () ", ("f32", "scalar", "")),
        ("bf16 (2, 3, 4, 4) NHWC strides (48, 1, 12, 3) offset 6", ("bf16", "2×3×4×4", "NHWC")),
        ("absent", ("", "absent", "")),
    ],
)
def test_parse_description(text, expected):
    found = analysis.parse(text)
    assert (found.dtype, found.shape, found.layout) == expected


def test_split_counts_transfers_as_reorders():
    split = split_events(EVENTS)
    assert split.op_ms == pytest.approx(0.5 + 0.1 + 0.2 + 0.45)
    assert split.reorder_ms == pytest.approx(0.02 + 0.05 + 0.3 + 0.08)
    assert split.activations == (3, 1536 + 1024 + 8192)
    assert split.weights == (1, 3456)


def test_split_never_exceeds_the_total():
    slow = PolicyRuns("auto", totals=[10.0], splits=[Split(12.0, 4.0, (1, 8.0), (0, 0.0))])
    assert slow.op_ms == pytest.approx(7.5) and slow.reorder_ms == pytest.approx(2.5)
    fine = PolicyRuns("auto", totals=[20.0], splits=[Split(12.0, 4.0, (1, 8.0), (0, 0.0))])
    assert fine.op_ms == 12.0 and fine.reorder_ms == 4.0


def test_relative_error():
    reference = np.array([3.0, 4.0])
    assert relative_error(np.array([3.0, 4.0]), reference) == 0.0
    assert relative_error(np.array([3.0, 4.5]), reference) == pytest.approx(0.1)
    assert relative_error(np.array([np.nan, 4.0]), reference) is None
    assert relative_error(np.zeros(2), np.zeros(2)) == 0.0
    assert relative_error(np.ones(2), np.zeros(2)) is None


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def long_names(event: dict) -> dict:
    """An op's event with names as long as they come: a tiled kernel's tunables, images of a large batch."""
    if event["kind"] != "op":
        return event
    names = "conv_fwd_mma[TILE_ROWS=128,TILE_COLUMNS=256,TILE_TERMS=32,WAVE_ROWS=64,WAVE_COLUMNS=64,STAGES=4]"
    shapes = [text.replace("(1,", "(256,") for text in event["inputs"]]
    return {**event, "provider": "opencl", "implementation": names, "inputs": shapes, "flops": event["ms"] * 9.87654e12}


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")
@pytest.mark.parametrize("width", [1400, 1000])
def test_no_column_is_cut_off(tmp_path, width):
    """In a browser, no table is wider than the box that it lies in, which would scroll and hide the last columns."""
    page = tmp_path / "report.html"
    recorded = type("Recording", (), {"events": [long_names(event) for event in EVENTS]})
    write_profile_report(recorded, page)
    measure = (
        "<script>document.title = 'wide: ' + [...document.querySelectorAll('.scroll')]"
        ".map(box => box.scrollWidth - box.clientWidth).join(' ')</script></body>"
    )
    page.write_text(page.read_text("utf-8").replace("</body>", measure), "utf-8")
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    command += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    command += [f"--user-data-dir={tmp_path / 'browser'}", f"--window-size={width},1000", "--dump-dom", page.as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
    found = re.search(r"<title>wide: ([-0-9 ]+)</title>", shown)
    assert found, shown[:500]
    assert set(found[1].split()) == {"0"}

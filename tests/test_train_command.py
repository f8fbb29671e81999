"""`pylayout train`: it learns, reports, keeps checkpoints whole, and goes on after a kill as if nothing had been."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_report import parsed

import pylayout as pl
from pylayout import pictures
from pylayout.classifier import Classifier, Settings
from pylayout.cli import main
from pylayout.report.curves import Curve, chart

QUIET: Any = lambda *_: None  # noqa: E731


def stripes(count: int, seed: int = 0, noise: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """Pictures of a stripe: across, upright, or along the diagonal."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, count)
    rows, columns = np.indices((8, 8))
    images = noise * rng.standard_normal((count, 8, 8))
    for image, label, at in zip(images, labels, rng.integers(1, 7, count), strict=True):
        image[(rows == at, columns == at, rows - columns == at - 4)[label]] += 1
    return images.astype("f4"), labels


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pictures") / "stripes.npz"
    images, labels = stripes(160)
    np.savez(path, images=images, labels=labels)
    return path


def classifier(settings: Settings, count: int = 160) -> Classifier:
    images, labels = stripes(count)
    train, test = pictures._normalised("stripes", images[:, None], labels).split(0.2, 0)
    return Classifier(train, test, settings)


def test_learns_and_reports(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report, plan = tmp_path / "report.html", tmp_path / "stripes.plan"
    arguments = ["train", str(data), "--epochs", "12", "--batch", "32", "--report", str(report), "--plan", str(plan)]
    assert main([*arguments, "--json", str(tmp_path / "out.json")]) == 0
    result = json.loads((tmp_path / "out.json").read_text("utf-8"))
    out = capsys.readouterr().out
    assert result["accuracy"] > 0.9 and f"{100 * result['accuracy']:.2f}% of the test pictures right" in out
    assert len(result["epochs"]) == 12 and len(result["losses"]) == 12 * 4
    assert np.mean(result["losses"][-4:]) < 0.5 * np.mean(result["losses"][:4])

    text, _ = parsed(report)
    assert "mean of an epoch" in text and "each step" in text
    assert len(re.findall("taken for", text)) >= 1 or result["accuracy"] == 1

    # The plan is the network that was judged.
    known = pictures.read(data)
    _, test = known.split(0.2, 0)
    (scores,) = pl.load_plan(plan).run(test.images)
    assert np.mean(scores.argmax(1) == test.labels) == result["accuracy"]


def test_an_epoch_is_all_pictures() -> None:
    """The last batch has those that are left: 96 and 32 of 128."""
    made, whole = (classifier(Settings(epochs=2, batch=batch)) for batch in (96, 128))
    given: list[int] = []
    run = made.plan.run

    def noted(images: Any, labels: Any) -> Any:
        given.append(len(images))
        return run(images, labels)

    made.plan.run = noted  # type: ignore[method-assign]
    made.run(QUIET)
    whole.run(QUIET)
    assert given == [96, 32] * 2 and len(made.history.losses) == 4 and len(whole.history.losses) == 2
    losses, epoch = made.history.losses[:2], made.history.epochs[0]
    assert epoch.loss == pytest.approx((96 * losses[0] + 32 * losses[1]) / 128, rel=1e-6)


def test_digits_in_a_minute(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    assert main(["train", "--epochs", "15", "--json", str(tmp_path / "out.json")]) == 0
    result = json.loads((tmp_path / "out.json").read_text("utf-8"))
    assert result["pictures"] == {"name": "digits", "train": 1438, "test": 359, "classes": 10}
    assert result["accuracy"] > 0.98


def test_goes_on_after_a_kill(data: Path, tmp_path: Path) -> None:
    """The same losses and weights as of a run that nobody ended."""
    checkpoint, epochs = tmp_path / "checkpoint", 80
    command = [sys.executable, "-m", "pylayout", "train", str(data), "--batch", "32", "--epochs", str(epochs)]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "PYLAYOUT_CACHE_DIR": str(tmp_path / "cache"),
    }
    options = ["--checkpoint", str(checkpoint), "--json", "-"]
    with subprocess.Popen([*command, *options], env=environment, stdout=subprocess.PIPE) as killed:
        ends = time.monotonic() + 300
        while not checkpoint.exists() and killed.poll() is None and time.monotonic() < ends:
            time.sleep(0.002)
        killed.kill()
        killed.communicate()
    assert killed.returncode == -signal.SIGKILL, "it ended before it could be killed"

    def finished(*more: str) -> dict[str, Any]:
        done = subprocess.run([*command, *more, "--json", "-"], env=environment, capture_output=True, timeout=300)
        assert done.returncode == 0, done.stderr
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    resumed, whole = finished("--checkpoint", str(checkpoint)), finished()
    assert 0 < resumed["resumed_after"] < epochs and whole["resumed_after"] == 0
    assert resumed["losses"] == whole["losses"]
    assert [e["accuracy"] for e in resumed["epochs"]] == [e["accuracy"] for e in whole["epochs"]]
    # Once more: there is nothing left to do.
    again = finished("--checkpoint", str(checkpoint))
    assert again["resumed_after"] == epochs and again["losses"] == whole["losses"]


def test_a_checkpoint_of_other_settings_is_refused(tmp_path: Path, untuned: None) -> None:
    path = tmp_path / "checkpoint"
    first = classifier(Settings(epochs=1, batch=32))
    first.run(QUIET, path)
    other = classifier(Settings(epochs=1, batch=16))
    before = {state["name"]: other.plan.state(state["name"]) for state in other.plan.states}
    with pytest.raises(pl.InvalidArgumentError, match="made with batch 32, here it is 16"):
        other.resume(path)
    pl.training.save(path.with_name("other"), first.plan, notes={"epoch": 1})
    with pytest.raises(pl.InvalidArgumentError, match="no checkpoint of `pylayout train`"):
        other.resume(path.with_name("other"))
    for name, value in before.items():
        np.testing.assert_array_equal(other.plan.state(name), value)
    with pytest.raises(pl.InvalidArgumentError, match="made with pictures"):
        classifier(Settings(epochs=1, batch=32), count=150).resume(path)
    assert classifier(Settings(epochs=1, batch=32)).resume(tmp_path / "none") == 0


# ---- errors of the command ----


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"images": np.zeros((4, 8, 8))}, "has no labels, expected both"),
        ({"images": np.zeros((4, 8)), "labels": np.zeros(4, int)}, r"images has shape \(4, 8\)"),
        ({"images": np.zeros((4, 8, 8)), "labels": np.zeros(4)}, "labels has shape .* of float64"),
        ({"images": np.zeros((4, 8, 8)), "labels": -np.ones(4, int)}, "labels are -1 to -1"),
        ({"images": np.full((4, 8, 8), np.nan), "labels": np.zeros(4, int)}, "not finite"),
    ],
)
def test_files_that_are_refused(arrays: dict[str, Any], message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(pl.InvalidArgumentError, match=message):
        pictures.read(tmp_path / "bad.npz")


def test_errors_of_the_command(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(data), "--batch", "1000"]) == 2
    assert "expected at most 128" in capsys.readouterr().err
    assert main(["train", str(data), "--lr", "0"]) == 2
    assert main(["train", str(tmp_path / "none.npz")]) == 1
    assert "cannot be read" in capsys.readouterr().err
    (tmp_path / "text.npz").write_text("text")
    assert main(["train", str(tmp_path / "text.npz")]) == 1
    assert "is no file of numpy.savez" in capsys.readouterr().err


def test_pictures_are_moved_by_a_pixel_at_most(rng: np.random.Generator) -> None:
    images = rng.standard_normal((50, 2, 5, 6)).astype("f4")
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)), mode="edge")
    moves = set()
    for image, around, moved in zip(images, padded, pictures.shifted(images, rng), strict=True):
        found = [(y, x) for y in range(3) for x in range(3) if np.array_equal(around[:, y : y + 5, x : x + 6], moved)]
        assert found, image
        moves.update(found)
    assert len(moves) == 9


# ---- checkpoints ----


def counting() -> pl.Plan:
    graph = pl.Graph()
    total, count = graph.state("a/total", np.zeros(3, "f4")), graph.state("count", np.zeros((), "i8"))
    half = graph.state("half", np.zeros(2, "f4"), dtype="bf16")
    for state in (total, count, half):
        graph.update(state, state + 1)
        graph.output(state * 1)
    return pl.compile(graph, tune="off", device="cpu")


def test_checkpoint_and_back(tmp_path: Path) -> None:
    first, second = counting(), counting()
    for _ in range(5):
        first.run()
    pl.training.save(tmp_path / "states", first, notes={"epoch": 5})
    assert pl.training.restore(tmp_path / "states", second) == {"epoch": 5}
    second.run()
    np.testing.assert_array_equal(second.state("a/total"), [6, 6, 6])
    assert int(second.state("count")) == 6
    np.testing.assert_array_equal(second.state("half").astype("f4"), [6, 6])
    assert [path.name for path in tmp_path.iterdir()] == ["states"]


def test_a_write_that_fails_leaves_the_last_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, plan = tmp_path / "states", counting()
    plan.run()
    pl.training.save(path, plan, "first")
    before = path.read_bytes()

    def fails(file: Any, **arrays: Any) -> None:
        file.write(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", fails)
    plan.run()
    with pytest.raises(pl.FileError, match="No space left"):
        pl.training.save(path, plan, "second")
    assert path.read_bytes() == before and [item.name for item in tmp_path.iterdir()] == ["states"]


def test_checkpoints_that_are_refused(tmp_path: Path) -> None:
    path, plan = tmp_path / "states", counting()
    pl.training.save(path, plan)
    graph = pl.Graph()
    total = graph.state("a/total", np.zeros(4, "f4"))
    graph.update(total, total + 1)
    graph.output(total)
    other = pl.compile(graph, tune="off", device="cpu")
    with pytest.raises(pl.InvalidArgumentError, match=r'state "a/total" is f32 \(3,\) .* expected f32 \(4,\)'):
        pl.training.restore(path, other)
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", b"text", whole[:200] + b"\0" * 64 + whole[264:]):
        path.write_bytes(damaged)
        with pytest.raises(pl.InvalidArgumentError, match="no checkpoint, or damaged"):
            pl.training.restore(path, plan)
    with pytest.raises(pl.FileError, match="cannot be read"):
        pl.training.restore(tmp_path / "none", plan)
    with pytest.raises(pl.FileError, match="cannot be written"):
        pl.training.save(tmp_path / "none" / "states", plan)
    with pytest.raises(pl.FileError, match="Is a directory"):
        pl.training.save(tmp_path, plan)
    link = tmp_path / "link"
    link.symlink_to("linked")
    pl.training.save(link, plan)
    assert link.is_symlink() and (tmp_path / "linked").is_file()


# ---- curves ----


def test_curves_are_within_the_picture() -> None:
    points = [(i / 10, 10.0 ** (-i / 500)) for i in range(2000)]
    for logarithmic in (False, True):
        drawn = chart([Curve("loss", "conv", points), Curve("one", "best", [(3.0, 0.5)])], "x", logarithmic=logarithmic)
        numbers = [tuple(map(float, pair.split())) for pair in re.findall(r"[\d.]+ [\d.]+(?=L)", drawn)]
        assert 100 < len(numbers) < 700
        assert all(56 <= x <= 1048 and 10 <= y <= 226 for x, y in numbers)
        assert [x for x, _ in numbers] == sorted(x for x, _ in numbers)
        assert [y for _, y in numbers] == sorted(y for _, y in numbers)  # downwards
    assert "Nothing was recorded" in chart([Curve("loss", "conv", [(1.0, float("nan"))])], "x")

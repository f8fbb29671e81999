"""`pylayout verify`: its exact results against PyTorch, its bounds, its judgement of wrong candidates, its command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from op_cases import CASES
from op_cases import Case as OpCase

import pylayout as pl
from pylayout.calls import schemas
from pylayout.verify import (
    Case,
    Outcome,
    Session,
    Settings,
    bounds,
    check,
    check_case,
    network_cases,
    random_case,
    summary_rows,
)
from pylayout.verify.case import parse_spec, rounded
from pylayout.verify.generate import FAMILIES
from pylayout.verify.references import REFERENCES, Accuracy, reference_of

_NAMES = {"float32": "f32", "int8": "s8", "uint8": "u8", "int32": "s32", "int64": "s64", "bool": "bool"}


def spec_of(array: np.ndarray | None) -> str | None:
    return None if array is None else f"{_NAMES[array.dtype.name]}:{'x'.join(map(str, array.shape))}"


def is_view(op: str) -> bool:
    return op in ("dropout", "flatten", "permute", "reshape", "slice", "split", "squeeze", "transpose", "unsqueeze")


@pytest.mark.parametrize("case", [case for case in CASES if not is_view(case.op)], ids=lambda case: case.name)
def test_exact_results_are_pytorchs(case: OpCase) -> None:
    torch = pytest.importorskip("torch", reason="the other float64 reference is PyTorch's")
    from test_ops import as_list
    from test_ops import reference as by_pytorch

    assert torch
    tensors = case.make(seed=3)
    attributes = dict(case.attributes)
    names = [p["name"] for p in schemas()[case.op]["parameters"] if p["kind"] != "attribute"]
    given = tensors if case.variadic else tensors[: len(names)]
    own = Case(case.op, tuple(spec_of(t) for t in given), attributes)
    reference = reference_of(own, list(given), Accuracy())
    for output, wanted in enumerate(as_list(by_pytorch(case, tensors))):
        shape, _ = reference.outputs[output]
        assert tuple(shape) == wanted.shape
        where = np.arange(wanted.size)
        values, bound = reference.expected(output, where)
        # The same values are asked for by algorithm where implementations differ.
        again, _ = reference.expected_by(reference.algorithm("winograd"), output, where)
        assert np.array_equal(again, values, equal_nan=True)
        difference = np.abs(np.asarray(values, np.float64) - wanted.reshape(-1).astype(np.float64))
        difference = np.where(np.isnan(wanted.reshape(-1)) & np.isnan(np.asarray(values, np.float64)), 0, difference)
        scale = max(1.0, float(np.abs(wanted).max(initial=0)))
        # PyTorch gives f16 and integers where the op does: as far off as rounding. Gradients of recurrent layers take
        # the layer's result, rounded to f32, where PyTorch has its own in float64. The slope of its hardsigmoid is a
        # sixth in f32.
        rounded_input = case.op in ("lstm_backward", "gru_backward", "rnn_backward")
        sixths = case.op == "squeeze_excite_backward" and "hardsigmoid" in str(attributes)
        allowed = (1e-3 if "f16" in str(attributes) else 2e-6 if rounded_input else 1e-7 if sixths else 1e-9) * scale
        assert difference.max(initial=0) <= allowed + (bound.max(initial=0) if wanted.dtype.kind in "iu" else 0)
        assert np.all(bound >= 0)


@pytest.mark.parametrize("op", ["gather_backward", "index_select_backward"])
def test_indices_out_of_range_add_to_nothing(op: str) -> None:
    grad = np.arange(1.0, 7.0).reshape(2, 3).astype("f4")
    index = np.array([[0, 4, -5], [3, -1, 9]]) if op == "gather_backward" else np.array([3, 4, -1])
    case = Case(op, (spec_of(grad), spec_of(index)), {"dim": 1, "size": 4})
    values, _ = reference_of(case, [grad, index], Accuracy()).expected(0, np.arange(8))
    wanted = [[1, 0, 0, 0], [0, 0, 0, 9]] if op == "gather_backward" else [[0, 0, 0, 4], [0, 0, 0, 10]]
    assert np.array_equal(np.asarray(values).reshape(2, 4), wanted)


def test_every_op_that_computes_has_a_reference() -> None:
    assert set(REFERENCES) == {name for name in schemas() if not is_view(name)}


def test_every_op_that_computes_has_cases() -> None:
    """From networks or at random: 5,000 draws of each family, a tenth of what `random_case` makes for an op."""
    missing = {name for name in schemas() if not is_view(name)} - {case.op for case in network_cases()}
    rng = np.random.default_rng(5)
    for _ in range(5000):
        missing -= {case.op for _, make in FAMILIES.values() if (case := make(rng))}
        if not missing:
            break
    assert not missing
    assert random_case(5, 0, frozenset(["linear"])).op == "linear"


def test_random_cases_are_valid_and_the_same_again() -> None:
    for number in range(300):
        case = random_case(11, number)
        again = random_case(11, number)
        assert case == again == Case.from_json(json.loads(json.dumps(case.to_json())))
        for spec in case.specs():
            assert spec is None or int(np.prod(spec[1])) <= 1 << 23


def test_channels_lie_on_both_sides_of_blocks() -> None:
    channels = set()
    for number in range(600):
        case = random_case(3, number)
        if case.op.startswith("conv"):
            spec = parse_spec(case.inputs[0])
            assert spec
            channels.add(spec[1][1])
    assert channels & {255, 256, 257} and channels & {511, 512, 513} and max(channels) >= 2048


def test_rounding_is_to_even() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = np.random.default_rng(0).standard_normal(10000).astype(np.float32)
    values[:2] = 1 + 2.0**-8, 1 + 3 * 2.0**-8
    np.testing.assert_array_equal(rounded(values, "bf16"), values.astype(ml_dtypes.bfloat16).astype(np.float32))
    np.testing.assert_array_equal(rounded(values, "f16"), values.astype(np.float16).astype(np.float32))


@pytest.mark.parametrize("mean", [0.0, 1.0])
def test_the_deviation_is_that_of_a_float32_loop(mean: float) -> None:
    """The yardstick of bounds.py, measured: and the worst of 4,000 loops lies within SPREAD times it."""
    rng = np.random.default_rng(7)
    terms = 2000
    products = ((rng.standard_normal((4000, terms)) + mean) * (rng.standard_normal((4000, terms)) + mean)).astype("f4")
    loop = np.cumsum(products, axis=1, dtype=np.float32)[:, -1].astype(np.float64)
    exact = products.astype(np.float64)
    error = loop - exact.sum(axis=1)
    predicted = bounds.deviation(terms, exact.sum(axis=1), (exact * exact).sum(axis=1))
    ratio = float(np.sqrt(np.mean((error / predicted) ** 2)))
    assert 0.7 < ratio < 1.4
    assert np.abs(error / predicted).max() < bounds.SPREAD * 1.3


def winograd(rounded_filters: bool, tiles: int, channels: int) -> tuple[np.ndarray, np.ndarray]:
    """Errors of F(4x4, 3x3) over normal data, by output of the tile, and the exact results."""
    a, b = 0.625, 1.5
    points = np.array([0, a, -a, b, -b])
    interpolation = np.zeros((3, 6, 6))  # B^T; G and A beside it
    for i, point in enumerate(points):
        others = np.delete(points, i)
        interpolation[0, i, :5] = np.poly(others)[::-1]
        interpolation[1, i, :3] = point ** np.arange(3) / np.prod(point - others)
        interpolation[2, i, :4] = point ** np.arange(4)
    interpolation[0, 5] = np.poly(points)[::-1]
    interpolation[1, 5, 2] = interpolation[2, 5, 3] = 1
    to_windows, to_filters, to_outputs = interpolation[0], interpolation[1, :, :3], interpolation[2, :, :4]

    def transformed(x: np.ndarray, matrix: np.ndarray, dtype: str) -> np.ndarray:
        for _ in range(2):  # rows, then columns; sums of a few terms, each rounded
            parts = [x[..., k, None] * matrix[:, k].astype(dtype) for k in range(x.shape[-1])]
            total = parts[0]
            for part in parts[1:]:
                total = total + part
            x = np.swapaxes(total, -1, -2)
        return x

    rng = np.random.default_rng(0)
    d, g = (rng.standard_normal((channels, tiles, size, size)).astype("f4") for size in (6, 3))
    exact = [transformed(part.astype("f8"), m, "f8") for part, m in ((d, to_windows), (g, to_filters))]
    windows = transformed(d, to_windows, "f4")
    filters = transformed(g, to_filters, "f4") if rounded_filters else exact[1].astype("f4")
    sums = np.zeros((tiles, 6, 6), np.float32)
    for channel in range(channels):
        sums += windows[channel] * filters[channel]
    found, wanted = (
        transformed(total, to_outputs.T, kind) for total, kind in ((sums, "f4"), ((exact[0] * exact[1]).sum(0), "f8"))
    )
    return found - wanted, wanted


@pytest.mark.parametrize("channels", [8, 64])
@pytest.mark.parametrize("rounded_filters", [False, True])
def test_winograds_deviation_is_that_of_its_arithmetic(channels: int, rounded_filters: bool) -> None:
    error, exact = winograd(rounded_filters, 300, channels)
    assert 2 < exact.std() / np.sqrt(channels) < 4  # sums of 9 products for each channel
    worst = float(error.std(axis=0).max())
    assert 0.6 < worst / bounds.winograd_deviation(channels, 9 * channels) < 1.3


def test_winograds_candidates_have_a_bound_of_their_own() -> None:
    """32 channels: shorter sums than a loop rounds as much as Winograd's transforms do; and theirs alone."""
    case = Case(
        "conv2d", ("f32:1x32x21x8", "f32:368x32x3x3", None), {"padding": [1, 1, 1, 2]}, seed=466726255
    )  # was off by 1.16 times the bound of the loop
    checked = check_case(case, wanted=lambda each: each["provider"] == "host" and "winograd" in each["implementation"])
    assert checked.outcomes and max(outcome.ratio for outcome in checked.outcomes) < 0.7
    reference = reference_of(case, case.tensors(), Accuracy())
    where = np.arange(1000)
    loops, own, pointwise = (
        reference.expected_by(reference.algorithm(name), 0, where)[1]
        for name in ("conv_direct", "winograd_late:avx2", "brgconv_1x1:avx2")
    )
    assert (own >= loops).all() and own.mean() > 1.5 * loops.mean() and (pointwise == loops).all()


CONV = Case("conv2d", ("f32:1x256x6x6", "f32:33x256x3x3", "f32:33", "f32:1x33x6x6"), {"padding": [1, 1]})


def outcome_for(change: Any, implementation: str = "changed") -> Outcome:
    """How the judge sees the exact result of CONV in f32 after a change."""
    tensors = CONV.tensors()
    reference = reference_of(CONV, tensors, Accuracy())
    shape, _ = reference.outputs[0]
    values = reference.expected(0, np.arange(int(np.prod(shape))))[0].reshape(shape).astype(np.float32)
    judge = check._Judge(reference, np.random.default_rng(0))
    outcome = Outcome("test", implementation, [], [])
    judge.judge(outcome, [(change(values.copy(), tensors), "f32")])
    return outcome


def test_the_exact_result_passes() -> None:
    outcome = outcome_for(lambda y, tensors: y)
    assert not outcome.wrong and 0 < outcome.ratio < 0.5


def _without_a_term(y: np.ndarray, tensors: Any) -> np.ndarray:
    y[0, 32, 3, 3] -= tensors[0][0, 255, 3, 3] * tensors[1][32, 255, 1, 1]
    return y


def _twice_the_bias(y: np.ndarray, tensors: Any) -> np.ndarray:
    return y + tensors[2].reshape(1, -1, 1, 1)


def _not_written(y: np.ndarray, tensors: Any) -> np.ndarray:
    y[0, 31, 5, 5] = np.nan
    return y


@pytest.mark.parametrize("implementation", ["changed", "winograd:changed"])
@pytest.mark.parametrize("change", [_without_a_term, _twice_the_bias, _not_written])
def test_small_faults_are_found(change: Any, implementation: str) -> None:
    """One product of 2,304 that is missing in one result, a bias added twice, one element not written."""
    assert outcome_for(change, implementation).wrong


def test_candidates_are_compared_where_no_exact_value_is() -> None:
    """An element that the sample leaves out is wrong in one of two results: exact values decide which."""
    case = Case("conv2d", ("f32:1x64x40x40", "f32:200x64x1x1"))
    tensors = case.tensors()
    reference = reference_of(case, tensors, Accuracy())
    judge = check._Judge(reference, np.random.default_rng(0))
    sampled = set(judge.samples[0][0].tolist())
    shape, _ = reference.outputs[0]
    size = int(np.prod(shape))
    good = np.concatenate([reference.expected(0, part)[0] for part in np.array_split(np.arange(size), 8)])
    good = good.astype(np.float32).reshape(shape)
    bad = good.copy()
    bad.reshape(-1)[next(i for i in range(size) if i not in sampled)] += 0.01
    for order in ((good, bad), (bad, good)):
        judge = check._Judge(reference, np.random.default_rng(0))
        outcomes = [Outcome("test", str(i), [], []) for i in range(2)]
        for outcome, result in zip(outcomes, order, strict=True):
            judge.judge(outcome, [(result, "f32")])
        assert [outcome.wrong for outcome in outcomes] == [result is bad for result in order]


def test_every_candidate_runs(device: str) -> None:
    case = Case("conv2d", ("f32:1x32x7x7", "f32:48x32x3x3", "f32:48"), {"padding": [1, 1], "activation": "relu"})
    checked = check_case(case, device)
    tensors = [np.zeros(spec[1], "f4") for spec in case.specs() if spec]
    known = pl.query("conv2d", *tensors, padding=1, activation="relu", device=device).candidates
    ran = {(o.provider, o.implementation, *(i for i in o.inputs if i != "-")) for o in checked.outcomes}
    assert ran >= {(c["provider"], c["implementation"], *(i for i in c["inputs"] if i != "-")) for c in known}
    assert checked.outcomes and not checked.wrong


def test_strided_views_are_checked() -> None:
    case = Case("conv2d", ("f32:2x32x5x5", "f32:32x32x1x1"), strided="both NHWC")
    checked = check_case(case)
    assert checked.outcomes and not checked.wrong
    assert all(outcome.inputs[0] == outcome.outputs[0] == "NHWC" for outcome in checked.outcomes)


# Of an op the first cases of a draw: kernels of vectors of all families.
LOADED_AS_VECTORS = (
    "squeeze_excite", "max_pool2d", "global_avg_pool", "batch_norm", "conv2d", "matmul", "softmax", "layer_norm",
    "scaled_dot_product_attention", "concat", "relu", "add", "reorder", "rms_norm", "batch_norm_training",
    "layer_norm_backward", "max_pool2d_backward", "conv2d_backward_weights", "gather", "topk",
)  # fmt: skip


@pytest.mark.parametrize("op", LOADED_AS_VECTORS)
def test_memory_aligned_to_its_elements_alone(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Case, "shifted", True)
    for number in range(3):
        assert not check_case(random_case(7, number, frozenset({op}))).wrong


def test_a_session_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    settings = Settings(seed=4, ops=("relu", "softmax"))
    whole = Session(settings)
    whole.run(checks=12)
    first = Session.resume(settings, path)
    first.run(checks=5)
    assert path.exists() and first.next > 0
    second = Session.resume(settings, path)
    assert (second.next, second.checks) == (first.next, first.checks)
    while second.next < whole.next:
        second.run(checks=1)
    assert second.rows == whole.rows
    assert [row["op"] for row in summary_rows(second)] == [row["op"] for row in summary_rows(whole)]
    with pytest.raises(ValueError, match="settings"):
        Session.resume(Settings(seed=5), path)


def test_a_run_that_ended_the_process_is_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    session = Session.resume(Settings(ops=("relu",)), path)
    case = session.case(0)
    candidate = {"provider": "host", "implementation": "unary[4]", "inputs": [], "outputs": []}
    running = {"op": "relu", "case": case.to_json(), "candidate": candidate}
    session.save({**running, "again": False})
    again = Session.resume(Settings(ops=("relu",)), path)
    assert again.next == 0 and not again.failures  # an accident, for all that is known
    again.save({**running, "again": True})
    again = Session.resume(Settings(ops=("relu",)), path)
    assert again.next == 1 and len(again.failures) == 1
    assert "process ended" in again.failures[0]["problem"]


def command(*arguments: str) -> int:
    from pylayout.cli import main

    return main(["verify", *arguments])


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("--ops", "relu,linear", "--checks", "6", "--seed", "3", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["checks"] >= 6 and not data["failures"]
    assert {row["op"] for row in data["rows"]} <= {"relu", "linear"}
    case = json.dumps(random_case(3, 1, frozenset(["linear"])).to_json())
    assert command("--case", case) == 0
    assert "linear" in capsys.readouterr().out
    assert command("--ops", "no_such_op") == 2


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("{", "--case: "),
        ("{}", "--case: {} has no op or no list of inputs"),
        ("[]", "has no op or no list of inputs"),
        ('{"op": "nosuch", "inputs": []}', "--case: there is no op 'nosuch'"),
        ('{"op": "relu", "inputs": ["f32:2xa"]}', "invalid literal"),
        ('{"op": "relu", "inputs": ["f99:2"]}', "--case: relu f99:2 cannot be checked (KeyError: 'f99')"),
        ('{"op": "relu", "inputs": ["f32:2"], "attributes": 3}', "attributes is 3, expected an object"),
        ('{"op": "relu", "inputs": ["f32:2"], "more": 3}', "more"),
    ],
)
def test_a_case_that_is_none_is_wrong_usage(case: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("--case", case) == 2
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1


def test_an_interrupt_keeps_the_state_and_is_an_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(self: Session, *arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Session, "run", interrupted)
    assert command("--state", str(tmp_path / "s.json")) == 130
    assert "the same command goes on from here" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["s.json"]


def test_a_state_that_cannot_be_written_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(pl.FileError, match=r"s\.json cannot be written: No space left on device"):
        Session(Settings(), path=tmp_path / "s.json").save()
    assert not list(tmp_path.iterdir())


def test_a_wrong_result_is_an_exit_code(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With bounds of almost nothing each result is wrong."""
    monkeypatch.setattr(bounds, "LOOP", 1e-9)
    monkeypatch.setattr(bounds, "ROUNDINGS", 1e-9)
    monkeypatch.setattr(bounds, "UNIT", 1e-30)
    assert command("--ops", "matmul", "--checks", "3", "--seed", "3") == 1
    printed = capsys.readouterr().out
    assert "times the bound" in printed and "--case" in printed

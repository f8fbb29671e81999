"""The benchmarks' own arithmetic and data; what they measure is no test's business."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import pylayout as pl

# Behind everything else, so that an installed pylayout stays the one that is tested.
sys.path.append(str(Path(__file__).resolve().parent.parent))

from bench import policies
from bench.__main__ import _ASIDE, _SHORT, benchmarks
from bench.choice_quality import cases, summarise
from bench.cost_tables import Costs, joined
from bench.dlprimitives import network_times
from bench.gpu_dlprimitives import Conv, Gemm, into, table_of
from bench.layers import best, class_of, flops_of
from bench.loss_curves import distance, steps_near
from bench.networks import judge
from bench.shapes import CONVOLUTIONS
from pylayout.networks import NETWORKS, trace


def test_every_benchmark_can_be_run():
    known = benchmarks()
    assert {"networks", "choice_quality", "conv_overhead"} <= set(known)
    assert set(_SHORT) <= set(known) and not _ASIDE & set(known)
    for name, kind in known.items():
        if kind == "module":
            inspect.signature(importlib.import_module(f"bench.{name}").main).bind(["--json", "file"])


@pytest.mark.parametrize("name", sorted(set(NETWORKS) & set(CONVOLUTIONS)))
def test_shapes_are_those_of_the_networks(name):
    ours: Counter[tuple[int, ...]] = Counter()
    for layer in trace(name):
        if layer.kind == "conv":
            oc, _, k, _ = layer.weight
            ours[(*layer.x[1:], oc, k, layer.stride, layer.padding, layer.groups)] += 1
    assert ours == {shape: times for times, *rest in CONVOLUTIONS[name] for shape in [tuple(rest)]}


def test_cases_are_distinct_and_know_their_networks():
    found = cases(["resnet50", "densenet161"], [1, 16])
    assert len(found) == len(set(found))
    first = (1, 3, 224, 224, 64, 7, 2, 3, 1)
    assert found[first] == ["resnet50"] and (16, *first[1:]) in found
    assert len(found) == 2 * len({row[1:] for name in ("resnet50", "densenet161") for row in CONVOLUTIONS[name]})


def test_summary_counts_what_is_within_five_percent():
    rows = [{"loss": loss, "loss_low": loss - 0.005, "floor": loss / 2 + 0.5} for loss in (1.0, 1.04, 1.05, 1.06, 2.0)]
    rows[3]["loss_low"] = 1.05
    assert summarise(rows) == {
        "cases": 5,
        "good": 3,
        "good_share": 0.6,
        "median_loss": 1.05,
        "worst_loss": 2.0,
        "surely_lost": 1,
        "floor_good_share": 0.8,
        "floor_median": 1.025,
    }


def test_a_table_of_costs_leaves_out_what_two_runs_disagree_on():
    first = Costs(["cpu|avx2", "2"], [["machine", "one"]])
    first.times = {
        "same": {"a": 1.0, "b": 2.0, "c": 9.0},
        "near": {"a": 1.0, "b": 1.1},
        "apart": {"a": 1.0, "b": 2.0},
        "alone": {"a": 1.0, "b": 3.0},
    }
    second = Costs(["cpu|avx2", "2"])
    second.times = {"same": {"a": 1.2, "b": 1.5}, "near": {"a": 1.1, "b": 1.0}, "apart": {"a": 2.0, "b": 1.0}}
    table, counts = joined([first, second], 1.5)
    assert table.times == {
        "same": {"a": 1.0, "b": 1.5, "c": 9.0},
        "near": {"a": 1.0, "b": 1.0},
        "alone": {"a": 1.0, "b": 3.0},
    }
    assert counts == {"compared": 3, "same_choice": 1, "left_out": 1}
    again = Costs.parse(table.text())
    assert (again.times, again.device_class, again.about) == (table.times, ["cpu|avx2", "2"], [["machine", "one"]])
    assert again.text() == table.text()
    with pytest.raises(ValueError, match="expected 'pylayout costs 2'"):
        Costs.parse("pylayout costs 1\n")


def test_judge_compares_auto_with_each():
    times = {"pylayout:auto": 10.0, "pylayout:NCHW": 40.0, "pylayout:NHWC": 11.0, "torch:channels_last": 15.0}
    engines = {name: {"ms": ms} for name, ms in times.items()}
    engines["pylayout:auto"]["reorder_ms"] = 0.2
    engines["pylayout:per-op"] = {"ms": 1.0}  # no forced layout
    engines["torch:NCHW"] = {"problem": "no torch"}
    assert judge({"engines": engines}) == {
        "over_best_forced": 1.1,
        "over_channels_last": 1.5,
        "reorder_share": 0.02,
    }
    assert judge({"engines": {"pylayout:auto": {"problem": "died"}}}) == {}


def test_policies_are_judged_by_the_best_single_layout():
    def runs(first, implementation):
        return {"totals": [first + i for i in range(11)], "choices": [["conv2d", implementation, ["x"], ["y"]]]}

    found = policies.judge(
        {"per-op": runs(1, "a"), "NHWC": runs(9, "a"), "nChw16c": runs(8, "b"), "auto": runs(7, "b")}
    )
    assert found["best"] == "nChw16c" and found["differ"] == 0
    assert found["by_tenth"] == 9 / 8 and found["by_median"] == 13 / 12
    assert found["tenths"] == {"per-op": 2, "NHWC": 10, "nChw16c": 9, "auto": 8}


def test_curves_are_compared_by_logarithms_of_losses():
    reference = [4.0, 2.0, 1.0, 0.5]
    assert steps_near(reference, reference) == 4 and distance(reference, reference) == 0
    assert steps_near([4.0, 2.01, 1.02, 0.5], reference) == 2  # half a hundredth, then two
    assert steps_near([4.0, float("nan"), 1.0, 0.5], reference) == 1
    assert distance([8.0, 1.0, 2.0, 0.25], reference) == pytest.approx(np.log(2))


def test_layers_are_divided_as_the_kernels_are():
    assert class_of((1, 96, 56, 56, 96, 3, 2, 1, 96)) == "depthwise 3x3"
    assert class_of((1, 48, 56, 56, 48, 3, 1, 1, 6)) == "grouped 3x3"
    assert class_of((1, 96, 1, 1, 4, 1, 1, 0, 1)) == "1x1 of one pixel"
    assert class_of((1, 24, 56, 56, 144, 1, 1, 0, 1)) == "1x1"
    assert flops_of((1, 96, 56, 56, 96, 3, 2, 1, 96), 2) == 2 * 2 * 96 * 9 * 28 * 28
    result = {"alone": {"host": {"NHWC": 3.0, "nChw16c": 2.0, "nChw8c": None}}}
    assert best(result, "alone", "host") == (2.0, "nChw16c") and best(result, "alone", "onednn") is None


def test_dlprimitives_table_is_read(tmp_path):
    table = tmp_path / "ops.txt"
    table.write_text(
        "-- Running   42805.2 GFlops\n"
        "  NT  5:   64, 2048,   96     1958.7 GFlops ( 3.48%)    125.3 GB/s ( 4.80%) limited by memory  4.80%\n"
        "   2    alexnet  forward b=64 k=5  p=2 s=1 in=96   out=192  g=2   D=27    17382.1 GFlops (30.87%)  algo=gemm\n"
        "   2    alexnet bwd-data b=64 k=5  p=2 s=1 in=96   out=192  g=2   D=27    16858.2 GFlops (29.94%)  algo=gemm\n"
        "  NT  5:   64, 2048,   96     1958.7 GFlops ( 3.48%)    125.3 GB/s ( 4.80%) limited by memory  4.80%\n"
    )
    (gemm, gemm_rate), (conv, conv_rate) = table_of(table)
    assert gemm == Gemm(transpose_a=False, transpose_b=True, m=64, n=2048, k=96) and gemm_rate == 1958.7
    assert gemm.gflop == pytest.approx(2 * 64 * 2048 * 96 / 1e9)
    assert conv == Conv("alexnet", n=64, k=5, padding=2, stride=1, c=96, oc=192, groups=2, size=27)
    assert conv_rate == 17382.1 and conv.gflop == pytest.approx(2 * 64 * 27 * 27 * 192 * 48 * 25 / 1e9)


@pytest.mark.parametrize(
    "case",
    [
        Gemm(transpose_a=True, transpose_b=True, m=3, n=5, k=4),
        Conv("net", n=2, k=3, padding=1, stride=2, c=4, oc=6, groups=2, size=7),
    ],
)
def test_dlprimitives_reference_is_the_ops_result(case):
    arrays = case.arrays()
    exact = case.exact(*arrays)
    tensors = case.tensors(*map(pl.asarray, arrays))
    result = case.run(tensors)
    given = result + 1
    into(given, case, tensors)()
    for got in map(np.asarray, (result, given)):
        assert got[: len(exact)].shape == exact.shape
        np.testing.assert_allclose(got[: len(exact)], exact, rtol=1e-5, atol=1e-5)


def relative_error_of_plan(module, x, folder):
    """Of a plan without measuring on the CPU, of the network as the benchmarks export it."""
    torch = pytest.importorskip("torch")
    from bench.torchvision_models import write_onnx

    write_onnx(module, x, folder / "model.onnx")
    with torch.no_grad():
        wanted = module(x).numpy()
    made = pl.compile(folder / "model.onnx", device="cpu", tune="off").run(x.numpy())[0]
    assert made.shape == wanted.shape
    return np.linalg.norm(made - wanted) / np.linalg.norm(wanted)


@pytest.mark.parametrize("network, shape", [("unet", (1, 3, 16, 24)), ("dcgan", (2, 100, 1, 1))])
def test_generators_as_the_benchmarks_build_them(network, shape, tmp_path):
    torch = pytest.importorskip("torch")
    from bench import generators
    from bench.torchvision_models import calibrated

    torch.manual_seed(3)
    x = torch.randn(*shape)
    module = calibrated(generators.unet(), x) if network == "unet" else generators.build(network)
    assert relative_error_of_plan(module, x, tmp_path) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("network", ["r3d_18", "r2plus1d_18"])
def test_video_networks_as_the_benchmarks_build_them(network, tmp_path, torchvision_models):
    torch = pytest.importorskip("torch")
    from bench.model_files import input_of, module_of

    assert input_of(network, 2).shape == (2, 3, 16, 112, 112)
    assert relative_error_of_plan(module_of(network), torch.randn(1, 3, 4, 32, 32), tmp_path) < 1e-5


def test_times_of_networks_that_dlprimitives_printed(tmp_path):
    printed = tmp_path / "nets.txt"
    printed.write_text(
        "== alexnet infer\nTOT time per batch:  3.074 ms\n== alexnet train adam\nFWD time per batch:  3.400 ms\n"
        "BWD time per batch:  6.232 ms\nTOT time per batch:  9.632 ms\n== vgg16 train sgd\n"
    )
    assert network_times(printed) == {("alexnet", "inference"): 3.074, ("alexnet", "training"): 9.632}

"""Files of plans by segments: what is loaded runs as what was saved, and imports nothing that was imported."""

import json
import subprocess
import sys
import zipfile

import numpy
import pytest

onnx = pytest.importorskip("onnx")

import onnx.parser  # noqa: E402, F811
from onnx_models import helper, model_of  # noqa: E402

import pylayout as pl  # noqa: E402
from pylayout.onnx.segments import SegmentedPlan  # noqa: E402
from pylayout.onnx.segments.rounds import Rounds  # noqa: E402
from pylayout.onnx.segments.steps import Segment  # noqa: E402

INT64, FLOAT = onnx.TensorProto.INT64, onnx.TensorProto.FLOAT


def parsed(text):
    return onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 20]>\n{text}')


def floats(*shape, seed=0):
    return numpy.random.default_rng(seed).standard_normal(shape).astype("float32")


def integers(*values):
    return numpy.array(values, "int64")


def found_model():
    """A product with large weights, what is positive of it, and a product of that."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Relu", ["p"], ["r"]),
        helper.make_node("NonZero", ["r"], ["places"]),
        helper.make_node("Transpose", ["places"], ["rows"], perm=[1, 0]),
        helper.make_node("GatherND", ["r", "rows"], ["z"]),
        helper.make_node("Mul", ["z", "half"], ["y"]),
    ]
    constants = {"w": floats(64, 96, seed=1), "half": numpy.array([0.5], "float32")}
    return model_of(nodes, {"x": (FLOAT, ["n", 64])}, ["y"], 17, constants)


MODELS = {
    "found": (found_model, [[floats(3, 64)], [floats(5, 64, seed=2)]]),
    "values": (
        lambda: parsed("agraph (float[n, 6] x, int64[2] v) => (float[a, b] y) { w = Exp(x) y = Reshape(w, v) }"),
        [[floats(4, 6), integers(6, 4)], [floats(3, 6), integers(2, 9)]],
    ),
    "axes, or none": (
        lambda: parsed("agraph (float[n, 6] x, int64[r] v) => (float[a, b] y) { y = ReduceMax(x, v) }"),
        [[floats(4, 6), integers(0)], [floats(4, 6), integers()], [floats(4, 6), integers(1)]],
    ),
    "to the end": (
        lambda: parsed(
            """agraph (float[n, 6] x, int64[1] a, int64[1] b) => (float[m, 6] y) {
                zero = Constant<value_ints = [0]>() w = Neg(x) y = Slice(w, a, b, zero)
            }"""
        ),
        [[floats(4, 6), integers(1), integers(end)] for end in (2**63 - 1, 2, 2**62, -1)],
    ),
    "condition": (
        lambda: parsed(
            """agraph (float[n] x) => (float[m] y) {
                s = ReduceSum<keepdims=0>(x)
                zero = Constant<value_float=0.0>()
                c = Greater(s, zero)
                y = If(c) <then_branch = g1 () => (float[m] t) { p = NonZero(x) q = Transpose(p) t = GatherND(x, q) },
                           else_branch = g2 () => (float[m] e) { e = Neg(x) }>
            }"""
        ),
        [[numpy.array(x, "float32")] for x in ([1, 0, 2], [-1, 0, -2], [0, 3], [-5, 1, 1, 0])],
    ),
    "loop": (
        lambda: parsed(
            """agraph (float x, int64 most) => (float y, float[k] steps) {
                yes = Constant<value = bool {1}>()
                y, steps = Loop(most, yes, x) <body = b (int64 i, bool c, float v) => (bool again, float w, float w2) {
                    two = Constant<value_float=2.0>()
                    limit = Constant<value_float=100.0>()
                    w = Mul(v, two)
                    again = Less(w, limit)
                    w2 = Identity(w)
                }>
            }"""
        ),
        [[numpy.array(3, "float32"), numpy.array(50)], [numpy.array(90, "float32"), numpy.array(2)]],
    ),
    "sequence": (
        lambda: parsed(
            """agraph (float[n] x, int64 at) => (float[m] y, int64 count) {
                a = Neg(x)
                s = SequenceConstruct(x, a)
                t = SequenceInsert(s, a, at)
                y = ConcatFromSequence<axis=0>(t)
                count = SequenceLength(t)
            }"""
        ),
        [[floats(3), numpy.array(0)], [floats(5), numpy.array(1)]],
    ),
}


def saved(model, calls, path):
    plan = pl.compile(model, device="cpu", tune="off")
    assert isinstance(plan, SegmentedPlan)
    results = [plan.run(*call) for call in calls]
    plan.save(path)
    return results


def same(got, want):
    for a, b in zip(got, want, strict=True):
        numpy.testing.assert_array_equal(a, b)


@pytest.fixture
def importing_nothing(monkeypatch):
    def refuse(*_):
        raise AssertionError("a segment is imported")

    monkeypatch.setattr(Rounds, "_segment", refuse)
    monkeypatch.setattr(Segment, "_run_new", refuse)


@pytest.mark.parametrize("name", MODELS)
def test_what_is_loaded_runs_alike(tmp_path, name, request):
    make, calls = MODELS[name]
    first, second = tmp_path / "first.plan", tmp_path / "second.plan"
    results = saved(make(), calls, first)
    request.getfixturevalue("importing_nothing")
    plan = pl.load_plan(first)
    assert isinstance(plan, SegmentedPlan)
    for call, want in zip(calls, results, strict=True):
        same(plan.run(*call), want)
    plan.save(second)  # a plan that was loaded is saved again
    again = pl.load_plan(second)
    for call, want in zip(calls, results, strict=True):
        same(again.run(*call), want)
    assert again.summary()["host"] == plan.summary()["host"]


def test_a_plan_that_never_ran_is_saved(tmp_path):
    path = tmp_path / "a.plan"
    make, calls = MODELS["found"]
    model = make()
    plan = pl.compile(model, device="cpu", tune="off")
    plan.save(path)
    again = pl.load_plan(path)
    assert not again.summary()["segments"]
    same(again.run(*calls[0]), plan.run(*calls[0]))


def test_new_sizes_values_and_rounds_of_a_loaded_plan(tmp_path):
    make, calls = MODELS["found"]
    path = tmp_path / "a.plan"
    model = make()
    saved(model, calls[:1], path)
    plan, other = pl.load_plan(path), pl.compile(model, device="cpu", tune="off")
    for n in (1, 7, 40):
        x = floats(n, 64, seed=n)
        numpy.testing.assert_allclose(plan.run(x)[0], other.run(x)[0], rtol=1e-5, atol=1e-6)
    # What no run had met is imported from the model in the file.
    make, calls = MODELS["condition"]
    saved(make(), calls[:1], path)
    numpy.testing.assert_array_equal(pl.load_plan(path).run(*calls[1])[0], -calls[1][0])


def test_walks_are_kept(tmp_path, monkeypatch):
    text = "agraph (float[n] x) => (float[m] y) { p = NonZero(x) q = Transpose(p) z = GatherND(x, q) y = Add(z, z) }"
    path = tmp_path / "a.plan"
    x = numpy.array([0, 2, 0, 3], "float32")
    saved(parsed(text), [[x]], path)
    plan = pl.load_plan(path)

    def refuse(*_):
        raise AssertionError("a plan runs")

    monkeypatch.setattr(pl.Plan, "run", refuse)
    assert plan.run(x)[0].tolist() == [4, 6]


def test_another_process_loads_it_without_the_model(tmp_path):
    path, data = tmp_path / "a.plan", tmp_path / "data.npz"
    folder = tmp_path / "model"
    folder.mkdir()
    onnx.save(found_model(), folder / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=64)
    x = floats(3, 64)
    (want,) = saved(str(folder / "m.onnx"), [[x]], path)
    for file in folder.iterdir():
        file.unlink()
    numpy.savez(data, x=x, want=want[0])
    code = f"""if True:
        import numpy, pylayout as pl
        data = numpy.load({str(data)!r})
        plan = pl.load_plan({str(path)!r})
        numpy.testing.assert_array_equal(plan.run(data["x"])[0], data["want"])
        assert plan.run(numpy.ones((9, 64), "float32"))[0].ndim == 1
    """
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_given_values_and_options_are_kept(tmp_path):
    model = parsed("agraph (float[n] x, float[k] w) => (float[m] y) { s = Add(x, w) p = NonZero(s) y = Cast<to=1>(p) }")
    path = tmp_path / "a.plan"
    plan = pl.compile(model, device="cpu", tune="off", threads=1, values={"w": numpy.array([1], "float32")})
    x = numpy.array([0, -1, 2], "float32")
    want = plan.run(x)
    plan.save(path)
    again = pl.load_plan(path)
    assert [entry["name"] for entry in again.inputs] == ["x"] and again._options["threads"] == 1
    same(again.run(x), want)
    planned = pl.load_plan(path, replan=True, tune="off", threads=2)
    assert planned._options["threads"] == 2
    same(planned.run(x), want)


def rewritten(path, name, change):
    """The archive with one entry changed."""
    with zipfile.ZipFile(path) as archive:
        entries = {entry.filename: archive.read(entry) for entry in archive.infolist()}
    entries[name] = change(entries[name])
    with zipfile.ZipFile(path, "w") as archive:
        for entry, content in entries.items():
            archive.writestr(entry, content)


def test_damaged_files_are_refused(tmp_path):
    make, calls = MODELS["values"]
    path = tmp_path / "a.plan"
    saved(make(), calls, path)
    whole = path.read_bytes()
    for end in (4, 30, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:end])
        with pytest.raises(pl.InvalidArgumentError, match="is damaged"):
            pl.load_plan(path)

    def with_content(change):
        def changed(data):
            content = json.loads(data)
            change(content)
            return json.dumps(content).encode()

        return changed

    first = lambda content: content["rounds"]["steps"][0]["steps"][0]  # noqa: E731
    changes = [
        ("segments.json", lambda data: data[:-5]),
        ("segments.json", lambda data: b"[1, 2]"),
        ("segments.json", with_content(lambda content: content.pop("rounds"))),
        ("segments.json", with_content(lambda content: first(content).update(nodes=[999]))),
        ("segments.json", with_content(lambda content: first(content)["variants"][0].update(plan="plans/77"))),
        ("model.onnx", lambda data: b"\xff" + data),
        ("plans/0", lambda data: data[: len(data) // 2]),
    ]
    for name, change in changes:
        path.write_bytes(whole)
        rewritten(path, name, change)
        with pytest.raises(pl.InvalidArgumentError):
            pl.load_plan(path)
    path.write_bytes(whole)
    rewritten(path, "segments.json", with_content(lambda content: content.update(version=99)))
    with pytest.raises(pl.UnsupportedError, match="version 99"):
        pl.load_plan(path)
    with pytest.raises(pl.FileError):
        pl.load_plan(tmp_path / "none.plan")
    with pytest.raises(pl.FileError, match="cannot be written"):
        pl.compile(make(), device="cpu", tune="off").save(tmp_path / "no folder" / "a.plan")


@pytest.mark.parametrize(
    "change",
    [
        lambda walk: walk["noted"].append(["__import__('os').system", 0, 1, [], "", ""]),
        lambda walk: walk["noted"].append(["relu", 9, 1, [0], "", "x,evil()=1"]),
        lambda walk: walk["noted"].append(["relu", 9, 1, [0], "", "x=evil()"]),
        lambda walk: walk["noted"].append(["require", "evil() == 1"]),
        lambda walk: walk["outputs"].append("0, evil()"),
    ],
)
def test_a_file_cannot_have_code_run(tmp_path, change):
    text = "agraph (float[n] x) => (float[m] y) { p = NonZero(x) q = Transpose(p) z = GatherND(x, q) y = Add(z, z) }"
    path, x = tmp_path / "a.plan", numpy.array([0, 2, 0, 3], "float32")
    saved(parsed(text), [[x]], path)

    def changed(data):
        content = json.loads(data)
        for step in content["rounds"]["steps"][0]["steps"]:
            for variant in step.get("variants", ()):
                change(variant["walk"])
        return json.dumps(content).encode()

    rewritten(path, "segments.json", changed)
    with pytest.raises(pl.InvalidArgumentError, match="is damaged"):
        pl.load_plan(path)

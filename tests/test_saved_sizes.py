"""Saved plans with named axes: they serve what the plan served that was saved."""

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_files import resealed
from test_late_sizes import assert_equal, picture_graph, text_graph, values

import pylayout as pl


def saved(folder, graph=text_graph, **options):
    plan = pl.compile(graph(), device="cpu", tune="off", **options)
    path = folder / "named.plan"
    plan.save(path)
    return plan, path


@pytest.mark.parametrize("options", [{}, {"layout": "NHWC"}, {"without": ["recognise_attention", "in_place"]}])
def test_a_saved_plan_serves_all_sizes(tmp_path, options):
    plan, path = saved(tmp_path, **options)
    again = pl.load_plan(path)
    assert again.inputs == plan.inputs
    assert again.inputs[0]["axes"] == ["n", "s", ""]
    for n, s in ((1, 4), (2, 7), (3, 1), (1, 60), (0, 3), (2, 7)):
        x = values(n, s, 32)
        assert_equal(again.run(x), plan.run(x))
    sizes = again.summary()["sizes"]
    assert (sizes["made"], sizes["graphs"]) == (4, 1)
    assert [step.get("implementation") for step in again.summary()["steps"]] == [
        step.get("implementation") for step in plan.summary()["steps"]
    ]


def test_pictures_of_all_sizes(tmp_path):
    plan, path = saved(tmp_path, picture_graph)
    again = pl.load_plan(path)
    for n, h, w in ((1, 8, 8), (2, 20, 9), (1, 3, 33)):
        assert_equal(again.run(values(n, 3, h, w)), plan.run(values(n, 3, h, w)))


def test_a_plan_that_was_loaded_is_saved_again(tmp_path):
    plan, path = saved(tmp_path)
    second, third = tmp_path / "second.plan", tmp_path / "third.plan"
    pl.load_plan(path).save(second)
    again = pl.load_plan(second)
    assert_equal(again.run(values(2, 9, 32)), plan.run(values(2, 9, 32)))
    again.save(third)
    assert third.read_bytes() == second.read_bytes()  # values are numbered as they are read


def test_weights_are_written_once(tmp_path):
    _, path = saved(tmp_path)
    assert path.stat().st_size < 2 * 48 * 32 * 4 + 8000


def test_sizes_of_a_constant_that_no_op_reads(tmp_path):
    def graph():
        g = pl.Graph(sizes={"s": 6})
        x = g.input("x", (1, "s", 6))
        unread = g.constant(numpy.zeros((2, 3), "f4"))
        columns = g.size(unread, 1)
        g.require(f"#{unread._id}.0 < #{x._id}.1")
        g.output(g.add(g.reshape(x, [g.size("s") * 2, columns]), g.cast(g.sizes_constant(columns), "f32")), "y")
        return g

    plan, path = saved(tmp_path, graph)
    again = pl.load_plan(path)
    for s in (6, 3, 10):
        x = values(1, s, 6)
        assert_equal(again.run(x), plan.run(x))
    with pytest.raises(pl.UnsupportedError, match="2 < s, here 2 and 2"):
        again.run(values(1, 2, 6))


def test_what_is_required_of_sizes_is_kept(tmp_path):
    def graph():
        g = pl.Graph(sizes={"s": 6})
        x = g.input("x", ("s", 4))
        g.output(g.slice(x, [0], [g.size("s") // 2], [0]), "half")
        g.require("s <= 10")
        return g

    plan, path = saved(tmp_path, graph)
    again = pl.load_plan(path)
    assert again.run(values(9, 4))[0].shape == (4, 4)
    with pytest.raises(pl.UnsupportedError, match="s <= 10, here 12 and 10"):
        again.run(values(12, 4))
    with pytest.raises(pl.ShapeError, match=r'input "x" has shape \(3, 5\), expected \(s, 4\)'):
        again.run(values(3, 5))
    del plan


def test_graphs_for_further_sizes_are_kept(tmp_path):
    model = pytest.importorskip("onnx.parser").parse_model(
        """<ir_version: 9, opset_import: ["" : 20]>
        agraph (float[n, 4] x) => (float[m] y) {
            count = Shape<start = 0, end = 1>(x)
            as_float = Cast<to = 1>(count)
            two = Constant<value = float[1] {2}>()
            scales = Div(as_float, two)
            one = Constant<value = float[1] {1}>()
            all = Concat<axis = 0>(scales, one)
            r = Resize<mode = "nearest">(x, , all)
            flat = Constant<value = int64[1] {-1}>()
            y = Reshape(r, flat)
        }"""
    )
    plan = pl.compile(model, device="cpu", tune="off", sizes={"n": 2})
    want = {n: plan.run(values(n, 4))[0] for n in (2, 4, 6)}
    graphs = plan.summary()["sizes"]["graphs"]
    assert graphs > 1, "the model is to need a graph for each of these sizes"
    plan.save(tmp_path / "further.plan")
    again = pl.load_plan(tmp_path / "further.plan")
    assert again.summary()["sizes"]["graphs"] == graphs
    for n, y in want.items():
        numpy.testing.assert_array_equal(again.run(values(n, 4))[0], y)
    with pytest.raises(pl.UnsupportedError, match="made for sizes"):
        again.run(values(8, 4))


def test_a_past_that_grows(tmp_path):
    def graph():
        g = pl.Graph(sizes={"past": 8})
        q, past = g.input("q", (1, 2, 1, 8)), g.input("keys", (1, 2, "past", 8))
        keys = g.concat([past, q], 2)
        g.output(g.matmul(g.softmax(g.matmul(q, keys, transpose_b=True), -1), keys), "y")
        g.output(keys, "longer")
        return g

    plan, path = saved(tmp_path, graph)
    again = pl.load_plan(path)
    keys, own = values(1, 2, 8, 8), values(1, 2, 8, 8)
    for step in range(20):
        q = values(1, 2, 1, 8, seed=step)
        y, own = plan.run(q, own)
        got, keys = again.run(q, keys)
        numpy.testing.assert_allclose(got, y, rtol=1e-4, atol=1e-5)
    assert again.summary()["sizes"]["growing"] == "past" and again.summary()["sizes"]["made"] <= 3


def test_other_circumstances(tmp_path):
    plan, path = saved(tmp_path, threads=1)
    data = path.read_bytes()
    end = data.index(b"\nend\t") + 1
    path.write_bytes(resealed(data[:end].replace(b"threads=1", b"threads=3")) + data[data.index(b"\n", end) + 1 :])
    with pytest.raises(pl.UnsupportedError, match="threads=3"):
        pl.load_plan(path)
    again = pl.load_plan(path, replan=True, tune="off")
    for s in (3, 9):
        assert_equal(again.run(values(2, s, 32)), plan.run(values(2, s, 32)))


def test_a_cut_file_is_refused(tmp_path):
    _, path = saved(tmp_path)
    data = path.read_bytes()
    for length in [0, 5, 16, 100, len(data) // 3, len(data) // 2, len(data) - 1]:
        path.write_bytes(data[:length])
        with pytest.raises(pl.InvalidArgumentError, match="plan file"):
            pl.load_plan(path)


def test_a_changed_byte_is_noticed(tmp_path):
    _, path = saved(tmp_path)
    data = path.read_bytes()
    for place in range(20, len(data), len(data) // 60):
        changed = bytearray(data)
        changed[place] ^= 4
        path.write_bytes(changed)
        with pytest.raises(pl.Error):
            pl.load_plan(path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("whole"))[1].read_bytes()


WRONG = (
    b"",
    b"-1",
    b"99999999999999",
    b"0",
    b"7",
    b"nonsense",
    b"1,2,3",
    b"#3.0",
    b"#999.1",
    b"shape=[#0.9,(]",
    b"#0.1",
)


def trained_graph():
    """A step of training, of which a limit lets something be made again."""
    g = pl.Graph(sizes={"n": 16})
    y, t = g.input("x", ("n", 8)), g.input("t", ("n",), "s64")
    rng = numpy.random.default_rng(0)
    for i in range(4):
        w = g.parameter(f"w{i}", rng.standard_normal((64, y.shape[1])).astype("float32") / 8)
        y = g.gelu(g.linear(y, w))
    loss = g.cross_entropy(y, t)
    g.output(loss, "loss")
    pl.training.sgd(g, loss, momentum=0.9)
    return g


def labelled(n):
    return values(n, 8), numpy.arange(n) % 64


@pytest.fixture(scope="module")
def whole_trained(tmp_path_factory):
    bytes_of_all = saved(tmp_path_factory.mktemp("free"), trained_graph)[0].summary()["memory"]["bytes"]
    plan, path = saved(tmp_path_factory.mktemp("trained"), trained_graph, memory_limit=bytes_of_all - 4096)
    assert plan.summary()["made_again"]["ops"]
    again = pl.load_plan(path)
    for n in (16, 3):
        assert_equal(again.run(*labelled(n)), plan.run(*labelled(n)))
    return path.read_bytes()


def with_nonsense(whole, path, data, records=()):
    """The file with some other fields, in these records or in all."""
    end = whole.index(b"\nend\t") + 1
    lines = [line.split(b"\t") for line in whole[:end].split(b"\n")[:-1]]
    among = [line for line in lines[1:] if not records or line[0] in records]
    for _ in range(data.draw(st.integers(1, 3))):
        line = among[data.draw(st.integers(0, len(among) - 1))]
        field = data.draw(st.integers(0, len(line) - 1))
        line[field] = data.draw(st.sampled_from([*WRONG, line[field] + b"0"]))
    header = b"\n".join(b"\t".join(line) for line in lines) + b"\n"
    path.write_bytes(resealed(header) + whole[whole.index(b"\n", end) + 1 :])
    return path


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_nonsense_with_a_good_checksum_is_an_error_or_a_plan(whole, tmp_path_factory, data):
    path = with_nonsense(whole, tmp_path_factory.getbasetemp() / "nonsense.plan", data)
    try:
        plan = pl.load_plan(path)
        plan.run(values(1, 5, 32))
    except pl.InternalError:
        raise
    except pl.Error:
        pass


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_nonsense_in_a_plan_that_trains_is_an_error_or_a_plan(whole_trained, tmp_path_factory, data):
    records = data.draw(st.sampled_from([(b"gradients", b"made_again", b"named", b"state", b"update"), ()]))
    path = with_nonsense(whole_trained, tmp_path_factory.getbasetemp() / "nonsense_trained.plan", data, records)
    try:
        plan = pl.load_plan(path)
        plan.run(*labelled(3))
    except pl.InternalError:
        raise
    except pl.Error:
        pass

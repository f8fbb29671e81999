"""pl.compile of a module: a plan by torch.export that needs no PyTorch when it runs."""

import subprocess
import sys

import numpy
import pytest

torch = pytest.importorskip("torch")

import pylayout as pl  # noqa: E402

nn = torch.nn


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(8, 5),
    ).eval()  # fmt: skip


def close(made, expected):
    numpy.testing.assert_allclose(made, expected.detach().numpy(), rtol=2e-5, atol=2e-5)


def test_a_module_is_a_plan_that_needs_no_torch(tmp_path):
    model, x = network(), torch.randn(2, 3, 9, 9)
    plan = pl.compile(model, (x,), device="cpu")
    close(plan.run(x.numpy())[0], model(x))
    assert [item["shape"] for item in plan.inputs] == [[2, 3, 9, 9]]
    plan.save(tmp_path / "model.plan")
    numpy.save(tmp_path / "x.npy", x.numpy())
    code = (
        "import sys, numpy, pylayout as pl; plan = pl.load_plan(sys.argv[1] + '/model.plan')\n"
        "numpy.save(sys.argv[1] + '/y.npy', plan.run(numpy.load(sys.argv[1] + '/x.npy'))[0])\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    close(numpy.load(tmp_path / "y.npy"), model(x))


def test_other_sizes():
    model = network()
    plan = pl.compile(model, torch.randn(2, 3, 9, 9), dynamic=True, device="cpu")
    for shape in ((2, 3, 9, 9), (3, 3, 12, 10)):
        x = torch.randn(*shape)
        close(plan.run(x.numpy())[0], model(x))
    batch = torch.export.Dim("batch", min=2, max=64)
    plan = pl.compile(model, (torch.randn(2, 3, 9, 9),), dynamic=({0: batch},), device="cpu")
    x = torch.randn(5, 3, 9, 9)
    close(plan.run(x.numpy())[0], model(x))


class Sum(nn.Module):
    def forward(self, x, *others):
        return x + sum(others)


class Parity(nn.Module):
    def forward(self, x):
        return x * 2 if x.shape[0] % 2 == 0 else x * 3


class Taller(nn.Module):
    def forward(self, x):
        return x.sum(0) if 3 * x.shape[0] > 2 * x.shape[1] else x.mean(0)


class Windows(nn.Module):
    """Rows are padded to whole windows where they have to be."""

    def forward(self, x):
        missing = (4 - x.shape[1] % 4) % 4
        if missing:
            x = nn.functional.pad(x, (0, missing))
        return x.unflatten(1, (-1, 4)).amax(2)


@pytest.mark.parametrize(
    "module, shapes, other",
    [
        (Parity(), ((4, 3), (6, 2)), (5, 3)),
        (Taller(), ((4, 3), (4, 5)), (2, 5)),
        (Windows(), ((2, 8), (3, 12)), (2, 9)),
    ],
    ids=["parity", "taller", "windows"],
)
def test_sizes_for_which_a_module_does_something_else(module, shapes, other, tmp_path):
    """A module is exported again for them; a program, and a saved plan, refuse them."""
    x = torch.randn(shapes[0])
    plan = pl.compile(module, x, dynamic=True, device="cpu")
    plan.save(tmp_path / "model.plan")
    for shape in (*shapes, other, shapes[1], other):
        given = torch.randn(shape)
        close(plan.run(given.numpy())[0], module(given))
    dynamic = torch.export.Dim.DYNAMIC
    program = torch.export.export(module, (x,), dynamic_shapes=({0: dynamic, 1: dynamic},))
    for made, error in (
        (pl.compile(program, device="cpu"), "exported for sizes where"),
        (pl.load_plan(tmp_path / "model.plan"), "made for sizes where"),
    ):
        for shape in shapes:
            given = torch.randn(shape)
            close(made.run(given.numpy())[0], module(given))
        with pytest.raises(pl.Error, match=error):
            made.run(torch.randn(other).numpy())


def test_any_sizes_of_arguments_without_names():
    plan = pl.compile(Sum(), (torch.randn(2, 3), torch.randn(2, 3), torch.randn(2, 3)), dynamic=True, device="cpu")
    given = [torch.randn(5, 4) for _ in range(3)]
    close(plan.run(*(each.numpy() for each in given))[0], sum(given))


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(20, 12), nn.Embedding(40, 12)
        self.layer = nn.TransformerEncoderLayer(12, 2, 24, batch_first=True, norm_first=True)

    def forward(self, index, weights=None):
        x = self.words(index) + self.places(torch.arange(index.shape[1]))
        y = self.layer(x)
        return y if weights is None else y * weights[:, :, None]


def test_a_plan_for_all_sizes_needs_no_torch(tmp_path):
    torch.manual_seed(0)
    model = Words().eval()
    n, s = torch.export.Dim("n"), torch.export.Dim("s", max=40)
    example = {"index": torch.randint(0, 20, (2, 7)), "weights": torch.ones(2, 7)}
    plan = pl.compile(model, example, dynamic={"index": {0: n, 1: s}, "weights": {0: n, 1: s}}, device="cpu")
    assert [item["axes"] for item in plan.inputs] == [["n", "s"], ["n", "s"]]
    plan.save(tmp_path / "model.plan")
    given = {}
    for rows, length in ((2, 7), (1, 40), (5, 3), (3, 1)):
        index, weights = torch.randint(0, 20, (rows, length)), torch.rand(rows, length)
        given[f"{rows},{length},index"], given[f"{rows},{length},weights"] = index.numpy(), weights.numpy()
        close(plan.run(index.numpy(), weights.numpy())[0], model(index, weights))
    assert plan.summary()["sizes"]["graphs"] == 1
    with pytest.raises(pl.UnsupportedError, match="<= 40, here 41"):
        plan.prepare(n=2, s=41)
    numpy.savez(tmp_path / "given.npz", **given)
    code = (
        "import sys, numpy, pylayout as pl; plan = pl.load_plan(sys.argv[1] + '/model.plan')\n"
        "given = numpy.load(sys.argv[1] + '/given.npz'); keys = [k[:-6] for k in given if k.endswith(',index')]\n"
        "made = {k: plan.run(given[k + ',index'], given[k + ',weights'])[0] for k in keys}\n"
        "assert 'torch' not in sys.modules; numpy.savez(sys.argv[1] + '/made.npz', **made)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    made = numpy.load(tmp_path / "made.npz")
    assert len(made.files) == 4
    for key in made.files:
        index, weights = (torch.from_numpy(given[f"{key},{name}"]) for name in ("index", "weights"))
        close(made[key], model(index, weights))


def test_an_op_that_needs_a_size_as_a_number():
    class Sized(nn.Module):
        def forward(self, x):
            return torch.nn.functional.elu(x, alpha=1.0 / x.shape[0])

    x = torch.randn(4, 6)
    plan = pl.compile(Sized(), (x,), dynamic=({0: torch.export.Dim.AUTO},), device="cpu")
    assert plan.inputs[0]["axes"] == ["x.0", ""]
    for rows in (4, 7, 4, 9):
        x = torch.randn(rows, 6)
        close(plan.run(x.numpy())[0], Sized()(x))
    assert plan.summary()["sizes"]["graphs"] == 3


def test_several_inputs_and_outputs_by_keyword():
    class Several(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("shift", torch.ones(4))

        def forward(self, a, pair):
            return {"sum": a + pair[0] + self.shift, "rest": (pair[1] @ a.T, a)}

    model = Several()
    a, b, c = torch.randn(3, 4), torch.randn(3, 4), torch.randn(2, 4)
    plan = pl.compile(model, {"a": a, "pair": (b, c)}, device="cpu")
    made, expected = plan.run(a.numpy(), b.numpy(), c.numpy()), model(a, (b, c))
    for mine, theirs in zip(made, (expected["sum"], *expected["rest"]), strict=True):
        close(mine, theirs)


@pytest.mark.parametrize("decomposed", [False, True])
def test_an_exported_program(decomposed, tmp_path):
    """By sizes that its own export made dynamic; also one that was saved, and written as fewer ops before."""

    class Parts(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 3)

        def forward(self, x, scale=None):
            return {"y": self.inner(x), "nothing": None, "rows": x[:, 0] * (1 if scale is None else scale)}

    torch.manual_seed(0)
    model = Parts()
    program = torch.export.export(model, (torch.randn(3, 4),), dynamic_shapes={"x": {0: torch.export.Dim("n")}})
    if decomposed:
        torch.export.save(program.run_decompositions(), tmp_path / "model.pt2")
        program = torch.export.load(tmp_path / "model.pt2")
    plan = pl.compile(program, device="cpu")
    assert [item["axes"] for item in plan.inputs] == [["x.0", ""]]
    for rows in (3, 7):
        x = torch.randn(rows, 4)
        made = plan.run(x.numpy())
        assert len(made) == 2  # None is no result
        close(made[0], model.inner(x))
        close(made[1], x[:, 0])


def test_refusals():
    class Strange(nn.Module):
        def forward(self, x):
            return torch.i0(x) + torch.special.i1(x)

    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, x):
            self.seen.add_(1)
            return x * 2

    x = torch.rand(3)
    with pytest.raises(pl.UnsupportedError, match=r"i0.default \(no converter\), special_i1.default"):
        pl.compile(Strange(), (x,))
    with pytest.raises(pl.UnsupportedError, match=r"changes seen when it runs, .*model\.eval\(\)"):
        pl.compile(Counts(), (x,))
    with pytest.raises(pl.UnsupportedError, match=r"no plan runs: native_dropout.default \(no converter\)$"):
        pl.compile(nn.Dropout(), (x,))
    exported = torch.export.export(network(), (torch.randn(2, 3, 9, 9),))
    for given in ({"example": (x,)}, {"dynamic": True}):
        with pytest.raises(pl.ArgumentTypeError, match=rf"{next(iter(given))} is given for an ExportedProgram"):
            pl.compile(exported, **given)
    with pytest.raises(pl.ArgumentTypeError, match="no example is given"):
        pl.compile(network())
    with pytest.raises(pl.ArgumentTypeError, match="values are given for a module"):
        pl.compile(network(), (x,), values={})
    with pytest.raises(pl.ArgumentTypeError, match=r"no torch\.nn\.Module"):
        pl.compile("model.onnx", (x,))


def test_a_size_that_pytorch_finds_to_be_a_number():
    class Begun(nn.Module):
        """Reads a length as an integer of Python."""

        def __init__(self):
            super().__init__()
            self.first = nn.Parameter(torch.randn(1, 4))

        def forward(self, x):
            return torch.cat([self.first.expand(len(x), -1), x * 2], 1)

    model, x = Begun(), torch.randn(3, 5)
    plan = pl.compile(model, (x,), dynamic=({0: torch.export.Dim.AUTO},), device="cpu")
    close(plan.run(x.numpy())[0], model(x))


class Recurrent(nn.Module):
    """Its states, too, of zeros or given."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x, *states):
        y, last = self.layer(x, *([states if isinstance(self.layer, nn.LSTM) else states[0]] if states else []))
        return y, *(last if isinstance(last, tuple) else (last,))


@pytest.mark.parametrize("batch_first", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "make",
    [
        lambda **how: nn.LSTM(4, 5, 2, bidirectional=True, **how),
        lambda **how: nn.LSTM(4, 5, bias=False, **how),
        lambda **how: nn.GRU(4, 5, 2, **how),
        lambda **how: nn.RNN(4, 5, nonlinearity="relu", bidirectional=True, **how),
        lambda **how: nn.RNN(4, 5, **how),
    ],
)
def test_recurrent_layers_are_one_op_a_level(make, batch_first, untuned):
    model = Recurrent(make(batch_first=batch_first)).eval()
    x, layers = torch.randn(3, 7, 4), model.layer.num_layers * (2 if model.layer.bidirectional else 1)
    states = torch.randn(2 if isinstance(model.layer, nn.LSTM) else 1, layers, 3 if batch_first else 7, 5)
    for given in ((x,), (x, *states)):
        plan = pl.compile(model, given, device="cpu")
        for made, wanted in zip(plan.run(*[each.numpy() for each in given]), model(*given), strict=True):
            close(made, wanted)
    cell = type(model.layer).__name__.lower()
    assert plan.graph().count(f" = {cell}(") == model.layer.num_layers, plan.graph()


def test_shapes_of_states_that_nothing_reads_may_be_wrong(untuned, monkeypatch):
    """PyTorch 2.11 takes the states after an LSTM for tensors of four dimensions."""
    from pylayout.torch import export

    decomposed = export._decomposed

    def with_wrong_states(program):
        program = decomposed(program)
        (layer,) = (node for node in program.graph.nodes if node.target is torch.ops.aten.lstm.input)
        y, *states = layer.meta["val"]
        layer.meta["val"] = (y, *(state.unsqueeze(1) for state in states))
        return program

    monkeypatch.setattr(export, "_decomposed", with_wrong_states)
    model, x = Recurrent(nn.LSTM(4, 5, 2)).eval(), torch.randn(3, 7, 4)
    with pytest.raises(pl.UnsupportedError, match=r"lstm.input \(made .*expected shape \(2, 1, 7, 5\)"):
        pl.compile(model, (x,), device="cpu")
    model.forward = lambda x: model.layer(x)[0]
    close(pl.compile(model, (x,), device="cpu").run(x.numpy())[0], model(x))


def test_recurrent_layers_that_the_library_has_not_are_written_out(untuned):
    for layer, x in ((nn.LSTM(4, 6, proj_size=3), torch.randn(3, 2, 4)), (nn.GRU(4, 5), torch.randn(3, 4))):
        model = Recurrent(layer).eval()
        for made, wanted in zip(pl.compile(model, (x,), device="cpu").run(x.numpy()), model(x), strict=True):
            close(made, wanted)

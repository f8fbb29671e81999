"""Mixtures of experts of transformers: one plan each way, exported ones too, against eager mode."""

import copy
import operator

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("transformers.integrations.moe")  # it registers the op

from compile_testing import close, compiled, fresh  # noqa: E402, F401

import pylayout as pl  # noqa: E402
import pylayout.torch  # noqa: E402


@pytest.fixture(autouse=True)
def quiet(untuned, torchvision_models):  # transformers imports torchvision, which may need a stand-in
    pass


COMMON = dict(
    vocab_size=61, hidden_size=32, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2,
    max_position_embeddings=64, num_experts_per_tok=2, intermediate_size=24,
)  # fmt: skip
OWN = {
    "Mixtral": dict(num_local_experts=4, head_dim=8),
    "Qwen3Moe": dict(moe_intermediate_size=24, num_experts=6, head_dim=8),
    "Olmoe": dict(num_experts=6),
    "GptOss": dict(num_local_experts=4, head_dim=8, sliding_window=8),  # with biases, and matrices the other way round
}
DIFFERENT = ["Mixtral", "GptOss"]  # from each other; the rest have what these have
OTHERS = [name for name in OWN if name not in DIFFERENT]


def network(name):
    config = getattr(transformers, f"{name}Config")(**COMMON, **OWN[name])
    return getattr(transformers, f"{name}ForCausalLM")(config)


def tokens(length=9, texts=2):
    return torch.randint(0, 61, (texts, length))


@pytest.mark.parametrize("name", [*DIFFERENT, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)])
def test_inference_is_one_plan(name):
    model, ids = network(name).eval(), tokens()
    with torch.no_grad():
        close(compiled(model)(ids, use_cache=False).logits, model(ids, use_cache=False).logits)
    (graph,) = pylayout.torch.report().graphs
    assert graph.partitions == 1 and not graph.left, str(graph)


# That of older versions reads the offsets, which no compiler can trace.
@pytest.mark.skipif(
    not hasattr(torch.ops.transformers, "grouped_mm_fallback_backward"), reason="the gradient is no op of transformers"
)
@pytest.mark.parametrize("name", [*DIFFERENT, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)])
def test_training_is_a_plan_each_way(name):
    model, ids = network(name).train(), tokens()
    twin = copy.deepcopy(model)
    for run in (compiled(model), twin):
        run(ids, labels=ids, use_cache=False).loss.backward()
    for (called, mine), theirs in zip(model.named_parameters(), twin.parameters(), strict=True):
        assert (mine.grad is None) == (theirs.grad is None), called
        if theirs.grad is not None:
            close(mine.grad, theirs.grad, 1e-4)
    graphs = pylayout.torch.report().graphs
    assert len(graphs) == 2
    for graph in graphs:
        assert graph.partitions == 1 and not graph.left, str(graph)


class Logits(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        return self.model(ids, use_cache=False).logits


@pytest.mark.parametrize("name", ["Mixtral", pytest.param("GptOss", marks=pytest.mark.slow)])
def test_an_exported_one_takes_any_length(name, tmp_path):
    model = Logits(network(name).eval())
    length = torch.export.Dim("length", min=2, max=32)
    try:
        plan = pl.compile(model, (tokens(7),), dynamic=({1: length},))
    except torch._dynamo.exc.UserError:
        if torch.__version__ >= "2.13":
            raise
        pytest.skip("this PyTorch exports it for one length alone")
    plan.save(tmp_path / "mixture.plan")
    loaded = pl.load_plan(tmp_path / "mixture.plan")
    for run in (plan, loaded):
        for size in (7, 11):
            ids = tokens(size)
            with torch.no_grad():
                close(torch.tensor(run.run(ids.numpy())[0]), model(ids), 1e-4)


ENDS = [[2, 2, 3, 3, 3], [0, 1, 1, 2, 2]]  # some groups are empty; behind the last ones rows are in none


def whole(dtype, *shape):
    """Small whole numbers, of which sums are exact."""
    return torch.randint(-3, 4, shape).to(dtype)


def layer_of(product, dtype):
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(whole(dtype, 5, 8, 16))

        def forward(self, x, ends):
            return torch.relu(product(torch.relu(x), self.weight.mT, ends))

    return Layer()


@pytest.mark.parametrize("rows", [3, 18])
@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize(  # in the dtypes that PyTorch traces them in
    ("product", "dtype"), [("aten._grouped_mm", torch.bfloat16), ("transformers.grouped_mm_fallback", torch.float32)]
)
def test_a_layer_of_groups(product, dtype, ends, rows):
    """With fewer rows than groups, and with more; its gradients too."""
    layer = layer_of(operator.attrgetter(product)(torch.ops), dtype)
    ends = torch.tensor(ends, dtype=torch.int32) * (rows // 3)
    twin, inside = copy.deepcopy(layer), int(ends[-1])
    x = whole(dtype, rows, 16)
    given, wanted = x.clone().requires_grad_(), x.clone().requires_grad_()
    made, expected = compiled(layer)(given, ends), twin(wanted, ends)
    close(made[:inside], expected[:inside])
    made[:inside].sum().backward()
    expected[:inside].sum().backward()
    close(layer.weight.grad, twin.weight.grad)
    close(given.grad[:inside], wanted.grad[:inside])
    for graph in pylayout.torch.report().graphs:
        assert graph.partitions == 1 and not graph.left, str(graph)


def test_ends_that_do_not_ascend_are_refused():
    layer = layer_of(torch.ops.transformers.grouped_mm_fallback, torch.float32)
    with torch.no_grad(), pytest.raises(Exception, match="grouped_mm: offsets is 1 at element 1, expected 2 to 6"):
        compiled(layer)(torch.randn(6, 16), torch.tensor([2, 1, 3, 4, 6], dtype=torch.int32))

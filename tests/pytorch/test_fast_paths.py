"""What PyTorch's modules of attention call in evaluation runs in plans, and gives the same."""

import copy

import pytest

torch = pytest.importorskip("torch")

from compile_testing import close, compiled, fresh  # noqa: E402, F401

import pylayout.torch  # noqa: E402
from pylayout.torch.fast_paths import encoder_layer, multi_head_attention  # noqa: E402

nn = torch.nn
pytestmark = pytest.mark.usefixtures("unoptimised")

PADDING = torch.tensor([[False] * 7, [False] * 4 + [True] * 3])  # left aligned


def layer(**options):
    return nn.TransformerEncoderLayer(24, 3, 20, batch_first=True, **options).eval()


@pytest.mark.parametrize("options", [{}, {"norm_first": True, "activation": "gelu"}], ids=str)
def test_an_encoder_in_evaluation_is_one_plan(options):
    model, x = nn.TransformerEncoder(layer(**options), 2, enable_nested_tensor=False).eval(), torch.randn(2, 7, 24)
    causal = nn.Transformer.generate_square_subsequent_mask(7)
    for keywords in ({}, {"src_key_padding_mask": PADDING}, {"mask": causal, "is_causal": True}):
        torch._dynamo.reset()
        pylayout.torch.reset()
        exact = copy.deepcopy(model).double()
        wide = {**keywords, "mask": keywords["mask"].double()} if "mask" in keywords else keywords
        with torch.no_grad():
            made, wanted = compiled(lambda x, k=keywords: model(x, **k))(x), exact(x.double(), **wide)
        close(made.double(), wanted, 1e-5)
        (graph,) = pylayout.torch.report().graphs
        assert graph.partitions == 1 and not graph.left, str(graph)


def parameters(rows=24):
    made = nn.MultiheadAttention(rows, 3, batch_first=True)
    weights = (made.in_proj_weight, made.in_proj_bias, made.out_proj.weight, made.out_proj.bias)
    return [torch.randn_like(each) * 0.3 for each in weights]


def some_pairs(*shape):
    """A fifth of the pairs, but none of the first key: where all keys are masked PyTorch gives NaN, sometimes."""
    mask = torch.rand(shape) > 0.8
    mask[..., 0] = False
    return mask


MASKS = [
    (None, None),
    (some_pairs(7, 7), 0),
    (PADDING, 1),
    (some_pairs(2, 3, 7, 7) | PADDING[:, None, None], 2),
]


@pytest.mark.parametrize(("mask", "kind"), MASKS, ids=["none", "pairs", "padding", "all"])
@pytest.mark.parametrize("weights", ["none", "heads", "mean"])
def test_attention_of_several_heads(mask, kind, weights):
    x, y = torch.randn(2, 7, 24), torch.randn(2, 7, 24)
    given = (24, 3, *parameters(), mask, weights != "none", weights == "mean", kind)
    with torch.no_grad():
        for three in ((x, x, x), (x, y, y)):
            made, wanted = multi_head_attention(*three, *given), torch._native_multi_head_attention(*three, *given)
            close(made[0], wanted[0])
            if weights != "none":
                close(made[1], wanted[1])


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize(("mask", "kind"), MASKS, ids=["none", "pairs", "padding", "all"])
def test_the_op_of_an_encoder_s_layer(mask, kind, first):
    module, x = layer(norm_first=first), torch.randn(2, 7, 24)
    given = [
        24, 3, *parameters(), first, first, 1e-5, *(torch.randn(24) for _ in range(4)), module.linear1.weight,
        module.linear1.bias, module.linear2.weight, module.linear2.bias, mask, kind,
    ]  # fmt: skip
    with torch.no_grad():
        close(encoder_layer(x, *given), torch._transformer_encoder_layer_fwd(x, *given), 1e-4)


def test_no_samples():
    model, x = layer(norm_first=True), torch.zeros(0, 7, 24)
    with torch.no_grad():
        assert compiled(model)(x).shape == (0, 7, 24)
        for mask, kind in ((None, None), (PADDING[:0], 1)):
            made, _ = multi_head_attention(x, x, x, 24, 3, *parameters(), mask, False, False, kind)
            assert made.shape == (0, 7, 24)

"""Transformers as both exporters of torch write them, small, with batch and length named.

One op for each attention, at most two reorders, torch's results at any length by one plan.
"""

import re

import numpy
import pytest

pytest.importorskip("onnx")
torch = pytest.importorskip("torch")

from onnx_exports import exported  # noqa: E402

import pylayout as pl  # noqa: E402

LAYERS = 2
WORDS, LENGTH = 90, 24
# Names of configurations' sizes differ between families.
WIDE = {
    "hidden_size": 64,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "intermediate_size": 160,
}
GROUPED = {**WIDE, "num_key_value_heads": 2, "vocab_size": WORDS, "pad_token_id": 0}
IMAGE = {"image_size": 48, "patch_size": 16}


def families(hf):
    """Name -> what makes (module, which of NAMED it takes)."""
    return {
        "bert": lambda: (hf.BertModel(hf.BertConfig(**WIDE, vocab_size=WORDS), add_pooling_layer=False), "masked"),
        "roberta": lambda: (
            hf.RobertaModel(hf.RobertaConfig(**WIDE, vocab_size=WORDS), add_pooling_layer=False),
            "masked",
        ),
        "gpt2": lambda: (
            hf.GPT2LMHeadModel(hf.GPT2Config(n_embd=64, n_layer=LAYERS, n_head=4, vocab_size=WORDS)),
            "masked",
        ),
        "opt": lambda: (
            hf.OPTForCausalLM(
                hf.OPTConfig(
                    hidden_size=64,
                    num_hidden_layers=LAYERS,
                    num_attention_heads=4,
                    ffn_dim=160,
                    vocab_size=WORDS,
                    word_embed_proj_dim=64,
                )
            ),
            "masked",
        ),
        "llama": lambda: (hf.LlamaForCausalLM(hf.LlamaConfig(**GROUPED)), "masked"),
        "qwen2": lambda: (hf.Qwen2ForCausalLM(hf.Qwen2Config(**GROUPED)), "masked"),
        "qwen3": lambda: (hf.Qwen3ForCausalLM(hf.Qwen3Config(**GROUPED, head_dim=24)), "masked"),
        "gemma": lambda: (hf.GemmaForCausalLM(hf.GemmaConfig(**GROUPED, head_dim=24)), "masked"),
        "gemma2": lambda: (
            hf.Gemma2ForCausalLM(hf.Gemma2Config(**GROUPED, head_dim=24, sliding_window=8)),
            "masked",
        ),
        "phi": lambda: (hf.PhiForCausalLM(hf.PhiConfig(**GROUPED)), "masked"),
        "phi3": lambda: (hf.Phi3ForCausalLM(hf.Phi3Config(**GROUPED)), "masked"),
        "modernbert": lambda: (
            hf.ModernBertModel(
                hf.ModernBertConfig(**WIDE, vocab_size=WORDS, pad_token_id=0, local_attention=8, cls_token_id=1)
            ),
            "masked",
        ),
        "deberta": lambda: (
            hf.DebertaV2Model(
                hf.DebertaV2Config(
                    **WIDE,
                    vocab_size=WORDS,
                    relative_attention=True,
                    pos_att_type=["p2c", "c2p"],
                    position_buckets=8,
                    share_att_key=True,
                    max_position_embeddings=32,
                )
            ),
            "masked",
        ),
        "t5": lambda: (
            hf.T5Model(hf.T5Config(d_model=64, d_kv=24, d_ff=160, num_layers=LAYERS, num_heads=4, vocab_size=WORDS)),
            "pairs",
        ),
        "vit": lambda: (hf.ViTModel(hf.ViTConfig(**WIDE, **IMAGE), add_pooling_layer=False), "pixels"),
        "clip_vision": lambda: (hf.CLIPVisionModel(hf.CLIPVisionConfig(**WIDE, **IMAGE)), "pixels"),
        "clip_text": lambda: (
            hf.CLIPTextModel(hf.CLIPTextConfig(**WIDE, vocab_size=WORDS, max_position_embeddings=32)),
            "masked",
        ),
        "swinv2": lambda: (
            hf.Swinv2Model(
                hf.Swinv2Config(
                    image_size=64, patch_size=4, embed_dim=24, depths=[2, 2], num_heads=[2, 4], window_size=4
                ),
                add_pooling_layer=False,
            ),
            "pixels",
        ),
        "xcit": lambda: (
            pytest.importorskip("timm").models.xcit.Xcit(
                img_size=32, patch_size=8, embed_dim=48, depth=LAYERS, num_heads=4, cls_attn_layers=1, num_classes=10
            ),
            "channels",
        ),
    }


NAMES = [
    "bert", "roberta", "gpt2", "opt", "llama", "qwen2", "qwen3", "gemma", "gemma2", "phi", "phi3", "modernbert",
    "deberta", "t5", "vit", "clip_vision", "clip_text", "swinv2", "xcit",
]  # fmt: skip
# In T5 each layer of the decoder has two, in Swin v2 there are two stages of two, in XCiT a last one of the class.
ATTENTIONS = {"t5": 3 * LAYERS, "swinv2": 4, "xcit": LAYERS + 1}
# DeBERTa multiplies queries and keys by those of positions as well, with all heads of a batch as matrices in a row,
# which no view of the projection's result is where there are several texts.
# XCiT's queries, keys and values are by rows in the linear layer's result, and so is what follows; a reshape that parts
# channels into heads takes them by columns.
REORDERS = {"deberta": 2 * LAYERS, "xcit": 4 * LAYERS}


class First(torch.nn.Module):
    """The first result of a module that is called by keywords."""

    def __init__(self, module, keywords):
        super().__init__()
        self.module, self.keywords = module, keywords
        self.options = {"use_cache": False} if getattr(getattr(module, "config", None), "use_cache", False) else {}

    def forward(self, *inputs):
        made = self.module(**dict(zip(self.keywords, inputs, strict=True)), **self.options)
        return made if isinstance(made, torch.Tensor) else made[0]


AXES = {0: "batch", 1: "length"}
NAMED = {
    "masked": {"input_ids": AXES, "attention_mask": AXES},
    "pairs": {"input_ids": AXES, "attention_mask": AXES, "decoder_input_ids": {0: "batch", 1: "written"}},
    "pixels": {"pixel_values": {0: "batch"}},
    "channels": {"x": {0: "batch"}},
}


def inputs_for(kind, side, batch, length):
    if kind in ("pixels", "channels"):
        return (torch.randn(batch, 3, side, side),)
    words = torch.randint(5, WORDS, (batch, length))
    mask = torch.ones_like(words)
    mask[-1, length - 3 :] = 0  # within a window a key is left for each query: exporters differ in what comes of none
    return (words, mask, words[:, : length - 4].clone()) if kind == "pairs" else (words, mask)


@pytest.mark.slow
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
@pytest.mark.parametrize("name", NAMES)
def test_one_attention_op_for_each_attention(name, exporter, torchvision_models, untuned, monkeypatch, tmp_path):
    hf = pytest.importorskip("transformers")  # which imports torchvision
    if exporter == "dynamo":
        pytest.importorskip("onnxscript")
    from transformers import masking_utils

    # It looks for several sequences in a row by `diff`, which TorchScript's exporter lacks; here each row is one.
    monkeypatch.setattr(masking_utils, "find_packed_sequence_indices", lambda position_ids: None)
    torch.manual_seed(0)
    module, kind = families(hf)[name]()
    named = NAMED[kind]
    first = First(module, list(named)).eval()
    side = 32 if kind == "channels" else getattr(module.config, "image_size", 0)
    path = tmp_path / "model.onnx"
    inputs = inputs_for(kind, side, 2, LENGTH)
    path.write_bytes(exported(first, inputs, named, dynamo=exporter == "dynamo", gathered=0))
    plan = pl.compile(str(path), device="cpu", deterministic=True)
    for batch, length in ((2, LENGTH), (1, 9), (3, 17)):
        inputs = inputs_for(kind, side, batch, length)
        with torch.no_grad():
            expected = first(*inputs).numpy()
        (made,) = plan.run(*(x.numpy() for x in inputs))
        assert made.shape == expected.shape
        assert numpy.abs(made - expected).max() < 2e-5 * numpy.abs(expected).max()
        why = plan.explain()
        attentions = why.count("(scaled_dot_product_attention)")
        reorders = [line.strip() for line in why.splitlines() if "reorder of" in line]
        assert attentions == ATTENTIONS.get(name, LAYERS), why
        assert len(reorders) <= REORDERS.get(name, 2), "\n".join(reorders)
    # DeBERTa repeats what it has of places for each image: not at all where there is one.
    assert plan.summary()["sizes"]["graphs"] == (2 if name == "deberta" else 1)


class Step(torch.nn.Module):
    """A decoder that is given keys and values of the past and gives those of all, as optimum exports it."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, words, mask, places, *past):
        from transformers import DynamicCache

        named = {} if self.module.config.model_type == "opt" else {"position_ids": places}
        cache = DynamicCache(list(zip(past[::2], past[1::2], strict=True)))
        made = self.module(input_ids=words, attention_mask=mask, past_key_values=cache, use_cache=True, **named)
        return made.logits, *(x for layer in made.past_key_values.layers for x in (layer.keys, layer.values))


def step_inputs(config, batch, added, past):
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    words, mask = torch.randint(5, WORDS, (batch, added)), torch.ones(batch, past + added, dtype=torch.int64)
    if past:
        mask[-1, 0] = 0
    places = torch.arange(past, past + added).repeat(batch, 1)
    return words, mask, places, *(torch.randn(batch, heads, past, width) for _ in range(2 * LAYERS))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "dynamo"),
    [(name, False) for name in ("gpt2", "opt", "llama", "qwen3", "gemma2", "phi3")]
    + [(name, True) for name in ("gpt2", "opt", "llama", "qwen3")],
)
def test_a_step_behind_any_past(name, dynamo, torchvision_models, untuned, tmp_path):
    hf = pytest.importorskip("transformers")
    torch.manual_seed(0)
    step = Step(families(hf)[name]()[0]).eval()
    named = {
        "input_ids": {0: "batch_size", 1: "sequence_length"},
        "attention_mask": {0: "batch_size", 1: "past_sequence_length + sequence_length"},
        "position_ids": {0: "batch_size", 1: "sequence_length"},
    }
    for i in range(2 * LAYERS):
        named[f"past_key_values.{i // 2}.{'value' if i % 2 else 'key'}"] = {0: "batch_size", 2: "past_sequence_length"}
    path = tmp_path / "model.onnx"
    inputs = step_inputs(step.module.config, 2, 3, 5)
    path.write_bytes(exported(step, inputs, named, dynamo=dynamo, gathered=3))
    plan = pl.compile(str(path), device="cpu", tune="off")
    taken = [entry["name"] for entry in plan.inputs]
    growing = plan.summary()["sizes"]["growing"]
    # By dynamo=True the keys of both layers have one name, and the values of each their own.
    assert re.fullmatch(r"s\d+, s\d+, s\d+" if dynamo else "past_sequence_length", growing), growing
    for batch, added, past in ((1, 7, 0), (2, 3, 5), (1, 1, 9), (2, 1, 17), (3, 4, 6)):
        inputs = step_inputs(step.module.config, batch, added, past)
        with torch.no_grad():
            expected = step(*inputs)
        feeds = {key: x.numpy() for key, x in zip(named, inputs, strict=True) if key in taken}
        assert len(feeds) == len(taken)
        for made, want in zip(plan.run(feeds), expected, strict=True):
            numpy.testing.assert_allclose(made, want.numpy(), rtol=2e-5, atol=2e-5)
        why = plan.explain()
        assert why.count("(scaled_dot_product_attention)") == LAYERS, why
    assert plan.summary()["sizes"]["graphs"] <= (2 if dynamo else 1)

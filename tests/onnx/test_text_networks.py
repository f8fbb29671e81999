"""Transformers as both exporters of torch write them, small, with batch and length named.

One op for each attention, at most two reorders, torch's results at any length by one plan.
"""

import io
import warnings

import numpy
import pytest

pytest.importorskip("onnx")
torch = pytest.importorskip("torch")

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
# which no view of the projection's result is; of these products one is read by columns.
# XCiT's queries, keys and values are by rows in the linear layer's result, and so is what follows; a reshape that parts
# channels into heads takes them by columns.
REORDERS = {"deberta": 3 * LAYERS, "xcit": 4 * LAYERS}


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


def exported(module, inputs, named, exporter):
    content = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if exporter == "dynamo":
            free = [dict.fromkeys(axes, torch.export.Dim.DYNAMIC) for axes in named.values()]
            torch.onnx.export(
                module, inputs, content, dynamo=True, verbose=False, input_names=list(named),
                dynamic_shapes=(tuple(free),),
            )  # fmt: skip
        else:
            torch.onnx.export(
                module, inputs, content, dynamo=False, opset_version=17, input_names=list(named), dynamic_axes=named
            )
    return content.getvalue()


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
    with torch.no_grad():
        path.write_bytes(exported(first, inputs_for(kind, side, 2, LENGTH), named, exporter))
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
    assert plan.summary()["sizes"]["graphs"] <= 2  # another one where the batch is not 1

"""Transformers as torch exports them, small: one op for each attention, at most two reorders, torch's results."""

import io
import warnings

import numpy
import pytest

pytest.importorskip("onnx")
torch = pytest.importorskip("torch")

import pylayout as pl  # noqa: E402

LAYERS = 2
WORDS, LENGTH, MEMORY = 90, 24, 20
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
    """Name -> what makes (module, how it is called: "masked", "pixels" or "pairs")."""
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
    }


NAMES = [
    "bert", "roberta", "gpt2", "opt", "llama", "qwen2", "qwen3", "gemma", "gemma2", "phi", "phi3", "modernbert",
    "deberta", "t5", "vit", "clip_vision", "clip_text", "swinv2",
]  # fmt: skip
# In T5 each layer of the decoder has two, in Swin v2 there are two stages of two.
ATTENTIONS = {"t5": 3 * LAYERS, "swinv2": 4}
# DeBERTa multiplies queries and keys by those of positions as well, with all heads of a batch as matrices in a row,
# which no view of the projection's result is; of these products one is read by columns.
REORDERS = {"deberta": 3 * LAYERS}


class First(torch.nn.Module):
    """The first result of a module that is called by keywords."""

    def __init__(self, module, keywords):
        super().__init__()
        self.module, self.keywords = module, keywords
        self.options = {"use_cache": False} if getattr(module.config, "use_cache", False) else {}

    def forward(self, *inputs):
        return self.module(**dict(zip(self.keywords, inputs, strict=True)), **self.options)[0]


def inputs_for(kind):
    words = torch.randint(5, WORDS, (2, LENGTH))
    mask = torch.ones_like(words)
    mask[1, LENGTH - 5 :] = 0
    if kind == "pixels":
        return ["pixel_values"], None
    if kind == "pairs":
        return ["input_ids", "attention_mask", "decoder_input_ids"], (words, mask, words[:, :MEMORY].clone())
    return ["input_ids", "attention_mask"], (words, mask)


def exported(module, inputs):
    content = io.BytesIO()
    names = [f"x{i}" for i in range(len(inputs))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, inputs, content, dynamo=False, opset_version=17, input_names=names)
    return content.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_one_attention_op_for_each_attention(name, torchvision_models, untuned, monkeypatch, tmp_path):
    hf = pytest.importorskip("transformers")  # which imports torchvision
    from transformers import masking_utils

    # It looks for several sequences in a row by `diff`, which TorchScript's exporter lacks; here each row is one.
    monkeypatch.setattr(masking_utils, "find_packed_sequence_indices", lambda position_ids: None)
    torch.manual_seed(0)
    module, kind = families(hf)[name]()
    module = module.eval()
    keywords, inputs = inputs_for(kind)
    if inputs is None:
        side = module.config.image_size
        inputs = (torch.randn(2, 3, side, side),)
    first = First(module, keywords)
    with torch.no_grad():
        expected = first(*inputs).numpy()
        path = tmp_path / "model.onnx"
        path.write_bytes(exported(first, inputs))
    plan = pl.compile(str(path), device="cpu", deterministic=True)
    why = plan.explain()
    attentions = why.count("(scaled_dot_product_attention)")
    reorders = [line.strip() for line in why.splitlines() if "reorder of" in line]
    assert attentions == ATTENTIONS.get(name, LAYERS), why
    assert len(reorders) <= REORDERS.get(name, 2), "\n".join(reorders)
    made = plan.run(*(x.numpy() for x in inputs))[0]
    assert made.shape == expected.shape
    assert numpy.abs(made - expected).max() < 2e-5 * numpy.abs(expected).max()

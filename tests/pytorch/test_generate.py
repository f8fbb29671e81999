"""Hugging Face's generate: tokens of compiled decoders, and of those on the device ocl, are those of the CPU."""

import copy

import pytest

torch = pytest.importorskip("torch")

import ocl_device  # noqa: E402, F401

import pylayout.torch  # noqa: E402

OCL = "ocl:0"
WORDS = {"vocab_size": 61, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
WAYS = {
    "greedy": {},
    "greedy, a cache of one size": {"cache_implementation": "static"},
    "beams": {"num_beams": 3},
}


@pytest.fixture(autouse=True)
def quiet(unoptimised, torchvision_models):  # transformers imports torchvision, which may need a stand-in
    torch._dynamo.reset()
    pylayout.torch.reset()
    torch.ocl.set_fallback("silent")
    yield
    torch._dynamo.reset()


def llama(transformers):
    config = transformers.LlamaConfig(
        hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
        max_position_embeddings=64, **WORDS,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)


def gpt2(transformers):
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(n_positions=64, n_embd=16, n_layer=1, n_head=2, **WORDS)
    )


def t5(transformers):
    config = transformers.T5Config(d_model=16, num_layers=1, num_heads=2, d_ff=24, d_kv=8, **WORDS)
    config.decoder_start_token_id = 0
    return transformers.T5ForConditionalGeneration(config)


CASES = [
    (llama, "greedy", False), (llama, "beams", False), (llama, "greedy, a cache of one size", True),
    (t5, "greedy", True),
]  # fmt: skip


@pytest.mark.parametrize(("make", "sampled"), [(gpt2, False), (llama, True)], ids=["gpt2, greedy", "llama, sampled"])
def test_no_token_is_computed_on_the_cpu(make, sampled):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    model = make(transformers).eval().to(OCL)
    words, mask = torch.randint(3, 61, (2, 6)), torch.ones(2, 6, dtype=torch.int64)
    words[0, :2], mask[0, :2] = 0, 0
    torch.ocl.clear_fallbacks()
    made = model.generate(
        input_ids=words.to(OCL), attention_mask=mask.to(OCL), max_new_tokens=3, do_sample=sampled, eos_token_id=2
    )
    assert made.shape[0] == 2 and made.shape[1] > 6
    assert torch.ocl.fallbacks() == []


@pytest.mark.slow
@pytest.mark.parametrize(("make", "way", "compiled"), CASES)
def test_tokens_are_those_of_the_cpu(make, way, compiled):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    model = make(transformers).eval()
    for weights in model.parameters():  # logits that are far from each other
        if weights.ndim > 1:
            torch.nn.init.normal_(weights, std=0.3)
    words, mask = torch.randint(3, 61, (2, 6)), torch.ones(2, 6, dtype=torch.int64)
    if make is llama:
        words[0, :2], mask[0, :2] = 0, 0  # a shorter text

    def tokens(model, place):
        given = {"input_ids": words.to(place), "attention_mask": mask.to(place)}
        return model.generate(**given, max_new_tokens=5, do_sample=False, **WAYS[way]).cpu()

    wanted = tokens(copy.deepcopy(model), "cpu")
    if compiled:
        model.forward = torch.compile(model.forward, backend="pylayout", options={"deterministic": True})
        made = tokens(model, "cpu")
        graphs = pylayout.torch.report().graphs
        assert graphs and all(graph.partitions == 1 for graph in graphs), str(graphs)
    else:
        made = tokens(model.to(OCL), OCL)
    assert torch.equal(made, wanted)

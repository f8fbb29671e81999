"""Whole networks of torchvision and transformers: one plan each, and the results of eager mode."""

import pytest

torch = pytest.importorskip("torch")

import pylayout.torch  # noqa: E402

FAST = ["resnet18"]
SLOW = [
    "alexnet", "convnext_tiny", "densenet121", "efficientnet_b0", "googlenet", "inception_v3", "maxvit_t", "mnasnet1_0",
    "mobilenet_v2", "mobilenet_v3_small", "regnet_y_400mf", "resnet50", "resnext50_32x4d", "shufflenet_v2_x1_0",
    "squeezenet1_0", "swin_t", "swin_v2_t", "vgg11_bn", "vit_b_16",
]  # fmt: skip


def check(model, expected_of, tolerance=1e-4):
    torch._dynamo.reset()
    pylayout.torch.reset()
    fast = torch.compile(model, backend="pylayout", options={"deterministic": True})
    with torch.no_grad():
        expected, made = expected_of(model), expected_of(fast)
    error = (made - expected).abs().max() / expected.abs().max()
    assert error < tolerance
    (graph,) = pylayout.torch.report().graphs
    assert graph.partitions == 1 and not graph.left, str(graph)


@pytest.mark.parametrize("name", [*FAST, *(pytest.param(name, marks=[pytest.mark.slow]) for name in SLOW)])
def test_torchvision(name, torchvision_models):
    torch.manual_seed(0)
    options = {"init_weights": True} if name in ("googlenet", "inception_v3") else {}
    model = getattr(torchvision_models, name)(**options).eval()
    for parameter in model.parameters():  # ViT's last layer begins with zeros, and would give no result to compare
        if parameter.dim() > 1 and not parameter.any():
            torch.nn.init.normal_(parameter, std=0.02)
    side = 299 if name == "inception_v3" else 224
    check(model, lambda run: run(torch.randn(1, 3, side, side, generator=torch.Generator().manual_seed(1))))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "t5"])
def test_transformers(name, torchvision_models):  # which transformers imports
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    tokens = torch.randint(0, 1000, (2, 37))
    mask = torch.cat([torch.ones(2, 30), torch.zeros(2, 7)], 1).long()
    if name == "bert":
        config = transformers.BertConfig(
            hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256, vocab_size=1000
        )
        model, keywords = transformers.BertModel(config), {"attention_mask": mask}
    elif name == "gpt2":
        config = transformers.GPT2Config(n_embd=128, n_layer=2, n_head=4, vocab_size=1000)
        model, keywords = transformers.GPT2LMHeadModel(config), {"use_cache": False}
    elif name == "llama":
        config = transformers.LlamaConfig(
            hidden_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=256,
            vocab_size=1000,
        )  # fmt: skip
        model, keywords = transformers.LlamaForCausalLM(config), {"use_cache": False}
    else:
        config = transformers.T5Config(d_model=128, num_layers=2, num_heads=4, d_ff=256, vocab_size=1000, d_kv=32)
        model, keywords = transformers.T5EncoderModel(config), {}
    model.eval()
    check(model, lambda run: run(input_ids=tokens, **keywords)[0])


def test_a_network_trains_in_two_plans(torchvision_models):
    torch.manual_seed(0)
    model = torchvision_models.resnet18()
    torch._dynamo.reset()
    pylayout.torch.reset()
    fast = torch.compile(model, backend="pylayout", options={"deterministic": True})
    fast(torch.randn(2, 3, 64, 64)).square().mean().backward()
    graphs = pylayout.torch.report().graphs
    assert [(graph.kind, graph.partitions) for graph in graphs] == [("forward", 1), ("backward", 1)]
    assert {op for graph in graphs for op, _ in graph.left} <= {"copy_.default"}  # of running statistics

"""Small networks of the families that people train, both ways on the device ocl, against the CPU in float64."""

import copy

import pytest

torch = pytest.importorskip("torch")

import ocl_device  # noqa: E402, F401

nn = torch.nn
OCL = "ocl:0"


@pytest.fixture(autouse=True)
def quiet(untuned, torchvision_models):  # transformers imports torchvision, which may need a stand-in
    torch.ocl.clear_fallbacks()
    torch.ocl.set_fallback("silent")


class Residual3d(nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv3d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm3d(out), nn.ReLU(),
            nn.Conv3d(out, out, 3, 1, 1, bias=False), nn.BatchNorm3d(out),
        )  # fmt: skip
        self.around = nn.Sequential(nn.Conv3d(channels, out, 1, stride, bias=False), nn.BatchNorm3d(out))

    def forward(self, x):
        return torch.relu(self.body(x) + self.around(x))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()

        def block(channels, out):
            return nn.Sequential(nn.Conv2d(channels, out, 3, padding=1), nn.GroupNorm(2, out), nn.SiLU())

        self.first, self.second, self.bottom = block(3, 6), block(6, 10), block(10, 14)
        self.up, self.third, self.last = nn.ConvTranspose2d(14, 10, 2, 2), block(20, 10), block(16, 6)
        self.head = nn.Conv2d(6, 2, 1)

    def forward(self, x):
        a = self.first(x)
        b = self.second(nn.functional.max_pool2d(a, 2))
        c = self.bottom(nn.functional.avg_pool2d(b, 2))
        d = self.third(torch.cat([self.up(c), b], 1))
        wide = nn.functional.interpolate(d, scale_factor=2, mode="bilinear", align_corners=False)
        return self.head(self.last(torch.cat([wide, a], 1)))


def resnet3d():
    model = nn.Sequential(
        nn.Conv3d(3, 6, (3, 5, 5), (1, 2, 2), (1, 2, 2), bias=False), nn.BatchNorm3d(6), nn.ReLU(), nn.MaxPool3d(2, 2),
        Residual3d(6, 6, 1), Residual3d(6, 9, 2), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(9, 4),
    )  # fmt: skip
    return model, torch.randn(2, 3, 4, 14, 14)


def unet():
    return UNet(), torch.randn(2, 3, 12, 20)


def swin():
    transformer = pytest.importorskip("torchvision.models.swin_transformer")
    model = transformer.SwinTransformer([2, 2], 8, [2, 1], [2, 2], [4, 4], stochastic_depth_prob=0.0, num_classes=5)
    return model, torch.randn(2, 3, 18, 18)  # windows that do not divide the image


def gpt2():
    transformers = pytest.importorskip("transformers")
    model = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=37, n_positions=16, n_embd=16, n_layer=2, n_head=2, resid_pdrop=0.0,
                                embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False)
    )  # fmt: skip
    return model, torch.randint(37, (2, 11))


def llama():
    transformers = pytest.importorskip("transformers")
    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(vocab_size=37, hidden_size=16, intermediate_size=28, num_hidden_layers=2,
                                 num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=16,
                                 use_cache=False)
    )  # fmt: skip
    return model, torch.randint(37, (2, 11))


def both_ways(model, x):
    """The loss, and the gradients of all parameters."""
    if x.dtype == torch.int64:
        loss = model(input_ids=x, labels=x).loss
    else:
        y = model(x)
        loss = (y * torch.linspace(-1, 1, y.numel()).view(y.shape).to(y)).sum() + y.square().mean()
    loss.backward()
    made = {"loss": loss.detach()} | {name: each.grad for name, each in model.named_parameters() if each.requires_grad}
    return {name: each.cpu().double() for name, each in made.items()}


@pytest.mark.slow
@pytest.mark.parametrize("make", [resnet3d, unet, swin, gpt2, llama], ids=lambda make: make.__name__)
def test_training_is_as_exact_as_the_cpu_s(make):
    torch.manual_seed(0)
    model, x = make()
    exact = both_ways(copy.deepcopy(model).double(), x.double() if x.is_floating_point() else x)
    here = both_ways(copy.deepcopy(model), x)
    there = both_ways(copy.deepcopy(model).to(OCL), x.to(OCL))
    largest = max(each.abs().max() for name, each in exact.items() if name != "loss")
    for name, wanted in exact.items():
        scale = max(wanted.abs().max().item(), 1e-3 * largest.item())
        error, own = ((made[name] - wanted).abs().max().item() / scale for made in (there, here))
        assert error <= 5 * own + 2e-5, (name, error, own)
    assert not [each.op for each in torch.ocl.fallbacks() if "no kernel" not in each.reason]

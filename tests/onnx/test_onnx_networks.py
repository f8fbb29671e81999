"""Networks as torch exports them, small, against torch itself in float64."""

import io
import warnings

import numpy
import pytest

onnx = pytest.importorskip("onnx")
torch = pytest.importorskip("torch")

from onnx_models import run  # noqa: E402

import pylayout as pl  # noqa: E402
import pylayout.onnx  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def seeded():
    torch.manual_seed(0)
    torch.backends.mha.set_fastpath_enabled(False)


def export(module, x, opset=17, **options):
    """The module as an ONNX model, by torch's exporter that traces."""
    content = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module, (x,), content, dynamo=False, opset_version=opset, input_names=["x"], output_names=["y"], **options
        )
    return onnx.load_model_from_string(content.getvalue())


def compare(module, x, opset=17, **options):
    """The model of a module, run: as near to float64 as torch's own f32 is, with some room for other orders of sums."""
    model = export(module.eval(), x, opset, **options)
    (actual,) = run(model, x.numpy())
    with torch.no_grad():
        narrow = module(x).numpy()
        wanted = module.double()(x.double() if x.dtype == torch.float32 else x).numpy()
    assert actual.shape == wanted.shape
    largest = numpy.linalg.norm(wanted)
    error, of_torch = (numpy.linalg.norm(values - wanted) / largest for values in (actual, narrow))
    assert error < max(1e-5, 5 * of_torch)
    return model


def calibrated(module, x):
    """Weights and statistics that keep activations near unit scale, so that errors show."""
    for part in module.modules():
        if isinstance(part, (torch.nn.Conv2d, torch.nn.Linear)):
            torch.nn.init.kaiming_normal_(part.weight, nonlinearity="relu")
        elif isinstance(part, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(part.weight, 0.5, 1.0)
            part.momentum = None
        elif isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    module.train()
    with torch.no_grad():
        module(torch.cat([x, torch.randn_like(x), torch.randn_like(x)]))
    return module.eval()


@pytest.mark.parametrize(
    ("name", "opset"),
    [
        ("resnet18", 17),
        ("resnet18", 9),
        ("mobilenet_v3_small", 13),
        ("shufflenet_v2_x0_5", 11),
        ("squeezenet1_1", 17),
        ("efficientnet_b0", 17),
        ("googlenet", 17),
    ],
)
def test_torchvision(name, opset, torchvision_models):
    options = {"aux_logits": False, "init_weights": False} if name == "googlenet" else {}
    x = torch.randn(1, 3, 64, 64)
    compare(calibrated(getattr(torchvision_models, name)(**options), x), x, opset)


class Standardised(torch.nn.Conv2d):
    """A convolution whose weights have mean 0 and variance 1 for each output, by a batch norm of themselves."""

    def __init__(self, inputs, outputs, kernel, stride=1, groups=1):
        super().__init__(inputs, outputs, kernel, stride, kernel // 2, groups=groups)
        self.gain = torch.nn.Parameter(torch.rand(outputs, 1, 1, 1) + 0.5)

    def forward(self, x):
        rows = self.weight.reshape(1, self.out_channels, -1)
        scale = (self.gain * self.weight[0].numel() ** -0.5).view(-1)
        weight = torch.nn.functional.batch_norm(rows, None, None, weight=scale, training=True, momentum=0.0, eps=1e-6)
        weight = weight.reshape_as(self.weight)
        return torch.nn.functional.conv2d(x, weight, self.bias, self.stride, self.padding, groups=self.groups)


class NormaliserFree(torch.nn.Module):
    """A stem and a bottleneck with squeeze and excite, as in NFNet."""

    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Sequential(Standardised(3, 8, 3, 2), torch.nn.GELU(), Standardised(8, 16, 3, 2))
        self.down, self.shortcut = Standardised(16, 16, 1), Standardised(16, 32, 1)
        self.middle, self.up = Standardised(16, 16, 3, 2, groups=2), Standardised(16, 32, 1)
        self.squeeze, self.excite = torch.nn.Conv2d(32, 8, 1), torch.nn.Conv2d(8, 32, 1)
        self.skip_gain = torch.nn.Parameter(torch.tensor(0.7))

    def forward(self, x):
        x = torch.nn.functional.gelu(self.stem(x)) * 1.7 * 0.9
        shortcut = self.shortcut(torch.nn.functional.avg_pool2d(x, 2, 2, ceil_mode=True, count_include_pad=False))
        y = torch.nn.functional.gelu(self.middle(torch.nn.functional.gelu(self.down(x)) * 1.7)) * 1.7
        y = self.up(y)
        gate = self.excite(torch.relu(self.squeeze(y.mean((2, 3), keepdim=True)))).sigmoid()
        return y * gate * 2.0 * 0.2 * self.skip_gain + shortcut


@pytest.mark.parametrize("opset", [14, 17])
def test_weights_standardised_by_batch_norms(opset):
    model = compare(NormaliserFree(), torch.randn(2, 3, 36, 36), opset)
    norms = [node for node in model.graph.node if node.op_type == "BatchNormalization"]
    modes = [attribute.i for node in norms for attribute in node.attribute if attribute.name == "training_mode"]
    assert modes == [1] * 6  # what torch exports them as
    plan = pl.compile(pylayout.onnx.load(model), device="cpu", tune="off")
    assert "batch_norm" not in plan.graph()  # of constants: done once


class Encoder(torch.nn.Module):
    """A patch embedding and transformer blocks, as in ViT."""

    def __init__(self):
        super().__init__()
        self.patches = torch.nn.Conv2d(3, 32, 8, 8)
        self.place = torch.nn.Parameter(torch.randn(1, 17, 32))
        self.token = torch.nn.Parameter(torch.randn(1, 1, 32))
        block = torch.nn.TransformerEncoderLayer(32, 4, 64, 0.0, "gelu", batch_first=True, norm_first=True)
        self.blocks = torch.nn.TransformerEncoder(block, 2, enable_nested_tensor=False)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.place
        return self.blocks(x)[:, 0]


@pytest.mark.parametrize("opset", [14, 17, 20])
def test_vision_transformer(opset):
    compare(Encoder(), torch.randn(2, 3, 32, 32), opset)


class Windows(torch.nn.Module):
    """A shifted window of attention with a bias that is gathered, as in Swin."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = torch.nn.Linear(24, 72), torch.nn.Linear(24, 24)
        self.table = torch.nn.Parameter(torch.randn(49, 3))
        at = torch.stack(torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij")).flatten(1)
        difference = at[:, :, None] - at[:, None, :] + 3
        self.register_buffer("index", difference[0] * 7 + difference[1])

    def forward(self, x):
        n, h, w, c = x.shape
        x = torch.roll(x, (-2, -2), (1, 2))
        x = x.view(n, h // 4, 4, w // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
        q, k, v = self.qkv(x).reshape(-1, 16, 3, 3, c // 3).permute(2, 0, 3, 1, 4)
        scores = (q * (c // 3) ** -0.5) @ k.transpose(-2, -1)
        bias = self.table[self.index.view(-1)].view(16, 16, 3).permute(2, 0, 1)
        x = ((scores + bias).softmax(-1) @ v).transpose(1, 2).reshape(-1, 16, c)
        x = self.out(x).view(n, h // 4, w // 4, 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(n, h, w, c)
        return torch.roll(x, (2, 2), (1, 2))


def test_shifted_windows():
    compare(Windows(), torch.randn(2, 8, 8, 24))


class Words(torch.nn.Module):
    """Embeddings, a mask from the padding, layer norms, as in BERT."""

    def __init__(self):
        super().__init__()
        self.words, self.places = torch.nn.Embedding(50, 32), torch.nn.Embedding(16, 32)
        self.norm = torch.nn.LayerNorm(32)
        self.attention = torch.nn.MultiheadAttention(32, 4, batch_first=True)
        self.up, self.down = torch.nn.Linear(32, 64), torch.nn.Linear(64, 32)

    def forward(self, index):
        x = self.norm(self.words(index) + self.places(torch.arange(index.shape[1])))
        mask = torch.where(index == 0, -1e4, 0.0).to(x.dtype)[:, None, None, :]
        mask = mask.expand(-1, 4, index.shape[1], -1).reshape(-1, index.shape[1], index.shape[1])
        x = x + self.attention(x, x, x, attn_mask=mask, need_weights=False)[0]
        return x + self.down(torch.nn.functional.gelu(self.up(x)))


def test_text_encoder():
    index = torch.randint(0, 50, (2, 11))
    index[1, 7:] = 0
    compare(Words(), index)


class Segmenter(torch.nn.Module):
    """Down and up again: transposed convolutions, dilations, resizing, group norm, concatenation."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(3, 16, 3, padding=1)
        self.norm = torch.nn.GroupNorm(4, 16)
        self.down = torch.nn.Conv2d(16, 32, 3, 2, 1)
        self.wide = torch.nn.Conv2d(32, 32, 3, padding=2, dilation=2)
        self.up = torch.nn.ConvTranspose2d(32, 16, 2, 2)
        self.last = torch.nn.Conv2d(64, 5, 1)

    def forward(self, x):
        a = torch.nn.functional.hardswish(self.norm(self.first(x)))
        b = torch.nn.functional.elu(self.wide(self.down(a)))
        size = a.shape[2:]
        c = torch.nn.functional.interpolate(b, size=size, mode="bilinear", align_corners=False)
        pooled = torch.nn.functional.adaptive_avg_pool2d(b, 1).expand(-1, -1, *size)[:, :0]
        d = torch.cat([self.up(b), a, c, pooled], 1)
        return self.last(torch.nn.functional.pad(d, (1, 0, 0, 1), mode="reflect")).log_softmax(1)


def test_segmentation():
    compare(Segmenter(), torch.randn(1, 3, 20, 24))


class Layers(torch.nn.Module):
    """Recurrent layers of each kind, one after the other."""

    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(6, 8, 2, batch_first=True, bidirectional=True)
        self.gru = torch.nn.GRU(16, 8, batch_first=True)
        self.rnn = torch.nn.RNN(8, 8, batch_first=True)

    def forward(self, x):
        return self.rnn(self.gru(self.lstm(x)[0])[0])[0]


@pytest.mark.parametrize("opset", [9, 17])
def test_recurrent_layers(opset):
    compare(Layers(), torch.randn(2, 5, 6), opset)


def test_a_dynamic_batch():
    """Exported with an open batch: the shapes in the model are computed, and folded for each batch."""
    axes = {"x": {0: "batch"}, "y": {0: "batch"}}
    model = compare(Encoder(), torch.randn(1, 3, 32, 32), dynamic_axes=axes)
    ops = set()
    for batch in (1, 2, 5):
        graph = pylayout.onnx.load(model, sizes={"batch": batch})
        assert graph.outputs["y"].shape == (batch, 32)
        ops.add(tuple(node["op"] for node in graph.describe()["nodes"]))
    assert len({len(names) for names in ops}) <= 2  # a batch of 1 may need an expansion less
    with pytest.raises(pl.InvalidArgumentError, match="expected one of batch"):
        pylayout.onnx.load(model, sizes={"n": 3})

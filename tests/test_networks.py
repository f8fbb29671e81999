"""The networks: structure, seeded weights, files of weights, folding, and what they compute."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import pylayout as pl
from pylayout import image
from pylayout.networks import NETWORKS, Network, trace
from pylayout.networks.reference import ReferenceLayers, convolve
from pylayout.networks.weights import check, fold, read_safetensors, seeded

SIZE = 64  # pixels a side: enough for every stage, and 12 times less work than 224
FAST = ("resnet50", "mobilenet_v2")  # vgg16's weights take seconds to draw


@pytest.fixture(scope="module", autouse=True)
def without_tuning():
    """What is computed does not depend on what was measured; measuring hundreds of ops would take the time."""
    pl.set_tuning("off")
    yield
    pl.set_tuning("auto")


_parameters: dict[str, dict[str, np.ndarray]] = {}


def parameters_of(name: str) -> dict[str, np.ndarray]:
    if name not in _parameters:
        _parameters[name] = seeded(NETWORKS[name])
    return _parameters[name]


def images(count: int = 1, size: int = SIZE) -> np.ndarray:
    return np.concatenate([image.synthetic(size, seed=100 + i) for i in range(count)])


def distance(y: np.ndarray, reference: np.ndarray) -> float:
    return float(np.linalg.norm(y - reference) / np.linalg.norm(reference))


def write_safetensors(path: Path, tensors: dict[str, tuple[str, tuple[int, ...], bytes]]) -> None:
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


# ---- structure ----


@pytest.mark.parametrize(
    ("name", "layers", "millions", "mflop"),
    # parameters in millions and multiply-adds as torchvision's documentation gives them: 4.09, 0.30, 15.47 G
    [("resnet50", 54, 25.557, 4089), ("mobilenet_v2", 53, 3.505, 301), ("vgg16", 16, 138.358, 15470)],
)
def test_structure(name, layers, millions, mflop):
    traced = trace(name)
    assert len(traced) == layers
    assert traced[-1].y == (1, 1000)
    shapes: dict[str, tuple[int, ...]] = {}
    for layer in traced:
        shapes.update(layer.parameters())
    trained = sum(int(np.prod(shape)) for key, shape in shapes.items() if "running" not in key)
    assert trained / 1e6 == pytest.approx(millions, abs=5e-4)
    assert sum(layer.flops for layer in traced) / 2e6 == pytest.approx(mflop, rel=2e-3)


def test_unknown_network():
    with pytest.raises(ValueError, match=r"no network named 'resnet51', expected one of resnet50, mobilenet_v2, vgg16"):
        trace("resnet51")


# ---- weights ----


def test_seeds_repeat_and_differ():
    first, again = parameters_of("mobilenet_v2"), seeded(NETWORKS["mobilenet_v2"])
    other = seeded(NETWORKS["mobilenet_v2"], 4)
    assert first.keys() == again.keys() == other.keys()
    for key in first:
        np.testing.assert_allclose(first[key], again[key], rtol=1e-4, atol=1e-5)
    assert any(distance(other[key], first[key]) > 0.1 for key in first)


@pytest.mark.parametrize("name", [*FAST, pytest.param("vgg16", marks=pytest.mark.slow)])
def test_seeded_activations_keep_unit_scale(name):
    scales = []

    class Watching(ReferenceLayers):
        def conv(self, x, *arguments, **options):
            scales.append(float(np.sqrt(np.mean(np.square(x)))))
            return super().conv(x, *arguments, **options)

    check(parameters_of(name), trace(name), "seeded")
    y = NETWORKS[name](Watching(parameters_of(name)), image.synthetic(224, seed=99))
    assert len(scales) > 10 and min(scales) > 0.1 and max(scales) < 10
    assert 0.1 < y.std() < 30


def test_folding_changes_nothing_but_rounding():
    parameters = {key: value.astype(np.float64) for key, value in parameters_of("resnet50").items()}
    x = images().astype(np.float64)

    class Folded(ReferenceLayers):
        def conv(self, x, name, channels, kernel, *, norm=None, **options):
            return super().conv(x, name, channels, kernel, **options)

    folded = fold(parameters, trace("resnet50"))
    expected = NETWORKS["resnet50"](ReferenceLayers(parameters), x)
    assert distance(NETWORKS["resnet50"](Folded(folded), x), expected) < 1e-5


def test_check_names_what_is_wrong():
    layers = trace("resnet50")
    good = parameters_of("resnet50")
    missing = {key: value for key, value in good.items() if key != "layer1.0.bn2.running_var"}
    with pytest.raises(ValueError, match=r"w: no parameter layer1\.0\.bn2\.running_var, expected one of shape \(64,\)"):
        check(missing, layers, "w")
    with pytest.raises(ValueError, match=r"w: fc\.weight has shape \(10, 2048\), expected \(1000, 2048\)"):
        check({**good, "fc.weight": np.zeros((10, 2048))}, layers, "w")


def test_reads_safetensors(tmp_path):
    path = tmp_path / "w.safetensors"
    values = np.array([[1.5, -2.0, 0.25]], np.float32)
    write_safetensors(
        path,
        {
            "f32": ("F32", (1, 3), values.tobytes()),
            "f16": ("F16", (3,), values.astype(np.float16).tobytes()),
            "bf16": ("BF16", (3,), (values.view(np.uint32) >> 16).astype(np.uint16).tobytes()),
            "count": ("I64", (), np.int64(7).tobytes()),
            "flags": ("BOOL", (2,), b"\0\1"),
        },
    )
    found = read_safetensors(path)
    assert sorted(found) == ["bf16", "count", "f16", "f32"]
    assert found["count"] == 7 and found["f32"].shape == (1, 3)
    for name in ("f32", "f16", "bf16"):
        assert found[name].dtype == np.float32
        np.testing.assert_array_equal(found[name].ravel(), values.ravel())


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x05",
        (100).to_bytes(8, "little") + b"{}",
        (2).to_bytes(8, "little") + b"[]",
        (3).to_bytes(8, "little") + b"{a}",
        (2**63).to_bytes(8, "little") + b"{}",
        (12).to_bytes(8, "little") + b'{"a": [1,2]}',
    ],
)
def test_damaged_safetensors(tmp_path, content):
    path = tmp_path / "w.safetensors"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="damaged"):
        read_safetensors(path)


@pytest.mark.parametrize("offsets", [[0, 8], [-4, 0], [4, 0], [0, 3], [0]])
def test_safetensors_with_offsets_outside(tmp_path, offsets):
    path = tmp_path / "w.safetensors"
    text = json.dumps({"a": {"dtype": "F32", "shape": [1], "data_offsets": offsets}}).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"\0\0\0\0")
    with pytest.raises(ValueError, match="damaged"):
        read_safetensors(path)


# ---- pictures ----


def test_synthetic_picture():
    first = image.synthetic(96, seed=5)
    assert first.shape == (1, 3, 96, 96) and first.dtype == np.float32
    np.testing.assert_array_equal(first, image.synthetic(96, seed=5))
    assert not np.array_equal(first, image.synthetic(96, seed=6))
    assert first.min() > -3 and first.max() < 3 and first.std() > 0.3


def test_picture_is_prepared_as_torchvision_does(tmp_path):
    pillow = pytest.importorskip("PIL.Image")
    rows = np.arange(300)[:, None, None] * np.ones((1, 400, 3)) * 255 / 299
    pillow.fromarray(rows.astype(np.uint8)).save(tmp_path / "a.png")
    x = image.load(tmp_path / "a.png")
    assert x.shape == (1, 3, 224, 224) and x.flags.c_contiguous
    mean, deviation = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    pixels = x[0].transpose(1, 2, 0) * deviation + mean
    # the shorter side becomes 256, the middle 224 are kept: from 16.5 / 256 to 239.5 / 256 of the ramp
    assert pixels[0].mean() == pytest.approx(16.5 / 256, abs=0.01)
    assert pixels[-1].mean() == pytest.approx(239.5 / 256, abs=0.01)
    (tmp_path / "b.png").write_bytes(b"no picture")
    with pytest.raises(OSError, match=r"b\.png"):
        image.load(tmp_path / "b.png")


# ---- what they compute ----


def test_reference_convolution_by_hand():
    x = np.arange(9.0).reshape(1, 1, 3, 3)
    w = np.ones((1, 1, 2, 2))
    np.testing.assert_array_equal(convolve(x, w, 1, 0, 1)[0, 0], [[8, 12], [20, 24]])
    np.testing.assert_array_equal(convolve(x, w, 2, 1, 1)[0, 0], [[0, 3], [9, 24]])
    both = np.concatenate([x, 2 * x], axis=1)
    grouped = convolve(both, np.ones((2, 1, 2, 2)), 1, 0, 2)
    np.testing.assert_array_equal(grouped[0, 1], 2 * grouped[0, 0])


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize("folded", [True, False], ids=["folded", "unfolded"])
def test_equals_the_reference(name, folded):
    parameters = parameters_of(name)
    x = images(2)
    expected = NETWORKS[name](ReferenceLayers({k: v.astype(np.float64) for k, v in parameters.items()}), x)
    y = np.asarray(Network(name, parameters, folded=folded)(pl.asarray(x)))
    assert y.shape == (2, 1000)
    assert distance(y, expected) < 1e-4


@pytest.mark.parametrize("name", FAST)
def test_policies_agree(name):
    network = Network(name, parameters_of(name))
    x = images()
    reference = np.asarray(network(pl.asarray(x), layout="NCHW"))
    for policy in ("per-op", "NHWC", "nChw16c", "nChw8c", "auto", "auto"):
        assert distance(np.asarray(network(pl.asarray(x), layout=policy)), reference) < 1e-4, policy


@pytest.mark.slow
def test_vgg16_equals_the_reference():
    parameters = parameters_of("vgg16")
    x = images(size=224)
    expected = NETWORKS["vgg16"](ReferenceLayers(parameters), x)
    network = Network("vgg16", parameters)
    for policy in ("NCHW", "auto"):
        assert distance(np.asarray(network(pl.asarray(x), layout=policy)), expected) < 1e-4, policy


def test_seeded_network_reports_progress():
    seen: list[tuple[int, int]] = []
    Network("mobilenet_v2", progress=lambda done, total: seen.append((done, total)))
    assert [done for done, _ in seen] == list(range(1, 55)) and {total for _, total in seen} == {54}


# ---- against torchvision, through a file of its own state_dict ----


@pytest.mark.parametrize("name", FAST)
def test_equals_torchvision(name, tmp_path, torchvision_models):
    torch = pytest.importorskip("torch")
    save_file = pytest.importorskip("safetensors.torch").save_file
    module = getattr(torchvision_models, name)().eval()
    state = {key: torch.from_numpy(value) for key, value in parameters_of(name).items()}
    missing = module.load_state_dict(state, strict=False).missing_keys
    assert all(key.endswith("num_batches_tracked") for key in missing)
    path = tmp_path / f"{name}.safetensors"
    save_file(module.state_dict(), path)
    x = images(2, 96)
    with torch.no_grad():
        expected = module(torch.from_numpy(x)).numpy()
    for folded in (True, False):
        y = np.asarray(Network(name, path, folded=folded)(pl.asarray(x)))
        assert distance(y, expected) < 1e-4

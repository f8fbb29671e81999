"""Places of maxima, and what undoes a pool by them; taps that are read at offsets; runs written into a cache.

By PyTorch's own, and at sizes that runs decide.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx_models import helper, model_of

import pylayout as pl

torch = pytest.importorskip("torch")


def in_all_ways(nodes: list[Any], arrays: dict[str, Any], outputs: list[str], opset: int = 19) -> list[list[Any]]:
    """The outputs of a model with its sizes, and of one that is run at other sizes first."""
    made = [pl.compile(model_of(nodes, arrays, outputs, opset), device="cpu").run(*arrays.values())]
    axes = {name: (helper.np_dtype_to_tensor_dtype(x.dtype), ["n", *x.shape[1:]]) for name, x in arrays.items()}
    plan = pl.compile(model_of(nodes, axes, outputs, opset), device="cpu")
    plan.run(*(x[:1] for x in arrays.values()))
    made.append(plan.run(*arrays.values()))
    return made


POOLS: dict[str, dict[str, Any]] = {
    "1d": {"kernel_shape": [3], "strides": [2], "pads": [1, 1]},
    "2d": {"kernel_shape": [2, 2], "strides": [2, 2]},
    "padded": {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 1, 1, 1]},
    "dilated": {"kernel_shape": [2, 2], "dilations": [2, 2], "strides": [1, 1]},
    "ceil": {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
    "3d": {"kernel_shape": [2, 2, 2], "strides": [2, 2, 2]},
}


@pytest.mark.parametrize("name", POOLS)
def test_places_of_maxima(name: str) -> None:
    how = POOLS[name]
    rank = len(how["kernel_shape"])
    x = np.random.default_rng(rank).permutation(2 * 3 * 7**rank).reshape(2, 3, *[7] * rank).astype("f4")
    pads = how.get("pads", [0] * 2 * rank)
    pool = getattr(torch.nn.functional, f"max_pool{rank}d")
    y, places = pool(
        torch.tensor(x), how["kernel_shape"], how["strides"], pads[:rank], how.get("dilations", 1),
        bool(how.get("ceil_mode", 0)), return_indices=True,
    )  # fmt: skip
    places = places.numpy() + np.arange(6).reshape(2, 3, *[1] * rank) * 7**rank
    for made in in_all_ways([helper.make_node("MaxPool", ["x"], ["y", "i"], **how)], {"x": x}, ["y", "i"]):
        np.testing.assert_array_equal(made[0], y)
        np.testing.assert_array_equal(made[1], places)
        assert np.array_equal(x.reshape(-1)[np.asarray(made[1])], made[0])


def test_places_column_by_column() -> None:
    x = np.random.default_rng(1).permutation(2 * 5 * 7).reshape(1, 2, 5, 7).astype("f4")
    node = helper.make_node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 3], storage_order=1)
    y, places = pl.compile(model_of([node], {"x": x}, ["y", "i"], 12), device="cpu").run(x)
    turned = x.transpose(0, 1, 3, 2).reshape(-1)  # each plane column by column
    np.testing.assert_array_equal(turned[np.asarray(places)], y)


def test_places_alone() -> None:
    x = np.random.default_rng(2).standard_normal((1, 2, 6, 6)).astype("f4")
    node = helper.make_node("MaxPool", ["x"], ["", "i"], kernel_shape=[2, 2])
    places = pl.compile(model_of([node], {"x": x}, ["i"], 12), device="cpu").run(x)[0]
    _, expected = torch.nn.functional.max_pool2d(torch.tensor(x), 2, 1, return_indices=True)
    np.testing.assert_array_equal(places, expected.numpy() + np.arange(2).reshape(1, 2, 1, 1) * 36)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_pools_undone(rank: int) -> None:
    """A network that segments: a pool, and its result put back to where the maxima were."""
    x = np.random.default_rng(rank).standard_normal((2, 3, *[6] * rank)).astype("f4")
    how = {"kernel_shape": [2] * rank, "strides": [2] * rank}
    nodes = [
        helper.make_node("MaxPool", ["x"], ["y", "i"], **how),
        helper.make_node("Relu", ["y"], ["r"]),
        helper.make_node("MaxUnpool", ["r", "i"], ["z"], **how),
    ]
    y, i = getattr(torch.nn.functional, f"max_pool{rank}d")(torch.tensor(x), 2, return_indices=True)
    expected = getattr(torch.nn.functional, f"max_unpool{rank}d")(y.relu(), i, 2)
    for made in in_all_ways(nodes, {"x": x}, ["z"]):
        np.testing.assert_array_equal(made[0], expected)


DEFORMED: dict[str, tuple[Any, ...]] = {  # kernel, strides, pads, dilations, groups, groups of offsets, mask, bias
    "plain": ((3, 3), (1, 1), (1, 1), (1, 1), 1, 1, False, False),
    "with all": ((3, 2), (2, 1), (1, 0), (1, 2), 2, 4, True, True),
    "one tap": ((1, 1), (1, 1), (0, 0), (1, 1), 1, 2, True, False),
    "groups": ((2, 3), (1, 2), (2, 1), (2, 1), 4, 1, False, True),
}


def read_between(x: Any, at_y: Any, at_x: Any) -> Any:
    """Planes (c, h, w) at places between pixels, linearly; zeros are around them."""
    _, height, width = x.shape
    top, left = np.floor(at_y).astype(int), np.floor(at_x).astype(int)
    made = np.zeros((len(x), *at_y.shape))
    for row, column in ((top, left), (top, left + 1), (top + 1, left), (top + 1, left + 1)):
        inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        share = (1 - abs(at_y - row)) * (1 - abs(at_x - column)) * inside
        made += share * x[:, np.clip(row, 0, height - 1), np.clip(column, 0, width - 1)]
    return made


def deformed(x: Any, weight: Any, offset: Any, mask: Any, how: dict[str, Any]) -> Any:
    """The definition: https://arxiv.org/abs/1811.11168."""
    kernel, parts, groups = how["kernel_shape"], how["offset_group"], how["group"]
    rows, columns = offset.shape[2:]
    taps = kernel[0] * kernel[1]
    offset = offset.reshape(len(x), parts, taps, 2, rows, columns)
    mask = np.ones((len(x), parts, taps, rows, columns)) if mask is None else mask.reshape(offset[:, :, :, 0].shape)
    read = np.zeros((len(x), x.shape[1], taps, rows, columns))
    for n, part, tap in np.ndindex(len(x), parts, taps):
        at = []
        for i, count in enumerate((rows, columns)):
            k = (tap // kernel[1], tap % kernel[1])[i]
            first = np.arange(count) * how["strides"][i] - how["pads"][i] + k * how["dilations"][i]
            at.append(offset[n, part, tap, i] + (first[:, None] if i == 0 else first))
        own = slice(part * x.shape[1] // parts, (part + 1) * x.shape[1] // parts)
        read[n, own, tap] = read_between(x[n, own], *at) * mask[n, part, tap]
    read = read.reshape(len(x), groups, -1, taps, rows, columns)
    weight = weight.reshape(groups, len(weight) // groups, -1, taps)
    return np.einsum("ngcthw,goct->ngohw", read, weight).reshape(len(x), -1, rows, columns)


@pytest.mark.parametrize("name", DEFORMED)
def test_deformed_convolution(name: str) -> None:
    kernel, strides, pads, dilations, groups, parts, with_mask, with_bias = DEFORMED[name]
    rng = np.random.default_rng(7)
    x, weight = rng.standard_normal((2, 8, 9, 11)), rng.standard_normal((4, 8 // groups, *kernel))
    spans = [n + 2 * p - d * (k - 1) - 1 for n, p, d, k in zip((9, 11), pads, dilations, kernel, strict=True)]
    size = [span // stride + 1 for span, stride in zip(spans, strides, strict=True)]
    taps = kernel[0] * kernel[1]
    arrays = {"x": x, "offset": 3 * rng.standard_normal((2, 2 * parts * taps, *size))}  # beyond the image, too
    if with_mask:
        arrays["mask"] = rng.random((2, parts * taps, *size))
    constants = {"w": weight} | ({"b": rng.standard_normal(4)} if with_bias else {})
    arrays, constants = ({key: each.astype("f4") for key, each in some.items()} for some in (arrays, constants))
    how = {
        "kernel_shape": kernel, "strides": strides, "pads": [*pads, *pads], "dilations": dilations, "group": groups,
        "offset_group": parts,
    }  # fmt: skip
    inputs = ["x", "w", "offset", "b" if with_bias else "", "mask" if with_mask else ""]
    node = helper.make_node("DeformConv", inputs, ["y"], **how)
    wide = {key: each.astype("f8") for key, each in (arrays | constants).items()}
    expected = deformed(wide["x"], wide["w"], wide["offset"], wide.get("mask"), how)
    expected += wide.get("b", np.zeros(4)).reshape(1, 4, 1, 1)
    named = {key: (1, ["n", each.shape[1], f"{key}.h", f"{key}.w"]) for key, each in arrays.items()}
    for inputs_of in (arrays, named):
        plan = pl.compile(model_of([node], inputs_of, ["y"], 19, constants), device="cpu")
        made = plan.run(*arrays.values())[0]
        np.testing.assert_allclose(made, expected, rtol=1e-4, atol=2e-5 * np.abs(expected).max())


def test_deformed_convolution_with_wrong_offsets() -> None:
    x, w, offset = np.zeros((1, 4, 5, 5), "f4"), np.zeros((2, 4, 3, 3), "f4"), np.zeros((1, 17, 3, 3), "f4")
    node = helper.make_node("DeformConv", ["x", "w", "o"], ["y"])
    with pytest.raises(pl.ShapeError, match=r"DeformConv.*offset has 17 channels"):
        pl.compile(model_of([node], {"x": x, "w": w, "o": offset}, ["y"], 19), device="cpu")


@pytest.mark.parametrize("circular", [False, True])
def test_runs_written_into_a_cache(circular: bool) -> None:
    rng = np.random.default_rng(8)
    cache, update = rng.standard_normal((2, 3, 6, 4)).astype("f4"), rng.standard_normal((2, 3, 2, 4)).astype("f4")
    at = np.asarray([5, 1] if circular else [4, 1], "i8")
    expected = cache.copy()
    for n in range(2):
        for j in range(2):
            expected[n, :, (at[n] + j) % 6] = update[n, :, j]
    node = helper.make_node("TensorScatter", ["c", "u", "at"], ["y"], mode="circular" if circular else "linear")
    for made in in_all_ways([node], {"c": cache, "u": update, "at": at}, ["y"], 24):
        np.testing.assert_array_equal(made[0], expected)

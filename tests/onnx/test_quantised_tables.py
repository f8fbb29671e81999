"""Tables of integers of few bits, of which rows are taken, against the numbers that they stand for."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

onnx = pytest.importorskip("onnx")

from onnx_models import close, helper, model_of, run  # noqa: E402
from test_quantised_functions import DOMAIN, packed  # noqa: E402

import pylayout as pl  # noqa: E402

KINDS = {"int4": onnx.TensorProto.INT4, "uint4": onnx.TensorProto.UINT4}


def tensor(name: str, values: Any, kind: str, bits: int) -> Any:
    if kind == "uint8":
        rows = packed(values.reshape(-1, values.shape[-1]), bits)
        return onnx.numpy_helper.from_array(rows.reshape(*values.shape[:-1], -1), name)
    data = packed(values.reshape(1, -1) & 15, 4).tobytes()
    return helper.make_tensor(name, KINDS[kind], values.shape, data, raw=True)


def gathering(
    kind: str, bits: int, shape: tuple[int, ...], axis: int, along: int, zeros: bool, dtype: str = "float32"
) -> tuple[Any, Any, Any]:
    """A model, its indices and what it should give; blocks have 16 numbers."""
    rng = numpy.random.default_rng(bits + len(shape))
    low = -8 if kind == "int4" else 0
    q = rng.integers(low, low + (1 << bits), shape)
    blocks = list(shape)
    blocks[along] = -(-shape[along] // 16)
    scale, zero = rng.uniform(0.01, 0.02, blocks).astype(dtype), rng.integers(low, low + (1 << bits), blocks)
    indices = rng.integers(-shape[axis], shape[axis], (2, 3))
    words: dict[str, Any] = {"block_size": 16, "gather_axis": axis, "quantize_axis": along}
    words |= {"bits": bits} if kind == "uint8" else {}
    names = ["q", "i", "s", "z"] if zeros else ["q", "i", "s"]
    node = helper.make_node("GatherBlockQuantized", names, ["y"], domain=DOMAIN, **words)
    model = model_of([node], {"i": indices}, ["y"], 21, {"s": scale}, domains={DOMAIN: 1})
    model.graph.initializer.append(tensor("q", q, kind, bits))
    if zeros:
        model.graph.initializer.append(tensor("z", zero, kind, bits))
    groups = numpy.arange(shape[along]) // 16
    centre = zero.take(groups, along) if zeros else (1 << bits - 1 if kind == "uint8" else 0)
    return model, indices, ((q - centre) * scale.astype("f8").take(groups, along)).take(indices, axis)


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize(
    ("kind", "bits", "shape", "axis", "along"),
    [
        ("uint8", 2, (20, 64), 0, 1),
        ("uint8", 4, (20, 48), 0, 1),
        ("uint8", 4, (20, 72), 0, -1),
        ("uint8", 8, (20, 40), 0, 1),
        ("uint8", 4, (20, 3, 48), 0, 2),
        ("uint4", 4, (20, 64), 0, 1),
        ("int4", 4, (20, 40), 0, 1),
        ("int4", 4, (32, 20), 1, 0),
        ("uint4", 4, (20, 3, 48), 1, -1),
        ("int4", 4, (40, 20), 0, 0),
    ],
)
def test_rows(kind: str, bits: int, shape: tuple[int, ...], axis: int, along: int, zeros: bool) -> None:
    model, indices, wanted = gathering(kind, bits, shape, axis, along, zeros)
    close(run(model, indices)[0], wanted)


def test_in_16_bits() -> None:
    model, indices, wanted = gathering("uint8", 4, (20, 48), 0, 1, True, "float16")
    (made,) = run(model, indices)
    assert made.dtype == numpy.float16
    close(made, wanted, 1e-3)


def test_the_table_stays_as_small_as_it_is() -> None:
    model, _, _ = gathering("uint8", 4, (2000, 512), 0, 1, True)
    plan = pl.compile(model, device="cpu", tune="off")
    of_each_row = 256 + 32 * 4 + 16  # numbers, scales, zero points
    assert plan.summary()["memory"]["constant_bytes"] < 1.1 * 2000 * of_each_row


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("bits", 3, "attribute bits is 3, expected 2, 4 or 8"),
        ("gather_axis", 1, "gather_axis is 1 and quantize_axis 1, expected the first and the last"),
        ("block_size", 32, "scales have shape .20, 3., which does not fit blocks of 32 of 48"),
    ],
)
def test_what_is_refused(name: str, value: int, message: str) -> None:
    model, indices, _ = gathering("uint8", 4, (20, 48), 0, 1, True)
    (attribute,) = (a for a in model.graph.node[0].attribute if a.name == name)
    attribute.i = value
    with pytest.raises(pl.Error, match=f"{DOMAIN} GatherBlockQuantized, .*{message}"):
        run(model, indices)

"""One list of calls for every op: what the op tests run in every layout and on every device.

A case is an op, its tensors (NumPy arrays made from a seeded generator), its attributes, and the same call in PyTorch,
which gives the float64 reference. Shapes are chosen to be awkward: odd channels, tails of blocks, broadcasting.
A new op needs a case here: test_ops.py fails for an op without one.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import random_numbers

from pylayout.calls import schemas


@dataclass
class Case:
    op: str
    tensors: Callable[[np.random.Generator], list[np.ndarray | None]]
    attributes: dict[str, Any] = field(default_factory=dict)
    # The call in PyTorch: (torch, F, tensors in float64, attributes) -> tensor or tuple; default: the same name.
    reference: Callable[..., Any] | None = None
    tolerance: float = 2e-5  # of the largest difference, relative to the largest value; f32 arithmetic
    variadic: bool = False
    label: str = ""  # tells apart cases with equal attributes

    @property
    def name(self) -> str:
        text = ",".join([f"{key}={value}" for key, value in self.attributes.items()] + [self.label] * bool(self.label))
        return f"{self.op}({text})" if text else self.op

    def make(self, seed: int = 0) -> list[np.ndarray | None]:
        return self.tensors(np.random.default_rng(zlib.crc32(self.name.encode()) + seed))

    def call(self, ops: Any, tensors: Sequence[Any], **common: Any) -> Any:
        function = getattr(ops, self.op)
        if self.variadic:
            return function(list(tensors), **self.attributes, **common)
        named = dict(zip(tensor_parameters(self.op), tensors, strict=False))
        return function(**named, **self.attributes, **common)


def tensor_parameters(op: str) -> list[str]:
    return [p["name"] for p in schemas()[op]["parameters"] if p["kind"] != "attribute"]


def normal(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator], list[np.ndarray | None]]:
    return lambda rng: [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def positive(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator], list[np.ndarray | None]]:
    return lambda rng: [rng.uniform(0.5, 2.0, shape).astype(np.float32) for shape in shapes]


def indexed(shape: tuple[int, ...], index: tuple[int, ...], size: int, first: bool = False):
    def make(rng: np.random.Generator) -> list[np.ndarray | None]:
        table = rng.standard_normal(shape).astype(np.float32)
        chosen = rng.integers(-size, size, index).astype(np.int64)
        return [chosen, table] if first else [table, chosen]

    return make


def wrapped(index: Any, size: int) -> Any:  # PyTorch has no negative indices here
    return index % size


X4 = (2, 19, 9, 10)  # two blocks of 8 and a tail, one of 16 and a tail
CASES: list[Case] = []


def add(
    op: str,
    tensors: Any,
    reference: Any = None,
    tolerance: float = 2e-5,
    variadic: bool = False,
    name: str = "",
    **attributes: Any,
) -> None:
    CASES.append(Case(op, tensors, attributes, reference, tolerance, variadic, name))


# ---- convolution and matrix products ----


def conv(spatial: int, transposed: bool = False):
    def reference(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
        own = dict(a)
        activation, padding = own.pop("activation", None), own.pop("padding", 0)
        x = t[0]
        if isinstance(padding, (list, tuple)) and len(padding) == 2 * spatial and not transposed:
            begins, ends = padding[:spatial], padding[spatial:]
            x = f.pad(x, [v for i in reversed(range(spatial)) for v in (begins[i], ends[i])])
            padding = 0
        name = f"conv{'_transpose' if transposed else ''}{spatial}d"
        y = getattr(f, name)(x, t[1], t[2] if len(t) > 2 else None, padding=padding, **own)
        if len(t) > 3:
            y = y + t[3]
        return getattr(f, activation)(y) if activation else y

    return reference


add("conv1d", normal((2, 5, 17), (7, 5, 3), (7,)), conv(1), padding=1)
add("conv1d", normal((2, 18, 16), (6, 9, 4)), conv(1), stride=2, groups=2, dilation=2)
add("conv2d", normal((2, 3, 13, 12), (17, 3, 3, 3), (17,)), conv(2), padding=1, activation="relu")
add("conv2d", normal((1, 19, 9, 10), (33, 19, 1, 1), (33,)), conv(2))
add("conv2d", normal((2, 32, 9, 9), (32, 32, 3, 3), (32,), (2, 32, 9, 9)), conv(2), padding=1, activation="relu")
add("conv2d", normal((3, 19, 9, 10), (33, 19, 3, 3), (33,)), conv(2), padding=(2, 0, 1, 3), activation="silu")
add("conv2d", normal((2, 40, 3, 1), (17, 40, 3, 3)), conv(2), padding=2)
add("conv2d", normal((2, 16, 11, 7), (24, 16, 3, 2)), conv(2), stride=(2, 1), dilation=(1, 2), padding=(1, 0, 2, 3))
add("conv2d", normal((2, 24, 8, 8), (48, 8, 3, 3), (48,)), conv(2), groups=3, padding=1)
add("conv2d", normal((2, 19, 9, 9), (19, 1, 3, 3), (19,)), conv(2), groups=19, padding=1, activation="relu6")
add("conv2d", normal((2, 6, 9, 9), (18, 1, 5, 5)), conv(2), groups=6, stride=2, padding=2)  # depthwise, multiplier 3
add("conv3d", normal((1, 5, 6, 7, 8), (9, 5, 2, 3, 3), (9,)), conv(3), padding=1, stride=(1, 2, 1))
add("conv3d", normal((1, 16, 4, 5, 6), (16, 1, 3, 3, 3)), conv(3), groups=16, padding=(1, 1, 1))
add("conv_transpose1d", normal((2, 6, 9), (6, 4, 3), (4,)), conv(1, True), stride=2, padding=1, output_padding=1)
add("conv_transpose2d", normal((2, 17, 5, 6), (17, 5, 3, 3), (5,)), conv(2, True), stride=2, padding=1)
add("conv_transpose2d", normal((1, 8, 5, 6), (8, 6, 3, 2)), conv(2, True), groups=2, dilation=2)
# As Winograd's algorithm does it.
for _padding in (1, 0, 2):
    add("conv_transpose2d", normal((2, 18, 9, 10), (18, 35, 3, 3), (35,)), conv(2, True), padding=_padding)
add("conv_transpose3d", normal((1, 4, 3, 4, 5), (4, 3, 2, 2, 2), (3,)), conv(3, True), stride=(1, 2, 2))
add(
    "linear",
    normal((7, 33), (19, 33), (19,), (7, 19)),
    lambda torch, f, t, a: f.gelu(f.linear(*t[:3]) + t[3]),
    activation="gelu",
)
add("linear", normal((2, 3, 17), (5, 17)), lambda torch, f, t, a: f.linear(*t))
add("matmul", normal((17, 23), (23, 19)), lambda torch, f, t, a: torch.matmul(*t))
add("matmul", normal((3, 1, 5, 7), (4, 7, 6)), lambda torch, f, t, a: torch.matmul(*t))
add(
    "matmul", normal((2, 7, 5), (2, 6, 7)), lambda torch, f, t, a: t[0].mT @ t[1].mT, transpose_a=True, transpose_b=True
)
add("matmul", normal((4, 7), (7,)), lambda torch, f, t, a: torch.matmul(*t))

for _shapes in (
    ((2, 3, 5, 7), (2, 3, 7, 6), (6,), (2, 3, 5, 6)),
    ((3, 9, 17), (17, 19), (19,), (3, 9, 19)),
    ((5, 7), (7, 16), (16,), (5, 16)),
):
    add(
        "matmul",
        normal(*_shapes),
        lambda torch, f, t, a: torch.relu(t[0] @ t[1] + t[2] + t[3]),
        activation="relu",
        name=f"residual {_shapes[3]}",
    )
add(
    "matmul",
    lambda rng: [*normal((3, 5, 7), (7,))(rng), None, *normal((3, 5))(rng)],
    lambda torch, f, t, a: t[0] @ t[1] + t[2],
    name="residual of a vector",
)
add(
    "matmul",
    lambda rng: [*normal((7,), (3, 7, 5))(rng), None, *normal((3, 5))(rng)],
    lambda torch, f, t, a: t[0] @ t[1] + t[2],
    name="residual of a row",
)


def attention(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    return f.scaled_dot_product_attention(*t[:3], attn_mask=t[3] if len(t) > 3 else None, **a)


def _masked(mask_shape: tuple[int, ...], boolean: bool):
    def make(rng: np.random.Generator) -> list[np.ndarray | None]:
        tensors = normal((2, 3, 37, 16), (2, 3, 45, 16), (2, 3, 45, 19))(rng)
        mask = rng.standard_normal(mask_shape).astype(np.float32)
        return [*tensors, mask > -1 if boolean else mask]

    return make


_SDPA = "scaled_dot_product_attention"
add(_SDPA, normal((2, 3, 37, 16), (2, 3, 45, 16), (2, 3, 45, 19)), attention)
add(_SDPA, normal((1, 2, 70, 20), (1, 2, 1100, 20), (1, 2, 1100, 32)), attention, scale=0.7)  # several blocks of keys
add(_SDPA, normal((3, 65, 17), (3, 65, 17), (3, 65, 17)), attention, is_causal=True)
add(_SDPA, normal((2, 2, 3, 5, 7), (2, 2, 3, 9, 7), (2, 2, 3, 9, 1)), attention)
for _shape, _boolean in (((37, 45), False), ((2, 1, 1, 45), False), ((2, 3, 37, 45), True), ((1, 45), True)):
    add(_SDPA, _masked(_shape, _boolean), attention, name=f"mask {_shape} {'bool' if _boolean else 'f32'}")


def _rotated(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    x, cos, sin = t
    first, rest = x[..., : cos.shape[-1]], x[..., cos.shape[-1] :]
    low, high = first.chunk(2, -1)
    return torch.cat([first * cos + torch.cat([-high, low], -1) * sin, rest], -1)


add("rotary_embedding", normal((2, 3, 17, 32), (17, 32), (17, 32)), _rotated)
add("rotary_embedding", normal((2, 3, 17, 20), (2, 1, 17, 6), (1, 17, 6)), _rotated, name="the first columns only")
add("rotary_embedding", normal((5, 7, 3), (5, 7, 2), (2,)), _rotated, name="tables of other ranks")


def _scanned(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    u, delta, rates, taken, given = t
    state, results = torch.zeros(u.shape[0], *rates.shape, dtype=u.dtype), []
    for step in range(u.shape[2]):
        decay = torch.exp(delta[:, :, step, None] * rates)
        state = decay * state + delta[:, :, step, None] * taken[:, None, step] * u[:, :, step, None]
        results.append((state * given[:, None, step]).sum(-1))
    return torch.stack(results, -1)


def _decaying(n: int, d: int, steps: int, states: int) -> Any:
    def make(rng: np.random.Generator) -> list[Any]:
        u, taken, given = normal((n, d, steps), (n, steps, states), (n, steps, states))(rng)
        delta = rng.uniform(0.1, 1, (n, d, steps)).astype(np.float32)
        return [u, delta, -rng.uniform(0.1, 2, (d, states)).astype(np.float32), taken, given]

    return make


add("selective_scan", _decaying(2, 21, 9, 16), _scanned)
add("selective_scan", _decaying(1, 48, 5, 3), _scanned, name="few states")
add("selective_scan", _decaying(3, 1, 1, 1), _scanned, name="one channel, one step")
add(_SDPA, normal((2, 6, 37, 16), (2, 2, 45, 16), (2, 2, 45, 19)), attention, enable_gqa=True)
add(
    _SDPA,
    lambda rng: [*normal((2, 4, 45, 16), (2, 1, 45, 16), (2, 1, 45, 8))(rng), rng.standard_normal((1, 1, 1, 45)) > -1],
    lambda torch, f, t, a: f.scaled_dot_product_attention(
        *t[:3], attn_mask=t[3] & torch.ones(45, 45, dtype=torch.bool).tril(), enable_gqa=True
    ),
    name="causal and masked, one head of keys",
    enable_gqa=True,
    is_causal=True,
)


def _lowest_rows(rng: np.random.Generator) -> list[np.ndarray | None]:
    mask = np.where(rng.standard_normal((37, 45)) > 0, 0, np.finfo(np.float32).min).astype(np.float32)
    mask[5] = np.finfo(np.float32).min  # all keys count alike
    return [*normal((2, 3, 37, 16), (2, 3, 45, 16), (2, 3, 45, 19))(rng), mask]


add(_SDPA, _lowest_rows, attention, name="mask of the lowest number")


def _capped(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    scores = t[0] @ t[1].mT * 3
    scores = 2.5 * torch.tanh(scores / 2.5)
    return torch.softmax(scores if len(t) < 4 else scores + t[3], -1) @ t[2]


add(_SDPA, normal((2, 3, 37, 16), (2, 3, 45, 16), (2, 3, 45, 19)), _capped, scale=3.0, softcap=2.5)
add(
    _SDPA,
    normal((2, 3, 37, 16), (2, 3, 45, 16), (2, 3, 45, 19), (37, 45)),
    _capped,
    name="softcap before a mask",
    scale=3.0,
    softcap=2.5,
)

# ---- quantised tensors ----
QCONV = ("x", "weight", "x_scale", "weight_scale", "y_scale", "x_zero_point", "weight_zero_point", "y_zero_point")
QMATMUL = tuple(name.replace("x", "a").replace("weight", "b") for name in QCONV)


def _vector(torch: Any, g: dict[str, Any], name: str, fallback: float) -> Any:
    return g[name].double().reshape(-1) if name in g else torch.tensor([fallback], dtype=torch.float64)


def quantized(
    op: str, names: str, shapes: tuple[tuple[int, ...], tuple[int, ...]], dtypes: str, **attributes: Any
) -> None:
    """A case of qlinear_conv, conv_integer, qlinear_matmul or matmul_integer.

    `names` are those of the optional tensors; "each" among them asks for one weight scale (and zero point) a column.
    """
    conv, linear = "conv" in op, op.startswith("qlinear")
    known = [*(QCONV if conv else QMATMUL), "bias"]
    if not linear:
        known = [name for name in known if name[:2] != "y_" and "scale" not in name]
    given = {name for name in known if name in names.split() or "scale" in name} | set(known[:2])
    columns = shapes[1][0 if conv else -1]

    def values(rng: np.random.Generator, name: str) -> np.ndarray:
        if name == "bias":
            return rng.integers(-3000, 3000, columns).astype(np.int32)
        part = 2 if name.startswith("y_") else 0 if name == known[0] or name.startswith(known[0] + "_") else 1
        size: Any = columns if "each" in names and part == 1 else ()
        if "scale" in name:
            return rng.uniform(0.7, 1.3, size).astype(np.float32) * np.float32([0.01, 0.02, 0.5][part])
        info = np.iinfo({"u": np.uint8, "s": np.int8}[dtypes[part]])
        if name.endswith("zero_point"):
            return rng.integers(info.min // 2, info.max // 2, size).astype(info.dtype)
        return rng.integers(info.min, info.max + 1, shapes[part]).astype(info.dtype)

    def make(rng: np.random.Generator) -> list[np.ndarray | None]:
        return [np.asarray(values(rng, name)) if name in given else None for name in known]

    def reference(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
        g = dict(zip([name for name in known if name in given], t, strict=True))
        shape = (-1,) + (1,) * (t[1].dim() - 1) if conv else (-1,)
        x = t[0].double() - _vector(torch, g, known[0] + "_zero_point", 0)
        weight = t[1].double() - _vector(torch, g, known[1] + "_zero_point", 0).reshape(shape)
        own = {name: value for name, value in a.items() if name != "dtype"}
        if conv:
            function = getattr(f, f"conv{x.dim() - 2}d")
            sums = function(x, weight, g["bias"].double() if "bias" in g else None, **own)
            shape = (-1,) + (1,) * (x.dim() - 2)
        else:
            sums = x @ weight
        if not linear:
            return sums.to(torch.int32)
        scales = [_vector(torch, g, known[i] + "_scale", 1) for i in (0, 1)]
        factor = scales[0] * scales[1] / g["y_scale"].double()
        y = (sums * factor.reshape(shape)).round() + _vector(torch, g, "y_zero_point", 0)
        low, high, dtype = (0, 255, torch.uint8) if dtypes[2] == "u" else (-128, 127, torch.int8)
        return y.clamp(low, high).to(dtype)

    add(op, make, reference, name=f"{names} {dtypes} {shapes[0]}", **attributes)


_SHAPES = (((2, 19, 9, 10), (24, 19, 3, 3)), ((1, 8, 11), (6, 4, 3)), ((2, 16, 7, 7), (16, 1, 3, 3)))
for _dtypes in ("usu", "sss", "uss"):
    quantized("qlinear_conv", "bias y_zero_point", _SHAPES[0], _dtypes, padding=1)
quantized("qlinear_conv", "bias each x_zero_point y_zero_point", _SHAPES[0], "usu", padding=1, stride=2)
quantized("qlinear_conv", "bias each x_zero_point weight_zero_point y_zero_point", _SHAPES[0], "uus", padding=(1, 0))
quantized("qlinear_conv", "each x_zero_point", _SHAPES[1], "usu", groups=2, dilation=2)
quantized("qlinear_conv", "bias each x_zero_point y_zero_point", _SHAPES[2], "usu", groups=16, padding=1)
quantized("qlinear_conv", "", ((1, 3, 4, 5, 6), (5, 3, 2, 2, 2)), "usu")
quantized("qlinear_conv", "", _SHAPES[0], "uss", dtype="s8")
quantized("conv_integer", "x_zero_point", _SHAPES[0], "us-", padding=1)
quantized("conv_integer", "", _SHAPES[2], "ss-", groups=16)
quantized("conv_integer", "x_zero_point weight_zero_point each", _SHAPES[0], "uu-", stride=2)
for _shapes in (((5, 17), (17, 24)), ((2, 3, 9, 16), (16, 7)), ((2, 1, 4, 8), (3, 8, 5))):
    quantized("qlinear_matmul", "", _shapes, "usu")
    quantized("qlinear_matmul", "each a_zero_point y_zero_point", _shapes, "uss")
    quantized("qlinear_matmul", "a_zero_point b_zero_point y_zero_point", _shapes, "uuu")
    quantized("matmul_integer", "a_zero_point", _shapes, "us-")
    quantized("matmul_integer", "a_zero_point b_zero_point each", _shapes, "su-")


def quantize(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    """Both ways; with more than one scale along dimension 1."""
    shape = (-1,) + (1,) * (t[0].dim() - 2)
    scale = t[1].double().reshape(shape)
    zero = t[2].double().reshape(shape) if len(t) > 2 else 0
    if not t[0].is_floating_point():
        return (t[0].double() - zero) * scale
    dtype = t[2].dtype if len(t) > 2 else torch.uint8
    info = torch.iinfo(dtype)
    return ((t[0] / scale).round() + zero).clamp(info.min, info.max).to(dtype)


for _scales in (None, 19):
    for _dtype in (np.uint8, np.int8):
        add(
            "quantize_linear",
            # No multiple of the scale lies near a half, where arithmetic in f32 decides.
            lambda rng, n=_scales, d=_dtype: [
                (rng.integers(-900, 900, X4) + rng.uniform(-0.4, 0.4, X4)).astype("f4") * np.float32(0.25),
                np.full(n or (), 0.25, "f4"),
                np.asarray(rng.integers(0, 100, n or ()), d),
            ],
            quantize,
            name=f"{_dtype.__name__} {_scales}",
        )
    for _dtype in (np.uint8, np.int8, np.int32):
        add(
            "dequantize_linear",
            lambda rng, n=_scales, d=_dtype: [
                rng.integers(0, 100, X4).astype(d),
                np.asarray(rng.uniform(0.1, 2, n or ()), "f4"),
                np.asarray(rng.integers(0, 100, n or ()), d),
            ],
            quantize,
            name=f"{_dtype.__name__} {_scales}",
        )
add("quantize_linear", lambda rng: [*positive(X4)(rng), np.array(0.3, "f4")], quantize)
add("dequantize_linear", lambda rng: [rng.integers(-9, 9, X4).astype("i1"), np.float32([0.5])], quantize)

# ---- recurrent layers ----
RECURRENT = ("x", "w", "r", "b", "sequence_lens", "initial_h", "initial_c", "p")
GATES = {"lstm": 4, "gru": 3, "rnn": 1}


def recurrent(torch: Any, op: str, given: dict[str, Any], attributes: dict[str, Any]) -> list[Any]:
    """ONNX's LSTM, GRU and RNN in float64, one sequence and one step at a time."""
    a = {
        "direction": "forward",
        "batch_first": False,
        "linear_before_reset": False,
        "nonlinearity": "tanh",
    } | attributes
    g = given
    x = g["x"].transpose(0, 1) if a["batch_first"] else g["x"]
    (steps, batch, _), (directions, _, hidden) = x.shape, g["r"].shape
    states = {n: g[n].transpose(0, 1) if a["batch_first"] else g[n] for n in ("initial_h", "initial_c") if n in g}
    zeros = torch.zeros(hidden, dtype=x.dtype)
    y = [[[zeros] * batch for _ in range(directions)] for _ in range(steps)]
    last = [[[zeros] * batch for _ in range(directions)] for _ in range(2)]
    sigma = torch.sigmoid
    for d in range(directions):
        w, r = (g[n][d].reshape(GATES[op], hidden, -1) for n in "wr")
        wb, rb = g["b"][d].reshape(2, GATES[op], hidden) if "b" in g else zeros.expand(2, GATES[op], hidden)
        p = g["p"][d].reshape(3, hidden) if "p" in g else zeros.expand(3, hidden)
        for n in range(batch):
            h, c = (states[s][d, n] if s in states else zeros for s in ("initial_h", "initial_c"))
            order = range(int(g["sequence_lens"][n]) if "sequence_lens" in g else steps)
            for t in reversed(order) if a["direction"] == "reverse" or d else order:
                xs = [w[k] @ x[t, n] + wb[k] for k in range(GATES[op])]
                hs = [r[k] @ h + rb[k] for k in range(GATES[op])]
                if op == "lstm":
                    i, f = sigma(xs[0] + hs[0] + p[0] * c), sigma(xs[2] + hs[2] + p[2] * c)
                    c = f * c + i * torch.tanh(xs[3] + hs[3])
                    h = sigma(xs[1] + hs[1] + p[1] * c) * torch.tanh(c)
                elif op == "gru":
                    z, reset = sigma(xs[0] + hs[0]), sigma(xs[1] + hs[1])
                    new = reset * hs[2] if a["linear_before_reset"] else r[2] @ (reset * h) + rb[2]
                    h = (1 - z) * torch.tanh(xs[2] + new) + z * h
                else:
                    h = xs[0] + hs[0]
                    h = h.relu() if a["nonlinearity"] == "relu" else torch.tanh(h)
                y[t][d][n] = h
            last[0][d][n], last[1][d][n] = h, c

    def stacked(rows: Any) -> Any:
        return torch.stack([stacked(row) for row in rows]) if isinstance(rows, list) else rows

    results = [stacked(y) if steps else torch.zeros(0, directions, batch, hidden), *map(stacked, last)]
    results = results[: 3 if op == "lstm" else 2]
    if a["batch_first"]:
        results = [results[0].permute(2, 0, 1, 3), *(r.transpose(0, 1) for r in results[1:])]
    return results


def recurrent_tensors(op: str, names: str, sizes: tuple[int, ...], attributes: dict[str, Any]):
    """Tensors of the given names, None for the others, for (steps, batch, features, hidden)."""
    steps, batch, features, hidden = sizes
    directions, rows = 2 if attributes.get("direction") == "bidirectional" else 1, GATES[op] * hidden
    first = attributes.get("batch_first", False)
    state = (batch, directions, hidden) if first else (directions, batch, hidden)
    shapes = {
        "x": (batch, steps, features) if first else (steps, batch, features),
        "w": (directions, rows, features),
        "r": (directions, rows, hidden),
        "b": (directions, 2 * rows),
        "initial_h": state,
        "initial_c": state,
        "p": (directions, 3 * hidden),
    }

    def make(rng: np.random.Generator) -> list[np.ndarray | None]:
        made: list[np.ndarray | None] = []
        for name in RECURRENT[: 8 if op == "lstm" else 6]:
            if name == "sequence_lens":
                made.append(rng.integers(0, steps + 1, batch).astype(np.int32) if name in names.split() else None)
            else:
                made.append(rng.uniform(-1, 1, shapes[name]).astype("f4") if name in names.split() else None)
        return made

    return make


def add_recurrent(op: str, names: str, sizes: tuple[int, ...], **attributes: Any) -> None:
    used = [name for name in RECURRENT if name in names.split()]

    def reference(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
        return recurrent(torch, op, dict(zip(used, t, strict=True)), a)

    tensors = recurrent_tensors(op, names, sizes, attributes)
    add(op, tensors, reference, name=f"{names} {sizes}", **attributes)

    # The gradients: by all inputs but the lengths, whether they are given or not.
    floating = [name for name in RECURRENT[: 8 if op == "lstm" else 6] if name != "sequence_lens"]

    def backward_tensors(rng: np.random.Generator) -> list[np.ndarray | None]:
        import torch

        made = tensors(rng)
        given = {name: t for name, t in zip(RECURRENT, made, strict=False) if t is not None}
        results = recurrent(torch, op, {k: torch.from_numpy(v).double() for k, v in given.items()}, attributes)
        grads = [rng.uniform(-1, 1, r.shape).astype("f4") for r in results]
        return [*made[:3], results[0].numpy().astype("f4"), grads[0], *made[3:], *grads[1:]]

    def backward_reference(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
        more = [name for name in used if name not in "xwr"]
        given = dict(zip(["x", "w", "r", "y", "grad", *more, "grad_h", "grad_c"], t, strict=False))
        grads = [given.pop(name) for name in ("grad", "grad_h", "grad_c") if name in given]
        del given["y"]
        absent = recurrent_tensors(op, " ".join(RECURRENT), sizes, attributes)(np.random.default_rng(0))
        for name, tensor in zip(RECURRENT, absent, strict=False):
            if name in floating and name not in given:
                given[name] = torch.zeros(tensor.shape, dtype=t[0].dtype)
        by = [given[name].requires_grad_() for name in floating]
        return list(torch.autograd.grad(recurrent(torch, op, given, a), by, grads))

    add(f"{op}_backward", backward_tensors, backward_reference, name=f"{names} {sizes}", **attributes)


for _op in GATES:
    add_recurrent(_op, "x w r", (5, 3, 7, 19))
    add_recurrent(_op, "x w r b initial_h", (6, 2, 4, 5), direction="bidirectional")
    add_recurrent(_op, "x w r b", (4, 1, 3, 32), direction="reverse", batch_first=True)
    add_recurrent(_op, "x w r b sequence_lens initial_h", (6, 5, 3, 17), direction="bidirectional", batch_first=True)
add_recurrent("lstm", "x w r b sequence_lens initial_h initial_c p", (7, 4, 5, 18), direction="bidirectional")
add_recurrent("lstm", "x w r b initial_h initial_c", (3, 2, 5, 16))
add_recurrent("gru", "x w r b sequence_lens initial_h", (7, 4, 5, 18), linear_before_reset=True)
add_recurrent("gru", "x w r b", (3, 2, 5, 33), linear_before_reset=True, direction="bidirectional")
add_recurrent("rnn", "x w r b", (3, 2, 5, 6), nonlinearity="relu")

# ---- pooling ----
for _op in ("max_pool", "avg_pool"):
    add(f"{_op}1d", normal((2, 17, 11)), kernel_size=3, stride=2, padding=1)
    add(f"{_op}2d", normal(X4), kernel_size=(3, 2), stride=2, padding=1)
    add(f"{_op}2d", normal(X4), kernel_size=3, stride=2, ceil_mode=True)
    add(f"{_op}3d", normal((1, 5, 6, 7, 8)), kernel_size=2)
add("max_pool2d", normal(X4), kernel_size=3, stride=1, dilation=2, padding=1)
add("avg_pool2d", normal(X4), kernel_size=3, stride=2, padding=1, count_include_pad=False)
for _op in ("adaptive_avg_pool", "adaptive_max_pool"):
    add(f"{_op}1d", normal((2, 17, 11)), output_size=4)
    add(f"{_op}2d", normal(X4), output_size=(3, 5))
    add(f"{_op}2d", normal(X4), output_size=(4, 3))
    add(f"{_op}3d", normal((1, 5, 6, 7, 8)), output_size=(2, 3, 4))
add("global_avg_pool", normal(X4), lambda torch, f, t, a: f.adaptive_avg_pool2d(t[0], 1))
add("global_max_pool", normal(X4), lambda torch, f, t, a: f.adaptive_max_pool2d(t[0], 1))

# ---- normalisation ----


def _statistics(channels: int, shape: tuple[int, ...]):
    def make(rng: np.random.Generator) -> list[np.ndarray | None]:
        vectors = [
            rng.standard_normal(channels),
            rng.uniform(0.5, 2, channels),
            rng.standard_normal(channels),
            rng.standard_normal(channels),
        ]
        return [rng.standard_normal(shape).astype(np.float32), *(v.astype(np.float32) for v in vectors)]

    return make


add("batch_norm", _statistics(19, X4), lambda torch, f, t, a: torch.relu(f.batch_norm(*t)), activation="relu")
add("batch_norm", _statistics(6, (4, 6)), lambda torch, f, t, a: f.batch_norm(*t, eps=1e-3), eps=1e-3)
add(
    "layer_norm",
    normal((2, 5, 33), (33,), (33,)),
    lambda torch, f, t, a: f.layer_norm(t[0], (33,), t[1], t[2]),
    normalized_shape=[33],
)
add(
    "rms_norm",
    lambda rng: [v + 3 for v in normal((2, 5, 33), (33,))(rng)],  # a mean that must stay
    lambda torch, f, t, a: f.rms_norm(t[0], (33,), t[1], eps=1e-3),
    normalized_shape=[33],
    eps=1e-3,
)
add(
    "rms_norm",
    normal((2, 3, 5, 6)),
    lambda torch, f, t, a: f.rms_norm(t[0], (5, 6), eps=1e-6),
    normalized_shape=[5, 6],
)
add(
    "l2_normalize",
    lambda rng: [np.concatenate([rng.standard_normal((2, 4, 33)) + 1, np.zeros((2, 1, 33))], 1).astype(np.float32)],
    lambda torch, f, t, a: f.normalize(t[0], dim=-1, eps=1e-3),
    normalized_shape=[33],
    eps=1e-3,
)
add(
    "l2_normalize",
    normal((2, 3, 5, 6)),
    lambda torch, f, t, a: f.normalize(t[0].flatten(2), dim=-1).reshape(t[0].shape),
    normalized_shape=[5, 6],
)
add("layer_norm", normal((2, 3, 5, 6)), lambda torch, f, t, a: f.layer_norm(t[0], (5, 6)), normalized_shape=[5, 6])
add(
    "group_norm",
    normal((2, 18, 5, 6), (18,), (18,)),
    lambda torch, f, t, a: f.group_norm(t[0], 3, t[1], t[2]),
    num_groups=3,
)
add("instance_norm", normal((2, 17, 5, 6)), lambda torch, f, t, a: f.instance_norm(t[0]), tolerance=5e-5)
add("softmax", normal(X4), dim=1)
add("softmax", normal((5, 33)), dim=-1)
add("log_softmax", normal(X4), dim=3)
add("cumsum", normal(X4), dim=1, tolerance=1e-4)
add("cumsum", normal((3, 7)), dim=-1)
add("cumsum", lambda rng: [rng.integers(-(2**40), 2**40, X4)], dim=1, name="s64")


def _topk(torch, F, t, attributes):
    """In numpy: PyTorch leaves open which of equal elements comes first."""
    x, k, dim = t[0].numpy(), attributes["k"], attributes.get("dim", -1)
    largest = attributes.get("largest", True)
    order = np.argsort(-x if largest else x, axis=dim, kind="stable").take(range(k), dim)
    return torch.from_numpy(np.take_along_axis(x, order, dim)), torch.from_numpy(order)


add("topk", normal(X4), _topk, k=5, dim=1)
add("topk", normal(X4), _topk, k=19, dim=1, largest=False)
add("topk", normal((3, 70)), _topk, k=3)
add("topk", normal((3, 7)), _topk, k=2, dim=0, sorted=False)
add("topk", lambda rng: [rng.integers(0, 3, X4).astype(np.float32)], _topk, k=17, dim=1, name="ties")
add("topk", lambda rng: [rng.integers(-2, 2, (4, 33))], _topk, k=30, largest=False, name="s64")
add("topk", normal((2, 5)), _topk, k=0)
add("local_response_norm", normal(X4), size=5, alpha=0.1, beta=0.75, k=2.0)


def _squeeze_excite(torch, F, t, attributes):
    x, weight1, bias1, weight2, bias2 = t
    positions = tuple(range(2, x.ndim))
    hidden = F.linear(x.mean(positions), weight1.reshape(weight1.shape[:2]), bias1)
    hidden = getattr(F, attributes.get("hidden", "relu"))(hidden)
    gate = F.linear(hidden, weight2.reshape(weight2.shape[:2]), bias2)
    gate = F.hardsigmoid(gate) if attributes.get("gate") == "hardsigmoid" else torch.sigmoid(gate)
    return x * gate.reshape(gate.shape + (1,) * len(positions))


_SQUEEZE = normal((2, 20, 5, 3), (6, 20, 1, 1), (6,), (20, 6, 1, 1), (20,))
add("squeeze_excite", _SQUEEZE, reference=_squeeze_excite, hidden="silu")
add("squeeze_excite", _SQUEEZE, reference=_squeeze_excite, gate="hardsigmoid")
add("squeeze_excite", normal((3, 7, 4), (5, 7), (5,), (7, 5), (7,)), reference=_squeeze_excite, hidden="hardswish")

# ---- elementwise ----
for _op in (
    "relu",
    "relu6",
    "leaky_relu",
    "elu",
    "selu",
    "silu",
    "hardswish",
    "hardsigmoid",
    "sigmoid",
    "tanh",
    "softplus",
    "mish",
    "softsign",
    "gelu",
):
    add(_op, normal(X4))
add("gelu", normal(X4), approximate="tanh")
add("leaky_relu", normal(X4), negative_slope=0.2)
add("elu", normal(X4), alpha=0.5)
add("softplus", normal(X4), beta=2.0, threshold=3.0)
add("clip", normal(X4), min=-0.5, max=0.7)
add("clip", normal(X4), lambda torch, f, t, a: torch.clip(t[0], min=0.1), min=0.1)
for _op in ("abs", "neg", "exp", "reciprocal", "square", "sin", "cos", "erf", "floor", "ceil", "round", "sign"):
    add(_op, positive(X4) if _op == "reciprocal" else normal(X4))
for _op in ("log", "sqrt", "rsqrt"):
    add(_op, positive(X4))
for _op in ("trunc", "tan", "atan", "sinh", "cosh", "asinh", "celu"):
    add(_op, normal(X4), tolerance=1e-4 if _op == "tan" else 2e-5)
for _op in ("asin", "acos", "atanh"):
    add(_op, lambda rng: [rng.uniform(-0.95, 0.95, X4).astype(np.float32)])
add("acosh", lambda rng: [rng.uniform(1.05, 9, X4).astype(np.float32)])
add("celu", normal(X4), alpha=-1.5)
add("threshold", normal(X4), threshold=0.3, value=-7.0)
for _op in ("isnan", "isinf"):
    add(_op, lambda rng: [rng.choice([0, 1, np.nan, np.inf, -np.inf], X4).astype(np.float32)])
add("logical_not", lambda rng: [rng.random(X4) < 0.5])
add("prelu", normal(X4, (19,)), lambda torch, f, t, a: f.prelu(*t))
add("prelu", normal(X4, (1,)), lambda torch, f, t, a: f.prelu(*t))
for _op in ("add", "sub", "mul", "div", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge"):
    tensors = positive(X4, (19, 1, 1)) if _op == "div" else normal(X4, (19, 1, 1))
    add(_op, tensors)
add("add", normal(X4, X4), lambda torch, f, t, a: torch.relu(t[0] + t[1]), activation="relu")
add("mul", normal((3, 1, 5), (4, 1)))
add("pow", positive(X4, (1, 19, 1, 10)))
add("div", positive(X4, X4), rounding_mode="floor")
for _op, _mode in (("div", "trunc"), ("div", "floor"), ("fmod", None), ("remainder", None)):
    # No quotient close to an integer, where a rounding decides.
    add(
        _op,
        lambda rng: [(3 * rng.integers(-9, 9, X4) + 1).astype("f4"), rng.choice([-3.0, 3.0], (19, 1, 1)).astype("f4")],
        **({"rounding_mode": _mode} if _mode else {}),
    )
    add(
        _op,
        lambda rng: [
            rng.integers(-99, 99, X4).astype(np.int32),
            (rng.integers(1, 9, (1, 19, 1, 10)) * rng.choice([-1, 1], (1, 19, 1, 10))).astype(np.int32),
        ],
        **({"rounding_mode": _mode} if _mode else {}),
        name="integers",
    )
add("pow", lambda rng: [rng.integers(-9, 9, X4), rng.integers(0, 9, (19, 1, 1))], name="integers")
for _op in ("logical_and", "logical_or", "logical_xor"):
    add(_op, lambda rng: [rng.random(X4) < 0.5, rng.random((9, 10)) < 0.5])
add(
    "where",
    lambda rng: [
        rng.random((9, 1)) < 0.5,
        rng.standard_normal(X4).astype("f4"),
        rng.standard_normal((19, 1, 1)).astype("f4"),
    ],
)
add(
    "pointwise",
    normal(X4, (19, 1, 1)),
    lambda torch, f, t, a: torch.exp(-t[0] * t[0]) * 0.5 + t[1],
    variadic=True,
    expressions="y0 = exp(-x0 * x0) * s0 + x1",
    scalars=[0.5],
)
add(
    "pointwise",
    normal(X4),
    lambda torch, f, t, a: (t[0].sum((0, 2, 3)), (t[0] * t[0]).amax((0, 2, 3))),
    variadic=True,
    expressions="y0 = x0; y1 = x0 * x0",
    reductions="reduce_y0 += y0; reduce_y1 max= y1",
    dim=[0, 2, 3],
)

add(
    "pointwise",
    lambda rng: [
        rng.uniform(0.2, 2.0, (3, 5, 4)).astype("f4"),
        rng.uniform(0.3, 0.9, (5, 1)).astype("f4"),
        rng.integers(0, 2, (4,)),
    ],
    lambda torch, f, t, a: (
        torch.log1p(t[0]) / torch.sqrt(t[1]) + torch.rsqrt(t[0]) * torch.tanh(t[1] * t[0]),
        torch.where(t[2] != 0, torch.pow(t[0], t[1]), torch.expm1(-t[0].abs()) * torch.erf(t[1])),
        torch.sin(t[0]) * torch.cos(t[1]) - torch.sigmoid(t[0] - t[1]) * t[0].clamp(0.5, 1.5),
        torch.maximum(t[0], t[1]) * torch.minimum(t[0], 2 * t[1]) - torch.log(t[0]) * torch.floor(t[0]),
    ),
    variadic=True,
    name="every function",
    expressions="u = log1p(x0); y0 = u / sqrt(x1) + rsqrt(x0) * tanh(x1 * x0); "
    "y1 = x2 != 0 ? pow(x0, x1) : expm1(-abs(x0)) * erf(x1); "
    "y2 = sin(x0) * cos(x1) - sigmoid(x0 - x1) * clip(x0, 0.5, s0); "
    "y3 = max(x0, x1) * min(x0, 2 * x1) - log(x0) * floor(x0)",
    scalars=[1.5],
)
add(
    "pointwise",
    positive((3, 5, 4), (5, 4)),
    lambda torch, f, t, a: (
        torch.sqrt((t[0] * t[1]).square().sum(1) / 5),
        t[0].amax(1) * (t[0] + t[1]).amin(1),
        (t[0] + t[1]).amin(1),
        (t[0] / t[1]).prod(1),
    ),
    variadic=True,
    name="expressions of reductions",
    expressions="y0 = x0 * x1 * x0 * x1; y1 = x0; y2 = x0 + x1; y3 = x0 / x1",
    reductions="reduce_y0 += y0; reduce_y1 max= y1; reduce_y2 min= y2; reduce_y3 *= y3; "
    "y0 = sqrt(reduce_y0 / count); y1 = reduce_y1 * reduce_y2",
    dim=[1],
)

# ---- reductions ----


def reduced(function: Callable[..., Any]):
    def reference(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
        dims = a.get("dim")
        dims = tuple(range(t[0].dim())) if dims is None else tuple(np.atleast_1d(dims).tolist())
        return function(torch, t[0], dims, a.get("keepdim", False))

    return reference


def _prod(torch: Any, x: Any, dims: tuple[int, ...], keep: bool) -> Any:
    for dim in sorted((d % x.dim() for d in dims), reverse=True):
        x = x.prod(dim, keepdim=keep)
    return x


for _op, _function in {
    "sum": lambda torch, x, d, k: x.sum(d, keepdim=k),
    "mean": lambda torch, x, d, k: x.mean(d, keepdim=k),
    "amax": lambda torch, x, d, k: x.amax(d, keepdim=k),
    "amin": lambda torch, x, d, k: x.amin(d, keepdim=k),
    "prod": _prod,
    "reduce_l1": lambda torch, x, d, k: x.abs().sum(d, keepdim=k),
    "reduce_l2": lambda torch, x, d, k: (x * x).sum(d, keepdim=k).sqrt(),
    "reduce_sum_square": lambda torch, x, d, k: (x * x).sum(d, keepdim=k),
}.items():
    add(_op, positive(X4), reduced(_function), dim=1, tolerance=1e-4)
    add(_op, positive((2, 19, 3, 4)), reduced(_function), dim=[0, 2, 3], keepdim=True, tolerance=1e-4)
    add(_op, positive((3, 5)), reduced(_function), tolerance=1e-4)
for _op in ("argmax", "argmin"):
    add(_op, normal(X4), dim=1)
    add(_op, normal(X4), dim=-1, keepdim=True)
    add(_op, normal((3, 5)))

# ---- data movement ----
add(
    "concat",
    normal(X4, (2, 3, 9, 10), (2, 16, 9, 10)),
    lambda torch, f, t, a: torch.cat(t, a["dim"]),
    variadic=True,
    dim=1,
)
add("concat", normal((3, 4), (2, 4)), lambda torch, f, t, a: torch.cat(t, a["dim"]), variadic=True, dim=0)
add("pad", normal(X4), pad=[1, 2, 0, 3], value=1.5)
add("pad", normal(X4), lambda torch, f, t, a: f.pad(t[0], a["pad"], mode="reflect"), pad=[1, 2, 3, 0], mode="reflect")
add(
    "pad",
    normal(X4),
    lambda torch, f, t, a: f.pad(t[0], a["pad"], mode="replicate"),
    pad=[1, 2, 3, 0],
    mode="replicate",
)
add("pad", normal(X4), pad=[0, 0, -1, 2, 1, 1])
add("index_select", indexed(X4, (5,), 19), lambda torch, f, t, a: t[0].index_select(1, wrapped(t[1], 19)), dim=1)
add("embedding", indexed((11, 7), (2, 3), 11, first=True), lambda torch, f, t, a: f.embedding(wrapped(t[0], 11), t[1]))
add("gather", indexed(X4, (2, 4, 9, 10), 19), lambda torch, f, t, a: torch.gather(t[0], 1, wrapped(t[1], 19)), dim=1)
add("interpolate", normal(X4), size=(18, 7))
add("interpolate", normal(X4), scale_factor=2.0, mode="bilinear")
add("interpolate", normal(X4), size=(5, 17), mode="bilinear", align_corners=True)
add("interpolate", normal((1, 5, 9)), size=4, mode="linear")
add("interpolate", normal((1, 5, 4, 5, 6)), size=(5, 4, 9), mode="trilinear")
add("tile", normal((2, 19, 3, 5)), dims=[1, 2, 3, 2])
add("tile", normal((5, 3)), dims=[2, 3, 1, 7])
add("tile", lambda rng: [rng.integers(-9, 9, (2, 3, 4)).astype(np.int8)], dims=[3])
add("channel_shuffle", normal((2, 38, 3, 5)), groups=2)
add("channel_shuffle", normal((1, 33, 4, 4)), groups=3)
add("channel_shuffle", normal((3, 20, 7)), groups=5)
add("channel_shuffle", normal((2, 3, 4, 4)), groups=1)
add("channel_shuffle", lambda rng: [rng.integers(-9, 9, (2, 24, 3, 3)).astype(np.int8)], groups=4)


def interleaved(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    z = torch.stack(t, 2).flatten(1, 2)
    return z.split(a.get("sections", [z.shape[1]]), 1)


add("interleave", normal((2, 19, 3, 5), (2, 19, 3, 5)), interleaved, sections=[18, 20])
add("interleave", normal((2, 19, 3, 5), (2, 19, 3, 5)), interleaved, sections=[7, 30, 1])
add("interleave", normal((1, 6, 4), (1, 6, 4)), interleaved)
add("interleave", lambda rng: [rng.integers(-9, 9, (2, 24, 3)).astype(np.int8) for _ in range(2)], interleaved)


def cast_to(dtype: str):
    return lambda torch, f, t, a: t[0].to(getattr(torch, dtype))


add("cast", lambda rng: [rng.uniform(-100, 100, X4).astype("f4")], cast_to("int8"), dtype="s8")
add("cast", lambda rng: [rng.uniform(-2, 2, X4).astype("f4")], cast_to("int64"), dtype="s64")
add("cast", lambda rng: [rng.choice([0.0, 0.3, -2.0], X4).astype("f4")], cast_to("bool"), dtype="bool")
add("cast", normal(X4), cast_to("float16"), dtype="f16", tolerance=1e-3)
add("cast", lambda rng: [rng.integers(-(2**40), 2**40, X4)], cast_to("int32"), dtype="s32")
add("cast", lambda rng: [rng.integers(-(2**20), 2**20, X4)], cast_to("float32"), dtype="f32")
add("cast", lambda rng: [rng.random(X4) < 0.5], cast_to("float32"), dtype="f32", name="bool")
add("reorder", normal(X4), lambda torch, f, t, a: t[0], target="nChw16c")
add("reorder", normal(X4), lambda torch, f, t, a: t[0], target="NHWC", dtype="f16", tolerance=1e-3)

# ---- views ----
add("reshape", normal(X4), shape=[2, -1, 30])
add("flatten", normal(X4), lambda torch, f, t, a: torch.flatten(t[0], 1), start_dim=1)
add("permute", normal(X4), dims=[0, 2, 3, 1])
add("transpose", normal(X4), dim0=1, dim1=3)
add("squeeze", normal((2, 1, 5, 1)))
add("unsqueeze", normal((2, 5)), dim=1)
add("split", normal(X4), split_size_or_sections=[3, 16], dim=1)
add("split", normal(X4), split_size_or_sections=4, dim=2)
add(
    "slice",
    normal(X4),
    lambda torch, f, t, a: t[0][:, 3:18:2, :, 1:8],
    starts=[3, 1],
    ends=[18, 8],
    axes=[1, 3],
    steps=[2, 1],
)
add("identity", normal(X4), lambda torch, f, t, a: t[0])
add("expand", normal((19, 1, 10)), lambda torch, f, t, a: t[0].expand(2, 19, 9, 10), shape=[2, -1, 9, 10])
add("expand", normal((2, 1, 1, 3)), lambda torch, f, t, a: t[0].expand(2, 19, 1, 3), shape=[2, 19, 1, 3])
add("dropout", normal(X4), lambda torch, f, t, a: t[0], p=0.3)

# ---- training ----


def derivative(call: Callable[..., Any], *by: int, grad: int | None = None):
    """By PyTorch's autograd: of call(torch, f, tensors, attributes); tensors[grad]: the gradient by its result."""

    def reference(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
        t = [x.detach().clone().requires_grad_() if i in by else x for i, x in enumerate(t)]
        y = call(torch, f, t, a)
        made = torch.autograd.grad(y, [t[i] for i in by], t[grad] if grad is not None else None)
        return made[0] if len(by) == 1 else list(made)

    return reference


def conv_weights(spatial: int):
    def reference(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
        own = {key: value for key, value in a.items() if key != "kernel_size"}
        sizes = a["kernel_size"] if isinstance(a["kernel_size"], (list, tuple)) else [a["kernel_size"]] * spatial
        weight = torch.zeros((t[1].shape[1], t[0].shape[1] // a.get("groups", 1), *sizes), dtype=t[0].dtype)
        weight.requires_grad_()
        y = conv(spatial)(torch, f, [t[0], weight], own)
        return torch.autograd.grad(y, weight, t[1])[0]

    return reference


def attention_gradients(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    """By the formula: PyTorch gives queries that see no key NaN."""
    given = [x.detach().clone().requires_grad_() for x in t[:3]]
    q, k, v = given
    if a.get("enable_gqa"):
        k, v = (x.repeat_interleave(q.shape[-3] // x.shape[-3], -3) for x in (k, v))
    scores = q @ k.mT * a.get("scale", q.shape[-1] ** -0.5)
    if "softcap" in a:
        scores = a["softcap"] * torch.tanh(scores / a["softcap"])
    if len(t) > 4:
        scores = scores.masked_fill(~t[4], -torch.inf) if t[4].dtype == torch.bool else scores + t[4]
    if a.get("is_causal"):
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), -torch.inf)
    weights = torch.where(scores == -torch.inf, 0, (scores - scores.detach().amax(-1, True).clamp(min=-1e300)).exp())
    weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-300)
    return list(torch.autograd.grad(weights @ v, given, t[3]))


def _backward_masked(mask_shape: tuple[int, ...], boolean: bool):
    def make(rng: np.random.Generator) -> list[np.ndarray | None]:
        q, k, v, mask = _masked(mask_shape, boolean)(rng)
        grad = rng.standard_normal((2, 3, 37, 19)).astype(np.float32)
        if boolean and mask_shape[-2] > 1:
            mask[..., 5, :] = False  # a query that sees no key
        return [q, k, v, grad, mask]

    return make


_SDPAB = "scaled_dot_product_attention_backward"
add(_SDPAB, normal((2, 3, 37, 16), (2, 3, 45, 16), (2, 3, 45, 19), (2, 3, 37, 19)), attention_gradients)
add(
    _SDPAB,
    normal((1, 2, 70, 20), (1, 2, 1100, 20), (1, 2, 1100, 32), (1, 2, 70, 32)),
    attention_gradients,
    scale=0.7,
    name="many keys",
)
add(_SDPAB, normal((4, 4, 197, 64), (4, 4, 197, 64), (4, 4, 197, 64), (4, 4, 197, 64)), attention_gradients, name="16")
add(_SDPAB, normal(*[(3, 65, 17)] * 4), attention_gradients, is_causal=True)
add(_SDPAB, normal((2, 2, 3, 5, 7), (2, 2, 3, 9, 7), (2, 2, 3, 9, 1), (2, 2, 3, 5, 1)), attention_gradients)
add(_SDPAB, normal(*[(2, 2, 40, 8)] * 4), attention_gradients, softcap=1.5, is_causal=True)
add(_SDPAB, normal((2, 5, 70), (2, 9, 70), (2, 9, 133), (2, 5, 133)), attention_gradients, name="wide heads")
add(
    _SDPAB,
    normal((2, 6, 37, 16), (2, 2, 45, 16), (2, 2, 45, 19), (2, 6, 37, 19)),
    attention_gradients,
    enable_gqa=True,
)
for _shape, _boolean in (((37, 45), False), ((2, 1, 1, 45), False), ((2, 3, 37, 45), True), ((1, 45), True)):
    _name = f"mask {_shape} {'bool' if _boolean else 'f32'}"
    add(_SDPAB, _backward_masked(_shape, _boolean), attention_gradients, name=_name)

add("conv1d_backward_weights", normal((2, 5, 17), (2, 7, 17)), conv_weights(1), kernel_size=3, padding=1)
add("conv2d_backward_weights", normal((2, 3, 13, 12), (2, 17, 13, 12)), conv_weights(2), kernel_size=3, padding=1)
add("conv2d_backward_weights", normal((2, 19, 9, 10), (2, 33, 9, 10)), conv_weights(2), kernel_size=1)
add(
    "conv2d_backward_weights", normal((2, 32, 9, 9), (2, 32, 5, 5)), conv_weights(2), kernel_size=3, padding=1, stride=2
)
add("conv2d_backward_weights", normal((2, 32, 10, 10), (2, 16, 5, 5)), conv_weights(2), kernel_size=1, stride=2)
add(
    "conv2d_backward_weights",
    normal((2, 16, 11, 7), (2, 24, 6, 9)),
    conv_weights(2),
    kernel_size=(3, 2),
    stride=(2, 1),
    dilation=(1, 2),
    padding=(1, 0, 2, 4),
)
add(
    "conv2d_backward_weights", normal((2, 24, 8, 8), (2, 48, 8, 8)), conv_weights(2), kernel_size=3, groups=3, padding=1
)
add(
    "conv2d_backward_weights",
    normal((2, 19, 9, 9), (2, 19, 9, 9)),
    conv_weights(2),
    kernel_size=3,
    groups=19,
    padding=1,
)
add(
    "conv2d_backward_weights",
    normal((2, 6, 9, 9), (2, 18, 5, 5)),
    conv_weights(2),
    kernel_size=5,
    groups=6,
    stride=2,
    padding=2,
)
add(
    "conv3d_backward_weights",
    normal((1, 5, 6, 7, 8), (1, 9, 7, 4, 4)),
    conv_weights(3),
    kernel_size=(2, 3, 3),
    padding=1,
    stride=(1, 2, 2),
)


def batch_norm_of(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    dims = [0, *range(2, t[0].dim())]
    y = f.batch_norm(t[0], None, None, t[1], t[2], training=True, eps=a.get("eps", 1e-5))
    y = torch.clamp(y, a.get("low", -math.inf), a.get("high", math.inf))
    return y, t[0].mean(dims), t[0].var(dims, unbiased=False)


def batch_norm_gradients(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    """By the formula, since mean and variance are given, rounded to float32."""
    x, grad, mean, variance, weight = t[:5]
    dims, column = [0, *range(2, x.dim())], (1, -1, *(1,) * (x.dim() - 2))
    inverse = variance if a.get("inverted") else (variance + a.get("eps", 1e-5)).rsqrt()
    h = (x - mean.reshape(column)) * inverse.reshape(column)
    if len(t) > 5:
        y = h * weight.reshape(column) + t[5].reshape(column)
        grad = grad * ((y > a.get("low", -math.inf)) & (y < a.get("high", math.inf)))
    centred = grad - grad.mean(dims, keepdim=True) - h * (grad * h).mean(dims, keepdim=True)
    return [(weight * inverse).reshape(column) * centred, (grad * h).sum(dims), grad.sum(dims)]


def with_statistics(shape: tuple[int, ...], biased: bool = False, inverted: bool = False):
    def make(rng: np.random.Generator) -> list[np.ndarray | None]:
        x, grad = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
        dims = (0, *range(2, len(shape)))
        wide = x.astype("f8")
        weight = rng.uniform(0.5, 2, shape[1]).astype("f4")
        bias = [rng.standard_normal(shape[1]).astype("f4")] if biased else []
        variance = wide.var(dims)
        spread = (variance + 1e-5) ** -0.5 if inverted else variance
        return [x, grad, wide.mean(dims).astype("f4"), spread.astype("f4"), weight, *bias]

    return make


add("batch_norm_training", normal(X4, (19,), (19,)), batch_norm_of)
add("batch_norm_training", normal((4, 32, 6, 5), (32,), (32,)), batch_norm_of, eps=1e-3)
add("batch_norm_training", normal((8, 7), (7,), (7,)), batch_norm_of)
add("batch_norm_backward", with_statistics(X4), batch_norm_gradients)
add("batch_norm_backward", with_statistics((4, 32, 6, 5)), batch_norm_gradients, eps=1e-3)
add("batch_norm_backward", with_statistics((8, 7)), batch_norm_gradients)
add("batch_norm_backward", with_statistics((4, 32, 6, 5), inverted=True), batch_norm_gradients, inverted=True)
add("batch_norm_training", normal(X4, (19,), (19,)), batch_norm_of, low=0.0)
add("batch_norm_training", normal((4, 32, 6, 5), (32,), (32,)), batch_norm_of, low=-0.5, high=1.0)
add("batch_norm_backward", with_statistics(X4, biased=True), batch_norm_gradients, low=0.0)
add("batch_norm_backward", with_statistics(X4, True, True), batch_norm_gradients, low=0.0, inverted=True)
add("batch_norm_backward", with_statistics((4, 32, 6, 5), biased=True), batch_norm_gradients, low=-0.5, high=1.0)


def layer_norm_gradients(centred: bool):
    def reference(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
        shape = a["normalized_shape"]
        weight = t[2] if len(t) > 2 and t[2] is not None else torch.ones(shape, dtype=t[0].dtype)

        def call(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
            if centred:
                return f.layer_norm(t[0], shape, t[2], t[3], a.get("eps", 1e-5))
            return f.rms_norm(t[0], shape, t[2], a.get("eps", 1e-6))

        given = [t[0], t[1], weight, torch.zeros_like(weight)]
        return derivative(call, *((0, 2, 3) if centred else (0, 2)), grad=1)(torch, f, given, a)

    return reference


add("layer_norm_backward", normal((3, 5, 37), (3, 5, 37), (37,)), layer_norm_gradients(True), normalized_shape=[37])
add("layer_norm_backward", normal((40, 4, 9), (40, 4, 9)), layer_norm_gradients(True), normalized_shape=[4, 9])
add("rms_norm_backward", normal((3, 5, 37), (3, 5, 37), (37,)), layer_norm_gradients(False), normalized_shape=[37])


def group_norm_gradients(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    def call(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
        return f.group_norm(t[0], a["num_groups"], t[2], t[3], a.get("eps", 1e-5))

    channels = t[0].shape[1]
    weight = t[2] if len(t) > 2 and t[2] is not None else torch.ones(channels, dtype=t[0].dtype)
    return derivative(call, 0, 2, 3, grad=1)(torch, f, [t[0], t[1], weight, torch.zeros_like(weight)], a)


add("group_norm_backward", normal((2, 18, 5, 7), (2, 18, 5, 7), (18,)), group_norm_gradients, num_groups=3)
add("group_norm_backward", normal((3, 19, 6), (3, 19, 6)), group_norm_gradients, num_groups=19)


def resize_gradient(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    def call(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
        size = {} if "scale_factor" in a else {"size": t[1].shape[2:]}
        return f.interpolate(t[0], **size, **{key: value for key, value in a.items() if key != "input_size"})

    x = torch.zeros((*t[0].shape[:2], *a["input_size"]), dtype=t[0].dtype)
    return derivative(call, 0, grad=1)(torch, f, [x, t[0]], a)


for _sizes, _resized, _options in (
    ((9, 10), (18, 7), {}),
    ((9, 10), (18, 20), {"scale_factor": [2.0, 2.0], "mode": "bilinear"}),
    ((9, 10), (5, 17), {"mode": "bilinear", "align_corners": True}),
    ((9, 10), (1, 1), {"mode": "bilinear", "align_corners": True}),
    ((9,), (4,), {"mode": "linear"}),
    ((4, 5, 6), (5, 4, 9), {"mode": "trilinear"}),
    ((4, 5, 6), (8, 3, 6), {}),
):
    _grad = normal((2, 19, *_resized))
    add("interpolate_backward", _grad, resize_gradient, input_size=list(_sizes), **_options)


def pool_gradient(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    def call(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
        own = {key: value for key, value in a.items() if key not in ("input_size", "forward")}
        if a["forward"].startswith("adaptive"):
            own["output_size"] = tuple(t[-1].shape[2:])
        return getattr(f, a["forward"])(t[0], **own)

    if "input_size" in a:
        x = torch.zeros((*t[0].shape[:2], *a["input_size"]), dtype=t[0].dtype)
        return derivative(call, 0, grad=1)(torch, f, [x, t[0]], a)
    return derivative(call, 0, grad=1)(torch, f, t, a)


def add_pool_gradient(forward: str, x: tuple[int, ...], y: tuple[int, ...], **attributes: Any) -> None:
    average = "avg" in forward

    def reference(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
        return pool_gradient(torch, f, t, {**a, "forward": forward})

    own = dict(attributes, input_size=list(x[2:])) if average else attributes
    add(f"{forward}_backward", normal(y) if average else normal(x, y), reference, **own)


add_pool_gradient("max_pool2d", X4, (2, 19, 5, 5), kernel_size=3, stride=2, padding=1)
add_pool_gradient("max_pool2d", X4, (2, 19, 5, 5), kernel_size=2, ceil_mode=True)
add_pool_gradient("max_pool2d", (2, 32, 8, 8), (2, 32, 4, 4), kernel_size=2)
add_pool_gradient("max_pool1d", (2, 5, 17), (2, 5, 8), kernel_size=3, stride=2)
add_pool_gradient("max_pool3d", (1, 3, 6, 5, 4), (1, 3, 4, 3, 2), kernel_size=3, stride=1)
add_pool_gradient("avg_pool2d", X4, (2, 19, 5, 5), kernel_size=3, stride=2, padding=1)
add_pool_gradient("avg_pool2d", X4, (2, 19, 5, 5), kernel_size=3, stride=2, padding=1, count_include_pad=False)
add_pool_gradient("avg_pool1d", (2, 5, 17), (2, 5, 5), kernel_size=3)
add_pool_gradient("avg_pool3d", (1, 3, 6, 5, 4), (1, 3, 3, 2, 2), kernel_size=2)
add_pool_gradient("adaptive_max_pool1d", (2, 5, 17), (2, 5, 4))
add_pool_gradient("adaptive_max_pool2d", X4, (2, 19, 4, 3))
add_pool_gradient("adaptive_max_pool3d", (1, 3, 6, 5, 4), (1, 3, 3, 2, 1))
add_pool_gradient("adaptive_avg_pool1d", (2, 5, 17), (2, 5, 4))
add_pool_gradient("adaptive_avg_pool2d", X4, (2, 19, 4, 3))
add_pool_gradient("adaptive_avg_pool3d", (1, 3, 6, 5, 4), (1, 3, 3, 2, 1))


def classified(x: tuple[int, ...], ignored: bool = False, weighted: bool = False, grad: tuple[int, ...] | None = None):
    def make(rng: np.random.Generator) -> list[np.ndarray | None]:
        target = rng.integers(0, x[1], (x[0], *x[2:]))
        if ignored:
            target.flat[::3] = -100
        made: list[np.ndarray | None] = [rng.standard_normal(x).astype("f4"), target]
        if grad is not None:
            made.append(rng.standard_normal(grad).astype("f4"))
        return [*made, rng.uniform(0.5, 2, x[1]).astype("f4")] if weighted else made

    return make


def entropy(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    return f.cross_entropy(t[0], t[1], t[2] if len(t) > 2 else None, **a)


def entropy_gradient(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    given = [t[0], t[1], *t[3:], t[2]]
    last = len(given) - 1
    return derivative(lambda torch, f, t, a: entropy(torch, f, t[:last], a), 0, grad=last)(torch, f, given, a)


for options in (
    {},
    {"reduction": "sum", "label_smoothing": 0.1},
    {"label_smoothing": 0.2, "ignore_index": -100},
    {"reduction": "none"},
):
    none = options.get("reduction") == "none"
    weighted = "label_smoothing" in options
    add("cross_entropy", classified((6, 11), True, weighted), entropy, **options)
    add("cross_entropy", classified((2, 5, 4, 3), False, weighted), entropy, **options, name="image")
    add("cross_entropy", classified((13, 1203), True, weighted), entropy, **options, name="many classes")
    add(
        "cross_entropy_backward",
        classified((13, 1203), True, weighted, (13,) if none else ()),
        entropy_gradient,
        **options,
        name="many classes",
    )
    add(
        "cross_entropy_backward", classified((6, 11), True, weighted, (6,) if none else ()), entropy_gradient, **options
    )
    add(
        "cross_entropy_backward",
        classified((2, 5, 4, 3), False, weighted, (2, 4, 3) if none else ()),
        entropy_gradient,
        **options,
        name="image",
    )


def looked_up(grad: tuple[int, ...], index: tuple[int, ...], size: int):
    return lambda rng: [rng.standard_normal(grad).astype("f4"), rng.integers(-size, size, index)]


def added_slices(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    dim, size, index = a["dim"], a["size"], wrapped(t[1], a["size"])
    grad = t[0].flatten(dim, dim + index.dim() - 1)
    result = torch.zeros((*grad.shape[:dim], size, *grad.shape[dim + 1 :]), dtype=grad.dtype)
    return result.index_add(dim, index.flatten(), grad)


def added_elements(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    shape = list(t[0].shape)
    shape[a["dim"]] = a["size"]
    return torch.zeros(shape, dtype=t[0].dtype).scatter_add(a["dim"], wrapped(t[1], a["size"]), t[0])


add("index_select_backward", looked_up((4, 6, 70), (4, 6), 9), added_slices, dim=0, size=9)
add("index_select_backward", looked_up((3, 5, 4), (5,), 7), added_slices, dim=1, size=7)
add("gather_backward", looked_up((3, 8, 4), (3, 8, 4), 5), added_elements, dim=1, size=5)
add("gather_backward", looked_up((6, 3), (6, 3), 4), added_elements, dim=0, size=4)
# As in networks: tables with more rows than indices, one row for most of the indices, look-ups along the last
# dimension, by a matrix too, and one element of each row of a matrix, as of the classes of a loss.
add("index_select_backward", looked_up((5, 67), (5,), 700), added_slices, dim=0, size=700, name="few of many rows")
add("index_select_backward", looked_up((300, 130), (300,), 2), added_slices, dim=0, size=2, name="many equal")
add("index_select_backward", looked_up((300, 1040), (300,), 1), added_slices, dim=0, size=1, name="all equal")
add("index_select_backward", looked_up((33, 90), (90,), 40), added_slices, dim=1, size=40, name="columns")
add("index_select_backward", looked_up((7, 5, 6), (5, 6), 11), added_slices, dim=1, size=11, name="columns of a matrix")
add("gather_backward", looked_up((40, 1), (40, 1), 700), added_elements, dim=1, size=700, name="one a row")
add("gather_backward", looked_up((3, 50, 70), (3, 50, 70), 6), added_elements, dim=1, size=6, name="columns")


def step_of(name: str, steps: int = 1):
    def reference(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
        weight = t[0].clone().requires_grad_()
        weight.grad = t[1]
        rate = float(t[2])
        if name == "sgd":
            optimizer = torch.optim.SGD([weight], lr=rate, **a)
            if len(t) > 3:
                optimizer.state[weight]["momentum_buffer"] = t[3].clone()
            optimizer.step()
            return [weight.detach(), optimizer.state[weight]["momentum_buffer"]] if len(t) > 3 else weight.detach()
        own = {key: value for key, value in a.items() if not key.startswith("beta")}
        kind = torch.optim.AdamW if name == "adamw" else torch.optim.Adam
        optimizer = kind([weight], lr=rate, betas=(a.get("beta1", 0.9), a.get("beta2", 0.999)), **own)
        optimizer.state[weight] = {
            "step": torch.tensor(float(t[5]) - 1),
            "exp_avg": t[3].clone(),
            "exp_avg_sq": t[4].clone(),
        }
        optimizer.step()
        state = optimizer.state[weight]
        return [weight.detach(), state["exp_avg"], state["exp_avg_sq"]]

    return reference


def stepped(shape: tuple[int, ...], moments: int, step: float | None = None, scale: float | None = None):
    def make(rng: np.random.Generator) -> list[np.ndarray | None]:
        weight, grad = (rng.standard_normal(shape).astype("f4") for _ in range(2))
        more: list[np.ndarray | None] = [rng.uniform(0.1, 1, shape).astype("f4") for _ in range(moments)]
        last: list[np.ndarray | None] = [np.array(step, "f4")] if step is not None else []
        if scale is not None:
            if step is None and moments == 0:
                last.append(None)  # velocity
            last.append(np.array(scale, "f4"))
            if scale == 0:
                grad.flat[5], grad.flat[7] = np.inf, np.nan
        return [weight, grad, np.array(0.05, "f4"), *more, *last]

    return make


def scaled(name: str, moments: int, at: int):
    """A step by a gradient times t[at]; by none where that is 0."""

    def reference(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
        scale = float(t[at])
        if scale == 0:
            kept = [t[0], *t[3 : 3 + moments]]
            return kept if moments else kept[0]
        return step_of(name)(torch, f, [t[0], t[1] * scale, *t[2:at]], a)

    return reference


def with_one(value: float, place: int, *shapes: tuple[int, ...]):
    """Tensors, and in that at `place` one element that is `value`."""

    def make(rng: np.random.Generator) -> list[np.ndarray]:
        made = [np.array(rng.standard_normal(shape), "f4") for shape in shapes]
        made[place].flat[made[place].size // 2] = value
        return made

    return make


def all_finite(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    return torch.tensor(float(all(bool(torch.isfinite(each).all()) for each in t)))


add("sgd_step", stepped((7, 301), 0), step_of("sgd"), weight_decay=0.1)
add("sgd_step", stepped((7, 301), 1), step_of("sgd"), momentum=0.9, weight_decay=0.1)
add("sgd_step", stepped((700,), 1), step_of("sgd"), momentum=0.8, nesterov=True)
add("sgd_step", stepped((700,), 1), step_of("sgd"), momentum=0.8, dampening=0.3)
add("adam_step", stepped((7, 301), 2, 3), step_of("adam"), weight_decay=0.1)
add("adam_step", stepped((700,), 2, 100), step_of("adam"), beta1=0.8, beta2=0.9, eps=1e-3)
add("adamw_step", stepped((7, 301), 2, 1), step_of("adamw"))
for _scale in (0.0, 0.25):
    _name = f"gradient times {_scale}"
    add("sgd_step", stepped((7, 301), 0, scale=_scale), scaled("sgd", 0, 3), weight_decay=0.1, name=_name)
    add("sgd_step", stepped((7, 301), 1, scale=_scale), scaled("sgd", 1, 4), momentum=0.9, name=f"velocity, {_name}")
    add("adam_step", stepped((7, 301), 2, 3, _scale), scaled("adam", 2, 6), weight_decay=0.1, name=_name)
    add("adamw_step", stepped((700,), 2, 3, _scale), scaled("adamw", 2, 6), name=_name)
for _value, _place in ((1.0, 0), (np.inf, 0), (-np.inf, 2), (np.nan, 1)):
    _given = with_one(_value, _place, (3, 20000), (), (70, 3, 5))
    add("all_finite", _given, all_finite, variadic=True, name=f"{_value} in tensor {_place}")


def seeded(shape: tuple[int, ...], *seed: int):
    """A tensor, and a seed: a number, or two, of which the second is the first counter."""
    numbers = np.array(seed[0] if len(seed) == 1 else seed, "i8")
    return lambda rng: [rng.standard_normal(shape).astype("f4"), numbers]


def from_seed(*seed: int):
    return lambda rng: seeded((), *seed)(rng)[1:]


add("random_dropout", seeded(X4, 7), random_numbers.dropout, p=0.3)
add("random_dropout", seeded((3, 1000), -5, 2**40), random_numbers.dropout, p=0.5)
for _seed in ((7,), (-5, 2**32 - 3)):
    add("random_uniform", from_seed(*_seed), random_numbers.uniform, shape=X4, name=f"seed {_seed}")
    add("random_normal", from_seed(*_seed), random_numbers.normal, shape=(3, 1001), name=f"seed {_seed}")
    add("random_integers", from_seed(*_seed), random_numbers.integers, shape=(5, 7), high=9, name=f"seed {_seed}")
    add("random_permutation", from_seed(*_seed), random_numbers.permutation, n=301, name=f"seed {_seed}")
add("random_uniform", from_seed(7), random_numbers.uniform, shape=(), low=-2.0, high=3.0)
add("random_uniform", from_seed(7), random_numbers.uniform, shape=(70,), dtype="f16", tolerance=1e-3)
add("random_normal", from_seed(2**63 - 1), random_numbers.normal, shape=(70,), mean=5.0, std=0.25)
add("random_exponential", from_seed(7), random_numbers.exponential, shape=(7, 99), rate=0.5)
add("random_bernoulli", from_seed(7), random_numbers.bernoulli, shape=(7, 99), p=0.3)
add("random_bernoulli", from_seed(7), random_numbers.bernoulli, shape=(9,), p=1.0, dtype="bool")
add("random_integers", from_seed(7), random_numbers.integers, shape=(7, 9), low=-(2**33), high=2**40)
add("random_integers", from_seed(7), random_numbers.integers, shape=(9,), low=-(2**63), high=2**63 - 1)
add("random_integers", from_seed(7), random_numbers.integers, shape=(9,), low=-100, high=27, dtype="s8")
add("random_permutation", from_seed(7), random_numbers.permutation, n=1)


# ---- places that values say ----


def put_to(shape: tuple[int, ...], index: tuple[int, ...], size: int, src: tuple[int, ...] | None = None):
    return lambda rng: [
        rng.standard_normal(shape).astype("f4"),
        rng.integers(-size, size, index),
        rng.standard_normal(src or index).astype("f4"),
    ]


def put_once(shape: tuple[int, ...], dim: int, count: int):
    """Places of which none comes twice, the same ones along the other dimensions."""

    def make(rng: np.random.Generator) -> list[np.ndarray | None]:
        src = list(shape)
        src[dim] = count
        index = rng.permutation(shape[dim])[:count].reshape([count if i == dim else 1 for i in range(len(shape))])
        return [rng.standard_normal(shape).astype("f4"), index, rng.standard_normal(src).astype("f4")]

    return make


def scattered(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    dim = a["dim"] % t[0].dim()
    index = wrapped(t[1], t[0].shape[dim]).expand(t[2].shape)
    reduce = a.get("reduce", "none")
    if reduce == "none":
        return t[0].scatter(dim, index, t[2])
    return t[0].scatter_reduce(dim, index, t[2], reduce, include_self=True)


def scattered_nd(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    x, index, src = t[0].numpy().copy(), t[1].numpy(), t[2].numpy()
    join = {"none": lambda u, v: v, "sum": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}
    for place in np.ndindex(index.shape[:-1]):
        at = tuple(index[place])
        x[at] = join[a.get("reduce", "none")](x[at], src[place])
    return torch.from_numpy(x)


add("scatter", put_once((3, 19, 5), 1, 7), scattered, dim=1, name="rows")
add("scatter", put_once((40, 8, 3, 3), 0, 30), scattered, dim=0, name="images")
add("scatter", put_once((6, 5), -1, 1), scattered, dim=-1, name="one")
for _reduce in ("sum", "prod", "amax", "amin"):
    add("scatter", put_to((4, 6, 5), (4, 9, 3), 6), scattered, dim=1, reduce=_reduce)
    add("scatter_nd", put_to((4, 6, 5), (7, 2), 4, (7, 5)), scattered_nd, reduce=_reduce)
add("scatter", put_to((5, 70), (9, 1), 5, (9, 70)), scattered, dim=0, reduce="sum", name="broadcast")
add("scatter_nd", put_to((300, 70), (2, 3, 1), 300, (2, 3, 70)), scattered_nd)
add("scatter_nd", put_to((4, 5), (3, 2), 4, (3,)), scattered_nd, name="elements")
add("scatter_nd", put_to((4, 5), (0, 2), 4, (0,)), scattered_nd, name="nothing")


def gridded(shape: tuple[int, ...], out: tuple[int, ...]):
    """Some of the places lie outside of the image."""
    return lambda rng: [
        rng.standard_normal(shape).astype("f4"),
        rng.uniform(-1.3, 1.3, (shape[0], *out, len(shape) - 2)).astype("f4"),
    ]


def grid_sampled(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    x, grid = t[0], t[1]
    if x.dim() == 3:  # PyTorch has no lines: images of one row
        grid = torch.stack([grid[..., 0], torch.zeros_like(grid[..., 0])], -1)
        return f.grid_sample(x[:, :, None], grid[:, None], **{"align_corners": False, **a})[:, :, 0]
    return f.grid_sample(x, grid, **{"align_corners": False, **a})


for _mode in ("bilinear", "nearest", "bicubic"):
    for _padding in ("zeros", "border", "reflection"):
        add("grid_sample", gridded((2, 19, 9, 10), (7, 6)), grid_sampled, 1e-4, mode=_mode, padding_mode=_padding)
    add("grid_sample", gridded((1, 5, 6, 7), (4, 9)), grid_sampled, 1e-4, mode=_mode, align_corners=True)
add("grid_sample", gridded((2, 17, 3, 4, 5), (2, 6, 3)), grid_sampled, 1e-4)
add("grid_sample", gridded((2, 5, 11), (8,)), grid_sampled, 1e-4, padding_mode="border")


def boxed(shape: tuple[int, ...], count: int, large: float = 1.0):
    """Boxes with corners in and around images; of the last one the corners are exchanged."""

    def make(rng: np.random.Generator) -> list[np.ndarray | None]:
        sizes = np.float32([shape[3], shape[2]] * 2) * np.float32(large)
        first = rng.uniform(-0.1, 0.7, (count, 2))
        boxes = np.concatenate([first, first + rng.uniform(0.05, 0.5, (count, 2))], 1).astype("f4") * sizes
        if count:
            boxes[-1] = boxes[-1][[2, 3, 0, 1]]
        return [rng.standard_normal(shape).astype("f4"), boxes, rng.integers(0, shape[0], count)]

    return make


def roi_aligned(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    """The definition, one sample after the other."""
    x, boxes, images = t[0].numpy(), t[1].numpy(), t[2].numpy()
    height, width = a["output_size"]
    aligned, ratio, largest = a.get("aligned", False), a.get("sampling_ratio", 0), a.get("mode") == "max"
    out = np.zeros((len(boxes), x.shape[1], height, width))

    def sample(image: int, v: float, u: float) -> list[Any]:
        if not (-1 <= v <= x.shape[2] and -1 <= u <= x.shape[3]):
            return [np.zeros(x.shape[1])] * 4
        v, u = min(max(v, 0), x.shape[2] - 1), min(max(u, 0), x.shape[3] - 1)
        parts = []
        for row, down in ((int(v), 1 - v + int(v)), (min(int(v) + 1, x.shape[2] - 1), v - int(v))):
            for column, across in ((int(u), 1 - u + int(u)), (min(int(u) + 1, x.shape[3] - 1), u - int(u))):
                parts.append(down * across * x[image, :, row, column])
        return parts

    for k, box in enumerate(boxes * a.get("spatial_scale", 1.0) - 0.5 * aligned):
        sizes = [box[3] - box[1], box[2] - box[0]]
        sizes = sizes if aligned else [max(size, 1) for size in sizes]
        bins = [sizes[0] / height, sizes[1] / width]
        counts = [ratio or max(int(np.ceil(size)), 0) for size in bins]
        for i, j in np.ndindex(height, width):
            samples = [
                sample(
                    int(images[k]),
                    box[1] + (i + (p + 0.5) / counts[0]) * bins[0],
                    box[0] + (j + (q + 0.5) / counts[1]) * bins[1],
                )
                for p, q in np.ndindex(*counts)
            ]
            if samples:
                out[k, :, i, j] = np.max(samples, (0, 1)) if largest else np.sum(samples, (0, 1)) / len(samples)
    return torch.from_numpy(out)


for _aligned in (False, True):
    add("roi_align", boxed((2, 19, 9, 10), 6), roi_aligned, 1e-4, output_size=(3, 2), aligned=_aligned)
    add(
        "roi_align", boxed((2, 33, 9, 10), 5, 4.0), roi_aligned, 1e-4, output_size=(2, 3), spatial_scale=0.25,
        sampling_ratio=2, aligned=_aligned,
    )  # fmt: skip
    add("roi_align", boxed((1, 5, 9, 10), 4), roi_aligned, 1e-4, output_size=(2, 2), mode="max", aligned=_aligned)
add("roi_align", boxed((1, 5, 9, 10), 0), lambda torch, f, t, a: torch.zeros(0, 5, 2, 2), output_size=(2, 2))


def found_boxes(images: int, classes: int, count: int, spread: float = 1.0):
    def make(rng: np.random.Generator) -> list[np.ndarray | None]:
        first = rng.uniform(0, spread, (images, count, 2))
        boxes = np.concatenate([first, first + rng.uniform(0.02, 0.5, (images, count, 2))], -1).astype("f4")
        scores = rng.integers(0, 1000, (images, classes, count)).astype("f4") / np.float32(1000)
        return [boxes, scores]

    return make


def suppressed(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    """The definition, one box after the other."""
    boxes, scores = t[0].numpy(), t[1].numpy()
    if a.get("boxes_are") == "centres":
        boxes = np.concatenate([boxes[..., :2] - boxes[..., 2:] / 2, boxes[..., :2] + boxes[..., 2:] / 2], -1)
    low, high = np.minimum(boxes[..., :2], boxes[..., 2:]), np.maximum(boxes[..., :2], boxes[..., 2:])
    areas = np.prod(high - low, -1)
    rows: list[tuple[int, int, int]] = []
    for image, kind in np.ndindex(*scores.shape[:2]):
        kept: list[int] = []
        for k in np.argsort(-scores[image, kind], kind="stable"):
            least = a.get("score_threshold")
            if len(kept) == a["max_boxes"] or (least is not None and scores[image, kind, k] <= np.float32(least)):
                continue
            sides = np.minimum(high[image, k], high[image, kept]) - np.maximum(low[image, k], low[image, kept])
            common = np.prod(np.maximum(sides, 0), -1)
            if not (common > a.get("iou_threshold", 0.0) * (areas[image, k] + areas[image, kept] - common)).any():
                kept.append(int(k))
        rows += [(image, kind, k) for k in kept]
    room = scores.shape[0] * scores.shape[1] * min(a["max_boxes"], scores.shape[2])
    made = np.full((room, 3), -1)
    made[: len(rows)] = np.reshape(rows, (-1, 3))
    return [torch.from_numpy(made), torch.tensor(len(rows))]


add("non_max_suppression", found_boxes(2, 3, 40), suppressed, max_boxes=7, iou_threshold=0.4, score_threshold=0.2)
add("non_max_suppression", found_boxes(1, 1, 300, 40.0), suppressed, max_boxes=300, iou_threshold=0.3)
add("non_max_suppression", found_boxes(1, 2, 30), suppressed, max_boxes=30, iou_threshold=0.5, boxes_are="centres")
add("non_max_suppression", found_boxes(1, 2, 0), suppressed, max_boxes=3)

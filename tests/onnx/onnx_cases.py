"""One list of calls for the converters: what test_converters.py runs against ONNX's own evaluator.

A new converter needs a case here, in an opset that chooses it: a test fails for one without.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy

_rng = numpy.random.default_rng(20240607)


def randn(*shape: int) -> Any:
    return _rng.standard_normal(shape).astype("float32")


def positive(*shape: int) -> Any:
    return _rng.uniform(0.5, 1.5, shape).astype("float32")


def ints(*values: Any, dtype: str = "int64") -> Any:
    return numpy.asarray(values[0] if len(values) == 1 else values, dtype)


def some_ints(*shape: int, low: int = -9, high: int = 9, dtype: str = "int32") -> Any:
    return _rng.integers(low, high, shape).astype(dtype)


@dataclass
class Case:
    """One node. `const`: which inputs are initialisers; None among the inputs is an absent one."""

    op: str
    inputs: list[Any]
    opset: int
    attributes: dict[str, Any] = field(default_factory=dict)
    const: tuple[int, ...] = ()
    outputs: int = 1
    tolerance: float = 2e-5
    wide: bool = True  # whether the reference computes in float64: not where values are rounded to integers

    def __str__(self) -> str:
        shapes = ",".join("none" if x is None else "x".join(map(str, numpy.shape(x))) for x in self.inputs)
        words = ",".join(f"{k}={v}" for k, v in self.attributes.items() if not hasattr(v, "SerializeToString"))
        return f"{self.op}-{self.opset}-{shapes}-{words}"


CASES: list[Case] = []


def case(
    op: str, *inputs: Any, opsets: tuple[int, ...] = (17,), const: Any = (), outputs: int = 1, **rest: Any
) -> None:
    tolerance, wide = rest.pop("tolerance", 2e-5), rest.pop("wide", True)
    CASES.extend(Case(op, list(inputs), opset, rest, tuple(const), outputs, tolerance, wide) for opset in opsets)


ALL = (9, 11, 13, 17, 22)

# ---- convolutions ----
W = randn(6, 4, 3, 3)
case("Conv", randn(2, 4, 9, 7), W, randn(6), opsets=ALL, const=(1, 2), pads=[1, 2, 0, 1], strides=[2, 1])
case("Conv", randn(1, 4, 9), randn(4, 2, 3), const=(1,), group=2, dilations=[2])
case("Conv", randn(1, 2, 5, 6, 4), randn(3, 2, 2, 2, 2), const=(1,), kernel_shape=[2, 2, 2])
for mode in ("SAME_UPPER", "SAME_LOWER", "VALID"):
    case("Conv", randn(1, 4, 8, 7), W, opsets=(11,), const=(1,), auto_pad=mode, strides=[2, 3])
case("Conv", randn(1, 4, 6, 6), W)
case("ConvTranspose", randn(1, 4, 5, 6), randn(4, 3, 3, 3), randn(3), opsets=(9, 11, 22), const=(1, 2))
case(
    "ConvTranspose", randn(1, 4, 5, 6), randn(4, 3, 3, 3), const=(1,), strides=[2, 2], pads=[1, 0, 1, 1],
    output_padding=[1, 0],
)  # fmt: skip
case("ConvTranspose", randn(1, 2, 3, 3), randn(2, 2, 3, 3), const=(1,), strides=[2, 2], auto_pad="SAME_UPPER")
# ---- products ----
case("MatMul", randn(3, 4), randn(4, 5), opsets=ALL, const=(1,))
case("MatMul", randn(2, 3, 4, 5), randn(3, 5, 2))
case("MatMul", randn(5), randn(2, 5, 3))
for _a, _b in [((3, 4), (4, 5)), ((2, 1, 4, 5), (3, 5, 2)), ((5,), (2, 5, 3)), ((2, 3, 4), (4,)), ((4,), (4,))]:
    case("MatMul", some_ints(*_a, dtype="int64"), some_ints(*_b, dtype="int64"), opsets=(9, 13))
case("MatMul", some_ints(3, 4), some_ints(4, 5), const=(1,))
case("Gemm", randn(3, 4), randn(4, 5), randn(5), opsets=ALL, const=(1, 2))
case("Gemm", randn(4, 3), randn(5, 4), randn(3, 5), const=(1,), transA=1, transB=1, alpha=0.5, beta=2.0)
case("Gemm", randn(3, 4), randn(5, 4), randn(1, 5), const=(1, 2), transB=1, alpha=0.25)
case("Gemm", randn(3, 4), randn(4, 5), randn(3, 1), opsets=(9,), beta=0.5)
case("Gemm", randn(2, 9), randn(9, 8), opsets=(11,), alpha=3.0)
case("Gemm", randn(2, 4), randn(4, 5), randn(5), alpha=2.0, beta=0.0)
for equation, shapes in {
    "ij,jk->ik": [(3, 4), (4, 5)],
    "bij,bjk->bik": [(2, 3, 4), (2, 4, 5)],
    "bhqd,bhkd->bhqk": [(2, 3, 4, 5), (2, 3, 6, 5)],
    "...ij,...jk->...ik": [(2, 3, 4), (1, 4, 5)],
    "i,j->ij": [(3,), (4,)],
    "ij->ji": [(3, 4)],
    "ij->i": [(3, 4)],
    "ii->i": [(4, 4)],
    "bii": [(2, 4, 4)],
    "ij,ij->": [(3, 4), (3, 4)],
    "ab,bc,cd->ad": [(2, 3), (3, 4), (4, 5)],
    "ij,jk": [(3, 4), (4, 5)],
    "bi,oij,bj->bo": [(2, 3), (4, 3, 5), (2, 5)],
}.items():
    case("Einsum", *(randn(*shape) for shape in shapes), opsets=(12, 17), equation=equation)
# ---- normalisation ----
STATS = [positive(5), randn(5), randn(5), positive(5)]
case("BatchNormalization", randn(2, 5, 3, 4), *STATS, opsets=(14, 15, 17), const=(1, 2, 3, 4), epsilon=1e-3)
for _x in (randn(2, 5, 3, 4), randn(3, 5), randn(1, 5, 27), randn(1, 5, 1)):
    case(
        "BatchNormalization", _x, *STATS, opsets=(14, 17), const=(1, 2, 3, 4), outputs=3, training_mode=1, momentum=0.75
    )
case("BatchNormalization", randn(4, 5, 3), *STATS, const=(0, 1, 2, 3, 4), outputs=3, training_mode=1)
case("InstanceNormalization", randn(2, 5, 3, 4), positive(5), randn(5), opsets=(9, 22), const=(1, 2))
case("GroupNormalization", randn(2, 6, 3, 4), positive(6), randn(6), opsets=(21,), const=(1, 2), num_groups=3)
case("LayerNormalization", randn(2, 3, 8), positive(8), randn(8), const=(1, 2))
case("LayerNormalization", randn(2, 3, 8), positive(3, 8), randn(3, 8), axis=1, outputs=3)
case("LayerNormalization", randn(2, 8).astype("float16"), positive(8).astype("float16"), outputs=3, tolerance=4e-3)
case("LayerNormalization", randn(2, 3, 8), positive(8), const=(1,), axis=1, epsilon=1e-2)
case("RMSNormalization", randn(2, 3, 8), positive(8), opsets=(23,), const=(1,))
case("LpNormalization", positive(3, 5), axis=1, p=1)
case("LpNormalization", randn(3, 5), opsets=(9, 22))
case("MeanVarianceNormalization", randn(2, 3, 4, 5), opsets=(9, 13), tolerance=1e-4)
# ---- pools ----
X = randn(1, 3, 9, 8)
case("Col2Im", randn(2, 3 * 6, 8 * 8), ints([9, 10]), ints([2, 3]), opsets=(18,), const=(1, 2))
case(
    "Col2Im", randn(1, 5 * 9, 4 * 3), ints([9, 7]), ints([3, 3]), opsets=(18,), const=(1, 2),
    dilations=[2, 2], pads=[1, 1, 1, 1], strides=[2, 2],
)  # fmt: skip
case("Col2Im", randn(1, 3 * 3, 6), ints([11]), ints([3]), opsets=(18,), const=(1, 2), pads=[1, 1], strides=[2])
for op in ("MaxPool", "AveragePool"):
    case(op, X, opsets=(9, 11, 17, 22), kernel_shape=[3, 2])
    case(op, X, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    case(op, X, kernel_shape=[3, 3], strides=[2, 2], pads=[0, 1, 1, 0], ceil_mode=1)
    case(op, X, kernel_shape=[3, 3], strides=[2, 3], auto_pad="SAME_UPPER")
    case(op, X, kernel_shape=[2, 4], auto_pad="VALID")
    case(op, randn(1, 3, 9), kernel_shape=[3], strides=[2])
    case(op, randn(1, 3, 4, 5, 6), kernel_shape=[2, 2, 2])
    case(op, X, opsets=(19, 22), kernel_shape=[3, 2], dilations=[2, 3], pads=[1, 1, 1, 1])
    case(op, X, kernel_shape=[2, 2], pads=[1, 1, 1, 1], strides=[3, 3])
    case(op, X, kernel_shape=[3, 3], pads=[2, 2, 2, 2])
case("AveragePool", X, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)
case("AveragePool", X, kernel_shape=[3, 3], strides=[2, 3], auto_pad="SAME_LOWER")
case("AveragePool", X, opsets=(19,), kernel_shape=[3, 3], pads=[2, 2, 2, 2], count_include_pad=1, dilations=[2, 1])
case("LpPool", X, opsets=(18,), kernel_shape=[3, 2], strides=[2, 1])
case("LpPool", X, opsets=(18,), kernel_shape=[2, 2], p=3, pads=[1, 0, 0, 1])
case("GlobalAveragePool", X, opsets=(9, 22))
case("GlobalMaxPool", X, opsets=(9, 22))
# ---- activations ----
for op in ("Relu", "Sigmoid", "Tanh", "Softsign", "Softplus", "Erf"):
    case(op, randn(3, 7), opsets=(9, 13, 22))
case("HardSwish", 4 * randn(3, 7), opsets=(14,))
case("Mish", randn(3, 7), opsets=(18,))
case("LeakyRelu", randn(3, 7), opsets=(9, 16), alpha=0.2)
case("Elu", randn(3, 7), opsets=(9, 22), alpha=1.5)
case("Celu", randn(3, 7), opsets=(12,), alpha=0.7)
case("Selu", randn(3, 7), opsets=(9, 22))
case("Selu", randn(3, 7), alpha=1.5, gamma=2.0)
case("HardSigmoid", 4 * randn(3, 7), opsets=(9, 22))
case("HardSigmoid", 4 * randn(3, 7), alpha=1 / 6)
case("ThresholdedRelu", randn(3, 7), opsets=(10, 22), alpha=0.3)
case("ThresholdedRelu", numpy.float32([numpy.nan, numpy.inf, -numpy.inf, 0.3, 1]), opsets=(22,), alpha=0.3)
case("AffineGrid", randn(2, 2, 3), ints(2, 1, 3, 4), opsets=(20,), const=(1,))
case("AffineGrid", randn(1, 2, 3), ints(1, 5, 4, 2), opsets=(20,), const=(1,), align_corners=1)
case("AffineGrid", randn(3, 3, 4), ints(3, 1, 2, 3, 4), opsets=(20,), const=(1,), align_corners=1)
case("Pad", ints([5, -7, 9, 4]), ints(1, 0), numpy.array(2**53 + 1), opsets=(19,), const=(1, 2))
case("Clip", ints([5, 2**62]), numpy.array(2**53 + 1), numpy.array(2**63 - 2), opsets=(13,), const=(1, 2))
case("Gelu", randn(3, 7), opsets=(20,))
case("Gelu", randn(3, 7), opsets=(20,), approximate="tanh")
case("Swish", randn(3, 7), opsets=(24,), alpha=1.5)
case("Swish", randn(3, 7), opsets=(24,))
case("Shrink", randn(3, 7), opsets=(9,), lambd=0.4, bias=0.1)
case("PRelu", randn(2, 3, 4, 5), randn(3, 1, 1), opsets=(9, 16), const=(1,))
case("PRelu", randn(2, 3, 4, 5), randn(1), const=(1,))
case("PRelu", randn(2, 3, 4, 5), randn(4, 1))
for op in ("Softmax", "LogSoftmax"):
    case(op, randn(2, 3, 4), opsets=(13, 17), axis=1)
    case(op, randn(2, 3, 4), opsets=(13,))
case("Clip", 3 * randn(3, 7), numpy.float32(-1), numpy.float32(2), opsets=(11, 13), const=(1, 2))
case("Clip", 3 * randn(3, 7), None, numpy.float32(2), opsets=(12,), const=(2,))
case("Clip", 3 * randn(3, 7), numpy.float32(-1), opsets=(13,))
case("Clip", 3 * randn(3, 7), opsets=(13,))
case("Clip", some_ints(3, 7), ints(-2, dtype="int32"), ints(3, dtype="int32"), const=(1, 2))
# ---- element by element ----
for op in (
    "Abs",
    "Ceil",
    "Cos",
    "Exp",
    "Floor",
    "Neg",
    "Sign",
    "Sin",
    "Reciprocal",
    "Tan",
    "Atan",
    "Sinh",
    "Cosh",
    "Asinh",
):
    case(op, randn(3, 5), opsets=(9, 13))
case("Round", 3 * randn(3, 5), opsets=(11,))
for op in ("Sqrt", "Log"):
    case(op, positive(3, 5), opsets=(9, 13))
for op in ("Acos", "Asin", "Atanh"):
    case(op, positive(3, 5) - 1)
case("Acosh", positive(3, 5) + 1)
case("IsNaN", numpy.array([1, numpy.nan, numpy.inf], "float32"), opsets=(9, 13, 20))
SPECIAL = numpy.array([1, numpy.nan, numpy.inf, -numpy.inf], "float32")
for negative, over in ((1, 1), (0, 1), (1, 0), (0, 0)):
    case("IsInf", SPECIAL, opsets=(10, 20), detect_negative=negative, detect_positive=over)
for op in ("Add", "Sub", "Mul", "Div"):
    case(op, randn(3, 1, 4), randn(2, 1), opsets=ALL)
    case(op, some_ints(3, 4), some_ints(4, low=1), const=(1,))
    case(op, ints([7, -7, 9, -9]), ints([2, 2, -2, -2]))
for op in ("Equal", "Greater", "Less"):
    case(op, some_ints(3, 4), some_ints(4), opsets=(9, 13))
    case(op, randn(3, 4), randn(3, 1), opsets=(11,))
for op in ("GreaterOrEqual", "LessOrEqual"):
    case(op, some_ints(3, 4), some_ints(4), opsets=(16,))
for op in ("And", "Or", "Xor"):
    case(op, some_ints(3, 4) > 0, some_ints(4) > 0, opsets=(9,))
case("Not", some_ints(3, 4) > 0, opsets=(9,))
for dtype in ("uint8", "int8", "int32", "int64"):
    edges = numpy.iinfo(dtype)
    words = some_ints(3, 4, low=edges.min, high=edges.max, dtype=dtype)
    words[0, :2] = edges.min, edges.max
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        case(op, words, words[1], opsets=(18,))
        case(op, words, words[:, :1], opsets=(18,), const=(1,))
    case("BitwiseNot", words, opsets=(18,))
for way in ("LEFT", "RIGHT"):
    case("BitShift", words_of_8 := some_ints(4, 9, low=0, high=256, dtype="uint8"), ints(range(9), dtype="uint8"),
         opsets=(11, 18), direction=way)  # fmt: skip
    case("BitShift", words_of_8, ints([[3], [1], [255], [9]], dtype="uint8"), const=(1,), direction=way)
case("Mod", some_ints(5, 6), some_ints(6, low=1), opsets=(10, 13))
case("Mod", ints([7, -7, 7, -7]), ints([3, 3, -3, -3]))
case("Mod", randn(5, 6), positive(6), fmod=1)
case("Mod", some_ints(5, 6), some_ints(6, low=1), fmod=1)
case("Pow", positive(3, 4), randn(4), opsets=(9, 12, 15))
for exponent in (1.0, 2.0, 0.5, -1.0, 3.0):
    case("Pow", positive(3, 4), numpy.float32(exponent), const=(1,))
case("Pow", positive(3, 4), ints([0, 1, 2, 3]), opsets=(12,))
case("Pow", some_ints(3, 4), ints([0, 1, 2, 3], dtype="int32"), opsets=(12,))
case("Pow", some_ints(3, 4), numpy.array([0, 1, 2, 3], "float32"), opsets=(12,))
for op in ("Sum", "Max", "Min", "Mean"):
    case(op, randn(3, 4), randn(4), randn(3, 1), opsets=(9, 13))
    case(op, randn(3, 4), opsets=(9,))
case("Where", some_ints(3, 4) > 0, randn(4), randn(3, 1), opsets=(9, 16))
for exclusive in (0, 1):
    for reverse in (0, 1):
        case("CumSum", randn(3, 4), ints(1), opsets=(11, 14), const=(1,), exclusive=exclusive, reverse=reverse)
# ---- reductions ----
REDUCTIONS = (
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare",
    "ReduceLogSum", "ReduceLogSumExp",
)  # fmt: skip
for op in REDUCTIONS:
    last = 11 if op == "ReduceSum" else 17
    case(op, positive(3, 4, 5), opsets=(9, 11, last), axes=[0, -1])
    case(op, positive(3, 4, 5), opsets=(9, last), keepdims=0)
    case(op, positive(3, 4, 5), ints([1]), opsets=(18,), const=(1,), keepdims=0)
    case(op, positive(3, 4, 5), opsets=(18,))
    case(op, positive(3, 4), opsets=(18,), noop_with_empty_axes=1)
    case(op, positive(3, 4), ints([]), opsets=(18,), const=(1,), noop_with_empty_axes=1)
case("ReduceSum", some_ints(3, 4), ints([1]), opsets=(13,), const=(1,))
case("ReduceMean", some_ints(3, 4, 5, dtype="int64"), opsets=(13,), axes=[0, -1], keepdims=0)
case("ReduceMean", some_ints(3, 4), ints([1]), opsets=(18,), const=(1,))
case("ReduceMax", some_ints(3, 4) > 0, ints([1]), opsets=(20,), const=(1,))
for op in ("ReduceL1", "ReduceSumSquare"):
    case(op, some_ints(3, 4), opsets=(13,), axes=[1], keepdims=0)
    case(op, some_ints(3, 4, dtype="int64"), ints([0]), opsets=(18,), const=(1,))
for op in ("ArgMax", "ArgMin"):
    case(op, randn(3, 4, 5), opsets=(9, 11, 13), axis=1)
    case(op, some_ints(3, 9, low=0, high=3), opsets=(12, 13), axis=-1, keepdims=0, select_last_index=1)
case("Hardmax", some_ints(3, 9, low=0, high=3).astype("float32"), opsets=(13,))
case("TopK", randn(3, 9, 5), opsets=(9,), outputs=2, axis=1, k=4)
case("TopK", some_ints(4, 9, low=0, high=3).astype("float32"), opsets=(7,), outputs=2, k=9)
case("TopK", randn(3, 9, 5), ints([2]), opsets=(10, 11, 24), const=(1,), outputs=2, axis=-2)
for largest in (0, 1):
    ties = some_ints(4, 9, low=0, high=3)
    case("TopK", ties, ints([5]), opsets=(11,), const=(1,), outputs=2, largest=largest, sorted=1, wide=False)
    nans = numpy.where(ties == 0, numpy.nan, ties).astype("float32")
    case("TopK", nans, ints([9]), opsets=(11,), const=(1,), outputs=2, largest=largest)
    case("TopK", nans, ints([4]), opsets=(11,), const=(0, 1), outputs=2, largest=largest)  # known: folded
    case("TopK", ties.astype("uint8"), ints([3]), opsets=(11,), const=(0, 1), outputs=2, axis=0, largest=largest)
# ---- shapes ----
case("Reshape", randn(2, 3, 4), ints([0, -1]), opsets=ALL, const=(1,))
case("Reshape", randn(0, 3, 4), ints([3, 0]), opsets=(14,), const=(1,), allowzero=1)
for axis in (0, 1, 3, -1):
    case("Flatten", randn(2, 3, 4), opsets=(11, 13), axis=axis)
case("Flatten", randn(2, 3, 4), opsets=(9,))
case("Squeeze", randn(2, 1, 3, 1), opsets=(9, 11), axes=[1])
case("Squeeze", randn(2, 1, 3, 1), ints([-1]), opsets=(13,), const=(1,))
case("Squeeze", randn(2, 1, 3, 1), opsets=(9, 13))
case("Unsqueeze", randn(2, 3), opsets=(9, 11), axes=[0, 3])
case("Unsqueeze", randn(2, 3), ints([-1, 1]), opsets=(13,), const=(1,))
case("Transpose", randn(2, 3, 4), opsets=(9, 13), perm=[1, 2, 0])
case("Transpose", randn(2, 3, 4))
case("Concat", randn(2, 3), randn(2, 1), randn(2, 2), opsets=(9, 13), axis=1)
case("Concat", randn(2, 3), axis=-1)
case("Split", randn(6, 5), opsets=(9, 11), outputs=3, axis=0)
case("Split", randn(6, 5), opsets=(9, 11), outputs=2, axis=1, split=[1, 4])
case("Split", randn(6, 5), ints([1, 4]), opsets=(13, 18), const=(1,), outputs=2, axis=1)
case("Split", randn(6, 5), opsets=(18,), outputs=2, axis=1, num_outputs=2)
case("Split", randn(6, 5), opsets=(13,), outputs=1, axis=1)
case("Slice", randn(5, 6, 7), opsets=(9,), starts=[1, -3], ends=[4, 100], axes=[0, 2])
case(
    "Slice",
    randn(5, 6, 7),
    ints([1, -1]),
    ints([4, -100]),
    ints([0, 2]),
    ints([2, -2]),
    opsets=(10, 13),
    const=(1, 2, 3, 4),
)
case("Slice", randn(5, 6, 7), ints([3]), ints([2]), opsets=(11,), const=(1, 2))
case("Slice", randn(5, 6), ints([1]), ints([2**62]), ints([-1]), opsets=(13,), const=(1, 2, 3))
case("Gather", randn(5, 6), ints([[0, -1], [2, 2]]), opsets=(9, 11, 13), axis=1)
case("Gather", randn(5, 6), ints(3), const=(1,), axis=0)
case("Gather", randn(5, 6), ints([-2]), const=(1,), axis=1)
case("GatherElements", randn(2, 6), ints([[0, -1, 3], [2, 2, 0]]), opsets=(11, 13), axis=1)
case("GatherND", randn(3, 4, 5), ints([[0, -1], [2, 2]]), opsets=(11, 12))
case("GatherND", randn(3, 4, 5), ints([[1], [2], [-1]]), opsets=(12,), batch_dims=1)
case("Expand", randn(3, 1), ints([2, 1, 4]), opsets=(9, 13), const=(1,))
case("Expand", randn(3, 4), ints([1]), const=(1,))
case("Tile", randn(3, 2), ints([2, 3]), opsets=(9, 13), const=(1,))
case("Tile", randn(3, 2), ints([1, 1]), const=(1,))
for mode in ("DCR", "CRD"):
    case("DepthToSpace", randn(2, 12, 3, 2), opsets=(11, 13), blocksize=2, mode=mode)
case("DepthToSpace", randn(1, 9, 3, 2), opsets=(9,), blocksize=3)
case("SpaceToDepth", randn(2, 3, 4, 6), opsets=(9, 13), blocksize=2)
case("Pad", randn(3, 4), opsets=(9,), pads=[1, 0, 2, 3], value=1.5)
for mode in ("constant", "reflect", "edge"):
    case("Pad", randn(3, 4), ints([1, 0, 2, 3]), numpy.float32(1.5), opsets=(11, 13, 18), const=(1, 2), mode=mode)
case("Pad", randn(3, 4), ints([4, 5]), None, ints([-1]), opsets=(19,), const=(1, 3), mode="wrap")
case("Trilu", randn(4, 5), opsets=(14,))
case("Trilu", randn(2, 4, 5), ints(-1), opsets=(14,), const=(1,), upper=0)
case("Compress", randn(3, 4), numpy.array([True, False, True]), opsets=(9, 11), const=(1,), axis=0)
case("Compress", randn(3, 2), numpy.array([True, False, True, True]), const=(1,))
case("ReverseSequence", randn(4, 3, 2), ints([1, 4, 2]), opsets=(10,), const=(1,))
case("ReverseSequence", randn(3, 4, 2), ints([1, 4, 2]), const=(1,), time_axis=1, batch_axis=0)
case("OneHot", numpy.array([0, 44, 200], "uint8"), ints(300), numpy.array([0, 1], "float32"), opsets=(11,), const=(1,))
case("OneHot", ints([[0, -1], [2, 5]]), ints(4), numpy.array([0.5, 2], "float32"), opsets=(9, 11), const=(1,), axis=1)
case("NonZero", some_ints(3, 4, low=0, high=2), opsets=(9, 13), const=(0,))
case("ScatterND", randn(4, 3), ints([[1], [-1]]), randn(2, 3), opsets=(11, 18), const=(1,))
case("ScatterElements", randn(4, 3), ints([[1, 2, -1]]), randn(1, 3), opsets=(11, 18), const=(1,), axis=0)
case("ScatterND", randn(4, 3), ints([[1], [-1]]), randn(2, 3), opsets=(11, 18))
case("ScatterElements", randn(4, 3), ints([[1, 2, -1]]), randn(1, 3), opsets=(11, 18), axis=0)
for reduction in ("add", "mul", "max", "min"):
    case("ScatterND", randn(4, 3), ints([[1], [-1], [3]]), randn(3, 3), opsets=(18,), reduction=reduction)
    case("ScatterElements", randn(4, 3), ints([[1, 2], [1, 0]]), randn(2, 2), opsets=(18,), axis=0, reduction=reduction)
# ---- places between pixels ----
BOXES = numpy.array([[1, 1, 5, 6], [0, 2, 7.5, 4], [3, 0, 4, 1]], "float32")
ROIS = [randn(2, 3, 8, 9), BOXES, ints([0, 1, 1])]
for mode in ("avg", "max"):
    for ratio in (0, 2):
        for half in ("half_pixel", "output_half_pixel"):
            case(
                "RoiAlign", *ROIS, opsets=(16, 22), tolerance=1e-4, mode=mode, output_height=2, output_width=3,
                sampling_ratio=ratio, spatial_scale=0.9, coordinate_transformation_mode=half,
            )  # fmt: skip
GRID = _rng.uniform(-1.2, 1.2, (2, 3, 2, 2)).astype("float32")
for padding in ("zeros", "border", "reflection"):
    for mode, opset in (("nearest", 16), ("linear", 20), ("cubic", 22)):
        if (mode, padding) != ("cubic", "border"):  # there ONNX's evaluator is another one than PyTorch
            case(
                "GridSample", randn(2, 3, 4, 5), GRID, opsets=(opset,), tolerance=1e-4, mode=mode,
                padding_mode=padding, align_corners=int(mode == "linear"),
            )  # fmt: skip
# ---- resizing ----
NONE = None
UP, DOWN = numpy.array([1, 1, 2, 3], "float32"), numpy.array([1, 1, 0.6, 0.5], "float32")
case("Upsample", randn(1, 2, 3, 4), UP, opsets=(9,), const=(1,))
for coordinates in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"):
    for scales in (UP, DOWN):
        for mode in ("nearest", "linear", "cubic"):
            case(
                "Resize", randn(1, 2, 7, 8), NONE, scales, opsets=(11, 13, 19), const=(2,),
                coordinate_transformation_mode=coordinates, mode=mode,
            )  # fmt: skip
for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
    case(
        "Resize", randn(1, 2, 7, 8), NONE, NONE, ints([1, 2, 10, 5]), opsets=(11, 19), const=(3,), nearest_mode=rounding
    )
case("Resize", randn(1, 2, 7, 8), NONE, NONE, ints([1, 2, 14, 4]), opsets=(18,), const=(3,), mode="linear")
case(
    "Resize", randn(2, 7, 8), NONE, NONE, ints([4, 5]), opsets=(18,), const=(3,), mode="cubic", axes=[1, 2], antialias=1
)
case("Resize", randn(1, 2, 9, 8), NONE, DOWN, opsets=(18,), const=(2,), mode="linear", antialias=1)
case(
    "Resize", randn(1, 2, 7, 8), NONE, UP, opsets=(11,), const=(2,), mode="cubic", exclude_outside=1, cubic_coeff_a=-0.5
)
case("Resize", randn(1, 2, 7, 8), NONE, NONE, ints([10, 10]), opsets=(18,), const=(3,), axes=[2, 3],
     keep_aspect_ratio_policy="not_larger")  # fmt: skip
case("Resize", randn(1, 1, 5, 5), numpy.array([0, 0, 0.2, 0.3, 1, 1, 0.8, 1.3], "float32"), NONE, ints([1, 1, 3, 4]),
     opsets=(13,), const=(1, 3), mode="linear", coordinate_transformation_mode="tf_crop_and_resize",
     extrapolation_value=7.0)  # fmt: skip
# ---- constants and casts ----
case("Identity", randn(3, 4), opsets=(9, 13))
case("Dropout", randn(3, 4), opsets=(10, 13))
case("Shape", randn(3, 4, 5), opsets=(9, 13))
case("Shape", randn(3, 4, 5), opsets=(15,), start=1, end=-1)
case("Size", randn(3, 4, 5), opsets=(9, 13))
case("ConstantOfShape", ints([2, 3]), opsets=(9,), const=(0,))
case("Range", ints(2), ints(11), ints(3), opsets=(11,), const=(0, 1, 2))
case("Range", numpy.float32(1), numpy.float32(-1), numpy.float32(-0.3), opsets=(11,), const=(0, 1, 2))
case("EyeLike", randn(3, 4), opsets=(9,), k=1)
for to in (6, 7, 9, 10, 2):
    case("Cast", 20 * positive(3, 4), opsets=(9, 13), to=to)
case("Cast", some_ints(3, 4), opsets=(13, 19), to=1)
case("CastLike", randn(3, 4), some_ints(1), opsets=(15, 19))
# ---- recurrent layers ----
for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
    last = 3 if op == "LSTM" else 2
    for direction, count in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
        w, r, b = randn(count, gates * 6, 4), randn(count, gates * 6, 6), randn(count, 2 * gates * 6)
        inputs = [randn(5, 2, 4), w, r, b, None, randn(count, 2, 6)]
        if op == "LSTM":
            inputs.append(randn(count, 2, 6))
        case(op, *inputs, opsets=(9, 14), const=(1, 2, 3), outputs=last, hidden_size=6, direction=direction)
    case(op, randn(5, 2, 4), randn(1, gates * 6, 4), randn(1, gates * 6, 6), const=(1, 2), outputs=last, hidden_size=6)
case("GRU", randn(5, 2, 4), randn(1, 18, 4), randn(1, 18, 6), randn(1, 36), const=(1, 2, 3), hidden_size=6,
     linear_before_reset=1)  # fmt: skip
# ---- quantised ----
U8, S8 = numpy.uint8, numpy.int8


def bytes_of(*shape: int, dtype: Any = U8) -> Any:
    limits = numpy.iinfo(dtype)
    return _rng.integers(limits.min, limits.max + 1, shape).astype(dtype)


F = numpy.float32
case("QuantizeLinear", 3 * randn(3, 4), F(0.05), U8(120), opsets=(10, 13, 21), const=(1, 2), wide=False)
case("QuantizeLinear", 3 * randn(3, 4), F(0.05), opsets=(13,), const=(1,), wide=False)
case(
    "QuantizeLinear",
    3 * randn(3, 4),
    positive(4) / 20,
    bytes_of(4, dtype=S8),
    opsets=(13, 19),
    const=(1, 2),
    wide=False,
)
case(
    "QuantizeLinear",
    3 * randn(3, 4),
    positive(3, 2) / 9,
    bytes_of(3, 2),
    opsets=(21,),
    const=(1, 2),
    block_size=2,
    wide=False,
)
case("DequantizeLinear", bytes_of(3, 4), F(0.05), U8(120), opsets=(19, 21), const=(1, 2))
case(
    "DequantizeLinear", bytes_of(3, 4, dtype=S8), positive(3), bytes_of(3, dtype=S8), opsets=(19,), const=(1, 2), axis=0
)
case("DequantizeLinear", bytes_of(3, 4), positive(3, 2), bytes_of(3, 2), opsets=(21,), const=(1, 2), block_size=2)
case("DequantizeLinear", some_ints(3, 4), F(0.05), opsets=(19,), const=(1,))
WEIGHTS = [bytes_of(4, 3, 3, 3, dtype=S8), positive(4) / 100, bytes_of(4, dtype=S8)]
BIAS = some_ints(4, low=-5000, high=5000)
case("QLinearConv", bytes_of(1, 3, 6, 5), F(0.02), U8(118), *WEIGHTS, F(0.4), U8(130), BIAS, const=range(1, 9),
     pads=[1, 0, 1, 2], wide=False)  # fmt: skip
case("ConvInteger", bytes_of(1, 3, 6, 5), bytes_of(4, 3, 3, 2), U8(118), U8(3), const=(1, 2, 3), strides=[2, 1])
case("ConvInteger", bytes_of(1, 3, 6, 5), bytes_of(4, 3, 3, 2), const=(1,))
case("MatMulInteger", bytes_of(3, 4), bytes_of(4, 5, dtype=S8), U8(118), S8(-3), const=(1, 2, 3))
case("MatMulInteger", bytes_of(2, 3, 4), bytes_of(4, 5), U8(118), const=(1, 2))
case("QLinearMatMul", bytes_of(3, 4), F(0.02), U8(118), bytes_of(4, 5, dtype=S8), F(0.03), S8(-3), F(0.1), U8(99),
     const=(1, 2, 3, 4, 5, 6, 7), wide=False)  # fmt: skip
case("DynamicQuantizeLinear", randn(3, 4), opsets=(11,), outputs=3, wide=False)


# ---- Fourier transforms ----
for _parts in (1, 2):
    for _length in (1, 2, 7, 12, 16):
        case("DFT", randn(2, _length, 3, _parts), opsets=(17, 19))
        case("DFT", randn(2, _length, _parts), opsets=(17,), inverse=1)
        case("DFT", randn(2, 3, _length, _parts), opsets=(20,))
        case("DFT", randn(3, _length, _parts), opsets=(20,), inverse=1)
    case("DFT", randn(4, 3, 5, _parts), opsets=(17,), axis=0)
    case("DFT", randn(4, 3, 5, _parts), opsets=(17,), axis=-2)
    case("DFT", randn(4, 3, 5, _parts), None, ints(0), opsets=(20,), const=(2,))
    for _length in (3, 5, 9):  # cut, whole, and filled up with zeros
        case("DFT", randn(2, 5, 3, _parts), ints(_length), opsets=(17,), const=(1,))
        case("DFT", randn(2, 5, 3, _parts), ints(_length), ints(1), opsets=(20,), const=(1, 2), inverse=1)
for _length in (1, 6, 9):
    case("DFT", randn(2, _length, 1), opsets=(17, 20), onesided=1)
    case("DFT", randn(2, _length, 1), ints(7), opsets=(17, 20), const=(1,), onesided=1)
for _length in (8, 9, 4, 13):
    case("DFT", randn(2, 5, 2), ints(_length), opsets=(17, 20), const=(1,), onesided=1, inverse=1)
case("DFT", randn(2, 5, 2), opsets=(17, 20), onesided=1, inverse=1)
for _length in (1200, 1024, 1999, 2305):  # taken apart; the third is a prime
    case("DFT", randn(1, _length, 1), opsets=(17,), tolerance=2e-4)
    case("DFT", randn(1, _length, 2), opsets=(17,), tolerance=2e-4)
case("DFT", randn(1, 2000, 1), opsets=(20,), onesided=1, tolerance=2e-4)
case("DFT", randn(1, 1001, 2), ints(2000), opsets=(20,), const=(1,), onesided=1, inverse=1)
case("DFT", randn(1, 1001, 2), ints(2001), opsets=(20,), const=(1,), onesided=1, inverse=1)

case("STFT", randn(2, 40, 1), ints(5), None, ints(16), const=(1, 3))
case("STFT", randn(2, 41, 1), ints(4), numpy.hanning(16).astype("float32"), ints(16), const=(1, 2, 3), onesided=0)
case("STFT", randn(1, 41, 1), ints(4), numpy.hanning(15).astype("float32"), const=(1, 2), onesided=1)
case("STFT", randn(1, 41, 1), ints(7), abs(randn(16)), ints(16), const=(1, 3), onesided=1)
case("STFT", randn(1, 41, 2), ints(7), abs(randn(16)), ints(16), const=(1, 3), onesided=0)
case("STFT", randn(1, 3000, 1), ints(160), numpy.hanning(400).astype("float32"), const=(1, 2), onesided=1)
case("STFT", randn(1, 3000, 1), ints(300), abs(randn(1024)), const=(1, 2), onesided=1, tolerance=2e-4)

for _bands, _length, _rate, _low, _high in (
    (8, 16, 8192, 0, 4096),
    (80, 400, 16000, 20, 7600),
    (3, 65, 8000, 100, 900),
):
    case(
        "MelWeightMatrix",
        ints(_bands),
        ints(_length),
        ints(_rate),
        numpy.float32(_low),
        numpy.float32(_high),
        const=range(5),
    )
# ---- places of maxima, runs written, taps at offsets ----
case(
    "MaxUnpool",
    randn(1, 1, 2, 2),
    ints([[[[5, 7], [13, 15]]]]),
    opsets=(9, 11, 22),
    kernel_shape=[2, 2],
    strides=[2, 2],
)
case("TensorScatter", randn(2, 1, 4, 3), randn(2, 1, 2, 3), ints([1, 2]), opsets=(24,))
case(
    "DeformConv", randn(1, 4, 5, 6), randn(2, 4, 3, 3), randn(1, 18, 3, 4), randn(2), positive(1, 9, 3, 4),
    opsets=(19, 22), tolerance=1e-4, kernel_shape=[3, 3], pads=[0, 0, 0, 0],
)  # fmt: skip

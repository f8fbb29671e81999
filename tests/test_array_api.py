"""`pylayout.array_api` beside array-api-strict, the consortium's own implementation of the standard: values and dtypes.

Every function that the namespace has must have cases here; what the standard has beyond it is listed in ABSENT, from
which names go when functions come.
"""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import pylayout as pl

strict = pytest.importorskip("array_api_strict", reason="the package array-api-strict is an extra")

RNG = np.random.default_rng(3)
ARRAYS = {
    "f": RNG.standard_normal((2, 3, 4)).astype("float32"),
    "g": RNG.standard_normal((3, 4)).astype("float32"),
    "u": RNG.uniform(-0.9, 0.9, (5,)).astype("float32"),
    "p": RNG.uniform(1.1, 4.0, (5,)).astype("float32"),
    "s": np.array([0.0, -1.5, 2.5, np.inf, -np.inf, np.nan], "float32"),
    "i": np.array([[3, -4, 5], [-6, 7, 9]], "int32"),
    "j": np.array([2, -3, 4], "int32"),
    "l": np.array([[1, 0], [-2, 5]], "int64"),
    "b": np.array([[True, False, True], [False, False, True]]),
    "c": np.array([True, True, False]),
    "n": np.array([2, 0, 1, 1], "int64"),
    "w": np.array([[[0, 2], [1, 1], [3, 0]]] * 2, "int64"),
}


def _each(name: str, *arrays: str):
    return [lambda xp, a, which=which: getattr(xp, name)(a[which]) for which in arrays]


def _pairs(name: str, *pairs: str):
    return [lambda xp, a, pair=pair: getattr(xp, name)(a[pair[0]], a[pair[1]]) for pair in pairs]


def _reduced(name: str, *arrays: str, also: tuple[dict, ...] = ({"axis": (0, 1)}, {"axis": ()})):
    return [
        lambda xp, a, which=which, keywords=keywords: getattr(xp, name)(a[which], **keywords)
        for which in arrays
        for keywords in ({}, {"axis": 0}, {"axis": -1, "keepdims": True}, *also)
    ]


CASES = {
    **{name: _each(name, "f", "i", "s") for name in ("abs", "negative", "positive", "sign", "square")},
    **{name: _each(name, "u") for name in ("acos", "asin", "atanh")},
    **{name: _each(name, "p") for name in ("acosh", "log", "log2", "log10", "sqrt", "reciprocal")},
    **{name: _each(name, "f") for name in ("asinh", "atan", "cos", "cosh", "exp", "sin", "sinh", "tan", "tanh")},
    **{name: _each(name, "s", "i") for name in ("ceil", "floor", "round", "trunc", "isnan", "isinf", "isfinite")},
    "logical_not": _each("logical_not", "b"),
    **{name: _pairs(name, "fg", "ij") for name in ("add", "multiply", "subtract", "maximum", "minimum")},
    **{name: _pairs(name, "fg", "ij", "ss") for name in ("equal", "not_equal", "less", "less_equal", "greater")},
    "greater_equal": _pairs("greater_equal", "fg", "ij", "ss"),
    "divide": _pairs("divide", "fg"),
    "floor_divide": _pairs("floor_divide", "ij", "fg"),
    "remainder": _pairs("remainder", "ij", "fg"),
    "pow": [*_pairs("pow", "pu"), lambda xp, a: xp.pow(a["i"], 2)],
    **{name: _pairs(name, "bc") for name in ("logical_and", "logical_or", "logical_xor")},
    **{name: _pairs(name, "ij", "bc") for name in ("bitwise_and", "bitwise_or", "bitwise_xor")},
    "bitwise_left_shift": [lambda xp, a: xp.bitwise_left_shift(a["i"], xp.abs(a["j"]))],
    "bitwise_right_shift": [lambda xp, a: xp.bitwise_right_shift(a["i"], xp.abs(a["j"]))],
    "bitwise_invert": _each("bitwise_invert", "i", "b"),
    "clip": [
        lambda xp, a: xp.clip(a["f"], -0.5, 0.5),
        lambda xp, a: xp.clip(a["i"], max=4),
        lambda xp, a: xp.clip(a["f"]),
    ],
    "asarray": [lambda xp, a: xp.asarray([[1, 2], [3, 4]]), lambda xp, a: xp.asarray(True)],
    "from_dlpack": [lambda xp, a: xp.from_dlpack(ARRAYS["f"].copy())],
    "arange": [lambda xp, a: xp.arange(2, 9, 3), lambda xp, a: xp.arange(4, dtype=xp.float32)],
    "empty": [lambda xp, a: xp.empty((2, 3), dtype=xp.int32) * 0],
    "empty_like": [lambda xp, a: xp.empty_like(a["i"]) * 0],
    "zeros": [lambda xp, a: xp.zeros((2, 0, 3), dtype=xp.int64), lambda xp, a: xp.zeros(3, dtype=xp.bool)],
    "ones": [lambda xp, a: xp.ones((2, 3), dtype=xp.float32)],
    "full": [lambda xp, a: xp.full((2, 3), 7), lambda xp, a: xp.full((2,), True)],
    "zeros_like": _each("zeros_like", "i"),
    "ones_like": _each("ones_like", "f"),
    "full_like": [lambda xp, a: xp.full_like(a["i"], 3)],
    "linspace": [
        lambda xp, a: xp.linspace(0, 1, 5, dtype=xp.float32),
        lambda xp, a: xp.linspace(0, 1, 4, dtype=xp.float32, endpoint=False),
    ],
    "eye": [lambda xp, a: xp.eye(3, 4, k=1, dtype=xp.float32)],
    "tril": [lambda xp, a: xp.tril(a["f"]), lambda xp, a: xp.tril(a["g"], k=1)],
    "triu": [lambda xp, a: xp.triu(a["f"]), lambda xp, a: xp.triu(a["i"], k=-1)],
    "broadcast_to": [lambda xp, a: xp.broadcast_to(a["g"], (2, 3, 4))],
    "broadcast_shapes": [lambda xp, a: xp.asarray(xp.broadcast_shapes((2, 1), (3,)))],
    "broadcast_arrays": [lambda xp, a: xp.broadcast_arrays(a["f"], a["g"])[1]],
    "concat": [lambda xp, a: xp.concat([a["g"], a["g"]], axis=1), lambda xp, a: xp.concat([a["i"], a["j"]], axis=None)],
    "stack": [lambda xp, a: xp.stack([a["g"], a["g"]], axis=-1)],
    "unstack": [lambda xp, a: xp.unstack(a["f"], axis=1)[2]],
    "expand_dims": [lambda xp, a: xp.expand_dims(a["g"], axis=1)],
    "squeeze": [lambda xp, a: xp.squeeze(xp.expand_dims(a["g"], axis=1), axis=1)],
    "flip": [lambda xp, a: xp.flip(a["f"]), lambda xp, a: xp.flip(a["i"], axis=(0, 1))],
    "permute_dims": [lambda xp, a: xp.permute_dims(a["f"], (2, 0, 1))],
    "matrix_transpose": _each("matrix_transpose", "f"),
    "moveaxis": [lambda xp, a: xp.moveaxis(a["f"], 0, -1), lambda xp, a: xp.moveaxis(a["f"], (0, 1), (2, 0))],
    "reshape": [lambda xp, a: xp.reshape(a["f"], (4, -1)), lambda xp, a: xp.reshape(a["f"], (24,), copy=True)],
    "roll": [lambda xp, a: xp.roll(a["f"], 3), lambda xp, a: xp.roll(a["f"], (1, -1), axis=(0, 2))],
    "tile": [lambda xp, a: xp.tile(a["g"], (2, 1, 3)), lambda xp, a: xp.tile(a["f"], (2,))],
    "sum": _reduced("sum", "f", "i"),
    "prod": _reduced("prod", "f", "i"),
    "mean": _reduced("mean", "f"),
    "max": _reduced("max", "f", "i"),
    "min": _reduced("min", "f", "i"),
    "var": [*_reduced("var", "f"), lambda xp, a: xp.var(a["f"], axis=(0, 2), correction=1)],
    "std": _reduced("std", "f"),
    "all": _reduced("all", "b"),
    "any": _reduced("any", "b"),
    "count_nonzero": _reduced("count_nonzero", "l"),
    "cumulative_sum": [
        lambda xp, a: xp.cumulative_sum(a["f"], axis=1),
        lambda xp, a: xp.cumulative_sum(a["j"], include_initial=True),
    ],
    "argmax": _reduced("argmax", "f", also=()),
    "argmin": _reduced("argmin", "f", also=()),
    "where": [lambda xp, a: xp.where(a["b"], a["i"], a["j"]), lambda xp, a: xp.where(a["b"], a["i"], 0)],
    "take": [lambda xp, a: xp.take(a["f"], a["n"], axis=1)],
    "take_along_axis": [lambda xp, a: xp.take_along_axis(a["f"], a["w"])],
    "matmul": [lambda xp, a: xp.matmul(a["f"], xp.matrix_transpose(a["g"])), lambda xp, a: xp.matmul(a["u"], a["p"])],
    "tensordot": [
        lambda xp, a: xp.tensordot(a["f"], a["g"]),
        lambda xp, a: xp.tensordot(a["f"], a["g"], axes=((2,), (1,))),
    ],
    "vecdot": _pairs("vecdot", "fg"),
    "astype": [
        lambda xp, a: xp.astype(a["s"][:3], xp.int32),
        lambda xp, a: xp.astype(a["b"], xp.float32),
        lambda xp, a: xp.astype(xp.astype(a["i"], xp.uint8), xp.int32),
    ],
}

# Functions of answers that are no tensors.
ANSWERS = {
    "can_cast": [lambda xp: xp.can_cast(xp.int8, xp.int32), lambda xp: xp.can_cast(xp.float32, xp.int32)],
    "finfo": [lambda xp: [getattr(xp.finfo(xp.float32), name) for name in ("bits", "max", "eps", "smallest_normal")]],
    "iinfo": [lambda xp: (xp.iinfo(xp.int8).min, xp.iinfo(xp.int64).max)],
    "isdtype": [
        lambda xp: [xp.isdtype(xp.int8, kind) for kind in ("bool", "integral", "unsigned integer", "numeric")],
        lambda xp: xp.isdtype(xp.float32, ("integral", xp.float32)),
    ],
    "result_type": [
        lambda xp: xp.result_type(xp.int8, xp.int32) == xp.int32,
        lambda xp: xp.result_type(xp.asarray([1.0], dtype=xp.float32), 2) == xp.float32,
    ],
    "__array_namespace_info__": [lambda xp: xp.__array_namespace_info__().capabilities()["max dimensions"] > 1],
}

ABSENT = {
    *("argsort", "atan2", "complex128", "complex64", "conj", "copysign", "cumulative_prod", "diff", "expm1", "float64"),
    *("hypot", "imag", "int16", "isin", "log1p", "logaddexp", "meshgrid", "nextafter", "nonzero", "real", "repeat"),
    *("searchsorted", "signbit", "sort", "uint16", "uint32", "uint64", "unique_all", "unique_counts"),
    *("unique_inverse", "unique_values"),
}


def standard_names() -> set[str]:
    """What array-api-strict has, without what is its own."""
    own = {"ArrayAPIStrictFlags", "Device", "ModuleType"}
    return {name for name in dir(strict) if not name.startswith("_") and name not in own and "strict_flags" not in name}


def functions_here() -> set[str]:
    found = inspect.getmembers(pl.array_api, inspect.isfunction)
    return {name for name, _ in found if name in standard_names() or name == "__array_namespace_info__"}


def numbers(x) -> np.ndarray:
    return np.asarray(x) if isinstance(x, pl.Tensor) else np.from_dlpack(x)


@pytest.mark.parametrize("name", CASES)
def test_values_and_dtypes_are_the_standards(name, unoptimised):
    for number, case in enumerate(CASES[name]):
        ours = case(pl.array_api, {key: pl.asarray(array) for key, array in ARRAYS.items()})
        theirs = numbers(case(strict, {key: strict.asarray(array) for key, array in ARRAYS.items()}))
        what = f"{name}, case {number}"
        assert isinstance(ours, pl.Tensor) and ours.dtype == theirs.dtype, what
        np.testing.assert_allclose(numbers(ours), theirs, rtol=2e-5, atol=1e-6, err_msg=what)


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_are_the_standards(name):
    for case in ANSWERS[name]:
        assert case(pl.array_api) == case(strict)


@pytest.mark.parametrize("name", ["sum", "prod", "cumulative_sum"])
@pytest.mark.parametrize("array", [[200, 100, 7], []])
def test_sums_of_small_integers_are_modulo_256(name, array):
    x = pl.asarray(np.array(array, "uint8"))
    ours = getattr(pl.array_api, name)(x, dtype=pl.uint8)
    numpys = {"cumulative_sum": np.cumsum}.get(name) or getattr(np, name)
    assert ours.dtype is pl.u8 and np.array_equal(np.asarray(ours), numpys(np.array(array, "uint8"), dtype="uint8"))


def test_a_dtype_equals_no_other_object():
    assert pl.f32 != {"name": "abs"} and pl.f32 != [("a", 1)] and pl.f32 != object()
    with pytest.raises(pl.ArgumentTypeError, match="dtype is"):
        pl.dtype_of({"name": "abs"})


def test_limits_are_pythons_numbers():
    assert type(pl.array_api.finfo(pl.float32).eps) is float and pl.array_api.finfo(pl.float32).dtype is pl.f32
    assert pl.array_api.finfo(pl.bf16).max > 3e38
    assert type(pl.array_api.broadcast_arrays(pl.asarray(1.0), pl.asarray([1.0, 2.0]))) is list


def test_every_function_has_cases():
    assert functions_here() == {*CASES, *ANSWERS}


def test_what_is_absent_is_listed():
    assert {name for name in standard_names() if not hasattr(pl.array_api, name)} == ABSENT


def test_parameters_are_the_standards():
    for name in CASES:
        ours, theirs = (inspect.signature(getattr(xp, name)).parameters for xp in (pl.array_api, strict))
        missing = [
            key for key, parameter in theirs.items() if parameter.kind is parameter.KEYWORD_ONLY and key not in ours
        ]
        assert not missing, name


def test_a_tensor_gives_its_namespace():
    x = pl.asarray([1.0, 2.0])
    assert x.__array_namespace__() is pl.array_api
    assert x.__array_namespace__(api_version="2023.12") is pl.array_api
    with pytest.raises(ValueError, match="api_version is '2019'"):
        x.__array_namespace__(api_version="2019")
    assert x.to_device("cpu").device == "cpu"
    with pytest.raises(pl.ArgumentTypeError, match="stream"):
        x.to_device("cpu", stream=1)


def test_a_program_written_to_the_standard_runs(unoptimised):
    def standardise(x):
        xp = x.__array_namespace__()
        return (x - xp.mean(x, axis=0, keepdims=True)) / xp.std(x, axis=0, keepdims=True)

    given = ARRAYS["g"]
    expected = (given - given.mean(0)) / given.std(0)
    np.testing.assert_allclose(np.asarray(standardise(pl.asarray(given))), expected, rtol=1e-4, atol=1e-5)


def test_what_the_standard_refuses_is_refused():
    xp = pl.array_api
    with pytest.raises(ValueError, match="squeeze: axis is 0"):
        xp.squeeze(xp.zeros((2, 3)), axis=0)
    with pytest.raises(pl.ArgumentTypeError, match="add: arguments are Tensor and str"):
        xp.add(xp.zeros(2), "one")
    with pytest.raises(pl.UnsupportedError, match="x is u8"):
        xp.sum(xp.zeros(2, dtype=xp.uint8))
    with pytest.raises(ValueError, match="cumulative_sum: x has rank 2"):
        xp.cumulative_sum(xp.zeros((2, 2)))

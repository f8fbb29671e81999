"""Gradients of every op along random directions, against differences of its results in float64, in every layout.

The loss is a sum of results times random weights. Along a direction v of one input its slope is (loss(x + h v) -
loss(x - h v)) / 2h, by the call of the case in float64 alone: nothing here derives anything but the library. Draws at
which a result has a corner or a step near x are not taken (`bends`), so that slopes exist.
"""

from __future__ import annotations

import zlib
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from gradient_graphs import NOT_BY, build, call_in_pytorch, derived_by, is_real
from op_cases import CASES, Case, tensor_parameters

import pylayout as pl
from pylayout.calls import schemas

torch = pytest.importorskip("torch", reason="the calls in float64 are PyTorch's")

pytestmark = pytest.mark.usefixtures("unoptimised")

# Ops of which no case has differences, and why.
NOT_BY_DIFFERENCES: dict[str, str] = {}
# Words of cases' names that have no differences, by op, and why.
WITHOUT_SLOPE = {
    ("topk", "ties"): "of equal elements one is taken: a corner at every draw",
    ("topk", "NaN"): "equal elements, and NaN",
    ("scatter", "equal"): "the largest of equal elements: a corner at every draw",
    ("scatter_nd", "equal"): "the largest of equal elements: a corner at every draw",
    ("scaled_dot_product_attention", "lowest"): "a step is lost in a mask of the lowest number of f32",
}
# What a result is without its rounding, which has steps everywhere: the gradient goes straight through.
UNROUNDED = {"cast": lambda tensors: [tensors[0]]}

# Ops whose data are put so that no two are near: a thousandth apart, in the order in which they were drawn.
APART = {"topk"}

STEP = 1e-5  # of an input along a direction whose elements are of size 1
DRAWS = 40
LARGEST = 40_000  # elements of an input: larger ones take long, and add no way to be wrong
LAYOUTS = ["NCHW", "NHWC", "nChw16c"]


def drawn(case: Case, seed: int) -> list[np.ndarray | None]:
    tensors = case.make(seed=100 + seed)
    if case.op in APART and is_real(tensors[0]):
        order = tensors[0].reshape(-1).argsort().argsort().reshape(tensors[0].shape)
        tensors[0] = ((order - order.size / 2) / 1000).astype("f4")
    return tensors


def has_a_slope(case: Case) -> bool:
    tensors = case.make()
    if any(case.op == op and word in case.name for op, word in WITHOUT_SLOPE):
        return False
    if case.attributes.get("dtype") in ("s8", "u8", "s32", "s64", "bool"):
        return False
    return all(t is None or 0 < t.size <= LARGEST for t in tensors) and bool(derived_by(case, tensors))


def takes_images(case: Case) -> bool:
    return any(t is not None and 3 <= t.ndim <= 5 for t in case.make())


DIFFERENTIABLE = [name for name, schema in schemas().items() if schema["differentiable"]]
CHOSEN = [case for case in CASES if schemas()[case.op]["differentiable"] and has_a_slope(case)]


def in_layouts(elementwise: bool) -> list[Any]:
    """The place of each case among those chosen, and each layout; the first of an op is in another from op to op.

    Of a case that is not its op's first, all layouts but one are slow.
    """
    turns: Counter[str] = Counter()
    found = []
    for number, case in enumerate(CHOSEN):
        if schemas()[case.op]["elementwise"] != elementwise:
            continue
        layouts = LAYOUTS if takes_images(case) else LAYOUTS[:1]
        first = (DIFFERENTIABLE.index(case.op) + turns[case.op]) % len(layouts)
        for k, layout in enumerate(layouts[first:] + layouts[:first]):
            marks = [pytest.mark.slow] if turns[case.op] and k else []
            found.append(pytest.param(case, number, layout, id=f"{case.name}-{layout}", marks=marks))
        turns[case.op] += 1
    return found


def results_in_float64(case: Case, tensors: list[np.ndarray | None]) -> list[np.ndarray]:
    given = [None if t is None else torch.from_numpy(t.astype("f8") if is_real(t) else t) for t in tensors]
    with torch.no_grad():
        made = UNROUNDED[case.op](given) if case.op in UNROUNDED else call_in_pytorch(case, given)
    return [y.numpy() if y.is_floating_point() else np.zeros(y.shape) for y in made]  # integers are chosen, not moved


def bends(points: list[np.ndarray]) -> bool:
    """Whether a result has a corner or a step between these five places on a line.

    Second differences before, around and behind the middle are alike of a smooth function. Of one with a corner at a
    distance d from the middle, 0 <= d < h, they are proportional to min(d, h - d), max(0, h / 2 - d) and 0.
    """
    a, b, c, d, e = points
    found = np.stack([c - 2 * b + a, d - 2 * c + b, e - 2 * d + c])
    noise = 1e-9 * max(1.0, float(np.abs(c).max(initial=0)))
    return bool((np.ptp(found, 0) > 2e-2 * np.abs(found).max(0) + noise).any())


@dataclass
class Slopes:
    tensors: list[np.ndarray | None]
    by: list[int]
    graph: pl.Graph  # it gives the gradients
    directions: list[np.ndarray]
    slopes: list[float]


def moved(tensors: list[np.ndarray | None], i: int, offset: np.ndarray) -> list[np.ndarray | None]:
    """In float64: a tensor that is moved is no longer float32, and the others are widened by the call."""
    return [t.astype("f8") + offset if k == i and t is not None else t for k, t in enumerate(tensors)]


@lru_cache(maxsize=8)
def slopes_of(number: int) -> Slopes:
    """Of a case: the first draw of tensors at which no result has a corner along the directions."""
    case = CHOSEN[number]
    rng = np.random.default_rng(zlib.crc32(case.name.encode()))
    for seed in range(DRAWS):
        tensors = drawn(case, seed)
        by = derived_by(case, tensors)
        here = results_in_float64(case, tensors)
        graph, weights = build(case, tensors, by, rng)
        directions, slopes = [], []
        for i in by:
            directions.append(rng.standard_normal(tensors[i].shape))
            places = [
                results_in_float64(case, moved(tensors, i, directions[-1] * STEP * part)) if part else here
                for part in (-1, -0.5, 0, 0.5, 1)
            ]
            if any(bends(list(points)) for points in zip(*places, strict=True)):
                break
            losses = [sum(float((y * w).sum()) for y, w in zip(ys, weights, strict=True)) for ys in places]
            # By both steps: what the third derivative adds is four times as large for the longer one.
            slopes.append((4 * (losses[3] - losses[1]) / STEP - (losses[4] - losses[0]) / (2 * STEP)) / 3)
        else:
            return Slopes(tensors, by, graph, directions, slopes)
    raise AssertionError(f"{case.name}: {DRAWS} draws, each with a corner; take others, or say why in WITHOUT_SLOPE")


@pytest.mark.one_in(1000)  # on OpenCL devices one call of each op, as kernels are built for each
@pytest.mark.parametrize(("case", "number", "layout"), in_layouts(elementwise=False))
def test_along_a_line(case: Case, number: int, layout: str, device: str) -> None:
    check_along_a_line(case, number, layout, device)


@pytest.mark.one_in(13)  # of all of these ops together: most are one kernel with another function
@pytest.mark.parametrize(("function", "number", "layout"), in_layouts(elementwise=True))
def test_functions_along_a_line(function: Case, number: int, layout: str, device: str) -> None:
    check_along_a_line(function, number, layout, device)


def check_along_a_line(case: Case, number: int, layout: str, device: str) -> None:
    expected = slopes_of(number)
    plan = pl.compile(expected.graph, tune="off", device=device, layout=layout)
    found = [np.array(gradient) for gradient in plan.run()]
    again = plan.run()
    names = tensor_parameters(case.op)
    for i, gradient, direction, slope, repeated in zip(
        expected.by, found, expected.directions, expected.slopes, again, strict=True
    ):
        what = f"{case.name} by {names[0 if case.variadic else i]} in {layout}"
        assert gradient.shape == expected.tensors[i].shape, what
        # As each element may be off by the tolerance times the largest, in either direction.
        off = max(case.tolerance, 2e-5) * max(1.0, float(np.abs(gradient).max())) * float(np.linalg.norm(direction))
        assert abs(float((gradient.astype("f8") * direction).sum()) - slope) <= off, what
        assert gradient.tobytes() == np.asarray(repeated).tobytes(), f"{what}: the second run gives other bits"


def test_every_differentiable_op_has_a_case() -> None:
    missing = set(DIFFERENTIABLE) - {case.op for case in CHOSEN}
    assert missing == set(NOT_BY_DIFFERENCES), "a case of op_cases with a slope, or a reason in NOT_BY_DIFFERENCES"
    used = {(op, word) for op, word in WITHOUT_SLOPE for case in CASES if case.op == op and word in case.name}
    assert used == set(WITHOUT_SLOPE), "of no case"


def test_every_input_is_moved_in_a_case() -> None:
    """Each tensor of floating numbers of these ops, but for those that gradients are not given by."""
    moved_in: dict[str, set[str]] = {}
    for case in CHOSEN:
        names = tensor_parameters(case.op)
        found = {names[0 if case.variadic else i] for i in derived_by(case, case.make())}
        moved_in.setdefault(case.op, set()).update(found)
    missing = {}
    for op, found in moved_in.items():
        tensors = [p for p in schemas()[op]["parameters"] if p["kind"] != "attribute"]
        floating = {p["name"] for p in tensors if "f32" in p["dtypes"] or p["like"]}
        missing[op] = floating - found - NOT_BY.get(op, set())
    assert {op: names for op, names in missing.items() if names} == {}


@pytest.mark.parametrize(
    ("function", "bent"),
    [
        (np.tanh, False),
        (np.exp, False),
        (lambda x: x**3, False),
        (np.abs, True),
        (np.round, True),
        (lambda x: np.maximum(x, 0.3 * x), True),
    ],
)
@pytest.mark.parametrize("distance", [0.0, 0.2, 0.25, 1 / 3, 0.5, 0.7, 0.95])
def test_corners_are_seen(function: Any, bent: bool, distance: float) -> None:
    """Wherever between the places they lie; one at 0 or, of rounding, at 0.5."""
    middle = (0.5 if function is np.round else 0.0) - distance * STEP
    points = [function(np.array([middle + part * STEP, 2.25])) for part in (-1, -0.5, 0, 0.5, 1)]
    assert bends(points) == bent


# Convolutions, whose gradients have kernels of their own in 16 bits.
IN_HALF = [
    (number, case)
    for number, case in enumerate(CHOSEN)
    if case.op.startswith("conv") and not case.attributes.keys() & {"activation", "post_ops"}
]
UNITS = {"f16": 2.0**-11, "bf16": 2.0**-8}


def rounded(values: np.ndarray, dtype: str) -> np.ndarray:
    return np.asarray(pl.asarray(values).to(dtype=dtype).to(dtype="f32"))


@lru_cache(maxsize=8)
def exact_gradients(number: int, dtype: str) -> tuple[pl.Graph, list[np.ndarray]]:
    """Of tensors that the dtype holds: a graph in that dtype, and its gradients by PyTorch in float64."""
    case = CHOSEN[number]
    tensors = [None if t is None else rounded(t, dtype) for t in case.make(seed=7)]
    by = derived_by(case, tensors)
    graph = pl.Graph()
    values: list[Any] = list(tensors)
    narrow: list[Any] = list(tensors)
    for i in by:
        values[i] = graph.parameter(f"t{i}", tensors[i])
        narrow[i] = graph.cast(values[i], dtype=dtype)
    y = graph.op(case.op, **dict(zip(tensor_parameters(case.op), narrow, strict=False)), **case.attributes)
    weights = rounded(np.random.default_rng(number).standard_normal(y.shape).astype("f4"), dtype)
    loss = graph.sum(graph.cast(y, dtype="f32") * weights)
    for i, gradient in zip(by, graph.gradients(loss, [values[i] for i in by]), strict=True):
        graph.output(gradient, f"d{i}")
    wide = [None if t is None else torch.from_numpy(t.astype("f8")).requires_grad_() for t in tensors]
    total = (call_in_pytorch(case, wide)[0] * torch.from_numpy(weights.astype("f8"))).sum()
    found = torch.autograd.grad(total, [wide[i] for i in by])
    return graph, [gradient.numpy() for gradient in found]


@pytest.mark.one_in(16)
@pytest.mark.parametrize("dtype", list(UNITS))
@pytest.mark.parametrize(("number", "case"), IN_HALF, ids=[f"{case.name}-{number}" for number, case in IN_HALF])
def test_of_convolutions_in_16_bits(number: int, case: Case, dtype: str, device: str) -> None:
    """By products of 16 bits that are summed in f32: each is exact, and results are rounded once.

    Plans would compute in f32 where a processor does not multiply 16 bits; here they do where there is a kernel at all.
    """
    graph, expected = exact_gradients(number, dtype)
    try:
        plan = pl.compile(graph, tune="off", device=device, without="widen")
    except pl.UnsupportedError:
        plan = pl.compile(graph, tune="off", device=device)
    found = [np.array(gradient) for gradient in plan.run()]
    for gradient, exact, again in zip(found, expected, plan.run(), strict=True):
        scale = max(1.0, float(np.abs(exact).max()))
        np.testing.assert_allclose(gradient, exact, rtol=UNITS[dtype], atol=2e-5 * scale, err_msg=case.name)
        assert gradient.tobytes() == np.asarray(again).tobytes(), "the second run gives other bits"

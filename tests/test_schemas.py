"""What schemas state of dtypes, results, axes and values is true: each rule against the op itself, over all cases."""

from __future__ import annotations

import contextlib
import itertools
import re
from typing import Any

import numpy as np
import pytest
from op_cases import CASES, Case, tensor_parameters

import pylayout as pl
from pylayout import ops
from pylayout._load import ffi, lib
from pylayout.calls import Attributes, attribute_text, schemas
from pylayout.context import handle as context_handle
from pylayout.errors import check

CASE_IDS = [case.name for case in CASES]
# An attribute's value that is none of a dtype: no rule of dtypes.
VALUES_OF_DTYPES = ("pad: value is", "pointwise: scalars holds", "needs a floating dtype", "needs integers")
DTYPES = ["f32", "f16", "bf16", "s8", "u8", "s32", "s64", "bool"]


def inputs_of(case: Case, count: int) -> list[dict[str, Any]]:
    """The parameter of each input."""
    parameters = [p for p in schemas()[case.op]["parameters"] if p["kind"] != "attribute"]
    return parameters * count if case.variadic else parameters[:count]


def dtype_of(array: np.ndarray) -> str:
    return {"b": "bool", "i": f"s{8 * array.itemsize}", "u": "u8", "f": "f32"}[array.dtype.kind]


def value_of(case: Case, attribute: str) -> Any:
    for parameter in schemas()[case.op]["parameters"]:
        if parameter["name"] == attribute:
            return case.attributes.get(attribute, parameter.get("default"))
    return None


def admits(case: Case, dtypes: list[str | None]) -> bool:
    """Whether the schema's rules take these dtypes."""
    parameters = inputs_of(case, len(dtypes))
    names = [p["name"] for p in parameters]
    for parameter, dtype in zip(parameters, dtypes, strict=True):
        if dtype is None or dtype in parameter["dtypes"]:
            continue
        if parameter["like"] == parameter["name"] and parameter["dtypes"]:  # several that need not be alike
            return False
        like = dtypes[names.index(parameter["like"])] if parameter["like"] in names else dtype
        if not parameter["like"] or like not in (None, dtype):
            return False
    for rule in schemas()[case.op]["restrictions"]:
        given = dtypes[names.index(rule["input"])] if rule["input"] in names else None
        if given is not None and value_of(case, rule["attribute"]) in rule["values"] and given not in rule["dtypes"]:
            return False
    post_ops = schemas()[case.op]["post_ops"]
    steps = re.findall(r"(\w+)(?:\([^)]*\))?", str(value_of(case, "post_ops") or value_of(case, "activation") or ""))
    integers_have_all = set(steps) <= {*post_ops["of_integers"], "add"}
    any_dtype = not post_ops["taken"] or post_ops["of_reals"]
    return any_dtype or integers_have_all or dtypes[0] in ("f32", "f16", "bf16")


def results_of(case: Case, dtypes: list[str | None]) -> list[dict[str, Any]]:
    names = [p["name"] for p in inputs_of(case, len(dtypes))]
    given = {name for name, dtype in zip(names, dtypes, strict=True) if dtype is not None}
    return [r for r in schemas()[case.op]["results"] if not r["only_with"] or r["only_with"] in given]


def result_dtypes(case: Case, dtypes: list[str | None], count: int) -> list[str]:
    """What the rules say of the results."""
    names = [p["name"] for p in inputs_of(case, len(dtypes))]
    known = dict(zip(reversed(names), reversed(dtypes), strict=True))  # of a list the first
    rules = results_of(case, dtypes)
    if rules[-1]["many"]:
        rules = rules + [rules[-1]] * (count - len(rules))
    found = []
    for rule in rules:
        named = value_of(case, rule["dtype_attribute"]) if rule["dtype_attribute"] else None
        taken = [known[name] for name in rule["dtype_inputs"] if known.get(name) is not None]
        found.append(pl.dtypes.dtype_of(named).name if named else taken[0] if taken else rule["dtype"])
    return found


def as_list(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def tensors_of(case: Case) -> list[np.ndarray | None]:
    """The op's own: what a case has beyond them is for its reference."""
    tensors = case.make()
    return tensors if case.variadic else tensors[: len(tensor_parameters(case.op))]


def add_to(graph: pl.Graph, case: Case, values: list[Any]) -> Any:
    if case.variadic:
        return graph.op(case.op, values, **case.attributes)
    return graph.op(case.op, **dict(zip(tensor_parameters(case.op), values, strict=False)), **case.attributes)


def in_graph(case: Case, tensors: list[np.ndarray | None], dtypes: list[str | None]) -> list[Any]:
    """The op's results in a graph whose inputs are of these dtypes."""
    graph = pl.Graph()
    values = [
        None if t is None else graph.input(f"x{i}", t.shape, dtype=str(dtype))
        for i, (t, dtype) in enumerate(zip(tensors, dtypes, strict=True))
    ]
    return as_list(add_to(graph, case, values))


def test_every_schema_has_rules_for_its_results() -> None:
    assert [name for name, schema in schemas().items() if not schema["results"]] == []


@pytest.mark.parametrize("case", CASES, ids=CASE_IDS)
def test_dtypes_follow_the_rules(case: Case) -> None:
    """Each input in each dtype, alone and with those that go with it: taken or refused, and the results' dtypes."""
    tensors = tensors_of(case)
    own = [None if t is None else dtype_of(t) for t in tensors]
    parameters = inputs_of(case, len(tensors))
    assert admits(case, own), "the case itself"
    for place, dtype in itertools.product(range(len(tensors)), DTYPES):
        if tensors[place] is None:
            continue
        alone = [dtype if i == place else known for i, known in enumerate(own)]
        together = [
            dtype if known is not None and parameters[place]["name"] in (p["name"], p["like"]) else known
            for p, known in zip(parameters, own, strict=True)
        ]
        for asked in (alone, together):
            if not admits(case, asked):
                with pytest.raises((pl.UnsupportedError, pl.InvalidArgumentError), match="dtype"):
                    in_graph(case, tensors, asked)
                continue
            try:
                made = in_graph(case, tensors, asked)
            except pl.InvalidArgumentError as problem:
                assert any(text in str(problem) for text in VALUES_OF_DTYPES)
                continue
            assert [value.dtype for value in made] == result_dtypes(case, asked, len(made)), asked


@pytest.mark.parametrize("case", CASES, ids=CASE_IDS)
def test_shapes_follow_the_rules(case: Case) -> None:
    tensors = tensors_of(case)
    made = in_graph(case, tensors, [None if t is None else dtype_of(t) for t in tensors])
    rules = results_of(case, [None if t is None else "f32" for t in tensors])
    assert len(made) >= len(rules) if rules[-1]["many"] else len(made) == len(rules)
    names = [p["name"] for p in inputs_of(case, len(tensors))]
    for value, rule in zip(made, rules, strict=False):
        if rule["shape"] == "like":
            source = tensors[names.index(rule["shape_input"])]
            assert source is not None and value.shape == source.shape
        elif rule["shape"] == "broadcast":
            assert value.shape == np.broadcast_shapes(*[t.shape for t in tensors if t is not None])


def batches_apart(case: Case, tensors: list[np.ndarray | None], batched: tuple[int, ...]) -> bool:
    """Whether a plan runs the images one by one; if so, checks that this changes nothing."""
    graph = pl.Graph()
    values: list[Any] = []
    for i, tensor in enumerate(tensors):
        known = None if tensor is None else dtype_of(tensor)
        if tensor is not None and i in batched:
            values.append(graph.input(f"x{i}", tensor.shape, dtype=str(known)))
        else:
            values.append(None if tensor is None else graph.constant(tensor))
    for k, value in enumerate(as_list(add_to(graph, case, values))):
        graph.output(value, f"y{k}")
    given = [tensors[i] for i in batched]
    try:
        apart = pl.compile(graph, device="cpu", slice=1, tune="off")
    except pl.UnsupportedError as problem:
        assert "cannot be run apart" in str(problem)
        return False
    whole = pl.compile(graph, device="cpu", tune="off")
    for one, all_of_them in zip(apart.run(*given), whole.run(*given), strict=True):
        expected = np.asarray(all_of_them)
        if expected.dtype.kind in "biu":
            np.testing.assert_array_equal(np.asarray(one), expected)
        else:
            scale = max(1.0, float(np.abs(expected).max(initial=0)))
            np.testing.assert_allclose(np.asarray(one), expected, rtol=0, atol=1e-4 * scale)
    return True


def of_two_images(case: Case) -> list[np.ndarray | None]:
    """The tensors of a case of one image, where they hold a batch, for two of them; the others as they are."""
    tensors = tensors_of(case)
    parameters = inputs_of(case, len(tensors))
    return [
        t if t is None or not t.ndim or t.shape[0] != 1 or p["batch"] != "always" else np.concatenate([t, t[..., ::-1]])
        for t, p in zip(tensors, parameters, strict=True)
    ]


def test_images_are_apart_where_the_rules_say_so(unoptimised: Any) -> None:
    """Every choice of inputs that hold a batch; and every op that has a rule keeps images apart in some case."""
    found = set()
    for case, tensors in itertools.chain.from_iterable(((c, tensors_of(c)), (c, of_two_images(c))) for c in CASES):
        places = [i for i, t in enumerate(tensors) if t is not None and t.ndim]
        for size in sorted({tensors[i].shape[0] for i in places if tensors[i].shape[0] > 1}):  # type: ignore[union-attr]
            alike = [i for i in places if tensors[i].shape[0] == size]  # type: ignore[union-attr]
            for count in range(1, len(alike) + 1):
                for batched in itertools.combinations(alike, count):
                    with contextlib.suppress(pl.ShapeError):  # another input or attribute states the one image
                        if batches_apart(case, tensors, batched):
                            found.add(case.op)
    stated = {
        name
        for name, schema in schemas().items()
        if schema["elementwise"] or any(p.get("batch", "never") != "never" for p in schema["parameters"])
    }
    assert found <= stated
    assert stated - found == set(), "no case shows that these keep images apart"


def run_into(case: Case, tensors: list[pl.Tensor | None], place: int) -> pl.Tensor:
    """The op's result, written where input `place` lies."""
    handles = ffi.new("pl_tensor[]", [ffi.NULL if t is None else t._handle for t in tensors])
    outputs = ffi.new("pl_tensor[1]", [tensors[place]._handle])  # type: ignore[union-attr]
    count = ffi.new("size_t *", 1)
    attributes = Attributes(attribute_text(case.op, case.attributes))
    check(
        lib.pl_op_run(context_handle(), case.op.encode(), attributes.handle, handles, len(tensors), outputs, 1, count)
    )
    return tensors[place]  # type: ignore[return-value]


@pytest.mark.parametrize(
    "case",
    [c for c in CASES if any(r["may_overwrite"] for r in schemas()[c.op]["results"])],
    ids=lambda case: case.name,
)
def test_a_result_may_lie_where_an_input_lay(case: Case, device: str, unoptimised: None) -> None:
    tensors = tensors_of(case)
    names = [p["name"] for p in inputs_of(case, len(tensors))]
    fresh = [None if t is None else pl.asarray(t, device=device) for t in tensors]
    expected = as_list(case.call(ops, fresh))
    if len(expected) != 1:
        return
    for name in schemas()[case.op]["results"][0]["may_overwrite"]:
        for place in [i for i, own in enumerate(names) if own == name]:
            given = [None if t is None else pl.asarray(np.array(t), device=device, copy=True) for t in tensors]
            source = given[place]
            if source is None or (source.shape, source.dtype) != (expected[0].shape, expected[0].dtype):
                continue
            # Another implementation may run in place, and sum in another order.
            fresh_result = np.asarray(expected[0])
            scale = float(np.abs(fresh_result).max(initial=1))
            np.testing.assert_allclose(run_into(case, given, place), fresh_result, rtol=1e-5, atol=1e-5 * scale)


@pytest.mark.parametrize("case", CASES, ids=CASE_IDS)
def test_values_follow_the_rules(case: Case, unoptimised: None) -> None:
    """same_if_alike, idempotent, renaming, keeps_finite and zeros."""
    schema = schemas()[case.op]
    tensors = tensors_of(case)
    results = [np.asarray(r) for r in as_list(case.call(ops, tensors))]
    x, y = tensors[0], results[0]
    if x is None:
        return
    alike = len(results) == 1 and x.shape == y.shape and x.dtype == y.dtype
    if schema["same_if_alike"] and not schema["same_only_if"] and alike:
        np.testing.assert_array_equal(x, y)
    if schema["idempotent"]:
        np.testing.assert_array_equal(np.asarray(case.call(ops, [y])), y)
    if schema["renaming"] == "shape":
        np.testing.assert_array_equal(x.ravel(), y.ravel())
    if schema["renaming"] in ("order", "repeat"):
        np.testing.assert_array_equal(np.unique(x), np.unique(y))
    if schema["renaming"] == "order":
        assert x.size == y.size
    finite = [t is None or t.dtype.kind != "f" or bool(np.isfinite(t).all()) for t in tensors]
    applied = any(value_of(case, name) is not None for name in ("activation", "post_ops"))
    if schema["keeps_finite"] and all(finite) and not applied:
        assert all(r.dtype.kind != "f" or np.isfinite(r).all() for r in results)
    if schema["zeros"] == "unknown" or applied:
        return
    parameters = inputs_of(case, len(tensors))
    data = [i for i, p in enumerate(parameters) if tensors[i] is not None and not p["selects"]]
    for places in [data] if schema["zeros"] == "where_all" else [[i] for i in data]:
        zeroed = [t if t is None or i not in places else np.zeros_like(t) for i, t in enumerate(tensors)]
        assert all(not np.asarray(r).any() for r in as_list(case.call(ops, zeroed)))

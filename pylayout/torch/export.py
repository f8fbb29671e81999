"""Modules exported by `torch.export`, as graphs: for plans that need no PyTorch when they run."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch.export import Dim, ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Node
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from ..errors import ArgumentTypeError, UnsupportedError
from ..graph import Graph
from ..late import LateGraph
from ..sizes import Size, hint_of, late_text
from ..tensor import Tensor
from .compositions import COMPOSED
from .fold import folded, is_folded_apart
from .recurrent import OF_PYTORCH
from .registry import converters, name_of
from .specialise import copied, present
from .symbols import Evaluation, Symbols, expression_of, is_symbolic
from .translate import Translator, reason_of

__all__ = ["Exported", "export"]

LEAST, MOST = 2, 1 << 40  # limits of sizes that nobody set


class Exported:
    """A module as PyTorch exported it. `graph` makes the graph, with named axes where sizes are dynamic.

    again: exports the module for inputs of other shapes, for which it may do something else.
    """

    def __init__(
        self,
        program: ExportedProgram,
        names: Sequence[Mapping[int, str]],
        conditions: Sequence[sympy.Basic],
        again: Callable[[list[Sequence[int]]], Exported] | None = None,
    ) -> None:
        self._program, self._conditions, self._again = program, conditions, again
        for spec in program.graph_signature.output_specs:
            if spec.kind not in (OutputKind.USER_OUTPUT,):
                raise UnsupportedError(
                    f"compile: the module changes {spec.target or 'its inputs'} when it runs, and plans keep no state: "
                    "export it in evaluation mode (model.eval()), or return the new value"
                )
        self._constants: dict[str, torch.Tensor] = {}
        self._inputs: list[str] = []
        self._literals: set[str] = set()  # of the constants those that forward() makes
        for spec in program.graph_signature.input_specs:
            name = spec.arg.name
            if spec.kind == InputKind.USER_INPUT:
                self._inputs.append(name)
            else:
                if spec.kind == InputKind.CONSTANT_TENSOR:
                    self._literals.add(name)
                found = program.state_dict.get(spec.target or "")
                self._constants[name] = program.constants[spec.target or ""] if found is None else found
        self._given = [node for node in _placeholders(program.graph_module.graph) if node.target in self._inputs]
        self._symbols = Symbols(self._given)
        self._names = self._axis_names(names)
        self._shared: dict[str, Tensor] = {}

    @property
    def dynamic(self) -> bool:
        """Whether sizes may be others than the example's."""
        return bool(self._symbols.names)

    def _axis_names(self, names: Sequence[Mapping[int, str]]) -> dict[Any, str]:
        """By symbol: what it was called, or an input and a dimension of it."""
        said: dict[Any, str] = {}
        known: dict[Any, str] = {}
        for place, node in enumerate(self._given):
            value = node.meta["val"]
            for dim, size in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
                expression = expression_of(size)
                given = names[place].get(dim) if place < len(names) else None
                if given is not None:
                    said.setdefault(expression, given)
                known.setdefault(expression, f"{node.target}.{dim}")
        return {**known, **said}

    def graph(self, shapes: Mapping[str, Sequence[int]] | None = None, reason: str = "") -> Graph:
        """The graph, made for the example's sizes, or for inputs of these shapes, since another one did not hold there.

        Raises UnsupportedError naming each op that the library does not run, or the condition of the module that does
        not hold for these sizes.
        """
        module = self._program.graph_module
        evaluation: Evaluation | None = None
        graph = copied(module)
        if any(is_symbolic(node.meta.get("val")) for node in graph.nodes):  # also by symbols that are numbers by now
            given = [self._argument(node, shapes or {}) for node in self._given]
            key = self._symbols.key(given)
            evaluation = self._symbols.evaluation(key)
            broken = next((each for each in self._conditions if _holds(each, evaluation) is False), None)
            if broken is not None:
                if self._again is None or shapes is None:
                    raise UnsupportedError(
                        f"compile: the module was exported for sizes where {broken}, here {self._symbols.named(key)}"
                    )
                return self._again([tuple(value.shape) for value in given]).graph()
            graph = present(module, evaluation)
        nodes = [*graph.nodes]
        constants = {
            node: self._constants[str(node.target)] for node in _placeholders(graph) if node.target in self._constants
        }
        shared = {node: self._shared[str(node.target)] for node in constants if str(node.target) in self._shared}
        literals = {node: constant for node, constant in constants.items() if node.target in self._literals}
        known = folded(module, nodes, literals)
        constants.update(known)
        translator = Translator(constants, plain=True, present=evaluation, shared=shared, names=self._names)
        for node in _placeholders(graph):
            if node.target in self._inputs and isinstance(node.meta["val"], torch.Tensor):
                translator.operand(node)
        if isinstance(translator.graph, LateGraph):
            self._limit(translator)  # first, as ops may not take other sizes
        refused: dict[str, str] = {}
        missing: set[Node] = set()
        for node in nodes:
            if node.op != "call_function" or node in known or is_folded_apart(node, known) or not _computes(node):
                continue
            try:
                translator.convert(node)
            except UnsupportedError as error:
                if node.target is not operator.getitem or node.args[0] not in missing:
                    refused.setdefault(name_of(node.target), reason_of(error))
                missing.add(node)
        if refused:
            named = ", ".join(f"{op} ({reason})" for op, reason in refused.items())
            raise UnsupportedError(f"compile: the module has ops that no plan runs: {named}")
        results = [each for each in graph.output_node().args[0] if each is not None]  # type: ignore[union-attr]
        for place, result in enumerate(results):
            value = result.meta["val"] if isinstance(result, Node) else result
            if not isinstance(result, Node) or not isinstance(value, torch.Tensor):
                raise UnsupportedError(
                    f"compile: output {place} of the module is {type(value).__name__}, expected a tensor or None"
                )
            translator.output(result, f"output{place}")
        if isinstance(translator.graph, LateGraph):
            translator.graph.is_building = False
            self._shared.update((str(node.target), each) for node, each in shared.items() if node.op == "placeholder")
        return translator.graph

    def _limit(self, translator: Translator) -> None:
        """Let sizes be those that the export says. 0 and 1, of which it is not sure, are tried."""
        for symbol, limits in self._program.range_constraints.items():
            if translator.knows(symbol):
                size = translator.size(symbol)
                if limits.upper.is_Integer and limits.upper < MOST:
                    translator.graph.require(f"{size.text} <= {int(limits.upper)}")
                if limits.lower.is_Integer and limits.lower > LEAST:
                    translator.graph.require(f"{int(limits.lower)} <= {size.text}")
        for condition in self._conditions:
            if not all(map(translator.knows, condition.free_symbols)):
                continue  # of data
            for text in _required_for(condition, translator):
                translator.graph.require(text)

    def _argument(self, node: Node, shapes: Mapping[str, Sequence[int]]) -> Any:
        """What stands for an input: only its shape matters."""
        value = node.meta["val"]
        if not isinstance(value, torch.Tensor):
            return value
        example = [size.node.hint if isinstance(size, torch.SymInt) else size for size in value.shape]
        return torch.empty(tuple(shapes.get(str(node.target), example)), dtype=value.dtype, device="meta")


def _conditions_of(program: ExportedProgram) -> list[sympy.Basic]:
    """What sizes it was exported for, beyond the limits of each: which way its branches went.

    That a size is not 0 or 1, of which exports are not sure, is none.
    """
    modes = (getattr(node.meta.get("val"), "fake_mode", None) for node in _placeholders(program.graph))
    environment = next((mode.shape_env for mode in modes if mode is not None and mode.shape_env is not None), None)
    found = [guard.expr for guard in environment.guards] if environment is not None else []
    return [each for each in dict.fromkeys(found) if each.free_symbols and not _is_of_few(each)]


def _is_of_few(condition: sympy.Basic) -> bool:
    """Whether a condition says only that a size is more than some of 0, 1, or is none of them."""
    if not isinstance(condition, (sympy.Ne, sympy.Gt, sympy.Ge, sympy.Lt, sympy.Le)):
        return False
    size, limit = condition.args if isinstance(condition, sympy.Ne) else (condition.gts, condition.lts)
    return size.is_Symbol and limit.is_Integer and int(limit) <= LEAST


def _holds(condition: sympy.Basic, evaluation: Evaluation) -> bool | None:
    """Whether it does for these sizes; None where they do not say."""
    try:
        return bool(evaluation(condition))
    except UnsupportedError:
        return None


_COMPARED = {
    sympy.Eq: ("==", operator.eq), sympy.Ne: ("!=", operator.ne), sympy.Lt: ("<", operator.lt),
    sympy.Le: ("<=", operator.le),
}  # fmt: skip


def _required_for(condition: sympy.Basic, translator: Translator) -> list[str]:
    """What a graph requires for a condition to hold; where it cannot say that, that sizes are those it is made for."""
    said = _said(condition, translator)
    if said is not None:
        return said
    sizes = [translator.size(symbol) for symbol in condition.free_symbols]
    return [f"{size.text} == {size.hint}" for size in sizes if isinstance(size, Size)]


def _said(condition: sympy.Basic, translator: Translator) -> list[str] | None:
    """The same; None where the graph cannot say it, or it does not hold now."""
    if isinstance(condition, sympy.And):
        parts = [_said(each, translator) for each in condition.args]
        return None if None in parts else [text for part in parts for text in part or ()]
    if isinstance(condition, sympy.Or):  # one that holds now, if there is a choice none of one size alone
        for each in sorted(condition.args, key=lambda each: isinstance(each, sympy.Eq) and each.lhs.is_Symbol):
            if (said := _said(each, translator)) is not None:
                return said
        return None
    if isinstance(condition, (sympy.Gt, sympy.Ge)):
        condition = condition.reversed
    if type(condition) not in _COMPARED:
        return None
    word, compare = _COMPARED[type(condition)]
    try:
        left, right = map(translator.size, condition.args)
    except UnsupportedError:
        return None
    if not compare(hint_of(left), hint_of(right)):
        return None
    known = isinstance(left, int) and isinstance(right, int)
    return [] if known else [f"{late_text(left)} {word} {late_text(right)}"]


def _is_layer(node: Node) -> bool:
    """Whether a recurrent layer is one that the library has."""
    x, _, params, has_biases, levels, dropout, train, both, _ = node.args
    each = (4 if has_biases else 2) * (2 if both else 1)
    whole = x.meta["val"].ndim == 3 and len(params) == each * levels  # type: ignore[union-attr, arg-type, operator]
    return whole and not (train and dropout)


def _placeholders(graph: Any) -> list[Node]:
    return [node for node in graph.nodes if node.op == "placeholder"]


def _computes(node: Node) -> bool:
    """Whether a node makes a tensor: numbers are known, and checks of sizes have been made by PyTorch."""
    value = node.meta.get("val")
    return not isinstance(value, (bool, int, float)) and value is not None


def export(model: torch.nn.Module | ExportedProgram, example: Any, dynamic: Any = None) -> Exported:
    """Export a module for an example of its arguments: a tuple, a dict of keywords, or the only one.

    dynamic: None for the example's sizes, True for any, or what `torch.export.export` calls dynamic_shapes. A program
    that was exported before has both.
    """
    if isinstance(model, ExportedProgram):
        for name, given in (("example", example), ("dynamic", dynamic)):
            if given is not None:
                raise ArgumentTypeError(
                    f"compile: {name} is given for an ExportedProgram, which was exported for sizes of its own; "
                    "expected the program alone"
                )
        with torch.no_grad():
            return Exported(_decomposed(model), [], _conditions_of(model))
    if example is None:
        raise ArgumentTypeError(
            "compile: no example is given for the module, expected a tuple of tensors such as it is called with"
        )
    keywords = dict(example) if isinstance(example, Mapping) else {}
    arguments = () if keywords else tuple(example) if isinstance(example, (tuple, list)) else (example,)
    for place, value in enumerate(tree_flatten((arguments, keywords))[0]):
        if isinstance(value, torch.Tensor) and value.is_complex():
            raise UnsupportedError(f"compile: argument {place} is complex, expected real numbers: torch.view_as_real")
    shapes: Any = dynamic if dynamic not in (None, False, True) else None
    if dynamic is True:

        def any_size(value: Any) -> Any:
            return {dim: Dim.AUTO for dim in range(value.ndim)} if isinstance(value, torch.Tensor) else None

        shapes = _by_parameter(model, tree_map(any_size, keywords or arguments))

    def again(given: list[Sequence[int]]) -> Exported:
        leaves, spec = tree_flatten((arguments, keywords))
        left = iter(given)
        new = [torch.empty(next(left), dtype=x.dtype) if isinstance(x, torch.Tensor) else x for x in leaves]
        positional, named = tree_unflatten(new, spec)
        return _exported(model, positional, named, shapes, None)

    return _exported(model, arguments, keywords, shapes, again)


def _exported(
    model: torch.nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any], shapes: Any,
    again: Callable[[list[Sequence[int]]], Exported] | None,
) -> Exported:  # fmt: skip
    with torch.no_grad():
        program = torch.export.export(model, arguments, keywords, dynamic_shapes=shapes)
        names = _names(model, arguments, keywords, shapes)
        return Exported(_decomposed(program), names, _conditions_of(program), again)


def _by_parameter(model: torch.nn.Module, given: Any) -> Any:
    """What belongs to each argument by its place, those joined that `*args` of forward takes; keywords as they are."""
    parameters = inspect.signature(model.forward).parameters.values()
    first = next((place for place, each in enumerate(parameters) if each.kind is each.VAR_POSITIONAL), len(given))
    return given if isinstance(given, dict) or first >= len(given) else (*given[:first], given[first:])


def _decomposed(program: ExportedProgram) -> ExportedProgram:
    """The program in ops that have converters, as far as PyTorch can write it so."""
    table = torch.export.default_decompositions()
    kept = {name for name, found in converters().items() if found.keeps}
    for op in [op for op in table if name_of(op) in kept]:
        table.pop(op)  # type: ignore[no-untyped-call]
    table.update(COMPOSED)  # type: ignore[no-untyped-call]
    if any(value.device.type not in ("cpu", "meta") for value in _tensors_of(program)):
        from torch.export.passes import move_to_device_pass  # here: PyTorch 2.6 has not this one

        program = move_to_device_pass(program, "cpu")  # where plans take their constants from
    for op in OF_PYTORCH.values():
        nodes = [node for node in program.graph.nodes if node.target is op]
        if all(map(_is_layer, nodes)):  # kept as it is: else PyTorch writes each step out
            table.pop(op, None)  # type: ignore[no-untyped-call]
    decomposed: ExportedProgram = program.run_decompositions(table)
    return decomposed


def _tensors_of(program: ExportedProgram) -> list[torch.Tensor]:
    """What the program holds, and what describes its inputs."""
    described = [node.meta.get("val") for node in _placeholders(program.graph)]
    held = [*program.state_dict.values(), *program.constants.values()]
    return [value for value in [*held, *described] if isinstance(value, torch.Tensor)]


def _names(module: torch.nn.Module, arguments: tuple[Any, ...], keywords: Any, shapes: Any) -> list[dict[int, str]]:
    """For each tensor among the arguments the names that dimensions are given: by `torch.export.Dim`."""
    if not shapes:
        return []
    given = inspect.signature(module.forward).bind(*arguments, **keywords).arguments
    wanted = shapes.values() if isinstance(shapes, Mapping) else shapes
    if isinstance(shapes, Mapping):
        given = {name: given[name] for name in shapes if name in given}
    found: list[dict[int, str]] = []
    for value, said in zip(given.values(), wanted, strict=False):
        leaves, spec = tree_flatten(value)
        for leaf, each in zip(leaves, spec.flatten_up_to(said) if said else [None] * len(leaves), strict=True):
            dims = each.items() if isinstance(each, Mapping) else enumerate(each or ())
            if isinstance(leaf, torch.Tensor):
                found.append({int(dim): size.__name__ for dim, size in dims if isinstance(size, Dim)})
            else:
                found.append({})
    return found

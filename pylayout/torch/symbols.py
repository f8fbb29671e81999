"""PyTorch's symbols: sizes that calls decide, as numbers of one call, or as expressions of a graph."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import Any

import sympy
import torch
from torch.fx import Node
from torch.utils._sympy.symbol import SymT, symbol_is_type

from ..errors import UnsupportedError
from ..sizes import Size, max_size, min_size

__all__ = ["Evaluation", "Symbols", "expression_of", "is_symbolic"]

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def _sizes(value: torch.Tensor) -> tuple[Any, ...]:
    """Sizes and strides of a traced tensor."""
    return (*value.shape, *value.stride()) if value.layout == torch.strided else tuple(value.shape)


def is_symbolic(value: Any) -> bool:
    """Whether a traced value has a size, or is a number, that calls decide."""
    if isinstance(value, torch.Tensor):
        return any(isinstance(size, _SYMBOLIC) for size in _sizes(value))
    if isinstance(value, (tuple, list)):
        return any(map(is_symbolic, value))
    return isinstance(value, _SYMBOLIC)


def expression_of(number: Any) -> Any:
    """A traced number as an expression of symbols; itself where it is known. It is not asked, which would guard it."""
    if not isinstance(number, _SYMBOLIC):
        return number
    expression = number.node.expr
    return int(expression) if isinstance(expression, sympy.Integer) else expression


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(base, Size) and not (isinstance(exponent, int) and exponent > 0):
        raise UnsupportedError(f"a size to the power of {exponent}")
    return reduce(operator.mul, [base] * exponent) if isinstance(base, Size) else base**exponent


@dataclass(frozen=True)
class _Quotient:
    """A size over a positive number: what floats in expressions of sizes are, so far as they are exact."""

    above: Any
    below: int

    def floor(self) -> Any:
        return self.above // self.below

    def truncated(self) -> Any:
        if not self.above.is_natural:
            raise UnsupportedError("a size that may be negative, rounded to 0")
        return self.floor()

    def ceil(self) -> Any:
        return -(-self.above // self.below)


_FEW = 1 << 20  # a numerator, and so a size times it, of which floats have all bits


def _product(*factors: Any) -> _Quotient:
    above, below = None, 1
    for factor in factors:
        if isinstance(factor, _Quotient):
            if above is not None:
                raise UnsupportedError("a size times a size as floats")
            above, below = factor.above, below * factor.below
    assert above is not None
    for factor in factors:
        if isinstance(factor, _Quotient):
            continue
        exact = Fraction(factor)
        if not (abs(exact.numerator) < _FEW and exact.denominator < _FEW):
            raise UnsupportedError(f"a size times {factor}, of which floats are rounded")
        above, below = above * exact.numerator, below * exact.denominator
    return _Quotient(above, below)


def _sum(*terms: Any) -> _Quotient:
    above, below = 0, 1
    for term in terms:
        if isinstance(term, (int, Size)):
            term = _Quotient(term, 1)
        elif not isinstance(term, _Quotient):
            exact = Fraction(term)
            term = _Quotient(exact.numerator, exact.denominator)
        above, below = above * term.below + term.above * below, below * term.below
        if below >= _FEW:
            raise UnsupportedError("a sum of parts of sizes, of which floats are rounded")
    return _Quotient(above, below)


# The same of floats that are made of sizes: the scale of an image that is resized.
_OF_QUOTIENTS: dict[str, Callable[..., Any]] = {
    "ToFloat": lambda size: _Quotient(size, 1),
    "IntTrueDiv": lambda a, b: _Quotient(a, b) if isinstance(b, int) and 0 < b < _FEW else None,
    "FloatTrueDiv": lambda a, b: _product(a, 1 / Fraction(b)) if isinstance(b, (int, float)) and b != 0 else None,
    "Mul": _product,
    "Add": _sum,
    "TruncToInt": lambda quotient: quotient.truncated(),
    "FloorToInt": lambda quotient: quotient.floor(),
    "CeilToInt": lambda quotient: quotient.ceil(),
}

# What the functions in expressions of whole numbers compute, of integers and of sizes.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Add": lambda *terms: reduce(operator.add, terms),
    "Mul": lambda *factors: reduce(operator.mul, factors),
    "Pow": _power,
    "PowByNatural": _power,
    "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv,
    "CeilDiv": lambda a, b: -(-a // b),
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "ModularIndexing": lambda base, divisor, modulus: base // divisor % modulus,
    "Max": lambda *values: reduce(max_size, values),
    "Min": lambda *values: reduce(min_size, values),
    "Identity": lambda value: value,
}


def _numbers(value: Any) -> Iterator[Any]:
    """The sizes, strides and numbers of what a node gives."""
    if isinstance(value, torch.Tensor):
        yield from _sizes(value)
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _numbers(each)
    elif isinstance(value, _SYMBOLIC):
        yield value


class Evaluation:
    """What expressions are where symbols have these values: integers, or sizes of a graph."""

    def __init__(self, values: Mapping[Any, Any], find: Callable[[Any], Any] | None = None) -> None:
        self._known: dict[Any, Any] = dict(values)
        self._find = find  # a symbol of which nothing was said

    def knows(self, expression: Any) -> bool:
        return expression in self._known

    def learn(self, expression: Any, value: Any) -> None:
        """An expression has this value; what follows from it of a symbol is known from here on, too."""
        if expression not in self._known:
            self._known[expression] = value
            self._known.update(_solved(expression, value, self._known))

    def __call__(self, number: Any) -> Any:
        """The value of a traced number or an expression. Raises UnsupportedError where it does not follow."""
        expression = expression_of(number)
        if not isinstance(expression, sympy.Basic):
            return expression
        found = self._known.get(expression)
        if found is None:
            found = self._known[expression] = self._computed(expression)
        return found

    def _computed(self, expression: sympy.Basic) -> Any:
        if isinstance(expression, sympy.Integer):
            return int(expression)
        if isinstance(expression, sympy.Symbol):
            if self._find is not None:
                return self._find(expression)
            raise UnsupportedError(f"{expression} is known only in a run")
        if expression in (sympy.true, sympy.false):
            return bool(expression)
        if isinstance(expression, sympy.Number):
            return float(expression)
        # Fractions stay what they are, so that whole numbers made of them are.
        values = [each if each.is_Rational and not each.is_Integer else self(each) for each in expression.args]
        name = type(expression).__name__
        if name in _FUNCTIONS and all(isinstance(value, (int, Size)) for value in values):
            return _FUNCTIONS[name](*values)
        if any(isinstance(value, (Size, _Quotient)) for value in values):
            made = _OF_QUOTIENTS[name](*values) if name in _OF_QUOTIENTS else None
            if made is None:
                raise UnsupportedError(f"sizes that follow by {name}")
            return made
        made = sympy.sympify(expression.func(*values))
        if made.is_Boolean:
            return bool(made)
        return int(made) if made.is_integer else float(made)


class Symbols:
    """Where the values of symbols are found: among a graph's inputs, as numbers or sizes."""

    def __init__(self, placeholders: Sequence[Node], silent: Collection[Node] = ()) -> None:
        """silent: inputs that may come in other shapes than were traced."""
        found: dict[Any, tuple[int, int | None]] = {}  # by expression: a place, and a dimension there
        for place, node in enumerate(placeholders):
            value = node.meta.get("val")
            sizes = enumerate(value.shape) if isinstance(value, torch.Tensor) and node not in silent else ()
            for dim, number in [(None, value), *sizes]:
                expression = expression_of(number) if isinstance(number, torch.SymInt) else None
                if isinstance(expression, sympy.Basic):
                    found.setdefault(expression, (place, dim))
        plain = {expression for expression in found if isinstance(expression, sympy.Symbol)}
        others = {expression for expression in found if not expression.free_symbols <= plain}
        self._sources = {each: place for each, place in found.items() if each in plain or each in others}

    @property
    def names(self) -> tuple[str, ...]:
        """The symbols, for people."""
        return tuple(sorted({str(symbol) for each in self._sources for symbol in each.free_symbols}))

    def named(self, key: tuple[int, ...]) -> str:
        """The values of symbols in a call with this key, for people."""
        return ", ".join(f"{each} = {value}" for each, value in zip(self._sources, key, strict=True))

    def cover(self, nodes: Iterable[Node], late: bool = True) -> bool:
        """Whether all sizes in a graph follow from those of its inputs; `late`: but for what is known only in a run."""
        known = self.evaluation((2,) * len(self._sources))
        expressions = {expression_of(number) for node in nodes for number in _numbers(node.meta.get("val"))}
        return all(
            known.knows(symbol) or (late and symbol_is_type(symbol, SymT.UNBACKED_INT))
            for expression in expressions
            if isinstance(expression, sympy.Basic) and not known.knows(expression)
            for symbol in expression.free_symbols
        )

    def key(self, arguments: Sequence[Any]) -> tuple[int, ...]:
        """What of a call's arguments decides the sizes in the graph."""
        return tuple(
            arguments[place] if dim is None else arguments[place].shape[dim] for place, dim in self._sources.values()
        )

    def evaluation(self, key: tuple[int, ...]) -> Evaluation:
        """What expressions are in a call with this key."""
        made = Evaluation({})
        for expression, value in zip(self._sources, key, strict=True):
            made.learn(expression, value if isinstance(value, torch.SymInt) else int(value))
        return made


def _solved(expression: Any, value: Any, known: Mapping[Any, Any]) -> dict[Any, Any]:
    """The symbol of an expression such as 2 * s + 1 that has this value; nothing where it is none, or is known."""
    symbols = expression.free_symbols
    if isinstance(expression, sympy.Symbol) or len(symbols) != 1 or symbols <= known.keys():
        return {}
    (symbol,) = symbols
    factor = expression.coeff(symbol, 1)
    rest = expression - factor * symbol  # what else depends on the symbol stays in it
    if not (factor.is_Integer and rest.is_Integer) or factor == 0:
        return {}
    return {symbol: (value - int(rest)) // int(factor)}

"""Every converter by itself, against PyTorch: it runs in a plan, and gives the same."""

import functools
import operator

import pytest

torch = pytest.importorskip("torch")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch_cases import CASES  # noqa: E402
from torch_move_cases import CREATED, MOVES  # noqa: E402

import pylayout.torch  # noqa: E402
from pylayout.torch.compiled import Compiled  # noqa: E402
from pylayout.torch.registry import converters  # noqa: E402

converters()  # defines pylayout's own ops


def overload(name: str):
    if name.startswith("transformers."):
        pytest.importorskip("transformers.integrations.moe", reason="it registers the op")
    others = ("prims.", "pylayout.", "transformers.")
    space, *rest = name.split(".") if name.startswith(others) else ("aten", *name.split("."))
    return operator.attrgetter(".".join(rest))(getattr(torch.ops, space))


def tensors_of(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [tensor for each in value for tensor in tensors_of(each)] if isinstance(value, (list, tuple)) else []


def used(name: str, result):
    """What of several results a case reads: statistics and indices are not all computed."""
    if not isinstance(result, (tuple, list)):
        return [result]
    first_only = name.startswith(("max_pool", "adaptive_max_pool", "_scaled_dot", "_native_batch_norm"))
    return list(result)[:1] if first_only else list(result)


def check(name: str, function, arguments):
    given = tensors_of(list(arguments))

    def of_tensors(*tensors):
        rest = iter(tensors)

        def filled(value):
            if isinstance(value, torch.Tensor):
                return next(rest)
            if isinstance(value, list):
                return [filled(each) for each in value]
            if isinstance(value, dict):
                return {key: filled(each) for key, each in value.items()}
            return value

        return tuple(function(*[filled(argument) for argument in arguments]))

    traced = make_fx(of_tensors, tracing_mode="fake")(*given)
    traced.graph.eliminate_dead_code()
    expected = of_tensors(*given)
    pylayout.torch.reset()
    made = Compiled(traced, "inference", {"device": "cpu", "tune": "off"})(list(given))
    torch.testing.assert_close(made, expected, rtol=2e-5, atol=2e-5, equal_nan=True)
    for mine, theirs in zip(made, expected, strict=True):
        assert mine is None or mine.stride() == theirs.stride()
    (graph,) = pylayout.torch.report().graphs
    assert graph.partitions == 1 and not graph.left, str(graph)


def called(name: str, arguments):
    keywords = arguments[-1] if arguments and isinstance(arguments[-1], dict) else {}
    return overload(name)(*(arguments[:-1] if keywords else arguments), **keywords)


@pytest.mark.parametrize("name", [name for name, cases in CASES.items() if cases])
def test_against_pytorch(name):
    for arguments in CASES[name]:
        check(name, lambda *given: used(name, called(name, given)), arguments)


@pytest.mark.parametrize("name", MOVES)
def test_moves_against_pytorch(name):
    """Between two ops that compute, since moves alone are not worth a plan."""

    def between(*given):
        first = [given[0][0] + 1, *given[0][1:]] if isinstance(given[0], list) else given[0] + 1
        return [result * 2 for result in used(name, called(name, (first, *given[1:])))]

    for arguments in MOVES[name]:
        check(name, between, arguments)


def _made_of_size(name: str, arguments_of, x):
    made = called(name, arguments_of(x.shape[0]))
    if "empty" in name:  # what lies there is anything
        made = torch.ops.aten.copy(made, x.sum() + 3)
    return (made.logical_not() if made.dtype == torch.bool else made * 2,)


@pytest.mark.parametrize("name", CREATED)
def test_what_is_made_of_sizes_against_pytorch(name):
    for arguments_of in CREATED[name]:
        function = functools.partial(_made_of_size, name, arguments_of)
        traced = make_fx(function, tracing_mode="symbolic")(torch.zeros(5, 2))
        traced.graph.eliminate_dead_code()
        pylayout.torch.reset()
        made = Compiled(traced, "inference", {"device": "cpu", "tune": "off"})
        for size in (5, 8, 3):
            x = torch.zeros(size, 2)
            torch.testing.assert_close(made([x]), function(x), rtol=0, atol=0)
        (graph,) = pylayout.torch.report().graphs
        assert graph.partitions == 1 and not graph.left and not graph.again, str(graph)


def test_every_converter_has_a_case():
    assert sorted({*CASES, *MOVES, *CREATED}) == sorted(converters())
    assert {name for name, found in converters().items() if found.moves} == {*MOVES, *CREATED}

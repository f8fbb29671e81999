"""Programs of the device `ocl` that serve calls of other sizes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from ocl_testing import OCL, quiet  # noqa: E402, F401

from pylayout.ocl import programs  # noqa: E402
from pylayout.ocl.alike import Calls, Made, Output  # noqa: E402

F = torch.nn.functional
aten = torch.ops.aten


@pytest.fixture(autouse=True)
def anew(quiet: None) -> Any:  # noqa: F811
    torch.ocl.empty_cache()
    programs._calls.clear()
    yield
    torch.ocl.empty_cache()
    programs._calls.clear()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ops whose programs were made by converters."""
    names: list[str] = []
    of_converters = programs._made

    def counted(name: str, *rest: Any) -> Any:
        names.append(name)
        return of_converters(name, *rest)

    monkeypatch.setattr(programs, "_made", counted)
    return names


def on(x: Any) -> Any:
    return x.to(OCL) if isinstance(x, torch.Tensor) else x


def rows(n: int, m: int = 6) -> Any:
    return torch.randn(n, m, generator=torch.Generator().manual_seed(n))


def places(n: int, below: int) -> Any:
    return torch.randint(0, below, (n,), generator=torch.Generator().manual_seed(n))


# Of a size n: the call, and what it is given.
CALLS: dict[str, tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]]]] = {
    "add": (torch.add, lambda n: (rows(n), rows(n))),
    "add repeated": (torch.add, lambda n: (rows(n), rows(1))),
    "add a number": (lambda x: x + 2.5, lambda n: (rows(n),)),
    "in place": (lambda x, y: x.mul_(y), lambda n: (rows(n), rows(n))),
    "compare": (torch.gt, lambda n: (rows(n), rows(n, 1))),
    "where": (torch.where, lambda n: (rows(n) > 0, rows(n), rows(1))),
    "gelu": (F.gelu, lambda n: (rows(n),)),
    "strided": (lambda x: x[:, ::2] * 2, lambda n: (rows(n),)),
    "turned": (lambda x, y: x.t() + y, lambda n: (rows(n), rows(6, n))),
    "cat": (lambda *x: torch.cat(x, 0), lambda n: (rows(3), rows(n), rows(1))),
    "cat of others": (lambda *x: torch.cat(x, 1), lambda n: (rows(4, n), rows(4, 2 * n))),
    "mm": (torch.mm, lambda n: (rows(n), rows(6, 5))),
    "mm both": (torch.mm, lambda n: (rows(n), rows(6, n))),
    "bmm": (torch.bmm, lambda n: (rows(2 * n).reshape(2, n, 6), rows(12).reshape(2, 6, 6))),
    "addmm": (torch.addmm, lambda n: (rows(1, 5), rows(n), rows(6, 5))),
    "softmax": (lambda x: F.softmax(x, -1), lambda n: (rows(4, n),)),
    "sum": (lambda x: x.sum(0), lambda n: (rows(n),)),
    "mean": (lambda x: x.mean(), lambda n: (rows(n),)),
    "var": (lambda x: x.var(0), lambda n: (rows(n + 1),)),
    "cumsum": (lambda x: x.cumsum(0), lambda n: (rows(n),)),
    "argmax": (lambda x: x.argmax(0), lambda n: (rows(n),)),
    "index": (lambda x, i: x[i], lambda n: (rows(9), places(n, 9))),
    "index_add": (lambda x, i, y: x.index_add(0, i, y), lambda n: (rows(9), places(n, 9), rows(n))),
    "index_put": (
        lambda x, i, j, y: x.index_put((i, j), y, accumulate=True),
        lambda n: (rows(9), places(n, 9), places(n, 6), rows(n, 1)[:, 0]),
    ),
    "stack": (lambda *x: torch.stack(x, 1), lambda n: (rows(n), rows(n))),
    "embedding": (F.embedding, lambda n: (places(n, 9), rows(9))),
    "gather": (lambda x, i: x.gather(0, i[:, None]), lambda n: (rows(9), places(n, 9))),
    "tril": (torch.tril, lambda n: (rows(n, n),)),
    "isin": (torch.isin, lambda n: (places(n, 9), places(3, 9))),
    "layer_norm": (lambda x: F.layer_norm(x, (6,)), lambda n: (rows(n),)),
    "pool": (lambda x: F.adaptive_avg_pool1d(x, 3), lambda n: (rows(4, 2 * n),)),
    "reflect": (lambda x: F.pad(x, (2, 1), mode="reflect"), lambda n: (rows(4, n + 2),)),
}
NOT_SERVED = {"pool", "reflect", "var", "tril", "isin"}  # they have sizes in their steps
SIZES = [5, 6, 9, 4, 7, 8, 3, 2, 1, 12, 11, 10, 18, 24, 0, 40]


@pytest.mark.parametrize("name", CALLS)
def test_values_at_sizes_met_late(name: str, made: list[str]) -> None:
    call, given = CALLS[name]
    for n in SIZES:
        if n == 0 and name in ("argmax", "pool", "reflect", "var", "layer_norm", "index_add"):
            continue
        tensors = given(n)
        moved = [on(each) for each in tensors]
        found, wanted = call(*moved), call(*tensors)
        assert (found.shape, found.dtype, found.stride()) == (wanted.shape, wanted.dtype, wanted.stride()), n
        torch.testing.assert_close(found.cpu(), wanted, atol=1e-5, rtol=1e-4, equal_nan=True)
    if name not in NOT_SERVED:
        counts = [made.count(each) for each in {*made}]
        assert max(counts) < len(SIZES) - 4, made


def test_sizes_between_and_twice_as_far(made: list[str]) -> None:
    for n, count in ((20, 1), (22, 2), (21, 2), (30, 2), (44, 2), (45, 3), (90, 3), (10, 3), (9, 4), (4, 4)):
        on(rows(n, 70)).exp()
        assert len(made) == count, n


def test_sizes_that_were_alike_by_chance(made: list[str]) -> None:
    """A mask that is square says nothing of one that is not."""
    for n in (5, 7, 9):
        on(rows(n, n)).exp()
    assert len(made) == 2
    on(rows(7, 9)).exp()
    assert len(made) == 3


def test_random_calls() -> None:
    draw = random.Random(5)
    ops: list[Callable[..., Any]] = [torch.add, torch.mul, torch.maximum, lambda x, y: torch.where(x > y, x, y)]
    for _ in range(150):
        shape = [draw.choice([1, 2, 3, 4, 5, 8, 9]) for _ in range(draw.randint(1, 4))]
        x, y = torch.randn(shape), torch.randn([draw.choice([1, size]) for size in shape])
        if draw.random() < 0.5:
            order = draw.sample(range(len(shape)), len(shape))
            x, y = x.permute(order), y.permute(order)
        if draw.random() < 0.3:
            x = torch.randn([2 * size for size in x.shape])[tuple(slice(0, size) for size in x.shape)]
        op = draw.choice(ops)
        found, wanted = op(on(x), on(y)), op(x, y)
        assert found.shape == wanted.shape
        torch.testing.assert_close(found.cpu(), wanted)


def test_steps_with_sizes_are_kept_a_few_times() -> None:
    calls = Calls()
    for n in range(2, 40):
        kind = calls.kind("aten::x", 0, [{"t": [0, 6, [n, 3], [3, 1]]}])
        assert kind is not None and calls.find(kind) is None
        calls.keep(kind, Made(0, [], [("reshape", f"shape=[{n}]", (0,), 1, 1)], 2, [Output(1, -1, True, True)]))
    assert len(calls._served[kind.key]) <= 8
    assert calls.kind("aten::x", 0, [{"t": [0, 6, [0, 3], [3, 1]]}]) is None
    assert calls.kind("aten::x", 0, [{"n": [2.5, None]}]) is None

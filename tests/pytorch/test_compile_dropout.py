"""Dropout under torch.compile(backend="pylayout"): numbers, masks of backward, and attention whose weights drop."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from compile_testing import close, compiled, fresh  # noqa: E402, F401

import pylayout.torch  # noqa: E402
from pylayout.torch.dropout import FEW  # noqa: E402

nn, f = torch.nn, torch.nn.functional
own = torch.ops.pylayout

MANY = (8, FEW // 4)


def dropped(x: Any) -> Any:
    return f.dropout(x * 2, 0.25)


def both_ways(run: Any, x: Any, seed: int) -> tuple[Any, Any]:
    torch.manual_seed(seed)
    y = run(x)
    (grad,) = torch.autograd.grad(y.sum(), x)
    return y.detach(), grad


@pytest.mark.parametrize("fallback", [False, True])
def test_what_is_dropped_is_dropped_in_backward(fallback: bool) -> None:
    run = compiled(dropped, fallback_random=fallback)
    x = (torch.rand(MANY) + 1).requires_grad_()
    y, grad = both_ways(run, x, 3)
    gone = y == 0
    assert abs(gone.float().mean() - 0.25) < 4 * (0.25 * 0.75 / y.numel()) ** 0.5
    close(y, torch.where(gone, 0, x.detach() * 2 / 0.75))
    close(grad, torch.where(gone, 0, torch.tensor(2 / 0.75)))
    assert torch.equal(both_ways(run, x, 3)[0], y)
    other = both_ways(run, x, 4)[0] == 0
    assert abs((other & gone).float().mean() - 0.0625) < 0.005  # no mask says anything about another one
    assert torch.equal(both_ways(dropped, x, 3)[0] == 0, gone) == fallback
    assert [graph.partitions for graph in pylayout.torch.report().graphs] == [1, 1]


def test_few_elements_draw_the_numbers_of_eager_mode() -> None:
    x = torch.rand(4, FEW // 4).requires_grad_()
    for mine, theirs in zip(both_ways(compiled(dropped), x, 5), both_ways(dropped, x, 5), strict=True):
        close(mine, theirs)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_nothing_or_all(p: float) -> None:
    def function(x: Any) -> Any:
        return f.dropout(x * 3, p)

    x = torch.rand(MANY).requires_grad_()
    for mine, theirs in zip(both_ways(compiled(function), x, 1), both_ways(function, x, 1), strict=True):
        close(mine, theirs)


def test_several_seeds_are_drawn_at_once() -> None:
    """Each dropout has numbers of its own."""

    def function(x: Any) -> Any:
        return f.dropout(x, 0.5), f.dropout(x * 2, 0.5), f.dropout(x * 3, 0.5)

    x = torch.ones(MANY)
    torch.manual_seed(0)
    made = [each != 0 for each in compiled(function)(x)]
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert abs((made[i] & made[j]).float().mean() - 0.25) < 0.005
    (graph,) = pylayout.torch.report().graphs
    assert graph.partitions == 1 and [op for op, _ in graph.left] == ["pylayout.dropout_seeds.default"]


def test_other_numbers_keep_their_order() -> None:
    """What is drawn beside dropout, before it and after it, is what a seed gives."""

    def function(x: Any) -> Any:
        a = torch.rand_like(x)
        y = f.dropout(x, 0.5)
        return a, y, torch.rand_like(x)

    x, run = torch.ones(MANY), compiled(function)
    results = []
    for _ in range(2):
        torch.manual_seed(2)
        results.append(run(x))
    for first, second in zip(*results, strict=True):
        assert torch.equal(first, second)
    torch.manual_seed(2)
    assert torch.equal(results[0][0], torch.rand_like(x))


def plans() -> list[int]:
    return [graph.partitions for graph in pylayout.torch.report().graphs]


@pytest.mark.parametrize(
    ("rows", "dynamic", "fallback"),
    [(4, False, False), (4, False, True), (8, False, False), (8, True, False), (8, True, True)],
)
def test_checkpoints_draw_their_numbers_again(rows: int, dynamic: bool, fallback: bool) -> None:
    """By a seed, or with the state of PyTorch's generator, in one plan in each direction."""

    def block(x: Any) -> Any:
        return f.dropout(torch.sin(x), 0.5)

    def checkpointed(x: Any) -> Any:
        for _ in range(2):
            x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
        return x.square()

    run = torch.compile(checkpointed, backend="pylayout", dynamic=dynamic, options={"fallback_random": fallback})
    for more in (0, 1, 5) if dynamic else (0,):
        x = (torch.rand(rows + more, FEW // 4) + 0.5).requires_grad_()
        torch.manual_seed(1)
        y = run(x)
        following = torch.rand(3)
        (grad,) = torch.autograd.grad(y.sum(), x)
        assert abs((y == 0).float().mean() - 0.75) < 0.01
        given = x.detach().double()
        between = 2 * given.sin()  # of elements that are kept
        wanted = 8 * between.cos() * given.cos() * 2 * between.sin()
        close(grad.double(), torch.where(y == 0, 0, wanted))
        assert not torch.equal(run(x) == 0, y == 0)
        torch.manual_seed(1)
        close(run(x), y)
        assert torch.equal(torch.rand(3), following)  # backward left the generator as it was
    assert plans() == [1, 1]


def test_a_checkpoint_of_dropout_beside_other_numbers() -> None:
    """The mask of few elements and noise are drawn with states, the mask of many by a seed."""

    def block(x: Any, few: Any) -> Any:
        noisy = x * torch.rand_like(x)
        return f.dropout(noisy, 0.5), f.dropout(few * 2, 0.5), f.dropout(noisy * 2, 0.5)

    def checkpointed(x: Any, few: Any) -> Any:
        return torch.utils.checkpoint.checkpoint(block, x, few, use_reentrant=False)

    x, few = torch.rand(MANY).add(0.5).requires_grad_(), torch.ones(8, 8, requires_grad=True)
    first, second, third = compiled(checkpointed)(x, few)
    grads = torch.autograd.grad((first.square() + third.square()).sum() + second.square().sum(), [x, few])
    wide = [each.detach().double() for each in (first, third, x)]
    close(grads[0].double(), 2 * (wide[0].square() + wide[1].square()) / wide[2], 1e-4)
    close(grads[1], 2 * second.detach().square())
    assert plans() == [1, 1]


def test_changing_sizes_are_one_plan() -> None:
    run = torch.compile(dropped, backend="pylayout", dynamic=True)
    for rows in (9, 16, 33):
        x = (torch.rand(rows, 9000) + 1).requires_grad_()
        y, grad = both_ways(run, x, 3)
        assert abs((y == 0).float().mean() - 0.25) < 0.01
        assert torch.equal(grad == 0, y == 0)
    assert len(pylayout.torch.report().graphs) == 2


def test_outside_of_plans_numbers_are_the_same() -> None:
    """float64 runs in PyTorch, which has the mask that a plan has of the same seed."""
    seed = torch.tensor([3, 11])
    kept = own.dropout(torch.ones(40, 50), seed, 0.5) != 0
    assert torch.equal(own.dropout(torch.ones(40, 50, dtype=torch.float64), seed, 0.5) != 0, kept)
    assert torch.equal(own.dropout_mask(seed, [40, 50], 0.5), kept)
    assert torch.equal(compiled(own.dropout)(torch.ones(40, 50), seed, 0.5) != 0, kept)


# ---- attention ----

HEADS, WIDTH = 4, 16


class Attention(nn.Module):
    def __init__(self, causal: bool = False, p: float = 0.2) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(64, 192), nn.Linear(64, 64)
        self.causal, self.p = causal, p

    def forward(self, x: Any, mask: Any = None) -> Any:
        n, words, _ = x.shape
        q, k, v = self.qkv(x).view(n, words, 3, HEADS, WIDTH).permute(2, 0, 3, 1, 4)
        y = f.scaled_dot_product_attention(q, k, v, mask, dropout_p=self.p, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(n, words, 64))


def by_seed(model: Attention, x: Any, seed: Any, mask: Any) -> Any:
    """The same in float64, with the numbers of a seed."""
    n, words, _ = x.shape
    q, k, v = model.qkv(x).view(n, words, 3, HEADS, WIDTH).permute(2, 0, 3, 1, 4)
    scores = q @ k.mT / WIDTH**0.5
    if model.causal:
        mask = torch.ones(words, words, dtype=torch.bool).tril()
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    weights = scores.softmax(-1) * own.dropout(torch.ones_like(scores), seed, model.p)
    return model.out((weights @ v).transpose(1, 2).reshape(n, words, 64))


@pytest.mark.parametrize("how", ["plain", "causal", "hidden", "added"])
def test_attention_is_one_op_in_both_directions(how: str) -> None:
    torch.manual_seed(0)
    words = 70
    model = Attention(how == "causal")
    masks = {"hidden": torch.rand(1, 1, words, words) > 0.3, "added": torch.randn(4, 1, 1, words)}
    mask, x = masks.get(how), torch.randn(4, words, 64)
    weight = torch.randn(4, words, 64)
    with pylayout.profile() as profile:
        torch.manual_seed(9)
        y = compiled(model)(x, mask)
        (y * weight).sum().backward()
    found = [event["op"] for event in profile.events]
    assert found.count("scaled_dot_product_attention") == 1
    assert found.count("scaled_dot_product_attention_backward") == 1
    assert not {"softmax", "random_dropout"} & set(found)
    assert [graph.partitions for graph in pylayout.torch.report().graphs] == [1, 1]

    torch.manual_seed(9)
    seed = torch.randint(2**63 - 1, (1, 2))[0]
    twin = copy.deepcopy(model).double()
    twin.zero_grad()
    wide = None if mask is None or mask.dtype == torch.bool else mask.double()
    wanted = by_seed(twin, x.double(), seed, mask if wide is None else wide)
    (wanted * weight).sum().backward()
    close(y.double(), wanted, 1e-4)
    for mine, exact in zip(model.parameters(), twin.parameters(), strict=True):
        close(mine.grad.double(), exact.grad, 1e-3)


def test_few_weights_draw_the_numbers_of_eager_mode() -> None:
    model, x = Attention(), torch.randn(2, 5, 64)
    results = []
    for run in (compiled(model), model):
        torch.manual_seed(1)
        results.append(run(x))
    close(*results)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_modules_with_dropout_train(dtype: Any) -> None:
    """Results without dropout are eager mode's, so are means over many masks; gradients are finite."""
    layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.1, batch_first=True)
    x = torch.randn(4, 80, 64)
    run = compiled(layer)
    with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
        results = torch.stack([run(x).detach().float() for _ in range(60)])
        run(x).square().sum().backward()
        torch.manual_seed(0)
        eager = torch.stack([layer(x).detach().float() for _ in range(60)])
    assert all(each.grad is not None and each.grad.isfinite().all() for each in layer.parameters())
    assert results.std(0).min() > 0
    spread = (results.var(0) / 60 + eager.var(0) / 60).sqrt()
    assert ((results.mean(0) - eager.mean(0)) / spread).square().mean() < 1.3  # 1 for equal distributions


def test_attention_of_changing_lengths() -> None:
    model = Attention(causal=True)
    run = torch.compile(model, backend="pylayout", dynamic=True)
    for words in (70, 90, 133):
        x = torch.randn(4, words, 64)
        torch.manual_seed(4)
        y = run(x)
        y.sum().backward()
        torch.manual_seed(4)
        seed = torch.randint(2**63 - 1, (1, 2))[0]
        with torch.no_grad():
            close(y, by_seed(model, x, seed, None), 1e-4)
    assert len(pylayout.torch.report().graphs) == 2


class Block(nn.Module):
    """Attention in a residual layer: backward reads its result."""

    def __init__(self, p: float, spelled: bool) -> None:
        super().__init__()
        self.qkv, self.out, self.p, self.spelled = nn.Linear(64, 192), nn.Linear(64, 64), p, spelled

    def forward(self, x: Any) -> Any:
        n, words, _ = x.shape
        q, k, v = self.qkv(x).view(n, words, 3, HEADS, WIDTH).permute(2, 0, 3, 1, 4)
        if self.spelled:
            y = f.dropout((q @ k.mT / WIDTH**0.5).softmax(-1), self.p) @ v
        else:
            y = f.scaled_dot_product_attention(q, k, v, dropout_p=self.p)
        return x + self.out(y.transpose(1, 2).reshape(n, words, 64))


class Checkpointed(nn.Module):
    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block = block

    def forward(self, x: Any) -> Any:
        return torch.utils.checkpoint.checkpoint(self.block, x, use_reentrant=False).square()


@pytest.mark.parametrize("words", [6, 70, "late"])
@pytest.mark.parametrize("spelled", [False, True])
@pytest.mark.parametrize("p", [0.0, 0.2])
def test_attention_of_a_checkpoint_divides_no_plan(p: float, spelled: bool, words: Any) -> None:
    """Gradients are those without the checkpoint, by the same numbers; the op is the one that is traced without it."""
    block = Block(p, spelled)
    sizes = (70, 81, 90) if words == "late" else (words,)
    runs = [compiled(Checkpointed(block)), compiled(lambda x: block(x).square())]
    for size in sizes:
        x, made = torch.randn(4, size, 64), []
        if words == "late":
            torch._dynamo.mark_dynamic(x, 1)
        for run in runs:
            torch.manual_seed(2)
            y = run(x)
            made.append([y, *torch.autograd.grad(y.sum(), [*block.parameters()])])
        for mine, theirs in zip(*made, strict=True):
            close(mine, theirs, 1e-4)
    assert plans() == [1, 1, 1, 1], str(pylayout.torch.report())
    with pylayout.profile() as profile:
        runs[0](x).sum().backward()
    found = [event["op"] for event in profile.events]
    if p == 0 or words != 6:  # backward makes it again
        assert found.count("scaled_dot_product_attention") == 2 and "softmax" not in found


@pytest.mark.parametrize("checkpointed", [False, True])
def test_attention_that_drops_nothing_draws_nothing(checkpointed: bool) -> None:
    """Numbers drawn behind it wait for no plan."""

    def block(q: Any, k: Any, v: Any) -> Any:
        return f.dropout(f.scaled_dot_product_attention(q, k, v).square(), 0.5)

    def function(*given: Any) -> Any:
        return torch.utils.checkpoint.checkpoint(block, *given, use_reentrant=False) if checkpointed else block(*given)

    given = [torch.randn(2, HEADS, 6, WIDTH, requires_grad=True) for _ in range(3)]
    y = compiled(function)(*given)
    grads = torch.autograd.grad(y.sum(), given)
    wide = [each.detach().double().requires_grad_() for each in given]
    wanted = f.scaled_dot_product_attention(*wide).square() * 2 * (y.detach() != 0)
    for mine, exact in zip((y, *grads), (wanted, *torch.autograd.grad(wanted.sum(), wide)), strict=True):
        close(mine.double(), exact.double(), 1e-4)
    assert plans() == [1, 1]


def test_what_the_op_does_not_take_stays_with_pytorch() -> None:
    """Heads that are not named, and float64."""

    def function(q: Any, k: Any, v: Any) -> Any:
        return f.scaled_dot_product_attention(q, k, v, dropout_p=1e-9)

    for shape, dtype in (((4, 150, 8, 16), torch.float64), ((8, 150, 16), torch.float32)):
        given = [torch.randn(shape, dtype=dtype) for _ in range(3)]
        close(compiled(function)(*given), f.scaled_dot_product_attention(*given), 1e-4)

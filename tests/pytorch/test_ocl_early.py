"""Numbers that plans give and the host reads: it waits for them, not for what was queued behind."""

import copy

import pytest

torch = pytest.importorskip("torch")

from ocl_testing import OCL, numbers, quiet, small_network  # noqa: E402, F401


def _network():
    torch.manual_seed(0)
    here = small_network()
    there = copy.deepcopy(here).to(OCL)
    torch._dynamo.reset()

    def loss_of(x, t):
        return torch.nn.functional.cross_entropy(there(x), t)

    return here, there, torch.compile(loss_of, backend="pylayout", options={"deterministic": True})


X, T = numbers(4, 3, 12, 12), torch.arange(4)


def test_losses_are_those_of_their_steps():
    here, there, fast = _network()
    x, t = X.to(OCL), T.to(OCL)
    mine, exact = torch.optim.Adam(there.parameters(), 0.01, fused=True), torch.optim.Adam(here.parameters(), 0.01)
    for _ in range(6):
        wanted = torch.nn.functional.cross_entropy(here(X), T)
        for optimizer, loss in ((mine, fast(x, t)), (exact, wanted)):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if optimizer is mine:
                assert float(loss.detach()) == pytest.approx(float(wanted.detach()), rel=1e-3)


def _step(fast, x, t, between=lambda loss: None):
    loss = fast(x, t)
    between(loss)
    loss.backward()
    return loss


def test_reading_a_loss_does_not_wait_for_what_follows():
    _, _, fast = _network()
    x, t = X.to(OCL), T.to(OCL)
    large = torch.ones(1600, 1600).to(OCL)
    large @ large
    for _ in range(3):
        first = float(_step(fast, x, t).detach())
    torch.ocl.synchronize()
    loss, behind = _step(fast, x, t), torch.ocl.Event()
    for _ in range(4):
        large @ large
    behind.record()
    assert float(loss.detach()) == pytest.approx(first, rel=1e-5)
    assert not behind.query()
    torch.ocl.synchronize()
    assert float(loss.detach()) == pytest.approx(first, rel=1e-5)


@pytest.mark.parametrize("after_backward", [False, True])
@pytest.mark.parametrize(
    "change",
    [
        lambda loss: loss.data.mul_(3),
        lambda loss: loss.detach().view(1).mul_(3),
        lambda loss: torch._foreach_mul_([loss.detach()], 3),
        lambda loss: loss.detach().copy_(torch.tensor(float(loss) * 3)),
        lambda loss: torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(loss.detach())).mul_(3),
    ],
    ids=["data", "view", "list", "copy", "dlpack"],
)
def test_a_number_that_changes_is_read_as_it_is_then(change, after_backward):
    _, _, fast = _network()
    x, t = X.to(OCL), T.to(OCL)
    for _ in range(3):
        first = float(_step(fast, x, t).detach())
    for _ in range(2):
        loss = _step(fast, x, t, (lambda loss: None) if after_backward else change)
        if after_backward:
            change(loss)
        assert float(loss.detach()) == pytest.approx(3 * first, rel=1e-5)


def test_what_is_read_before_anything_else_runs():
    """And whatever of it is let go of before the next run."""
    _, _, fast = _network()
    x, t = X.to(OCL), T.to(OCL)
    losses = []
    for number in range(6):
        loss = fast(x, t)
        if number % 2:
            losses.append(float(loss.detach()))
        loss.backward()
        if number % 3:
            losses.append(float(loss.detach()))
        del loss
    assert losses == pytest.approx([losses[0]] * len(losses), rel=1e-4)

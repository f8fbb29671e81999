"""Parts of parts that compiled functions write: one op, and the same as in eager mode."""

import itertools

import pytest

torch = pytest.importorskip("torch")

from compile_testing import fresh  # noqa: E402, F401
from torch._functorch.compile_utils import fx_graph_cse  # noqa: E402
from torch.func import functionalize  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

import pylayout.torch  # noqa: E402, F401
from pylayout.torch.parts import join_written_parts  # noqa: E402

pytestmark = pytest.mark.usefixtures("unoptimised")


def a_part_of_a_part(x, y):
    x = x * 1.5
    x[:, 1:-1, ::2, 0] = y[:, 1:-1, ::2, 1]
    return x


def several_parts(x, y):
    x = x + 1
    x[:, ::2, 1::2] = y[:, ::2, 1::2]
    x[:, 1::2][..., -1] += y[0, 0, 0, 0]
    x[-1, :, -2] = x[0, :, 0]
    x[:, 2:2] = 7
    x[0][1][2] = 9
    return x * 2


def slices_of_slices(x, y):
    z = x.clone()
    z[1:, ::3][:, 1:][..., ::2][..., 1:] *= 2
    return z + y


def turned_and_flat(x, y):
    z = x.clone()
    z.transpose(1, 2)[:, 0] = y[:, :, 0]
    z.flatten()[3:9] = 0
    return z + 1


def filled(x, y):
    z = torch.full((x.shape[0], x.shape[1] + 2, 5, 3), -1.0)
    z[:, 1:-1, 0, 1:] = x[:, :, 0, :2]
    return z


FUNCTIONS = [a_part_of_a_part, several_parts, turned_and_flat, filled]
CASES = [*itertools.product(FUNCTIONS, (False, True)), (slices_of_slices, False)]  # PyTorch traces it for a minute


@pytest.mark.parametrize(("function", "dynamic"), CASES)
def test_parts_are_written(function, dynamic):
    fast = torch.compile(function, backend="pylayout", dynamic=dynamic)
    for batch, rows in ((2, 7), (3, 8), (2, 9)):
        x, y = torch.randn(batch, rows, 6, 4), torch.randn(batch, rows, 6, 4)
        given, like = [[each.clone().requires_grad_() for each in (x, y)] for _ in range(2)]
        with torch.no_grad():
            torch.testing.assert_close(fast(x, y), function(x, y))
        made, wanted = fast(*given), function(*like)
        torch.testing.assert_close(made, wanted)
        made.square().sum().backward()
        wanted.square().sum().backward()
        for mine, theirs in zip(given, like, strict=True):
            assert (mine.grad is None) == (theirs.grad is None)
            if mine.grad is not None:
                torch.testing.assert_close(mine.grad, theirs.grad)


def test_a_chain_is_one_op():
    x, y = torch.randn(4, 16, 16, 4), torch.randn(4, 16, 16, 4)
    traced = make_fx(functionalize(a_part_of_a_part, remove="mutations"), tracing_mode="fake")(x, y)
    traced.graph = fx_graph_cse(traced.graph)  # as AOTAutograd does
    join_written_parts(traced.graph)
    traced.recompile()
    put = [node for node in traced.graph.nodes if "scatter" in str(node.target)]
    assert [str(node.target) for node in put] == ["pylayout.slice_scatter.default"]

    torch.testing.assert_close(traced(x, y), a_part_of_a_part(x, y))

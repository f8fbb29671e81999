"""Look-ups and puts by several indices at once, which are made one; each is to lie within its own dimension."""

import pytest

torch = pytest.importorskip("torch")

from compile_testing import fresh  # noqa: E402, F401

import pylayout as pl  # noqa: E402

pytestmark = pytest.mark.usefixtures("unoptimised")

ROWS, COLUMNS = torch.tensor([[0, -1], [2, 1]]), torch.tensor([1, -4])

FUNCTIONS = {
    "beside each other": lambda x, i, j: x[i, j],
    "apart": lambda x, i, j: x[i, :, j],
    "last": lambda x, i, j: x[..., i, j],
    "put": lambda x, i, j: x.index_put((i, j), x[0, 0]),
    "added": lambda x, i, j: x.index_put((i, j), x[0, 0], accumulate=True),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_indices_are_within(name, dynamic):
    compiled = torch.compile(FUNCTIONS[name], backend="pylayout", dynamic=dynamic)
    for size in (4, 5):
        x = torch.randn(3, size, 4, 4)
        torch.testing.assert_close(compiled(x, ROWS, COLUMNS), FUNCTIONS[name](x, ROWS, COLUMNS))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(("row", "column"), [(1, 5), (0, -6), (-5, 1), (4, 0)])
def test_an_index_that_only_its_own_dimension_has_not(name, row, column, dynamic):
    x, i, j = torch.randn(4, 5, 5, 5), torch.tensor([0, row]), torch.tensor([0, column])
    if name == "last":
        x = x[..., :4, :]
    compiled = torch.compile(FUNCTIONS[name], backend="pylayout", dynamic=dynamic)
    with pytest.raises(pl.InvalidArgumentError, match=r"index is .* at element 1"):
        compiled(x, i, j)

"""Medians and k-th values along a dimension, which are taken out of rows that are not put in order."""

import pytest

torch = pytest.importorskip("torch")

from compile_testing import compiled, fresh  # noqa: E402, F401

import pylayout.torch  # noqa: E402

pytestmark = pytest.mark.usefixtures("unoptimised")

FUNCTIONS = {
    "median": lambda x, dim: torch.median(x, dim),
    "nanmedian": lambda x, dim: torch.nanmedian(x, dim),
    "kthvalue": lambda x, dim: torch.kthvalue(x, 3, dim),
    "quantile": lambda x, dim: (torch.quantile(x, 0.3, dim), torch.quantile(x, 1.0, dim)),
    "sort": lambda x, dim: torch.sort(x, dim),
}


def same(made, wanted):
    for mine, theirs in zip(made, wanted, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("shape", [(5, 33), (3, 1000), (4, 3, 256), (7, 4)])
def test_along_any_dimension(name, shape):
    x = torch.randn(shape)
    for dim in (-1, 0):
        fast = compiled(lambda x, dim=dim: FUNCTIONS[name](x, dim))
        same(fast(x), FUNCTIONS[name](x, dim)) if x.shape[dim] >= 3 else None
    ranks_in_float64 = name == "quantile" and torch.__version__ >= "2.14"
    assert ranks_in_float64 or not pylayout.torch.report().left


@pytest.mark.parametrize("name", ["median", "nanmedian", "sort"])
def test_among_nan(name):
    x = torch.randn(6, 301)
    x[1, 5] = x[2] = x[3, ::2] = torch.nan
    x[4, 7], x[5, 9] = torch.inf, -torch.inf
    made, wanted = compiled(lambda x: FUNCTIONS[name](x, -1))(x), FUNCTIONS[name](x, -1)
    torch.testing.assert_close(made[0], wanted[0], rtol=0, atol=0, equal_nan=True)
    rows = [0, 1, 4, 5]  # of several NaN any may be named
    if name != "sort":
        torch.testing.assert_close(made[1][rows], wanted[1][rows])


@pytest.mark.parametrize("name", ["median", "kthvalue"])
def test_of_any_length(name):
    fast = torch.compile(lambda x: FUNCTIONS[name](x, -1), backend="pylayout", dynamic=True)
    for length in (10, 33, 400):
        x = torch.randn(4, length)
        same(fast(x), FUNCTIONS[name](x, -1))

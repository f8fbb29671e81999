"""Parts of values that are known when a graph is compiled, and tensors that do not lie as plans take them."""

import pytest

torch = pytest.importorskip("torch")

from compile_testing import compiled, fresh  # noqa: E402, F401

nn, F = torch.nn, torch.nn.functional
pytestmark = pytest.mark.usefixtures("unoptimised")

PARTS = {
    "split": lambda x: torch.arange(4).split(2)[1],
    "columns": lambda x: torch.arange(12).view(3, 4).chunk(2, 1)[1],
    "joined": lambda x: torch.arange(12.0).view(3, 4).unbind(1)[2] + x,
    "float64": lambda x: torch.arange(6.0, dtype=torch.float64).chunk(2)[1] * x.double(),
    "bicubic, float64": lambda x: F.interpolate(x.double().view(1, 1, 1, 3), scale_factor=2, mode="bicubic"),
}


@pytest.mark.parametrize("name", PARTS)
def test_parts_of_what_is_known(name):
    x = torch.randn(3)
    torch.testing.assert_close(compiled(PARTS[name])(x), PARTS[name](x))


class Gaps(nn.Module):
    def __init__(self):
        super().__init__()
        self.columns = nn.Parameter(torch.randn(4, 8)[:, ::2])
        self.frozen = nn.Parameter(torch.randn(4, 8)[:, :4], requires_grad=False)
        self.register_buffer("repeated", torch.tensor([3.0]).expand(4))

    def forward(self, x):
        return F.linear(x * self.frozen, self.columns) + self.repeated


@pytest.mark.parametrize("grad", [False, True])
def test_weights_with_gaps(grad):
    module, x = Gaps(), torch.randn(4, 4)
    fast = torch.compile(module, backend="pylayout")
    with torch.set_grad_enabled(grad):
        for _ in range(2):
            torch.testing.assert_close(fast(x), module(x))
            with torch.no_grad():
                module.columns.mul_(1.5)


def by_words(heads, words):
    return torch.randn(2, words, heads, 8).transpose(1, 2)


def by_heads(heads, words):
    return torch.randn(2, heads, words, 8)


def by_texts(heads, words):
    return torch.randn(words, 2, heads, 8).permute(1, 2, 0, 3)


@pytest.mark.parametrize("query", [by_words, by_heads, by_texts])
@pytest.mark.parametrize("groups", [1, 2])
def test_attention_lies_as_its_queries(query, groups):
    def attended(q, k):
        made = F.scaled_dot_product_attention(q, k, k, enable_gqa=groups > 1)
        made.flatten().zero_()  # of what is in one piece
        return made

    q, k = query(4, 3), by_words(4 // groups, 5)
    with torch.no_grad():
        made, wanted = compiled(attended)(q, k), attended(q, k)
    torch.testing.assert_close(made, wanted)
    assert made.stride() == wanted.stride()


@pytest.mark.parametrize("n", [64, 77])
def test_transforms_of_lines_of_other_sizes(n):
    x = torch.randn(37, n)
    x[1] *= 1e8
    x[20] *= 1e-20
    x[9] = 0
    x[5, 3] = torch.nan

    def transformed(x):
        return torch.view_as_real(torch.fft.rfft(x))

    def back(x):
        return torch.fft.irfft(torch.view_as_complex(x), n)

    for function, given in ((transformed, x), (back, transformed(x))):
        made, wanted = compiled(function)(given), function(given.double())
        assert torch.equal(made.isnan().flatten(1).any(1), wanted.isnan().flatten(1).any(1))
        rows = ~wanted.isnan().flatten(1).any(1)
        away, size = ((made - wanted)[rows], wanted[rows])
        assert (away.flatten(1).abs().amax(1) <= 1e-6 * size.flatten(1).abs().amax(1)).all()


def test_statistics_of_nan():
    def statistics(x, mean, variance):
        F.batch_norm(x, mean, variance, training=True, momentum=0.5)
        return mean, variance

    x = torch.randn(2, 3, 4)
    x[0, 1, 1] = torch.nan
    with torch.no_grad():
        made = compiled(statistics)(x, torch.zeros(3), torch.ones(3))
    assert [each.isnan().tolist() for each in made] == [[False, True, False]] * 2


def test_places_beside_a_view():
    for function in (
        lambda x: torch.as_strided_scatter(x[1:], torch.ones(2), (2,), (1,), 0) + 1,
        lambda x: torch.as_strided_scatter(torch.tensor_split(x, 2)[1], torch.ones(2), (2,), (2,), 0) + 1,
    ):
        torch.testing.assert_close(compiled(function)(torch.zeros(9)), function(torch.zeros(9)))


def test_sizes_of_complex_numbers_beside_nan():
    inf, nan = torch.inf, torch.nan
    x = torch.complex(torch.tensor([inf, nan, 1.0, 3.0]), torch.tensor([nan, -inf, nan, 4.0]))
    torch.testing.assert_close(compiled(torch.abs)(x), x.abs(), equal_nan=True)

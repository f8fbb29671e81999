"""Complex numbers in plans, as pairs of real ones: rotary embeddings, Fourier transforms, arithmetic."""

import pytest

torch = pytest.importorskip("torch")

from compile_testing import close, compiled, fresh  # noqa: E402, F401

import pylayout as pl  # noqa: E402
import pylayout.torch  # noqa: E402

pytestmark = pytest.mark.usefixtures("unoptimised")
fft, r = torch.fft, torch.randn


def c(*shape):
    return torch.view_as_complex(r(*shape, 2))


def whole(*shape):
    return torch.view_as_complex(torch.randint(0, 2, (*shape, 2)).float())


def rotated(x, turns):
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns[None, : x.shape[1], None]).flatten(3)


def spectral(x, w):
    low = torch.einsum("bif,iof->bof", fft.rfft(x)[..., :4], torch.view_as_complex(w))
    return fft.irfft(low, n=x.shape[-1])


def spectral_by_parts(x, w):
    """A layer of a Fourier neural operator: parts of parts are written."""
    low = fft.rfft2(x)
    weight = torch.view_as_complex(w)
    made = torch.zeros(x.shape[0], w.shape[1], *low.shape[2:], dtype=torch.cfloat)
    made[:, :, :3, :3] = torch.einsum("bixy,ioxy->boxy", low[:, :, :3, :3], weight)
    made[:, :, -3:, :3] = torch.einsum("bixy,ioxy->boxy", low[:, :, -3:, :3], weight)
    return fft.irfft2(made, s=x.shape[-2:])


def windowed(x):
    return torch.stft(x, 32, 8, window=torch.hann_window(32, dtype=x.dtype), return_complex=True)


def and_back(x):
    window = torch.hann_window(32, dtype=x.dtype)
    return torch.istft(windowed(x), 32, 8, window=window, length=x.shape[-1])


CASES = {
    "rotary": (rotated, lambda: (r(2, 5, 3, 8), torch.polar(torch.ones(7, 4), r(7, 4)))),
    "rfft": (lambda x: fft.rfft(x).abs(), lambda: (r(3, 20),)),
    "irfft": (lambda x: fft.irfft(fft.rfft(x) * 2, n=x.shape[-1]), lambda: (r(3, 21),)),
    "two axes": (lambda x: fft.fft2(x).real + fft.ifft2(x, norm="ortho").imag, lambda: (r(2, 6, 5),)),
    "two axes of real": (lambda x: fft.irfft2(fft.rfft2(x, norm="ortho") * 1.5, norm="forward"), lambda: (r(2, 6, 8),)),
    "one axis after the other": (lambda x: fft.fft(fft.fft(x, dim=-1), dim=-2).real, lambda: (r(2, 6, 8),)),
    "spectral layer": (spectral, lambda: (r(2, 3, 16), r(3, 4, 4, 2))),
    "spectral layer by parts": (spectral_by_parts, lambda: (r(2, 3, 8, 10), r(3, 4, 3, 3, 2))),
    "a prime length": (lambda x: fft.fft(x).abs() ** 2, lambda: (c(3, 67),)),
    "both halves": (lambda x: fft.fft(x).real + fft.fft(x[..., :30]).imag.sum(), lambda: (r(3, 31),)),
    "along the first axis": (lambda x: fft.irfft(fft.rfft(x, dim=0) * 2, n=20, dim=0), lambda: (r(20, 35),)),
    "stft": (lambda x: windowed(x).abs() ** 2, lambda: (r(2, 200),)),
    "istft": (and_back, lambda: (r(2, 200),)),
    "arithmetic": (
        lambda a, b, x: (a * b.conj() + a / b - 1j * a + x * a - (a + 1) / x - 2 * b).abs(),
        lambda: (c(3, 5), c(3, 5), torch.rand(5) + 1),
    ),
    "angles": (lambda a: torch.angle(a * 2 + 1), lambda: (c(3, 5),)),
    "splits": (
        lambda a: torch.stack([x.abs().sum() for x in (*a.split([2, 3], 1), *a.T.split(2), a.unbind(0)[1][None])]),
        lambda: (c(3, 5),),
    ),
    "rows": (
        lambda a: torch.view_as_real(a[torch.tensor([2, 0, 1])] + a[:, torch.tensor([-1, 2, 0])].T.flip(0, 1)[:3, :1]),
        lambda: (c(3, 5),),
    ),
    "sums of rows": (
        lambda a: (torch.zeros(4, 5, dtype=a.dtype) + 1).index_add(0, torch.tensor([2, 0, 2]), a).abs(),
        lambda: (c(3, 5),),
    ),
    "parts": (
        lambda a: torch.cat([a, -a], 0)[1:4, None].expand(3, 2, 5).transpose(0, 1)[1].sum(0).squeeze(),
        lambda: (c(3, 5),),
    ),
    "products": (lambda a, b: (a @ b).imag, lambda: (c(2, 3, 5), c(2, 5, 4))),
    "polar": (lambda a, b: torch.polar(a, b) * torch.complex(b, a), lambda: (torch.rand(3, 4), r(3, 4))),
    "functions": (lambda a, b: a.exp() + (a + 2).log() * b.sqrt() + 1 / b + a.reciprocal(), lambda: (c(3, 5), c(3, 5))),
    "powers": (
        lambda a, b, x: (
            a**2 - a**5 + (a + 3) ** 0.5 + (a + 3) ** -1.5 + a**-2 + (a + 3) ** b + (a + 3) ** x + 2**a + 2.5j**b
        ),
        lambda: (c(3, 5), c(3, 5), r(5)),
    ),
    "roll": (lambda a: a.roll((1, -2), (0, -1)) * a.cumsum(-1), lambda: (c(3, 5),)),
    "variances": (
        lambda a: a.var(1) + a.std() + torch.var_mean(a, -1)[1].real * a.var(0, correction=0).sum(),
        lambda: (c(3, 5),),
    ),
    "norms": (
        lambda a: torch.stack([torch.linalg.vector_norm(a + 3, each) for each in (1, 2, 3)]) + a.norm(dim=0).sum(),
        lambda: (c(3, 5),),
    ),
    "sums": (lambda a: a.sum() + a.mean() * a.sum(-1).mean(), lambda: (c(3, 5),)),
    "masks": (lambda a, b: torch.where(a == b, a, b * 2) * (a != 0), lambda: (whole(3, 4), whole(3, 4))),
}


def error(made, exact):
    return ((made.to(exact.dtype) - exact).abs().max() / exact.abs().max()).item()


@pytest.mark.parametrize("name", CASES)
def test_complex_numbers_are_one_plan_each_way(name):
    function, make = CASES[name]
    given = make()
    mine = [x.clone().requires_grad_() for x in given]
    exact = [x.to(torch.complex128 if x.is_complex() else torch.float64).requires_grad_() for x in given]
    made, wanted = compiled(function)(*mine), function(*exact)
    assert error(made, wanted) < 1e-6
    like = function(*given)
    assert (made.dtype, made.stride()) == (like.dtype, like.stride())

    def loss(result):
        return (torch.view_as_real(result) if result.is_complex() else result).square().mean()

    loss(made).backward()
    loss(wanted).backward()
    for x, y in zip(mine, exact, strict=True):
        assert error(x.grad, y.grad) < 2e-6
    assert len(pylayout.torch.report().graphs) == 2
    for graph in pylayout.torch.report().graphs:
        assert graph.partitions == 1 and not graph.left, str(graph)


@pytest.mark.parametrize(
    ("size", "hop", "center"), [(32, 8, True), (30, 7, True), (16, 16, False), (12, 20, False), (400, 160, True)]
)
@pytest.mark.parametrize("shape", [(900,), (3, 1000)])
def test_windows_of_any_size_and_distance(shape, size, hop, center):
    x, window = r(*shape), torch.rand(size)

    def function(x, window):
        made = torch.stft(x, size, hop, window=window, center=center, return_complex=True)
        return torch.view_as_real(made), torch.view_as_real(
            torch.stft(x * 2, size, hop, return_complex=True)
        ).abs().sum()

    with torch.no_grad():
        for mine, exact in zip(compiled(function)(x, window), function(x.double(), window.double()), strict=True):
            assert error(mine, exact) < 1e-6
    (graph,) = pylayout.torch.report().graphs
    assert graph.partitions == 1 and not graph.left, str(graph)


@pytest.mark.parametrize("dim", [None, 0, -1])
def test_products_of_complex_numbers(dim):
    def function(x):
        return x.prod() if dim is None else x.prod(dim, keepdim=True)

    x = c(3, 5) * 2
    assert error(compiled(function)(x), function(x.to(torch.complex128))) < 1e-6
    (graph,) = pylayout.torch.report().graphs
    assert graph.partitions == 1 and not graph.left, str(graph)


def test_complex_functions_of_any_number():
    """Of numbers near 1, near the axes, large and small, and of zeros."""
    size = torch.tensor([0.0, -0.0, 1e-30, 1e-5, 0.3, 0.9999999, 1.0, 1.0000001, 7.0, 1e5, 1e18, 3e38])
    given = torch.complex(*torch.meshgrid(torch.cat([size, -size]), torch.cat([size, -size]), indexing="ij")).flatten()
    given = given[given.abs().isfinite()]

    def function(x):
        return torch.log(x), torch.sqrt(x), x**0.5, x**2.0, (x * 1e-18) ** 1.5, torch.exp(around(x))

    def around(x):
        return torch.view_as_complex(torch.view_as_real(x).clamp(-9, 9))

    made = compiled(function)(given)
    for mine, wanted, eager in zip(made, function(given.to(torch.complex128)), function(given), strict=True):
        known = torch.view_as_real(eager).isfinite().all(-1)  # where float32 has a result
        size = wanted.abs().clamp_min(1e-30)[known]
        mine, theirs = (((each.to(wanted.dtype) - wanted)[known].abs() / size).max() for each in (mine, eager))
        assert mine < max(5e-7, 2 * theirs)


def test_complex_functions_of_any_length_are_one_plan():
    def function(x):
        powers = x.exp() * (x + 3).log() + (x + 3) ** 1.5 + x**3 + x.cumsum(0)
        return powers, x.var(0), torch.linalg.vector_norm(x, dim=0), x.sum()

    fast = torch.compile(function, backend="pylayout", dynamic=True)
    for length in (5, 9, 30):
        x = c(length, 4)
        for made, exact in zip(fast(x), function(x.to(torch.complex128)), strict=True):
            assert error(made, exact) < 2e-6
    (graph,) = pylayout.torch.report().graphs
    assert graph.partitions == 1 and not graph.left, str(graph)


def test_turns_of_any_length_are_one_plan():
    turns = torch.polar(torch.ones(30, 4), r(30, 4))
    fast = torch.compile(lambda x: rotated(x, turns), backend="pylayout", dynamic=True)
    with torch.no_grad():
        for length in (5, 9, 30):
            x = r(2, length, 3, 8)
            close(fast(x), rotated(x, turns), 1e-5)
    (graph,) = pylayout.torch.report().graphs
    assert graph.partitions == 1 and not graph.left, str(graph)


def test_complex_inputs_as_they_come():
    """Conjugated without having been computed, and not in the order of memory."""
    fast = compiled(lambda a, b: a * 2 + b)
    for a in (c(3, 4), c(3, 4).conj(), c(4, 3).T, c(4, 3).T.conj()):
        b = c(3, 4)
        close(fast(a, b), a * 2 + b)


def test_an_exported_module_with_complex_constants():
    class Rotary(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("turns", torch.polar(torch.ones(9, 4), r(9, 4)))

        def forward(self, x):
            return rotated(x, self.turns), fft.rfft(x[..., 0], dim=1).abs()

    model, x = Rotary(), r(2, 5, 3, 8)
    plan = pl.compile(model, (x,))
    assert "(rotary_embedding)" in str(plan.explain())  # a product with what repeats over the rows of the other
    for made, wanted in zip(plan.run(x.numpy()), model(x), strict=True):
        torch.testing.assert_close(torch.tensor(made), wanted, rtol=1e-5, atol=1e-5)

    class Given(torch.nn.Module):
        def forward(self, a):
            return a * 2j

    for given in (c(3), r(3)):  # of an argument, and of a result
        with pytest.raises(pl.UnsupportedError, match="complex, expected real numbers"):
            pl.compile(Given(), (given,))


def test_what_is_left_to_pytorch_is_named():
    def function(x):
        return fft.fft(x).abs(), torch.tan(torch.complex(x, x)).abs()

    x = r(2, 1500)
    for made, wanted in zip(compiled(function)(x), function(x), strict=True):
        torch.testing.assert_close(made, wanted, rtol=1e-4, atol=1e-4)
    left = dict(left for graph in pylayout.torch.report().graphs for left in graph.left)
    assert "tan.default" in left and "_fft_r2c.default" not in left, left


def test_sizes_whose_squares_overflow():
    x = torch.tensor([1e20 + 1e20j, 1e-23 + 1e-23j, 3e38 - 1e30j, 1e-25j, 0, 2 - 1j])

    def function(x):
        return x.abs(), x.sgn(), (2 * x) / x, x[:4].reciprocal(), x / (1e22 + 3e21j)

    for found, wanted in zip(torch.compile(function, backend="pylayout")(x), function(x), strict=True):
        assert torch.view_as_real(found + 0j).allclose(
            torch.view_as_real(wanted + 0j), rtol=1e-5, atol=0, equal_nan=True
        )

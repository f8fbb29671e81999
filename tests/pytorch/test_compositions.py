"""Ops that are made of others: bilinear layers and bags of embeddings, traced and exported, against PyTorch."""

import copy

import pytest

torch = pytest.importorskip("torch")

from compile_testing import close, compiled, fresh  # noqa: E402, F401

import pylayout as pl  # noqa: E402
import pylayout.torch  # noqa: E402

nn = torch.nn
pytestmark = pytest.mark.usefixtures("unoptimised")


def bags(**options):
    return nn.EmbeddingBag(9, 4, **options)


def indices(*last):
    """Eight indices and offsets of bags, of which the second is empty. A last offset is to be their count: of indices
    behind it PyTorch's gradient reads memory that is not the result's."""
    return torch.tensor([2, 8, 2, 0, 1, 5, 2, 7]), torch.tensor([0, 3, 3, 5, *last])


CASES = {
    "bilinear": (lambda: nn.Bilinear(5, 7, 4), lambda: (torch.randn(2, 3, 5), torch.randn(2, 3, 7))),
    "bilinear without bias": (lambda: nn.Bilinear(5, 1, 4, bias=False), lambda: (torch.randn(5), torch.randn(1))),
    "mean of bags": (bags, indices),
    "mean of rows": (bags, lambda: (torch.randint(0, 9, (3, 5)),)),
    "sum of bags": (lambda: bags(mode="sum"), indices),
    "padding": (lambda: bags(padding_idx=2), indices),
    "a last offset": (lambda: bags(mode="sum", include_last_offset=True), lambda: indices(8)),
    "weighted": (lambda: bags(mode="sum"), lambda: (*indices(), torch.randn(8, requires_grad=True))),
    "weighted, with padding": (
        lambda: bags(mode="sum", padding_idx=2), lambda: (*indices(), torch.randn(8, requires_grad=True))
    ),
    "largest of bags": (lambda: bags(mode="max"), indices),
    "largest, a last offset": (lambda: bags(mode="max", include_last_offset=True), lambda: indices(8)),
    "largest, bags of padding alone": (
        lambda: bags(mode="max", padding_idx=2), lambda: (torch.tensor([2, 8, 2, 0, 2]), torch.tensor([0, 2, 3, 3]))
    ),
    "largest of equal ones": (
        lambda: bags(mode="max", _weight=torch.tensor([[0.0, 1], [1, 1], [-1, 2], [1, 0], [-1, 2]]).repeat(2, 2)[:9]),
        indices,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_layer_is_one_plan_each_way(name):
    make, given = CASES[name]
    model, arguments = make(), given()
    twin, others = copy.deepcopy(model), copy.deepcopy(arguments)
    made, wanted = compiled(model)(*arguments), twin(*others)
    close(made, wanted)
    made.square().sum().backward()
    wanted.square().sum().backward()
    for mine, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        close(mine.grad, theirs.grad, 1e-4)
    for mine, theirs in zip(arguments, others, strict=True):
        if theirs.requires_grad:
            close(mine.grad, theirs.grad, 1e-4)
    assert len(pylayout.torch.report().graphs) == 2
    for graph in pylayout.torch.report().graphs:
        assert graph.partitions == 1 and not graph.left, str(graph)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_any_number(mode):
    model = bags(mode=mode)
    fast = torch.compile(model, backend="pylayout", dynamic=True)
    with torch.no_grad():
        for count in (2, 5, 3):
            places = torch.randint(0, 9, (count, 3 + count))
            close(fast(places), model(places))
            close(fast(places.int()), model(places.int()))


@pytest.mark.parametrize("width", [1, 15, 64, 83])
def test_bags_of_many_rows(width):
    model = nn.EmbeddingBag(3000, width, mode="mean")
    places = torch.randint(0, 3000, (40, 33))
    with torch.no_grad():
        close(compiled(model)(places), model(places))
        close(compiled(model)(torch.randint(0, 3000, (0, 33))), model(torch.randint(0, 3000, (0, 33))))


def test_a_bag_with_a_row_that_does_not_exist_is_an_error():
    with torch.no_grad(), pytest.raises(Exception, match="embedding_bag: index is 9 at element 1, expected -9 to 8"):
        compiled(bags())(torch.tensor([3, 9, 1]), torch.tensor([0, 2]))


@pytest.mark.parametrize("name", ["bilinear", "mean of bags"])
def test_an_exported_layer(name):
    make, given = CASES[name]
    model, arguments = make(), given()
    made = pl.compile(model, arguments).run(*[x.numpy() for x in arguments])[0]
    with torch.no_grad():
        close(torch.tensor(made), model(*arguments))


@pytest.mark.parametrize("padding", [None, 2])
def test_rows_that_are_shortened_to_a_norm(padding):
    model = nn.Embedding(9, 4, padding_idx=padding, max_norm=1.0, norm_type=1.0, scale_grad_by_freq=True)
    twin, places = copy.deepcopy(model), torch.tensor([[2, 8, 2], [0, 2, 5]])
    made, wanted = compiled(model)(places), twin(places)
    close(made, wanted)
    close(model.weight, twin.weight)  # the table itself is written to
    made.square().sum().backward()
    wanted.square().sum().backward()
    close(model.weight.grad, twin.weight.grad)
    for graph in pylayout.torch.report().graphs:
        assert graph.partitions == 1 and {op for op, _ in graph.left} <= {"copy_.default"}, str(graph)


@pytest.mark.parametrize(("dim", "size", "step"), [(2, 9, 1), (2, 5, 2), (2, 4, 4), (1, 2, 1), (-3, 2, 1), (2, 3, 5)])
def test_windows_are_added_up_at_once(dim, size, step):
    x = torch.randn(2, 3, 20, requires_grad=True)
    twin = x.detach().clone().requires_grad_()
    made, wanted = compiled(lambda x: x.unfold(dim, size, step).sin())(x), twin.unfold(dim, size, step).sin()
    close(made, wanted)
    made.square().sum().backward()
    wanted.square().sum().backward()
    close(x.grad, twin.grad)
    report = pylayout.torch.report()
    assert not report.left and all(graph.planned < 20 for graph in report.graphs), str(report)


@pytest.mark.parametrize("corners", [True, False])
@pytest.mark.parametrize("size", [(2, 3, 5, 7), (2, 1, 4, 5, 6), (2, 3, 1, 4)])
def test_grids_of_places(size, corners):
    theta = torch.randn(2, len(size) - 2, len(size) - 1)

    def function(theta):
        return torch.nn.functional.affine_grid(theta, size, align_corners=corners)

    with torch.no_grad():
        close(compiled(function)(theta), function(theta))
    assert not pylayout.torch.report().left


def test_gradients_through_grids_of_places():
    x, theta = torch.randn(2, 3, 6, 5), torch.eye(2, 3).repeat(2, 1, 1) + torch.randn(2, 2, 3) / 9
    results = []
    for run in (compiled, lambda function: function):
        given = theta.clone().requires_grad_()

        def function(theta):
            grid = torch.nn.functional.affine_grid(theta, x.shape, align_corners=False)
            return torch.nn.functional.grid_sample(x, grid, align_corners=False)

        run(function)(given).square().sum().backward()
        results.append(given.grad)
    close(*results)

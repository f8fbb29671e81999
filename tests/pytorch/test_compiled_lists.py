"""Ops on lists of tensors (`_foreach_*`) and steps of optimizers under torch.compile, against eager PyTorch."""

import pytest

torch = pytest.importorskip("torch")

from compile_testing import close, compiled, fresh  # noqa: E402, F401

import pylayout.torch  # noqa: E402
from pylayout.torch import lists  # noqa: E402

pytestmark = pytest.mark.usefixtures("unoptimised")

COUNT = 2


def sample(argument, seed):
    generator = torch.Generator().manual_seed(seed)
    kind = str(argument.type)
    tensors = [0.25 + torch.rand(shape, generator=generator) / 2 for shape in ((3, 3), (3, 3))]
    if kind == "List[Tensor]":
        return tensors
    if kind == "Tensor":  # one for each element, or one for all
        return torch.tensor([0.5, 1.5]) if argument.name == "scalars" else torch.tensor(1.5)
    if argument.name == "ord":
        return 2
    return [0.25, 1.5] if kind.startswith("List") else 0.75


@pytest.mark.parametrize("op", sorted(lists.COMPOSED, key=str), ids=str)
def test_each_op(op):
    required = [each for each in op._schema.arguments if not each.kwarg_only and each.name not in ("dtype",)]
    given = [sample(argument, seed) for seed, argument in enumerate(required)]
    made = compiled(lambda *arguments: op(*arguments))(*given)
    for found, expected in zip(made, op(*given), strict=True):
        close(found, expected)
    assert all(name == "clone.default" for name in pylayout.torch.report().left)


OPTIMIZERS = {
    "sgd": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    "adam": (torch.optim.Adam, {"amsgrad": True}),
    "adam with a tensor for its rate": (torch.optim.Adam, {"lr": torch.tensor(0.01)}),
    "adamw": (torch.optim.AdamW, {"lr": 0.01}),
    "rmsprop": (torch.optim.RMSprop, {"momentum": 0.5, "centered": True}),
    "adagrad": (torch.optim.Adagrad, {}),
    "adadelta": (torch.optim.Adadelta, {}),
    "adamax": (torch.optim.Adamax, {}),
    "nadam": (torch.optim.NAdam, {}),
    "radam": (torch.optim.RAdam, {}),
    "asgd": (torch.optim.ASGD, {}),
    "rprop": (torch.optim.Rprop, {}),
}
CLIPS = {
    "none": lambda parameters: None,
    "norm": lambda parameters: torch.nn.utils.clip_grad_norm_(parameters, 0.5),
    "value": lambda parameters: torch.nn.utils.clip_grad_value_(parameters, 0.5),
}


def run(kind, clip, wrap, dtype):
    make, options = OPTIMIZERS[kind]
    generator = torch.Generator().manual_seed(0)
    parameters = [
        torch.nn.Parameter(torch.randn(shape, generator=generator).to(dtype)) for shape in ((4, 5), (7,), (2, 3, 2))
    ]
    optimizer = make(parameters, **options)

    def step():
        CLIPS[clip](parameters)
        optimizer.step()

    step = wrap(step)
    for _ in range(5):
        for each in parameters:
            each.grad = torch.randn(each.shape, generator=generator).to(dtype)
        step()
    return [each.detach().double() for each in parameters]


@pytest.mark.parametrize(
    ("kind", "clip"), [*((kind, "none") for kind in OPTIMIZERS), ("adamw", "norm"), ("sgd", "norm"), ("sgd", "value")]
)
def test_a_step_is_one_plan(kind, clip):
    made = run(kind, clip, compiled, torch.float32)
    for found, exact in zip(made, run(kind, clip, lambda step: step, torch.float64), strict=True):
        torch.testing.assert_close(found, exact, rtol=1e-5, atol=5e-6)
    for graph in pylayout.torch.report().graphs:
        assert graph.partitions == 1 and all(name.startswith("copy_") for name, _ in graph.left), str(graph)

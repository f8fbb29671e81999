"""Lists of calls on the device ocl that are like lists before: steps of optimizers and `_foreach_*` ops, whose choices
are kept. After each change that may matter they give what the CPU gives."""

import copy
import gc

import pytest

torch = pytest.importorskip("torch")

from ocl_testing import OCL, quiet  # noqa: E402, F401

SHAPES = [(8, 3, 3, 3), (8,), (5, 7), (8,), (), (1, 16), (5, 7)]
WARM = 4  # steps after which lists are found


OPTIMIZERS = {
    "adam": (torch.optim.Adam, {"fused": True, "weight_decay": 0.1}),
    "adamw": (torch.optim.AdamW, {"fused": True}),
    "sgd": (torch.optim.SGD, {"fused": True, "momentum": 0.9}),
    "sgd_plain": (torch.optim.SGD, {"fused": True}),
    "adam_foreach": (torch.optim.Adam, {"foreach": True, "weight_decay": 0.1}),
    "sgd_foreach": (torch.optim.SGD, {"foreach": True, "momentum": 0.9, "weight_decay": 0.1}),
}


def optimizer_of(kind, parameters, device):
    """On the CPU parameter by parameter: its fused steps take all tensors for dense ones of one order."""
    kept, options = OPTIMIZERS[kind]
    if device == "cpu":
        options = {**options, "fused": False, "foreach": False}
    return kept(parameters, lr=0.01, **options)


def values(seed, shapes=SHAPES):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator) for shape in shapes]


def forget(optimizer, parameter, new):
    """The optimizer's state of a parameter is that of a new one; fused SGD wants velocities of all or of none."""
    optimizer.state.pop(parameter, None)
    if optimizer.defaults.get("momentum"):
        optimizer.state[new]["momentum_buffer"] = torch.zeros_like(new)


class Pair:
    """The same parameters with the same optimizer on the device and on the CPU."""

    def __init__(self, kind, seed=0, shapes=SHAPES):
        self.kind, self.seed = kind, seed
        self.sides = []
        for device in ("cpu", OCL):
            parameters = [torch.nn.Parameter(each.to(device)) for each in values(seed, shapes)]
            self.sides.append((parameters, optimizer_of(kind, parameters, device)))

    def each(self, change):
        """The same change on both sides."""
        for parameters, optimizer in self.sides:
            change(parameters, optimizer)

    def step(self, times=1, without=()):
        for _ in range(times):
            self.seed += 1
            for parameters, optimizer in self.sides:
                gradients = values(self.seed, [each.shape for each in parameters])
                for place, (parameter, gradient) in enumerate(zip(parameters, gradients, strict=True)):
                    parameter.grad = None if place in without else gradient.to(parameter.device)
                optimizer.step()

    def check(self):
        (expected, _), (found, _) = self.sides
        for place, (a, b) in enumerate(zip(expected, found, strict=True)):
            torch.testing.assert_close(b.detach().cpu(), a.detach(), rtol=1e-5, atol=1e-6, msg=f"parameter {place}")


@pytest.fixture(params=OPTIMIZERS)
def pair(request):
    made = Pair(request.param)
    made.step(WARM)
    made.check()
    return made


def test_steps_without_a_change(pair):
    pair.step(3)
    pair.check()


def test_a_parameter_with_other_memory(pair):
    def change(parameters, _):
        parameters[2].data = parameters[2].data * 2
        parameters[3].data = parameters[3].data.clone()

    pair.each(change)
    pair.step(WARM)
    pair.check()


def test_a_parameter_within_other_memory(pair):
    def change(parameters, _):
        whole = torch.zeros(3, 7, 5, device=parameters[2].device)
        whole[1] = parameters[2].data.t()
        parameters[2].data = whole[1].t()

    pair.each(change)
    pair.step(WARM)
    pair.check()


def test_two_parameters_that_change_places(pair):
    def change(parameters, _):
        parameters[1].data, parameters[3].data = parameters[3].data, parameters[1].data

    pair.each(change)
    pair.step(WARM)
    pair.check()


def test_a_parameter_that_is_replaced(pair):
    def change(parameters, optimizer):
        new = torch.nn.Parameter(torch.full((3, 4), 0.5, device=parameters[0].device))
        forget(optimizer, parameters[2], new)
        optimizer.param_groups[0]["params"][2] = parameters[2] = new

    pair.each(change)
    pair.step(WARM)
    pair.check()


def test_a_parameter_that_is_resized(pair):
    def change(parameters, optimizer):
        parameters[2].grad = None
        parameters[2].data.resize_(6, 11).fill_(0.25)
        forget(optimizer, parameters[2], parameters[2])

    pair.each(change)
    pair.step(WARM)
    pair.check()


def test_gradients_that_are_not_there(pair):
    pair.step(WARM, without=(1, 4))
    pair.check()
    pair.step(2)
    pair.step(2, without=range(len(SHAPES)))
    pair.check()


def test_another_rate(pair):
    def change(_, optimizer):
        optimizer.param_groups[0]["lr"] *= 3

    for _ in range(3):
        pair.each(change)
        pair.step(2)
        pair.check()


def test_one_gradient_for_two_parameters(pair):
    def step(parameters, optimizer):
        shared = values(77)[1].to(parameters[0].device)
        parameters[1].grad = parameters[3].grad = shared
        optimizer.step()

    for _ in range(WARM):
        pair.each(step)
    pair.check()
    pair.step(2)
    pair.check()


def test_gradients_of_other_strides(pair):
    def step(parameters, optimizer):
        for place in (2, 6):
            gradient = values(78, [(7, 5)])[0].to(parameters[0].device)
            parameters[place].grad = gradient.t()
        optimizer.step()

    for _ in range(WARM):
        pair.each(step)
    pair.step(1)
    pair.check()


def test_copies_of_model_and_optimizer(pair):
    copied = copy.deepcopy(pair)
    pair.step(3)
    copied.seed += 100
    copied.step(3)
    pair.step(1)
    copied.check()
    pair.check()


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_memory_that_is_used_again(kind):
    """Parameters go, and others of these sizes get their memory."""
    for seed in range(3):
        made = Pair(kind, seed)
        made.step(WARM)
        made.check()
        del made
        gc.collect()
    other = Pair(kind, 9, [*SHAPES[:-1], (7, 5)])
    other.step(WARM)
    other.check()


def test_memory_goes_with_the_parameters():
    """What is kept of a list keeps no memory."""
    gc.collect()
    torch.ocl.synchronize()
    torch.ocl.empty_cache()
    before = torch.ocl.memory_allocated(OCL)
    parameters = [torch.nn.Parameter(torch.zeros(300, 1000, device=OCL)) for _ in range(4)]
    optimizer = torch.optim.Adam(parameters, lr=0.1, fused=True)
    for _ in range(WARM):
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
    torch.ocl.synchronize()
    assert torch.ocl.memory_allocated(OCL) - before >= 4 * 4 * 300 * 1000 * 4
    del parameters, parameter, optimizer
    gc.collect()
    torch.ocl.synchronize()
    torch.ocl.empty_cache()
    assert torch.ocl.memory_allocated(OCL) - before < 300 * 1000 * 4


def test_a_rate_that_is_a_tensor():
    sides = []
    for device in ("cpu", OCL):
        parameters = [torch.nn.Parameter(each.to(device)) for each in values(3)]
        rate = torch.tensor(0.01, device=device)
        optimizer = torch.optim.Adam(parameters, lr=rate, fused=device != "cpu", capturable=device != "cpu")
        for step in range(8):
            for parameter, gradient in zip(parameters, values(50 + step), strict=True):
                parameter.grad = gradient.to(device)
            optimizer.step()
            if step % 2:
                rate.mul_(2)
            if step == 5:
                rate = optimizer.param_groups[0]["lr"] = torch.tensor(0.003, device=device)
        sides.append([each.detach().cpu() for each in parameters])
    for a, b in zip(*sides, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-5, atol=1e-6)


# ---- lists of any tensors ----


def several(call, *lists):
    """`call` on the device and on the CPU, on lists that name the tensors of one pool by their places."""
    found = []
    for device in ("cpu", OCL):
        pool = [each.to(device) for each in values(4, [(6,)] * 6)]
        for places in lists:
            call(*[[pool[place] for place in each] for each in places])
        found.append([each.cpu() for each in pool])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(b, a)


APART = ([0, 1, 2],)
PAIRS = ([0, 1, 2], [3, 4, 5])


@pytest.mark.parametrize(
    "last",
    [([0, 0, 2],), ([2, 1, 0],), ([3, 3, 3],), ([0, 1],), ([0, 1, 2, 3],)],
    ids=["twice", "turned", "thrice", "less", "more"],
)
def test_a_list_with_a_number(last):
    several(lambda x: torch._foreach_add_(x, 1.5), *[APART] * WARM, last, last, last, APART)


@pytest.mark.parametrize(
    "last",
    [([0, 1, 2], [1, 2, 3]), ([0, 1, 2], [2, 0, 1]), ([0, 0, 1], [1, 1, 0]), ([0, 1, 2], [0, 1, 2]), ([0, 1], [4, 4])],
    ids=["next", "ring", "again", "itself", "shared"],
)
@pytest.mark.parametrize("op", ["add", "mul", "sub", "maximum", "lerp", "addcmul"])
def test_lists_that_meet(op, last):
    function = getattr(torch, f"_foreach_{op}_")

    def call(x, y):
        if op == "lerp":
            function(x, y, 0.25)
        elif op == "addcmul":
            function(x, y, y, 0.01)
        else:
            function(x, y)

    several(call, *[PAIRS] * WARM, last, last, last, PAIRS)


def test_numbers_of_a_list():
    step = iter(range(100))

    def call(x, y):
        number = next(step) % 12  # the CPU's calls count too
        torch._foreach_addcdiv_(x, y, y, [0.1 * number, 0.2, 0.3])
        torch._foreach_mul_(x, [1.5, -0.5, 1 + number])

    several(call, *[PAIRS] * 12)


@pytest.mark.parametrize(
    ("dtype", "number"),
    [(torch.float32, 2), (torch.float32, 0.5), (torch.float16, 2), (torch.float16, 0.5), (torch.int64, 2)],
)
def test_dtypes_of_lists(dtype, number):
    for _ in range(WARM):
        lists = [[torch.arange(6, dtype=dtype, device=device) for _ in range(3)] for device in ("cpu", OCL)]
        for each in lists:
            torch._foreach_mul_(each, number)
            torch._foreach_add_(each, number)
        for a, b in zip(*lists, strict=True):
            torch.testing.assert_close(b.cpu(), a)


def test_versions_count():
    x = [torch.zeros(3, device=OCL) for _ in range(3)]
    for times in range(1, WARM + 2):
        torch._foreach_add_(x, 1)
        assert [each._version for each in x] == [times] * 3
    assert [each.tolist() for each in x] == [[WARM + 1.0] * 3] * 3


def test_a_list_is_one_kernel_each_time():
    import pylayout as pl

    x = [torch.zeros(6, device=OCL) for _ in range(4)]
    found = []
    for _ in range(WARM + 1):
        with pl.profile() as profile:
            torch._foreach_add_(x, 1.25)
        found.append([event["implementation"] for event in profile.events])
    assert len(found[-1]) == 1 and found[-1] == found[1], found
    assert "of 4 calls" in found[-1][0]

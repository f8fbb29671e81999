"""The device ocl: layouts that kernels choose, and ops on lists of tensors."""

import copy
import io

import pytest

torch = pytest.importorskip("torch")

from ocl_testing import OCL, numbers, quiet  # noqa: E402, F401

import pylayout as pl  # noqa: E402

# ---- layouts that kernels choose ----


def block(device):
    torch.manual_seed(3)
    made = torch.nn.Sequential(
        torch.nn.Conv2d(8, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU(inplace=True),
        torch.nn.Conv2d(16, 8, 3, padding=1, bias=False),
    )  # fmt: skip
    return made.to(device)


def test_results_lie_as_kernels_give_them_until_they_are_seen_otherwise():
    for batch, channels, size in ((8, 128, 8), (4, 64, 32)):
        x, weight = numbers(batch, channels, size, size), numbers(channels, channels, 3, 3) / channels
        with pl.profile() as profile:
            torch.nn.functional.conv2d(x.to(OCL), weight.to(OCL), padding=1)
        (lies,) = [event["outputs"][0] for event in profile.events if event["op"] == "conv2d"]
        if not lies.strip().endswith("NCHW"):
            break
    else:
        pytest.skip("this device's kernels give results as PyTorch's strides say")
    wanted = torch.nn.functional.conv2d(x, weight, padding=1)
    for change in (
        lambda y: y,
        lambda y: y.view(2, -1),
        lambda y: y.permute(0, 2, 3, 1),
        lambda y: y[:, 3:7, ::2],
        lambda y: y.contiguous(memory_format=torch.channels_last),
        lambda y: y.clone().detach(),
        lambda y: y.half(),
        lambda y: y.view(torch.int32),
        lambda y: copy.deepcopy(y),
        lambda y: y.add_(1).relu_(),
        lambda y: y.view(-1).add_(1).view_as(y),
        lambda y: y.transpose(0, 1).mul_(2),
    ):
        y = torch.nn.functional.conv2d(x.to(OCL), weight.to(OCL), padding=1)
        seen, expected = change(y), change(wanted.clone())
        assert seen.stride() == expected.stride()
        close = dict(rtol=1e-4, atol=1e-4) if seen.dtype == torch.float32 else dict(rtol=1e-2, atol=1e-2)
        if seen.dtype == torch.int32:  # the bits of what was computed
            assert torch.equal(seen.cpu(), y.cpu().view(torch.int32))
        else:
            torch.testing.assert_close(seen.cpu(), expected, **close)
        saved = io.BytesIO()
        torch.save(y, saved)
        saved.seek(0)
        assert torch.equal(torch.load(saved, map_location="cpu"), y.cpu())


def test_results_that_only_rename_an_argument_have_memory_of_their_own():
    """`_unsafe_view` and `view_copy` to images, of a tensor that PyTorch lets go or changes afterwards."""
    x, w = numbers(2, 5, 6, 32), numbers(16, 32)
    there = torch.nn.functional.linear(x.to(OCL), w.to(OCL))  # a product of matrices, whose result is then let go
    more = [numbers(60, 16).to(OCL) + i for i in range(4)]  # the next blocks of that size
    torch.testing.assert_close(there.cpu(), torch.nn.functional.linear(x, w))
    rows = numbers(60, 16)
    source = rows.to(OCL)
    copy = torch.ops.aten.view_copy(source, [2, 5, 6, 16])
    source.add_(1)
    torch.testing.assert_close(copy.cpu(), rows.view(2, 5, 6, 16))
    assert len(more) == 4


def test_training_of_images_reorders_activations_for_gradients_by_weights_alone():
    model, x = block(OCL), numbers(4, 8, 12, 12).to(OCL)

    def step():
        model.zero_grad()
        model(x).square().sum().backward()

    for _ in range(4):
        step()
    with pl.profile() as profile:
        step()
    moved = [event for event in profile.events if event["kind"] != "op" and event["role"] == "activation"]
    made = [event for event in profile.events if event["kind"] == "op"]
    others = [event for event in moved if not event["cause"].startswith("conv2d_backward_weights:")]
    layouts = {event["inputs"][0].split()[-1] for event in made if event["op"] in ("conv2d", "conv_transpose2d")}
    # The gradient of the sum is a number, seen in every place.  Where this processor's fastest kernels take another
    # layout backward than forward, what three ops have kept for backward is reordered, each once.
    allowed = 1 if len(layouts) == 1 else 1 + 3
    assert len(others) <= allowed and len(moved) <= allowed + 4, [(event["cause"], event["inputs"]) for event in moved]
    assert len(made) < 30


# ---- lists of tensors ----


@pytest.mark.parametrize("fused", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "make",
    [
        lambda weights, **more: torch.optim.SGD(weights, lr=0.1, momentum=0.9, weight_decay=0.01, **more),
        lambda weights, **more: torch.optim.SGD(weights, lr=0.1, momentum=0.9, nesterov=True, **more),
        lambda weights, **more: torch.optim.SGD(weights, lr=0.1, maximize=True, **more),
        lambda weights, **more: torch.optim.Adam(weights, lr=0.1, weight_decay=0.01, **more),
        lambda weights, **more: torch.optim.AdamW(weights, lr=0.1, amsgrad=True, **more),
        lambda weights, **more: torch.optim.AdamW(weights, lr=0.1, **more),
    ],
    ids=["sgd", "nesterov", "maximize", "adam", "amsgrad", "adamw"],
)
def test_steps_of_optimizers_on_many_weights_start_few_kernels(make, fused):
    shapes = [(3, 4), (5,), (2, 3, 3, 3), (7, 2), (1,), (), (4, 4), (6,), (9,), (2, 2)]
    torch.manual_seed(5)
    start = [torch.randn(shape) for shape in shapes]
    results, counts = [], {}
    for device in ("cpu", OCL):
        weights = [value.clone().to(device).requires_grad_() for value in start]
        optimizer = make(weights, **({"fused": True} if fused else {"foreach": True}))
        for round in range(12):
            for number, weight in enumerate(weights):
                weight.grad = torch.full_like(weight, 0.1 * (number + 1) * (-1) ** round)
            if device == OCL and round == 11:
                with pl.profile() as profile:
                    optimizer.step()
                counts[device] = len(profile.events)
            else:
                optimizer.step()
        results.append([weight.detach().cpu() for weight in weights])
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)
    names = type(optimizer).__name__
    if not optimizer.defaults["maximize"] and not optimizer.defaults.get("amsgrad"):
        assert counts[OCL] < len(shapes) * (1 if fused else 4 if names == "SGD" else 9), counts


def test_gradients_that_are_not_finite_are_found_and_leave_weights_as_they_are():
    weights = [torch.ones(4, device=OCL, requires_grad=True), torch.ones(3, 2, device=OCL, requires_grad=True)]
    optimizer = torch.optim.SGD(weights, lr=0.5, momentum=0.9, fused=True)
    scaler = torch.amp.GradScaler("ocl", init_scale=8.0)
    for bad in (False, True, False):
        optimizer.zero_grad()
        scaler.scale(weights[0].sum() + weights[1].sum()).backward()
        if bad:
            weights[1].grad[1, 1] = float("nan")
        scaler.step(optimizer)
        scaler.update()
    assert scaler.get_scale() == 4.0
    for weight in weights:
        torch.testing.assert_close(weight.detach().cpu(), torch.full_like(weight, 1 - 0.5 - 0.5 * 1.9).cpu())

"""What ops of the device ocl start: calls that wait for each other, copies of weights, steps of training; by counts."""

import collections
import gc
import io
import threading

import pytest

torch = pytest.importorskip("torch")

import ocl_device  # noqa: E402, F401

import pylayout as pl  # noqa: E402
from pylayout._load import ffi  # noqa: E402
from pylayout.profile import starters  # noqa: E402
from pylayout.tensor import adopt  # noqa: E402

OCL = "ocl:0"


@pytest.fixture(autouse=True)
def only_the_device(unoptimised):
    torch.ocl.clear_fallbacks()
    torch.ocl.set_fallback("error")
    torch.ocl.synchronize()
    yield
    torch.ocl.synchronize()
    torch.ocl.set_fallback("silent")


def starts(call):
    """The kernels that a call starts, without what waits when it returns: events of a profile."""
    waiting, starters[:] = list(starters), []
    try:
        with pl.profile() as profile:
            call()
    finally:
        starters[:] = waiting
    return list(profile.events)


def test_a_profile_has_what_waited():
    counter = ones()
    torch.ocl.synchronize()
    counter.add_(1)
    with pl.profile() as profile:
        counter.mul_(3)
    assert [event["op"] for event in profile.events if event["kind"] == "op"] == ["mul"]
    assert counter.item() == 6


def ones(*shape, dtype=torch.float32):
    return torch.ones(shape, dtype=dtype, device=OCL)


@pytest.fixture(autouse=True)
def warm(only_the_device):
    """Programs have run once, so that their calls may wait."""
    for dtype in (torch.float32, torch.int64):
        for shape in ((), (8,), (6,), (2,)):
            x = ones(*shape, dtype=dtype)
            x.add_(1)
            x.add_(x.clone())
            x.mul_(2)
            x.cpu()


# ---- what waits ----


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_small_changes_wait_and_are_started_together(dtype):
    counters = [torch.zeros((), dtype=dtype, device=OCL) for _ in range(20)]
    torch.ocl.synchronize()
    assert starts(lambda: [counter.add_(1) for counter in counters]) == []
    made = starts(lambda: counters[3].item())
    assert 1 <= len(made) <= 5, [event["implementation"] for event in made]  # one, where a kernel takes so many tensors
    assert starts(lambda: [counter.item() for counter in counters]) == []
    assert [counter.item() for counter in counters] == [1] * 20


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: x.tolist(),
        lambda x: x.cpu(),
        lambda x: x.sum().item(),
        lambda x: (x + 1).cpu(),
        lambda x: x[2:4].cpu(),
        lambda x: x.view(2, 4).t().contiguous(),
        lambda x: x.clone(),
        lambda x: torch.equal(x, x),
        lambda x: torch.save(x, io.BytesIO()),
        lambda x: torch.ocl.synchronize(),
        lambda x: torch.ocl.current_stream().synchronize(),
        lambda x: torch.ocl.current_stream().query(),
        lambda x: torch.ocl.current_stream().record_event(torch.Event(device=OCL)),
    ],
)
def test_whoever_asks_starts_what_waits(ask):
    x = ones(8)
    ask(x)
    torch.ocl.synchronize()
    assert starts(lambda: x.add_(1)) == []
    made = starts(lambda: ask(x))
    assert made and made[0]["op"] == "add"
    assert x.tolist() == [2.0] * 8


def test_the_order_of_what_waits_is_kept():
    x, y = ones(8), ones(8) * 3
    torch.ocl.synchronize()

    def change():
        x.add_(1)  # 2
        x.mul_(2)  # 4
        y.add_(x)  # 7
        x.add_(y)  # 11
        y.mul_(2)  # 14

    assert starts(change) == []
    assert x.tolist() == [11.0] * 8 and y.tolist() == [14.0] * 8


def test_what_waits_reads_what_was_there():
    total, value = ones(8), ones(8)
    total.add_(value)
    value.copy_(torch.full((8,), 50.0))  # from the host
    assert total.tolist() == [2.0] * 8
    total.add_(value)
    value.zero_()
    total.add_(value)
    assert total.tolist() == [52.0] * 8 and value.tolist() == [0.0] * 8
    total.add_(value)
    torch.add(ones(8), 6, out=value)
    assert total.tolist() == [52.0] * 8 and value.tolist() == [7.0] * 8


def test_what_waits_keeps_what_it_reads():
    total = ones(8)
    torch.ocl.synchronize()
    for number in range(40):
        value = torch.full((8,), float(number)).to(OCL)
        total.add_(value)
        del value  # its memory is the next one's
    gc.collect()
    torch.ocl.empty_cache()
    assert total.tolist() == [1.0 + sum(range(40))] * 8


def test_parts_of_a_tensor_wait_in_order():
    x = torch.zeros(8, device=OCL)
    expected = torch.zeros(8)
    for t in (x, expected):
        t[2:8].add_(1)
        t.view(4, 2)[1:3].mul_(5)
        t[::2].add_(t[1::2])
        t[2:4].add_(1)
    assert torch.equal(x.cpu(), expected)
    x = ones(6)
    seen, same = x.view(2, 3), x.detach()
    x.add_(1)
    assert seen.sum().item() == 12 and same.tolist() == [2.0] * 6
    x.add_(1)
    x.resize_(8)
    assert x[:6].tolist() == [3.0] * 6
    y = ones(2)
    y.add_(1)
    x.set_(y)
    x.add_(1)
    assert y.tolist() == [3.0, 3.0]


def test_memory_that_others_know_does_not_wait():
    x = ones(8)
    x.add_(1)
    there = adopt(ffi.cast("pl_tensor", torch.ops.pylayout_ocl.handle(x)))  # what plans keep of weights
    assert there.numpy().tolist() == [2.0] * 8
    x.add_(1)
    assert there.numpy().tolist() == [3.0] * 8
    del x
    others = [ones(8) for _ in range(4)]  # not in the same memory
    torch.ocl.synchronize()
    assert there.numpy().tolist() == [3.0] * 8 and len(others) == 4


def test_threads_see_what_others_left_waiting():
    x, failures = ones(8), []

    def add(times):
        try:
            for _ in range(times):
                x.add_(1)
        except Exception as error:
            failures.append(error)

    x.add_(1)
    for _ in range(4):
        thread = threading.Thread(target=add, args=(25,))
        thread.start()
        thread.join()
        x.add_(1)
    assert not failures and x.tolist() == [106.0] * 8
    many = [ones(8) for _ in range(4)]
    threads = [threading.Thread(target=lambda own=own: [own.add_(1) for _ in range(200)]) for own in many]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(own.tolist() == [201.0] * 8 for own in many)


def test_streams_and_events_follow_what_waits():
    x, other = ones(8), torch.Stream(device=OCL)
    torch.ocl.synchronize()
    x.add_(1)
    with torch.ocl.stream(other):
        x.mul_(2)
        event = other.record_event(torch.Event(device=OCL))
        x.add_(1)
    x.mul_(2)
    event.synchronize()
    torch.ocl.default_stream().wait_event(event)
    assert x.tolist() == [10.0] * 8
    with torch.ocl.stream(other):
        assert starts(lambda: x.add_(1)) == []
    other.synchronize()  # of the stream on which it was left
    assert starts(torch.ocl.synchronize) == []
    assert x.tolist() == [11.0] * 8


def test_errors_leave_what_waits_as_it_was():
    x, y = ones(8), ones(8)
    x.add_(1)
    with pytest.raises(RuntimeError):
        torch._foreach_add_([x, y], [ones(8), ones(3)])
    assert x.tolist() in ([2.0] * 8, [3.0] * 8) and y.tolist() == [1.0] * 8
    y.add_(1)
    with pytest.raises(RuntimeError):
        x.add_(ones(5))
    assert y.tolist() == [2.0] * 8
    x.add_(1)
    assert x[0].item() in (3.0, 4.0)


def test_large_and_shared_results_do_not_wait():
    x = torch.ones(1 << 16, device=OCL)  # 256 KiB
    x.add_(1)
    assert len(starts(lambda: x.add_(1))) == 1
    y = ones(8)
    torch.ocl.synchronize()
    assert len(starts(lambda: y + y)) == 1  # a new tensor is about to be read


# ---- copies of weights ----


def test_copies_of_weights_that_changed_are_made_again_together():
    torch.manual_seed(2)
    convs = [torch.nn.Conv2d(8, 8, 3, padding=1, bias=False).to(OCL) for _ in range(6)]
    x = torch.randn(2, 8, 10, 10)

    def forward():
        y = x.to(OCL)
        for conv in convs:
            y = conv(y)
        return y

    def change(some):
        for conv in some:
            conv.weight.mul_(1.25)

    def few(made, weights):
        """Two at most by the kernel that takes several tensors; where costs favour another one, each by itself."""
        alone = any(event["implementation"] != "reorder_axes" for event in made)
        return len(made) <= (weights if alone else 2)

    with torch.no_grad():
        for _ in range(3):
            forward()
            change(convs)
        forward()
        alone = [event for event in starts(forward) if event["role"] == "weights"]
        assert alone == []  # nothing changed
        change(convs)
        torch.ocl.synchronize()
        made = [event for event in starts(forward) if event["role"] == "weights"]
        assert few(made, 6), [event["implementation"] for event in made]
        change(convs[2:4])
        convs[1].weight[2:4].add_(0.5)  # a view of it
        torch.ocl.synchronize()
        partly = [event for event in starts(forward) if event["role"] == "weights"]
        assert few(partly, 3)
        expected = x.double()
        for conv in convs:
            expected = torch.nn.functional.conv2d(expected, conv.weight.cpu().double(), padding=1)
        torch.testing.assert_close(forward().cpu().double(), expected, rtol=1e-4, atol=1e-4)
        gone = convs.pop()
        del gone
        change(convs)
        expected = x.double()
        for conv in convs:
            expected = torch.nn.functional.conv2d(expected, conv.weight.cpu().double(), padding=1)
        torch.testing.assert_close(forward().cpu().double(), expected, rtol=1e-4, atol=1e-4)


# ---- steps of training ----


def network():
    torch.manual_seed(4)
    layers = []
    for _ in range(4):
        layers += [
            torch.nn.Conv2d(8, 8, 3, padding=1, bias=False),
            torch.nn.BatchNorm2d(8),
            torch.nn.ReLU(inplace=True),
        ]
    return torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(8, 5))


def test_a_step_of_training_starts_few_kernels():
    results = {}
    torch.manual_seed(6)
    x, labels = torch.randn(4, 8, 12, 12), torch.tensor([0, 3, 1, 4])
    for device in ("cpu", OCL):
        model = network().to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, foreach=True)
        given, wanted = x.to(device), labels.to(device)

        def step(model=model, optimizer=optimizer, given=given, wanted=wanted):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(given), wanted).backward()
            optimizer.step()

        for _ in range(5):
            step()
        events = starts(step) if device == OCL else step()
        results[device] = [value.detach().cpu() for value in model.state_dict().values()]
    for mine, others in zip(results[OCL], results["cpu"], strict=True):
        torch.testing.assert_close(mine, others, rtol=1e-3, atol=1e-4)
    counts = collections.Counter(event["op"] for event in events if event["kind"] == "op")
    for op in ("conv2d", "conv2d_backward_weights", "batch_norm_training", "batch_norm_backward"):
        assert counts[op] == 4, (op, counts)
    assert counts["cross_entropy"] == counts["cross_entropy_backward"] == 1
    # Counters of batches and running statistics, which are changed together; four gradients of relu; three of the
    # optimizer's steps, some of tensors that are alike only in part: which kernels take those together, costs say. One
    # by one they are more than 50.
    rest = counts["add"] + counts["mul"] + counts["pointwise"]
    assert rest <= 4 + 2 + 14, counts
    roles = collections.Counter(event["role"] for event in events if event["kind"] == "reorder")
    # Costs say which weights and results of convolutions are moved, once at most; 3 of each by estimates.
    assert roles["weights"] <= 4 and roles["output"] <= 3 * 4 + 1, roles


def test_running_statistics_are_there_when_they_are_read():
    norm, exact = torch.nn.BatchNorm2d(8).to(OCL), torch.nn.BatchNorm2d(8)
    torch.manual_seed(1)
    for number in range(4):
        x = torch.randn(3, 8, 5, 5)
        norm(x.to(OCL)), exact(x)
        assert norm.num_batches_tracked.item() == number + 1
        torch.testing.assert_close(norm.running_mean.cpu(), exact.running_mean, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(norm.running_var.cpu(), exact.running_var, rtol=1e-4, atol=1e-5)
    norm.eval(), exact.eval()
    torch.testing.assert_close(norm(x.to(OCL)).cpu(), exact(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(6, 5), (3, 4, 2, 3)])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"reduction": "sum"},
        {"reduction": "none"},
        {"ignore_index": 2},
        {"label_smoothing": 0.2},
        {"weight": True, "label_smoothing": 0.1, "ignore_index": 1},
    ],
)
def test_cross_entropy_is_one_op_each_way(shape, options):
    torch.manual_seed(3)
    x, target = torch.randn(shape), torch.randint(0, shape[1], (shape[0], *shape[2:]))
    weight = torch.rand(shape[1]) + 0.5 if options.get("weight") else None
    given = {**options, "weight": None}
    grads, losses = [], []
    for device, dtype in (("cpu", torch.float64), (OCL, torch.float32)):
        own = x.to(device, dtype).requires_grad_()
        there, weights = target.to(device), None if weight is None else weight.to(device, dtype)

        def both(own=own, there=there, weights=weights):
            loss = torch.nn.functional.cross_entropy(own, there, **{**given, "weight": weights})
            loss.sum().backward()
            return loss

        losses.append(both().detach().cpu().float())
        grads.append(own.grad.cpu().float())
    torch.testing.assert_close(losses[1], losses[0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(grads[1], grads[0], rtol=1e-5, atol=1e-5)
    own.grad = None
    counts = collections.Counter(event["op"] for event in starts(both))
    assert counts["cross_entropy"] == counts["cross_entropy_backward"] == 1
    assert not {"log_softmax", "gather", "exp"} & set(counts)


def test_cross_entropy_has_a_second_gradient_and_other_forms():
    torch.manual_seed(3)
    x, target, shares = torch.randn(4, 5), torch.tensor([0, 4, 2, 2]), torch.rand(4, 5).softmax(1)
    made = []
    for device in ("cpu", OCL):
        own = x.to(device).requires_grad_()
        (first,) = torch.autograd.grad(
            torch.nn.functional.cross_entropy(own, target.to(device)), own, create_graph=True
        )
        (second,) = torch.autograd.grad((first * first).sum(), own)
        by_shares = torch.nn.functional.cross_entropy(own, shares.to(device))
        alone = torch.nn.functional.cross_entropy(own[0], target[0].to(device))
        made.append([each.detach().cpu() for each in (first, second, by_shares, alone)])
    for mine, others in zip(made[1], made[0], strict=True):
        torch.testing.assert_close(mine, others, rtol=1e-4, atol=1e-5)
    with torch.autocast("ocl", dtype=torch.float16):
        assert torch.nn.functional.cross_entropy(x.half().to(OCL), target.to(OCL)).dtype == torch.float32


def test_memory_of_an_argument_that_is_read_later_is_not_written_before():
    """An op that waits may read a view of an argument; whoever gets that memory next waits for it, too."""
    index, values = torch.tensor([3, 1, 3, 0, 2, 1]), torch.arange(6.0) + 1
    wanted = torch.zeros(4).index_put_((index,), values, accumulate=True)
    places = index.to(OCL)

    def put():
        largest = torch.zeros(4, device=OCL).scatter_reduce(0, places, values.to(OCL), "amax")
        made = torch.zeros(4, device=OCL).index_put_((places,), values.to(OCL), accumulate=True)
        other = largest.gather(0, places)  # as large as the values, which nobody holds any more
        return made.tolist(), other.tolist()

    for _ in range(3):  # the first time it does not wait
        assert put() == (wanted.tolist(), [3.0, 6.0, 3.0, 4.0, 5.0, 6.0])


# ---- elementwise steps of an op ----

JOINED = {  # forward, and both ways
    "smooth_l1_loss": (lambda f, x, y: f.smooth_l1_loss(x, y, beta=0.7), 2, 6),
    "huber_loss": (lambda f, x, y: f.huber_loss(x, y), 2, 7),
    "mse_loss": (lambda f, x, y: f.mse_loss(x, y), 2, 4),
    "elu": (lambda f, x, y: f.elu(x, 0.3), 1, 2),
    "softplus": (lambda f, x, y: f.softplus(x, 0.5), 1, 2),
    "softmax": (lambda f, x, y: f.softmax(x, -1), 1, 4),
}


@pytest.mark.parametrize("name", JOINED)
def test_steps_that_follow_each_other_are_one(name):
    function, forward, both = JOINED[name]
    x, y = torch.randn(4, 33), torch.randn(4, 33)
    there, other = x.to(OCL).requires_grad_(), y.to(OCL)
    here = x.clone().requires_grad_()
    made, wanted = function(torch.nn.functional, there, other), function(torch.nn.functional, here, y)
    scale = torch.randn_like(wanted)
    torch.testing.assert_close(made.cpu(), wanted)
    made.backward(scale.to(OCL))
    wanted.backward(scale)
    torch.testing.assert_close(there.grad.cpu(), here.grad)

    def step():
        there.grad = None
        function(torch.nn.functional, there, other).backward(scale_there)
        torch.ocl.synchronize()

    scale_there = scale.to(OCL)
    step()
    assert len(starts(step)) <= both
    with torch.no_grad():
        assert len(starts(lambda: (function(torch.nn.functional, there, other), torch.ocl.synchronize()))) <= forward


def test_numbers_that_json_has_not():
    x = torch.tensor([0.0, 1.0, float("nan"), -2.0, float("inf")])
    y = torch.tensor([0.0, 2.0, 1.0, 3.0, 0.5])
    torch.testing.assert_close(torch.xlogy(x.to(OCL), y.to(OCL)).cpu(), torch.xlogy(x, y), equal_nan=True)
    torch.testing.assert_close(x.to(OCL).logsumexp(0).cpu(), x.logsumexp(0), equal_nan=True)

"""Errors from Python: their classes, their statuses, and messages that name op, argument, expectation and fact."""

import threading

import numpy
import pytest

import pylayout as pl
from pylayout import ops
from pylayout._load import lib

X = numpy.zeros((1, 8, 6, 6), "float32")
W = numpy.zeros((4, 8, 3, 3), "float32")


@pytest.mark.parametrize(
    ("error", "status", "bases"),
    [
        (pl.InvalidArgumentError, lib.PL_ERROR_INVALID_ARGUMENT, (ValueError,)),
        (pl.ArgumentTypeError, lib.PL_ERROR_INVALID_ARGUMENT, (TypeError, ValueError)),
        (pl.ShapeError, lib.PL_ERROR_SHAPE, (ValueError,)),
        (pl.LayoutError, lib.PL_ERROR_LAYOUT, (ValueError,)),
        (pl.DeviceError, lib.PL_ERROR_DEVICE, ()),
        (pl.UnsupportedError, lib.PL_ERROR_UNSUPPORTED, (NotImplementedError,)),
        (pl.OutOfMemoryError, lib.PL_ERROR_OUT_OF_MEMORY, (MemoryError,)),
        (pl.FileError, lib.PL_ERROR_IO, (OSError,)),
        (pl.InternalError, lib.PL_ERROR_INTERNAL, ()),
    ],
)
def test_hierarchy(error, status, bases):
    assert issubclass(error, (pl.Error,)) and issubclass(error, RuntimeError)
    assert all(issubclass(error, base) for base in bases)
    assert error.status == status
    assert str(error("a message")) == "a message"


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ops.conv2d(X, W[:, :5]), pl.ShapeError, ["conv2d", "weight", "5", "8"]),
        (lambda: ops.conv2d(X[0], W), pl.ShapeError, ["conv2d", "x", "rank 3", "4"]),
        (lambda: ops.conv2d(X, W, stride=0), pl.InvalidArgumentError, ["conv2d", "stride"]),
        (lambda: ops.conv2d(X, W, stride=[1, 2, 3]), pl.InvalidArgumentError, ["conv2d", "stride", "3 values"]),
        (lambda: ops.conv2d(X, W, stride="two"), pl.InvalidArgumentError, ["conv2d", "stride", "two"]),
        (lambda: ops.conv2d(X, W, stride=1.5), pl.InvalidArgumentError, ["conv2d", "stride", "1.5"]),
        (lambda: ops.conv2d(X, W, stride=None), pl.InvalidArgumentError, ["conv2d", "stride", "none"]),
        (lambda: ops.conv2d(X, W, stride=object()), pl.ArgumentTypeError, ["conv2d", "stride", "object"]),
        (lambda: ops.conv2d(X, W, groups=3), pl.Error, ["conv2d", "groups"]),
        (lambda: ops.conv2d(X, W, activation="rely"), pl.InvalidArgumentError, ["conv2d", "activation", "rely"]),
        (lambda: ops.conv2d(X, None), pl.InvalidArgumentError, ["conv2d", "weight"]),
        (lambda: ops.conv2d(X, W, W), pl.ShapeError, ["conv2d", "bias"]),
        (lambda: ops.conv2d(X, W.astype("float16")), pl.Error, ["conv2d", "weight", "f16"]),
        (lambda: ops.conv2d(X, W, padding=2**40), pl.Error, ["conv2d", "padding"]),
        (lambda: ops.relu("text"), pl.ArgumentTypeError, ["relu", "x", "str"]),
        (lambda: ops.relu(None), pl.InvalidArgumentError, ["relu", "x"]),
        (lambda: ops.relu(X, layout="NCQ"), pl.LayoutError, ["NCQ"]),
        (lambda: ops.relu(X, layout=5), pl.Error, ["5"]),
        (lambda: ops.relu(X, device="tpu:0"), pl.DeviceError, ["tpu:0", "cpu"]),
        (lambda: ops.softmax(X, dim=4), pl.InvalidArgumentError, ["softmax", "dim", "4"]),
        (lambda: ops.softmax(X.astype("int64"), dim=1), pl.UnsupportedError, ["softmax", "x", "s64"]),
        (lambda: ops.add(X, X.astype("float16")), pl.Error, ["add", "y", "f16"]),
        (lambda: ops.add(X, X[:, :3]), pl.ShapeError, ["add", "broadcast"]),
        (lambda: ops.concat([]), pl.InvalidArgumentError, ["concat", "tensors"]),
        (lambda: ops.concat(pl.asarray(X)), pl.ArgumentTypeError, ["concat", "tensors", "list"]),
        (lambda: ops.concat([X, "a"]), pl.ArgumentTypeError, ["concat", "tensors[1]"]),
        (lambda: ops.concat([X, X[:, :, :3]], dim=1), pl.ShapeError, ["concat"]),
        (lambda: ops.reshape(X, (5, -1)), pl.ShapeError, ["reshape"]),
        (lambda: ops.permute(X, (0, 0, 1, 2)), pl.InvalidArgumentError, ["permute", "dims"]),
        (lambda: ops.max_pool2d(X, 9), pl.ShapeError, ["max_pool2d"]),
        (lambda: ops.batch_norm(X, W[0, 0, 0], W[0, 0, 0]), pl.ShapeError, ["batch_norm", "running_mean"]),
        (lambda: pl.asarray(X, layout="NCW"), pl.LayoutError, ["NCW", "rank"]),
        (lambda: pl.asarray(X, device="gpu"), pl.DeviceError, ["gpu", "cpu"]),
        (lambda: pl.asarray(X, dtype="f33"), pl.Error, ["f33"]),
        (lambda: pl.query("nothing"), pl.InvalidArgumentError, ["nothing"]),
        (lambda: pl.query("relu", X, X), pl.ArgumentTypeError, ["relu", "2"]),
        (lambda: pl.query("relu", X, slope=1), pl.InvalidArgumentError, ["relu", "slope"]),
        (lambda: pl.tune("relu", X, seconds=-1), pl.InvalidArgumentError, ["seconds", "-1"]),
        (lambda: pl.configure(speed=3), pl.InvalidArgumentError, ["speed", "threads"]),
        (lambda: pl.set_threads(0), pl.InvalidArgumentError, ["threads", "0"]),
        (lambda: pl.configure(math="fp8"), pl.InvalidArgumentError, ["math", "fp8", "tf32"]),
        (lambda: pl.set_tuning("maybe"), pl.InvalidArgumentError, ["tune", "maybe"]),
        (lambda: pl.configure(opencl=False, threads=2), pl.InvalidArgumentError, ["opencl", "before"]),
        (lambda: pl.memory("tpu"), pl.DeviceError, ["tpu"]),
        (lambda: pl.tune("nosuch"), pl.InvalidArgumentError, ['tune: there is no op "nosuch"']),
        (lambda: pl.asarray([2**70]), pl.InvalidArgumentError, ["asarray: value has an integer of 71 bits"]),
        (lambda: ops.add(X, 2**2000), pl.InvalidArgumentError, ["add: y has an integer of 2001 bits"]),
        (lambda: pl.zeros(None), pl.ArgumentTypeError, ["shape is None, expected a sequence of integers"]),
        (lambda: pl.zeros(1.5), pl.ArgumentTypeError, ["shape is 1.5, expected a sequence of integers"]),
        (lambda: pl.eye("a"), pl.ArgumentTypeError, ["eye: n is 'a', expected an integer"]),
        (lambda: pl.eye(2, 1.5), pl.ArgumentTypeError, ["eye: m is 1.5, expected an integer"]),
        (lambda: pl.arange(None), pl.ArgumentTypeError, ["arange: stop is None, expected a number"]),
        (lambda: pl.linspace("a", 1, 3), pl.ArgumentTypeError, ["linspace: start is 'a', expected a number"]),
        (lambda: pl.linspace(0, 1, None), pl.ArgumentTypeError, ["linspace: num is None, expected an integer"]),
        (lambda: pl.Profile([]).phases(3), pl.ArgumentTypeError, ["Profile.phases: plan is int, expected a Plan"]),
        (lambda: pl.Profile([]).report("/nodir/x"), pl.FileError, ["/nodir/x cannot be written: No such file"]),
        (lambda: pl.Profile([]).save_trace("/nodir/x"), pl.FileError, ["/nodir/x cannot be written: No such file"]),
    ],
)
def test_bad_input(call, error, words):
    pl.devices()  # the library is in use
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)


def test_unknown_parameters_are_type_errors():
    with pytest.raises(TypeError, match="strides"):
        ops.conv2d(X, W, strides=2)
    with pytest.raises(AttributeError, match="konv2d"):
        _ = ops.konv2d


def test_attributes_that_are_no_finite_numbers():
    x = numpy.array([-1.0, 0.0, 2.0], "float32")
    for value in [float("inf"), -float("inf")]:
        numpy.testing.assert_array_equal(ops.clip(x, min=value).numpy(), numpy.maximum(x, value).astype("float32"))
    for _ in range(3):
        with pytest.raises(pl.InvalidArgumentError, match="clip: min is nan"):
            ops.clip(x, min=float("nan"))


def test_an_integer_of_many_bits_is_a_floating_number_beside_one():
    assert ops.add(numpy.zeros(2, "float32"), 2**70).tolist() == [2.0**70] * 2


def test_errors_belong_to_their_thread():
    wrong = []

    def fail_often(number):
        for _ in range(100):
            with pytest.raises(pl.DeviceError) as caught:
                pl.synchronize(f"none{number}")
            if f'"none{number}"' not in str(caught.value):
                wrong.append(str(caught.value))

    threads = [threading.Thread(target=fail_often, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_failed_block_still_ends_its_profile():
    with pytest.raises(KeyError), pl.profile() as p:
        ops.relu(X)
        raise KeyError
    assert len(p.events) >= 1
    with pl.profile() as p, pytest.raises(pl.InvalidArgumentError), pl.profile():
        pass
    assert p.events == []

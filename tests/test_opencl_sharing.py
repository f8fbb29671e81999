"""pyopencl buffers as tensors and tensors as pyopencl buffers, without a copy, on the program's own queue."""

import gc
import runpy
import time
from pathlib import Path

import numpy
import pytest

import pylayout as pl
from pylayout import ops

cl = pytest.importorskip("pyopencl", reason="pyopencl is not installed")


@pytest.fixture(scope="module")
def queue():
    try:
        platforms = cl.get_platforms()
    except cl.LogicError as error:
        pytest.skip(f"pyopencl finds no platform: {error}")
    devices = [device for platform in platforms for device in platform.get_devices()]
    if not devices:
        pytest.skip("pyopencl finds no device")
    return cl.CommandQueue(cl.Context(devices[:1]))


def filled(queue, values):
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    return cl.Buffer(queue.context, flags, hostbuf=values)


def read(queue, buffer, count):
    values = numpy.empty(count, "float32")
    cl.enqueue_copy(queue, values, buffer)
    return values


def test_a_buffer_becomes_a_tensor_in_its_layout(queue, rng):
    values = rng.standard_normal((2, 3, 4, 5)).astype("float32")
    memory = numpy.ascontiguousarray(values.transpose(0, 2, 3, 1))
    x = pl.Tensor.from_cl_buffer(filled(queue, memory), values.shape, "float32", "NHWC", queue)
    assert (x.shape, x.layout, x.is_borrowed) == ((2, 3, 4, 5), "NHWC", True)
    assert x.device.startswith("opencl:") and x.device.partition(":")[2].isdigit()
    assert x.device in pl.devices()
    numpy.testing.assert_array_equal(x.numpy(), values)
    numpy.testing.assert_array_equal(ops.relu(x).numpy(), numpy.maximum(values, 0))


def test_the_same_queue_is_the_same_device(queue):
    buffer = filled(queue, numpy.zeros(8, "float32"))
    known = len(pl.devices())
    devices = {pl.Tensor.from_cl_buffer(buffer, (8,), "f32", queue=queue).device for _ in range(3)}
    assert len(devices) == 1 and len(pl.devices()) <= known + 1


def test_no_copy_in_either_direction(queue, rng):
    values = rng.random(64, "float32")
    buffer = filled(queue, values)
    x = pl.Tensor.from_cl_buffer(buffer, (8, 8), "float32", queue=queue)
    assert x.cl_buffer.int_ptr == buffer.int_ptr
    cl.enqueue_copy(queue, buffer, values * 2)
    numpy.testing.assert_array_equal(x.touch().numpy(), (values * 2).reshape(8, 8))
    y = ops.neg(x)
    numpy.testing.assert_array_equal(read(queue, y.cl_buffer, 64), -values * 2)


def test_memory_is_retained(queue):
    buffer = filled(queue, numpy.ones(16, "float32"))
    before = buffer.reference_count
    x = pl.Tensor.from_cl_buffer(buffer, (16,), "float32", queue=queue)
    assert buffer.reference_count > before
    shared = x.cl_buffer
    del x
    gc.collect()
    numpy.testing.assert_array_equal(read(queue, shared, 16), numpy.ones(16))
    del shared
    gc.collect()
    assert buffer.reference_count == before


def test_offsets(queue):
    buffer = filled(queue, numpy.arange(32, dtype="float32"))
    x = pl.Tensor.from_cl_buffer(buffer, (4, 4), "float32", queue=queue, offset=64)
    numpy.testing.assert_array_equal(x.numpy(), numpy.arange(16, 32).reshape(4, 4))
    numpy.testing.assert_array_equal(ops.neg(x).numpy(), -numpy.arange(16, 32).reshape(4, 4))


def test_what_does_not_fit(queue):
    buffer = filled(queue, numpy.zeros(16, "float32"))
    with pytest.raises(pl.ShapeError, match="storage"):
        pl.Tensor.from_cl_buffer(buffer, (17,), "float32", queue=queue)
    with pytest.raises(pl.ShapeError, match="storage"):
        pl.Tensor.from_cl_buffer(buffer, (16,), "float32", queue=queue, offset=4)
    with pytest.raises(pl.InvalidArgumentError, match="multiple of 4"):
        pl.Tensor.from_cl_buffer(buffer, (4,), "float32", queue=queue, offset=2)
    with pytest.raises(pl.DeviceError, match="queue"):
        pl.Tensor.from_cl_buffer(buffer, (4,), "float32")
    other = cl.Buffer(cl.Context(queue.context.devices), cl.mem_flags.READ_WRITE, 64)
    with pytest.raises(pl.DeviceError, match="context"):
        pl.Tensor.from_cl_buffer(other, (4,), "float32", queue=queue)
    properties = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    if queue.device.queue_properties & properties:
        with pytest.raises(pl.DeviceError, match="order"):
            pl.Tensor.from_cl_buffer(buffer, (4,), "f32", queue=cl.CommandQueue(queue.context, properties=properties))
    with pytest.raises(pl.DeviceError, match="cl_mem"):
        _ = pl.zeros((2,)).cl_buffer


class Handle:
    """What pyopencl's objects look like to pylayout."""

    def __init__(self, pointer, context=None):
        self.int_ptr, self.context = pointer, context


@pytest.mark.parametrize("garbage", ["small", "odd", "zeros", "text", "data", "unmapped"])
def test_what_is_no_opencl_object_is_refused(queue, garbage):
    memory = numpy.zeros(64, "int64") if garbage == "zeros" else numpy.frombuffer(b"no OpenCL object" * 64, "uint8")
    if garbage == "data":  # a table of pointers, as in memory that was freed, but not to functions
        memory = numpy.empty(64, "int64")
        memory[:] = memory.ctypes.data
    pointer = {"small": 16, "odd": memory.ctypes.data + 3, "unmapped": 2**47 - 2**20}.get(garbage, memory.ctypes.data)
    live, fresh = Handle(queue.context.int_ptr), cl.CommandQueue(queue.context)
    buffer = filled(queue, numpy.zeros(4, "float32"))
    for which, (given, at) in {
        # Of a queue that was lent before the context is known.
        "cl_context": (buffer, Handle(fresh.int_ptr, Handle(pointer))),
        "cl_command_queue": (buffer, Handle(pointer, live)),
        "cl_mem": (Handle(pointer), queue),
    }.items():
        with pytest.raises(pl.InvalidArgumentError, match=f"the {which} 0x[0-9a-f]+ is none, or was released"):
            pl.Tensor.from_cl_buffer(given, (4,), "float32", queue=at)
    numpy.testing.assert_array_equal(pl.Tensor.from_cl_buffer(buffer, (4,), "f32", queue=queue).numpy(), numpy.zeros(4))


def test_a_queue_of_another_context_is_refused(queue):
    other = cl.Context(queue.context.devices)
    mixed = cl.CommandQueue(queue.context)
    with pytest.raises(pl.InvalidArgumentError, match="queue belongs to another cl_context"):
        pl.Tensor.from_cl_buffer(filled(queue, numpy.zeros(4, "f4")), (4,), "f32", queue=Handle(mixed.int_ptr, other))


def test_the_example_runs(queue, monkeypatch, capsys):
    monkeypatch.setattr(cl, "create_some_context", lambda interactive: queue.context)
    main = runpy.run_path(str(Path(__file__).parent.parent / "examples" / "pyopencl_sharing.py"))["main"]
    assert main() == 0
    assert "counted by OpenCL" in capsys.readouterr().out


def test_others_compete_in_runs_on_a_queue_without_profiling(queue, rng):
    g = pl.Graph()
    x = g.input("x", (1, 8, 9, 9))
    w = rng.standard_normal((8, 8, 3, 3)).astype("float32")
    g.output(g.conv2d(g.conv2d(x, w, padding=1), w, padding=1), "y")
    values = rng.standard_normal((1, 8, 9, 9)).astype("float32")
    want = pl.compile(g, device="cpu", tune="off").run(values)[0]
    device = pl.Tensor.from_cl_buffer(filled(queue, values), values.shape, "float32", queue=queue).device
    plan = pl.compile(g, device=device, tune="live")
    end = time.monotonic() + 120
    while not plan.settled():
        assert time.monotonic() < end, plan.summary()["tuning"]
        numpy.testing.assert_allclose(plan.run(values)[0], want, rtol=1e-3, atol=1e-3)
    numpy.testing.assert_allclose(plan.run(values)[0], want, rtol=1e-3, atol=1e-3)

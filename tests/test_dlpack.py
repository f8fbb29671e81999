"""DLPack both ways, with NumPy and, where it is installed, torch."""

import gc

import numpy
import pytest

import pylayout as pl

LAYOUTS = ["NCHW", "NHWC", "nChw16c"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_numpy_takes_tensors(rng, layout):
    values = rng.random((2, 5, 3, 4), "float32")
    x = pl.asarray(values, layout=layout)
    taken = numpy.from_dlpack(x)
    del x
    gc.collect()
    numpy.testing.assert_array_equal(taken, values)


def test_no_copy_where_the_layout_permits(rng):
    values = rng.random((2, 5, 3, 4), "float32")
    x = pl.asarray(values, copy=False)
    assert numpy.shares_memory(numpy.from_dlpack(x), values)
    y = pl.from_dlpack(values)
    assert y.is_borrowed
    values += 1
    numpy.testing.assert_array_equal(y.touch().numpy(), values)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint8", "int32", "int64", "bool"])
def test_dtypes_round_trip(dtype):
    values = numpy.array([[0, 1, 2], [3, 4, 1]]).astype(dtype)
    x = pl.from_dlpack(values)
    assert x.dtype == dtype
    taken = numpy.from_dlpack(x)
    assert taken.dtype == dtype
    numpy.testing.assert_array_equal(taken, values)


def test_strided_and_empty_and_scalar(rng):
    values = rng.random((4, 6, 8), "float32")
    for array in [values.transpose(2, 0, 1), values[:, ::2, 1:5], values[:0], values[1, 2, 3:4].reshape(())]:
        x = pl.from_dlpack(array)
        numpy.testing.assert_array_equal(x.numpy(), array)
        numpy.testing.assert_array_equal(numpy.from_dlpack(x), array)


def test_unused_capsules_free_what_they_own():
    gc.collect()
    before = pl.memory("cpu")["in_use"]
    x = pl.zeros((64, 64))
    capsule = x.__dlpack__()
    del x
    assert pl.memory("cpu")["in_use"] > before
    del capsule
    gc.collect()
    assert pl.memory("cpu")["in_use"] == before


def test_a_capsule_is_used_once():
    class Exporter:
        def __init__(self, capsule):
            self.capsule = capsule

        def __dlpack__(self, **_):
            return self.capsule

    exporter = Exporter(pl.full((3,), 2).__dlpack__())
    x = pl.from_dlpack(exporter)
    numpy.testing.assert_array_equal(x.numpy(), [2, 2, 2])
    with pytest.raises(TypeError, match="capsule"):
        pl.from_dlpack(exporter)


def test_what_cannot_be_exported_or_imported():
    x = pl.zeros((1, 3, 4, 4), layout="nChw8c")
    with pytest.raises(BufferError, match="copy=False"):
        x.__dlpack__(copy=False)
    with pytest.raises(BufferError, match="dl_device"):
        x.__dlpack__(dl_device=(2, 0))
    with pytest.raises(pl.UnsupportedError, match="64 bits"):
        pl.from_dlpack(numpy.zeros(3))
    with pytest.raises(pl.ShapeError, match="negative"):
        pl.from_dlpack(numpy.zeros(3, "float32")[::-1])
    readonly = numpy.zeros(3, "float32")
    readonly.flags.writeable = False
    with pytest.raises(pl.InvalidArgumentError, match="cannot be exported"):
        pl.from_dlpack(readonly)


def test_copy_is_independent():
    x = pl.full((4,), 1)
    taken = numpy.from_dlpack(_WithCopy(x))
    x.write(numpy.full(4, 5, "float32"))
    numpy.testing.assert_array_equal(taken, numpy.ones(4))


class _WithCopy:
    """Exports a copy of a tensor."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **_):
        return self.tensor.__dlpack__(copy=True)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


def test_devices_are_named(opencl_device):
    x = pl.zeros((2, 3), device=opencl_device)
    number = int(opencl_device.partition(":")[2])
    assert x.__dlpack_device__() == (4, number)
    back = pl.from_dlpack(x)
    assert back.device == opencl_device and back.shape == (2, 3)
    taken = numpy.from_dlpack(_OnCpu(x))
    numpy.testing.assert_array_equal(taken, numpy.zeros((2, 3)))


class _OnCpu:
    """Exports a tensor of any device to the CPU."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **_):
        return self.tensor.__dlpack__(dl_device=(1, 0))

    def __dlpack_device__(self):
        return (1, 0)


class TestTorch:
    @pytest.fixture(autouse=True)
    def torch(self):
        self.torch = pytest.importorskip("torch", reason="torch is not installed: no comparison with it")

    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_torch_takes_tensors(self, rng, layout):
        values = rng.random((2, 5, 3, 4), "float32")
        taken = self.torch.from_dlpack(pl.asarray(values, layout=layout))
        numpy.testing.assert_array_equal(taken.numpy(), values)
        if layout == "NHWC":
            assert taken.is_contiguous(memory_format=self.torch.channels_last)

    @pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "uint8", "int32", "int64", "bool"])
    def test_tensors_take_torch(self, dtype):
        source = self.torch.tensor([[0, 1, 1], [2, 3, 4]]).to(getattr(self.torch, dtype))
        x = pl.asarray(source)
        assert x.dtype == source.dtype and x.shape == (2, 3) and not x.is_borrowed
        assert self.torch.equal(self.torch.from_dlpack(x), source)

    def test_channels_last_is_seen(self, rng):
        values = rng.random((2, 5, 3, 4), "float32")
        source = self.torch.from_numpy(values).to(memory_format=self.torch.channels_last)
        x = pl.from_dlpack(source)
        assert x.layout == "NHWC" and x.is_dense
        numpy.testing.assert_array_equal(x.numpy(), values)

    def test_torch_tensors_are_inputs(self, rng):
        values = rng.standard_normal((2, 5, 3, 4)).astype("float32")
        y = pl.ops.relu(self.torch.from_numpy(values))
        numpy.testing.assert_array_equal(y.numpy(), numpy.maximum(values, 0))
        z = pl.asarray(values) + self.torch.from_numpy(values)
        numpy.testing.assert_allclose(z.numpy(), values * 2)

    def test_views_of_inputs_do_not_follow_them(self, rng):
        source = self.torch.ones(2, 3)
        y = pl.ops.reshape(source, (3, 2))
        source += 1
        numpy.testing.assert_array_equal(y.numpy(), numpy.ones((3, 2)))

    def test_gradients_are_refused(self):
        with pytest.raises(pl.InvalidArgumentError, match="grad"):
            pl.asarray(self.torch.ones(3, requires_grad=True))

    def test_negative_views_are_refused(self):
        x = self.torch.ones(3, dtype=self.torch.complex64).conj().imag
        with pytest.raises(pl.InvalidArgumentError, match="negative bit is set"):
            pl.asarray(x)
        numpy.testing.assert_array_equal(pl.asarray(x.resolve_neg()).numpy(), x.resolve_neg().numpy())

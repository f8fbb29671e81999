"""The C ABI's guards, called as a program that got it wrong would: handles released or forged, NULL, wrong sizes."""

import pytest

from pylayout._load import ffi, lib
from pylayout.context import handle


def handle_of(shape=(2, 3)):
    sizes, out = ffi.new("int64_t[]", list(shape)), ffi.new("pl_tensor *")
    assert lib.pl_tensor_create(handle(), ffi.NULL, lib.PL_F32, len(shape), sizes, ffi.NULL, out) == lib.PL_OK
    return out[0]


def last_error():
    return ffi.string(lib.pl_last_error()).decode("utf-8", "replace")


def test_released_handles_are_errors_everywhere():
    tensor = handle_of()
    assert lib.pl_tensor_release(tensor) == lib.PL_OK
    info, other, memory = ffi.new("pl_tensor_info *"), ffi.new("pl_tensor *"), ffi.new("void **")
    numbers = ffi.new("float[6]")
    inputs, outputs, count = ffi.new("pl_tensor[1]", [tensor]), ffi.new("pl_tensor[1]"), ffi.new("size_t *")
    calls = {
        "pl_tensor_describe": lambda: lib.pl_tensor_describe(tensor, info),
        "pl_tensor_retain": lambda: lib.pl_tensor_retain(tensor, other),
        "pl_tensor_read": lambda: lib.pl_tensor_read(tensor, numbers, 24),
        "pl_tensor_write": lambda: lib.pl_tensor_write(tensor, numbers, 24),
        "pl_tensor_data": lambda: lib.pl_tensor_data(tensor, memory),
        "pl_tensor_touch": lambda: lib.pl_tensor_touch(tensor),
        "pl_tensor_convert": lambda: lib.pl_tensor_convert(tensor, ffi.NULL, b"ab", ffi.NULL, other),
        "pl_tensor_to_dlpack": lambda: lib.pl_tensor_to_dlpack(tensor, memory),
        "pl_op_run": lambda: lib.pl_op_run(handle(), b"relu", ffi.NULL, inputs, 1, outputs, 1, count),
        "pl_tensor_release": lambda: lib.pl_tensor_release(tensor),
    }
    for name, call in calls.items():
        assert call() == lib.PL_ERROR_INVALID_ARGUMENT, name
        assert name in last_error() and "released" in last_error(), last_error()


def test_handles_of_another_kind_and_forged_ones():
    info = ffi.new("pl_tensor_info *")
    attributes = ffi.new("pl_attributes *")
    assert lib.pl_attributes_create(b"dim=1", attributes) == lib.PL_OK
    for forged in [
        ffi.NULL,
        ffi.cast("pl_tensor", attributes[0]),
        *(ffi.cast("pl_tensor", n) for n in (1, 4096, 2**63)),
    ]:
        assert lib.pl_tensor_describe(forged, info) == lib.PL_ERROR_INVALID_ARGUMENT
        assert "pl_tensor_describe" in last_error()
    assert lib.pl_attributes_release(attributes[0]) == lib.PL_OK


def test_null_arguments():
    tensor = handle_of()
    for status in [
        lib.pl_tensor_describe(tensor, ffi.NULL),
        lib.pl_tensor_read(tensor, ffi.NULL, 24),
        lib.pl_attributes_create(b"dim=1", ffi.NULL),
        lib.pl_ops(ffi.NULL),
        lib.pl_layout_parse(ffi.NULL, ffi.NULL, ffi.NULL, ffi.NULL),
    ]:
        assert status == lib.PL_ERROR_INVALID_ARGUMENT
        assert "NULL" in last_error(), last_error()
    lib.pl_tensor_release(tensor)


def test_sizes_of_reads_and_writes_are_checked():
    tensor, numbers = handle_of(), ffi.new("float[7]")
    assert lib.pl_tensor_read(tensor, numbers, 28) == lib.PL_ERROR_SHAPE
    assert lib.pl_tensor_write(tensor, numbers, 20) == lib.PL_ERROR_SHAPE
    assert "24" in last_error()
    lib.pl_tensor_release(tensor)


@pytest.mark.parametrize("text", [b"dim", b"=1", b"dim=", b"dim=[1", b"dim=1 dim=2", b'dim="x', b"\xff\xfe=1", b"a b"])
def test_attribute_text_that_does_not_parse(text):
    out = ffi.new("pl_attributes *")
    status = lib.pl_attributes_create(text, out)
    if status == lib.PL_OK:  # a word that means something is refused by the op at the latest
        lib.pl_attributes_release(out[0])
        pytest.fail(f"{text!r} was taken")
    assert status == lib.PL_ERROR_INVALID_ARGUMENT and last_error()

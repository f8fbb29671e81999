"""Arrays that look bad and are not: read-only, strided, reversed, unaligned, of the other byte order."""

import numpy as np
import pytest

import pylayout as pl
from pylayout import ops

pytestmark = pytest.mark.usefixtures("unoptimised")


def arrays():
    base = np.arange(2 * 3 * 4 * 5, dtype="float32").reshape(2, 3, 4, 5) - 50
    yield "transposed", base.transpose(3, 1, 0, 2)
    yield "sliced", base[:, 1:, ::2, 1:4]
    yield "reversed", base[::-1, :, ::-1]
    yield "broadcast", np.broadcast_to(base[:1], (4, 3, 4, 5))
    yield "other byte order", base.astype(">f4")
    raw = np.zeros(base.nbytes + 1, "uint8")
    unaligned = raw[1:].view("float32").reshape(base.shape)
    unaligned[...] = base
    yield "unaligned", unaligned
    packed = np.zeros(base.shape, np.dtype([("pad", "u1"), ("value", "f4")]))
    packed["value"] = base
    yield "a field of records", packed["value"]
    fixed = base.copy()
    fixed.flags.writeable = False
    yield "read-only", fixed
    yield "of rank 0", np.float32(-7)
    yield "empty", base[:0]
    yield "Fortran order", np.asfortranarray(base)


@pytest.mark.parametrize(("kind", "array"), list(arrays()), ids=lambda value: value if isinstance(value, str) else "")
def test_arrays_of_any_kind_are_taken_as_they_are(kind, array):
    before = np.array(array)
    np.testing.assert_array_equal(pl.asarray(array).numpy(), before)
    np.testing.assert_array_equal(ops.relu(array).numpy(), np.maximum(before, 0))
    np.testing.assert_array_equal(ops.add(array, array).numpy(), before + before)
    np.testing.assert_array_equal(np.asarray(array), before)  # and left so


def test_no_result_is_written_into_a_read_only_array():
    fixed = np.ones((2, 3), "float32")
    fixed.flags.writeable = False
    tensor = pl.asarray(fixed)
    tensor.write(np.zeros((2, 3), "float32"))
    assert fixed.all()


def test_copy_false_refuses_what_needs_a_copy():
    base = np.zeros((4, 6), "float32")
    for array in [base[::-1], base.astype("float64"), base.astype(">f4")]:
        with pytest.raises(pl.InvalidArgumentError, match="asarray: copy is False"):
            pl.asarray(array, copy=False)
    with pytest.raises(pl.InvalidArgumentError, match="asarray: copy is False"):
        pl.asarray(base, copy=False, layout="ba")


def test_write_of_another_shape():
    with pytest.raises(pl.Error, match=r"write: values has shape \(3, 2\), expected \(2, 3\)"):
        pl.zeros((2, 3)).write(np.zeros((3, 2), "float32"))


def test_numbers_of_other_kinds_name_where_they_were_given():
    plan = pl.Graph()
    plan.output(plan.relu(plan.input("x", (1, 1))), "y")
    plan = pl.compile(plan, device="cpu", tune="off")
    for array in (np.array([["a"]]), np.zeros((1, 1), "complex64")):
        with pytest.raises(pl.UnsupportedError, match=r'^plan: input "x": dtype is .*, expected one of f32'):
            plan.run(array)
        with pytest.raises(pl.UnsupportedError, match=r"^add: y: dtype is .*, expected one of f32"):
            ops.add(np.zeros((1, 1), "float32"), array)

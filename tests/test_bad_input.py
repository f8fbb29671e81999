"""Bad input of every kind: a clear error that names op, argument, expectation and fact; no crash, nothing lost."""

import numpy as np
import pytest
from bad_input_cases import CASES, W, X, ones

import pylayout as pl
from pylayout import ops

pytestmark = pytest.mark.usefixtures("untuned")


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_a_clear_error(case):
    call, error, message = CASES[case]
    with pytest.raises(error, match=message):
        call()
    # Nothing is lost: the library works as before.
    np.testing.assert_array_equal(ops.neg(ones(2, 3)).numpy(), -np.ones((2, 3)))


@pytest.mark.parametrize("op", [name for name in dir(ops) if not name.startswith("_")])
def test_every_op_refuses_what_is_no_tensor(op):
    """Whatever else the op takes: an error of pylayout, or Python's own about the signature."""
    function = getattr(ops, op)
    for arguments in [(), (None,), (object(),), ("text",), ([None, None],), (None, None, None)]:
        with pytest.raises((pl.Error, TypeError)) as raised:
            function(*arguments)
        assert str(raised.value)


def test_unknown_and_missing_parameters_are_pythons_own_errors():
    with pytest.raises(TypeError, match=r"conv2d\(\) .*'strides'"):
        ops.conv2d(ones(*X), ones(*W), strides=2)
    with pytest.raises(TypeError, match=r"conv2d\(\) .*'weight'"):
        ops.conv2d(ones(*X))
    with pytest.raises(AttributeError, match="no op 'conv9d'"):
        _ = ops.conv9d


def test_errors_are_under_one_class():
    for name in [
        "ShapeError",
        "LayoutError",
        "DeviceError",
        "UnsupportedError",
        "OutOfMemoryError",
        "InvalidArgumentError",
    ]:
        assert issubclass(getattr(pl, name), pl.Error)
    assert issubclass(pl.ShapeError, ValueError) and issubclass(pl.OutOfMemoryError, MemoryError)

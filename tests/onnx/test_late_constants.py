"""Matrices that follow from sizes alone: one graph gives them for any sizes."""

import numpy
import pytest

onnx = pytest.importorskip("onnx")

import onnx.parser  # noqa: E402, F811

import pylayout as pl  # noqa: E402


def compiled(nodes, kind="float"):
    """A plan that may not be made again for other sizes."""
    plan = pl.compile(
        onnx.parser.parse_model(
            f"""<ir_version: 10, opset_import: ["" : 20]>
            agraph (float[n, m] x) => ({kind}[n, m] y) {{ {nodes} }}"""
        ),
        device="cpu",
        tune="off",
    )
    plan._graph_for = None
    return plan


@pytest.mark.parametrize("shape", [(5, 5), (3, 6), (7, 2), (1, 1), (0, 3)])
@pytest.mark.parametrize("k", [0, 2, -1])
def test_diagonals(shape, k):
    x = numpy.arange(1, 1 + numpy.prod(shape), dtype="float32").reshape(shape)
    assert (compiled(f"y = EyeLike<k = {k}>(x)").run(x)[0] == numpy.eye(*shape, k)).all()
    ones = compiled(f"y = EyeLike<k = {k}, dtype = 7>(x)", "int64").run(x)[0]
    assert ones.dtype == numpy.int64 and (ones == numpy.eye(*shape, k)).all()
    shift = f"k = Constant<value_int = {k}>()"
    assert (compiled(f"{shift} y = Trilu(x, k)").run(x)[0] == numpy.triu(x, k)).all()
    assert (compiled(f"{shift} y = Trilu<upper = 0>(x, k)").run(x)[0] == numpy.tril(x, k)).all()

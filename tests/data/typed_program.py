"""A user's program for type checkers, never run. Lines that end in a remark with an error's code are wrong, no others."""

import numpy as np
from typing_extensions import assert_type

import pylayout as pl
from pylayout import ops

x = pl.asarray(np.zeros((1, 8, 6, 6), "float32"), layout="NHWC", device="cpu")
w = pl.asarray(np.zeros((4, 8, 3, 3), "float32"))

# ---- ops at once ----

y = ops.conv2d(x, w, stride=2, padding=(1, 1), activation="relu", layout="auto")
assert_type(y, pl.Tensor)
assert_type(ops.add(x, 1.5), pl.Tensor)
assert_type(ops.matmul([[1.0]], np.ones((1, 1))), pl.Tensor)
assert_type(ops.concat([x, x], dim=1), pl.Tensor)
assert_type(ops.split(x, 4, dim=1), tuple[pl.Tensor, ...])
assert_type(ops.einsum("ij,jk->ik", x, w), pl.Tensor)
assert_type(ops.clamp(x, 0.0, 1.0), pl.Tensor)
ops.max_pool2d(x, 2, layout=pl.Layout("nChw16c"), device=pl.devices()[0])

ops.conv2d(x)  # error: call-overload
ops.conv2d(x, w, strides=2)  # error: call-overload
ops.conv2d(x, w, stride="2")  # error: arg-type
ops.relu("text")  # error: call-overload
ops.relu(None)  # error: call-overload
ops.concat(x, dim=1)  # error: call-overload
ops.relu6x(x)  # error: attr-defined
ops.interpolate(x, scale_factor=2.0, mode="nearrest")  # error: call-overload
number: int = ops.relu(x)  # error: assignment

# ---- tensors ----

assert_type(y.shape, tuple[int, ...])
assert_type(y.layout, pl.Layout)
assert_type(y.dtype, pl.DType)
assert_type(x.to(layout="NHWC").relu(), pl.Tensor)
assert_type(x.sum((2, 3), keepdim=True), pl.Tensor)
assert_type(x[:, 0], pl.Tensor)
assert_type(x * 2 + w, pl.Tensor)
assert_type(x.T, pl.Tensor)
float(x.mean())

x.shape = (1,)  # error: misc
x.no_such_method()  # error: attr-defined
pl.Tensor.from_cl_buffer()  # error: call-arg
pl.zeros()  # error: call-arg

# ---- graphs and plans ----

g = pl.Graph(sizes={"n": 1})
v = g.input("x", ("n", 8, 6, 6))
assert_type(v, pl.Value)
assert_type(ops.conv2d(v, w, padding=1), pl.Value)
assert_type(ops.add(1.0, v), pl.Value)
assert_type(ops.add(v, v), pl.Value)
assert_type(ops.concat([v, v]), pl.Value)
assert_type(v.relu() * 2, pl.Value)
ops.relu(v, layout="NHWC")  # error: call-overload
g.output(v, "y")
g.output(x, "y")  # error: arg-type
g.input("z", 3)  # error: arg-type

plan = pl.compile(g, device="cpu", tune="off", sizes={"n": 2})
assert_type(plan, pl.Plan)
assert_type(plan.explain(), str)
plan.run(np.zeros((1, 8, 6, 6)))
pl.compile()  # error: call-arg
pl.compile(g, treads=2)  # error: call-arg
plan.save(3)  # error: arg-type

# ---- the rest ----

with pl.profile() as recording:
    ops.relu(x)
recording.save_trace("trace.json")
pl.configure(threads=2)
assert_type(pl.get_threads(), int)
try:
    ops.relu(x)
except (pl.ShapeError, pl.UnsupportedError) as error:
    print(error)
pl.set_threads("two")  # error: arg-type
pl.no_such_name  # error: attr-defined

"""Share memory and a queue with pyopencl: no copy in either direction.

    python examples/pyopencl_sharing.py

A kernel of the program's own writes an image, pylayout convolves it in place on the program's queue, and a second
kernel of the program's own reads the result.
"""

import sys

import numpy
import pyopencl as cl

import pylayout as pl
from pylayout import ops

SOURCE = """
__kernel void ramp(__global float *image) { image[get_global_id(0)] = (float)(get_global_id(0) % 256) / 255.0f; }
__kernel void above(__global const float *y, __global int *count, const float limit) {
    if (y[get_global_id(0)] > limit) atomic_inc(count);
}
"""


def main() -> int:
    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    program = cl.Program(context, SOURCE).build()
    ramp, above = cl.Kernel(program, "ramp"), cl.Kernel(program, "above")
    shape = (1, 8, 32, 32)
    size = int(numpy.prod(shape))
    print("device:", queue.device.name)

    # A buffer of the program's, filled by a kernel of the program's.
    image = cl.Buffer(context, cl.mem_flags.READ_WRITE, size * 4)
    ramp(queue, (size,), None, image)

    # The same memory as a tensor. Its layout is whatever the kernel wrote: here NHWC.
    x = pl.Tensor.from_cl_buffer(image, shape, "float32", layout="NHWC", queue=queue)
    print("input:", x)
    weight = pl.asarray(numpy.full((4, 8, 3, 3), 0.02, "float32"), device=x.device)
    y = ops.conv2d(x, weight, padding=1, activation="relu").to(layout="NCHW")
    print("output:", y)

    # The result's memory as a pyopencl buffer, read by a kernel of the program's on the same queue: in order.
    count = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=numpy.zeros(1, "int32"))
    above(queue, (y.size,), None, y.cl_buffer, count, numpy.float32(0.5))
    found = numpy.empty(1, "int32")
    cl.enqueue_copy(queue, found, count)

    expected = int((y.numpy() > 0.5).sum())
    print(f"elements above 0.5: {found[0]} counted by OpenCL, {expected} by NumPy")

    # After writing to memory that pylayout knows, say so.
    ramp(queue, (size,), None, image)
    x.touch()
    return 0 if found[0] == expected else 1


if __name__ == "__main__":
    sys.exit(main())

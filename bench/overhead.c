/* What one cached call of a tiny op costs through the C ABI, in microseconds: the smallest of many rounds.
 *
 *   cmake -B build -DPYLAYOUT_BENCH=ON && cmake --build build && build/bench/overhead
 *
 * The tensors have 16 elements, so that nearly all of the time is pylayout's: checking handles, finding the prepared
 * call, an output from the pool, the call of the kernel.  Aim: at most 1 us. */
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>

#include "calls.h"

#define ROUNDS 200
#define CALLS 2000

static double measure(pl_context context, const char* op, pl_attributes attributes, const pl_tensor* inputs,
                      size_t count, int into_given) {
  double best = 1e30;
  pl_tensor output = NULL;
  int round, i;
  check(pl_op_run(context, op, attributes, inputs, count, &output, 1, NULL)); /* prepares it */
  for (round = 0; round < ROUNDS; round++) {
    const double start = now_us();
    double taken;
    for (i = 0; i < CALLS; i++) {
      if (!into_given) {
        check(pl_tensor_release(output));
        output = NULL;
      }
      check(pl_op_run(context, op, attributes, inputs, count, &output, 1, NULL));
    }
    taken = (now_us() - start) / CALLS;
    if (taken < best) best = taken;
  }
  check(pl_tensor_release(output));
  return best;
}

static double measure_describe(pl_tensor tensor) {
  double best = 1e30;
  int round, i;
  for (round = 0; round < ROUNDS; round++) {
    const double start = now_us();
    double taken;
    for (i = 0; i < CALLS; i++) check(pl_tensor_touch(tensor));
    taken = (now_us() - start) / CALLS;
    if (taken < best) best = taken;
  }
  return best;
}

int main(void) {
  const int64_t shape[4] = {1, 4, 2, 2}, pool_shape[4] = {1, 4, 4, 4};
  pl_context context;
  pl_tensor inputs[2], image;
  pl_attributes slope, pool;
  check(pl_context_create("opencl=false", &context));
  check(pl_tensor_create(context, "cpu", PL_F32, 4, shape, NULL, &inputs[0]));
  check(pl_tensor_create(context, "cpu", PL_F32, 4, shape, NULL, &inputs[1]));
  check(pl_tensor_create(context, "cpu", PL_F32, 4, pool_shape, NULL, &image));
  check(pl_attributes_create("negative_slope=0.1", &slope));
  check(pl_attributes_create("kernel_size=2", &pool));
  printf("op                                us a call\n");
  printf("relu                              %8.3f\n", measure(context, "relu", NULL, inputs, 1, 0));
  printf("relu into a given tensor          %8.3f\n", measure(context, "relu", NULL, inputs, 1, 1));
  printf("leaky_relu with attributes        %8.3f\n", measure(context, "leaky_relu", slope, inputs, 1, 0));
  printf("add                               %8.3f\n", measure(context, "add", NULL, inputs, 2, 0));
  printf("max_pool2d                        %8.3f\n", measure(context, "max_pool2d", pool, &image, 1, 0));
  printf("pl_tensor_touch (a handle alone)  %8.3f\n", measure_describe(inputs[0]));
  check(pl_attributes_release(slope));
  check(pl_attributes_release(pool));
  check(pl_tensor_release(image));
  check(pl_tensor_release(inputs[0]));
  check(pl_tensor_release(inputs[1]));
  check(pl_context_release(context));
  return 0;
}

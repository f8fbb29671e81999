/* Streams and events by the C ABI: on cpu, and beside each other on the first OpenCL device where there is one. */
#include "abi.h"

enum { kCount = 1 << 16 };

static void expect_all(pl_tensor tensor, float value) {
  static float read[kCount];
  int i;
  OK(pl_tensor_read(tensor, read, sizeof read));
  for (i = 0; i < kCount; i++) CHECK_EQUAL(read[i], value);
}

/* Adds a tensor to itself, back and forth between two streams. */
static void alternate(pl_context context, const char* device) {
  static float ones[kCount];
  const int64_t shape[1] = {kCount};
  pl_stream streams[2], own = NULL, current = NULL;
  pl_event first = NULL, last = NULL;
  pl_tensor x = NULL;
  double milliseconds = -1;
  int32_t done = 0;
  float expected = 1;
  int i;
  for (i = 0; i < kCount; i++) ones[i] = 1;
  OK(pl_stream_create(context, device, &streams[0]));
  OK(pl_stream_create(context, device, &streams[1]));
  OK(pl_tensor_create(context, device, PL_F32, 1, shape, NULL, &x));
  OK(pl_stream_make_current(streams[0]));
  OK(pl_tensor_write(x, ones, sizeof ones));
  OK(pl_event_record(streams[0], &first));
  for (i = 0; i < 20; i++) {
    pl_tensor inputs[2], sum = NULL;
    OK(pl_stream_make_current(streams[i % 2]));
    inputs[0] = inputs[1] = x;
    OK(pl_op_run(context, "add", NULL, inputs, 2, &sum, 1, NULL));
    OK(pl_tensor_release(x)); /* its memory may be the next result's, on the other stream */
    x = sum;
    expected *= 2;
  }
  OK(pl_stream_current(context, device, &current));
  OK(pl_event_record(current, &last));
  OK(pl_stream_release(current));
  OK(pl_stream_own(context, device, &own));
  OK(pl_stream_make_current(own));
  expect_all(x, expected);
  OK(pl_stream_wait(own, last));
  OK(pl_event_synchronize(last));
  OK(pl_event_done(last, &done));
  CHECK_EQUAL(done, 1);
  OK(pl_event_elapsed(first, last, &milliseconds));
  CHECK(milliseconds >= 0);
  OK(pl_stream_synchronize(streams[1]));
  done = 0;
  OK(pl_stream_done(streams[1], &done));
  CHECK_EQUAL(done, 1);
  OK(pl_event_release(first));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "pl_event_elapsed: first was released or never was a pl_event",
        pl_event_elapsed(first, last, &milliseconds));
  OK(pl_event_release(last));
  OK(pl_stream_release(streams[0]));
  OK(pl_stream_release(streams[1]));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "pl_stream_make_current: stream was released", pl_stream_make_current(streams[0]));
  OK(pl_stream_release(own));
  OK(pl_tensor_release(x));
}

TEST("on cpu") {
  pl_context context = make_context();
  pl_stream stream = NULL;
  alternate(context, "cpu");
  FAILS(PL_ERROR_DEVICE, "opencl:7", pl_stream_create(context, "opencl:7", &stream));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "device is NULL", pl_stream_create(context, NULL, &stream));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "stream is NULL", pl_stream_synchronize(NULL));
  OK(pl_stream_own(context, "cpu", &stream));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "pl_stream_done: done is NULL", pl_stream_done(stream, NULL));
  OK(pl_stream_release(stream));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "stream is NULL", pl_event_record(NULL, NULL));
  OK(pl_context_release(context));
}

TEST("on an OpenCL device") {
  pl_context context = NULL;
  OK(pl_context_create("threads=2 tune=off cache_dir=\"abi-test-cache\"", &context));
  if (pl_synchronize(context, "opencl:0") == PL_OK) alternate(context, "opencl:0");
  OK(pl_context_release(context));
}

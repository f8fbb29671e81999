/* Pinned memory and queued transfers, peaks of memory, and ops that cpu runs for another device, by the C ABI: on cpu,
 * and on the first OpenCL device where there is one. */
#include "abi.h"

enum { kRows = 300, kColumns = 70, kCount = kRows * kColumns };

/* To the device and back, in an order of its own, twice as much. */
static void test_transfers(pl_context context, const char* device) {
  const int64_t shape[2] = {kRows, kColumns}, turned[2] = {1, kRows};
  pl_tensor there = NULL, view = NULL, from = NULL, to = NULL, inputs[2], sum = NULL;
  pl_tensor_info info;
  pl_stream own = NULL;
  pl_event done = NULL;
  float *given, *back;
  int i;
  OK(pl_tensor_allocate_pinned(context, device, kCount * sizeof(float), &from));
  OK(pl_tensor_allocate_pinned(context, device, kCount * sizeof(float), &to));
  OK(pl_tensor_describe(from, &info));
  CHECK(!strcmp(info.device, "cpu"));
  CHECK_EQUAL(info.storage_bytes, kCount * sizeof(float));
  OK(pl_tensor_data(from, (void**)&given));
  OK(pl_tensor_data(to, (void**)&back));
  for (i = 0; i < kCount; i++) {
    given[i] = (float)i;
    back[i] = -1;
  }
  OK(pl_tensor_allocate(context, device, kCount * sizeof(float), &there));
  OK(pl_tensor_view(there, PL_F32, 2, shape, turned, 0, &view));
  FAILS(PL_ERROR_SHAPE, "pl_tensor_write_later: bytes is 4", pl_tensor_write_later(view, given, 4));
  FAILS(PL_ERROR_SHAPE, "pl_tensor_read_later: bytes is 4", pl_tensor_read_later(view, back, 4));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "data is NULL", pl_tensor_read_later(view, NULL, kCount * sizeof(float)));
  OK(pl_tensor_write_later(view, given, kCount * sizeof(float)));
  inputs[0] = inputs[1] = view;
  OK(pl_op_run(context, "add", NULL, inputs, 2, &sum, 1, NULL));
  OK(pl_tensor_read_later(sum, back, kCount * sizeof(float)));
  OK(pl_tensor_release(sum)); /* its memory may be another's, after that */
  OK(pl_stream_own(context, device, &own));
  OK(pl_event_record(own, &done));
  OK(pl_event_synchronize(done));
  for (i = 0; i < kCount; i++) CHECK_EQUAL(back[i], 2.0f * (float)i);
  OK(pl_event_release(done));
  OK(pl_stream_release(own));
  OK(pl_tensor_release(view));
  OK(pl_tensor_release(there));
  OK(pl_tensor_release(from));
  OK(pl_tensor_release(to));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "device is NULL", pl_tensor_allocate_pinned(context, NULL, 4, &from));
}

static void test_peaks(pl_context context, const char* device) {
  pl_memory_info before, after;
  pl_tensor tensor = NULL;
  OK(pl_tensor_allocate(context, device, 5 << 20, &tensor));
  OK(pl_tensor_release(tensor));
  OK(pl_memory(context, device, &before));
  CHECK(before.peak >= before.in_use + (5 << 20));
  CHECK(before.peak_held >= before.peak);
  OK(pl_memory_reset_peaks(context, device));
  OK(pl_memory(context, device, &after));
  CHECK_EQUAL(after.peak, after.in_use);
  CHECK_EQUAL(after.peak_held, after.in_use + after.cached);
  OK(pl_tensor_allocate(context, device, 1 << 20, &tensor));
  OK(pl_memory(context, device, &after));
  CHECK_EQUAL(after.peak, after.in_use);
  OK(pl_tensor_release(tensor));
  FAILS(PL_ERROR_DEVICE, "no_such_device", pl_memory_reset_peaks(context, "no_such_device"));
}

static int calls, answer;
static char told[3][256];

static int tell(void* user, const char* op, const char* device, const char* reason) {
  CHECK(user == &calls);
  ++calls;
  snprintf(told[0], sizeof told[0], "%s", op);
  snprintf(told[1], sizeof told[1], "%s", device);
  snprintf(told[2], sizeof told[2], "%s", reason);
  return answer;
}

/* dequantize_linear with scales along another axis than 1 has a kernel on cpu alone, relu everywhere. */
static void test_fallbacks(pl_context context, const char* device) {
  const int64_t shape[4] = {1, 2, 3, 3}, rows[1] = {3};
  const int elsewhere = strcmp(device, "cpu") != 0;
  pl_tensor inputs[2], y = NULL, kept = NULL;
  pl_attributes rowwise;
  pl_op_call call;
  float values[18], wanted[18];
  int i;
  OK(pl_tensor_create(context, device, PL_S8, 4, shape, NULL, &inputs[0]));
  OK(pl_tensor_create(context, device, PL_F32, 1, rows, NULL, &inputs[1]));
  OK(pl_tensor_create(context, device, PL_F32, 4, shape, NULL, &kept));
  for (i = 0; i < 18; i++) wanted[i] = (float)i;
  OK(pl_tensor_write(kept, wanted, sizeof wanted));
  OK(pl_attributes_create("axis=2", &rowwise));
  calls = answer = 0;
  OK(pl_context_on_fallback(context, tell, &calls));
  OK(pl_op_run(context, "relu", NULL, &inputs[1], 1, &y, 1, NULL));
  OK(pl_tensor_release(y));
  CHECK_EQUAL(calls, 0);
  for (i = 1; i <= 2; i++) {
    y = NULL;
    OK(pl_op_run(context, "dequantize_linear", rowwise, inputs, 2, &y, 1, NULL));
    OK(pl_tensor_release(y));
    CHECK_EQUAL(calls, elsewhere ? i : 0);
  }
  if (elsewhere) {
    CHECK(!strcmp(told[0], "dequantize_linear"));
    CHECK(!strcmp(told[1], device));
    CHECK(told[2][0] && !strchr(told[2], '\n'));
    answer = 1;
    FAILS(PL_ERROR_UNSUPPORTED, "dequantize_linear: only cpu can run it, not ",
          pl_op_run(context, "dequantize_linear", rowwise, inputs, 2, &kept, 1, NULL));
    call.op = "dequantize_linear";
    call.attributes = rowwise;
    call.inputs = inputs;
    call.input_count = 2;
    call.outputs = &kept;
    call.output_count = 1;
    FAILS(PL_ERROR_UNSUPPORTED, "refused here", pl_op_run_all(context, &call, 1));
    OK(pl_tensor_read(kept, values, sizeof values));
    CHECK(!memcmp(values, wanted, sizeof values)); /* nothing was done */
    CHECK_EQUAL(calls, 4);
  }
  OK(pl_context_on_fallback(context, NULL, NULL));
  OK(pl_op_run(context, "dequantize_linear", rowwise, inputs, 2, &kept, 1, NULL));
  CHECK_EQUAL(calls, elsewhere ? 4 : 0);
  OK(pl_tensor_read(kept, values, sizeof values));
  CHECK_EQUAL(values[17], 0);
  OK(pl_attributes_release(rowwise));
  OK(pl_tensor_release(inputs[0]));
  OK(pl_tensor_release(inputs[1]));
  OK(pl_tensor_release(kept));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "context is NULL", pl_context_on_fallback(NULL, tell, &calls));
}

static void test_device(pl_context context, const char* device) {
  test_transfers(context, device);
  test_peaks(context, device);
  test_fallbacks(context, device);
}

TEST("all") {
  pl_context context = NULL;
  OK(pl_context_create("threads=2 tune=off cache_dir=\"abi-test-cache\"", &context));
  test_device(context, "cpu");
  if (pl_synchronize(context, "opencl:0") == PL_OK) test_device(context, "opencl:0");
  OK(pl_context_release(context));
}

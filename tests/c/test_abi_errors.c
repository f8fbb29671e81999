/* Bad input of every kind to the C ABI: a status and a message that says what was wrong, never a crash. */
#include <math.h>
#include <pthread.h>

#include "abi.h"

static const int64_t kShape[4] = {1, 4, 3, 3};
static pl_context context;
static pl_tensor tensor;

static void test_null(void) {
  pl_tensor_info info;
  pl_memory_info memory;
  pl_tensor out = NULL;
  pl_attributes attributes;
  pl_op_call call = {NULL, NULL, NULL, 0, NULL, 0};
  char *json, name[32];
  float value = 0;
  int32_t settled;
  void* pointer;
  OK(pl_attributes_create(NULL, &attributes));
#define NULL_IS_REFUSED(call) FAILS(PL_ERROR_INVALID_ARGUMENT, "is NULL", call)
  NULL_IS_REFUSED(pl_ops(NULL));
  NULL_IS_REFUSED(pl_layout_parse(NULL, NULL, NULL, NULL));
  NULL_IS_REFUSED(pl_layout_describe("NCHW", PL_F32, 4, kShape, NULL, NULL));
  NULL_IS_REFUSED(pl_layout_describe("NCHW", PL_F32, 4, NULL, &info, NULL));
  NULL_IS_REFUSED(pl_context_create(NULL, NULL));
  NULL_IS_REFUSED(pl_context_set(NULL, "threads=1"));
  NULL_IS_REFUSED(pl_context_settled(NULL, &settled));
  NULL_IS_REFUSED(pl_context_settled(context, NULL));
  NULL_IS_REFUSED(pl_context_release(NULL));
  NULL_IS_REFUSED(pl_devices(NULL, &json));
  NULL_IS_REFUSED(pl_devices(context, NULL));
  NULL_IS_REFUSED(pl_synchronize(NULL, NULL));
  NULL_IS_REFUSED(pl_context_lend_opencl(context, NULL, &value, name));
  NULL_IS_REFUSED(pl_context_lend_opencl(context, &value, NULL, name));
  NULL_IS_REFUSED(pl_context_lend_opencl(context, &value, &value, NULL));
  NULL_IS_REFUSED(pl_memory(context, NULL, &memory));
  NULL_IS_REFUSED(pl_memory(context, "cpu", NULL));
  NULL_IS_REFUSED(pl_memory_limit(context, NULL, 0));
  NULL_IS_REFUSED(pl_memory_release_caches(NULL));
  NULL_IS_REFUSED(pl_tensor_create(NULL, "cpu", PL_F32, 4, kShape, NULL, &out));
  NULL_IS_REFUSED(pl_tensor_create(context, "cpu", PL_F32, 4, NULL, NULL, &out));
  NULL_IS_REFUSED(pl_tensor_create(context, "cpu", PL_F32, 4, kShape, NULL, NULL));
  NULL_IS_REFUSED(pl_tensor_borrow(context, PL_F32, 4, kShape, NULL, NULL, NULL, NULL, NULL, &out));
  NULL_IS_REFUSED(pl_tensor_borrow(context, PL_F32, 0, NULL, NULL, NULL, &value, NULL, NULL, NULL));
  NULL_IS_REFUSED(pl_tensor_borrow_cl(context, "cpu", PL_F32, 4, kShape, NULL, NULL, 0, &out));
  NULL_IS_REFUSED(pl_tensor_borrow_cl(context, NULL, PL_F32, 4, kShape, NULL, &value, 0, &out));
  NULL_IS_REFUSED(pl_tensor_allocate(NULL, "cpu", 4, &out));
  NULL_IS_REFUSED(pl_tensor_allocate(context, "cpu", 4, NULL));
  NULL_IS_REFUSED(pl_tensor_view(NULL, PL_F32, 4, kShape, kShape, 0, &out));
  NULL_IS_REFUSED(pl_tensor_view(tensor, PL_F32, 4, kShape, kShape, 0, NULL));
  NULL_IS_REFUSED(pl_tensor_view(tensor, PL_F32, 4, NULL, kShape, 0, &out));
  NULL_IS_REFUSED(pl_tensor_view(tensor, PL_F32, 4, kShape, NULL, 0, &out));
  NULL_IS_REFUSED(pl_tensor_release(NULL));
  NULL_IS_REFUSED(pl_tensor_retain(tensor, NULL));
  NULL_IS_REFUSED(pl_tensor_retain(NULL, &out));
  NULL_IS_REFUSED(pl_tensor_describe(tensor, NULL));
  NULL_IS_REFUSED(pl_tensor_describe(NULL, &info));
  NULL_IS_REFUSED(pl_tensor_read(tensor, NULL, 36 * sizeof(float)));
  NULL_IS_REFUSED(pl_tensor_write(tensor, NULL, 36 * sizeof(float)));
  NULL_IS_REFUSED(pl_tensor_copy(tensor, NULL));
  NULL_IS_REFUSED(pl_tensor_copy(NULL, tensor));
  NULL_IS_REFUSED(pl_tensor_data(tensor, NULL));
  NULL_IS_REFUSED(pl_tensor_cl_mem(tensor, NULL));
  NULL_IS_REFUSED(pl_tensor_touch(NULL));
  NULL_IS_REFUSED(pl_tensor_convert(tensor, NULL, NULL, NULL, NULL));
  NULL_IS_REFUSED(pl_tensor_convert(NULL, NULL, NULL, NULL, &out));
  NULL_IS_REFUSED(pl_tensor_to_dlpack(tensor, NULL));
  NULL_IS_REFUSED(pl_tensor_from_dlpack(context, NULL, &out));
  NULL_IS_REFUSED(pl_tensor_from_dlpack(NULL, &value, &out));
  NULL_IS_REFUSED(pl_attributes_create("a=1", NULL));
  NULL_IS_REFUSED(pl_attributes_set_ints(attributes, "a", NULL, 2));
  NULL_IS_REFUSED(pl_attributes_set_ints(attributes, NULL, kShape, 2));
  NULL_IS_REFUSED(pl_attributes_set_float(NULL, "a", 1.0));
  NULL_IS_REFUSED(pl_attributes_set_text(attributes, "a", NULL));
  NULL_IS_REFUSED(pl_attributes_release(NULL));
  NULL_IS_REFUSED(pl_op_run(NULL, "relu", NULL, &tensor, 1, &out, 1, NULL));
  NULL_IS_REFUSED(pl_op_run(context, NULL, NULL, &tensor, 1, &out, 1, NULL));
  NULL_IS_REFUSED(pl_op_run(context, "relu", NULL, NULL, 1, &out, 1, NULL));
  NULL_IS_REFUSED(pl_op_run(context, "relu", NULL, &tensor, 1, NULL, 1, NULL));
  call.op = "relu", call.inputs = &tensor, call.outputs = &out, call.input_count = call.output_count = 1;
  NULL_IS_REFUSED(pl_op_run_all(context, NULL, 1));
  NULL_IS_REFUSED(pl_op_run_all(NULL, &call, 1));
  NULL_IS_REFUSED(pl_op_run_all(context, &call, 1)); /* an output that does not exist */
  NULL_IS_REFUSED(pl_op_query(context, "relu", NULL, &tensor, 1, NULL));
  NULL_IS_REFUSED(pl_op_tune(context, "relu", NULL, &tensor, 1, 1.0, NULL));
  NULL_IS_REFUSED(pl_profile_start(NULL));
  NULL_IS_REFUSED(pl_profile_stop(context, NULL));
  NULL_IS_REFUSED(pl_costs_describe(context, NULL));
  NULL_IS_REFUSED(pl_costs_clear(NULL));
  NULL_IS_REFUSED(pl_calibrate(context, NULL, &json));
  CHECK(out == NULL);
  (void)pointer;
  OK(pl_attributes_release(attributes));
}

static void test_handles(void) {
  pl_tensor gone = make_tensor(context, 4, kShape, NULL, NULL, 0), out = NULL, again;
  pl_attributes attributes;
  pl_tensor_info info;
  pl_context other;
  float values[36];
  OK(pl_tensor_release(gone));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "released", pl_tensor_release(gone));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "released", pl_tensor_describe(gone, &info));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "released", pl_tensor_read(gone, values, sizeof values));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "released", pl_op_run(context, "relu", NULL, &gone, 1, &out, 1, NULL));
  out = gone;
  FAILS(PL_ERROR_INVALID_ARGUMENT, "released", pl_op_run(context, "relu", NULL, &tensor, 1, &out, 1, NULL));
  /* The slot is used again, the old handle is not valid again. */
  again = make_tensor(context, 4, kShape, NULL, NULL, 0);
  CHECK(again != gone);
  FAILS(PL_ERROR_INVALID_ARGUMENT, "released", pl_tensor_touch(gone));
  OK(pl_tensor_release(again));
  /* Forged ones, and handles of another type. */
  {
    const uintptr_t forged[] = {1,
                                42,
                                UINTPTR_MAX,
                                (uintptr_t)&info,
                                (uintptr_t)2 << 60 | 0xfffffff,
                                (uintptr_t)tensor ^ (uintptr_t)1 << 40,
                                (uintptr_t)context};
    size_t i;
    for (i = 0; i < sizeof forged / sizeof forged[0]; i++)
      FAILS(PL_ERROR_INVALID_ARGUMENT, "never was", pl_tensor_describe((pl_tensor)forged[i], &info));
  }
  FAILS(PL_ERROR_INVALID_ARGUMENT, "never was", pl_context_release((pl_context)tensor));
  OK(pl_attributes_create("a=1", &attributes));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "never was", pl_tensor_touch((pl_tensor)attributes));
  OK(pl_attributes_release(attributes));
  out = NULL;
  FAILS(PL_ERROR_INVALID_ARGUMENT, "released", pl_op_run(context, "relu", attributes, &tensor, 1, &out, 1, NULL));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "released", pl_attributes_set_float(attributes, "a", 1.0));
  /* Tensors of another context. */
  other = make_context();
  FAILS(PL_ERROR_INVALID_ARGUMENT, "another context", pl_op_run(other, "relu", NULL, &tensor, 1, &out, 1, NULL));
  OK(pl_context_release(other));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "released", pl_op_run(other, "relu", NULL, &tensor, 1, &out, 1, NULL));
  CHECK(out == NULL);
}

static void run_fails(pl_status status, const char* text, const char* op, const char* attribute_text,
                      const pl_tensor* inputs, size_t count) {
  pl_attributes attributes;
  pl_tensor out = NULL;
  OK(pl_attributes_create(attribute_text, &attributes));
  FAILS(status, text, pl_op_run(context, op, attributes, inputs, count, &out, 1, NULL));
  CHECK(out == NULL);
  OK(pl_attributes_release(attributes));
}

static void test_values(void) {
  const int64_t negative[2] = {-1, 2}, huge[3] = {(int64_t)1 << 40, (int64_t)1 << 40, 2}, wide[1] = {(int64_t)1 << 46};
  const int64_t narrow[4] = {8, 3, 3, 3}, weights[4] = {8, 4, 3, 3}, backwards[4] = {36, -9, 3, 1};
  const int64_t unfit[4] = {1, 4, 3, 4}, many = 1000, one = 1, minus = -1;
  float values[36];
  pl_tensor out = NULL, inputs[2], destination;
  pl_attributes attributes;
  pl_context made;
  char text[5000], *json;
  void* pointer;
  FAILS(PL_ERROR_SHAPE, "negative", pl_tensor_create(context, "cpu", PL_F32, 2, negative, NULL, &out));
  FAILS(PL_ERROR_SHAPE, "too large", pl_tensor_create(context, "cpu", PL_F32, 3, huge, NULL, &out));
  FAILS(PL_ERROR_SHAPE, "rank", pl_tensor_create(context, "cpu", PL_F32, 9, kShape, NULL, &out));
  FAILS(PL_ERROR_SHAPE, "rank", pl_tensor_create(context, "cpu", PL_F32, -1, kShape, NULL, &out));
  FAILS(PL_ERROR_OUT_OF_MEMORY, "bytes", pl_tensor_create(context, "cpu", PL_F32, 1, wide, NULL, &out));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "dtype", pl_tensor_create(context, "cpu", (pl_dtype)77, 4, kShape, NULL, &out));
  FAILS(PL_ERROR_LAYOUT, "NCX", pl_tensor_create(context, "cpu", PL_F32, 4, kShape, "NCX", &out));
  FAILS(PL_ERROR_LAYOUT, "rank", pl_tensor_create(context, "cpu", PL_F32, 4, kShape, "NCW", &out));
  FAILS(PL_ERROR_DEVICE, "cpu", pl_tensor_create(context, "tpu:3", PL_F32, 4, kShape, NULL, &out));
  FAILS(PL_ERROR_SHAPE, "negative",
        pl_tensor_borrow(context, PL_F32, 4, kShape, NULL, backwards, values, NULL, NULL, &out));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "aligned",
        pl_tensor_borrow(context, PL_F32, 4, kShape, NULL, NULL, (char*)values + 1, NULL, NULL, &out));
  FAILS(PL_ERROR_SHAPE, "expected 144", pl_tensor_read(tensor, values, sizeof values - 1));
  FAILS(PL_ERROR_SHAPE, "expected 144", pl_tensor_write(tensor, values, sizeof values * 2));
  FAILS(PL_ERROR_DEVICE, "cl_mem", pl_tensor_cl_mem(tensor, &pointer));
  FAILS(PL_ERROR_DEVICE, "tpu", pl_tensor_convert(tensor, "tpu", NULL, NULL, &out));
  FAILS(PL_ERROR_LAYOUT, "rank", pl_tensor_convert(tensor, NULL, "NC", NULL, &out));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "f64", pl_tensor_convert(tensor, NULL, NULL, "f64", &out));
  FAILS(PL_ERROR_DEVICE, "opencl", pl_context_lend_opencl(context, values, values, text));
  FAILS(PL_ERROR_DEVICE, "", pl_tensor_borrow_cl(context, "cpu", PL_F32, 4, kShape, NULL, values, 0, &out));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "multiple of 4",
        pl_tensor_borrow_cl(context, "cpu", PL_F32, 4, kShape, NULL, values, 2, &out));
  FAILS(PL_ERROR_DEVICE, "tpu", pl_tensor_allocate(context, "tpu", 4, &out));
  FAILS(PL_ERROR_SHAPE, "too many", pl_tensor_allocate(context, "cpu", SIZE_MAX, &out));
  FAILS(PL_ERROR_SHAPE, "needs", pl_tensor_view(tensor, PL_F32, 1, &many, &one, 1, &out));
  FAILS(PL_ERROR_SHAPE, "needs", pl_tensor_view(tensor, PL_S64, 1, &many, &one, 0, &out));
  FAILS(PL_ERROR_SHAPE, "negative", pl_tensor_view(tensor, PL_F32, 1, &many, &minus, 0, &out));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "offset is -1", pl_tensor_view(tensor, PL_F32, 1, &many, &one, -1, &out));
  FAILS(PL_ERROR_DEVICE, "tpu", pl_synchronize(context, "tpu"));
  FAILS(PL_ERROR_DEVICE, "tpu", pl_memory_limit(context, "tpu", 1));
  FAILS(PL_ERROR_DEVICE, "tpu", pl_calibrate(context, "tpu", &json));
  CHECK(out == NULL);

  FAILS(PL_ERROR_INVALID_ARGUMENT, "fast", pl_context_create("fast=true", &made));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "threads", pl_context_create("threads=0", &made));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "tune", pl_context_create("tune=maybe", &made));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "opencl", pl_context_create("opencl=3", &made));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "can be changed", pl_context_set(context, "opencl=true"));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "threads", pl_context_set(context, "threads=-2"));

  FAILS(PL_ERROR_INVALID_ARGUMENT, "expected", pl_attributes_create("stride=[1,", &attributes));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "twice", pl_attributes_create("a=1 a=2", &attributes));
  FAILS(PL_ERROR_LAYOUT, "XYZ", pl_attributes_create("layout=XYZ", &attributes));
  OK(pl_attributes_create("", &attributes));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "letters", pl_attributes_set_float(attributes, "a b", 1.0));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "letters", pl_attributes_set_float(attributes, "", 1.0));
  OK(pl_attributes_release(attributes));

  run_fails(PL_ERROR_INVALID_ARGUMENT, "there is no op", "convolve", "", &tensor, 1);
  run_fails(PL_ERROR_INVALID_ARGUMENT, "slope", "relu", "slope=1", &tensor, 1);
  run_fails(PL_ERROR_INVALID_ARGUMENT, "missing", "relu", "", &tensor, 0);
  run_fails(PL_ERROR_INVALID_ARGUMENT, "expected at most 1", "relu", "", (const pl_tensor[]){tensor, tensor}, 2);
  run_fails(PL_ERROR_INVALID_ARGUMENT, "dim", "softmax", "dim=7", &tensor, 1);
  run_fails(PL_ERROR_INVALID_ARGUMENT, "dim", "softmax", "dim=a", &tensor, 1);
  run_fails(PL_ERROR_DEVICE, "tpu", "relu", "device=tpu", &tensor, 1);
  inputs[0] = tensor;
  inputs[1] = make_tensor(context, 4, narrow, NULL, NULL, 0);
  run_fails(PL_ERROR_SHAPE, "weight", "conv2d", "", inputs, 2);
  OK(pl_tensor_release(inputs[1]));
  inputs[1] = make_tensor(context, 4, weights, NULL, NULL, 0);
  run_fails(PL_ERROR_INVALID_ARGUMENT, "stride", "conv2d", "stride=0", inputs, 2);
  run_fails(PL_ERROR_INVALID_ARGUMENT, "padding", "conv2d", "padding=[1,2,3]", inputs, 2);
  OK(pl_tensor_release(inputs[1]));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "seconds", pl_op_tune(context, "relu", NULL, &tensor, 1, 0.0, &json));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "seconds", pl_op_tune(context, "relu", NULL, &tensor, 1, NAN, &json));

  /* A dtype that the op does not take: valid, but nothing can do it. */
  OK(pl_tensor_create(context, "cpu", PL_S64, 4, kShape, NULL, &inputs[0]));
  run_fails(PL_ERROR_UNSUPPORTED, "dtype", "softmax", "dim=1", inputs, 1);
  OK(pl_tensor_release(inputs[0]));

  /* A destination that does not fit. */
  destination = make_tensor(context, 4, unfit, NULL, NULL, 0);
  FAILS(PL_ERROR_SHAPE, "", pl_op_run(context, "relu", NULL, &tensor, 1, &destination, 1, NULL));
  OK(pl_tensor_release(destination));

  FAILS(PL_ERROR_INVALID_ARGUMENT, "", pl_profile_stop(context, &json));
  OK(pl_profile_start(context));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "", pl_profile_start(context));
  OK(pl_profile_stop(context, &json));
  pl_string_free(json);

  /* A message longer than what is kept is cut, not between the bytes of a character. */
  memset(text, 'N', sizeof text);
  memcpy(text + 20, "\xc3\xa9", 2);
  text[sizeof text - 1] = '\0';
  FAILS(PL_ERROR_LAYOUT, "layout", pl_layout_parse(text, NULL, NULL, NULL));
  CHECK(strlen(pl_last_error()) < 4096);

  /* The memory limit is an error and is lifted again. */
  OK(pl_memory_limit(context, "cpu", 1 << 16));
  {
    const int64_t big[1] = {1 << 20};
    FAILS(PL_ERROR_OUT_OF_MEMORY, "limit", pl_tensor_create(context, "cpu", PL_F32, 1, big, NULL, &out));
    OK(pl_memory_limit(context, "cpu", 0));
    OK(pl_tensor_create(context, "cpu", PL_F32, 1, big, NULL, &out));
    OK(pl_tensor_release(out));
  }
}

/* Of a thread without a call that failed, whatever failed on others. */
static void* no_message(void* none) {
  CHECK(!strcmp(pl_last_error(), ""));
  return none;
}

TEST("all") {
  pthread_t thread;
  FAILS(PL_ERROR_LAYOUT, "layout", pl_layout_parse("N?", NULL, NULL, NULL));
  REQUIRE(pthread_create(&thread, NULL, no_message, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  context = make_context();
  tensor = make_tensor(context, 4, kShape, NULL, NULL, 0);
  test_null();
  test_handles();
  test_values();
  OK(pl_tensor_release(tensor));
  OK(pl_context_release(context));
}

/* The C ABI as an embedder uses it: contexts, tensors, borrowed memory, conversions, op calls, queries, profile. */
#include <math.h>

#include "abi.h"

#define COUNT (2 * 3 * 4 * 5)

static const int64_t kShape[4] = {2, 3, 4, 5};

static void count_release(void* user) { ++*(int*)user; }

/* Tensors that the caller places in memory: another order, an offset, another dtype, and a life of their own. */
static void test_views(pl_context context) {
  const int64_t shape[2] = {3, 2}, strides[2] = {1, 3}, four = 4, one = 1;
  const float values[6] = {1, 2, 3, 4, 5, 6};
  float back[6];
  int32_t words[4];
  pl_tensor bytes, turned, part, as_words, result = NULL;
  pl_tensor_info info;
  OK(pl_tensor_allocate(context, "cpu", 10 * sizeof(float), &bytes));
  OK(pl_tensor_describe(bytes, &info));
  CHECK_EQUAL(info.dtype, PL_U8);
  CHECK_EQUAL(info.shape[0], 40);
  OK(pl_tensor_view(bytes, PL_F32, 2, shape, strides, 4, &turned));
  OK(pl_tensor_release(bytes)); /* views keep the storage */
  OK(pl_tensor_write(turned, values, sizeof values));
  OK(pl_tensor_view(turned, PL_F32, 1, &four, &one, 5, &part));
  OK(pl_tensor_read(part, back, 4 * sizeof(float)));
  CHECK_EQUAL(back[0], 3); /* column by column: 1 3 5 2 4 6 */
  CHECK_EQUAL(back[1], 5);
  CHECK_EQUAL(back[2], 2);
  OK(pl_op_run(context, "relu", NULL, &turned, 1, &result, 1, NULL));
  OK(pl_tensor_read(result, back, sizeof back));
  CHECK(!memcmp(values, back, sizeof back));
  OK(pl_tensor_view(turned, PL_S32, 1, &four, &one, 4, &as_words));
  OK(pl_tensor_read(as_words, words, sizeof words));
  CHECK_EQUAL(words[0], 0x3f800000);
  OK(pl_tensor_release(as_words));
  OK(pl_tensor_release(result));
  OK(pl_tensor_release(part));
  OK(pl_tensor_release(turned));
}

static void test_tensor(pl_context context) {
  float values[COUNT], back[COUNT];
  pl_tensor_info info;
  pl_tensor plain, blocked, same;
  int i;
  for (i = 0; i < COUNT; i++) values[i] = (float)(i + 1);
  plain = make_tensor(context, 4, kShape, NULL, values, COUNT);
  OK(pl_tensor_describe(plain, &info));
  CHECK_EQUAL(info.dtype, PL_F32);
  CHECK_EQUAL(info.rank, 4);
  CHECK(info.is_dense);
  CHECK(!info.is_borrowed);
  CHECK_EQUAL(info.offset, 0);
  CHECK_EQUAL(info.shape[1], 3);
  CHECK_EQUAL(info.strides[1], 20);
  CHECK_EQUAL(info.storage_bytes, sizeof values);
  CHECK(!strcmp(info.layout, "NCHW"));
  CHECK(!strcmp(info.device, "cpu"));

  OK(pl_tensor_convert(plain, NULL, "nChw16c", NULL, &blocked));
  OK(pl_tensor_describe(blocked, &info));
  CHECK(!strcmp(info.layout, "nChw16c"));
  CHECK_EQUAL(info.storage_bytes, 2 * 16 * 20 * sizeof(float));
  OK(pl_tensor_read(blocked, back, sizeof back));
  CHECK(!memcmp(values, back, sizeof back));
  {
    float *data, sum = 0, expected = 0;
    OK(pl_tensor_data(blocked, (void**)&data));
    for (i = 0; i < 2 * 16 * 20; i++) sum += data[i];
    for (i = 0; i < COUNT; i++) expected += values[i];
    CHECK_EQUAL(sum, expected); /* padding is zero */
    CHECK_EQUAL(data[1], values[20]);
  }

  /* A reference of its own: the tensor lives until the last one is released. */
  OK(pl_tensor_retain(plain, &same));
  OK(pl_tensor_release(plain));
  OK(pl_tensor_read(same, back, sizeof back));
  CHECK(!memcmp(values, back, sizeof back));
  OK(pl_tensor_release(same));
  OK(pl_tensor_release(blocked));

  /* A new tensor is zero, padding included. */
  OK(pl_tensor_create(context, "cpu", PL_F32, 4, kShape, "nChw8c", &plain));
  OK(pl_tensor_read(plain, back, sizeof back));
  for (i = 0; i < COUNT; i++) CHECK_EQUAL(back[i], 0.0f);
  OK(pl_tensor_release(plain));
}

static void test_borrowed(pl_context context) {
  float memory[COUNT], back[COUNT];
  const int64_t transposed[2] = {1, 3}, rows[2] = {3, 2};
  int released = 0, i;
  pl_tensor tensor, view, converted;
  pl_tensor_info info;
  pl_attributes attributes;
  for (i = 0; i < COUNT; i++) memory[i] = (float)i;
  OK(pl_tensor_borrow(context, PL_F32, 4, kShape, "NHWC", NULL, memory, count_release, &released, &tensor));
  OK(pl_tensor_describe(tensor, &info));
  CHECK(info.is_borrowed);
  CHECK(!strcmp(info.layout, "NHWC"));
  OK(pl_tensor_read(tensor, back, sizeof back));
  CHECK_EQUAL(back[20], memory[1]); /* channel 1 of the first pixel */
  OK(pl_tensor_convert(tensor, NULL, "NCHW", NULL, &converted));
  OK(pl_tensor_read(converted, back, sizeof back));
  CHECK_EQUAL(back[0], 0.0f);
  OK(pl_tensor_release(converted));
  memory[0] = 100.0f;
  OK(pl_tensor_touch(tensor)); /* the kept copy is made anew */
  OK(pl_tensor_convert(tensor, NULL, "NCHW", NULL, &converted));
  OK(pl_tensor_read(converted, back, sizeof back));
  CHECK_EQUAL(back[0], 100.0f);
  OK(pl_tensor_release(converted));

  /* A view shares the storage, so the memory is in use until the view goes as well. */
  OK(pl_attributes_create("dims=[0,2,3,1]", &attributes));
  view = NULL;
  OK(pl_op_run(context, "permute", attributes, &tensor, 1, &view, 1, NULL));
  OK(pl_attributes_release(attributes));
  OK(pl_tensor_release(tensor));
  CHECK_EQUAL(released, 0);
  OK(pl_tensor_read(view, back, sizeof back));
  CHECK(!memcmp(memory, back, sizeof back));
  OK(pl_tensor_release(view));
  CHECK_EQUAL(released, 1);

  /* Strides: a column-major 3 x 2 matrix. */
  OK(pl_tensor_borrow(context, PL_F32, 2, rows, NULL, transposed, memory, NULL, NULL, &tensor));
  OK(pl_tensor_read(tensor, back, 6 * sizeof(float)));
  CHECK_EQUAL(back[0], 100.0f);
  CHECK_EQUAL(back[1], 3.0f);
  CHECK_EQUAL(back[2], 1.0f);
  CHECK_EQUAL(back[5], 5.0f);
  OK(pl_tensor_release(tensor));

  /* A failed call leaves the memory with the caller. */
  FAILS(PL_ERROR_LAYOUT, "rank",
        pl_tensor_borrow(context, PL_F32, 4, kShape, "NCW", NULL, memory, count_release, &released, &tensor));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "at most one",
        pl_tensor_borrow(context, PL_F32, 2, rows, "ab", transposed, memory, count_release, &released, &tensor));
  CHECK_EQUAL(released, 1);
}

static void test_op(pl_context context) {
  const int64_t x_shape[4] = {1, 2, 3, 3}, w_shape[4] = {1, 2, 3, 3}, stride[2] = {1, 1};
  float x_values[18], w_values[18], y_values[9];
  pl_tensor inputs[3] = {NULL, NULL, NULL}, output = NULL, destination, outputs[3] = {NULL, NULL, NULL};
  pl_attributes attributes;
  pl_tensor_info info;
  size_t count = 0;
  int i;
  for (i = 0; i < 18; i++) x_values[i] = (float)i, w_values[i] = 1.0f;
  inputs[0] = make_tensor(context, 4, x_shape, "NHWC", x_values, 18);
  inputs[1] = make_tensor(context, 4, w_shape, NULL, w_values, 18);
  OK(pl_attributes_create("padding=1", &attributes));
  OK(pl_attributes_set_ints(attributes, "stride", stride, 2));
  OK(pl_attributes_set_text(attributes, "layout", "NHWC"));
  OK(pl_op_run(context, "conv2d", attributes, inputs, 3, &output, 1, &count)); /* no bias: NULL */
  CHECK_EQUAL(count, 1);
  OK(pl_tensor_describe(output, &info));
  CHECK_EQUAL(info.rank, 4);
  CHECK_EQUAL(info.shape[1], 1);
  CHECK_EQUAL(info.shape[2], 3);
  OK(pl_tensor_read(output, y_values, sizeof y_values));
  CHECK(fabsf(y_values[4] - 153.0f) < 1e-4f); /* the sum of all inputs */
  CHECK(fabsf(y_values[0] - (0 + 1 + 3 + 4 + 9 + 10 + 12 + 13)) < 1e-4f);

  /* Into a tensor of the caller's, in a layout of the caller's. */
  destination = make_tensor(context, 4, info.shape, "nChw8c", NULL, 0);
  OK(pl_attributes_set_text(attributes, "activation", "clip"));
  OK(pl_attributes_set_float(attributes, "activation_alpha", 0.0));
  OK(pl_attributes_set_float(attributes, "activation_beta", 100.0));
  OK(pl_tensor_release(output));
  output = destination;
  OK(pl_op_run(context, "conv2d", attributes, inputs, 2, &output, 1, NULL));
  CHECK(output == destination);
  OK(pl_tensor_read(destination, y_values, sizeof y_values));
  CHECK(fabsf(y_values[4] - 100.0f) < 1e-4f);
  OK(pl_attributes_release(attributes));

  /* Several outputs; too little room says how much is needed. */
  OK(pl_attributes_create("split_size_or_sections=1 dim=2", &attributes));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "expected 3",
        pl_op_run(context, "split", attributes, inputs, 1, outputs, 2, &count));
  CHECK_EQUAL(count, 3);
  CHECK(!outputs[0]);
  CHECK(!outputs[1]);
  OK(pl_op_run(context, "split", attributes, inputs, 1, outputs, 3, &count));
  OK(pl_tensor_read(outputs[2], y_values, 6 * sizeof(float)));
  CHECK_EQUAL(y_values[0], x_values[6]);
  CHECK_EQUAL(y_values[3], x_values[15]);
  for (i = 0; i < 3; i++) OK(pl_tensor_release(outputs[i]));
  OK(pl_attributes_release(attributes));
  OK(pl_tensor_release(destination));
  OK(pl_tensor_release(inputs[0]));
  OK(pl_tensor_release(inputs[1]));
}

/* Four calls: two that may start as one, one that reads what the first wrote, one that writes into what it reads. */
static void test_calls(pl_context context) {
  const int64_t shape[1] = {5};
  const float values[5] = {-2, -1, 0, 1, 2}, half[5] = {0.5f, 0.5f, 0.5f, 0.5f, 0.5f};
  const float wanted[4][5] = {{0, 0, 0, 1, 2}, {-1.5f, -0.5f, 0.5f, 1.5f, 2.5f}, {0, 0, 0, 1, 2}, {1, 1, 1, 1, 1}};
  float found[5];
  pl_tensor x = make_tensor(context, 1, shape, NULL, values, 5), y = make_tensor(context, 1, shape, NULL, half, 5);
  pl_tensor sum_inputs[2], own[2], out[4] = {NULL, NULL, NULL, NULL};
  pl_op_call calls[4];
  int i, k;
  memset(calls, 0, sizeof calls);
  for (i = 0; i < 3; i++) out[i] = make_tensor(context, 1, shape, NULL, NULL, 0);
  out[3] = y;
  sum_inputs[0] = x, sum_inputs[1] = y, own[0] = own[1] = y;
  calls[0].op = "relu", calls[0].inputs = &x, calls[0].input_count = 1;
  calls[1].op = "add", calls[1].inputs = sum_inputs, calls[1].input_count = 2;
  calls[2].op = "relu", calls[2].inputs = &out[0], calls[2].input_count = 1;
  calls[3].op = "add", calls[3].inputs = own, calls[3].input_count = 2;
  for (i = 0; i < 4; i++) calls[i].outputs = &out[i], calls[i].output_count = 1;
  OK(pl_op_run_all(context, calls, 4));
  for (i = 0; i < 4; i++) {
    OK(pl_tensor_read(out[i], found, sizeof found));
    for (k = 0; k < 5; k++) CHECK_EQUAL(found[k], wanted[i][k]);
  }
  OK(pl_op_run_all(context, NULL, 0));
  calls[1].op = "no_such_op";
  FAILS(PL_ERROR_INVALID_ARGUMENT, "no_such_op", pl_op_run_all(context, calls, 2));
  OK(pl_tensor_release(x));
  for (i = 0; i < 4; i++) OK(pl_tensor_release(out[i]));
}

static void test_texts(pl_context context) {
  char *json, name[64], generic[64];
  int32_t rank, settled;
  int64_t padded[PL_MAX_RANK];
  pl_tensor tensor = make_tensor(context, 4, kShape, NULL, NULL, 0), output = NULL;
  pl_tensor_info info;
  pl_memory_info memory;
  OK(pl_ops(&json));
  CHECK(strstr(json, "\"name\": \"conv2d\""));
  CHECK_EQUAL(json[0], '[');
  pl_string_free(json);
  OK(pl_devices(context, &json));
  CHECK(strstr(json, "\"name\": \"cpu\""));
  pl_string_free(json);
  OK(pl_op_query(context, "relu", NULL, &tensor, 1, &json));
  CHECK(strstr(json, "\"candidates\": [{"));
  CHECK(strstr(json, "\"refusals\""));
  pl_string_free(json);
  OK(pl_op_tune(context, "relu", NULL, &tensor, 1, 0.2, &json));
  CHECK(strstr(json, "\"measured\": true"));
  pl_string_free(json);
  OK(pl_profile_start(context));
  OK(pl_op_run(context, "relu", NULL, &tensor, 1, &output, 1, NULL));
  OK(pl_profile_stop(context, &json));
  CHECK(strstr(json, "\"op\": \"relu\""));
  pl_string_free(json);
  OK(pl_costs_describe(context, &json));
  CHECK(strstr(json, "\"records\""));
  pl_string_free(json);
  pl_string_free(NULL);
  OK(pl_layout_parse("OIhw16i16o", &rank, name, generic));
  CHECK_EQUAL(rank, 4);
  CHECK(!strcmp(generic, "ABcd16b16a"));
  CHECK(name[0]);
  OK(pl_layout_parse("NHWC", NULL, NULL, NULL));
  OK(pl_layout_describe("nChw16c", PL_BF16, 4, kShape, &info, padded));
  CHECK_EQUAL(padded[1], 16);
  CHECK_EQUAL(info.storage_bytes, 2 * 2 * 16 * 20);
  CHECK_EQUAL(info.strides[1], 320);
  CHECK(info.is_dense);
  OK(pl_memory(context, "cpu", &memory));
  CHECK(memory.in_use >= 2 * COUNT * sizeof(float));
  CHECK(memory.peak >= memory.in_use);
  OK(pl_memory_release_caches(context));
  OK(pl_memory(context, "cpu", &memory));
  CHECK_EQUAL(memory.cached, 0);
  OK(pl_synchronize(context, NULL));
  OK(pl_synchronize(context, "cpu"));
  OK(pl_context_set(context, "threads=1 tune=auto"));
  settled = 0;
  OK(pl_context_settled(context, &settled));
  CHECK_EQUAL(settled, 1); /* single ops have no contests */
  OK(pl_costs_clear(context));
  OK(pl_tensor_release(output));
  OK(pl_tensor_release(tensor));
}

/* Of blocks of one size, the pool hands out the one that came back last: its bytes are still in the caches. */
static void test_pool_order(pl_context context) {
  pl_tensor tensors[3], again;
  void *data[3], *found;
  int i;
  for (i = 0; i < 3; ++i) {
    OK(pl_tensor_create(context, NULL, PL_F32, 4, kShape, "NCHW", &tensors[i]));
    OK(pl_tensor_data(tensors[i], &data[i]));
  }
  for (i = 0; i < 3; ++i) OK(pl_tensor_release(tensors[i]));
  OK(pl_tensor_create(context, NULL, PL_F32, 4, kShape, "NCHW", &again));
  OK(pl_tensor_data(again, &found));
  CHECK(found == data[2]);
  OK(pl_tensor_release(again));
}

/* A result that is given, wherever it is among those that there is room for; others are made. */
static void test_given_results(pl_context context) {
  enum { PARTS = 40, ROOM = 100 };
  const int64_t shape[1] = {PARTS}, one[1] = {1};
  static const int places[] = {0, 1, 15, 16, 17, 31, 35, 36, 39};
  float values[PARTS], read;
  pl_tensor x, outputs[ROOM];
  pl_attributes attributes;
  size_t count, i, k;
  for (i = 0; i < PARTS; ++i) values[i] = (float)i;
  x = make_tensor(context, 1, shape, NULL, values, PARTS);
  OK(pl_attributes_create("split_size_or_sections=1", &attributes));
  for (k = 0; k < sizeof places / sizeof *places; ++k) {
    const pl_tensor given = make_tensor(context, 1, one, NULL, NULL, 0);
    memset(outputs, 0, sizeof outputs);
    outputs[places[k]] = given;
    OK(pl_op_run(context, "split", attributes, &x, 1, outputs, ROOM, &count));
    CHECK_EQUAL(count, PARTS);
    CHECK(outputs[places[k]] == given);
    for (i = 0; i < PARTS; ++i) {
      OK(pl_tensor_read(outputs[i], &read, sizeof read));
      CHECK_EQUAL(read, i);
      OK(pl_tensor_release(outputs[i]));
    }
    CHECK(!outputs[PARTS]);
  }
  { /* what is given stays as it was where there is not room for all */
    const float before = -7.0f;
    pl_tensor given = make_tensor(context, 1, one, NULL, &before, 1);
    FAILS(PL_ERROR_INVALID_ARGUMENT, "room for 1, expected 40",
          pl_op_run(context, "split", attributes, &x, 1, &given, 1, &count));
    CHECK_EQUAL(count, PARTS);
    OK(pl_tensor_read(given, &read, sizeof read));
    CHECK(read == before);
    OK(pl_tensor_release(given));
  }
  OK(pl_attributes_release(attributes));
  OK(pl_tensor_release(x));
}

TEST("all") {
  pl_context context = make_context();
  pl_tensor survivor;
  float values[COUNT] = {1.0f}, back[COUNT];
  pl_memory_info memory;
  test_tensor(context);
  test_views(context);
  test_borrowed(context);
  test_op(context);
  test_given_results(context);
  test_calls(context);
  test_texts(context);
  test_pool_order(context);
  OK(pl_memory_release_caches(context));
  OK(pl_memory(context, "cpu", &memory));
  CHECK_EQUAL(memory.in_use, 0);

  /* A tensor keeps what it needs of its context. */
  survivor = make_tensor(context, 4, kShape, "NHWC", values, COUNT);
  OK(pl_context_release(context));
  OK(pl_tensor_read(survivor, back, sizeof back));
  CHECK(!memcmp(values, back, sizeof back));
  OK(pl_tensor_release(survivor));
}

/* Graphs and plans through the C ABI: results, texts, errors, released handles, threads that share a plan. */
#include <pthread.h>

#include "abi.h"

enum { C = 8, SIZE = 6, COUNT = C * SIZE * SIZE, THREADS = 4, ROUNDS = 20 };

static const int64_t kImage[4] = {1, C, SIZE, SIZE};
static const int64_t kFilter[4] = {C, C, 1, 1};

/* y = relu(conv(x)) + x with a 1x1 convolution that doubles every channel: 2 * max(x, 0) + x. */
static pl_graph build(pl_context context) {
  float filter[C * C] = {0};
  pl_graph graph;
  pl_value inputs[2], x, y;
  pl_tensor weights;
  size_t count;
  int i;
  for (i = 0; i < C; i++) filter[i * C + i] = 2.0f;
  weights = make_tensor(context, 4, kFilter, NULL, filter, C * C);
  OK(pl_graph_create(context, &graph));
  OK(pl_graph_input(graph, "x", PL_F32, 4, kImage, "n,,,", NULL, &x));
  inputs[0] = x;
  OK(pl_graph_constant(graph, "filter", weights, &inputs[1]));
  OK(pl_tensor_release(weights));
  OK(pl_graph_op(graph, "conv2d", NULL, inputs, 2, "double", &y, &count));
  CHECK_EQUAL(count, 1);
  OK(pl_graph_op(graph, "relu", NULL, &y, 1, NULL, &y, NULL));
  inputs[0] = y, inputs[1] = x;
  OK(pl_graph_op(graph, "add", NULL, inputs, 2, NULL, &y, NULL));
  OK(pl_graph_output(graph, y, "y", NULL));
  return graph;
}

static void fill(float* values, int count, int seed) {
  int i;
  for (i = 0; i < count; i++) values[i] = (float)((i * 7 + seed) % 11 - 5);
}

static void check_results(const float* values, int count, int seed) {
  int i;
  for (i = 0; i < count; i++) {
    const float x = (float)((i * 7 + seed) % 11 - 5);
    CHECK(values[i] == (x > 0 ? 2 * x : 0) + x);
  }
}

static pl_context context;
static pl_plan plan;

static void run_once(int seed) {
  float values[COUNT];
  pl_tensor x, y = NULL;
  fill(values, COUNT, seed);
  x = make_tensor(context, 4, kImage, seed % 2 ? "NHWC" : NULL, values, COUNT);
  OK(pl_plan_run(plan, &x, 1, &y, 1));
  OK(pl_tensor_read(y, values, sizeof values));
  check_results(values, COUNT, seed);
  OK(pl_tensor_release(y));
  /* Into the caller's memory, in a layout of the caller's. */
  y = make_tensor(context, 4, kImage, "nChw8c", NULL, 0);
  OK(pl_plan_run(plan, &x, 1, &y, 1));
  OK(pl_tensor_read(y, values, sizeof values));
  check_results(values, COUNT, seed);
  OK(pl_tensor_release(y));
  OK(pl_tensor_release(x));
}

/* Of a size that the graph was not made for. */
static void run_batch(int64_t n) {
  const int64_t shape[4] = {n, C, SIZE, SIZE};
  float values[4 * COUNT];
  const int count = (int)n * COUNT;
  pl_tensor_info info;
  pl_tensor x, y = NULL;
  fill(values, count, 3);
  x = make_tensor(context, 4, shape, NULL, values, count);
  OK(pl_plan_run(plan, &x, 1, &y, 1));
  OK(pl_tensor_describe(y, &info));
  CHECK_EQUAL(info.shape[0], n);
  OK(pl_tensor_read(y, values, (size_t)count * sizeof *values));
  check_results(values, count, 3);
  OK(pl_tensor_release(y));
  OK(pl_tensor_release(x));
  { /* on the caller's memory */
    float results[4 * COUNT];
    const int64_t none[2] = {n, -1};
    const void* from = values;
    void* to = results;
    fill(values, count, 5);
    OK(pl_plan_prepare(plan, &n, 1));
    OK(pl_plan_run_memory_at(plan, &n, 1, &from, 1, &to, 1));
    check_results(results, count, 5);
    FAILS(PL_ERROR_INVALID_ARGUMENT, "2 sizes given, expected 1: n", pl_plan_prepare(plan, none, 2));
    FAILS(PL_ERROR_INVALID_ARGUMENT, "sizes is NULL", pl_plan_prepare(plan, NULL, 1));
    FAILS(PL_ERROR_SHAPE, "axis \"n\" is -1", pl_plan_run_memory_at(plan, none + 1, 1, &from, 1, &to, 1));
    FAILS(PL_ERROR_INVALID_ARGUMENT, "0 inputs given", pl_plan_run_memory_at(plan, &n, 1, NULL, 0, &to, 1));
  }
}

static void* run_many(void* argument) {
  int round;
  for (round = 0; round < ROUNDS; round++) run_once((int)(size_t)argument + round);
  return NULL;
}

static void test_texts(pl_graph graph) {
  char* text;
  pl_tensor_info info;
  pl_tensor tensor;
  OK(pl_graph_describe(graph, NULL, &text));
  CHECK(strstr(text, "double = conv2d(x, filter)"));
  pl_string_free(text);
  OK(pl_graph_describe(graph, "dot", &text));
  CHECK(strstr(text, "digraph"));
  pl_string_free(text);
  OK(pl_graph_describe(graph, "json", &text));
  CHECK(strstr(text, "\"op\": \"relu\""));
  pl_string_free(text);
  FAILS(PL_ERROR_INVALID_ARGUMENT, "xml", pl_graph_describe(graph, "xml", &text));
  OK(pl_graph_value(graph, 1, &info));
  CHECK_EQUAL(info.rank, 4);
  CHECK_EQUAL(info.shape[0], C);
  CHECK(strcmp(info.device, "cpu") == 0);
  OK(pl_graph_value_tensor(graph, 1, &tensor));
  REQUIRE(tensor != NULL);
  OK(pl_tensor_release(tensor));
  OK(pl_graph_value_tensor(graph, 0, &tensor));
  CHECK(tensor == NULL);
}

static void test_errors(pl_graph graph) {
  pl_value value, inputs[2] = {0, 1000};
  pl_attributes layout;
  pl_graph other;
  pl_plan made;
  FAILS(PL_ERROR_INVALID_ARGUMENT, "no op \"nonsense\"",
        pl_graph_op(graph, "nonsense", NULL, inputs, 1, NULL, &value, NULL));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "1000", pl_graph_op(graph, "add", NULL, inputs, 2, NULL, &value, NULL));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "first is NULL", pl_graph_op(graph, "relu", NULL, inputs, 1, NULL, NULL, NULL));
  OK(pl_attributes_create("layout=NHWC", &layout));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "layout", pl_graph_op(graph, "relu", layout, inputs, 1, NULL, &value, NULL));
  OK(pl_attributes_release(layout));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "\"x\" already", pl_graph_input(graph, "x", PL_F32, 4, kImage, NULL, NULL, &value));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "axis names", pl_graph_input(graph, "z", PL_F32, 4, kImage, "n,", NULL, &value));
  FAILS(PL_ERROR_SHAPE, "expected 1", pl_graph_input(graph, "z", PL_F32, 3, kImage + 1, "n,,", NULL, &value));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "value is -1", pl_graph_output(graph, PL_NO_VALUE, "z", NULL));
  FAILS(PL_ERROR_LAYOUT, "rank", pl_graph_output(graph, 0, "z", "NC"));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "no axis \"m\"", pl_graph_bind(graph, "m=2", &other));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "expected an integer", pl_graph_bind(graph, "n=two", &other));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "no option \"nonsense\"", pl_plan_compile(graph, "nonsense=1", NULL, NULL, &made));
  FAILS(PL_ERROR_DEVICE, "nowhere", pl_plan_compile(graph, "device=nowhere", NULL, NULL, &made));
  OK(pl_graph_create(context, &other));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "no outputs", pl_plan_compile(other, NULL, NULL, NULL, &made));
  OK(pl_graph_release(other));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "released", pl_graph_release(other));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "released", pl_graph_describe(other, NULL, NULL));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "never was a pl_plan", pl_plan_run((pl_plan)(void*)graph, NULL, 0, NULL, 0));
}

static void test_run_errors(void) {
  float values[COUNT];
  const int64_t wrong_shape[4] = {1, C, SIZE, SIZE + 1};
  pl_tensor x, wrong, y = NULL;
  fill(values, COUNT, 0);
  x = make_tensor(context, 4, kImage, NULL, values, COUNT);
  wrong = make_tensor(context, 4, wrong_shape, NULL, NULL, 0);
  FAILS(PL_ERROR_INVALID_ARGUMENT, "0 inputs given, expected 1", pl_plan_run(plan, NULL, 0, &y, 1));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "room for 0, expected 1", pl_plan_run(plan, &x, 1, &y, 0));
  FAILS(PL_ERROR_SHAPE, "input \"x\" has shape", pl_plan_run(plan, &wrong, 1, &y, 1));
  FAILS(PL_ERROR_SHAPE, "output \"y\" is", pl_plan_run(plan, &x, 1, &wrong, 1));
  CHECK(y == NULL);
  OK(pl_tensor_release(x));
  OK(pl_tensor_release(wrong));
  {
    float results[COUNT];
    const void *from = values, *nowhere = NULL, *crooked = (const char*)values + 1;
    void* to = results;
    OK(pl_plan_run_memory(plan, &from, 1, &to, 1));
    check_results(results, COUNT, 0);
    FAILS(PL_ERROR_INVALID_ARGUMENT, "0 inputs given, expected 1", pl_plan_run_memory(plan, NULL, 0, &to, 1));
    FAILS(PL_ERROR_INVALID_ARGUMENT, "2 outputs given, expected 1", pl_plan_run_memory(plan, &from, 1, &to, 2));
    FAILS(PL_ERROR_INVALID_ARGUMENT, "input \"x\" is NULL", pl_plan_run_memory(plan, &nowhere, 1, &to, 1));
    FAILS(PL_ERROR_INVALID_ARGUMENT, "not aligned", pl_plan_run_memory(plan, &crooked, 1, &to, 1));
  }
}

static void count_calls(void* user, const char* stage, double fraction) {
  REQUIRE(stage != NULL);
  CHECK(fraction >= 0);
  CHECK(fraction <= 1);
  ++*(int*)user;
}

TEST("all") {
  pthread_t threads[THREADS];
  pl_graph graph, larger;
  pl_plan read;
  pl_tensor_info info;
  char* text;
  int i, calls = 0;
  context = make_context();
  graph = build(context);
  test_texts(graph);
  test_errors(graph);
  OK(pl_graph_bind(graph, "n=3", &larger));
  OK(pl_graph_value(larger, 0, &info));
  CHECK_EQUAL(info.shape[0], 3);
  OK(pl_graph_release(larger));

  OK(pl_plan_compile(graph, "device=cpu", count_calls, &calls, &plan));
  int32_t settled = -1;
  OK(pl_plan_settled(plan, &settled));
  CHECK(settled == 0);  // others compete in its runs
  OK(pl_plan_freeze(plan));
  OK(pl_plan_settled(plan, &settled));
  CHECK(settled == 1);
  FAILS(PL_ERROR_INVALID_ARGUMENT, "settled", pl_plan_settled(plan, NULL));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "plan", pl_plan_freeze(NULL));
  CHECK(calls > 0);
  OK(pl_graph_release(graph)); /* the plan has all it needs */
  run_once(1);
  test_run_errors();
  OK(pl_plan_describe(plan, &text));
  CHECK(strstr(text, "\"inputs\": [{\"name\": \"x\""));
  CHECK(strstr(text, "\"outputs\": [{\"name\": \"y\""));
  pl_string_free(text);
  OK(pl_plan_explain(plan, &text));
  CHECK(strstr(text, "conv2d"));
  pl_string_free(text);
  OK(pl_plan_summary(plan, &text));
  CHECK(strstr(text, "\"arena_bytes\""));
  pl_string_free(text);
  OK(pl_plan_graph(plan, NULL, &text));
  CHECK(strstr(text, "post_ops=relu") ||
        strstr(text, "post_ops=\"relu, ")); /* a pass has fused it, and perhaps the sum */
  pl_string_free(text);

  for (i = 0; i < THREADS; i++) REQUIRE(pthread_create(&threads[i], NULL, run_many, (void*)(size_t)(i * 3)) == 0);
  for (i = 0; i < THREADS; i++) REQUIRE(pthread_join(threads[i], NULL) == 0);

  OK(pl_plan_save(plan, "abi-test.plan"));
  FAILS(PL_ERROR_IO, "no-such-folder", pl_plan_save(plan, "no-such-folder/abi-test.plan"));
  OK(pl_plan_load(context, "abi-test.plan", NULL, &read));
  OK(pl_plan_release(plan));
  plan = read;
  run_once(2);
  run_batch(4); /* it has kept its named axis */
  run_batch(2);
  FAILS(PL_ERROR_IO, "no-such-file", pl_plan_load(context, "no-such-file", NULL, &read));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "replan", pl_plan_load(context, "abi-test.plan", "replan=1", &read));
  OK(pl_plan_release(plan));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "released", pl_plan_explain(plan, &text));
  OK(pl_context_release(context));
  CHECK_EQUAL(remove("abi-test.plan"), 0);
}

TEST("elements_are_joined") {
  const int64_t shape[2] = {2, 3};
  pl_context context;
  pl_graph graph, joined;
  pl_value x, y, z;
  char* text;
  OK(pl_context_create("opencl=false", &context));
  OK(pl_graph_create(context, &graph));
  OK(pl_graph_input(graph, "x", PL_F32, 2, shape, NULL, NULL, &x));
  OK(pl_graph_op(graph, "neg", NULL, &x, 1, NULL, &y, NULL));
  OK(pl_graph_op(graph, "exp", NULL, &y, 1, NULL, &z, NULL));
  OK(pl_graph_output(graph, z, "z", NULL));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "joined is NULL", pl_graph_join_elements(graph, NULL));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "graph", pl_graph_join_elements(NULL, &joined));
  OK(pl_graph_join_elements(graph, &joined));
  OK(pl_graph_describe(joined, NULL, &text));
  CHECK(strstr(text, "pointwise") && strstr(text, "exp(") && !strstr(text, "neg"));
  pl_string_free(text);
  OK(pl_graph_release(joined));
  OK(pl_graph_release(graph));
  OK(pl_context_release(context));
}

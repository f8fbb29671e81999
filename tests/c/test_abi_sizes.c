/* Named axes through the C ABI: one plan for many sizes, attributes and constants that follow from them, sizes that are
 * refused, further graphs, a past that grows. */
#include <pthread.h>

#include "abi.h"

enum { WIDTH = 8, LONGEST = 40, THREADS = 3 };

static pl_context context;

static pl_value op(pl_graph graph, const char* name, const char* attributes, const char* late, pl_value a, pl_value b) {
  pl_value inputs[2], result;
  pl_attributes given;
  size_t count;
  inputs[0] = a, inputs[1] = b;
  OK(pl_attributes_create(attributes, &given));
  OK(pl_graph_op_late(graph, name, given, late, inputs, b == PL_NO_VALUE ? 1 : 2, NULL, &result, &count));
  OK(pl_attributes_release(given));
  CHECK_EQUAL(count, 1);
  return result;
}

/* (n, s, WIDTH) in pairs of rows, 2 * x + 1 of all but the last one; the sizes, and the numbers of rows. */
static pl_graph build(const char* condition, int64_t s) {
  const float numbers[2] = {2, 1};
  int64_t shape[3] = {1, WIDTH, WIDTH};
  pl_graph graph;
  pl_value x, two, one, y;
  pl_tensor number;
  shape[1] = s;
  OK(pl_graph_create(context, &graph));
  OK(pl_graph_input(graph, "x", PL_F32, 3, shape, "n,s,", NULL, &x));
  number = make_tensor(context, 0, NULL, NULL, &numbers[0], 1);
  OK(pl_graph_constant(graph, "two", number, &two));
  OK(pl_tensor_release(number));
  number = make_tensor(context, 0, NULL, NULL, &numbers[1], 1);
  OK(pl_graph_constant(graph, "one", number, &one));
  OK(pl_tensor_release(number));
  y = op(graph, "mul", NULL, "", x, two);
  y = op(graph, "add", NULL, "", y, one);
  y = op(graph, "slice", "starts=[0] axes=[1]", "ends=[#0.1-1]", y, PL_NO_VALUE);
  y = op(graph, "reshape", NULL, "shape=[n*(s-1),2,4]", y, PL_NO_VALUE);
  OK(pl_graph_output(graph, y, "pairs", NULL));
  OK(pl_graph_sizes(graph, "both", PL_S64, "[n,s*8]", &y));
  OK(pl_graph_output(graph, y, NULL, NULL));
  OK(pl_graph_sizes(graph, NULL, PL_S32, "range(s,0,-1)", &y));
  OK(pl_graph_output(graph, y, "down", NULL));
  OK(pl_graph_sizes(graph, NULL, PL_F32, "max(s,7)", &y));
  OK(pl_graph_output(graph, y, "scalar", NULL));
  OK(pl_graph_require(graph, condition));
  return graph;
}

static pl_tensor input_of(int64_t n, int64_t s) {
  const int64_t shape[3] = {n, s, WIDTH};
  float values[3 * LONGEST * WIDTH];
  int64_t i;
  for (i = 0; i < n * s * WIDTH; i++) values[i] = (float)(i % 101);
  return make_tensor(context, 3, shape, NULL, values, (size_t)(n * s * WIDTH));
}

static void run_at(pl_plan plan, int64_t n, int64_t s) {
  float values[3 * LONGEST * WIDTH], scalar;
  int64_t both[2], i;
  int32_t down[LONGEST];
  pl_tensor_info info;
  pl_tensor x = input_of(n, s), results[4] = {NULL, NULL, NULL, NULL};
  OK(pl_plan_run(plan, &x, 1, results, 4));
  OK(pl_tensor_describe(results[0], &info));
  CHECK_EQUAL(info.rank, 3);
  CHECK_EQUAL(info.shape[0], n * (s - 1));
  OK(pl_tensor_read(results[0], values, (size_t)(n * (s - 1) * WIDTH) * sizeof *values));
  for (i = 0; i < n * (s - 1) * WIDTH; i++) {
    const int64_t image = i / ((s - 1) * WIDTH), at = image * s * WIDTH + i % ((s - 1) * WIDTH);
    CHECK_EQUAL(values[i], 2 * (float)(at % 101) + 1);
  }
  OK(pl_tensor_read(results[1], both, sizeof both));
  CHECK_EQUAL(both[0], n);
  CHECK_EQUAL(both[1], 8 * s);
  OK(pl_tensor_describe(results[2], &info));
  CHECK_EQUAL(info.shape[0], s);
  OK(pl_tensor_read(results[2], down, (size_t)s * sizeof *down));
  for (i = 0; i < s; i++) CHECK_EQUAL(down[i], s - i);
  OK(pl_tensor_read(results[3], &scalar, sizeof scalar));
  CHECK_EQUAL(scalar, s > 7 ? s : 7);
  for (i = 0; i < 4; i++) OK(pl_tensor_release(results[i]));
  OK(pl_tensor_release(x));
}

static pl_plan compiled(pl_graph graph) {
  pl_plan plan;
  OK(pl_plan_compile(graph, "device=cpu tune=off", NULL, NULL, &plan));
  OK(pl_graph_release(graph));
  return plan;
}

static void* run_some(void* argument) {
  int64_t s;
  for (s = 3; s < 20; s++) run_at((pl_plan)argument, 1 + s % 3, s);
  return NULL;
}

SETUP() { context = make_context(); }

TEST("one plan serves every size") {
  pl_plan plan = compiled(build("s<=30", 6)), read;
  pl_tensor x = NULL, results[4] = {NULL, NULL, NULL, NULL};
  pthread_t threads[THREADS];
  char* text;
  int i;
  run_at(plan, 1, 6);
  run_at(plan, 3, 6);
  run_at(plan, 2, 30);
  run_at(plan, 1, 2);
  for (i = 0; i < THREADS; i++) CHECK_EQUAL(pthread_create(&threads[i], NULL, run_some, plan), 0);
  for (i = 0; i < THREADS; i++) CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
  x = input_of(1, 31);
  FAILS(PL_ERROR_UNSUPPORTED, "<= 30, here", pl_plan_run(plan, &x, 1, results, 4));
  CHECK(results[0] == NULL);
  OK(pl_tensor_release(x));
  OK(pl_plan_describe(plan, &text));
  CHECK(strstr(text, "\"axes\": [\"n\", \"s\", \"\"]"));
  pl_string_free(text);
  OK(pl_plan_summary(plan, &text));
  CHECK(strstr(text, "\"sizes\": {\"programs\": "));
  pl_string_free(text);
  /* A file keeps the axes and what is required of them. */
  OK(pl_plan_save(plan, "abi-sizes.plan"));
  OK(pl_plan_release(plan));
  OK(pl_plan_load(context, "abi-sizes.plan", NULL, &read));
  run_at(read, 2, 11);
  x = input_of(1, 31);
  FAILS(PL_ERROR_UNSUPPORTED, "<= 30, here", pl_plan_run(read, &x, 1, results, 4));
  OK(pl_tensor_release(x));
  OK(pl_plan_release(read));
  CHECK_EQUAL(remove("abi-sizes.plan"), 0);
  OK(pl_context_release(context));
}

TEST("another graph serves other sizes") {
  pl_plan plan = compiled(build("s<=30", 6));
  pl_graph other = build("30<s", 35), strange;
  pl_tensor x = input_of(1, 33), results[4] = {NULL, NULL, NULL, NULL};
  pl_value value;
  const int64_t shape[3] = {1, 35, WIDTH};
  FAILS(PL_ERROR_UNSUPPORTED, "<= 30, here", pl_plan_run(plan, &x, 1, results, 4));
  OK(pl_plan_extend(plan, other));
  OK(pl_graph_release(other));
  run_at(plan, 1, 33);
  run_at(plan, 2, 30);
  OK(pl_graph_create(context, &strange));
  OK(pl_graph_input(strange, "z", PL_F32, 3, shape, "n,s,", NULL, &value));
  OK(pl_graph_output(strange, value, "pairs", NULL));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "expected the same names", pl_plan_extend(plan, strange));
  OK(pl_graph_release(strange));
  OK(pl_plan_release(plan));
  /* One that has no named axes serves its own sizes alone. */
  OK(pl_graph_create(context, &strange));
  OK(pl_graph_input(strange, "x", PL_F32, 3, shape, NULL, NULL, &value));
  OK(pl_graph_output(strange, op(strange, "relu", NULL, "", value, PL_NO_VALUE), "y", NULL));
  OK(pl_plan_compile(strange, "device=cpu tune=off", NULL, NULL, &plan));
  FAILS(PL_ERROR_UNSUPPORTED, "no named axes", pl_plan_extend(plan, strange));
  FAILS(PL_ERROR_SHAPE, "input \"x\" has shape", pl_plan_run(plan, &x, 1, results, 1));
  OK(pl_graph_release(strange));
  OK(pl_plan_release(plan));
  OK(pl_tensor_release(x));
  OK(pl_context_release(context));
}

TEST("expressions that make no sense are refused") {
  pl_graph graph = build("s<=30", 6);
  pl_attributes none;
  pl_value x = 0, value;
  OK(pl_attributes_create(NULL, &none));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "\"t\"", pl_graph_sizes(graph, NULL, PL_S64, "[t]", &value));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "s+", pl_graph_sizes(graph, NULL, PL_S64, "[s+]", &value));
  FAILS(PL_ERROR_SHAPE, "does not fit s32", pl_graph_sizes(graph, NULL, PL_S32, "s*4294967296", &value));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "#99.0", pl_graph_sizes(graph, NULL, PL_S64, "[#99.0]", &value));
  FAILS(PL_ERROR_UNSUPPORTED, "expected s64, s32 or f32", pl_graph_sizes(graph, NULL, PL_U8, "s", &value));
  FAILS(PL_ERROR_UNSUPPORTED, "== 5, here 6 and 5", pl_graph_require(graph, "s==5"));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "s", pl_graph_require(graph, "s"));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "nonsense",
        pl_graph_op_late(graph, "relu", none, "nonsense=[s]", &x, 1, NULL, &value, NULL));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "late is NULL",
        pl_graph_op_late(graph, "relu", none, NULL, &x, 1, NULL, &value, NULL));
  FAILS(PL_ERROR_SHAPE, "reshape", pl_graph_op_late(graph, "reshape", none, "shape=[s,7]", &x, 1, NULL, &value, NULL));
  OK(pl_attributes_release(none));
  OK(pl_graph_release(graph));
  OK(pl_context_release(context));
}

/* concat(past, added) as an output: each run is given what the last one gave, and writes behind it. */
TEST("a past grows") {
  const int64_t one[2] = {1, WIDTH}, shape[2] = {4, WIDTH}, total[2] = {1 + 69, WIDTH};
  float row[WIDTH], values[70 * WIDTH];
  pl_graph graph;
  pl_value inputs[2], joined;
  pl_tensor given[2], results[2], first = NULL, wanted;
  pl_tensor_info info, before;
  pl_attributes dim;
  pl_plan plan;
  char* text;
  int i, k;
  OK(pl_graph_create(context, &graph));
  OK(pl_graph_input(graph, "past", PL_F32, 2, shape, "past,", NULL, &inputs[0]));
  OK(pl_graph_input(graph, "added", PL_F32, 2, one, NULL, NULL, &inputs[1]));
  OK(pl_attributes_create("dim=0", &dim));
  OK(pl_graph_op(graph, "concat", dim, inputs, 2, NULL, &joined, NULL));
  OK(pl_attributes_release(dim));
  OK(pl_graph_output(graph, op(graph, "relu", NULL, "", inputs[1], PL_NO_VALUE), "y", NULL));
  OK(pl_graph_output(graph, joined, "longer", NULL));
  plan = compiled(graph);
  for (k = 0; k < WIDTH; k++) row[k] = -1;
  given[0] = make_tensor(context, 2, one, NULL, row, WIDTH);
  for (i = 0; i < 68; i++) {
    for (k = 0; k < WIDTH; k++) row[k] = (float)i;
    given[1] = make_tensor(context, 2, one, NULL, row, WIDTH);
    results[0] = results[1] = NULL;
    OK(pl_plan_run(plan, given, 2, results, 2));
    OK(pl_tensor_describe(results[1], &info));
    CHECK_EQUAL(info.shape[0], 2 + i);
    OK(pl_tensor_release(results[0]));
    OK(pl_tensor_release(given[0]));
    OK(pl_tensor_release(given[1]));
    given[0] = results[1];
    if (i == 9) OK(pl_tensor_retain(results[1], &first));
  }
  /* Into memory of the caller's, from where the others are as they were. */
  wanted = make_tensor(context, 2, total, NULL, NULL, 0);
  given[1] = make_tensor(context, 2, one, NULL, row, WIDTH);
  results[0] = NULL, results[1] = wanted;
  OK(pl_plan_run(plan, given, 2, results, 2));
  OK(pl_tensor_read(wanted, values, sizeof values));
  for (i = 0; i < 70 * WIDTH; i++) CHECK_EQUAL(values[i], i / WIDTH == 69 ? 67 : i / WIDTH - 1);
  OK(pl_tensor_describe(first, &before));
  CHECK_EQUAL(before.shape[0], 11);
  OK(pl_tensor_read(first, values, 11 * WIDTH * sizeof *values));
  for (i = 0; i < 11 * WIDTH; i++) CHECK_EQUAL(values[i], i / WIDTH - 1);
  OK(pl_plan_summary(plan, &text));
  CHECK(strstr(text, "\"growing\": \"past\""));
  pl_string_free(text);
  OK(pl_tensor_release(results[0]));
  OK(pl_tensor_release(wanted));
  OK(pl_tensor_release(first));
  OK(pl_tensor_release(given[0]));
  OK(pl_tensor_release(given[1]));
  OK(pl_plan_release(plan));
  OK(pl_context_release(context));
}

/* A batch of ten in slices of four through the C ABI: results and inputs lie between guards, which stay as they are. */
#include "abi.h"

enum { N = 10, C = 5, SIZE = 3, COUNT = N * C * SIZE * SIZE, GUARD = 64 };

static const int64_t kImages[4] = {N, C, SIZE, SIZE};
static const int64_t kFilter[4] = {C, 1, 3, 3};

/* y = depthwise(x) + x, whose filters double the middle. */
static pl_graph build(pl_context context) {
  float filter[C * 9] = {0};
  pl_graph graph;
  pl_attributes attributes;
  pl_value inputs[2], x, y;
  pl_tensor weights;
  int i;
  for (i = 0; i < C; i++) filter[i * 9 + 4] = 2.0f;
  weights = make_tensor(context, 4, kFilter, NULL, filter, C * 9);
  OK(pl_graph_create(context, &graph));
  OK(pl_graph_input(graph, "x", PL_F32, 4, kImages, NULL, NULL, &x));
  inputs[0] = x;
  OK(pl_graph_constant(graph, "filter", weights, &inputs[1]));
  OK(pl_tensor_release(weights));
  OK(pl_attributes_create("groups=5 padding=1", &attributes));
  OK(pl_graph_op(graph, "conv2d", attributes, inputs, 2, "double", &y, NULL));
  OK(pl_attributes_release(attributes));
  OK(pl_graph_op(graph, "relu", NULL, &y, 1, NULL, &y, NULL));
  inputs[0] = y, inputs[1] = x;
  OK(pl_graph_op(graph, "add", NULL, inputs, 2, NULL, &y, NULL));
  OK(pl_graph_output(graph, y, "y", NULL));
  return graph;
}

static void check_run(pl_context context, pl_plan plan) {
  static float in[COUNT + 2 * GUARD], out[COUNT + 2 * GUARD];
  pl_tensor x, y;
  int i;
  for (i = 0; i < COUNT + 2 * GUARD; i++) {
    in[i] = (float)(i * 7 % 11 - 5);
    out[i] = 1e9f;
  }
  OK(pl_tensor_borrow(context, PL_F32, 4, kImages, NULL, NULL, in + GUARD, NULL, NULL, &x));
  OK(pl_tensor_borrow(context, PL_F32, 4, kImages, NULL, NULL, out + GUARD, NULL, NULL, &y));
  OK(pl_plan_run(plan, &x, 1, &y, 1));
  for (i = 0; i < COUNT + 2 * GUARD; i++) {
    const float value = (float)(i * 7 % 11 - 5);
    CHECK_EQUAL(in[i], value);
    if (i < GUARD || i >= GUARD + COUNT)
      CHECK_EQUAL(out[i], 1e9f);
    else
      CHECK(out[i] == (value > 0 ? 2 * value : 0) + value);
  }
  OK(pl_tensor_release(x));
  OK(pl_tensor_release(y));
}

TEST("all") {
  static const char* const options[] = {"device=cpu slice=4", "device=cpu slice=4 streams=2",
                                        "device=cpu slice=3 streams=2", "device=cpu slice=7", "device=cpu"};
  pl_context context = make_context();
  pl_graph graph = build(context);
  pl_plan plan, read;
  char* text;
  size_t i;
  for (i = 0; i < sizeof options / sizeof *options; i++) {
    OK(pl_plan_compile(graph, options[i], NULL, NULL, &plan));
    check_run(context, plan);
    OK(pl_plan_save(plan, "abi-slices-test.plan"));
    OK(pl_plan_load(context, "abi-slices-test.plan", NULL, &read));
    check_run(context, read);
    OK(pl_plan_summary(read, &text));
    CHECK(i || (strstr(text, "\"slices\": 3") && strstr(text, "\"last\": 2")));
    pl_string_free(text);
    OK(pl_plan_release(read));
    OK(pl_plan_release(plan));
  }
  FAILS(PL_ERROR_INVALID_ARGUMENT, "slice is 11, expected at most 10",
        pl_plan_compile(graph, "device=cpu slice=11", NULL, NULL, &plan));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "expected at most 2 (threads) and 1 (slices of 6)",
        pl_plan_compile(graph, "device=cpu slice=6 streams=2", NULL, NULL, &plan));
  OK(pl_graph_release(graph));
  OK(pl_context_release(context));
  CHECK_EQUAL(remove("abi-slices-test.plan"), 0);
}

/* Training through the C ABI: a scale of the loss (a run whose gradients are not finite changes nothing but the scale),
 * what becomes a parameter, steps at batches of several sizes. */
#include <math.h>
#include <string.h>

#include "abi.h"

static float state_of(pl_plan plan, const char* name) {
  float value = 0;
  pl_tensor tensor = NULL;
  OK(pl_plan_state(plan, name, &tensor));
  OK(pl_tensor_read(tensor, &value, sizeof value));
  OK(pl_tensor_release(tensor));
  return value;
}

static float run(pl_plan plan, pl_tensor x, float value) {
  float loss = 0;
  pl_tensor result = NULL;
  OK(pl_tensor_write(x, &value, sizeof value));
  OK(pl_plan_run(plan, &x, 1, &result, 1));
  OK(pl_tensor_read(result, &loss, sizeof loss));
  OK(pl_tensor_release(result));
  return loss;
}

/* A parameter of the value, and a constant: a learning rate. */
static pl_value add_weight(pl_context context, pl_graph graph, int32_t rank, const int64_t* shape, float value) {
  pl_value made;
  pl_tensor tensor = make_tensor(context, rank, shape, NULL, &value, 1);
  OK(pl_graph_parameter(graph, "w", tensor, &made));
  OK(pl_tensor_release(tensor));
  return made;
}

static pl_value add_rate(pl_context context, pl_graph graph, float value) {
  pl_value made;
  pl_tensor tensor = make_tensor(context, 0, NULL, NULL, &value, 1);
  OK(pl_graph_constant(graph, "lr", tensor, &made));
  OK(pl_tensor_release(tensor));
  return made;
}

/* loss = x * w * w, by which w moves against 2 * x * w. */
TEST("scale") {
  const float w = 3, rate = 0.25f;
  pl_context context = make_context();
  pl_graph graph;
  pl_value inputs[4], x, loss, weight, lr, gradient, scale, moved;
  pl_attributes attributes;
  pl_tensor tensor;
  pl_plan plan;
  OK(pl_graph_create(context, &graph));
  OK(pl_graph_input(graph, "x", PL_F32, 0, NULL, NULL, NULL, &x));
  weight = add_weight(context, graph, 0, NULL, w);
  lr = add_rate(context, graph, rate);
  inputs[0] = weight, inputs[1] = weight;
  OK(pl_graph_op(graph, "mul", NULL, inputs, 2, NULL, &loss, NULL));
  inputs[0] = loss, inputs[1] = x;
  OK(pl_graph_op(graph, "mul", NULL, inputs, 2, NULL, &loss, NULL));
  OK(pl_graph_output(graph, loss, "loss", NULL));

  FAILS(PL_ERROR_INVALID_ARGUMENT, "the scale is 0, expected 2^-24 to 2^24",
        pl_graph_scaled_gradients(graph, loss, &weight, 1, 0, 2, &gradient, &scale));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "the interval is 0 steps",
        pl_graph_scaled_gradients(graph, loss, &weight, 1, 64, 0, &gradient, &scale));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "there is no value to derive by",
        pl_graph_scaled_gradients(graph, loss, &weight, 0, 64, 2, &gradient, &scale));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "grad_scale is NULL",
        pl_graph_scaled_gradients(graph, loss, &weight, 1, 64, 2, &gradient, NULL));
  OK(pl_graph_scaled_gradients(graph, loss, &weight, 1, 64, 2, &gradient, &scale));

  inputs[0] = weight, inputs[1] = gradient, inputs[2] = lr, inputs[3] = PL_NO_VALUE;
  {
    pl_value all[5];
    int i;
    for (i = 0; i < 4; i++) all[i] = inputs[i];
    all[4] = scale;
    OK(pl_attributes_create("", &attributes));
    OK(pl_graph_op(graph, "sgd_step", attributes, all, 5, NULL, &moved, NULL));
    OK(pl_attributes_release(attributes));
  }
  OK(pl_graph_update(graph, weight, moved));
  OK(pl_plan_compile(graph, "device=cpu math=fp16", NULL, NULL, &plan));
  OK(pl_graph_release(graph));
  tensor = make_tensor(context, 0, NULL, NULL, NULL, 0);
  CHECK_EQUAL(run(plan, tensor, 1.0f), 9.0f);
  CHECK_EQUAL(state_of(plan, "w"), 1.5f);
  CHECK_EQUAL(state_of(plan, "loss_scale"), 64.0f);
  CHECK_EQUAL(state_of(plan, "loss_scale/good_steps"), 1.0f);
  CHECK(isinf(run(plan, tensor, INFINITY)));
  CHECK_EQUAL(state_of(plan, "w"), 1.5f);
  CHECK_EQUAL(state_of(plan, "loss_scale"), 32.0f);
  CHECK_EQUAL(state_of(plan, "loss_scale/good_steps"), 0.0f);
  CHECK_EQUAL(run(plan, tensor, 1.0f), 2.25f);
  CHECK_EQUAL(run(plan, tensor, 1.0f), 0.5625f);
  CHECK_EQUAL(state_of(plan, "w"), 0.375f);
  CHECK_EQUAL(state_of(plan, "loss_scale"), 64.0f);
  CHECK_EQUAL(state_of(plan, "loss_scale/good_steps"), 0.0f);
  OK(pl_tensor_release(tensor));
  OK(pl_plan_release(plan));
  OK(pl_context_release(context));
}

/* Constants of which nothing is known are weights by their use; others as is said of them. */
TEST("trainable") {
  const float numbers[2] = {2, 3};
  pl_context context = make_context();
  pl_graph graph, made;
  pl_value x, weight, table, inputs[2], product, known[2];
  pl_trained kinds[2] = {PL_TRAINED_ALWAYS, PL_TRAINED_NEVER};
  const int64_t shape[1] = {2};
  pl_tensor tensor;
  char* text = NULL;
  OK(pl_graph_create(context, &graph));
  OK(pl_graph_input(graph, "x", PL_F32, 1, shape, NULL, NULL, &x));
  tensor = make_tensor(context, 1, shape, NULL, numbers, 2);
  OK(pl_graph_constant(graph, "w", tensor, &weight));
  OK(pl_graph_constant(graph, "table", tensor, &table));
  OK(pl_tensor_release(tensor));
  inputs[0] = x, inputs[1] = weight;
  OK(pl_graph_op(graph, "mul", NULL, inputs, 2, NULL, &product, NULL));
  inputs[0] = product, inputs[1] = table;
  OK(pl_graph_op(graph, "mul", NULL, inputs, 2, NULL, &product, NULL));
  OK(pl_graph_output(graph, product, "y", NULL));

  OK(pl_graph_trainable(graph, 0.1, NULL, NULL, 0, &made));
  OK(pl_graph_describe(made, "text", &text));
  CHECK(strstr(text, "parameter w:") && strstr(text, "parameter table:"));
  pl_string_free(text);
  OK(pl_graph_release(made));

  known[0] = weight, known[1] = table;
  OK(pl_graph_trainable(graph, 0.1, known, kinds, 2, &made));
  OK(pl_graph_describe(made, "text", &text));
  CHECK(strstr(text, "parameter w:") && !strstr(text, "parameter table:"));
  pl_string_free(text);
  OK(pl_graph_release(made));

  FAILS(PL_ERROR_INVALID_ARGUMENT, "constants or kinds is NULL", pl_graph_trainable(graph, 0.1, known, NULL, 2, &made));
  known[1] = x;
  FAILS(PL_ERROR_INVALID_ARGUMENT, "expected a constant of the graph",
        pl_graph_trainable(graph, 0.1, known, kinds, 2, &made));
  known[1] = table, kinds[1] = (pl_trained)9;
  FAILS(PL_ERROR_INVALID_ARGUMENT, "kinds[1] is 9, expected a pl_trained",
        pl_graph_trainable(graph, 0.1, known, kinds, 2, &made));
  OK(pl_graph_release(graph));
  OK(pl_context_release(context));
}

/* loss = the mean over a batch of x * w, by which w moves against a tenth of the mean of x; dx has the batch's size. */
static pl_graph build_mean(pl_context context, int64_t n) {
  const int64_t shape[2] = {n, 1};
  const int64_t one[1] = {1};
  pl_graph graph;
  pl_value x, weight, lr, loss, gradients[2], by[2], inputs[4], moved;
  OK(pl_graph_create(context, &graph));
  OK(pl_graph_input(graph, "x", PL_F32, 2, shape, "n,", NULL, &x));
  weight = add_weight(context, graph, 1, one, 3);
  lr = add_rate(context, graph, 0.1f);
  inputs[0] = x, inputs[1] = weight;
  OK(pl_graph_op(graph, "mul", NULL, inputs, 2, NULL, &loss, NULL));
  OK(pl_graph_op(graph, "mean", NULL, &loss, 1, NULL, &loss, NULL));
  by[0] = weight, by[1] = x;
  OK(pl_graph_gradients(graph, loss, by, 2, gradients));
  inputs[0] = weight, inputs[1] = gradients[0], inputs[2] = lr;
  OK(pl_graph_op(graph, "sgd_step", NULL, inputs, 3, NULL, &moved, NULL));
  OK(pl_graph_update(graph, weight, moved));
  OK(pl_graph_output(graph, loss, "loss", NULL));
  OK(pl_graph_output(graph, gradients[1], "dx", NULL));
  return graph;
}

TEST("batches") {
  enum { MOST = 4 };
  const float values[MOST] = {1, 2, 3, 6};
  pl_context context = make_context();
  pl_graph graph = build_mean(context, 1), bound;
  pl_plan plan, twin;
  int64_t n;
  float w = 3;
  OK(pl_plan_compile(graph, "device=cpu tune=off", NULL, NULL, &plan));
  OK(pl_graph_bind(graph, "n=4", &bound));
  OK(pl_plan_compile(bound, "device=cpu tune=off", NULL, NULL, &twin));
  OK(pl_graph_release(bound));
  OK(pl_graph_release(graph));
  for (n = 1; n <= MOST; n++) {
    const int64_t shape[2] = {n, 1};
    float loss, dx[MOST], mean = 0;
    int64_t i;
    for (i = 0; i < n; i++) mean += values[i] / (float)n;
    if (n % 2) { /* tensors and plain memory by turns */
      pl_tensor x = make_tensor(context, 2, shape, NULL, values, (size_t)n), results[2] = {NULL, NULL};
      OK(pl_plan_run(plan, &x, 1, results, 2));
      OK(pl_tensor_read(results[0], &loss, sizeof loss));
      OK(pl_tensor_read(results[1], dx, (size_t)n * sizeof *dx));
      OK(pl_tensor_release(results[0]));
      OK(pl_tensor_release(results[1]));
      OK(pl_tensor_release(x));
    } else {
      const void* given = values;
      void* results[2];
      results[0] = &loss, results[1] = dx;
      OK(pl_plan_run_memory_at(plan, &n, 1, &given, 1, results, 2));
    }
    CHECK(fabsf(loss - w * mean) < 1e-5f);
    for (i = 0; i < n; i++) CHECK(fabsf(dx[i] - w / (float)n) < 1e-6f);
    w -= 0.1f * mean;
    CHECK(fabsf(state_of(plan, "w") - w) < 1e-5f);
  }
  {
    const void* given = values;
    void* results[2];
    float loss, dx[MOST];
    results[0] = &loss, results[1] = dx;
    OK(pl_plan_run_memory(twin, &given, 1, results, 2));
    CHECK(fabsf(loss - 9) < 1e-5f && fabsf(dx[3] - 0.75f) < 1e-6f);
    CHECK(fabsf(state_of(twin, "w") - 2.7f) < 1e-5f);
  }
  OK(pl_plan_release(plan));
  OK(pl_plan_release(twin));
  OK(pl_context_release(context));
}

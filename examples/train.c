/* Training in C: a small convolutional network learns to tell pictures of bars that stand from those of bars that lie.
 *
 *   cc -std=c99 train.c $(pkg-config --cflags --libs pylayout) -o train && ./train
 *
 * Forward, backward and update are one plan.  It ends with 0 when the loss fell to a tenth. */
#include <stdio.h>
#include <stdlib.h>

#include "pylayout.h"

enum { BATCH = 16, SIZE = 12, C = 8, CLASSES = 2, STEPS = 60, PARAMETERS = 3 };

static int failed(pl_status status, const char* what) {
  if (status == PL_OK) return 0;
  fprintf(stderr, "%s: %s\n", what, pl_last_error());
  return 1;
}
#define TRY(call) \
  if (failed(call, #call)) exit(1)

/* Numbers of -1 to 1, the same on every machine. */
static float made_up(void) {
  static unsigned seed = 7;
  seed = seed * 1664525u + 1013904223u;
  return (float)(seed >> 8) / 8388608.0f - 1.0f;
}

static pl_value parameter(pl_context context, pl_graph graph, const char* name, int32_t rank, const int64_t* shape,
                          float scale) {
  size_t count = 1, i;
  int32_t d;
  float* values;
  pl_tensor tensor;
  pl_value value;
  for (d = 0; d < rank; d++) count *= (size_t)shape[d];
  values = malloc(count * sizeof *values);
  if (!values) exit(1);
  for (i = 0; i < count; i++) values[i] = scale * made_up();
  TRY(pl_tensor_create(context, "cpu", PL_F32, rank, shape, NULL, &tensor));
  TRY(pl_tensor_write(tensor, values, count * sizeof *values));
  free(values);
  TRY(pl_graph_parameter(graph, name, tensor, &value));
  TRY(pl_tensor_release(tensor)); /* the graph keeps it */
  return value;
}

static pl_value op(pl_graph graph, const char* name, const char* text, const pl_value* inputs, size_t count) {
  pl_value result;
  pl_attributes attributes;
  TRY(pl_attributes_create(text, &attributes));
  TRY(pl_graph_op(graph, name, attributes, inputs, count, NULL, &result, NULL));
  TRY(pl_attributes_release(attributes));
  return result;
}

static pl_value op1(pl_graph graph, const char* name, const char* text, pl_value a) {
  return op(graph, name, text, &a, 1);
}

static pl_value op2(pl_graph graph, const char* name, const char* text, pl_value a, pl_value b) {
  pl_value inputs[2];
  inputs[0] = a, inputs[1] = b;
  return op(graph, name, text, inputs, 2);
}

/* A graph whose runs give the loss and move the parameters. */
static pl_graph build(pl_context context) {
  const int64_t image[] = {BATCH, 1, SIZE, SIZE}, labels[] = {BATCH}, kernel[] = {C, 1, 5, 5}, head[] = {CLASSES, C};
  const int64_t bias[] = {C};
  const float rate = 0.2f;
  pl_value x, target, y, loss, inputs[3], weights[PARAMETERS], gradients[PARAMETERS], lr;
  pl_tensor rate_tensor;
  pl_graph graph;
  int i;
  TRY(pl_graph_create(context, &graph));
  TRY(pl_graph_input(graph, "image", PL_F32, 4, image, NULL, NULL, &x));
  TRY(pl_graph_input(graph, "label", PL_S64, 1, labels, NULL, NULL, &target));
  weights[0] = parameter(context, graph, "conv.weight", 4, kernel, 0.3f);
  weights[1] = parameter(context, graph, "conv.bias", 1, bias, 0.1f);
  weights[2] = parameter(context, graph, "head.weight", 2, head, 0.5f);
  inputs[0] = x, inputs[1] = weights[0], inputs[2] = weights[1];
  y = op(graph, "conv2d", "padding=2", inputs, 3);
  y = op1(graph, "relu", NULL, y);
  y = op1(graph, "global_max_pool", NULL, y);
  y = op1(graph, "flatten", "start_dim=1", y);
  y = op2(graph, "linear", NULL, y, weights[2]);
  loss = op2(graph, "cross_entropy", NULL, y, target);
  TRY(pl_graph_output(graph, loss, "loss", NULL));
  TRY(pl_graph_gradients(graph, loss, weights, PARAMETERS, gradients));
  TRY(pl_tensor_create(context, "cpu", PL_F32, 0, NULL, NULL, &rate_tensor));
  TRY(pl_tensor_write(rate_tensor, &rate, sizeof rate));
  TRY(pl_graph_constant(graph, "lr", rate_tensor, &lr));
  TRY(pl_tensor_release(rate_tensor));
  for (i = 0; i < PARAMETERS; i++) {
    inputs[0] = weights[i], inputs[1] = gradients[i], inputs[2] = lr;
    TRY(pl_graph_update(graph, weights[i], op(graph, "sgd_step", NULL, inputs, 3)));
  }
  return graph;
}

int main(void) {
  const int64_t image[] = {BATCH, 1, SIZE, SIZE}, labels[] = {BATCH};
  float pictures[BATCH * SIZE * SIZE], loss = 0, first = 0;
  int64_t classes[BATCH];
  pl_context context;
  pl_graph graph;
  pl_plan plan;
  pl_tensor inputs[2], result;
  int step, n, i;

  TRY(pl_context_create("opencl=false", &context));
  graph = build(context);
  TRY(pl_plan_compile(graph, "device=cpu", NULL, NULL, &plan));
  TRY(pl_graph_release(graph));
  TRY(pl_tensor_create(context, "cpu", PL_F32, 4, image, NULL, &inputs[0]));
  TRY(pl_tensor_create(context, "cpu", PL_S64, 1, labels, NULL, &inputs[1]));
  for (step = 0; step < STEPS; step++) {
    for (i = 0; i < BATCH * SIZE * SIZE; i++) pictures[i] = 0.2f * made_up();
    for (n = 0; n < BATCH; n++) {
      const int place = 2 + (int)(3.99f * (made_up() + 1));
      classes[n] = made_up() > 0;
      for (i = 1; i < SIZE - 1; i++)
        pictures[n * SIZE * SIZE + (classes[n] ? place * SIZE + i : i * SIZE + place)] += 1;
    }
    TRY(pl_tensor_write(inputs[0], pictures, sizeof pictures));
    TRY(pl_tensor_write(inputs[1], classes, sizeof classes));
    result = NULL;
    TRY(pl_plan_run(plan, inputs, 2, &result, 1));
    TRY(pl_tensor_read(result, &loss, sizeof loss));
    TRY(pl_tensor_release(result));
    if (step == 0) first = loss;
    if (step % 10 == 0 || step + 1 == STEPS) printf("step %2d: loss %.4f\n", step, loss);
  }
  TRY(pl_plan_state(plan, "head.weight", &result)); /* trained: to be kept, or given to another plan */
  TRY(pl_tensor_release(result));
  for (i = 0; i < 2; i++) TRY(pl_tensor_release(inputs[i]));
  TRY(pl_plan_release(plan));
  TRY(pl_context_release(context));
  return loss < first / 10 ? 0 : 1;
}

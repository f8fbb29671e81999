/* A whole program in C: a graph is built, compiled into a plan, run on images of several sizes, explained, saved and
 * read again.
 *
 *   cc -std=c99 graph.c $(pkg-config --cflags --libs pylayout) -o graph && ./graph [FILE]
 *
 * FILE (default: graph-example.plan) is where the plan is kept.  A second start reads it and measures nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pylayout.h"

enum { C = 16, SIZE = 32, OC = 32, CLASSES = 10, IMAGES = 3 };

static int failed(pl_status status, const char* what) {
  if (status == PL_OK) return 0;
  fprintf(stderr, "%s: %s\n", what, pl_last_error());
  return 1;
}
#define TRY(call) \
  if (failed(call, #call)) exit(1)

/* A tensor of made-up weights; a real program would borrow those it has. */
static pl_tensor weights(pl_context context, int32_t rank, const int64_t* shape, float scale) {
  size_t count = 1, i;
  int32_t d;
  float* values;
  pl_tensor tensor;
  for (d = 0; d < rank; d++) count *= (size_t)shape[d];
  values = malloc(count * sizeof *values);
  if (!values) exit(1);
  for (i = 0; i < count; i++) values[i] = scale * (float)((i * 37 + 11) % 17 - 8.0);
  TRY(pl_tensor_create(context, "cpu", PL_F32, rank, shape, NULL, &tensor));
  TRY(pl_tensor_write(tensor, values, count * sizeof *values));
  free(values);
  return tensor;
}

static pl_value constant(pl_graph graph, pl_tensor tensor) {
  pl_value value;
  TRY(pl_graph_constant(graph, NULL, tensor, &value));
  TRY(pl_tensor_release(tensor)); /* the graph keeps it */
  return value;
}

/* `late`: attributes that follow from sizes. */
static pl_value op_late(pl_graph graph, const char* name, const char* text, const char* late, pl_value a, pl_value b) {
  pl_value inputs[2], result;
  pl_attributes attributes;
  inputs[0] = a, inputs[1] = b;
  TRY(pl_attributes_create(text, &attributes));
  TRY(pl_graph_op_late(graph, name, attributes, late, inputs, b == PL_NO_VALUE ? 1 : 2, NULL, &result, NULL));
  TRY(pl_attributes_release(attributes));
  return result;
}

static pl_value op(pl_graph graph, const char* name, const char* text, pl_value a, pl_value b) {
  return op_late(graph, name, text, "", a, b);
}

static pl_graph build(pl_context context) {
  const int64_t image[] = {1, C, SIZE, SIZE}, first[] = {OC, C, 3, 3}, second[] = {OC, OC, 3, 3};
  const int64_t head[] = {CLASSES, OC};
  pl_graph graph;
  pl_value x, y;
  TRY(pl_graph_create(context, &graph));
  TRY(pl_graph_input(graph, "image", PL_F32, 4, image, "n,,h,w", NULL, &x)); /* three sizes may be others in a run */
  TRY(pl_graph_require(graph, "h<=1024"));                                   /* for no larger ones */
  x = op(graph, "conv2d", "padding=1", x, constant(graph, weights(context, 4, first, 0.05f)));
  x = op(graph, "relu", NULL, x, PL_NO_VALUE); /* becomes part of the convolution */
  y = op(graph, "conv2d", "padding=1", x, constant(graph, weights(context, 4, second, 0.02f)));
  y = op(graph, "add", NULL, y, x); /* and so does the sum */
  y = op(graph, "global_avg_pool", NULL, y, PL_NO_VALUE);
  y = op_late(graph, "reshape", NULL, "shape=[n,32]", y, PL_NO_VALUE); /* OC channels each */
  y = op(graph, "linear", NULL, y, constant(graph, weights(context, 2, head, 0.1f)));
  TRY(pl_graph_output(graph, y, "scores", NULL));
  TRY(pl_graph_sizes(graph, NULL, PL_S64, "h*w", &y));
  TRY(pl_graph_output(graph, y, "pixels", NULL));
  return graph;
}

static void tell(void* user, const char* stage, double fraction) {
  (void)user;
  fprintf(stderr, "\r%-20s %3.0f%%", stage, 100 * fraction);
  if (fraction >= 1) fprintf(stderr, "\n");
}

/* Of any sizes: those that the plan has no program for yet take some milliseconds more. */
static void classify(pl_context context, pl_plan plan, int64_t n, int64_t h, int64_t w) {
  int64_t image[4], pixels;
  pl_tensor x, results[2] = {NULL, NULL};
  float values[IMAGES * CLASSES];
  int i, k;
  image[0] = n, image[1] = C, image[2] = h, image[3] = w;
  x = weights(context, 4, image, 0.1f);
  TRY(pl_plan_run(plan, &x, 1, results, 2));
  TRY(pl_tensor_read(results[0], values, (size_t)n * CLASSES * sizeof *values));
  TRY(pl_tensor_read(results[1], &pixels, sizeof pixels));
  printf("%d image(s) of %d pixels\n", (int)n, (int)pixels);
  for (i = 0; i < (int)n; i++)
    for (k = 0; k < CLASSES; k++) printf("class %d: %8.4f\n", k, values[i * CLASSES + k]);
  for (k = 0; k < 2; k++) TRY(pl_tensor_release(results[k]));
  TRY(pl_tensor_release(x));
}

int main(int argc, char** argv) {
  const char* path = argc > 1 ? argv[1] : "graph-example.plan";
  pl_context context;
  pl_plan plan;
  char* text;

  TRY(pl_context_create("opencl=false", &context));
  if (pl_plan_load(context, path, NULL, &plan) == PL_OK) {
    printf("read from %s\n", path);
  } else { /* not there yet, or made on another machine: pl_last_error() says which */
    pl_graph graph = build(context);
    TRY(pl_graph_describe(graph, "text", &text));
    printf("%s\n", text);
    pl_string_free(text);
    TRY(pl_plan_compile(graph, "device=cpu seconds=5", tell, NULL, &plan));
    TRY(pl_graph_release(graph)); /* the plan has all it needs */
    TRY(pl_plan_save(plan, path));
  }
  TRY(pl_plan_explain(plan, &text));
  printf("%s\n", text);
  pl_string_free(text);

  classify(context, plan, 1, SIZE, SIZE);
  classify(context, plan, IMAGES, SIZE + 8, SIZE - 5);

  TRY(pl_plan_release(plan));
  TRY(pl_context_release(context));
  return 0;
}

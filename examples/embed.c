/* Embedding pylayout in a C program: a chain of convolutions over the program's own memory.
 *
 *   cc -std=c99 embed.c $(pkg-config --cflags --libs pylayout) -lm -o embed && ./embed
 *
 * The input image and the weights stay where the program has them (pl_tensor_borrow: no copy).  The chain keeps the
 * layout that is fastest between its ops; the last result is written into the program's own buffer, row-major. */
#include <stdio.h>
#include <stdlib.h>

#include "pylayout.h"

enum { N = 1, C = 16, SIZE = 32, OC = 32, CLASSES = 10 };

static int failed(pl_status status, const char* what) {
  if (status == PL_OK) return 0;
  fprintf(stderr, "%s: %s\n", what, pl_last_error()); /* names the op, the argument, what was expected and what came */
  return 1;
}
#define TRY(call) \
  if (failed(call, #call)) exit(1)

static float* numbers(size_t count, float scale) {
  float* values = malloc(count * sizeof *values);
  size_t i;
  if (!values) exit(1);
  for (i = 0; i < count; i++) values[i] = scale * (float)((i * 37 + 11) % 17 - 8.0);
  return values;
}

static void tell(void* user) { printf("the memory of %s is the program's again\n", (const char*)user); }

int main(void) {
  const int64_t image_shape[] = {N, C, SIZE, SIZE}, first_shape[] = {OC, C, 3, 3}, second_shape[] = {OC, OC, 3, 3};
  const int64_t head_shape[] = {CLASSES, OC}, scores_shape[] = {N, CLASSES};
  float *image = numbers(N * C * SIZE * SIZE, 0.1f), *first = numbers(OC * C * 9, 0.05f);
  float *second = numbers(OC * OC * 9, 0.02f), *head = numbers(CLASSES * OC, 0.1f), scores[N * CLASSES];
  pl_context context;
  pl_tensor x, w1, w2, w3, result, inputs[2], h1 = NULL, h2 = NULL, pooled = NULL, flat = NULL;
  pl_attributes same, strided, flatten;
  int i, best = 0, pass;

  TRY(pl_context_create("opencl=false", &context));

  /* The image lies in memory as NHWC, as many decoders give it; its shape is (n, c, h, w) all the same. */
  TRY(pl_tensor_borrow(context, PL_F32, 4, image_shape, "NHWC", NULL, image, tell, "the image", &x));
  TRY(pl_tensor_borrow(context, PL_F32, 4, first_shape, NULL, NULL, first, NULL, NULL, &w1));
  TRY(pl_tensor_borrow(context, PL_F32, 4, second_shape, NULL, NULL, second, NULL, NULL, &w2));
  TRY(pl_tensor_borrow(context, PL_F32, 2, head_shape, NULL, NULL, head, NULL, NULL, &w3));
  TRY(pl_tensor_borrow(context, PL_F32, 2, scores_shape, NULL, NULL, scores, NULL, NULL, &result));

  /* Parsed once, used in every pass. */
  TRY(pl_attributes_create("padding=1 activation=relu", &same));
  TRY(pl_attributes_create("padding=1 stride=2 activation=relu", &strided));
  TRY(pl_attributes_create("start_dim=1", &flatten));

  for (pass = 0; pass < 3; pass++) { /* the weights are packed in the first pass and kept */
    inputs[0] = x, inputs[1] = w1;
    TRY(pl_op_run(context, "conv2d", same, inputs, 2, &h1, 1, NULL));
    inputs[0] = h1, inputs[1] = w2;
    TRY(pl_op_run(context, "conv2d", strided, inputs, 2, &h2, 1, NULL));
    TRY(pl_op_run(context, "global_avg_pool", NULL, &h2, 1, &pooled, 1, NULL));
    TRY(pl_op_run(context, "flatten", flatten, &pooled, 1, &flat, 1, NULL));
    inputs[0] = flat, inputs[1] = w3;
    /* `result` is given, so the scores are written into the program's array. */
    TRY(pl_op_run(context, "linear", NULL, inputs, 2, &result, 1, NULL));
    TRY(pl_synchronize(context, NULL));
    if (pass == 2) {
      pl_tensor_info info;
      TRY(pl_tensor_describe(h1, &info));
      printf("between the convolutions: %s, %zu bytes\n", info.layout, info.storage_bytes);
    }
    TRY(pl_tensor_release(h1));
    TRY(pl_tensor_release(h2));
    TRY(pl_tensor_release(pooled));
    TRY(pl_tensor_release(flat));
    h1 = h2 = pooled = flat = NULL;
    /* A new image in the same memory: say so, for copies in other layouts that were kept. */
    if (pass < 2) image[0] += 1.0f;
    TRY(pl_tensor_touch(x));
  }
  for (i = 0; i < CLASSES; i++) {
    printf("class %d: %8.4f\n", i, scores[i]);
    if (scores[i] > scores[best]) best = i;
  }
  printf("best: %d\n", best);

  TRY(pl_attributes_release(same));
  TRY(pl_attributes_release(strided));
  TRY(pl_attributes_release(flatten));
  TRY(pl_tensor_release(result));
  TRY(pl_tensor_release(x));
  TRY(pl_tensor_release(w1));
  TRY(pl_tensor_release(w2));
  TRY(pl_tensor_release(w3));
  TRY(pl_context_release(context));
  free(image);
  free(first);
  free(second);
  free(head);
  return 0;
}

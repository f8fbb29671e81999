/* Results that are written into an input through the C ABI: a product is added to what its destination holds. */
#include "abi.h"

/* y += x w^T, three times, then a gate of y itself. */
TEST("products_are_added_to_their_destination") {
  enum { ROWS = 3, TERMS = 2, COLUMNS = 4, SIZE = ROWS * COLUMNS };
  const int64_t x_shape[] = {ROWS, TERMS}, w_shape[] = {COLUMNS, TERMS}, y_shape[] = {ROWS, COLUMNS};
  const float x_values[] = {1, 2, 3, 4, 5, 6}, w_values[] = {1, 0, 0, 1, 1, 1, 2, -1};
  float held[SIZE], found[SIZE];
  int i, run;
  pl_context context = make_context();
  pl_attributes gated = NULL;
  pl_tensor x, w, y, inputs[5], outputs[1];
  for (i = 0; i < SIZE; i++) held[i] = (float)i;
  x = make_tensor(context, 2, x_shape, NULL, x_values, 6);
  w = make_tensor(context, 2, w_shape, NULL, w_values, 8);
  y = make_tensor(context, 2, y_shape, NULL, held, SIZE);
  inputs[0] = x, inputs[1] = w, inputs[2] = NULL, inputs[3] = y, inputs[4] = NULL;
  outputs[0] = y;
  for (run = 1; run <= 4; run++) {
    size_t count = 0;
    if (run == 4) {
      OK(pl_attributes_create("post_ops=\"multiply(gate)\"", &gated));
      inputs[3] = NULL, inputs[4] = y;
    }
    OK(pl_op_run(context, "linear", gated, inputs, 5, outputs, 1, &count));
    CHECK_EQUAL(count, 1);
    CHECK(outputs[0] == y);
    OK(pl_tensor_read(y, found, sizeof found));
    for (i = 0; i < SIZE; i++) {
      const float* row = x_values + i / COLUMNS * TERMS;
      const float* column = w_values + i % COLUMNS * TERMS;
      const float product = row[0] * column[0] + row[1] * column[1];
      held[i] = run == 4 ? held[i] * product : held[i] + product;
      CHECK_EQUAL(found[i], held[i]);
    }
  }
  inputs[4] = x;
  FAILS(PL_ERROR_SHAPE, "linear: gate.shape is (3, 2), expected (3, 4)",
        pl_op_run(context, "linear", gated, inputs, 5, outputs, 1, NULL));
  OK(pl_attributes_release(gated));
  OK(pl_tensor_release(x));
  OK(pl_tensor_release(w));
  OK(pl_tensor_release(y));
  OK(pl_context_release(context));
}

/* pl_context_interrupt: a caller ends calls that measure, and goes on afterwards. */
#include "abi.h"

static int asked;

static int stop(void* user) {
  ++asked;
  return *(int*)user;
}

TEST("all") {
  pl_context context;
  pl_tensor x, inputs[1], y = NULL;
  const int64_t shape[4] = {1, 16, 32, 32};
  int answer = 1;
  char* json = NULL;
  context = make_context();
  OK(pl_costs_clear(context)); /* of an earlier run of this test */
  OK(pl_context_set(context, "tune=auto"));
  OK(pl_tensor_create(context, "cpu", PL_F32, 4, shape, NULL, &x));
  inputs[0] = x;
  FAILS(PL_ERROR_INVALID_ARGUMENT, "context is NULL", pl_context_interrupt(NULL, stop, &answer));

  OK(pl_context_interrupt(context, stop, &answer));
  FAILS(PL_ERROR_INTERRUPTED, "interrupted", pl_calibrate(context, "cpu", &json));
  CHECK(json == NULL);
  CHECK(asked > 0);
  OK(pl_context_set(context, "tune=off"));
  OK(pl_op_run(context, "relu", NULL, inputs, 1, &y, 1, NULL)); /* asks nothing: it measures nothing */
  OK(pl_tensor_release(y));

  answer = 0;
  asked = 0;
  OK(pl_context_set(context, "tune=auto"));
  OK(pl_calibrate(context, "cpu", &json));
  CHECK(asked > 0);
  pl_string_free(json);

  asked = 0;
  OK(pl_context_interrupt(context, NULL, NULL));
  OK(pl_calibrate(context, "cpu", &json));
  CHECK_EQUAL(asked, 0);
  pl_string_free(json);
  OK(pl_tensor_release(x));
  OK(pl_context_release(context));
}

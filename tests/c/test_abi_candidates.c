/* Candidates run one by one: on data of the caller, in strided views, and what is refused. */
#include <math.h>

#include "abi.h"

static const int64_t kShape[4] = {2, 32, 3, 5};
static const int64_t kWeights[4] = {16, 32, 1, 1};

static int count(const char* text, const char* word) {
  int found = 0;
  for (text = strstr(text, word); text; text = strstr(text + 1, word)) ++found;
  return found;
}

/* Runs every candidate of a convolution by ones; returns how many there are. */
static int run_all(pl_context context, const char* options) {
  enum { kResults = 2 * 16 * 3 * 5 };
  static float values[2 * 32 * 3 * 5], weights[16 * 32], results[kResults];
  pl_tensor inputs[2], output = NULL;
  pl_candidates candidates;
  char *json, *report;
  int i, n, total;
  for (i = 0; i < 2 * 32 * 3 * 5; i++) values[i] = 1;
  for (i = 0; i < 16 * 32; i++) weights[i] = (float)(i / 32);
  inputs[0] = make_tensor(context, 4, kShape, NULL, values, 2 * 32 * 3 * 5);
  inputs[1] = make_tensor(context, 4, kWeights, NULL, weights, 16 * 32);
  OK(pl_op_candidates(context, "conv2d", NULL, inputs, 2, options, &candidates));
  OK(pl_candidates_describe(candidates, &json));
  total = count(json, "\"key\"");
  pl_string_free(json);
  for (i = 0; i < total; i++) {
    size_t outputs = 0;
    pl_tensor_info info;
    OK(pl_candidates_run(candidates, (size_t)i, &output, 1, &outputs, &report));
    CHECK(strstr(report, "\"damage\": []"));
    CHECK(strstr(report, "\"prepared\": true"));
    pl_string_free(report);
    CHECK_EQUAL(outputs, 1);
    OK(pl_tensor_describe(output, &info));
    CHECK(!strcmp(info.layout, "NCHW"));
    CHECK(!strcmp(info.device, "cpu"));
    CHECK(info.is_dense);
    OK(pl_tensor_read(output, results, sizeof results));
    for (n = 0; n < kResults; n++) CHECK(fabsf(results[n] - (float)(32 * (n / 15 % 16))) < 1e-3f);
    OK(pl_tensor_release(output));
  }
  OK(pl_candidates_release(candidates));
  OK(pl_tensor_release(inputs[0]));
  OK(pl_tensor_release(inputs[1]));
  return total;
}

TEST("all") {
  pl_context context = make_context();
  pl_tensor x = make_tensor(context, 4, kShape, NULL, NULL, 0), y[2] = {NULL, NULL};
  pl_candidates candidates;
  size_t outputs = 0;
  char* json;
  CHECK(run_all(context, NULL) > 1); /* the reference, and the vector code; further ones by provider */
  CHECK(run_all(context, "input_strided=true output_strided=true strided_layout=NHWC") > 0);
  CHECK(run_all(context, "output_strided=true strided_layout=nChw8c") >= 0);
  CHECK(run_all(context, "shifted=true") > 1);

  FAILS(PL_ERROR_INVALID_ARGUMENT, "no option \"nonsense\"",
        pl_op_candidates(context, "relu", NULL, &x, 1, "nonsense=1", &candidates));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "strided_layout is not given",
        pl_op_candidates(context, "relu", NULL, &x, 1, "input_strided=true", &candidates));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "expected true or false",
        pl_op_candidates(context, "relu", NULL, &x, 1, "every_point=3", &candidates));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "is NULL", pl_op_candidates(context, "relu", NULL, &x, 1, NULL, NULL));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "is NULL", pl_candidates_release(NULL));

  /* A view has none; wrong places and too little room are refused. */
  {
    pl_attributes attributes;
    OK(pl_attributes_create("dims=[0,2,3,1]", &attributes));
    OK(pl_op_candidates(context, "permute", attributes, &x, 1, NULL, &candidates));
    OK(pl_candidates_describe(candidates, &json));
    CHECK(strstr(json, "\"candidates\": []"));
    CHECK(strstr(json, "\"view\": true"));
    pl_string_free(json);
    OK(pl_candidates_release(candidates));
    OK(pl_attributes_release(attributes));
  }
  OK(pl_op_candidates(context, "relu", NULL, &x, 1, NULL, &candidates));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "expected less than", pl_candidates_run(candidates, 99, y, 2, NULL, &json));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "room for 0, expected 1", pl_candidates_run(candidates, 0, y, 0, &outputs, &json));
  CHECK_EQUAL(outputs, 1);
  FAILS(PL_ERROR_INVALID_ARGUMENT, "is NULL", pl_candidates_run(candidates, 0, NULL, 1, NULL, &json));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "is NULL", pl_candidates_run(candidates, 0, y, 1, NULL, NULL));
  OK(pl_candidates_release(candidates));
  FAILS(PL_ERROR_INVALID_ARGUMENT, "was released", pl_candidates_describe(candidates, &json));
  OK(pl_tensor_release(x));
  OK(pl_context_release(context));
}

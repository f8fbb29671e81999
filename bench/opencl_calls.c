/* What a call of a product costs on a device, from C, beside dlprimitives' own loop of such products:
 *
 *   build/bench/opencl_calls [device] [what dlprimitives' dlprim_flops printed]     (default: opencl:0)
 *
 * Microseconds a product from many queued in a row, until the device is done with all of them, and of the host alone;
 * the median of some rounds.  "given": into a result that exists, as in dlprimitives' loop; "new": with a result
 * allocated for each; "plan": a compiled graph of that one op, into a result that exists.  Of dlprimitives' products,
 * each with its time there and how many times as fast "given" is; without its output, of its two smallest shapes. */
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <string.h>

#include "calls.h"

#define ROUNDS 15
#define LEAST_US 3000. /* of a round */

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

typedef struct {
  pl_context context;
  const char* device;
  pl_attributes attributes; /* of the op; for a plan NULL */
  pl_plan plan;             /* or NULL */
  pl_tensor inputs[2], result;
  int allocating;
} Call;

static void call_once(Call* call) {
  pl_tensor fresh = NULL;
  if (call->plan) {
    check(pl_plan_run(call->plan, call->inputs, 2, &call->result, 1));
  } else {
    check(pl_op_run(call->context, "matmul", call->attributes, call->inputs, 2,
                    call->allocating ? &fresh : &call->result, 1, NULL));
    if (fresh) check(pl_tensor_release(fresh));
  }
}

static void measure(Call* call, double* host, double* all) {
  double hosts[ROUNDS], alls[ROUNDS];
  int round = 0, calls = 8, i;
  for (i = 0; i < 5; i++) call_once(call); /* prepares it */
  while (round < ROUNDS) {
    double start, taken;
    check(pl_synchronize(call->context, call->device));
    start = now_us();
    for (i = 0; i < calls; i++) call_once(call);
    hosts[round] = (now_us() - start) / calls;
    check(pl_synchronize(call->context, call->device));
    taken = now_us() - start;
    alls[round] = taken / calls;
    if (round == 0 && taken < LEAST_US) {
      calls *= 2;
    } else {
      round++;
    }
  }
  qsort(hosts, ROUNDS, sizeof *hosts, by_value);
  qsort(alls, ROUNDS, sizeof *alls, by_value);
  *host = hosts[ROUNDS / 2];
  *all = alls[ROUNDS / 2];
}

static pl_plan compile(pl_context context, const char* device, pl_attributes attributes, const int64_t* a,
                       const int64_t* b) {
  pl_graph graph;
  pl_value values[2], product;
  pl_plan plan;
  char options[100];
  check(pl_graph_create(context, &graph));
  check(pl_graph_input(graph, "a", PL_F32, 2, a, NULL, NULL, &values[0]));
  check(pl_graph_input(graph, "b", PL_F32, 2, b, NULL, NULL, &values[1]));
  check(pl_graph_op(graph, "matmul", attributes, values, 2, NULL, &product, NULL));
  check(pl_graph_output(graph, product, "c", NULL));
  snprintf(options, sizeof options, "device=\"%s\"", device);
  check(pl_plan_compile(graph, options, NULL, NULL, &plan));
  check(pl_graph_release(graph));
  return plan;
}

static pl_tensor filled(pl_context context, const char* device, const int64_t* shape) {
  const size_t count = (size_t)(shape[0] * shape[1]);
  float* values = malloc(count * sizeof *values);
  pl_tensor tensor;
  size_t i;
  if (!values) exit(1);
  for (i = 0; i < count; i++) values[i] = (float)(i % 17) / 17 - 0.5f;
  check(pl_tensor_create(context, device, PL_F32, 2, shape, NULL, &tensor));
  check(pl_tensor_write(tensor, values, count * sizeof *values));
  free(values);
  return tensor;
}

/* theirs: microseconds that dlprimitives takes; 0: unknown. */
static void run(pl_context context, const char* device, int m, int n, int k, int transpose_a, int transpose_b,
                double theirs) {
  const int64_t a[2] = {transpose_a ? k : m, transpose_a ? m : k}, b[2] = {transpose_b ? n : k, transpose_b ? k : n};
  const int64_t c[2] = {m, n};
  double host[3], all[3];
  char text[100];
  Call call;
  memset(&call, 0, sizeof call);
  call.context = context;
  call.device = device;
  snprintf(text, sizeof text, "transpose_a=%s transpose_b=%s", transpose_a ? "true" : "false",
           transpose_b ? "true" : "false");
  check(pl_attributes_create(text, &call.attributes));
  call.inputs[0] = filled(context, device, a);
  call.inputs[1] = filled(context, device, b);
  check(pl_tensor_create(context, device, PL_F32, 2, c, NULL, &call.result));
  measure(&call, &host[0], &all[0]);
  call.allocating = 1;
  measure(&call, &host[1], &all[1]);
  call.plan = compile(context, device, call.attributes, a, b);
  measure(&call, &host[2], &all[2]);
  printf("%c%c %4dx%4dx%4d %8.2f (host %6.2f) %8.2f (host %6.2f) %8.2f (host %6.2f)", "NT"[transpose_a],
         "NT"[transpose_b], m, n, k, all[0], host[0], all[1], host[1], all[2], host[2]);
  if (theirs > 0) printf(" %8.2f %6.2f", theirs, theirs / all[0]);
  printf("\n");
  fflush(stdout);
  check(pl_plan_release(call.plan));
  check(pl_attributes_release(call.attributes));
  check(pl_tensor_release(call.inputs[0]));
  check(pl_tensor_release(call.inputs[1]));
  check(pl_tensor_release(call.result));
}

/* Lines such as "  NT  5:   64, 2048,   64     2204.4 GFlops ...". */
static void run_table(pl_context context, const char* device, FILE* table) {
  char line[300], a, b;
  int number, m, n, k;
  double gflops;
  while (fgets(line, sizeof line, table))
    if (sscanf(line, " %c%c %d: %d, %d, %d %lf GFlops", &a, &b, &number, &m, &n, &k, &gflops) == 7 &&
        (a == 'N' || a == 'T') && (b == 'N' || b == 'T') && gflops > 0)
      run(context, device, m, n, k, a == 'T', b == 'T', 2e-3 * m * n * k / gflops);
}

int main(int argc, char** argv) {
  const char* device = argc > 1 ? argv[1] : "opencl:0";
  FILE* table = argc > 2 ? fopen(argv[2], "r") : NULL;
  pl_context context;
  int letters;
  if (argc > 2 && !table) {
    fprintf(stderr, "%s: could not be read\n", argv[2]);
    return 1;
  }
  check(pl_context_create(NULL, &context));
  if (argc < 2 && pl_synchronize(context, device) != PL_OK) {
    printf("needs an OpenCL device: %s\n", pl_last_error());
    return 0;
  }
  printf("product             given                  new                    plan%s  (us on %s)\n",
         table ? "                   dlprimitives  ratio" : "", device);
  if (table) {
    run_table(context, device, table);
    fclose(table);
  } else {
    for (letters = 0; letters < 4; letters++) run(context, device, 64, 2048, 64, letters >> 1, letters & 1, 0);
    for (letters = 0; letters < 4; letters++) run(context, device, 2048, 64, 64, letters >> 1, letters & 1, 0);
  }
  check(pl_context_release(context));
  return 0;
}

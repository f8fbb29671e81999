/* Helpers of the Python extension, compiled into it after pylayout.h (see cmake/make_core.py).
 *
 * pyl_run*: an op call without arrays made in Python.  The result is the one output, or NULL where the call
 * failed or has another number of outputs; pyl_last_outcome then tells this thread which. */
#include "_torch_tensors.h"

typedef struct pyl_outcome {
  int status;
  size_t count;
  pl_tensor outputs[1024];
} pyl_outcome;

static __thread pyl_outcome pyl_outcome_of_thread;

static pl_tensor pyl_run(pl_context context, const char* op, pl_attributes attributes, const pl_tensor* inputs,
                         size_t input_count) {
  pyl_outcome* outcome = &pyl_outcome_of_thread;
  size_t i;
  for (i = 0; i < outcome->count; i++) outcome->outputs[i] = NULL; /* of the call before: not destinations */
  outcome->count = 0;
  {
    size_t count = 0;
    outcome->status = pl_op_run(context, op, attributes, inputs, input_count, outcome->outputs,
                                sizeof outcome->outputs / sizeof outcome->outputs[0], &count);
    if (outcome->status != PL_OK) return NULL;
    outcome->count = count;
    return count == 1 ? outcome->outputs[0] : NULL;
  }
}

static pl_tensor pyl_run1(pl_context context, const char* op, pl_attributes attributes, pl_tensor a) {
  return pyl_run(context, op, attributes, &a, 1);
}

static pl_tensor pyl_run2(pl_context context, const char* op, pl_attributes attributes, pl_tensor a, pl_tensor b) {
  const pl_tensor inputs[2] = {a, b};
  return pyl_run(context, op, attributes, inputs, 2);
}

static pl_tensor pyl_run5(pl_context context, const char* op, pl_attributes attributes, size_t input_count, pl_tensor a,
                          pl_tensor b, pl_tensor c, pl_tensor d, pl_tensor e) {
  const pl_tensor inputs[5] = {a, b, c, d, e};
  return pyl_run(context, op, attributes, inputs, input_count);
}

static const pyl_outcome* pyl_last_outcome(void) { return &pyl_outcome_of_thread; }

/* A plan on memory whose addresses Python gives as numbers, which cffi passes without making pointers of them. */
static int pyl_plan_run(pl_plan plan, const size_t* inputs, size_t input_count, const size_t* outputs,
                        size_t output_count) {
  return pl_plan_run_memory(plan, (const void* const*)inputs, input_count, (void* const*)outputs, output_count);
}

/* The same at these sizes of the plan's named axes. */
static int pyl_plan_run_at(pl_plan plan, const int64_t* sizes, size_t size_count, const size_t* inputs,
                           size_t input_count, const size_t* outputs, size_t output_count) {
  return pl_plan_run_memory_at(plan, sizes, size_count, (const void* const*)inputs, input_count, (void* const*)outputs,
                               output_count);
}

/* The destructor of a DLPack capsule that nobody consumed.  A consumer renames the capsule and takes over. */
typedef struct pyl_managed { /* the tail of DLPack's DLManagedTensor, after its 48-byte tensor */
  char tensor[48];
  void* manager_context;
  void (*deleter)(struct pyl_managed* self);
} pyl_managed;

static void pyl_free_capsule(PyObject* capsule) {
  pyl_managed* managed;
  if (!PyCapsule_IsValid(capsule, "dltensor")) return;
  managed = (pyl_managed*)PyCapsule_GetPointer(capsule, "dltensor");
  if (managed != NULL && managed->deleter != NULL) managed->deleter(managed);
}

static size_t pyl_capsule_destructor(void) { return (size_t)&pyl_free_capsule; }

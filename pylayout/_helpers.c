/* Helpers of the Python extension, compiled into it after pylayout.h (see cmake/make_core.py).
 *
 * pyl_run*: an op call without arrays made in Python.  The result is the one output, or NULL where the call
 * failed or has another number of outputs; pyl_last_outcome then tells this thread which. */
#include <pthread.h>
#include <unistd.h>

#include "_torch_tensors.h"

/* Callbacks into Python.  Where the interpreter ends, it ends other threads than the main one as they ask for it, by
 * unwinding their stacks, and those of the library are not made for that.  So from pyl_end_callbacks() on they no longer
 * ask; it waits for those that do at that time. */
static size_t pyl_main_thread, pyl_raised;
static int pyl_ending, pyl_calling;

static int pyl_is_main_thread(void) { return (size_t)pthread_self() == __atomic_load_n(&pyl_main_thread, __ATOMIC_RELAXED); }

static int pyl_may_call(void) {
  if (pyl_is_main_thread()) return 1;
  __atomic_add_fetch(&pyl_calling, 1, __ATOMIC_SEQ_CST);
  if (!__atomic_load_n(&pyl_ending, __ATOMIC_SEQ_CST)) return 1;
  __atomic_sub_fetch(&pyl_calling, 1, __ATOMIC_SEQ_CST);
  return 0;
}

static void pyl_has_called(void) {
  if (!pyl_is_main_thread()) __atomic_sub_fetch(&pyl_calling, 1, __ATOMIC_SEQ_CST);
}

static void pyl_set_main_thread(size_t thread) { __atomic_store_n(&pyl_main_thread, thread, __ATOMIC_RELAXED); }

/* How many errors callbacks have raised that no call has taken yet. */
static void pyl_set_raised(size_t count) { __atomic_store_n(&pyl_raised, count, __ATOMIC_RELEASE); }

/* Without the interpreter's lock, which those that are waited for may need. */
static void pyl_end_callbacks(void) {
  int i;
  __atomic_store_n(&pyl_ending, 1, __ATOMIC_SEQ_CST);
  for (i = 0; i < 1000 && __atomic_load_n(&pyl_calling, __ATOMIC_SEQ_CST); i++) usleep(1000);
}

static void pyl_python_release_owner(void* user);
static int pyl_python_interrupted(void* user);
static void pyl_python_plan_progress(void* user, const char* stage, double fraction);
static int pyl_python_tune_progress(void* user, const char* what, double fraction);

static void pyl_release_owner(void* user) {
  if (!pyl_may_call()) return; /* the process ends, and its memory with it */
  pyl_python_release_owner(user);
  pyl_has_called();
}

/* Handlers of signals run in the main thread, so others ask only where a callback has raised. */
static int pyl_interrupted(void* user) {
  int answer;
  if (!pyl_is_main_thread() && !__atomic_load_n(&pyl_raised, __ATOMIC_ACQUIRE)) return 0;
  if (!pyl_may_call()) return 1;
  answer = pyl_python_interrupted(user);
  pyl_has_called();
  return answer;
}

static void pyl_plan_progress(void* user, const char* stage, double fraction) {
  if (!pyl_may_call()) return;
  pyl_python_plan_progress(user, stage, fraction);
  pyl_has_called();
}

static int pyl_tune_progress(void* user, const char* what, double fraction) {
  int answer;
  if (!pyl_may_call()) return 1;
  answer = pyl_python_tune_progress(user, what, fraction);
  pyl_has_called();
  return answer;
}

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

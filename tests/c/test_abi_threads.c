/* Threads that share a context and handles: results are right, errors are each thread's own, and releasing a handle
 * while others use it is answered, not crashed on. Meant for TSan as well. */
#include <pthread.h>

#include "abi.h"

#define THREADS 4
#define ROUNDS 60

static const int64_t kShape[4] = {1, 8, 6, 6};
enum { kCount = 8 * 6 * 6 };

static pl_context context;
static pl_tensor shared;

/* C99 has no atomics of its own: these are the compilers'. */
#define LOAD(place) __atomic_load_n(&(place), __ATOMIC_SEQ_CST)
#define STORE(place, value) __atomic_store_n(&(place), (value), __ATOMIC_SEQ_CST)
static pl_tensor contested;
static int stopped;
static int releases;

static void count_release(void* user) {
  (void)user;
  __atomic_fetch_add(&releases, 1, __ATOMIC_SEQ_CST);
}

static void* run_ops(void* argument) {
  const int number = (int)(size_t)argument;
  static const char* const layouts[] = {"layout=NCHW", "layout=NHWC", "layout=nChw8c", "layout=auto"};
  pl_attributes attributes;
  char expected[64];
  float* values = malloc(kCount * sizeof(float));
  int round, i;
  OK(pl_attributes_create(layouts[number % 4], &attributes));
  snprintf(expected, sizeof expected, "device \"none%d\"", number);
  for (round = 0; round < ROUNDS; round++) {
    pl_tensor inputs[2], sum = NULL, converted;
    inputs[0] = inputs[1] = shared;
    OK(pl_op_run(context, "add", attributes, inputs, 2, &sum, 1, NULL));
    OK(pl_tensor_read(sum, values, kCount * sizeof(float)));
    for (i = 0; i < kCount; i++) CHECK_EQUAL(values[i], 2.0f * (float)i);
    FAILS(PL_ERROR_DEVICE, expected, pl_synchronize(context, expected + 8)); /* none0" and so on */
    OK(pl_tensor_convert(shared, NULL, round % 2 ? "nChw8c" : "NHWC", NULL, &converted));
    CHECK(strstr(pl_last_error(), expected)); /* what others do does not change it */
    OK(pl_tensor_release(converted));
    OK(pl_tensor_release(sum));
  }
  OK(pl_attributes_release(attributes));
  free(values);
  return NULL;
}

/* Makes borrowed tensors, shows each to the users and releases it while they work. */
static void* release_contested(void* argument) {
  static float memory[kCount];
  int round;
  (void)argument;
  for (round = 0; round < 20 * ROUNDS; round++) {
    pl_tensor made;
    OK(pl_tensor_borrow(context, PL_F32, 4, kShape, "NHWC", NULL, memory, count_release, NULL, &made));
    STORE(contested, made);
    OK(pl_tensor_release(made));
  }
  STORE(stopped, 1);
  return NULL;
}

static void* use_contested(void* argument) {
  int* completed = argument;
  while (!LOAD(stopped)) {
    pl_tensor tensor = LOAD(contested);
    pl_tensor_info info;
    pl_tensor same;
    pl_status status;
    if (!tensor) continue;
    status = pl_tensor_describe(tensor, &info);
    CHECK(status == PL_OK || status == PL_ERROR_INVALID_ARGUMENT);
    if (status == PL_OK) {
      CHECK_EQUAL(info.rank, 4);
      CHECK(info.is_borrowed);
      CHECK(++*completed);
    }
    status = pl_tensor_retain(tensor, &same);
    CHECK(status == PL_OK || status == PL_ERROR_INVALID_ARGUMENT);
    if (status == PL_OK) OK(pl_tensor_release(same));
  }
  return NULL;
}

/* Many threads release one handle: one of them succeeds. */
static void* release_once(void* argument) {
  pl_tensor tensor = argument;
  const pl_status status = pl_tensor_release(tensor);
  CHECK(status == PL_OK || status == PL_ERROR_INVALID_ARGUMENT);
  return (void*)(size_t)(status == PL_OK);
}

/* Attributes change while others call with them. */
static pl_attributes changing;

static void* change_attributes(void* argument) {
  int round;
  (void)argument;
  for (round = 0; round < 10 * ROUNDS; round++)
    OK(pl_attributes_set_float(changing, "negative_slope", round % 2 ? 0.5 : 0.25));
  return NULL;
}

static void* call_with_attributes(void* argument) {
  int round;
  (void)argument;
  for (round = 0; round < ROUNDS; round++) {
    pl_tensor out = NULL;
    OK(pl_op_run(context, "leaky_relu", changing, &shared, 1, &out, 1, NULL));
    OK(pl_tensor_release(out));
  }
  return NULL;
}

/* Options change while others work. */
static void* change_options(void* argument) {
  int round;
  (void)argument;
  for (round = 0; round < ROUNDS / 4; round++) {
    OK(pl_context_set(context, round % 2 ? "threads=1 tune=auto" : "threads=2 tune=off"));
    OK(pl_memory_release_caches(context));
  }
  return NULL;
}

static void join_all(pthread_t* threads, int count) {
  int i;
  for (i = 0; i < count; i++) REQUIRE(pthread_join(threads[i], NULL) == 0);
}

TEST("all") {
  pthread_t threads[THREADS + 1];
  float values[kCount];
  int completed[THREADS] = {0}, i, round;
  context = make_context();
  for (i = 0; i < kCount; i++) values[i] = (float)i;
  shared = make_tensor(context, 4, kShape, NULL, values, kCount);

  for (i = 0; i < THREADS; i++) REQUIRE(!pthread_create(&threads[i], NULL, run_ops, (void*)(size_t)i));
  REQUIRE(!pthread_create(&threads[THREADS], NULL, change_options, NULL));
  join_all(threads, THREADS + 1);

  for (i = 0; i < THREADS; i++) REQUIRE(!pthread_create(&threads[i], NULL, use_contested, &completed[i]));
  REQUIRE(!pthread_create(&threads[THREADS], NULL, release_contested, NULL));
  join_all(threads, THREADS + 1);
  CHECK_EQUAL(LOAD(releases), 20 * ROUNDS); /* each memory was given back, once */

  for (round = 0; round < ROUNDS; round++) {
    pl_tensor tensor = make_tensor(context, 4, kShape, NULL, NULL, 0);
    size_t succeeded = 0;
    for (i = 0; i < THREADS; i++) REQUIRE(!pthread_create(&threads[i], NULL, release_once, tensor));
    for (i = 0; i < THREADS; i++) {
      void* result;
      REQUIRE(!pthread_join(threads[i], &result));
      succeeded += (size_t)result;
    }
    CHECK_EQUAL(succeeded, 1);
  }

  OK(pl_attributes_create("negative_slope=0.5", &changing));
  REQUIRE(!pthread_create(&threads[0], NULL, change_attributes, NULL));
  for (i = 1; i < THREADS; i++) REQUIRE(!pthread_create(&threads[i], NULL, call_with_attributes, NULL));
  join_all(threads, THREADS);
  OK(pl_attributes_release(changing));

  OK(pl_tensor_release(shared));
  OK(pl_context_release(context));
}

/* An OpenMP runtime for builds with ThreadSanitizer, linked into every test of one, where it takes the place of libgomp
 * for the library and for oneDNN.  libgomp is not instrumented: its barriers by futex are not seen, so that each region
 * would be a race.  Here threads meet by semaphores and barriers of pthreads alone, which are seen.
 *
 * It has what the library and libdnnl.so call, as GCC's ABI has it (`nm -D --undefined-only`); what it lacks would be
 * libgomp's, which knows nothing of these teams.  Regions within regions have one thread, libgomp's default. */
#define _GNU_SOURCE
#include <errno.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define PUBLIC __attribute__((visibility("default")))

typedef struct Team Team;

/* What a thread is in the region that it runs. */
typedef struct Context {
  Team* team;
  int rank, level, active; /* active: regions of several threads that it is within */
  int threads;             /* for the next region; 0: as many as there are processors */
  unsigned barriers;       /* it has passed */
  struct {
    long begin, end, step, chunk, round;
  } loop;
} Context;

struct Team {
  void (*work)(void*);
  void* data;
  int size;
  Context outer; /* of the thread that began it */
  /* They take turns: a thread that is slow to leave one must not learn of what others did on their way to the next, or
   * races between the two would be hidden. */
  pthread_barrier_t barriers[2];
};

/* Workers have semaphores of their own for the same reason: nothing but the work itself orders them. */
typedef struct Worker {
  pthread_t thread;
  int rank;
  Team* team; /* NULL: it is to end */
  sem_t given, done;
} Worker;

typedef struct Pool {
  Worker** workers;
  int count;
} Pool;

static __thread Context self;
static __thread Pool* pool; /* of the regions that this thread begins */
static pthread_key_t pool_key;
static pthread_once_t pool_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t critical = PTHREAD_MUTEX_INITIALIZER;

static void check(int error, const char* call) {
  if (error == 0) return;
  fprintf(stderr, "tests/c/support/team.c: %s: error %d\n", call, error);
  abort();
}

static void wait_for(sem_t* semaphore) {
  while (sem_wait(semaphore) != 0) check(errno == EINTR ? 0 : errno, "sem_wait");
}

static void* work_on(void* argument) {
  Worker* worker = argument;
  for (;;) {
    wait_for(&worker->given);
    Team* team = worker->team;
    if (!team) return NULL;
    const Context outer = team->outer;
    self = (Context){.team = team,
                     .rank = worker->rank,
                     .level = outer.level + 1,
                     .active = outer.active + 1,
                     .threads = outer.threads};
    team->work(team->data);
    check(sem_post(&worker->done), "sem_post");
  }
}

static void end_pool(void* argument) {
  Pool* ended = argument;
  for (int i = 0; i < ended->count; ++i) {
    Worker* worker = ended->workers[i];
    worker->team = NULL;
    check(sem_post(&worker->given), "sem_post");
    check(pthread_join(worker->thread, NULL), "pthread_join");
    sem_destroy(&worker->given);
    sem_destroy(&worker->done);
    free(worker);
  }
  free(ended->workers);
  free(ended);
  pool = NULL;
}

static void make_key(void) { check(pthread_key_create(&pool_key, end_pool), "pthread_key_create"); }

static void grow_pool(int count) {
  check(pthread_once(&pool_once, make_key), "pthread_once");
  if (!pool) pool = calloc(1, sizeof *pool);
  check(pthread_setspecific(pool_key, pool), "pthread_setspecific");
  if (pool->count < count) pool->workers = realloc(pool->workers, (size_t)count * sizeof *pool->workers);
  while (pool->count < count) {
    Worker* worker = calloc(1, sizeof *worker);
    worker->rank = pool->count + 1;
    sem_init(&worker->given, 0, 0);
    sem_init(&worker->done, 0, 0);
    check(pthread_create(&worker->thread, NULL, work_on, worker), "pthread_create");
    pool->workers[pool->count++] = worker;
  }
}

/* ---- regions ---- */

PUBLIC void GOMP_parallel_start(void (*work)(void*), void* data, unsigned threads);
PUBLIC void GOMP_parallel_end(void);
PUBLIC void GOMP_parallel(void (*work)(void*), void* data, unsigned threads, unsigned flags);

/* The caller does its part itself, then ends the region.  `threads`: 0: the caller's number. */
void GOMP_parallel_start(void (*work)(void*), void* data, unsigned threads) {
  Team* team = calloc(1, sizeof *team);
  team->work = work;
  team->data = data;
  team->size = self.active ? 1 : threads ? (int)threads : omp_get_max_threads();
  team->outer = self;
  if (team->size > 1) {
    for (int i = 0; i < 2; ++i)
      check(pthread_barrier_init(&team->barriers[i], NULL, (unsigned)team->size), "pthread_barrier_init");
    grow_pool(team->size - 1);
    for (int i = 0; i < team->size - 1; ++i) {
      pool->workers[i]->team = team;
      check(sem_post(&pool->workers[i]->given), "sem_post");
    }
  }
  self = (Context){.team = team,
                   .level = team->outer.level + 1,
                   .active = team->outer.active + (team->size > 1),
                   .threads = team->outer.threads};
}

void GOMP_parallel_end(void) {
  Team* team = self.team;
  for (int i = 0; i < team->size - 1; ++i) wait_for(&pool->workers[i]->done);
  for (int i = 0; team->size > 1 && i < 2; ++i) pthread_barrier_destroy(&team->barriers[i]);
  self = team->outer;
  free(team);
}

void GOMP_parallel(void (*work)(void*), void* data, unsigned threads, unsigned flags) {
  (void)flags;
  GOMP_parallel_start(work, data, threads);
  work(data);
  GOMP_parallel_end();
}

/* ---- within a region ---- */

PUBLIC void GOMP_barrier(void);
PUBLIC void GOMP_critical_name_start(void** name);
PUBLIC void GOMP_critical_name_end(void** name);
PUBLIC bool GOMP_loop_static_start(long begin, long end, long step, long chunk, long* first, long* last);
PUBLIC bool GOMP_loop_static_next(long* first, long* last);
PUBLIC void GOMP_loop_end_nowait(void);

void GOMP_barrier(void) {
  if (self.team && self.team->size > 1) pthread_barrier_wait(&self.team->barriers[self.barriers++ % 2]);
}

/* One for all names. */
void GOMP_critical_name_start(void** name) {
  (void)name;
  check(pthread_mutex_lock(&critical), "pthread_mutex_lock");
}

void GOMP_critical_name_end(void** name) {
  (void)name;
  check(pthread_mutex_unlock(&critical), "pthread_mutex_unlock");
}

/* The thread's next iterations, from `first` to before `last`; false: there are none.  `chunk`: so many at a time, one
 * thread after the other; 0: equal parts, the first threads one more. */
bool GOMP_loop_static_next(long* first, long* last) {
  const long threads = omp_get_num_threads(), round = self.loop.round++;
  const long step = self.loop.step, count = (self.loop.end - self.loop.begin + step - (step > 0 ? 1 : -1)) / step;
  long from, to;
  if (self.loop.chunk > 0) {
    from = (round * threads + self.rank) * self.loop.chunk;
    to = from + self.loop.chunk;
  } else {
    const long part = count / threads, more = count % threads;
    from = round > 0 ? count : part * self.rank + (self.rank < more ? self.rank : more);
    to = from + part + (self.rank < more);
  }
  if (to > count) to = count;
  if (from >= to) return false;
  *first = self.loop.begin + from * step;
  *last = self.loop.begin + to * step;
  return true;
}

bool GOMP_loop_static_start(long begin, long end, long step, long chunk, long* first, long* last) {
  self.loop.begin = begin;
  self.loop.end = end;
  self.loop.step = step;
  self.loop.chunk = chunk;
  self.loop.round = 0;
  return GOMP_loop_static_next(first, last);
}

void GOMP_loop_end_nowait(void) {}

/* ---- what omp.h declares ---- */

PUBLIC int omp_get_num_procs(void) {
  cpu_set_t allowed;
  check(sched_getaffinity(0, sizeof allowed, &allowed) ? errno : 0, "sched_getaffinity");
  return CPU_COUNT(&allowed);
}

PUBLIC int omp_get_max_threads(void) {
  if (self.threads > 0) return self.threads;
  const char* set = getenv("OMP_NUM_THREADS");
  const int wanted = set ? atoi(set) : 0;
  return wanted > 0 ? wanted : omp_get_num_procs();
}

PUBLIC void omp_set_num_threads(int threads) { self.threads = threads > 0 ? threads : 1; }
PUBLIC int omp_get_num_threads(void) { return self.team ? self.team->size : 1; }
PUBLIC int omp_get_thread_num(void) { return self.rank; }
PUBLIC int omp_get_level(void) { return self.level; }
PUBLIC int omp_in_parallel(void) { return self.active > 0; }
PUBLIC int omp_get_initial_device(void) { return 0; }

/* Ends the threads of the caller's regions. */
PUBLIC int omp_pause_resource(omp_pause_resource_t kind, int device) {
  (void)kind, (void)device;
  if (self.active) return -1;
  if (!pool) return 0;
  Pool* ended = pool;
  check(pthread_setspecific(pool_key, NULL), "pthread_setspecific");
  end_pool(ended);
  return 0;
}

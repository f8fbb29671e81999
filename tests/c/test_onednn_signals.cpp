// oneDNN's products of matrices put their stack pointer into a buffer on the heap.  No signal handler may run then: its
// frame would overwrite what lies before that buffer.
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

#include <chrono>

#include "core/threads.h"
#include "onednn_testing.h"

using namespace pltest;

namespace {

thread_local bool calls = false, of_pool = false;  // the thread that runs kernels, the others of its pool
const char *stack_begin, *stack_end;               // of the former
volatile sig_atomic_t within = 0, astray = 0;      // handlers that ran on that, and where none should

void note_where(int) {
  char here;
  const char* volatile place = &here;
  if (calls && place >= stack_begin && place < stack_end)
    within = within + 1;
  else if (calls || of_pool)
    astray = astray + 1;
}

// Runs `work` while the process gets a signal every 50 us.
template <class Work>
void among_signals(Work&& work) {
  pthread_attr_t attributes;
  void* lowest = nullptr;
  size_t bytes = 0;
  REQUIRE(pthread_getattr_np(pthread_self(), &attributes) == 0);
  REQUIRE(pthread_attr_getstack(&attributes, &lowest, &bytes) == 0);
  pthread_attr_destroy(&attributes);
  stack_begin = static_cast<const char*>(lowest);
  stack_end = stack_begin + bytes;
  within = astray = 0;
  calls = true;
#pragma omp parallel
  of_pool = omp_get_thread_num() != 0;
  struct sigaction noting {
  }, before{};
  noting.sa_handler = note_where;
  noting.sa_flags = SA_RESTART;
  REQUIRE(sigaction(SIGALRM, &noting, &before) == 0);
  const itimerval often{{0, 50}, {0, 50}}, never{};
  setitimer(ITIMER_REAL, &often, nullptr);
  work();
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
}

SETUP() { find_onednn(); }

// How many came between two runs.  512 terms: more than the buffer on the stack holds, which these kernels take for fewer.
int64_t check_handlers(const char* op, int threads) {
  use_threads(threads);
  int64_t came = 0;
  const TensorDesc a = TensorDesc::dense(DType::f32, {384, 512}), b = TensorDesc::dense(DType::f32, {512, 512});
  int found = 0;
  CandidateList list;
  provider->list(make_op(*find_schema(op), {}, {a, b}), *device, list);
  for (Candidate& candidate : list.candidates) {
    if (candidate.implementation.find("gemm") == std::string::npos ||
        candidate.implementation.find("brgemm") != std::string::npos)
      continue;
    ++found;
    const BufferRef x = place(*device, candidate.inputs[0], nullptr), y = place(*device, candidate.inputs[1], nullptr),
                    z = place(*device, candidate.outputs[0], nullptr);
    const BufferRef workspace = device->allocate(candidate.workspace_bytes);
    Buffer* inputs[] = {x.get(), y.get()};
    Buffer* outputs[] = {z.get()};
    const auto kernel = candidate.prepare();
    kernel->run({inputs, outputs, workspace.get()});  // from here on the pool's threads take no signals
    among_signals([&] {
      const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
      while (std::chrono::steady_clock::now() < end) kernel->run({inputs, outputs, workspace.get()});
    });
    if (astray) std::printf("%s by %s, %d threads\n", op, candidate.implementation.c_str(), threads);
    CHECK(astray == 0);
    came += within;
  }
  CHECK(found > 0);
  return came;
}

TEST("signals") {
  int64_t came = 0;  // on a busy machine those of 200 ms may all have gone to other threads
  for (const char* op : {"matmul", "linear"})
    for (int threads : {1, 2, 4, 2, 3}) came += check_handlers(op, threads);
  CHECK(came > 0);
}

// The mask of the caller is as it was.
TEST("mask") {
  sigset_t before, after;
  pthread_sigmask(SIG_BLOCK, nullptr, &before);
  { const SignalsHeld held; }
  pthread_sigmask(SIG_BLOCK, nullptr, &after);
  CHECK(!sigismember(&before, SIGINT) && !sigismember(&after, SIGINT));
}

}  // namespace

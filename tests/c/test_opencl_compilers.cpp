// Processes that compile OpenCL programs for this one: what they do, and that nothing depends on them.
#include <signal.h>

#include <string>
#include <thread>
#include <vector>

#include "opencl_testing.h"
#include "providers/opencl/program/compiler_processes.h"

using namespace pl;
using namespace pl::opencl;

namespace {

using Kind = CompilerProcesses::Kind;

const char kProgram[] = "kernel void twice(global float* x) { x[get_global_id(0)] *= 2; }";

// The first platform's first device; tests skip where there is no platform.
CompilerProcesses::Target first_device() {
  const Platform& platform = libraries().platforms.at(0);
  return {platform.cl->library, platform.name, platform.version, 0};
}
bool no_platform_here() { return libraries().platforms.empty(); }

// Programs from as many threads, while this thread compiles one "here".
void compile_at_once(CompilerProcesses& compilers, int threads) {
  std::vector<std::thread> list;
  {
    const auto here = compilers.ahead(Kind::source, kProgram, "");
    for (int i = 0; i < threads; ++i)
      list.emplace_back([&compilers, i] { compilers.ahead(Kind::source, kProgram, "-DTHREAD=" + std::to_string(i)); });
    while (threads > 0 && compilers.limit() > 0 && compilers.compiled() == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  for (std::thread& thread : list) thread.join();
}

TEST("one_program_needs_no_process") {
  if (no_platform_here()) SKIP("no OpenCL platform");
  CompilerProcesses compilers(first_device(), 2, PYLAYOUT_COMPILER);
  for (int i = 0; i < 3; ++i) compilers.ahead(Kind::source, kProgram, "");
  CHECK(compilers.compiled() == 0);
  CHECK(compilers.idle().empty());
}

TEST("several_at_once_are_compiled_elsewhere") {
  if (no_platform_here()) SKIP("no OpenCL platform");
  CompilerProcesses compilers(first_device(), 2, PYLAYOUT_COMPILER);
  compile_at_once(compilers, 5);
  CHECK(compilers.compiled() >= 1);
  CHECK(compilers.idle().size() >= 1 && compilers.idle().size() <= 2);
  // Those that are there take what comes, though nothing is compiled here.
  const uint64_t before = compilers.compiled();
  compilers.ahead(Kind::source, kProgram, "-DAGAIN");
  CHECK(compilers.compiled() == before + 1);
  // What does not compile is no more than not compiled.
  compilers.ahead(Kind::source, "kernel void broken(", "");
  compilers.ahead(Kind::binary, "no binary", "");
  CHECK(compilers.compiled() == before + 1);
  CHECK(compilers.idle().size() >= 1);
}

TEST("they_start_before_there_is_work") {
  if (no_platform_here()) SKIP("no OpenCL platform");
  CompilerProcesses compilers(first_device(), 2, PYLAYOUT_COMPILER);
  compilers.prepare();
  compilers.prepare();  // no more of them
  for (int tries = 0; compilers.idle().size() < 2 && compilers.limit() > 0 && tries < 4000; ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(compilers.idle().size() == 2);
  compilers.ahead(Kind::source, kProgram, "-DPREPARED");
  CHECK(compilers.compiled() == 1);
  CHECK(compilers.idle().size() == 2);
  // Left while they start; and where none can be started all is compiled here.
  { CompilerProcesses(first_device(), 2, PYLAYOUT_COMPILER).prepare(); }
  CompilerProcesses another(first_device(), 2, "/bin/false");
  another.prepare();
  for (int tries = 0; another.limit() > 0 && tries < 4000; ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  another.ahead(Kind::source, kProgram, "");
  CHECK(another.limit() == 0 && another.compiled() == 0);
}

TEST("a_killed_one_is_replaced") {
  if (no_platform_here()) SKIP("no OpenCL platform");
  CompilerProcesses compilers(first_device(), 1, PYLAYOUT_COMPILER);
  compile_at_once(compilers, 2);
  const std::vector<pid_t> first = compilers.idle();
  CHECK(first.size() == 1);
  if (first.empty()) return;
  kill(first[0], SIGKILL);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  compilers.ahead(Kind::source, kProgram, "-DHERE");
  CHECK(compilers.idle().empty());
  CHECK(kill(first[0], 0) == -1);  // waited for
  const uint64_t before = compilers.compiled();
  std::thread other;
  {
    const auto here = compilers.ahead(Kind::source, kProgram, "");
    other = std::thread([&] { compilers.ahead(Kind::source, kProgram, "-DOTHER"); });
    while (compilers.compiled() == before) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  other.join();
  CHECK(compilers.idle().size() == 1);
}

TEST("without_a_helper_all_compile_here") {
  if (no_platform_here()) SKIP("no OpenCL platform");
  CompilerProcesses::Target elsewhere = first_device();
  elsewhere.platform = "a platform that is not there";
  CompilerProcesses no_platform(elsewhere, 2, PYLAYOUT_COMPILER), no_program(first_device(), 2, "/no/such/program"),
      another(first_device(), 2, "/bin/false"), none(first_device(), 2, "");
  for (CompilerProcesses* compilers : {&no_platform, &no_program, &another, &none}) {
    compile_at_once(*compilers, 3);
    CHECK(compilers->limit() == 0);
    CHECK(compilers->compiled() == 0);
    CHECK(compilers->idle().empty());
  }
}

TEST("as_many_as_the_machine_has_room_for") {
  CHECK(CompilerProcesses::useful(2, size_t(24) << 30) == 0);
  CHECK(CompilerProcesses::useful(8, size_t(24) << 30) == 4);
  CHECK(CompilerProcesses::useful(64, size_t(24) << 30) == 6);
  CHECK(CompilerProcesses::useful(64, size_t(4) << 30) == 2);
}

}  // namespace

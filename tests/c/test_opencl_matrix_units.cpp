// The matrix units of AMD and Intel, which are not here: which unit a device has by what it says of itself; every
// tile's kernel with the instructions emulated as the vendors document them (kernels/emulated_matrix_units.clh),
// against loops in double precision; and each of these sources compiled for its target, where there is a clang that
// knows it.
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "opencl_conv_cases.h"
#include "opencl_matmul_cases.h"
#include "providers/opencl/conv/conv_common.h"
#include "providers/opencl/matmul/matmul_common.h"
#include "providers/opencl/matrix_units/matrix_unit.h"
#include "providers/opencl/matrix_units/mma.h"
#include "temporary_folder.h"

using namespace pl;
using namespace pl::testing;
using opencl::Capabilities;
using opencl::matrix_unit;
using opencl::MatrixUnit;

namespace {

const std::string kMad = "cl_intel_subgroup_matrix_multiply_accumulate ";

Capabilities amd(const char* name) {
  Capabilities can;
  can.name = name;
  can.vendor = "Advanced Micro Devices, Inc.";
  can.gpu = true;
  return can;
}
Capabilities intel(int subgroup, const std::string& extensions) {
  Capabilities can;
  can.name = "Intel(R) Arc(TM) Graphics";
  can.vendor = "Intel(R) Corporation";
  can.gpu = true;
  can.least_subgroup = subgroup;
  can.extensions = " " + extensions + " ";
  return can;
}

void check_recognition() {
  const std::pair<const char*, int> names[] = {
      {"gfx908:sramecc+:xnack-", 1},
      {"gfx90a", 2},
      {"gfx950:sramecc+", 2},
      {"gfx942:sramecc+:xnack-", 3},
      {"gfx940", 3},
      {"gfx1100", 4},
      {"gfx1151", 4},
      {"gfx1201", 5},
      {"gfx906", 0},
      {"gfx1030", 0},
      {"gfx9", 0},
      {"AMD Radeon RX 7900 XTX (radeonsi)", 0},
      {"gfx1100x", 0},
      {"", 0},
  };
  for (const auto& [name, kind] : names) {
    const MatrixUnit unit = matrix_unit(amd(name));
    CHECK(bool(unit) == (kind != 0));
    CHECK(unit.amd_matrix == kind);
    CHECK(bool(unit) == unit.reason.empty());
    if (unit) CHECK(unit.lanes == (kind >= 4 ? 32 : 64));
  }
  const MatrixUnit cdna3 = matrix_unit(amd("gfx942")), cdna2 = matrix_unit(amd("gfx90a")),
                   rdna3 = matrix_unit(amd("gfx1100"));
  for (const Math math : {Math::fp32, Math::tf32, Math::fp16}) {
    CHECK(cdna2.refusal(DType::f32, math).empty());
    CHECK(cdna3.refusal(DType::f32, math).empty());
    CHECK(rdna3.refusal(DType::f32, math).find("f16 and bf16, not f32") != std::string::npos);
    CHECK(rdna3.refusal(DType::bf16, math).empty());
  }
  CHECK(cdna3.tf32);
  CHECK(!cdna2.tf32);
  CHECK(!cdna3.refusal(DType::s8, Math::fp32).empty());

  CHECK(matrix_unit(intel(8, kMad)).intel_matrix == 8);
  const MatrixUnit xe2 = matrix_unit(intel(16, kMad + "cl_intel_subgroup_matrix_multiply_accumulate_tf32"));
  CHECK(xe2.intel_matrix == 16);
  CHECK(xe2.tf32);
  CHECK(!xe2.block_reads);
  CHECK(xe2.refusal(DType::f32, Math::tf32).empty());
  CHECK(xe2.refusal(DType::f32, Math::fp32).find("tf32 only") != std::string::npos);
  const MatrixUnit alchemist = matrix_unit(intel(8, kMad + "cl_intel_subgroup_matrix_multiply_accumulate_tf32"));
  CHECK(!alchemist.tf32);
  CHECK(!alchemist.refusal(DType::f32, Math::tf32).empty());
  CHECK(matrix_unit(intel(16, kMad + "cl_intel_subgroup_local_block_io cl_intel_subgroups_short")).block_reads);
  CHECK(matrix_unit(intel(16, "cl_intel_subgroups")).reason.find("does not report") != std::string::npos);
  CHECK(matrix_unit(intel(32, kMad)).reason.find("8 or 16") != std::string::npos);
  CHECK(matrix_unit(intel(0, kMad)).reason.find("8 or 16") != std::string::npos);

  Capabilities nvidia;
  nvidia.nvidia = nvidia.gpu = true;
  nvidia.compute_capability = 75;
  CHECK(matrix_unit(nvidia).reason.find("7.5") != std::string::npos);
  nvidia.compute_capability = 80;
  CHECK(matrix_unit(nvidia).kind == MatrixUnit::Kind::nvidia);
  Capabilities mali;
  mali.vendor = "ARM";
  mali.gpu = true;
  CHECK(!matrix_unit(mali));
  CHECK(!matrix_unit(Capabilities()));
}

// How clang is asked for a unit's target; empty: it does not know it, or there is no clang.
struct Compiler {
  std::string command;

  explicit Compiler(const std::string& target, const std::string& prelude) {
#ifdef PYLAYOUT_CLANG
    const std::string base = concat("'", PYLAYOUT_CLANG, "' -x cl -w -Xclang -finclude-default-header ", target);
    if (std::system((base + " -cl-std=CL3.0 -fsyntax-only /dev/null >/dev/null 2>&1").c_str()) == 0)
      command = base + (prelude.empty() ? "" : " -include '" + prelude + "'");
    else
      std::printf("not compiled for %s: %s does not know it\n", target.c_str(), PYLAYOUT_CLANG);
#else
    std::printf("not compiled for %s: no clang was found\n", target.c_str());
    (void)prelude;
#endif
  }
  // Ends the program if the source does not compile.
  void compile(const std::string& folder, const opencl::KernelSource& source) const {
    if (command.empty()) return;
    const std::string path = folder + "/matrix_unit.cl", log = path + ".log";
    std::ofstream(path) << source.text();
    std::string options = source.options();
    const std::string line = concat(command, " ", options, " '", path, "' >'", log, "' 2>&1");
    if (std::system(line.c_str()) == 0) return;
    std::ifstream in(log);
    std::fprintf(stderr, "%s\n%s\n", line.c_str(),
                 std::string{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()}.c_str());
    end_test();
  }
};

struct Unit {
  Capabilities can;
  std::string target;   // clang's
  const char* expects;  // in the name of the unit
  bool whole;           // all tiles are tried; else some: the others are tried with another unit like it
};

// Channels in pieces that end within a step, odd sizes, groups, first layers, sums in parts, pieces that 16 bytes do
// not divide.
const Case cases[] = {
    {"conv2d", {2, 24, 5, 7}, {40, 24, 3, 3}, "padding=1 activation=relu", true, true},
    {"conv2d", {1, 64, 9, 8}, {70, 32, 1, 1}, "groups=2 stride=2", true},
    {"conv2d", {1, 3, 11, 9}, {33, 3, 5, 3}, "padding=[2,1] stride=2", true},
    {"conv2d", {1, 520, 6, 5}, {129, 520, 1, 1}, "", true},
    {"conv2d", {1, 58, 6, 7}, {62, 58, 1, 1}, "", true, true},
};

TEST("recognition") { check_recognition(); }

TEST("all") {
  Candidates candidates;
  if (candidates.no_devices()) SKIP("no OpenCL device here");
  opencl::OpenclDevice* device = nullptr;  // one of the host's processor, where there is one
  for (const auto& each : candidates.devices()) {
    opencl::OpenclDevice* const target = opencl::as_opencl(*each);
    if (target && (!device || (target->capabilities().cpu && !device->capabilities().cpu))) device = target;
  }
  REQUIRE(device != nullptr);
  candidates.only(*device);
  const Capabilities own = device->capabilities();
  std::ifstream in(PYLAYOUT_SOURCE_DIR "/tests/c/kernels/emulated_matrix_units.clh");
  device->build_prelude = std::string{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  REQUIRE(!device->build_prelude.empty());
  unoptimised_on_cpus(*device);
  const testing::TemporaryFolder temporary;
  const std::string& folder = temporary.path;
  opencl::most_mma_plans = 1000;

  const std::string amdgcn = "-target amdgcn-amd-amdhsa -nogpulib -O1 -S -o /dev/null -mcpu=";
  const std::string spir = "-target spir64 -emit-llvm -S -o /dev/null";
  const std::string all_of_intel =
      kMad +
      "cl_intel_subgroup_matrix_multiply_accumulate_tf32 cl_intel_subgroup_local_block_io cl_intel_subgroups_short";
  const Unit units[] = {
      {amd("gfx908"), amdgcn + "gfx908", "v_mfma", false},   {amd("gfx90a:xnack-"), amdgcn + "gfx90a", "v_mfma", true},
      {amd("gfx942"), amdgcn + "gfx942", "v_mfma", false},   {amd("gfx1100"), amdgcn + "gfx1100", "v_wmma", true},
      {amd("gfx1200"), amdgcn + "gfx1200", "v_wmma", false}, {intel(8, kMad), spir, "of 8", false},
      {intel(8, all_of_intel), spir, "of 8", true},          {intel(16, kMad), spir, "of 16", false},
      {intel(16, all_of_intel), spir, "of 16", true},
  };
  for (const Unit& unit : units) {
    Capabilities can = unit.can;
    can.compute_units = 4;
    can.max_work_group = own.max_work_group;
    can.local_memory = 65536;
    device->pretend(can);
    const MatrixUnit found = matrix_unit(can);
    CHECK(found.name.find(unit.expects) != std::string::npos);
    const Compiler compiler(unit.target, found.kind == MatrixUnit::Kind::intel ? PYLAYOUT_SOURCE_DIR
                                             "/tests/c/kernels/intel_declarations.clh"
                                                                               : "");
    std::set<std::string> compiled;
    device->on_build = [&](const opencl::KernelSource& source) {
      if (source.text().find("MMA_LANES") != std::string::npos && compiled.insert(source.text()).second)
        compiler.compile(folder, source);
    };
    // Of f16 each tile once, and one sum in parts; of the other factors every third tile at most, and of small pieces;
    // half as many of the others with a unit of which not all tiles are tried.
    std::set<std::string> seen;
    std::map<std::string, size_t> turns;
    size_t kernels = 0;
    size_t step = unit.whole ? 1 : 3;
    bool parts = false;
    candidates.filter = [&](const Candidate& candidate) {
      const std::string& name = candidate.implementation;
      if (name.rfind("conv_fwd_mma", 0) != 0) return false;
      if (name.find("parts=") != std::string::npos) {
        if (std::exchange(parts, true)) return false;
      } else {
        const size_t turn = turns.emplace(name, turns.size()).first->second;
        const bool small = name.find("bytes=") != std::string::npos;
        if (turn % (small ? std::max<size_t>(step, 3) : step) || !seen.insert(name).second) return false;
      }
      ++kernels;
      return true;
    };
    const auto run = [&](DType dtype, Math math) {
      seen.clear();
      turns.clear();
      parts = false;
      candidates.math = math;
      candidates.more = {};
      for (const Case& c : cases) check(candidates, c, dtype);
      check_matmul(candidates, {9, 24}, {24, 40}, "", 40, dtype);
    };
    run(DType::f16, Math::fp32);
    CHECK(seen.size() >= size_t(unit.whole ? 11 : 4));
    CHECK(parts);
    step = unit.whole ? 3 : 6;
    run(DType::bf16, Math::fp32);
    if (found.fp32) run(DType::f32, Math::fp32);
    if (found.tf32) run(DType::f32, Math::tf32);
    std::printf("%s: %zu kernels right, %zu sources compiled for the target\n", found.name.c_str(), kernels,
                compiler.command.empty() ? size_t(0) : compiled.size());
  }
}

}  // namespace

#include "providers/opencl/matrix_units/matrix_unit.h"

#include <cctype>

#include "core/status.h"

namespace pl::opencl {
namespace {

// "gfx90a:sramecc+" -> "90a"; empty where the name is no target's.
std::string gfx_of(const std::string& name) {
  if (name.rfind("gfx", 0) != 0) return {};
  size_t end = 3;
  while (end < name.size() && std::isxdigit(static_cast<unsigned char>(name[end]))) ++end;
  const bool whole = end == name.size() || name[end] == ':' || name[end] == ' ';
  return whole && end >= 6 ? name.substr(3, end - 3) : std::string();
}

MatrixUnit none(std::string reason) {
  MatrixUnit unit;
  unit.reason = std::move(reason);
  return unit;
}

MatrixUnit nvidia(const Capabilities& can) {
  if (can.compute_capability < 80)
    return none(concat("kernels for NVIDIA's matrix units need compute capability 8.0, the device has ",
                       can.compute_capability / 10, ".", can.compute_capability % 10));
  MatrixUnit unit;
  unit.kind = MatrixUnit::Kind::nvidia;
  unit.name = "mma.sync";
  unit.tf32 = unit.fp32 = true;
  return unit;
}

MatrixUnit amd(const Capabilities& can) {
  const std::string gfx = gfx_of(can.name);
  if (gfx.empty())
    return none(
        "kernels for AMD's matrix units need AMD's own compiler, whose devices have names like gfx90a; this is " +
        can.name);
  MatrixUnit unit;
  unit.kind = MatrixUnit::Kind::amd;
  const std::string generation = gfx.substr(0, gfx.size() - 2);
  if (gfx == "908") {
    unit.amd_matrix = 1;
  } else if (gfx == "90a" || gfx == "950") {
    unit.amd_matrix = 2;
  } else if (gfx == "940" || gfx == "941" || gfx == "942") {
    unit.amd_matrix = 3;
  } else if (generation == "11") {
    unit.amd_matrix = 4;
  } else if (generation == "12" && gfx != "1250") {
    unit.amd_matrix = 5;
  } else {
    return none(
        "there are kernels for the matrix units of gfx908, gfx90a, gfx94x, gfx950, gfx11xx and gfx120x, not of gfx" +
        gfx);
  }
  unit.wmma = unit.amd_matrix >= 4;
  unit.lanes = unit.wmma ? 32 : 64;
  unit.fp32 = !unit.wmma;
  unit.tf32 = unit.amd_matrix == 3;
  unit.name = concat(unit.wmma ? "v_wmma" : "v_mfma", " (gfx", gfx, ")");
  return unit;
}

MatrixUnit intel(const Capabilities& can) {
  const char* const extension = "cl_intel_subgroup_matrix_multiply_accumulate";
  if (!can.has_extension(extension)) return none(concat("the device does not report ", extension));
  if (can.least_subgroup != 8 && can.least_subgroup != 16)
    return none(concat(extension, " is for subgroups of 8 or 16, the least of the device is ", can.least_subgroup));
  MatrixUnit unit;
  unit.kind = MatrixUnit::Kind::intel;
  unit.lanes = unit.intel_matrix = can.least_subgroup;
  unit.name = concat("subgroup matrices of ", unit.lanes);
  unit.tf32 = unit.lanes == 16 && can.has_extension("cl_intel_subgroup_matrix_multiply_accumulate_tf32");
  unit.block_reads =
      can.has_extension("cl_intel_subgroup_local_block_io") && can.has_extension("cl_intel_subgroups_short");
  return unit;
}

bool contains(const std::string& text, const char* word) { return text.find(word) != std::string::npos; }

}  // namespace

std::string MatrixUnit::refusal(DType dtype, Math math) const {
  if (kind == Kind::none) return reason;
  if (dtype == DType::f16 || dtype == DType::bf16) return {};
  if (dtype != DType::f32) return concat(name, " multiplies f16, bf16 and f32, not ", name_of(dtype));
  if (fp32 || (tf32 && math != Math::fp32)) return {};
  if (tf32) return name + " multiplies factors of f32 as tf32 only, which this program has not asked for";
  return name + " multiplies f16 and bf16, not f32";
}

MatrixUnit matrix_unit(const Capabilities& can) {
  if (can.nvidia) return nvidia(can);
  if (!can.gpu) return none("the device is not a GPU");
  if (contains(can.vendor, "Advanced Micro Devices") || contains(can.vendor, "AMD")) return amd(can);
  if (contains(can.vendor, "Intel")) return intel(can);
  return none("there are no kernels for matrix units of " + can.vendor);
}

}  // namespace pl::opencl

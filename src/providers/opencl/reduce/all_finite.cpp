// all_finite: the tensors of a dtype are looked at by one launch, as far as a kernel takes so many arguments; a last
// one joins what the work-groups found.
#include <algorithm>
#include <cstring>

#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

constexpr int64_t kShare = 32;  // elements of a work-item

struct Flat {
  int input;
  int64_t elements;
};

// Work-groups take group * kShare elements of one tensor each: of tensor k those from end[k - 1] to before end[k].
std::string text_of(DType dtype, size_t tensors, int64_t group) {
  const char* bits = dtype == DType::f32 ? "uint" : "ushort";
  const char* exponent = dtype == DType::f32 ? "0x7f800000u" : dtype == DType::f16 ? "0x7c00u" : "0x7f80u";
  std::string parameters, choice;
  for (size_t k = 0; k < tensors; ++k) {
    parameters += concat("__global const ", bits, "* x", k, ", ");
    choice += concat("case ", k, ": x = x", k, "; break;\n");
  }
  return concat("typedef struct { uint end[", tensors, "], size[", tensors, "]; } tensors_t;\n",
                "__kernel __attribute__((reqd_work_group_size(", group, ", 1, 1))) void all_finite_parts(", parameters,
                "__global uint* parts, const uint part, const tensors_t m) {\n"
                "const uint block = (uint)get_group_id(0), lane = (uint)get_local_id(0);\n"
                "int k = 0;\nwhile (block >= m.end[k]) ++k;\n__global const ",
                bits, "* x = x0;\nswitch (k) {\n", choice, "}\n",
                "const uint first = (block - (k > 0 ? m.end[k - 1] : 0)) * ", group * kShare, ", last = min(first + ",
                group * kShare, ", m.size[k]);\n",
                "uint found = 0;\nfor (uint at = first + lane; at < last; at += ", group, ") found |= (x[at] & ",
                exponent, ") == ", exponent, ";\n",
                "__local uint any_found;\nif (lane == 0) any_found = 0;\nbarrier(CLK_LOCAL_MEM_FENCE);\n"
                "if (found) atomic_or(&any_found, 1u);\nbarrier(CLK_LOCAL_MEM_FENCE);\n"
                "if (lane == 0) parts[part + block] = any_found;\n}\n");
}

std::string join_text(int64_t group) {
  return concat("__kernel __attribute__((reqd_work_group_size(", group,
                ", 1, 1))) void all_finite_join("
                "__global const uint* parts, __global float* dst, const uint count) {\n"
                "const uint lane = (uint)get_local_id(0);\nuint found = 0;\nfor (uint at = lane; at < count; at += ",
                group, ") found |= parts[at];\n",
                "__local uint any_found;\nif (lane == 0) any_found = 0;\nbarrier(CLK_LOCAL_MEM_FENCE);\n"
                "if (found) atomic_or(&any_found, 1u);\nbarrier(CLK_LOCAL_MEM_FENCE);\n"
                "if (lane == 0) dst[0] = any_found ? 0.0f : 1.0f;\n}\n");
}

// Tensors that one launch looks at.
struct Part {
  DType dtype;
  std::vector<Flat> tensors;
};

struct AllFinite {
  int64_t group = 1, blocks = 0;
  std::vector<Part> parts;

  AllFinite(const Op& op, const OpenclDevice& device)
      : group(std::min<int64_t>(256, int64_t(device.capabilities().max_work_group))) {
    const size_t each = sizeof(cl_ulong) + 2 * sizeof(cl_uint);
    const size_t most = std::max<size_t>(1, std::min<size_t>(200, device.capabilities().max_parameters / each - 2));
    for (DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      bool open = false;
      for (size_t i = 0; i < op.inputs.size(); ++i) {
        const TensorDesc& tensor = op.inputs[i];
        if (tensor.dtype != dtype || tensor.elements() == 0) continue;
        if (!open || parts.back().tensors.size() == most) parts.push_back({dtype, {}});
        open = true;
        parts.back().tensors.push_back({int(i), tensor.elements()});
        blocks += blocks_of(tensor.elements());
      }
    }
  }
  int64_t blocks_of(int64_t elements) const { return (elements + group * kShare - 1) / (group * kShare); }
};

std::unique_ptr<Kernel> prepare_all_finite(OpenclDevice& device, const AllFinite& all) {
  auto list = std::make_unique<KernelList>(device);
  int64_t first = 0;
  for (const Part& part : all.parts) {
    const KernelSource source =
        KernelSource::generated("all_finite", text_of(part.dtype, part.tensors.size(), all.group));
    Launch& launch = list->add(source, "all_finite_parts");
    std::vector<cl_uint> numbers;  // ends, then sizes
    int64_t blocks = 0;
    for (const Flat& tensor : part.tensors) {
      launch.input(tensor.input);
      blocks += all.blocks_of(tensor.elements);
      numbers.push_back(cl_uint(blocks));
    }
    for (const Flat& tensor : part.tensors) numbers.push_back(cl_uint(tensor.elements));
    launch.workspace().scalar(cl_uint(first)).raw(numbers.data(), numbers.size() * sizeof(cl_uint));
    launch.global({size_t(blocks * all.group)}).local({size_t(all.group)});
    first += blocks;
  }
  list->add(KernelSource::generated("all_finite", join_text(all.group)), "all_finite_join")
      .workspace()
      .output(0)
      .scalar(cl_uint(all.blocks))
      .global({size_t(all.group)})
      .local({size_t(all.group)});
  return list;
}

void list_all_finite(const Op& op, OpenclDevice& device, CandidateList& out) {
  for (const TensorDesc& tensor : op.inputs)
    if (tensor.elements() >= int64_t(1) << 31)
      return out.refuse("opencl", concat("all_finite: a tensor has ", tensor.elements(),
                                         " elements, expected less "
                                         "than 2^31"));
  const AllFinite all(op, device);
  Candidate candidate = make_candidate(op, "all_finite");
  for (TensorDesc& input : candidate.inputs) input = input.with_layout(Layout::plain(input.rank()));
  candidate.workspace_bytes = size_t(std::max<int64_t>(1, all.blocks)) * sizeof(cl_uint);
  candidate.efficiency = 0.5;
  candidate.prepare = [&device, all] { return prepare_all_finite(device, all); };
  out.add(std::move(candidate));
}

PL_OPENCL_OP("all_finite", list_all_finite);

}  // namespace
}  // namespace pl::opencl

#include "providers/opencl/pointwise/pointwise_together.h"

#include <algorithm>
#include <cstring>

#include "providers/opencl/pointwise/pointwise_text.h"

namespace pl::opencl {
namespace {

using pointwise::Arithmetic;
using pointwise::Function;

constexpr size_t kMost = 64;                 // kernels in one, so that choosing among them stays the smaller part
constexpr int64_t kGroup = 256, kShare = 4;  // work-items; elements of each

}  // namespace

bool is_flat(const ComputationPlan& plan) {
  const Computation& c = plan.computation;
  const Iteration& it = plan.iteration;
  if (c.program.reduces() || c.program.arithmetic != Arithmetic::f32 || c.epilogue != "identity" ||
      it.kept.size() != 1 || !it.kept_checks.empty() || it.kept[0].size >= (int64_t(1) << 30))
    return false;
  const bool one_element = it.kept[0].size == 1;  // whose strides say nothing
  for (size_t t = 0; t < it.offsets.size(); ++t) {
    const int64_t stride = it.kept[0].strides[t];
    const bool runs = one_element || stride == 1 || (stride == 0 && t < c.inputs.size());
    if (it.offsets[t] != 0 || !runs) return false;
  }
  return true;
}

FlatKernel::FlatKernel(OpenclDevice& device, const ComputationPlan& plan)
    : KernelList(device), device_(device), plan_(plan) {
  const CodeText code =
      code_text(plan_.computation.program.elements, Arithmetic::f32, "t", [&](const pointwise::Node& node) {
        return node.function == Function::scalar  ? concat("s", node.index)
               : node.function != Function::input ? std::string("1.0f")
               : shared(size_t(node.index))       ? concat("v", node.index)
                                                  : concat("v", node.index, "[u]");
      });
  body_ = code.statements;
  for (size_t k = 0; k < outputs(); ++k) body_ += concat("STORE(Y", k, ", y", k, ", at, ", code.results[k], ");\n");
  alike_ = body_;
  for (size_t i = 0; i < inputs(); ++i)
    alike_ += concat(name_of(plan_.computation.inputs[i].dtype), shared(i) ? "! " : " ");
  for (size_t k = 0; k < outputs(); ++k) alike_ += concat("-> ", name_of(plan_.computation.outputs[k].dtype));
}

size_t FlatKernel::most() const {
  const size_t each = (inputs() + outputs()) * sizeof(cl_ulong) + 2 * sizeof(cl_uint) +
                      plan_.computation.scalars.size() * sizeof(cl_float);
  const size_t room = device_.capabilities().max_parameters / each;
  return std::min(kMost, room > 1 ? room - 1 : 1);
}

// Work-groups take kGroup * kShare elements of one kernel each: of kernel k those from end[k - 1] to before end[k].
std::string FlatKernel::text(size_t kernels, int64_t group) const {
  const size_t scalars = plan_.computation.scalars.size();
  std::string text = "#include \"common/tensor.clh\"\n#include \"common/activation.clh\"\n";
  text += "#include \"common/arithmetic.clh\"\n";
  text += concat("typedef struct { uint end[", kernels, "], size[", kernels, "]; ",
                 scalars ? concat("float s[", kernels * scalars, "]; ") : std::string(), "} kernels_t;\n");
  std::string parameters, choice;
  for (size_t m = 0; m < kernels; ++m) {
    choice += concat("case ", m, ":");
    for (size_t i = 0; i < inputs(); ++i) {
      parameters += concat("__global const STORAGE_T(X", i, ")* x", i, "_", m, ", ");
      choice += concat(" x", i, " = x", i, "_", m, ";");
    }
    for (size_t k = 0; k < outputs(); ++k) {
      parameters += concat("__global STORAGE_T(Y", k, ")* y", k, "_", m, ", ");
      choice += concat(" y", k, " = y", k, "_", m, ";");
    }
    choice += " break;\n";
  }
  text +=
      concat("__kernel __attribute__((reqd_work_group_size(", group, ", 1, 1))) void pointwise_together(", parameters,
             "const kernels_t m) {\nconst uint block = (uint)get_group_id(0);\nint k = 0;\n"
             "while (block >= m.end[k]) ++k;\n");
  for (size_t i = 0; i < inputs(); ++i) text += concat("__global const STORAGE_T(X", i, ")* x", i, " = x", i, "_0;\n");
  for (size_t k = 0; k < outputs(); ++k) text += concat("__global STORAGE_T(Y", k, ")* y", k, " = y", k, "_0;\n");
  text += "switch (k) {\n" + choice + "}\n";
  text += concat("const uint first = (block - (k > 0 ? m.end[k - 1] : 0)) * ", group * kShare,
                 " + (uint)get_local_id(0), size = m.size[k];\n");
  for (size_t j = 0; j < scalars; ++j) text += concat("const float s", j, " = m.s[k * ", scalars, " + ", j, "];\n");
  // All loads of a work-item are on their way before the first store, which may be to anywhere for all that the
  // compiler knows.
  std::string loads;
  for (size_t i = 0; i < inputs(); ++i) {
    if (shared(i)) {
      text += concat("const float v", i, " = convert_float(LOAD(X", i, ", x", i, ", 0));\n");
      continue;
    }
    text += concat("float v", i, "[", kShare, "];\n");
    loads += concat("v", i, "[u] = convert_float(LOAD(X", i, ", x", i, ", at));\n");
  }
  const std::string each = concat("_Pragma(\"unroll\") for (int u = 0; u < ", kShare,
                                  "; ++u) {\nconst uint at = first + u * ", group, ";\n");
  text += each + "if (at >= size) continue;\n" + loads + "}\n";
  return text + each + "if (at >= size) continue;\n" + body_ + "}\n}\n";
}

std::unique_ptr<Kernel> FlatKernel::together(const std::vector<const Together*>& kernels) const {
  const int64_t group = std::min<int64_t>(kGroup, int64_t(device_.capabilities().max_work_group));
  KernelSource source = KernelSource::generated(plan_.computation.name, text(kernels.size(), group));
  for (size_t i = 0; i < inputs(); ++i)
    source.define(concat("X", i, "_DTYPE"), name_of(plan_.computation.inputs[i].dtype));
  for (size_t k = 0; k < outputs(); ++k)
    source.define(concat("Y", k, "_DTYPE"), name_of(plan_.computation.outputs[k].dtype));
  auto list = std::make_unique<KernelList>(device_);
  Launch& launch = list->add(source, "pointwise_together");
  std::vector<cl_uint> ends, sizes;
  std::vector<cl_float> scalars;
  int64_t blocks = 0;
  for (size_t m = 0; m < kernels.size(); ++m) {
    const auto* one = dynamic_cast<const FlatKernel*>(kernels[m]);
    require(one && one->alike_ == alike_, Code::internal, plan_.computation.name, ": kernels that differ run together");
    for (size_t i = 0; i < inputs(); ++i) launch.input(int(m * inputs() + i));
    for (size_t k = 0; k < outputs(); ++k) launch.output(int(m * outputs() + k));
    const int64_t size = one->plan_.iteration.kept[0].size;
    blocks += (size + group * kShare - 1) / (group * kShare);
    ends.push_back(cl_uint(blocks));
    sizes.push_back(cl_uint(size));
    for (double value : one->plan_.computation.scalars) scalars.push_back(cl_float(value));
  }
  std::vector<char> argument((ends.size() + sizes.size()) * sizeof(cl_uint) + scalars.size() * sizeof(cl_float));
  std::memcpy(argument.data(), ends.data(), ends.size() * sizeof(cl_uint));
  std::memcpy(argument.data() + ends.size() * sizeof(cl_uint), sizes.data(), sizes.size() * sizeof(cl_uint));
  if (!scalars.empty())
    std::memcpy(argument.data() + (ends.size() + sizes.size()) * sizeof(cl_uint), scalars.data(),
                scalars.size() * sizeof(cl_float));
  launch.raw(argument.data(), argument.size()).global({size_t(blocks * group)}).local({size_t(group)});
  return list;
}

}  // namespace pl::opencl

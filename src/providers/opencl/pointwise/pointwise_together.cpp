#include "providers/opencl/pointwise/pointwise_together.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <mutex>
#include <utility>

#include "providers/opencl/pointwise/pointwise_text.h"

namespace pl::opencl {
namespace {

using pointwise::Arithmetic;
using pointwise::Function;

constexpr size_t kMost = 64;                 // kernels in one, so that choosing among them stays the smaller part
constexpr int64_t kGroup = 256, kShare = 4;  // work-items; elements of each
constexpr int64_t kMostElements = int64_t(1) << 30;  // so that places are ints
constexpr size_t kAxes = 4;                          // of what is not flat: weights between two layouts have as many

// Every tensor is one run of elements, or one element for all of them.
bool is_flat(const ComputationPlan& plan) {
  const Iteration& it = plan.iteration;
  if (plan.computation.parts > 1) return false;
  if (it.kept.size() != 1 || !it.kept_checks.empty()) return false;
  const bool one_element = it.kept[0].size == 1;  // whose strides say nothing
  for (size_t t = 0; t < it.offsets.size(); ++t) {
    const int64_t stride = it.kept[0].strides[t];
    const bool runs = one_element || stride == 1 || (stride == 0 && t < plan.computation.inputs.size());
    if (it.offsets[t] != 0 || !runs) return false;
  }
  return true;
}

std::string each_element(int64_t group) {
  return concat("_Pragma(\"unroll\") for (int u = 0; u < ", kShare, "; ++u) {\nconst uint at = first + u * ", group,
                ";\nif (at >= size) continue;\n");
}

}  // namespace

bool is_joinable(const ComputationPlan& plan) {
  const Computation& c = plan.computation;
  const Iteration& it = plan.iteration;
  if (c.program.reduces() || c.epilogue != "identity" || it.kept_count() >= kMostElements || it.kept.size() > kAxes ||
      it.kept_checks.size() > 1)
    return false;
  for (size_t t = 0; t < it.offsets.size(); ++t) {
    int64_t last = it.offsets[t];
    for (const Axis& axis : it.kept) last += (axis.size - 1) * axis.strides[t];
    if (t == 0) last += (c.parts - 1) * c.part_stride;
    if (last >= kMostElements) return false;
  }
  return true;
}

JoinableWork::JoinableWork(OpenclDevice& device, const ComputationPlan& plan)
    : device_(device), plan_(plan), flat_(is_flat(plan)) {
  for (size_t i = 0; i < inputs(); ++i) {
    bool one = true;
    for (const Axis& axis : plan_.iteration.kept) one = one && axis.strides[i] == 0;
    single_.push_back(flat_ && one);
  }
  const CodeText code = code_text(plan_.computation.program.elements, plan_.computation.program.arithmetic, "t",
                                  [&](const pointwise::Node& node) {
                                    return node.function == Function::scalar  ? concat("s", node.index)
                                           : node.function != Function::input ? std::string(real() ? "1.0f" : "1L")
                                           : single_[size_t(node.index)]      ? concat("v", node.index)
                                                                              : concat("v", node.index, "[u]");
                                  });
  body_ = code.statements;
  for (size_t k = 0; k < outputs(); ++k)
    body_ += concat(real() || plan_.computation.saturate ? "STORE(Y" : "STORE_WRAP(Y", k, ", y", k,
                    flat_ ? std::string(", at, ") : concat(", at_y", k, "[u], "),
                    plan_.computation.rounds ? concat("nearest_tf32(", code.results[k], ")") : code.results[k], ");\n");
  alike_ = type() + (" " + body_);
  if (sums()) alike_ += "of sums ";
  for (size_t i = 0; i < inputs(); ++i)
    alike_ += concat(name_of(plan_.computation.inputs[i].dtype), single_[i] ? "! " : " ");
  for (size_t k = 0; k < outputs(); ++k) alike_ += concat("-> ", name_of(plan_.computation.outputs[k].dtype));
}

// Of what is not flat: the sizes of all axes but the first, each tensor's strides and offset, then the check's
// factors, its limit, and whether there is padding to store; then the parts of sums and their distance.
size_t JoinableWork::numbers() const {
  return flat_ ? 0 : kAxes - 1 + (inputs() + outputs()) * (kAxes + 1) + kAxes + 2 + (sums() ? 2 : 0);
}

void JoinableWork::add_numbers(std::vector<cl_int>& table) const {
  if (flat_) return;
  const Iteration& it = plan_.iteration;
  const size_t missing = kAxes - it.kept.size();  // axes of one element, in front
  for (size_t a = 1; a < kAxes; ++a) table.push_back(a < missing ? 1 : cl_int(it.kept[a - missing].size));
  for (size_t t = 0; t < it.offsets.size(); ++t) {
    for (size_t a = 0; a < kAxes; ++a) table.push_back(a < missing ? 0 : cl_int(it.kept[a - missing].strides[t]));
    table.push_back(cl_int(it.offsets[t]));
  }
  const size_t first = table.size();
  table.resize(first + kAxes, 0);
  if (it.kept_checks.empty()) {
    table.insert(table.end(), {std::numeric_limits<cl_int>::max(), 0});
  } else {
    const Check& check = it.kept_checks[0];
    table[first + missing + size_t(check.inner)] = 1;
    if (check.outer >= 0) table[first + missing + size_t(check.outer)] = cl_int(check.block);
    table.insert(table.end(), {cl_int(check.limit), check.stored ? 1 : 0});
  }
  if (sums()) table.insert(table.end(), {cl_int(plan_.computation.parts), cl_int(plan_.computation.part_stride)});
}

size_t JoinableWork::most() const {
  const size_t each = (inputs() + outputs()) * sizeof(cl_ulong) + 2 * sizeof(cl_uint) + numbers() * sizeof(cl_int) +
                      plan_.computation.scalars.size() * (real() ? sizeof(cl_float) : sizeof(cl_long));
  const size_t room = device_.capabilities().max_parameters / each;
  return std::min(kMost, room > 1 ? room - 1 : 1);
}

// Declares at_x0.., at_y0.. of the element `at`, and whether it is inside the check.
std::string JoinableWork::find_places() const {
  std::string text = "uint rest = at;\n";
  for (size_t a = kAxes; a-- > 1;)
    text += concat("const int k", a, " = (int)(rest % (uint)n[", a - 1, "]); rest /= (uint)n[", a - 1, "];\n");
  text += "const int k0 = (int)rest;\n";
  size_t next = kAxes - 1;
  const auto sum = [&] {
    std::string out;
    for (size_t a = 0; a < kAxes; ++a) out += concat(a ? " + " : "", "k", a, " * n[", next++, "]");
    return out;
  };
  for (size_t t = 0; t < inputs() + outputs(); ++t) {
    const bool input = t < inputs();
    text += concat(input ? concat("const int at_x", t) : concat("at_y", t - inputs(), "[u]"), " = ", sum());
    text += concat(" + n[", next++, "];\n");
  }
  text += concat("inside[u] = ", sum());
  return text + concat(" < n[", next, "];\n");
}

// Work-groups take kGroup * kShare elements of one work each: of work k those from end[k - 1] to before end[k].
std::string JoinableWork::text(size_t works, int64_t group, const Sharing& shared) const {
  const size_t scalars = plan_.computation.scalars.size(), row = numbers();
  std::string text =
      "#include \"common/tensor.clh\"\n#include \"common/activation.clh\"\n#include \"common/special.clh\"\n";
  if (sums()) text += "#include \"common/parts.clh\"\n";
  text += "#include \"common/arithmetic.clh\"\n#include \"common/tf32.clh\"\n";
  text += concat("typedef struct { uint end[", works, "], size[", works, "]; ",
                 scalars ? concat(type(), " s[", works * scalars, "]; ") : std::string(),
                 row ? concat("int n[", works * row, "]; ") : std::string(), "} kernels_t;\n");
  std::string parameters, choice;
  for (size_t m = 0; m < works; ++m) {
    choice += concat("case ", m, ":");
    for (size_t i = 0; i < inputs(); ++i) {
      if (shared.written[i] >= 0) {
        choice += concat(" x", i, " = y", shared.written[i], "_", m, ";");
        continue;
      }
      if (m > 0 && shared.common[i]) continue;
      parameters += concat("__global const STORAGE_T(X", i, ")* x", i, "_", m, ", ");
      if (!shared.common[i]) choice += concat(" x", i, " = x", i, "_", m, ";");
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
  for (size_t i = 0; i < inputs(); ++i)
    text += concat("__global const STORAGE_T(X", i, ")* x", i, " = ",
                   shared.written[i] < 0 ? concat("x", i) : concat("y", shared.written[i]), "_0;\n");
  for (size_t k = 0; k < outputs(); ++k) text += concat("__global STORAGE_T(Y", k, ")* y", k, " = y", k, "_0;\n");
  text += "switch (k) {\n" + choice + "}\n";
  text += concat("const uint first = (block - (k > 0 ? m.end[k - 1] : 0)) * ", group * kShare,
                 " + (uint)get_local_id(0), size = m.size[k];\n");
  for (size_t j = 0; j < scalars; ++j)
    text += concat("const ", type(), " s", j, " = m.s[k * ", scalars, " + ", j, "];\n");
  if (!flat_) {
    text += concat("int n[", row, "];\n_Pragma(\"unroll\") for (int j = 0; j < ", row, "; ++j) n[j] = m.n[k * ", row,
                   " + j];\nint inside[", kShare, "]",
                   sums() ? concat(" = {0}, from[", kShare, "] = {0}") : std::string(), ";\n");
    for (size_t k = 0; k < outputs(); ++k) text += concat("int at_y", k, "[", kShare, "];\n");
  }
  // All loads of a work-item are on their way before the first store, which may be to anywhere for all that the
  // compiler knows.
  std::string loads = flat_ ? std::string() : find_places(), stores = body_, together;
  for (size_t i = 0; i < inputs(); ++i) {
    const std::string value = concat("convert_", type(), "(LOAD(X", i, ", x", i, ", ");
    if (single_[i]) {
      text += concat("const ", type(), " v", i, " = ", value, "0));\n");
      continue;
    }
    text += concat(type(), " v", i, "[", kShare, "];\n");
    if (i == 0 && sums()) {
      // The parts of all elements side by side: many of few elements would wait one after the other.
      static_assert(kShare == 4, "sums are of float4");
      loads += "from[u] = at_x0;\n";
      std::string each;
      for (int64_t u = 0; u < kShare; ++u)
        each += concat(u ? ", " : "", "inside[", u, "] ? LOAD(X0, x0, from[", u, "] + part * n[", row - 1, "]) : 0.0f");
      together = concat("SUM_OF_PARTS(float4, sum, n[", row - 2, "], part, (float4)(", each, "))\n");
      for (int64_t u = 0; u < kShare; ++u) together += concat("v0[", u, "] = sum.s", u, ";\n");
      continue;
    }
    loads += flat_ ? concat("v", i, "[u] = ", value, "at));\n")
                   : concat("v", i, "[u] = inside[u] ? ", value, "at_x", i, ")) : 0;\n");
  }
  if (!flat_) {
    stores = "if (!inside[u]) {\n" + concat("if (n[", row - (sums() ? 3 : 1), "]) {\n");
    for (size_t k = 0; k < outputs(); ++k)
      stores += concat("STORE(Y", k, ", y", k, ", at_y", k, "[u], (", type(), ")0);\n");
    stores += "}\ncontinue;\n}\n" + body_;
  }
  return text + each_element(group) + loads + "}\n" + together + each_element(group) + stores + "}\n}\n";
}

Sharing JoinableWork::usable(Sharing shared) const {
  shared.common.resize(inputs(), false);
  shared.written.resize(inputs(), -1);
  for (size_t i = 0; i < inputs(); ++i) {
    int& written = shared.written[i];
    const auto before = shared.written.begin() + std::ptrdiff_t(i);
    if (written >= 0 && (plan_.computation.inputs[i].dtype != plan_.computation.outputs[size_t(written)].dtype ||
                         std::find(shared.written.begin(), before, written) != before))
      written = -1;
  }
  return shared;
}

// A program is built for a few numbers of works, and serves fewer: what waits together is not always the same.
// Parameters that are left over get the first work's tensors.
void JoinableWork::add_launch(KernelList& list, const std::vector<std::shared_ptr<const JoinableWork>>& works,
                              const Sharing& expected) const {
  const Sharing shared = usable(expected);
  const int64_t group = std::min<int64_t>(kGroup, int64_t(device_.capabilities().max_work_group));
  size_t places = 1;  // 1, 2, 3, 4, 6, 8, 12...
  for (size_t power = 1; places < works.size(); power *= 2)
    places = works.size() <= power + power / 2 ? power + power / 2 : 2 * power;
  places = std::max(std::min(places, most()), works.size());
  KernelSource source = KernelSource::generated(plan_.computation.name, text(places, group, shared));
  for (size_t i = 0; i < inputs(); ++i)
    source.define(concat("X", i, "_DTYPE"), name_of(plan_.computation.inputs[i].dtype));
  for (size_t k = 0; k < outputs(); ++k)
    source.define(concat("Y", k, "_DTYPE"), name_of(plan_.computation.outputs[k].dtype));
  Launch& launch = list.add(source, "pointwise_together");
  std::vector<cl_uint> ends, sizes;
  std::vector<cl_int> table;
  std::vector<cl_float> floats;
  std::vector<cl_long> integers;
  int64_t blocks = 0;
  for (size_t m = 0; m < places; ++m) {
    const bool left_over = m >= works.size();
    const size_t place = left_over ? 0 : m;
    const JoinableWork* one = works[place].get();
    require(one->alike_ == alike_, Code::internal, plan_.computation.name, ": kernels that differ run together");
    for (size_t i = 0; i < inputs(); ++i)
      if (shared.written[i] < 0 && (m == 0 || !shared.common[i])) launch.input(int(place * inputs() + i));
    for (size_t k = 0; k < outputs(); ++k) launch.output(int(place * outputs() + k));
    const int64_t size = left_over ? 0 : one->plan_.iteration.kept_count();
    blocks += (size + group * kShare - 1) / (group * kShare);
    ends.push_back(cl_uint(blocks));
    sizes.push_back(cl_uint(size));
    one->add_numbers(table);
    for (double value : one->plan_.computation.scalars)
      real() ? floats.push_back(cl_float(value)) : integers.push_back(to_integer(value));
  }
  std::vector<char> argument;
  const auto append = [&](const auto& values) {
    const char* bytes = reinterpret_cast<const char*>(values.data());
    argument.insert(argument.end(), bytes, bytes + values.size() * sizeof(values[0]));
  };
  append(ends);
  append(sizes);
  append(floats);
  append(integers);
  append(table);
  if (argument.size() % sizeof(cl_long) && !integers.empty()) append(std::vector<cl_int>{0});  // the struct's end
  launch.raw(argument.data(), argument.size()).global({size_t(blocks * group)}).local({size_t(group)});
}

namespace {

// Works as one launch, for arguments that share memory as is expected of them; others take another launch, which is
// made when it is needed.
class SharingKernel final : public Kernel {
 public:
  SharingKernel(OpenclDevice& device, std::vector<std::shared_ptr<const JoinableWork>> works, const Sharing& shared)
      : device_(device), works_(std::move(works)), shared_(shared), expected_(make(shared)) {}

  void run(const KernelArguments& arguments) override {
    if (is_as_expected(arguments)) return expected_->run(arguments);
    {
      std::lock_guard<std::mutex> guard(lock_);
      if (!any_) any_ = make({});
    }
    any_->run(arguments);
  }

 private:
  std::unique_ptr<KernelList> make(const Sharing& shared) const {
    auto list = std::make_unique<KernelList>(device_);
    works_[0]->add_launch(*list, works_, shared);
    return list;
  }

  bool is_as_expected(const KernelArguments& arguments) const {
    const size_t inputs = works_[0]->inputs(), outputs = works_[0]->outputs();
    for (size_t k = 0; k < works_.size(); ++k)
      for (size_t i = 0; i < inputs; ++i) {
        const Buffer* input = arguments.inputs[k * inputs + i];
        if (shared_.common[i] && input != arguments.inputs[i]) return false;
        const int written = shared_.written[i];
        if (written >= 0 && input != arguments.outputs[k * outputs + size_t(written)]) return false;
      }
    return true;
  }

  OpenclDevice& device_;
  const std::vector<std::shared_ptr<const JoinableWork>> works_;
  const Sharing shared_;
  const std::unique_ptr<KernelList> expected_;
  std::unique_ptr<KernelList> any_;
  std::mutex lock_;
};

}  // namespace

std::unique_ptr<Kernel> JoinableKernel::together(const std::vector<const Together*>& kernels,
                                                 const Sharing& shared) const {
  std::vector<std::shared_ptr<const JoinableWork>> works;
  for (const Together* kernel : kernels) {
    const auto* one = dynamic_cast<const JoinableKernel*>(kernel);
    require(one != nullptr, Code::internal, "kernels that differ run together");
    works.push_back(one->work_);
  }
  const Sharing usable = work_->usable(shared);
  if (usable.any()) return std::make_unique<SharingKernel>(device_, std::move(works), usable);
  auto list = std::make_unique<KernelList>(device_);
  work_->add_launch(*list, works, {});
  return list;
}

}  // namespace pl::opencl

#include "providers/opencl/pointwise/pointwise_kernel.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "providers/opencl/addressing/places.h"
#include "providers/opencl/addressing/quads.h"
#include "providers/opencl/pointwise/pointwise_text.h"
#include "providers/opencl/pointwise/pointwise_together.h"
#include "providers/opencl/pointwise/pointwise_vectors.h"

namespace pl::opencl {
namespace {

using pointwise::Arithmetic;
using pointwise::Function;
using pointwise::Node;
using pointwise::Program;

constexpr int64_t kSumBlock = 128;  // elements of a reduction that are folded before they join the total

// One kernel of a computation.
struct Stage {
  const Computation* computation;
  Program program;
  Iteration iteration;
  std::vector<DType> input_dtypes;
  bool inputs_in_workspace = false;  // the results of the first stage
  bool to_workspace = false;         // leave the folded chunks there
  int64_t chunks = 1, lanes = 1;
  int64_t count = 1;   // what `count` is in expressions
  int vector = 1;      // neighbours a work-item computes
  bool whole = false;  // as one vector, on CPUs; global size (vectors of the innermost axis, the next one, the others)
  bool rows = false;   // global size (innermost axis, the others); else one dimension
};

// Run-time numbers of a kernel: one struct argument, its fields handed out one by one.
template <class T>
class Numbers {
 public:
  Numbers(const char* name, size_t limit) : name_(name), limit_(limit) {}
  // The text of a field that holds `value`, or the value itself when the struct is full.
  std::string slot(T value, const std::string& literal) {
    if ((values_.size() + 1) * sizeof(T) > limit_) return literal;
    values_.push_back(value);
    return concat(name_, ".v[", values_.size() - 1, "]");
  }
  const std::vector<T>& values() const { return values_; }

 private:
  const char* name_;
  size_t limit_;
  std::vector<T> values_;
};

class Writer {
 public:
  Writer(const OpenclDevice& device, const Stage& stage)
      : stage_(stage),
        program_(stage.program),
        it_(stage.iteration),
        real_(stage.program.arithmetic == Arithmetic::f32),
        inputs_(stage.input_dtypes.size()),
        outputs_(stage.computation->outputs.size()),
        products_(!device.capabilities().cpu && !stage.iteration.wide),
        polynomials_(device.capabilities().cpu && real_ && !stage.program.reduces()),
        // Half of what a kernel may be given, so that pointers and scalars find room.
        numbers_("n", device.capabilities().max_parameters / 2),
        scalars_("s", device.capabilities().max_parameters / 4) {}

  KernelSource source() {
    std::string body = program_.reduces() ? reduction() : elementwise();
    std::string text =
        "#include \"common/tensor.clh\"\n#include \"common/activation.clh\"\n#include \"common/special.clh\"\n";
    text += "#include \"common/arithmetic.clh\"\n";
    if (program_.reduces() && stage_.lanes > 1) text += "#include \"common/halving.clh\"\n";
    // Compilers make vectors of neighbouring work-items where nothing is called for one number at a time.
    if (polynomials_) {
      text += "#include \"common/elementary.clh\"\n";
      for (const char* function : {"exp", "erf", "tanh"})
        text += concat("#undef ", function, "\n#define ", function, "(x) poly_", function, "(x)\n");
    }
    std::string parameters;
    const auto parameter = [&](const std::string& declaration) {
      parameters += (parameters.empty() ? "" : ", ") + declaration;
    };
    for (size_t i = 0; i < inputs_; ++i) parameter(concat("__global const STORAGE_T(X", i, ")* x", i));
    if (stage_.to_workspace) {
      parameter(concat("__global ", type(), "* part"));
    } else {
      for (size_t k = 0; k < outputs_; ++k) parameter(concat("__global STORAGE_T(Y", k, ")* y", k));
    }
    if (!numbers_.values().empty()) {
      text += concat("typedef struct { idx_t v[", numbers_.values().size(), "]; } numbers_t;\n");
      parameter("const numbers_t n");
    }
    if (!scalars_.values().empty()) {
      text += concat("typedef struct { ", type(), " v[", scalars_.values().size(), "]; } scalars_t;\n");
      parameter("const scalars_t s");
    }
    // With vectors of their own, work-items are not to be the lanes of some (Intel's compiler).
    if (stage_.whole) text += "__attribute__((intel_vec_len_hint(1))) ";
    text += "__kernel void pointwise(" + parameters + ") {\n" + body + "}\n";
    KernelSource made = KernelSource::generated(stage_.computation->name, text);
    made.wide_indices(it_.wide);
    for (size_t i = 0; i < inputs_; ++i) made.define(concat("X", i, "_DTYPE"), name_of(stage_.input_dtypes[i]));
    for (size_t k = 0; k < outputs_; ++k)
      made.define(concat("Y", k, "_DTYPE"), name_of(stage_.computation->outputs[k].dtype));
    return made;
  }

  void add_numbers(Launch& launch) const {
    if (!numbers_.values().empty()) {
      if (it_.wide) {
        launch.raw(numbers_.values().data(), numbers_.values().size() * 8);
      } else {
        std::vector<int32_t> narrow(numbers_.values().begin(), numbers_.values().end());
        launch.raw(narrow.data(), narrow.size() * 4);
      }
    }
    if (!scalars_.values().empty()) {
      if (real_) {
        std::vector<float> floats(scalars_.values().begin(), scalars_.values().end());
        launch.raw(floats.data(), floats.size() * 4);
      } else {
        std::vector<int64_t> integers;
        for (double value : scalars_.values()) integers.push_back(to_integer(value));
        launch.raw(integers.data(), integers.size() * 8);
      }
    }
  }

 private:
  const char* type() const { return arithmetic_type(program_.arithmetic); }
  std::string number(int64_t value) { return numbers_.slot(value, concat("(idx_t)", value)); }
  std::string scalar(double value) {
    return scalars_.slot(value, real_ ? float_literal(value) : concat("(", to_integer(value), "L)"));
  }

  // Declares `prefix`0.. for the axes from the linear index in variable `rest` (a uidx_t that is used up).
  std::string decompose(const std::vector<Axis>& axes, size_t count, const std::string& prefix,
                        const std::string& rest) {
    std::string out;
    for (size_t i = count; i-- > 1;) {
      const std::string size = "(uidx_t)" + number(axes[i].size), above = concat(prefix, i, "_above");
      if (products_) {  // of numbers below 2^31
        const Divisor by(axes[i].size);
        const std::string factor = "(uint)" + number(int64_t(by.factor)), shift = "(uint)" + number(int64_t(by.shift));
        out += concat("const uidx_t ", above, " = PL_DIVIDED(", rest, ", ", factor, ", ", shift, ");\n");
        out += concat("const idx_t ", prefix, i, " = (idx_t)(", rest, " - ", above, " * ", size, "); ", rest, " = ",
                      above, ";\n");
        continue;
      }
      out += concat("const idx_t ", prefix, i, " = (idx_t)(", rest, " % ", size, "); ", rest, " /= ", size, ";\n");
    }
    return out + concat("const idx_t ", prefix, "0 = (idx_t)", rest, ";\n");
  }

  // The sum of (axis index * stride) of tensor t, with or without its offset.
  std::string place(const std::vector<Axis>& axes, const std::string& prefix, size_t t) {
    std::string out;
    for (size_t i = 0; i < axes.size(); ++i) {
      const int64_t stride = axes[i].strides[t];
      if (stride == 0) continue;
      out += concat(" + ", prefix, i);
      if (stride != 1) out += " * " + number(stride);
    }
    return out;
  }
  std::string offset(size_t t) { return it_.offsets[t] == 0 ? std::string("(idx_t)0") : number(it_.offsets[t]); }

  std::string condition(const std::vector<Check>& checks, const std::string& prefix, bool stored) {
    std::string out;
    for (const Check& check : checks) {
      if (check.stored != stored) continue;
      if (!out.empty()) out += " && ";
      if (check.outer >= 0) out += concat(prefix, check.outer, " * ", check.block, " + ");
      out += concat(prefix, check.inner, " < ", number(check.limit));
    }
    return out;
  }

  std::string load(size_t i, const std::string& at) const {
    return concat(real_ ? "convert_float" : "convert_long", "(LOAD(X", i, ", x", i, ", ", at, "))");
  }
  std::string store(size_t k, const std::string& at, const std::string& value) const {
    return concat(real_ || stage_.computation->saturate ? "STORE" : "STORE_WRAP", "(Y", k, ", y", k, ", ", at, ", ",
                  value, ");\n");
  }

  std::string leaf(const Node& node, const std::function<std::string(int)>& input) {
    if (node.function == Function::input) return input(node.index);
    if (node.function == Function::scalar) return scalar_text(node.index);
    if (node.function == Function::reduced) return concat("acc", node.index);
    return concat("(", type(), ")", number(stage_.count));
  }
  std::string scalar_text(int index) {
    if (scalar_texts_.size() < stage_.computation->scalars.size())
      for (double value : stage_.computation->scalars) scalar_texts_.push_back(scalar(value));
    return scalar_texts_[size_t(index)];
  }

  // The outputs' values after the epilogue: declares `prefix`0, `prefix`1...
  std::string finish(const std::vector<std::string>& values, const std::string& prefix) {
    return finish(values, prefix, type());
  }
  std::string finish(const std::vector<std::string>& values, const std::string& prefix, const std::string& of) {
    const Computation& c = *stage_.computation;
    std::string out;
    for (size_t k = 0; k < values.size(); ++k) {
      if (c.epilogue == "identity") {
        out += concat("const ", of, " ", prefix, k, " = ", values[k], ";\n");
        continue;
      }
      if (alpha_.empty()) {
        // On integers, limits go to the nearest integers within them.
        alpha_ = scalar(real_ ? c.epilogue_alpha : std::ceil(c.epilogue_alpha));
        beta_ = scalar(real_ ? c.epilogue_beta : std::floor(c.epilogue_beta));
      }
      out += concat("const ", of, " ", prefix, k, " = ", real_ ? "UNARY_" : "UNARYI_", c.epilogue, "(",
                    real_ ? of + ", " : "", values[k], ", ", alpha_, ", ", beta_, ");\n");
    }
    return out;
  }

  // Indices of the kept axes k0, k1, ... from the global id; `rest` is declared by the caller in the 1-D case.
  std::string kept_from_rows(const std::string& row) {
    const size_t last = it_.kept.size() - 1;
    std::string out = concat("const idx_t k", last, " = (idx_t)get_global_id(0);\n");
    if (last == 0) return out;
    return out + concat("uidx_t rest = (uidx_t)(", row, ");\n") + decompose(it_.kept, last, "k", "rest");
  }

  // The tensors' places of the kept indices.
  std::string places() {
    std::string out;
    for (size_t k = 0; k < outputs_; ++k)
      out += concat("const idx_t py", k, " = ", offset(inputs_ + k), place(it_.kept, "k", inputs_ + k), ";\n");
    for (size_t i = 0; i < inputs_; ++i)
      out += concat("const idx_t px", i, " = ", offset(i), place(it_.kept, "k", i), ";\n");
    return out;
  }

  // A vector of neighbours, computed as such; what is left of the innermost axis one by one.
  std::string whole_vectors() {
    const size_t last = it_.kept.size() - 1;
    const std::string w = std::to_string(stage_.vector), of = "float" + w, size = number(it_.kept[last].size);
    std::string out = concat("idx_t k", last, " = (idx_t)get_global_id(0) * ", w, ";\n");
    out += concat("if (k", last, " >= ", size, ") return;\n");
    if (last > 0) {
      out += concat("const idx_t k", last - 1, " = (idx_t)get_global_id(1);\n");
      out += concat("if (k", last - 1, " >= ", number(it_.kept[last - 1].size), ") return;\n");
    }
    if (last > 1) {
      const int64_t others = it_.kept_count() / it_.kept[last].size / it_.kept[last - 1].size;
      out += concat("uidx_t rest = (uidx_t)get_global_id(2);\nif (rest >= (uidx_t)", number(others), ") return;\n");
      out += decompose(it_.kept, last - 1, "k", "rest");
    }
    if (it_.kept[last].size % stage_.vector) {
      out += concat("if (k", last, " + ", w, " > ", size, ") {\nfor (; k", last, " < ", size, "; ++k", last, ") {\n");
      out += places() + one() + "}\nreturn;\n}\n";
    }
    out += places();
    for (size_t i = 0; i < inputs_; ++i) {
      const bool neighbours = it_.kept[last].strides[i] == 1;
      const std::string at = concat("(X", i, ", ", neighbours ? w + ", x" : "x", i, ", px", i, ")");
      out += concat("const ", of, " x", i, "v = (", of, ")(", neighbours ? "LOADV" : "LOAD", at, ");\n");
    }
    const CodeText code = code_text(
        program_.elements, program_.arithmetic, "t",
        [&](const Node& node) { return leaf(node, [](int i) { return concat("x", i, "v"); }); }, of);
    out += code.statements + finish(code.results, "r", of);
    std::string inside;  // a block of channels, some of which may be padding
    for (const Check& check : it_.kept_checks) {
      const std::string first = check.outer < 0 ? "0" : concat("k", check.outer, " * ", check.block);
      for (int lane = 0; lane < stage_.vector; ++lane) inside += concat(lane ? ", " : "", lane);
      inside = concat("((int", w, ")((int)(", number(check.limit), " - ", first, ")) > (int", w, ")(", inside, ")) ? ");
    }
    for (size_t k = 0; k < outputs_; ++k)
      out += concat("STOREV(Y", k, ", ", w, ", y", k, ", py", k, ", ", inside, "r", k,
                    inside.empty() ? "" : " : (" + of + ")(0.0f)", ");\n");
    return out;
  }

  std::string elementwise() {
    if (stage_.whole) return whole_vectors();
    const size_t last = it_.kept.size() - 1;
    std::string out;
    if (stage_.rows) {
      out += kept_from_rows("get_global_id(1)");
    } else {
      out += concat("if (get_global_id(0) >= (size_t)", number(it_.kept_count() / stage_.vector), ") return;\n");
      out += "uidx_t rest = (uidx_t)get_global_id(0);\n";
      std::vector<Axis> axes = it_.kept;
      axes[last].size /= stage_.vector;
      out += decompose(axes, axes.size(), stage_.vector == 1 ? "k" : "v", "rest");
      if (stage_.vector != 1) {
        for (size_t i = 0; i < last; ++i) out += concat("const idx_t k", i, " = v", i, ";\n");
        out += concat("const idx_t k", last, " = v", last, " * ", stage_.vector, ";\n");
      }
    }
    const std::string skip = condition(it_.kept_checks, "k", false);
    if (!skip.empty()) out += "if (!(" + skip + ")) return;\n";
    for (size_t k = 0; k < outputs_; ++k)
      out += concat("const idx_t py", k, " = ", offset(inputs_ + k), place(it_.kept, "k", inputs_ + k), ";\n");
    const std::string inside = condition(it_.kept_checks, "k", true);
    if (!inside.empty()) {
      out += "if (!(" + inside + ")) {\n";
      for (size_t k = 0; k < outputs_; ++k) out += store(k, concat("py", k), "0");
      out += "return;\n}\n";
    }
    for (size_t i = 0; i < inputs_; ++i)
      out += concat("const idx_t px", i, " = ", offset(i), place(it_.kept, "k", i), ";\n");
    return out + (stage_.vector == 1 ? one() : several());
  }

  std::string one() {
    const CodeText code = code_text(program_.elements, program_.arithmetic, "t", [&](const Node& node) {
      return leaf(node, [&](int i) { return load(size_t(i), concat("px", i)); });
    });
    std::string out = code.statements + finish(code.results, "r");
    for (size_t k = 0; k < outputs_; ++k) out += store(k, concat("py", k), concat("r", k));
    return out;
  }

  // Four or eight neighbours: vector loads and stores around code for each component.
  std::string several() {
    const int w = stage_.vector;
    const char* const one_access = w == 8 ? "OCT" : "QUAD";
    std::string out;
    for (size_t i = 0; i < inputs_; ++i) {
      if (in_one_access(it_, i, stage_.input_dtypes[i], w))
        out += concat("const float", w, " x", i, "v = LOAD_", one_access, "(X", i, ", x", i, ", px", i, ");\n");
      else if (it_.kept.back().strides[i] == 1)
        out +=
            concat("const COMPUTE_VT(X", i, ", ", w, ") x", i, "v = LOADV(X", i, ", ", w, ", x", i, ", px", i, ");\n");
      else
        out += concat("const float x", i, "v = ", load(i, concat("px", i)), ";\n");
    }
    for (size_t k = 0; k < outputs_; ++k) out += concat("float", w, " y", k, "v;\n");
    for (int lane = 0; lane < w; ++lane) {
      const CodeText code = code_text(program_.elements, program_.arithmetic, "t", [&](const Node& node) {
        return leaf(node, [&](int i) {
          if (it_.kept.back().strides[size_t(i)] == 1) return concat("convert_float(x", i, "v.s", lane, ")");
          return concat("x", i, "v");
        });
      });
      out += "{\n" + code.statements + finish(code.results, "r");
      for (size_t k = 0; k < outputs_; ++k) out += concat("y", k, "v.s", lane, " = r", k, ";\n");
      out += "}\n";
    }
    for (size_t k = 0; k < outputs_; ++k) {
      const bool whole = in_one_access(it_, inputs_ + k, stage_.computation->outputs[k].dtype, w);
      out += concat("STORE", whole ? concat("_", one_access, "(Y", k) : concat("V(Y", k, ", ", w), ", y", k, ", py", k,
                    ", y", k, "v);\n");
    }
    return out;
  }

  std::string reduction() {
    const bool grouped = stage_.lanes > 1;
    const int64_t outer_rows = it_.kept_count() / it_.kept.back().size;
    const int64_t total = it_.reduced_count();
    const int64_t chunk_size = (total + stage_.chunks - 1) / stage_.chunks;
    const std::string kept_count = number(it_.kept_count());
    std::string out;
    if (stage_.rows) {
      const std::string rows = number(outer_rows);
      out += concat("const idx_t chunk = (idx_t)(get_global_id(1) / (size_t)", rows, ");\n");
      out += kept_from_rows(concat("get_global_id(1) % (size_t)", rows));
      out += concat("const idx_t o = (idx_t)(get_global_id(1) % (size_t)", rows, ") * ", number(it_.kept.back().size),
                    " + k", it_.kept.size() - 1, ";\n");
    } else {
      const std::string id = grouped ? "get_group_id(0)" : "get_global_id(0)";
      if (!grouped) out += concat("if (get_global_id(0) >= (size_t)", kept_count, " * ", stage_.chunks, ") return;\n");
      out += concat("const idx_t chunk = (idx_t)(", id, " / (size_t)", kept_count, ");\n");
      out += concat("const idx_t o = (idx_t)(", id, " % (size_t)", kept_count, ");\n");
      out += "uidx_t rest = (uidx_t)o;\n" + decompose(it_.kept, it_.kept.size(), "k", "rest");
    }
    out += grouped ? "const int lane = (int)get_local_id(0);\n" : "const int lane = 0;\n";
    // Work-groups that meet at barriers take no early exit: outside, they fold nothing.
    std::string exists = condition(it_.kept_checks, "k", false), inside = condition(it_.kept_checks, "k", true);
    out += concat("const int exists = ", exists.empty() ? "1" : exists, ";\n");
    out += concat("const int inside = exists && ", inside.empty() ? std::string("1") : "(" + inside + ")", ";\n");
    const std::string size = number(chunk_size);
    out += concat("const idx_t begin = chunk * ", size, ";\n");
    out += concat("const idx_t end = inside ? min(begin + ", size, ", ", number(total), ") : begin;\n");
    for (size_t i = 0; i < inputs_; ++i)
      out += concat("const idx_t qx", i, " = ", offset(i), place(it_.kept, "k", i), ";\n");
    for (size_t k = 0; k < outputs_; ++k)
      out += concat(type(), " acc", k, " = ", identity_text(program_.reductions[k], program_.arithmetic), ";\n");

    const int64_t step = kSumBlock * stage_.lanes;
    out += concat("for (idx_t b = begin; b < end; b += ", step, ") {\n");
    for (size_t k = 0; k < outputs_; ++k)
      out += concat(type(), " sum", k, " = ", identity_text(program_.reductions[k], program_.arithmetic), ";\n");
    out += concat("const idx_t e = min(b + ", step, ", end);\n");
    out += concat("for (idx_t r = b + lane; r < e; r += ", stage_.lanes, ") {\n");
    if (it_.reduced.size() == 1) {
      out += "const idx_t r0 = r;\n";
    } else {
      out += "uidx_t left = (uidx_t)r;\n" + decompose(it_.reduced, it_.reduced.size(), "r", "left");
    }
    const std::string counted = condition(it_.reduced_checks, "r", false);
    if (!counted.empty()) out += "if (!(" + counted + ")) continue;\n";
    for (size_t i = 0; i < inputs_; ++i)
      out += concat("const idx_t px", i, " = qx", i, place(it_.reduced, "r", i), ";\n");
    const CodeText code = code_text(program_.elements, program_.arithmetic, "t", [&](const Node& node) {
      return leaf(node, [&](int i) { return load(size_t(i), concat("px", i)); });
    });
    out += code.statements;
    for (size_t k = 0; k < outputs_; ++k)
      out += concat("sum", k, " = ",
                    fold_text(program_.reductions[k], program_.arithmetic, concat("sum", k), code.results[k]), ";\n");
    out += "}\n";
    for (size_t k = 0; k < outputs_; ++k)
      out += concat("acc", k, " = ",
                    fold_text(program_.reductions[k], program_.arithmetic, concat("acc", k), concat("sum", k)), ";\n");
    out += "}\n";
    if (grouped) out += fold_lanes();
    return out + (stage_.to_workspace ? leave_chunk(kept_count) : store_reduced());
  }

  std::string fold_lanes() {
    std::string out, step;
    for (size_t k = 0; k < outputs_; ++k) {
      out += concat("__local ", type(), " lanes", k, "[", stage_.lanes, "];\nlanes", k, "[lane] = acc", k, ";\n");
      step += concat("acc", k, " = ",
                     fold_text(program_.reductions[k], program_.arithmetic, concat("acc", k),
                               concat("lanes", k, "[lane + half_of]")),
                     ";\nlanes", k, "[lane] = acc", k, ";\n");
    }
    out += concat("HALVING(half_of, ", stage_.lanes, ", lane,\n", step, ")\nbarrier(CLK_LOCAL_MEM_FENCE);\n");
    for (size_t k = 0; k < outputs_; ++k) out += concat("acc", k, " = lanes", k, "[0];\n");
    return out;
  }

  std::string leave_chunk(const std::string& kept_count) {
    std::string out = "if (lane == 0) {\n";
    for (size_t k = 0; k < outputs_; ++k)
      out += concat("part[((idx_t)", k, " * ", stage_.chunks, " + chunk) * ", kept_count, " + o] = acc", k, ";\n");
    return out + "}\n";
  }

  std::string store_reduced() {
    std::string out = "if (lane != 0 || !exists) return;\n";
    const CodeText code = code_text(program_.finish, program_.arithmetic, "f",
                                    [&](const Node& node) { return leaf(node, [](int) { return std::string(); }); });
    out += code.statements + finish(code.results, "y_");
    for (size_t k = 0; k < outputs_; ++k) {
      out += concat("const idx_t py", k, " = ", offset(inputs_ + k), place(it_.kept, "k", inputs_ + k), ";\n");
      out += store(k, concat("py", k), concat("inside ? y_", k, " : 0"));
    }
    return out;
  }

  const Stage& stage_;
  const Program& program_;
  const Iteration& it_;
  bool real_;
  size_t inputs_, outputs_;
  bool products_;     // divides by a product and a shift
  bool polynomials_;  // exp, erf and tanh are those of kernels/common/elementary.clh
  Numbers<int64_t> numbers_;
  Numbers<double> scalars_;
  std::vector<std::string> scalar_texts_;
  std::string alpha_, beta_;
};

void add_stage(OpenclDevice& device, KernelList& list, const Stage& stage) {
  Writer writer(device, stage);
  const KernelSource source = writer.source();
  Launch& launch = list.add(source, "pointwise");
  for (size_t i = 0; i < stage.input_dtypes.size(); ++i) {
    if (stage.inputs_in_workspace)
      launch.workspace();
    else
      launch.input(stage.computation->inputs[i].argument);
  }
  if (stage.to_workspace) {
    launch.workspace();
  } else {
    for (size_t k = 0; k < stage.computation->outputs.size(); ++k) launch.output(int(k));
  }
  writer.add_numbers(launch);
  const auto kept = size_t(stage.iteration.kept_count()), inner = size_t(stage.iteration.kept.back().size);
  if (stage.whole) {
    const std::vector<Axis>& axes = stage.iteration.kept;
    const size_t next = axes.size() > 1 ? size_t(axes[axes.size() - 2].size) : 1;
    const std::vector<size_t> sizes{(inner + size_t(stage.vector) - 1) / size_t(stage.vector), next,
                                    kept / inner / next};
    launch.global(sizes).local(group_of_vectors(device, sizes));
  } else if (stage.lanes > 1) {
    launch.global({kept * size_t(stage.chunks) * size_t(stage.lanes)}).local({size_t(stage.lanes)});
  } else if (stage.rows) {
    launch.global({inner, kept / inner * size_t(stage.chunks)});
  } else {
    launch.global({kept * size_t(stage.chunks) / size_t(stage.vector)});
  }
}

}  // namespace

bool plan_computation(const OpenclDevice& device, Computation computation, ComputationPlan& out, std::string& reason) {
  out = {};
  std::vector<Addressing> inputs, outputs;
  for (const Operand& operand : computation.inputs) inputs.push_back(operand.addressing);
  for (const Operand& operand : computation.outputs) outputs.push_back(operand.addressing);
  if (!make_iteration(computation.space, computation.reduced, inputs, outputs, out.iteration, reason)) return false;
  const Capabilities& c = device.capabilities();
  // Narrow indices might wrap, so that compilers for CPUs do not see that neighbours lie side by side: Intel's takes
  // 115 us for the relu of 200,704 elements, 20 with wide ones.  PoCL's sees it along several axes, where wide ones
  // cost it.
  const bool intel = c.platform.find("Intel") != std::string::npos;
  if (c.cpu && !computation.program.reduces() && (intel || out.iteration.kept.size() == 1)) out.iteration.wide = true;
  if (computation.program.reduces() && out.iteration.reduced.empty()) {  // a scalar: one element, no axis
    Axis one;
    one.strides.assign(inputs.size() + outputs.size(), 0);
    out.iteration.reduced.push_back(one);
  }
  if (computation.program.reduces()) {
    const Iteration& it = out.iteration;
    const int64_t total = it.reduced_count(), kept = it.kept_count();
    // Lanes where neighbours along the reduced axis lie side by side and there are enough of them.
    bool side_by_side = false;
    for (size_t i = 0; i < inputs.size(); ++i) side_by_side |= it.reduced.back().strides[i] == 1;
    if (side_by_side && total >= 32) {
      const int64_t limit = std::min<int64_t>(c.cpu ? 16 : 256, int64_t(c.max_work_group));
      out.lanes = 1;
      while (out.lanes * 2 <= limit && out.lanes * 2 <= total / 2) out.lanes *= 2;
    }
    // Chunks where the kept elements alone do not fill the device.
    const int64_t wanted = int64_t(c.compute_units) * (c.cpu ? 4 : 2048), least = c.cpu ? 4096 : 16 * out.lanes;
    const int64_t missing = wanted / std::max<int64_t>(1, kept * (c.cpu ? 1 : out.lanes));
    out.chunks = std::max<int64_t>(1, std::min({missing, total / std::max<int64_t>(least, 1), int64_t(1024)}));
    // No empty chunks.
    const int64_t size = (total + out.chunks - 1) / out.chunks;
    out.chunks = (total + size - 1) / size;
    if (out.chunks > 1) {
      const size_t element = computation.program.arithmetic == Arithmetic::f32 ? 4 : 8;
      out.workspace_bytes = size_t(out.chunks * kept) * computation.outputs.size() * element;
    }
  }
  out.computation = std::move(computation);
  return true;
}

std::unique_ptr<Kernel> prepare_computation(OpenclDevice& device, const ComputationPlan& plan) {
  if (plan.computation.rounds || plan.computation.parts > 1) {
    auto joinable = std::make_unique<JoinableKernel>(device, plan);
    joinable->add_own();
    return joinable;
  }
  const Capabilities& c = device.capabilities();
  std::unique_ptr<KernelList> list =
      is_joinable(plan) ? std::make_unique<JoinableKernel>(device, plan) : std::make_unique<KernelList>(device);
  Stage stage;
  stage.computation = &plan.computation;
  stage.program = plan.computation.program;
  stage.iteration = plan.iteration;
  for (const Operand& operand : plan.computation.inputs) stage.input_dtypes.push_back(operand.dtype);
  stage.rows = c.cpu && plan.iteration.kept.size() > 1;
  if (!stage.program.reduces()) {
    const Axis& inner = plan.iteration.kept.back();
    bool neighbours = stage.program.arithmetic == Arithmetic::f32 && !c.cpu && inner.size % 4 == 0;
    for (size_t t = 0; t < inner.strides.size(); ++t)
      neighbours = neighbours && (inner.strides[t] == 1 || (inner.strides[t] == 0 && t < stage.input_dtypes.size()));
    for (const Check& check : plan.iteration.kept_checks)
      neighbours = neighbours && check.inner != int(plan.iteration.kept.size()) - 1 &&
                   check.outer != int(plan.iteration.kept.size()) - 1;
    if (neighbours) stage.vector = in_octs(plan) ? 8 : 4;
    if (whole_vectors(device, plan)) {
      stage.vector = vector_of(device, inner.size);
      stage.whole = true;
    }
    add_stage(device, *list, stage);
    return list;
  }
  stage.count = 1;
  for (int d = 0; d < plan.computation.space.size(); ++d)
    if (plan.computation.reduced[size_t(d)]) stage.count *= plan.computation.space[d];
  stage.lanes = plan.lanes;
  stage.chunks = plan.chunks;
  stage.rows = stage.rows && stage.lanes == 1;
  stage.to_workspace = plan.chunks > 1;
  add_stage(device, *list, stage);
  if (plan.chunks == 1) return list;

  // The second stage folds the chunks: K inputs side by side in the workspace, each (chunk, kept).
  const size_t inputs = plan.computation.inputs.size(), outputs = plan.computation.outputs.size();
  const int64_t kept = plan.iteration.kept_count();
  Stage last = stage;
  last.inputs_in_workspace = true;
  last.to_workspace = false;
  last.chunks = 1;
  last.lanes = 1;
  last.rows = c.cpu && plan.iteration.kept.size() > 1;
  last.input_dtypes.assign(outputs, stage.program.arithmetic == Arithmetic::f32 ? DType::f32 : DType::s64);
  last.program.inputs = int(outputs);
  last.program.elements = {};
  for (size_t k = 0; k < outputs; ++k) {
    Node node;
    node.function = Function::input;
    node.index = int(k);
    last.program.elements.nodes.push_back(node);
    last.program.elements.results.push_back(int(k));
  }
  const auto with_inputs = [&](const std::vector<int64_t>& all, int64_t input) {
    std::vector<int64_t> strides(outputs, input);
    strides.insert(strides.end(), all.begin() + std::ptrdiff_t(inputs), all.end());
    return strides;
  };
  int64_t stride = 1;
  for (size_t i = last.iteration.kept.size(); i-- > 0;) {
    Axis& axis = last.iteration.kept[i];
    axis.strides = with_inputs(axis.strides, stride);
    stride *= axis.size;
  }
  Axis chunks;
  chunks.size = plan.chunks;
  chunks.strides = with_inputs(std::vector<int64_t>(inputs + outputs, 0), kept);
  last.iteration.reduced = {chunks};
  last.iteration.reduced_checks.clear();
  last.iteration.offsets = with_inputs(plan.iteration.offsets, 0);
  for (size_t k = 0; k < outputs; ++k) last.iteration.offsets[k] = int64_t(k) * plan.chunks * kept;
  add_stage(device, *list, last);
  return list;
}

}  // namespace pl::opencl

// From a oneDNN primitive description to candidates: every implementation that oneDNN's iterator offers becomes one.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/post_ops.h"
#include "providers/onednn/engine.h"
#include "providers/onednn/kernel.h"
#include "providers/provider.h"

namespace pl::onednn {

class OnednnProvider;
// Lists the candidates of one kind of op; one file each: conv.cpp, pool.cpp, ...
using ListFunction = void (*)(const Op& op, CandidateList& out);
using Table = OpTable<OnednnProvider, ListFunction>;
#define PL_ONEDNN_KIND(kind, function) \
  static const bool PL_JOIN(onednn_kind_, __COUNTER__) = ::pl::onednn::Table::instance().add(kind, function)

// How one execution argument of a primitive relates to a tensor of the op.
struct Binding {
  Binding();
  Binding(int argument, bool output, int index, std::optional<TensorDesc> desc = std::nullopt);
  ~Binding();
  Binding(const Binding& other);
  Binding(Binding&& other) noexcept;
  Binding& operator=(const Binding& other);
  Binding& operator=(Binding&& other) noexcept;

  int argument = 0;  // DNNL_ARG_SRC, ...
  bool output = false;
  int index = 0;  // of the op's input or output
  // The tensor as the candidate states it.  Given: this, and the primitive sees the same memory in another shape.
  // Not given: read from the primitive's own description, by `view` where dimensions differ.
  std::optional<TensorDesc> desc;
  std::function<bool(BlockedDesc&)> view;
  size_t offset = 0;  // bytes
};
Binding input(int argument, int index);
Binding input(int argument, int index, TensorDesc desc);
Binding output(int argument, TensorDesc desc);
Binding output(int argument);

// oneDNN adds up in one float, or in one a lane, from the first term to the last.  The error grows with their number where
// terms have a sign: statistics of 12,544 values between 1 and 2 are off by 4e-6, of 802,816 by 2e-4, and sums of 3,000,000
// squares by 7e-5, where kernels that add up parts by themselves are off by 5e-8.  Beyond these terms, false: refused.
constexpr int64_t kMostTerms = 16384;
bool accept_terms(const Op& op, CandidateList& out, int64_t terms);

// One eltwise operation; a function may need two in a row.
struct Eltwise {
  dnnl_alg_kind_t algorithm;
  float alpha, beta;
};
// The unary function as oneDNN computes it, empty if it cannot (or computes something else).
std::vector<Eltwise> eltwise_of(std::string_view function, double alpha, double beta);
std::vector<Eltwise> eltwise_of(const PostOp& step);  // of one that reads no input

// A tensor as a primitive sees it, and as the candidate states it.
struct Operand {
  const_dnnl_memory_desc_t md = nullptr;
  TensorDesc desc;
};

// Attributes shared by all primitives here: the caller's scratchpad, strict fp32, post-ops in the order they are added.
class PrimitiveAttributes {
 public:
  PrimitiveAttributes();
  // Adds the op's post-ops, in their order.  `operand`: the tensor that they add or multiply by, as the result lies.
  // Returns how the operands are bound; nothing if oneDNN has no such function.  accumulate: the first step adds its
  // operand in another way: dst starts as a copy of that, and the primitive accumulates into it.
  std::optional<std::vector<Binding>> post_ops_of(const Op& op, const Operand& operand = {}, bool accumulate = false);
  void eltwise(const std::vector<Eltwise>& steps);
  int binary(const PostOp& step, const_dnnl_memory_desc_t operand);  // the argument that the operand is
  dnnl_primitive_attr_t attributes();                                // valid as long as this; call once

 private:
  Owned<dnnl_primitive_attr_t> attributes_;
  Owned<dnnl_post_ops_t> post_ops_;
};

// Collects the candidates of one op, and why there are none.
class Lister {
 public:
  Lister(const Op& op, CandidateList& out);
  ~Lister();

  // Makes a primitive description by `create(&pd)` and adds every implementation of it.  `prefix` tells apart the
  // ways in which one op can be put ("matmul:").  Reference implementations are taken where the list has nothing else,
  // if at all.  weights: as the question has them, where accumulate() was told of it.  Returns what became of it.
  struct Outcome {
    int added = 0;
    int fast = 0;        // of those, the ones that are not reference implementations
    int unnameable = 0;  // implementations whose layouts have no Layout
    int apart = 0;       // implementations left out since they apply post-ops wrongly or slowly
    dnnl_status_t status = dnnl_success;
  };
  Outcome walk(const std::function<dnnl_status_t(dnnl_primitive_desc_t*)>& create, const std::vector<Binding>& bindings,
               const std::string& prefix = "", bool references = true, const_dnnl_memory_desc_t weights = nullptr);

  // From now on: how the same is asked with weights as a description has them, accumulating into dst what the first
  // post-op adds, this input.  Candidates then run so where the caller wants the result in that input's memory, which
  // oneDNN promises of a sum, and not of an input that is read beside.  Null: no longer.
  using Accumulate = std::function<dnnl_status_t(const_dnnl_memory_desc_t weights, dnnl_primitive_desc_t*)>;
  void accumulate(Accumulate create, int input = -1) {
    accumulate_ = std::move(create);
    accumulated_ = input;
  }

  // From now on candidates run `step` after the primitive: what the primitive is asked without, because of a fault or
  // since it applies post-ops never or slowly.  Nothing ends this.  only_apart: of implementations those alone that a walk
  // without the step left out for that.
  struct Step {
    struct Primitive {
      PrimitiveDesc description;
      std::vector<Argument> arguments;
    };
    std::vector<Primitive> primitives;
    std::vector<std::pair<int, TensorDesc>> inputs;  // of the op, that it reads
    // Where it takes the primitive's result from: null, from the op's result; else from the start of the workspace, in
    // this form (f32, so that it is rounded once).
    SharedDesc between;
  };
  void then(std::optional<Step> step, bool only_apart = false) {
    step_ = std::move(step);
    only_apart_ = only_apart;
  }

  // A reason that is reported if no candidate was found at all when finish() is called.
  void reason(std::string text) { reasons_.insert(std::move(text)); }
  // Ends the listing: without candidates, refuses with the reasons, or with what oneDNN was asked.
  void finish();
  bool any() const { return added_ > 0; }

 private:
  bool add(dnnl_primitive_desc_t pd, const std::vector<Binding>& bindings, const std::string& name);
  // Describes the candidate's tensors, and the primitive's arguments, as the bindings say; false where a layout cannot be
  // described.
  bool bind(const_dnnl_primitive_desc_t pd, const std::vector<Binding>& bindings, Candidate& candidate,
            std::vector<Argument>& arguments) const;
  std::optional<TensorDesc> described(const_dnnl_memory_desc_t md, const Binding& binding) const;
  void bind_workspace(const_dnnl_primitive_desc_t pd, Candidate& candidate, std::vector<Argument>& arguments) const;
  unsigned written_in_place(const std::vector<Binding>& bindings) const;  // inputs, as bits
  std::vector<Argument> arguments_within(const_dnnl_primitive_desc_t within, const std::vector<Argument>& arguments,
                                         Candidate& candidate) const;
  // The same implementation, accumulating into dst; null where it has no such.
  PrimitiveDesc accumulating(const_dnnl_primitive_desc_t pd);
  PrimitiveDesc accumulating_with(const_dnnl_memory_desc_t weights, const_dnnl_primitive_desc_t pd) const;

  const Op& op_;
  CandidateList& out_;
  size_t first_;  // candidates before are of other providers
  std::set<std::string> reasons_;
  int added_ = 0, unnameable_ = 0;
  std::optional<Step> step_;
  bool only_apart_ = false;
  Accumulate accumulate_;
  int accumulated_ = -1;
  // The implementations that accumulate, of the question that walk() asks: asked for once, and as far as they were
  // wanted.  Those of both questions come in the same order.
  struct Twins {
    const_dnnl_memory_desc_t weights = nullptr;
    bool asked = false;
    Owned<dnnl_primitive_desc_t> next;  // null: there are no more
    std::vector<PrimitiveDesc> met;
  };
  Twins twins_;
};

// The input that the op's first post-op adds; -1: it adds none.
int first_added(const Op& op);

// While it lives, and the op's first post-op adds an input, `lister` also asks for what accumulates it:
// create(weights, attributes, &pd).  A lister of null: it does not.
class Accumulating {
 public:
  using Create = std::function<dnnl_status_t(const_dnnl_memory_desc_t, dnnl_primitive_attr_t, dnnl_primitive_desc_t*)>;
  Accumulating(const Op& op, Lister* lister, const Operand& operand, Create create);
  ~Accumulating();
  Accumulating(const Accumulating&) = delete;

 private:
  Lister* lister_ = nullptr;
  PrimitiveAttributes post_ops_;
};

// A tensor of the op in another layout of it, dense.  False refusals: throws nothing, null md if oneDNN cannot name it.
struct Described {
  TensorDesc desc;
  MemoryDesc md;
  explicit operator bool() const { return md != nullptr; }
};
Described describe(const TensorDesc& tensor, const Layout& layout);

// As f32 in the plain layout: in which oneDNN wants scales, shifts and statistics whatever the dtype of x.
inline TensorDesc plain_f32(const TensorDesc& tensor) { return TensorDesc::dense(DType::f32, tensor.shape); }

// A bias, the op's input of that number if not negative, and its post-ops as a primitive over the result in place; where
// the op's dtype is not f32, over a result in f32 that is rounded then.  Nothing if oneDNN has not all of them.
std::optional<Lister::Step> post_ops_apart(const Op& op, const Described& y, int bias = -1);
// "oneDNN has no post-op softsign": the first of the op's that it has not.
std::string missing_post_op(const Op& op);
// Refuses the op unless all present tensors have dtypes of the list.  True if it may go on.
bool accept_dtypes(const Op& op, CandidateList& out, std::initializer_list<DType> allowed);
void refuse(const Op& op, CandidateList& out, const std::string& reason);

}  // namespace pl::onednn

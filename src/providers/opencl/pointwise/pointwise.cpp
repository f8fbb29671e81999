// The ops that are expressions: pointwise, unary, binary, where, prelu and reduce, on the generator of
// pointwise_kernel.h.
#include <algorithm>
#include <cmath>
#include <map>

#include "ops/post_ops.h"
#include "ops/quantized.h"
#include "providers/opencl/pointwise/expressions.h"
#include "providers/opencl/pointwise/pointwise_kernel.h"
#include "providers/opencl/pointwise/pointwise_together.h"
#include "providers/opencl/reduce/reduce_vectors.h"
#include "providers/opencl/reorder/reorder_pieces.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

bool blocks_any(const Layout& layout, const std::vector<bool>& dims) {
  for (int d = 0; d < layout.rank(); ++d)
    if (dims[size_t(d)] && layout.block_of(d) > 1) return true;
  return false;
}

// The layout of an operand of `shape` beside an iteration over `space` in `layout`.
Layout operand_layout(const Dims& shape, const Dims& space, const Layout& layout) {
  if (shape.size() != space.size()) return Layout::plain(shape.size());
  std::vector<bool> broadcast(size_t(space.size()));
  for (int d = 0; d < space.size(); ++d) broadcast[size_t(d)] = shape[d] == 1 && space[d] != 1;
  return blocks_any(layout, broadcast) ? Layout::plain(shape.size()) : layout;
}

// The description of an operand as the iteration sees it: vectors beside channels lie along dimension 1.
Addressing aligned(const TensorDesc& desc, const Dims& space, Expressions::Over over) {
  if (over == Expressions::Over::scalars_beside && desc.shape != space)
    return broadcast_to(TensorDesc::dense(desc.dtype, Dims{}), space);
  if (over != Expressions::Over::per_channel || desc.rank() != 1 || space.size() < 2) return broadcast_to(desc, space);
  TensorDesc shaped = desc;
  Dims shape = Dims::filled(space.size(), 1), strides = Dims::filled(space.size(), 0);
  shape[1] = desc.shape[0];
  strides[1] = desc.strides[0];
  shaped = TensorDesc::strided(desc.dtype, shape, strides);
  shaped.offset = desc.offset;
  return broadcast_to(shaped, space);
}

// An output without its reduced dimensions gets them back, with size 1.
Addressing aligned_output(const TensorDesc& desc, const std::vector<bool>& reduced, bool keepdim) {
  Addressing a(desc);
  if (keepdim) return a;
  for (size_t d = 0; d < reduced.size(); ++d)
    if (reduced[d]) a.insert(int(d), 1);
  return a;
}

}  // namespace

void list_expressions(const Op& op, OpenclDevice& device, CandidateList& out, const Expressions& what) {
  std::vector<int> all;
  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (op.has(int(i))) all.push_back(int(i));
  const Dims space = what.over == Expressions::Over::broadcast ? broadcast_shapes(op, all) : op.in(0).shape;
  std::vector<bool> reduced(size_t(space.size()));
  for (int64_t dim : what.reduced) reduced[size_t(dim)] = true;
  Computation computation;
  computation.name = op.schema->name;
  computation.program = pointwise::parse(op.schema->name, what.elements, what.reductions, int(all.size()),
                                         int(what.scalars.size()), pointwise::arithmetic_of(op));
  computation.scalars = what.scalars;
  computation.epilogue = what.epilogue;
  computation.epilogue_alpha = what.alpha;
  computation.epilogue_beta = what.beta;
  computation.space = space;
  computation.reduced = reduced;

  const bool reduces = computation.program.reduces();
  std::string reason = "no layout suits";
  size_t added = 0;
  for (const Layout& layout : layouts_to_try(op, TensorDesc::dense(op.out().dtype, space))) {
    Candidate candidate = make_candidate(op, reduces ? "pointwise_reduce" : "pointwise");
    Computation in_layout = computation;
    for (size_t i = 0; i < candidate.inputs.size(); ++i) {
      TensorDesc& input = candidate.inputs[i];
      if (!input.present) continue;
      const bool beside = what.over == Expressions::Over::scalars_beside && input.shape != space;
      // A strided view is read as it lies: the iteration goes by strides.
      if (input.is_dense() || input.shape != space)
        input = TensorDesc::dense(input.dtype, input.shape,
                                  beside ? Layout::plain(input.rank()) : operand_layout(input.shape, space, layout));
      in_layout.inputs.push_back({input.dtype, aligned(input, space, what.over), int(i)});
    }
    for (TensorDesc& output : candidate.outputs) {
      const bool same_rank = output.rank() == space.size();
      output = TensorDesc::dense(output.dtype, output.shape,
                                 same_rank && !blocks_any(layout, reduced) ? layout : Layout::plain(output.rank()));
      in_layout.outputs.push_back({output.dtype, aligned_output(output, reduced, same_rank)});
    }
    auto plan = std::make_shared<ComputationPlan>();
    if (!plan_computation(device, std::move(in_layout), *plan, reason)) continue;
    candidate.workspace_bytes = plan->workspace_bytes;
    if (!reduces && is_joinable(*plan)) candidate.absorbed = Candidate::Absorbed::behind;
    candidate.prepare = [&device, plan] { return prepare_computation(device, *plan); };
    // A work-item reads the elements that it writes, and no other one does.
    if (!reduces && op.inputs.size() < 32) candidate.in_place = (1u << op.inputs.size()) - 1;
    out.add(std::move(candidate));
    ++added;
  }
  if (added == 0) out.refuse("opencl", op.schema->name + ": " + reason);
}

namespace {

void list_pointwise(const Op& op, OpenclDevice& device, CandidateList& out) {
  Expressions what;
  what.elements = op.attributes[attr::expressions];
  what.scalars = op.attributes[attr::scalars];
  if (!op.attributes.is_none(attr::reductions)) {
    what.reductions = op.attributes[attr::reductions];
    what.reduced = op.attributes[attr::dim_ints];
  }
  list_expressions(op, device, out, what);
}

// With scales for each index of dimension 1, or one.
void list_quantizing(const Op& op, OpenclDevice& device, CandidateList& out) {
  Expressions what;
  what.elements = quantizing_expression(op);
  what.over = op.in(1).elements() == 1 ? Expressions::Over::scalars_beside : Expressions::Over::per_channel;
  if (what.over == Expressions::Over::per_channel && op.attributes[attr::axis] != 1)
    return out.refuse("opencl", concat(op.schema->name, ": axis is ", op.attributes[attr::axis], ", expected 1"));
  list_expressions(op, device, out, what);
}

void list_unary(const Op& op, OpenclDevice& device, CandidateList& out) {
  Expressions what;
  what.epilogue = op.attributes[attr::function];
  if (what.epilogue == "gelu") what.epilogue = "gelu_erf";
  what.alpha = op.attributes[attr::alpha];
  what.beta = op.attributes[attr::beta];
  list_expressions(op, device, out, what);
}

// Floats as integers, where those that these cannot hold become the least s64 or s32: of which small ones are the low
// bits, the rest of a division by 256.
Expressions unlimited_cast(const Op& op) {
  Expressions what;
  const DType to = op.out().dtype;
  what.scalars = {std::ldexp(1.0, to == DType::s64 ? 63 : 31)};
  if (size_of(to) > 1) {
    what.elements = "y0 = x0 < s0 ? x0 : -s0";
    what.epilogue = "trunc";
    return what;
  }
  what.elements =
      "t = x0 < s0 && x0 > -s0 ? (x0 < 0 ? ceil(x0) : floor(x0)) : 0; r = t - s1 * floor(t / s1); "
      "y0 = r < s2 ? r : r - s1";
  what.scalars.insert(what.scalars.end(), {256, to == DType::s8 ? 128.0 : 256.0});
  return what;
}

// Storing saturates floats and wraps integers around, so that a cast is one or no function.
void list_cast(const Op& op, OpenclDevice& device, CandidateList& out) {
  const bool cuts = op.attributes[attr::function] == "trunc";
  if (cuts && !op.attributes[attr::limited]) return list_expressions(op, device, out, unlimited_cast(op));
  Expressions what;
  what.epilogue = op.attributes[attr::function];
  // An image for a first layer: cast and reorder in one.
  if (what.epilogue == "identity" && op.in(0).rank() >= 3 && is_floating(op.out().dtype)) {
    const Layout pieces = Layout::channels_blocked(op.in(0).rank(), 16 / int(size_of(op.out().dtype)));
    add_reorder_pieces(op, device, op.in(0).with_layout(Layout::plain(op.in(0).rank())), op.out().with_layout(pieces),
                       out);
  }
  list_expressions(op, device, out, what);
}

void list_binary(const Op& op, OpenclDevice& device, CandidateList& out) {
  static const std::map<std::string, const char*> expressions = {
      {"add", "y0 = x0 + x1"},
      {"sub", "y0 = x0 - x1"},
      {"mul", "y0 = x0 * x1"},
      {"div", "y0 = x0 / x1"},
      {"maximum", "y0 = max(x0, x1)"},
      {"minimum", "y0 = min(x0, x1)"},
      {"pow", "y0 = pow(x0, x1)"},
      {"eq", "y0 = x0 == x1"},
      {"ne", "y0 = x0 != x1"},
      {"lt", "y0 = x0 < x1"},
      {"le", "y0 = x0 <= x1"},
      {"gt", "y0 = x0 > x1"},
      {"ge", "y0 = x0 >= x1"},
      {"logical_and", "y0 = x0 && x1"},
      {"logical_or", "y0 = x0 || x1"},
      {"logical_xor", "y0 = (x0 != 0) != (x1 != 0)"},
      {"div_trunc", "q = x0 / x1; y0 = q < 0 ? ceil(q) : floor(q)"},
      // The floor of the exact quotient, which x0 / x1 may have been rounded up from.
      {"div_floor",
       "r = fmod(x0, x1); q = (x0 - r) / x1; down = r != 0 && (r < 0) != (x1 < 0) ? q - 1 : q; "
       "y0 = x1 == 0 ? x0 / x1 : down == 0 ? copysign(0, x0 / x1) : round(down)"},
      {"fmod", "y0 = fmod(x0, x1)"},
      {"remainder", "r = fmod(x0, x1); y0 = r != 0 && (r < 0) != (x1 < 0) ? r + x1 : r"},
  };
  // Of integers, whose division truncates; pow of them is left out.
  static const std::map<std::string, const char*> integer_expressions = {
      {"bitwise_and", "y0 = bitand(x0, x1)"},
      {"bitwise_or", "y0 = bitor(x0, x1)"},
      {"bitwise_xor", "y0 = bitxor(x0, x1)"},
      {"bitwise_left_shift", "y0 = lshift(x0, x1)"},
      {"bitwise_right_shift", "y0 = rshift(x0, x1)"},
      {"div_trunc", "y0 = x0 / x1"},
      {"div_floor", "q = x0 / x1; r = fmod(x0, x1); y0 = x1 != 0 && r != 0 && (r < 0) != (x1 < 0) ? q - 1 : q"},
      {"remainder", "r = fmod(x0, x1); y0 = x1 != 0 && r != 0 && (r < 0) != (x1 < 0) ? r + x1 : r"},
      {"pow", nullptr},
  };
  const std::string& function = op.attributes[attr::function];
  auto found = expressions.find(function);
  if (!is_floating(op.in(0).dtype)) {
    const auto integer = integer_expressions.find(function);
    if (integer != integer_expressions.end()) found = integer;
  }
  if (found == expressions.end() || found == integer_expressions.end() || !found->second)
    return out.refuse("opencl",
                      concat(op.schema->name, ": no expression for ", function, " of ", name_of(op.in(0).dtype)));
  Expressions what;
  what.elements = found->second;
  const auto post_ops = sum_then_function(op);
  if (!post_ops) return out.refuse("opencl", concat(op.schema->name, ": ", other_post_ops(op)));
  if (const PostOp* applied = post_ops->function) {
    what.epilogue = applied->name;
    what.alpha = applied->alpha();
    what.beta = applied->beta();
  }
  list_expressions(op, device, out, what);
}

void list_where(const Op& op, OpenclDevice& device, CandidateList& out) {
  Expressions what;
  what.elements = "y0 = where(x0, x1, x2)";
  list_expressions(op, device, out, what);
}

void list_prelu(const Op& op, OpenclDevice& device, CandidateList& out) {
  Expressions what;
  what.elements = "y0 = x0 > 0 ? x0 : x0 * x1";
  what.over = Expressions::Over::per_channel;
  list_expressions(op, device, out, what);
}

void list_reduce(const Op& op, OpenclDevice& device, CandidateList& out) {
  struct Reduced {
    const char* elements;
    const char* reductions;
  };
  static const std::map<std::string, Reduced> reductions = {
      {"sum", {"y0 = x0", "reduce_y0 += y0"}},
      {"mean", {"y0 = x0", "reduce_y0 += y0; y0 = reduce_y0 / count"}},
      {"amax", {"y0 = x0", "reduce_y0 max= y0"}},
      {"amin", {"y0 = x0", "reduce_y0 min= y0"}},
      {"prod", {"y0 = x0", "reduce_y0 *= y0"}},
      {"reduce_l1", {"y0 = abs(x0)", "reduce_y0 += y0"}},
      {"reduce_l2", {"y0 = x0 * x0", "reduce_y0 += y0; y0 = sqrt(reduce_y0)"}},
      {"reduce_sum_square", {"y0 = x0 * x0", "reduce_y0 += y0"}},
  };
  const std::string& function = op.attributes[attr::function];
  const auto found = reductions.find(function);
  if (found == reductions.end()) return out.refuse("opencl", op.schema->name + ": no expression for " + function);
  const std::vector<int64_t>& reduced = op.attributes[attr::dim_ints];
  add_reduce_vectors(op, device, function, {reduced.begin(), reduced.end()}, op.out().rank() == op.in(0).rank(), out);
  Expressions what;
  what.elements = found->second.elements;
  what.reductions = found->second.reductions;
  what.reduced = op.attributes[attr::dim_ints];
  list_expressions(op, device, out, what);
}

PL_OPENCL_OP("pointwise", list_pointwise);
PL_OPENCL_OP("quantize_linear", list_quantizing);
PL_OPENCL_OP("dequantize_linear", list_quantizing);
PL_OPENCL_OP("unary", list_unary);
PL_OPENCL_OP("cast", list_cast);
PL_OPENCL_OP("binary", list_binary);
PL_OPENCL_OP("where", list_where);
PL_OPENCL_OP("prelu", list_prelu);
PL_OPENCL_OP("reduce", list_reduce);

}  // namespace
}  // namespace pl::opencl

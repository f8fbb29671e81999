#include "providers/opencl/pointwise/pointwise_axes.h"

#include <algorithm>

#include "core/status.h"

namespace pl::opencl {
namespace {

struct RawAxis {
  Axis axis;
  bool reduced = false;
  int dim = 0;
  bool inner = false;   // the place in a block
  bool pinned = false;  // a check refers to it
};

// The block size that tensors agree on for dimension `dim`, 1 if none blocks it; 0 if they disagree.
int64_t common_block(const std::vector<const Addressing*>& tensors, int dim) {
  int64_t block = 1;
  for (const Addressing* tensor : tensors) {
    int count = 0;
    for (const Addressing::Inner& inner : tensor->inner) count += inner.dim == dim;
    if (count > 1) return 0;
    const int64_t own = tensor->block(dim);
    if (own == 1) continue;
    if (block != 1 && own != block) return 0;
    block = own;
  }
  return block;
}

// The strides of a tensor between blocks of dimension `dim` and within one.
std::pair<int64_t, int64_t> split_strides(const Addressing& tensor, int dim, int64_t block) {
  for (const Addressing::Inner& inner : tensor.inner)
    if (inner.dim == dim) return {tensor.strides[size_t(dim)], inner.stride};
  return {tensor.strides[size_t(dim)] * block, tensor.strides[size_t(dim)]};
}

int64_t product(const std::vector<Axis>& axes) {
  int64_t count = 1;
  for (const Axis& axis : axes) count *= axis.size;
  return count;
}

bool mergeable(const RawAxis& outer, const RawAxis& inner) {
  if (outer.pinned || inner.pinned || outer.reduced != inner.reduced) return false;
  for (size_t t = 0; t < outer.axis.strides.size(); ++t)
    if (outer.axis.strides[t] != inner.axis.strides[t] * inner.axis.size) return false;
  return true;
}

}  // namespace

int64_t Iteration::kept_count() const { return product(kept); }
int64_t Iteration::reduced_count() const { return product(reduced); }

Addressing broadcast_to(const TensorDesc& desc, const Dims& space) {
  Addressing a(desc);
  a.insert(0, space.size() - desc.rank());
  for (int d = 0; d < space.size(); ++d) {
    if (a.dims[size_t(d)] != 1 || space[d] == 1) continue;
    a.strides[size_t(d)] = 0;
    a.inner.erase(std::remove_if(a.inner.begin(), a.inner.end(), [d](const auto& inner) { return inner.dim == d; }),
                  a.inner.end());
  }
  return a;
}

bool make_iteration(const Dims& space, const std::vector<bool>& reduced, const std::vector<Addressing>& inputs,
                    const std::vector<Addressing>& outputs, Iteration& out, std::string& reason) {
  std::vector<const Addressing*> tensors;
  for (const Addressing& input : inputs) tensors.push_back(&input);
  for (const Addressing& output : outputs) tensors.push_back(&output);
  out = {};
  for (const Addressing* tensor : tensors) {
    out.offsets.push_back(tensor->offset);
    out.wide |= tensor->extent() >= kNarrowLimit;
  }

  std::vector<RawAxis> axes;
  struct RawCheck {
    int dim;
    int64_t block, limit;
  };
  std::vector<RawCheck> checks;
  for (int d = 0; d < space.size(); ++d) {
    const int64_t block = common_block(tensors, d);
    if (block == 0) {
      reason = concat("the tensors block dimension ", d, " in different ways");
      return false;
    }
    const bool is_reduced = reduced[size_t(d)];
    const bool check = space[d] % block != 0;
    if (check) checks.push_back({d, block, space[d]});
    RawAxis outer, inner;
    outer.dim = inner.dim = d;
    outer.reduced = inner.reduced = is_reduced;
    outer.pinned = inner.pinned = check;
    inner.inner = true;
    outer.axis.size = (space[d] + block - 1) / block;
    inner.axis.size = block;
    for (size_t t = 0; t < tensors.size(); ++t) {
      std::pair<int64_t, int64_t> strides = split_strides(*tensors[t], d, block);
      if (is_reduced && t >= inputs.size()) {
        if (tensors[t]->block(d) != 1) {
          reason = concat("the output blocks dimension ", d, ", which is reduced");
          return false;
        }
        strides = {0, 0};
      }
      outer.axis.strides.push_back(strides.first);
      inner.axis.strides.push_back(strides.second);
    }
    if (outer.axis.size > 1) axes.push_back(outer);
    if (block > 1) axes.push_back(inner);
  }

  // Kept axes in the order of the first output's memory, reduced ones in the order of the largest input's.
  size_t largest = 0;
  for (size_t t = 1; t < inputs.size(); ++t)
    if (inputs[t].places() > inputs[largest].places()) largest = t;
  std::stable_sort(axes.begin(), axes.end(), [&](const RawAxis& a, const RawAxis& b) {
    if (a.reduced != b.reduced) return b.reduced;
    const size_t key = a.reduced ? largest : inputs.size();
    return a.axis.strides[key] > b.axis.strides[key];
  });
  std::vector<RawAxis> merged;
  for (RawAxis& axis : axes) {
    if (!merged.empty() && mergeable(merged.back(), axis)) {
      merged.back().axis.size *= axis.axis.size;
      merged.back().axis.strides = axis.axis.strides;
    } else {
      merged.push_back(axis);
    }
  }
  for (const RawCheck& check : checks) {
    const bool is_reduced = reduced[size_t(check.dim)];
    Check made{-1, -1, check.block, check.limit, !outputs.empty() && outputs[0].block(check.dim) > 1};
    int position = 0;
    for (const RawAxis& axis : merged) {
      if (axis.reduced != is_reduced) continue;
      if (axis.dim == check.dim && axis.pinned) (axis.inner ? made.inner : made.outer) = position;
      ++position;
    }
    (is_reduced ? out.reduced_checks : out.kept_checks).push_back(made);
  }
  for (const RawAxis& axis : merged) (axis.reduced ? out.reduced : out.kept).push_back(axis.axis);
  Axis one;
  one.strides.assign(tensors.size(), 0);
  if (out.kept.empty()) out.kept.push_back(one);
  if (out.reduced.empty() && std::find(reduced.begin(), reduced.end(), true) != reduced.end())
    out.reduced.push_back(one);
  out.wide |= out.kept_count() >= kNarrowLimit || product(out.reduced) >= kNarrowLimit;
  return true;
}

}  // namespace pl::opencl

#include "ops/sliced_axes.h"

namespace pl {

SlicedAxes SlicedAxes::of(Op& op) {
  const Dims& x = op.in(0).shape;
  SlicedAxes all;
  all.starts = op.attributes[attr::starts];
  all.steps.assign(all.starts.size(), 1);
  if (op.attributes.is_none(attr::axes))
    for (size_t i = 0; i < all.starts.size(); ++i) all.axes.push_back(int64_t(i));
  else
    all.axes = op.attributes[attr::axes];
  if (!op.attributes.is_none(attr::steps)) all.steps = op.attributes[attr::steps];
  check(op, all.axes.size() == all.starts.size(), Code::invalid_argument, "axes has ", all.axes.size(),
        " values, expected ", all.starts.size(), " (as many as starts)");
  check(op, all.steps.size() == all.starts.size(), Code::invalid_argument, "steps has ", all.steps.size(),
        " values, expected ", all.starts.size(), " (as many as starts)");
  check(op, all.starts.size() <= size_t(x.size()), Code::invalid_argument, "starts has ", all.starts.size(),
        " values, expected at most ", x.size(), " (the rank of x)");
  bool seen[kMaxRank] = {};
  for (size_t i = 0; i < all.axes.size(); ++i) {
    const int64_t axis = all.axes[i] = normalise_dim(op, attr::axes, all.axes[i], x.size());
    check(op, !seen[axis], Code::invalid_argument, "axes names dimension ", axis, " twice, expected each at most once");
    seen[axis] = true;
    check(op, all.steps[i] >= 1, Code::invalid_argument, "steps[", i, "] is ", all.steps[i], ", expected at least 1");
  }
  return all;
}

}  // namespace pl

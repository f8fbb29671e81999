// The data of constants, for passes: read as numbers, made from numbers, scaled.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "core/tensor.h"
#include "graph/passes/rewriter.h"

namespace pl {
class Context;
}

namespace pl::passes {

// The elements in the order of their indices, whatever layout and device they lie in.
std::vector<double> numbers_of(const Tensor& tensor);

// A tensor on the cpu, values rounded to the dtype.
TensorRef tensor_of(Context& context, DType dtype, const Dims& shape, const std::vector<double>& values);

// The tensor itself if it is dense, plain and on the cpu; else a copy that is.
TensorRef plain_on_cpu(Context& context, const TensorRef& tensor);

// Whether a number that is finite stays so when it is rounded to the dtype.
bool holds(DType dtype, double value);

// A copy on the cpu, each element multiplied by factor(i, j) of its first two indices (0 where the rank is lower).  Null
// where the dtype does not hold it: an element is beyond its range, or all of them, though some were not, are below its
// normal numbers, which have fewer digits.
TensorRef scaled(Context& context, const Tensor& tensor, const std::function<double(int64_t, int64_t)>& factor);

// A constant that, broadcast against a tensor of `shape`, depends on nothing but the index along `axis` and does not
// make that tensor larger: its value at each of those indices.  A constant of one element is one such.
std::optional<std::vector<double>> along_axis(const Rewriter& rewriter, ValueId id, const Dims& shape, int axis);

// The results of an op on the cpu in plain layout, by a provider's cheapest way by its own estimate: an op that runs
// once is not worth measuring.  Its inputs are dense, plain and on the cpu.  Empty where nothing can run it so.
std::vector<TensorRef> computed(Context& context, const Op& op, const std::vector<TensorRef>& inputs);

// The data of a value that depends on constants only, through at most `depth` ops with results of at most `elements`
// elements, whether or not it pays to keep it; null where it does not.
TensorRef evaluated(Rewriter& rewriter, Context& context, ValueId id, int depth, int64_t elements);

}  // namespace pl::passes

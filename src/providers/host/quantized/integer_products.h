// What makes results of exact sums, for kernels of integer_kernels.h: zero points, scales, bias and post-ops.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ops/quantized.h"
#include "providers/host/common/host.h"
#include "providers/host/quantized/integer_kernels.h"

namespace pl::host {

class IntegerEnding {
 public:
  // Nothing where the op's post-ops are others than the kernels have.  Columns of each of `groups` are filled up to a
  // multiple of `lanes`.
  static std::optional<IntegerEnding> of(const Op& op, int64_t groups, int64_t lanes);

  // Of what bind() writes for each column.
  size_t workspace_bytes() const;
  int64_t group_columns() const { return group_columns_; }  // filled up
  // Reads scales, zero points and bias, and gives the result of column 0; `workspace` is written to.  With `sums`, of
  // the weights of each column, sums * zero is taken off the sums of x.
  IntegerResult bind(const KernelArguments& arguments, char* workspace, const int32_t* sums = nullptr,
                     int32_t zero = 0) const;
  // The result of a group, `pixels` pixels and `columns` columns further.
  IntegerResult at(const IntegerResult& whole, int64_t pixels, int64_t group, int64_t columns) const;
  int32_t x_zero(const KernelArguments& arguments) const { return zero_point(arguments, in_.x_zero); }

 private:
  explicit IntegerEnding(const Op& op) : in_(op), inputs_(op.inputs), y_(op.out()) {}
  int32_t zero_point(const KernelArguments& arguments, int i) const;

  QuantizedInputs in_;
  std::vector<TensorDesc> inputs_;
  TensorDesc y_;
  std::vector<IntegerStep> steps_;
  int64_t groups_ = 1, columns_ = 0, group_columns_ = 0;
};

// y[i] = x[i] - zero.
void widen_bytes(const void* x, bool is_signed, int32_t zero, int16_t* y, int64_t n);
// y[i] = x[i], of s8 plus 128.
void unsigned_bytes(const void* x, bool is_signed, uint8_t* y, int64_t n);

// Of the weights, input 1: pack(source, packed), host addresses.
template <class Pack>
Packing packing_of(std::string form, size_t bytes, Pack pack) {
  const auto make = [pack]() -> std::unique_ptr<Kernel> {
    auto run = [pack](const KernelArguments& arguments) {
      pack(input(arguments, 0), static_cast<char*>(output(arguments)));
    };
    return std::make_unique<BodyKernel<decltype(run)>>(std::move(run));
  };
  return {1, std::move(form), bytes, packed_by(make), make};
}

// 3x3 by Winograd's algorithm: adds a candidate where it suits.
void add_integer_winograd(const Op& op, const IntegerKernels& kernels, CandidateList& out);
// Candidates of the kinds quantized_conv and quantized_matmul by the kernels, or refusals.
void list_integer_products(const Op& op, CandidateList& out);

}  // namespace pl::host

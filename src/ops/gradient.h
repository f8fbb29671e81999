// Derivation: what a Schema::gradient sees of the op that it derives, and the ops that it builds the gradients of.
//
// A gradient function asks for the values of the op and gives, for each input that is wanted, the gradient of the loss
// by that input, of the input's shape and dtype:
//   schema.gradient = [](Derivation& d) { d.give(0, d.pointwise("y0 = x0 * x1", {d.gradient(), d.output()})); };
// Post-ops are no concern of it: the gradient that it sees is the one before them.
#pragma once

#include <string>
#include <vector>

#include "ops/op.h"

namespace pl {

// What adds ops to a graph.
class Builder {
 public:
  using Value = int32_t;  // a value of the graph
  static constexpr Value kNone = -1;

  virtual ~Builder() = default;

  virtual const TensorDesc& desc(Value value) const = 0;
  // Adds an op to the graph; its results.
  virtual std::vector<Value> add(const std::string& op, const Attributes& attributes,
                                 const std::vector<Value>& inputs) = 0;

  // ---- made of the above ----

  // An op with one result.
  Value make(const std::string& op, const Attributes& attributes, const std::vector<Value>& inputs);
  // The op `pointwise` with one result, of the dtype of inputs[0].
  Value pointwise(const std::string& expressions, const std::vector<Value>& inputs,
                  const std::vector<double>& scalars = {});
  Value reshaped(Value value, const Dims& shape);
  // Summed over what broadcasting from `shape` repeated.
  Value summed_to(Value value, const Dims& shape);
  Value summed(Value value, const std::vector<int64_t>& dims, bool keepdim);
  Value expanded(Value value, const Dims& shape);
};

class Derivation : public Builder {
 public:
  virtual const Op& op() const = 0;
  virtual Value input(int i) const = 0;  // kNone where it is absent
  virtual Value output(int i = 0) const = 0;
  // Of the loss by an output; of one that the loss does not depend on, zeros.
  virtual Value gradient(int output = 0) = 0;
  virtual bool wanted(int input) const = 0;
  // A constant of s64.
  virtual Value integers(const std::vector<int64_t>& values) = 0;
  // Once for each input at most.
  virtual void give(int input, Value gradient) = 0;

  // give(input, value) where that is wanted; `value` is called only then.
  template <class Make>
  void give_if_wanted(int input, Make make) {
    if (op().has(input) && wanted(input)) give(input, make());
  }
};

}  // namespace pl

// SizeExpression: a size that follows from others, as data: "#12.1*64" is 64 times dimension 1 of value 12.
//
//   sum     = product {("+" | "-") product}
//   product = factor {("*" | "/" | "%") factor}       quotients round down, remainders have the divisor's sign
//   factor  = number | "-" factor | "(" sum ")" | "#" value "." dimension | axis
//           | ("min" | "max" | "broadcast") "(" sum "," sum ")"
//
// An axis is the name of a graph's axis; it stands for the dimension of the first input that has it.  `broadcast` is
// the size that two sizes broadcast to, as NumPy's rules say.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pl {

using ValueId = int32_t;

// A dimension of a value of a graph.
struct SizeSource {
  ValueId value = -1;
  int dim = 0;
};

class SizeExpression {
 public:
  SizeExpression() = default;  // 0
  // `axis` gives what a name stands for, and throws where it stands for nothing.  Throws Error(invalid_argument) with
  // the text for one that is no expression.
  static SizeExpression parse(std::string_view text, const std::function<SizeSource(const std::string&)>& axis);

  // Throws Error(shape) where a divisor is 0, sizes do not broadcast, or the result needs more than 64 bits.
  int64_t evaluate(const std::function<int64_t(const SizeSource&)>& size) const;
  // The same of other values.
  SizeExpression renumbered(const std::function<ValueId(ValueId)>& number) const;
  // The same with a number in place of each dimension for which `known` has one.
  SizeExpression with_numbers(const std::function<std::optional<int64_t>(const SizeSource&)>& known) const;
  void visit_sources(const std::function<void(const SizeSource&)>& visit) const;
  std::string str() const;

 private:
  enum class Kind { number, source, add, subtract, multiply, divide, remainder, least, most, broadcast };
  struct Term {  // in postfix order
    Kind kind = Kind::number;
    int64_t number = 0;
    SizeSource source;
  };
  class Parser;

  std::vector<Term> terms_;
};

}  // namespace pl

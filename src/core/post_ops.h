// Post-ops: what is fused behind an op, in the order in which it is applied to each element of the result.
//
// Text, as the C ABI, saved graphs, the cost database and messages have it: steps with commas between them.
//   add(residual), clip(-1, 1), scale(0.5), multiply(gate), relu
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pl {

struct PostOp {
  enum class Kind {
    function,  // an elementwise function of one argument: relu, clip(0, 1)
    scale,     // times a number: scale(0.5)
    add,       // plus an input of the op that has the shape of the result: add(residual)
    multiply,  // times such an input: multiply(gate)
  };

  Kind kind = Kind::function;
  std::string name;                // of the function, or of the input; "scale"
  std::vector<double> parameters;  // of the function, as many as it has once they are complete; the number of scale

  PostOp();
  ~PostOp();
  PostOp(const PostOp& other);
  PostOp(PostOp&& other) noexcept;
  PostOp& operator=(const PostOp& other);
  PostOp& operator=(PostOp&& other) noexcept;
  PostOp(Kind kind, std::string name, std::vector<double> parameters);
  static PostOp function(std::string name, std::vector<double> parameters = {});
  static PostOp scale(double number);
  static PostOp add(std::string input);
  static PostOp multiply(std::string input);

  bool reads_input() const { return kind == Kind::add || kind == Kind::multiply; }
  double alpha() const { return parameters.empty() ? 0 : parameters[0]; }
  double beta() const { return parameters.size() < 2 ? 0 : parameters[1]; }
  std::string str() const;
  // Names and parameters alike; of parameters the bits count, and each NaN is the same.
  friend bool operator==(const PostOp& a, const PostOp& b);
  friend bool operator!=(const PostOp& a, const PostOp& b) { return !(a == b); }
};

using PostOps = std::vector<PostOp>;

std::string to_text(const PostOps& list);       // "none" for an empty list
PostOps parse_post_ops(std::string_view text);  // throws Error(invalid_argument) with the position
uint64_t hash_of(const PostOps& list, uint64_t seed);

}  // namespace pl

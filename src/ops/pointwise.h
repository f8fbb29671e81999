// The language of the op `pointwise`: its grammar, its parser, and the program that providers run or print.
//
//   expressions   statement { ";" statement } [";"]
//   statement     NAME "=" expression                 NAME: y0, y1, ... (outputs) or a new name (a temporary)
//   reductions    reduction { ";" reduction } [";"]
//   reduction     "reduce_y"N ("+=" | "*=" | "max=" | "min=") expression      over elements
//               | "reduce_y"N "=" ("max" | "min") "(" "reduce_y"N "," expression ")"
//               | "y"N "=" expression                 after the reduction, of reduce_y*, count and scalars
//   expression    or [ "?" expression ":" expression ]
//   or            and { "||" and }                    both sides are always evaluated
//   and           comparison { "&&" comparison }
//   comparison    sum [ ("<" | "<=" | ">" | ">=" | "==" | "!=") sum ]         1 or 0
//   sum           product { ("+" | "-") product }
//   product       unary { ("*" | "/") unary }
//   unary         ("-" | "+" | "!") unary | primary
//   primary       NUMBER | NAME | FUNCTION "(" expression { "," expression } ")" | "(" expression ")"
//
// Names: x0, x1, ... the tensors (broadcast as NumPy does); s0, s1, ... the scalars; y0, y1, ... outputs defined
// earlier; temporaries; inf, nan, pi; in reductions also reduce_y0, ... and count, the number of elements that
// were reduced into one.
//
// Functions: exp expm1 log log1p sqrt rsqrt tanh sigmoid erf erfc erfinv lgamma sin cos floor ceil round(half to even)
// abs
// sign isnan max min pow fmod atan2 copysign where(condition, a, b) clip(x, lowest, highest); fabs, fmax, fmin and
// select are spellings of abs, max, min and where.  max, min and clip propagate NaN.
// Of integers alone: bitand bitor bitxor bitnot lshift rshift.  rshift fills in the sign; a count that is negative or
// above 63 shifts all bits out, which leaves 0, or what an rshift by 63 leaves.
//
// Arithmetic is in f32 when a tensor or the result dtype is floating, or the attribute `arithmetic` says so, and
// functions of integers are refused; else in 64-bit integers (s64), where division truncates, a division by zero gives
// 0 (fmod: the dividend), overflow wraps, and functions of real numbers are refused.
// Sums of reductions are accumulated in at least the precision of the arithmetic.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/desc.h"
#include "ops/op.h"

namespace pl::pointwise {

enum class Function : uint8_t {
  // Leaves: Node::constant or Node::index says which.
  constant,
  input,
  scalar,
  reduced,
  count,
  // One argument.
  negate,
  logical_not,
  exp,
  expm1,
  log,
  log1p,
  sqrt,
  rsqrt,
  tanh,
  sigmoid,
  erf,
  erfc,
  erfinv,
  lgamma,
  sin,
  cos,
  floor,
  ceil,
  round,
  abs,
  sign,
  isnan,
  bit_not,
  // Two arguments.
  add,
  subtract,
  multiply,
  divide,
  maximum,
  minimum,
  power,
  fmod,
  atan2,
  copysign,
  less,
  less_equal,
  greater,
  greater_equal,
  equal,
  not_equal,
  logical_and,
  logical_or,
  bit_and,
  bit_or,
  bit_xor,
  left_shift,
  right_shift,
  // Three arguments: where(condition, a, b), clip(x, lowest, highest).
  where,
  clip,
};

const char* name_of(Function function);  // "exp", "+", "where": as written in expressions
int arity_of(Function function);         // 0 for leaves
bool is_leaf(Function function);

// One operation.  Arguments are earlier nodes of the same code, so that a loop over the nodes evaluates them.
// Equal operations on equal arguments are one node.
struct Node {
  Function function = Function::constant;
  int arguments[3] = {-1, -1, -1};
  int index = 0;        // of input, scalar, reduced
  double constant = 0;  // of constant
};

struct Code {
  std::vector<Node> nodes;
  std::vector<int> results;  // a node for each output
};

enum class Reduction : uint8_t { sum, product, maximum, minimum };
const char* name_of(Reduction reduction);  // "+=", "*=", "max=", "min="

enum class Arithmetic : uint8_t { f32, s64 };

struct Program {
  Arithmetic arithmetic = Arithmetic::f32;
  int inputs = 0;
  int outputs = 0;
  // For each element: results[k] is the value of output k, or what is reduced into it.
  Code elements;
  // One for each output, or none at all.
  std::vector<Reduction> reductions;
  // For each reduced element, when there are reductions: from nodes `reduced` k to output k.
  Code finish;

  bool reduces() const { return !reductions.empty(); }
};

// Parses and checks.  `name` is the op's name, for messages: "pointwise: expressions, position 5: ...".
// Throws Error(invalid_argument).
Program parse(std::string_view name, std::string_view expressions, std::string_view reductions, int inputs, int scalars,
              Arithmetic arithmetic);

// In which an op's expressions are evaluated.
Arithmetic arithmetic_of(const Op& op);

// The program of an op of kind `pointwise`, whose attributes infer has completed.
Program program_of(const Op& op);

// Schema::gradient (ops/pointwise_gradient.cpp).
void derive(Derivation& d);

}  // namespace pl::pointwise

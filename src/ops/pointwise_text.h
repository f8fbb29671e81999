// Expressions of the op `pointwise` as text, written from programs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ops/pointwise.h"

namespace pl::pointwise {

// A number as expressions have it: "0.5", "(-1)", "inf".
std::string text_of(double number);

// Statements with names of their own: t0, t1, ...
class Statements {
 public:
  std::string define(const std::string& expression);  // its name
  void result(int index, const std::string& expression);
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  int count_ = 0;
};

// Writes a code's nodes as statements; returns what each is called.  `leaf` names inputs, scalars and reduced values;
// constants are written as numbers.
std::vector<std::string> write(const Code& code, const std::function<std::string(const Node&)>& leaf, Statements& out);

}  // namespace pl::pointwise

// Expressions of a pointwise program as OpenCL C.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ops/pointwise.h"
#include "providers/opencl/program/kernel_source.h"

namespace pl::opencl {

const char* arithmetic_type(pointwise::Arithmetic arithmetic);  // "float", "long"

int64_t to_integer(double value);  // limited to the range; NaN: 0

// Statements that compute the nodes of `code`, and the names of its results.
//   leaf    the text of an input, scalar, reduced or count node
//   prefix  of the variables' names, so that several pieces of code fit in one scope
//   type    of the variables in place of the arithmetic's: a vector of floats, where suits_vectors() says so
struct CodeText {
  std::string statements;
  std::vector<std::string> results;
};
CodeText code_text(const pointwise::Code& code, pointwise::Arithmetic arithmetic, const std::string& prefix,
                   const std::function<std::string(const pointwise::Node&)>& leaf, const std::string& type = {});
// Whether the texts of all nodes mean the same of vectors of floats: comparisons and what branches do not.
bool suits_vectors(const pointwise::Code& code);

// Defines for a kernel what a program of floats, of one result, does to v0, v1, ...: NAME_VALUE, behind the statements
// NAME_TEXT.
void define_function(KernelSource& source, const std::string& name, const pointwise::Code& code,
                     const std::vector<double>& scalars);
// Defines for a kernel the slope of a function at x0 times x1, floats: NAME_VALUE, behind the statements NAME_TEXT.
void define_slope(KernelSource& source, const std::string& name, const PostOp& function);

std::string identity_text(pointwise::Reduction reduction, pointwise::Arithmetic arithmetic);
std::string fold_text(pointwise::Reduction reduction, pointwise::Arithmetic arithmetic, const std::string& a,
                      const std::string& b);

}  // namespace pl::opencl

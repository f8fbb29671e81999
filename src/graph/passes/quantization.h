// Quantised tensors in a graph of floats: integers of 8 bits that dequantize_linear turns into the numbers that they
// stand for.  What the passes about them share.
#pragma once

#include <optional>

#include "graph/passes/rewriter.h"

namespace pl::passes {

// One scale and one zero point for a tensor, all constants.
struct Quantization {
  ValueId scale = kNoValue;
  ValueId zero = kNoValue;  // kNoValue: zero
};

// A value as integers of 8 bits with one scale.
struct Quantized {
  ValueId integers = kNoValue;
  Quantization by;
};

// Of a node that is quantize_linear, to or from 8 bits, or dequantize_linear; nothing where it has several scales.
std::optional<Quantization> quantization_of(Rewriter& rewriter, const Node& node);
// What a value of f32 is made of, if that is an integer tensor of 8 bits.
std::optional<Quantized> quantized(Rewriter& rewriter, ValueId id);
// Whether each element of the result is one of the elements of the inputs, and the same one of other numbers in the
// same order.
bool keeps_elements(const Schema& schema);
bool is_byte(DType dtype);  // an integer of 8 bits
bool are_equal(const Rewriter& rewriter, const Quantization& a, const Quantization& b);

}  // namespace pl::passes

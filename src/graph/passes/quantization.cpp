#include "graph/passes/quantization.h"

#include "graph/named_ops.h"

namespace pl::passes {

bool keeps_elements(const Schema& schema) { return schema.view || schema.joins || schema.padding == Padding::lowest; }

bool is_byte(DType dtype) { return dtype == DType::u8 || dtype == DType::s8; }

std::optional<Quantization> quantization_of(Rewriter& rewriter, const Node& node) {
  const Quantization by{rewriter.input(node, 1), rewriter.input(node, 2)};
  const auto scale = rewriter.number(by.scale);
  if (!scale || !(*scale > 0) || rewriter.desc(by.scale).dtype != DType::f32) return std::nullopt;
  if (by.zero != kNoValue && !rewriter.number(by.zero)) return std::nullopt;
  return by;
}

std::optional<Quantized> quantized(Rewriter& rewriter, ValueId id) {
  const int maker = rewriter.maker(id);
  if (maker < 0) return std::nullopt;
  const Node& node = rewriter.node(size_t(maker));
  if (!is_dequantize(node) || !is_byte(rewriter.desc(rewriter.input(node, 0)).dtype)) return std::nullopt;
  const auto by = quantization_of(rewriter, node);
  if (!by) return std::nullopt;
  return Quantized{rewriter.input(node, 0), *by};
}

bool are_equal(const Rewriter& rewriter, const Quantization& a, const Quantization& b) {
  const auto zero = [&](const Quantization& by) { return by.zero == kNoValue ? 0 : *rewriter.number(by.zero); };
  return *rewriter.number(a.scale) == *rewriter.number(b.scale) && zero(a) == zero(b);
}

}  // namespace pl::passes

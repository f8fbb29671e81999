// linear_nbits: a fully connected layer whose weights are kept as numbers of 2, 4 or 8 bits, in blocks with a scale each.
#include "ops/linear_nbits.h"

#include <algorithm>
#include <cmath>

namespace pl {
namespace {

using NbitsValue = Builder::Value;

enum NbitsInput { kX, kWeight, kScale, kZeroPoint, kBias };

constexpr int64_t kMostBlock = 1 << 16;

void infer_linear_nbits(Op& op) {
  check_rank(op, kX, 1, kMaxRank);
  check_rank(op, kWeight, 2, 2);
  const int64_t bits = op.attributes[attr::bits], block = op.attributes[attr::block_size];
  check(op, bits == 2 || bits == 4 || bits == 8, Code::invalid_argument, "bits is ", bits, ", expected 2, 4 or 8");
  check_range(op, attr::block_size, {block}, 1, kMostBlock);
  check(op, block * bits % 8 == 0, Code::invalid_argument, "block_size is ", block,
        ", expected blocks of whole bytes (", 8 / bits, " numbers)");
  const Dims &x = op.in(kX).shape, &weight = op.in(kWeight).shape;
  const WeightBlocks cut(op);
  check(op, weight[1] == cut.blocks * cut.block_bytes(), Code::shape, "weight.bytes is ", weight[1], ", expected ",
        cut.blocks * cut.block_bytes(), " (", cut.blocks, " blocks of ", cut.block_bytes(), " for ", cut.depth,
        " numbers, the last size of x)");
  check_shape(op, kScale, {weight[0], cut.blocks}, "weight.out, blocks");
  check_shape(op, kZeroPoint, {weight[0], cut.blocks}, "weight.out, blocks");
  check_shape(op, kBias, {weight[0]}, "weight.out");
  Dims output = x;
  output[x.size() - 1] = weight[0];
  add_output(op, output);
}

void derive_linear_nbits(Derivation& d) {
  const WeightBlocks cut(d.op());
  const Dims& x = d.op().in(kX).shape;
  const int64_t outputs = d.op().in(kWeight).shape[0];
  const int64_t rows = x.product() / std::max<int64_t>(cut.depth, 1);
  if (d.wanted(kX) || d.wanted(kScale)) {
    const UnpackedWeight unpacked = unpacked_weight(d, d.op(), d.input(kWeight), d.input(kScale), d.input(kZeroPoint));
    d.give_if_wanted(kX, [&] { return d.make("matmul", {}, {d.gradient(), unpacked.weight}); });
    d.give_if_wanted(kScale, [&] {
      NbitsValue by_weight =
          d.make("matmul", Attributes{{attr::transpose_a, true}},
                 {d.reshaped(d.gradient(), {rows, outputs}), d.reshaped(d.input(kX), {rows, cut.depth})});
      const int64_t rest = cut.blocks * cut.block - cut.depth;
      if (rest) by_weight = d.make("pad", Attributes{{attr::pad, std::vector<int64_t>{0, rest}}}, {by_weight});
      const NbitsValue apart = d.reshaped(by_weight, {outputs, cut.blocks, cut.block});
      return d.summed(d.pointwise("y0 = x0 * x1", {apart, unpacked.numbers}), {2}, false);
    });
  }
  d.give_if_wanted(kBias, [&] { return d.summed_to(d.gradient(), {outputs}); });
}

Schema linear_nbits() {
  Schema schema("linear_nbits", "linear_nbits",
                "Fully connected layer whose weights are numbers of 2, 4 or 8 bits, in blocks with a scale each.\n\n"
                "y = x @ w^T + bias, w[o, i] = (q[o, i] - zero_point[o, b]) * scale[o, b] with b = i // block_size\n\n"
                "The numbers q of a block lie one after the other from the lowest bits of its first byte on; the last "
                "block is filled up, and its rest is not read.\n\n"
                "Returns (..., out) in the dtype of x; sums are kept in at least f32.\n\n"
                "Source: semantics of MatMulNBits of ONNX Runtime.");
  schema.tensor("x", "(..., in), f32, f16 or bf16")
      .of(dtypes::floats)
      .batched()
      .tensor("weight", "(out, blocks * block_size * bits / 8), u8, where blocks = ceil(in / block_size)",
              Role::constant)
      .of({DType::u8})
      .tensor("scale", "(out, blocks)", Role::constant)
      .like("x")
      .optional("zero_point", "(out, blocks), u8; 2^(bits - 1) without it", Role::constant)
      .of({DType::u8})
      .optional("bias", "(out)", Role::constant)
      .like("x")
      .attribute(attr::bits, int64_t(4), "of a number: 2, 4 or 8")
      .attribute(attr::block_size, int64_t(32), "numbers that share a scale; their bits are whole bytes")
      .result(Result("y").like("x"));
  schema.last_axes = 1;
  schema.other_axes = true;
  schema.keeps_finite = true;
  schema.infer = infer_linear_nbits;
  schema.by_rows = true;
  schema.gradient = derive_linear_nbits;
  schema.flops = [](const Op& op) { return 2.0 * double(op.out().elements()) * double(WeightBlocks(op).depth); };
  return schema;
}

PL_REGISTER_OP(linear_nbits);

}  // namespace

WeightBlocks::WeightBlocks(const Op& op)
    : bits(op.attributes[attr::bits]),
      block(op.attributes[attr::block_size]),
      depth(op.in(kX).shape[op.in(kX).rank() - 1]),
      blocks((depth + block - 1) / block) {}

UnpackedWeight unpacked_weight(Builder& b, const Op& op, NbitsValue weight, NbitsValue scale, NbitsValue zero_point) {
  const WeightBlocks cut(op);
  const int64_t outputs = b.desc(weight).shape[0];
  const DType dtype = b.desc(scale).dtype;
  const auto as = [&](NbitsValue value, DType wanted) {
    return b.desc(value).dtype == wanted
               ? value
               : b.make("cast", Attributes{{attr::dtype, std::string(name_of(wanted))}}, {value});
  };
  // The numbers of a byte, from the lowest bits on.
  const NbitsValue bytes = b.reshaped(as(weight, DType::f32), {outputs, cut.blocks * cut.block_bytes(), 1});
  std::vector<NbitsValue> parts;
  for (int64_t low = 0; low < 8; low += cut.bits)
    parts.push_back(b.pointwise(
        "y0 = floor(x0 * s0) - s1 * floor(x0 * s2)", {bytes},
        {std::ldexp(1.0, -int(low)), std::ldexp(1.0, int(cut.bits)), std::ldexp(1.0, -int(low + cut.bits))}));
  NbitsValue numbers = parts.size() == 1 ? parts[0] : b.make("concat", Attributes{{attr::dim, int64_t(2)}}, parts);
  numbers = b.reshaped(numbers, {outputs, cut.blocks, cut.block});
  const auto by_block = [&](NbitsValue value) { return b.reshaped(as(value, DType::f32), {outputs, cut.blocks, 1}); };
  numbers = zero_point == Builder::kNone ? b.pointwise("y0 = x0 - s0", {numbers}, {std::ldexp(1.0, int(cut.bits) - 1)})
                                         : b.make("sub", {}, {numbers, by_block(zero_point)});
  NbitsValue whole = b.reshaped(b.make("mul", {}, {numbers, by_block(scale)}), {outputs, cut.blocks * cut.block});
  if (cut.depth < cut.blocks * cut.block)
    whole = b.make("slice",
                   Attributes{{attr::starts, std::vector<int64_t>{0}},
                              {attr::ends, std::vector<int64_t>{cut.depth}},
                              {attr::axes, std::vector<int64_t>{1}}},
                   {whole});
  return {numbers, as(whole, dtype)};
}

}  // namespace pl

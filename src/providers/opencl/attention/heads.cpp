#include "providers/opencl/attention/heads.h"

#include <algorithm>

#include "ops/random_words.h"
#include "providers/head_layouts.h"
#include "providers/opencl/addressing/rows.h"
#include "providers/opencl/pointwise/pointwise_axes.h"
#include "providers/opencl/pointwise/random.h"

namespace pl::opencl {

std::vector<Layout> heads_layouts(const Op& op) {
  std::vector<Layout> layouts = head_layouts(op.in(0).shape);
  std::stable_partition(layouts.begin(), layouts.end(), [](const Layout& layout) { return !layout.is_plain(); });
  return layouts;
}

void define_attention(KernelSource& source, const Op& op, const Candidate& candidate) {
  const Dims &q = op.in(0).shape, &k = op.in(1).shape;
  const int last = q.size() - 1;
  const auto rows_of = [&](const Addressing& from) { return as_rows(from, {last}); };
  const char* const names[] = {"Q", "K", "V"};
  for (size_t i = 0; i < 3; ++i) source.tensor(names[i], rows_of(Addressing(candidate.inputs[i])));
  source.tensor("DST", rows_of(Addressing(candidate.outputs[0])));
  if (op.has(3)) {
    Dims scores = q;
    scores[last] = k[last - 1];
    source.tensor("MASK", rows_of(broadcast_to(candidate.inputs[3], scores)));
    source.define("MASK_IS_BOOL", int(op.in(3).dtype == DType::boolean));
  }
  if (op.has(5)) source.tensor("SINKS", rows_of(broadcast_to(candidate.inputs[5], queries_of(op))));
  if (!op.attributes.is_none(attr::softcap)) source.define("SOFTCAP", op.attributes[attr::softcap]);
  source.define("CAUSAL", int(op.attributes[attr::is_causal]));
  source.define("GROUP", last > 1 ? q[last - 2] / k[last - 2] : 1);
}

DropoutBits::DropoutBits(const Op& op, int seed_input, size_t at_byte) : at(at_byte) {
  if (!op.has(seed_input)) return;
  seed = seed_input;
  const Dims &q = op.in(0).shape, &k = op.in(1).shape;
  rows = q[q.size() - 1] ? q.product() / q[q.size() - 1] : 0;
  keys = k[k.size() - 2];
}

size_t DropoutBits::bytes() const {
  constexpr int64_t kMostRowsOfTile = 128;  // tiles read bits of rows that do not exist
  return seed < 0 ? 0 : size_t((rows + kMostRowsOfTile) * ((keys + 31) / 32) + 1) * sizeof(cl_uint);
}

void DropoutBits::draw(KernelList& kernel, const Op& op) const {
  if (seed < 0) return;
  KernelSource source("attention/dropout_bits.cl");
  define_seed(source, op.in(seed));
  source.define("DROPOUT_HIGHEST", concat(words_below(op.attributes[attr::dropout_p]) - 1, "u"));
  const int64_t words = rows * ((keys + 31) / 32);
  if (words == 0) return;
  source.wide_indices(int64_t(at / sizeof(cl_uint)) + words >= kNarrowLimit);
  kernel.add(source, "dropout_bits")
      .input(seed)
      .workspace()
      .index(int64_t(at / sizeof(cl_uint)))
      .index(keys)
      .index(words)
      .global({size_t(words)});
}

void DropoutBits::define(KernelSource& source, const Op& op) const {
  if (seed >= 0) source.define("DROPOUT_SCALE", 1 / (1 - op.attributes[attr::dropout_p]));
}

void DropoutBits::pass(Launch& launch) const {
  if (seed >= 0) launch.workspace().index(int64_t(at / sizeof(cl_uint)));
}

bool rows_aligned(const Addressing& rows, int64_t elements) {
  if (rows.offset % elements) return false;
  for (int d = 0; d < 7; ++d)
    if (rows.dims[size_t(d)] > 1 && rows.strides[size_t(d)] % elements) return false;
  return true;
}

int64_t row_pitch(int64_t elements, int64_t bits, int64_t step) {
  const int64_t piece = 128 / bits;
  return rounded_up((elements + piece - 1) / piece, step) | 1;
}

}  // namespace pl::opencl

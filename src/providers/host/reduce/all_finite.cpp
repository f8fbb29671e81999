// Kind all_finite: the bits of all elements, of each tensor a piece at a time.
#include <atomic>

#include "providers/host/common/host.h"

namespace pl::host {
namespace {

constexpr int64_t kPieceElements = 1 << 14;

// Whether no element has all the bits of the exponent `mask`.
template <class Bits>
PL_VECTORISED bool is_finite_run(const Bits* bits, Bits mask, int64_t n) {
  Bits found = 0;
  for (int64_t i = 0; i < n; ++i) found |= Bits((bits[i] & mask) == mask);
  return found == 0;
}

struct Piece {
  int tensor;
  int64_t first, count;
};

bool is_finite(DType dtype, const void* data, const Piece& piece) {
  if (dtype == DType::f32)
    return is_finite_run(static_cast<const uint32_t*>(data) + piece.first, uint32_t(0x7f800000), piece.count);
  const uint16_t mask = dtype == DType::f16 ? 0x7c00 : 0x7f80;
  return is_finite_run(static_cast<const uint16_t*>(data) + piece.first, mask, piece.count);
}

struct AllFiniteBody {
  std::vector<DType> dtypes;
  std::vector<Piece> pieces;

  void operator()(const KernelArguments& arguments) const {
    std::atomic<bool> finite{true};
    parallel_for(int64_t(pieces.size()), 0.1 * kPieceElements, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Piece& piece = pieces[size_t(i)];
        if (!is_finite(dtypes[size_t(piece.tensor)], input(arguments, piece.tensor), piece))
          finite.store(false, std::memory_order_relaxed);
      }
    });
    *static_cast<float*>(output(arguments)) = finite ? 1.0f : 0.0f;
  }
};

void list_all_finite(const Op& op, CandidateList& out) {
  AllFiniteBody body;
  std::vector<TensorDesc> inputs;
  for (const TensorDesc& desc : op.inputs) {
    const int64_t elements = desc.elements();
    for (int64_t first = 0; first < elements; first += kPieceElements)
      body.pieces.push_back({int(inputs.size()), first, std::min(kPieceElements, elements - first)});
    body.dtypes.push_back(desc.dtype);
    inputs.push_back(dense_plain(desc));
  }
  add_candidate(out, "all_finite", Quality::fast, inputs, {dense_plain(op.out())}, [body] { return body; });
}
PL_HOST_KIND("all_finite", list_all_finite);

}  // namespace
}  // namespace pl::host

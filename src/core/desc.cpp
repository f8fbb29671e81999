#include "core/desc.h"

namespace pl {
namespace {

// Element counts are kept below this, so that byte offsets fit a signed 64-bit integer with room to spare.
constexpr int64_t kMaxElements = int64_t(1) << 59;

int64_t checked_multiply(int64_t a, int64_t b, const Dims& shape) {
  int64_t product;
  require(!__builtin_mul_overflow(a, b, &product) && product <= kMaxElements, Code::shape, "shape ", shape,
          ": too large, expected at most 2^59 elements");
  return product;
}

Dims dense_strides(const Dims& shape, const Layout& layout) {
  Dims strides = Dims::filled(shape.size(), 0);
  int64_t stride = layout.block_volume();
  for (int i = shape.size() - 1; i >= 0; --i) {
    const int dim = layout.order(i);
    const int64_t block = layout.block_of(dim);
    strides[dim] = stride;
    // A dimension of size zero still gets positive strides, so that descriptions compare and print sensibly.
    stride = checked_multiply(stride, std::max<int64_t>(1, (shape[dim] + block - 1) / block), shape);
  }
  return strides;
}

}  // namespace

std::string Dims::str() const {
  std::string text = "(";
  for (int i = 0; i < rank_; ++i) text += (i ? ", " : "") + std::to_string(values_[i]);
  return text + (rank_ == 1 ? ",)" : ")");
}

void Dims::refuse_rank(size_t rank) { fail(Code::shape, "a tensor has at most ", kMaxRank, " dimensions, not ", rank); }

TensorDesc TensorDesc::dense(DType dtype, const Dims& shape, const Layout& layout) {
  require(layout.rank() == shape.size(), Code::layout, "layout ", layout.str(), " has rank ", layout.rank(),
          ", but the shape ", shape, " has ", shape.size());
  for (int64_t size : shape)
    require(size >= 0 && size <= kMaxElements, Code::shape, "shape ", shape, ": a size is ",
            size < 0 ? "negative" : "too large");
  TensorDesc desc;
  desc.dtype = dtype;
  desc.present = true;
  desc.shape = shape;
  desc.layout = layout;
  desc.strides = dense_strides(shape, layout);
  return desc;
}

TensorDesc TensorDesc::dense(DType dtype, const Dims& shape) {
  return dense(dtype, shape, Layout::plain(shape.size()));
}

TensorDesc TensorDesc::strided(DType dtype, const Dims& shape, const Dims& strides) {
  require(strides.size() == shape.size(), Code::shape, "strides: ", strides.size(), " given for the shape ", shape);
  // The order of dimensions by decreasing stride names the layout; ties keep the logical order.
  int8_t order[kMaxRank];
  for (int i = 0; i < shape.size(); ++i) {
    require(strides[i] >= 0, Code::shape, "strides: ", strides, " holds a negative one, expected none");
    order[i] = int8_t(i);
  }
  std::stable_sort(order, order + shape.size(), [&](int8_t a, int8_t b) { return strides[a] > strides[b]; });
  TensorDesc desc = dense(dtype, shape, Layout::make(order, shape.size(), nullptr, 0));
  // Dimensions of size one have no stride of their own: use the plain order where that describes the same bytes.
  const TensorDesc dense_sorted = desc;
  desc.strides = strides;
  for (int i = 0; i < shape.size(); ++i)
    if (shape[i] == 1) desc.strides[i] = dense_sorted.strides[i];
  const TensorDesc plain = dense(dtype, shape);
  if (same_memory(desc, plain)) return plain;
  int64_t last = 0;
  for (int i = 0; i < shape.size(); ++i) {
    int64_t reach;
    require(!__builtin_mul_overflow(std::max<int64_t>(0, shape[i] - 1), desc.strides[i], &reach) &&
                !__builtin_add_overflow(last, reach, &last) && last <= kMaxElements,
            Code::shape, "strides: ", strides, " with the shape ", shape, " reach too far");
  }
  return desc;
}

Dims TensorDesc::padded_shape() const {
  Dims padded = shape;
  for (int i = 0; i < padded.size(); ++i) {
    const int64_t block = layout.block_of(i);
    padded[i] = (padded[i] + block - 1) / block * block;
  }
  return padded;
}

bool TensorDesc::is_dense() const {
  if (offset != 0) return false;
  return elements() == 0 || same_memory(*this, dense(dtype, shape, layout));
}

int64_t TensorDesc::extent() const {
  if (elements() == 0) return offset;
  int64_t last = offset + layout.block_volume();
  for (int i = 0; i < rank(); ++i) {
    const int64_t block = layout.block_of(i);
    last += ((shape[i] + block - 1) / block - 1) * strides[i];
  }
  return last;
}

int64_t TensorDesc::offset_of(const Dims& index) const {
  int64_t at = offset;
  int64_t rest[kMaxRank];
  for (int i = 0; i < rank(); ++i) {
    const int64_t block = layout.block_of(i);
    at += index[i] / block * strides[i];
    rest[i] = index[i] % block;
  }
  int64_t stride = 1;
  for (int b = layout.block_count() - 1; b >= 0; --b) {
    const auto& block = layout.block(b);
    at += rest[block.dim] % block.size * stride;
    rest[block.dim] /= block.size;
    stride *= block.size;
  }
  return at;
}

TensorDesc TensorDesc::with_dtype(DType other) const { return dense(other, shape, layout); }

uint64_t TensorDesc::hash() const {
  if (!present) return 0x51ed270b;
  uint64_t seed = hash_mix(layout.hash(), uint64_t(dtype) << 8 | uint64_t(rank()));
  for (int i = 0; i < rank(); ++i) seed = hash_mix(seed, uint64_t(shape[i]) * 0x9e3779b1u ^ uint64_t(strides[i]));
  return hash_mix(seed, uint64_t(offset));
}

std::string TensorDesc::str(bool weights) const {
  if (!present) return "absent";
  std::string text = concat(name_of(dtype), ' ', shape, ' ', layout.str(weights));
  if (!is_dense()) text += concat(" strides ", strides, " offset ", offset);
  return text;
}

bool operator==(const TensorDesc& a, const TensorDesc& b) {
  if (!a.present || !b.present) return a.present == b.present;
  return a.dtype == b.dtype && a.shape == b.shape && a.layout == b.layout && a.strides == b.strides &&
         a.offset == b.offset;
}

bool same_memory(const TensorDesc& a, const TensorDesc& b) {
  if (!a.present || !b.present || a.dtype != b.dtype || a.shape != b.shape || a.offset != b.offset) return false;
  if (a.layout.block_count() != b.layout.block_count()) return false;
  for (int i = 0; i < a.layout.block_count(); ++i)
    if (!(a.layout.block(i) == b.layout.block(i))) return false;
  for (int i = 0; i < a.rank(); ++i) {
    // A dimension that fits in one block never uses its outer stride.
    if (a.shape[i] <= a.layout.block_of(i)) continue;
    if (a.strides[i] != b.strides[i]) return false;
  }
  return true;
}

}  // namespace pl

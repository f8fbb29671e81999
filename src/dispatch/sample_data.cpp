#include "dispatch/sample_data.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <tuple>

namespace pl {
namespace {

// Values repeat with this period along each dimension.  A prime, so that every step below visits all of them.
constexpr int64_t kPeriod = 8191;

// Steps through the table: one for each dimension, so that no two dimensions repeat together.
constexpr int64_t kSteps[kMaxRank] = {2971, 1, 89, 1543, 557, 3319, 4801, 6007};
static_assert(kMaxRank <= 8, "a step for each dimension");

void store(DType dtype, double value, char* at) {
  switch (dtype) {
    case DType::f32: {
      const float number = float(value);
      std::memcpy(at, &number, 4);
      break;
    }
    case DType::f16:
    case DType::bf16: {
      const uint16_t half = dtype == DType::f16 ? float_to_half(float(value)) : float_to_bfloat16(float(value));
      std::memcpy(at, &half, 2);
      break;
    }
    case DType::s32: {
      const int32_t number = int32_t(value);
      std::memcpy(at, &number, 4);
      break;
    }
    case DType::s64: {
      const int64_t number = int64_t(value);
      std::memcpy(at, &number, 8);
      break;
    }
    case DType::s8:
    case DType::u8:
    case DType::boolean: *at = char(int(value)); break;
  }
}

// One level of the nest that walks a tensor in the order of its memory: a dimension, or one of its blocks.
struct Axis {
  int dim = 0;
  int64_t count = 0;
  int64_t stride = 0;  // elements
  int64_t step = 0;    // of the dimension's index
};

std::vector<Axis> axes_of(const TensorDesc& desc) {
  std::vector<Axis> axes;
  const Layout& layout = desc.layout;
  for (int d = 0; d < desc.rank(); ++d) {
    const int64_t block = layout.block_of(d);
    axes.push_back({d, (desc.shape[d] + block - 1) / block, desc.strides[d], block});
  }
  int64_t stride = layout.block_volume();
  for (int b = 0; b < layout.block_count(); ++b) {
    const Layout::Block& block = layout.block(b);
    stride /= block.size;
    int64_t step = 1;
    for (int later = b + 1; later < layout.block_count(); ++later)
      if (layout.block(later).dim == block.dim) step *= layout.block(later).size;
    axes.push_back({block.dim, block.size, stride, step});
  }
  // Axes of one element are neither here nor there.
  axes.erase(std::remove_if(axes.begin(), axes.end(), [](const Axis& axis) { return axis.count == 1; }), axes.end());
  std::stable_sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return a.stride > b.stride; });
  if (axes.empty() || axes.back().stride != 1) axes.push_back({0, 1, 1, 1});
  return axes;
}

// What runs along the innermost axis are cut from.
struct Table {
  std::vector<int32_t> place;  // from a phase to the run's first entry
  std::vector<char> entries;   // entry j is the value j elements further along; twice, so that runs may begin anywhere
};

Table make_table(DType dtype, const SampleRange& range, unsigned seed, int64_t stride_of_run) {
  std::mt19937 random(seed);
  std::vector<double> values(kPeriod);
  for (double& value : values) {
    const double fraction = double(random() % 65536) / 65536;
    if (is_floating(dtype))
      value = range.low + (range.high - range.low) * fraction;
    else if (dtype == DType::boolean)
      value = double(random() & 1);
    else
      value = double(range.least + int64_t(fraction * double(range.largest - range.least + 1)));
  }
  Table table;
  const size_t unit = size_of(dtype);
  table.place.resize(kPeriod);
  table.entries.resize(size_t(2 * kPeriod) * unit);
  for (int64_t j = 0, at = 0; j < kPeriod; ++j, at = (at + stride_of_run) % kPeriod) {
    table.place[size_t(at)] = int32_t(j);
    store(dtype, values[size_t(at)], table.entries.data() + size_t(j) * unit);
  }
  std::memcpy(table.entries.data() + size_t(kPeriod) * unit, table.entries.data(), size_t(kPeriod) * unit);
  return table;
}

// The tables made last: the inputs of most ops need the same few, and making one takes as long as copying a megabyte.
std::shared_ptr<const Table> table_of(DType dtype, const SampleRange& range, unsigned seed, int64_t stride_of_run) {
  using Key = std::tuple<DType, double, double, int64_t, int64_t, unsigned, int64_t>;
  constexpr size_t kKept = 16;
  static std::mutex lock;
  static auto* const kept = new std::deque<std::pair<Key, std::shared_ptr<const Table>>>();
  const Key key{dtype, range.low, range.high, range.least, range.largest, seed, stride_of_run};
  std::lock_guard<std::mutex> guard(lock);
  for (const auto& [known, table] : *kept)
    if (known == key) return table;
  if (kept->size() == kKept) kept->pop_front();
  kept->emplace_back(key, std::make_shared<const Table>(make_table(dtype, range, seed, stride_of_run)));
  return kept->back().second;
}

class Writer {
 public:
  Writer(const TensorDesc& desc, const SampleRange& range, unsigned seed, char* bytes)
      : desc_(desc),
        axes_(axes_of(desc)),
        unit_(size_of(desc.dtype)),
        bytes_(bytes),
        index_(size_t(std::max(desc.rank(), 1)), 0) {
    const Axis& inner = axes_.back();
    table_ = table_of(desc.dtype, range, seed, kSteps[inner.dim] * inner.step % kPeriod);
  }

  void write() {
    if (desc_.elements() > 0) walk(0, desc_.offset, 0);
  }

 private:
  void walk(size_t level, int64_t offset, int64_t phase) {
    const Axis& axis = axes_[level];
    if (level + 1 == axes_.size()) return run(axis, offset, phase);
    int64_t& index = index_[size_t(axis.dim)];
    const int64_t step = kSteps[axis.dim] * axis.step % kPeriod;
    const int64_t before = index;
    for (int64_t i = 0; i < axis.count; ++i) {
      index = before + i * axis.step;
      walk(level + 1, offset + i * axis.stride, (phase + i % kPeriod * step) % kPeriod);
    }
    index = before;
  }

  void run(const Axis& axis, int64_t offset, int64_t phase) {
    int64_t valid = axis.count;
    for (int d = 0; d < desc_.rank(); ++d) {
      const int64_t left = desc_.shape[d] - index_[size_t(d)];
      if (left <= 0) valid = 0;
      if (d == axis.dim) valid = std::min(valid, std::max<int64_t>(0, (left + axis.step - 1) / axis.step));
    }
    char* to = bytes_ + size_t(offset) * unit_;
    for (int64_t done = 0; done < valid; done += kPeriod)  // a whole period later the table is where it was
      std::memcpy(to + size_t(done) * unit_, table_->entries.data() + size_t(table_->place[size_t(phase)]) * unit_,
                  size_t(std::min(kPeriod, valid - done)) * unit_);
    std::memset(to + size_t(valid) * unit_, 0, size_t(axis.count - valid) * unit_);
  }

  const TensorDesc& desc_;
  std::vector<Axis> axes_;  // outermost first
  size_t unit_;
  char* bytes_;
  std::vector<int64_t> index_;  // of the element that the walk stands at
  std::shared_ptr<const Table> table_;
};

void write_ascending(const TensorDesc& desc, const SampleRange& range, char* bytes) {
  Dims index = Dims::filled(desc.rank(), 0);
  const int64_t count = desc.elements();
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i;
    for (int d = desc.rank() - 1; d >= 0; --d) {
      index[d] = rest % desc.shape[d];
      rest /= desc.shape[d];
    }
    const double share = double(i + 1) / double(count);
    const int64_t value = range.least + int64_t(share * double(range.largest - range.least));
    store(desc.dtype, double(value), bytes + size_t(desc.offset_of(index)) * size_of(desc.dtype));
  }
}

}  // namespace

void write_sample(const TensorDesc& desc, const SampleRange& range, unsigned seed, char* bytes) {
  if (range.ascending) return write_ascending(desc, range, bytes);
  Writer(desc, range, seed, bytes).write();
}

}  // namespace pl

// Kind embedding_bag: rows of a table joined in registers, some columns at a time, while later rows are fetched.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "providers/host/common/host.h"
#include "providers/host/common/indices.h"
#include "providers/host/common/simd.h"
#include "providers/host/matmul/row_groups.h"

namespace pl::host {
namespace {

constexpr int64_t kLanes = 16;  // columns of a vector
constexpr int kVectors = 4;     // joined at a time
// What is fetched ahead: lines of memory in all, and of a row; those behind them the processor fetches by itself.
constexpr int64_t kLinesAhead = 64, kMostLines = 16;

typedef float Lanes __attribute__((vector_size(4 * kLanes)));
typedef int32_t Places __attribute__((vector_size(4 * kLanes)));

// By reference, as how vectors are returned depends on the instruction set.
PL_INLINE void load_lanes(const float* from, Lanes& to) { std::memcpy(&to, from, sizeof(to)); }
template <class T>
PL_INLINE void load_lanes(const T* from, Lanes& to) {
  float wide[kLanes];
  for (int64_t i = 0; i < kLanes; ++i) wide[i] = value_of(from[i]);
  std::memcpy(&to, wide, sizeof(to));
}

// A table and the rows of it that a bag has: numbers in the table, of which negative ones are left out.
template <class T>
struct Bag {
  const T* table;
  int64_t width;
  const int64_t* rows;
  int64_t begin, end;
  int64_t last;  // of some bags together, of which later ones are fetched

  PL_INLINE const T* row(int64_t j) const { return table + rows[j] * width; }

  // Calls use(j, its row from `column` on) for each row that counts; before the first column, later rows are fetched.
  template <class Use>
  PL_INLINE void each_row(int64_t column, Use use) const {
    const int64_t lines = std::min<int64_t>((width * int64_t(sizeof(T)) + 63) / 64, kMostLines);
    const int64_t ahead = std::max<int64_t>(kLinesAhead / lines, 4);
    for (int64_t j = begin; j < end; ++j) {
      if (column == 0 && j + ahead < last)
        for (int64_t line = 0; line < lines; ++line)
          __builtin_prefetch(reinterpret_cast<const char*>(row(j + ahead)) + line * 64);
      if (rows[j] >= 0) use(j, row(j) + column);
    }
  }
};

template <int kCount, class T>
PL_INLINE void sum_vectors(const Bag<T>& bag, int64_t column, const float* scales, float* out) {
  Lanes sums[kCount] = {};
  bag.each_row(
      column, [&](int64_t j, const T* row) __attribute__((always_inline)) {
        const float scale = scales ? scales[j] : 1.0f;
        for (int v = 0; v < kCount; ++v) {
          Lanes x;
          load_lanes(row + v * kLanes, x);
          sums[v] += x * scale;
        }
      });
  std::memcpy(out + column, sums, sizeof(sums));
}

// Of the largest of each column its row, too; either result may be null.
template <int kCount, class T>
PL_INLINE void largest_vectors(const Bag<T>& bag, int64_t column, float* out, int64_t* places) {
  Lanes best[kCount] = {};
  Places from[kCount] = {};  // counted from the bag's first row
  bool some = false;
  bag.each_row(
      column, [&](int64_t j, const T* row) __attribute__((always_inline)) {
        const Places number = Places{} + int32_t(j - bag.begin), first = Places{} - int32_t(!some);
        for (int v = 0; v < kCount; ++v) {
          Lanes x;
          load_lanes(row + v * kLanes, x);
          const Places taken = (x > best[v]) | first;
          best[v] = taken ? x : best[v];
          from[v] = taken ? number : from[v];
        }
        some = true;
      });
  if (out) std::memcpy(out + column, best, sizeof(best));
  if (!places) return;
  for (int64_t c = 0; c < kCount * kLanes; ++c)
    places[column + c] = some ? bag.rows[bag.begin + from[c / kLanes][c % kLanes]] : 0;
}

// Columns that are less than a vector, one by one.
template <class T>
PL_INLINE void sum_rest(const Bag<T>& bag, int64_t column, const float* scales, float* out) {
  float sums[kLanes] = {};
  const int64_t n = bag.width - column;
  bag.each_row(
      column, [&](int64_t j, const T* row) __attribute__((always_inline)) {
        const float scale = scales ? scales[j] : 1.0f;
        for (int64_t c = 0; c < n; ++c) sums[c] += scale * value_of(row[c]);
      });
  for (int64_t c = 0; c < n; ++c) out[column + c] = sums[c];
}
template <class T>
PL_INLINE void largest_rest(const Bag<T>& bag, int64_t column, float* out, int64_t* places) {
  float best[kLanes] = {};
  int64_t from[kLanes] = {};
  const int64_t n = bag.width - column;
  bool some = false;
  bag.each_row(
      column, [&](int64_t j, const T* row) __attribute__((always_inline)) {
        for (int64_t c = 0; c < n; ++c)
          if (const float value = value_of(row[c]); !some || value > best[c]) {
            best[c] = value;
            from[c] = bag.rows[j];
          }
        some = true;
      });
  for (int64_t c = 0; c < n; ++c) {
    if (out) out[column + c] = best[c];
    if (places) places[column + c] = from[c];
  }
}

template <class T>
PL_INLINE void sum_all(const Bag<T>& bag, const float* scales, float* out) {
  int64_t c = 0;
  for (; c + kVectors * kLanes <= bag.width; c += kVectors * kLanes) sum_vectors<kVectors>(bag, c, scales, out);
  for (; c + kLanes <= bag.width; c += kLanes) sum_vectors<1>(bag, c, scales, out);
  if (c < bag.width) sum_rest(bag, c, scales, out);
}
template <class T>
PL_INLINE void largest_all(const Bag<T>& bag, float* out, int64_t* places) {
  int64_t c = 0;
  for (; c + kVectors * kLanes <= bag.width; c += kVectors * kLanes) largest_vectors<kVectors>(bag, c, out, places);
  for (; c + kLanes <= bag.width; c += kLanes) largest_vectors<1>(bag, c, out, places);
  if (c < bag.width) largest_rest(bag, c, out, places);
}

#define PL_BAGS_OF(T)                                                                                           \
  PL_VECTORISED void sum_bag(const Bag<T>& bag, const float* scales, float* out) { sum_all(bag, scales, out); } \
  PL_VECTORISED void largest_of_bag(const Bag<T>& bag, float* out, int64_t* places) { largest_all(bag, out, places); }
PL_BAGS_OF(float)
PL_BAGS_OF(Half)
PL_BAGS_OF(BFloat16)
#undef PL_BAGS_OF

enum class Join { sum, mean, largest, places };

template <class T>
struct EmbeddingBagBody {
  std::string op;
  Join join;
  bool scaled;
  int64_t padding, indices, rows, width;
  RowGroups ends;
  LoadRun<int64_t> load_index;
  LoadRun<float> load;  // of factors
  StoreRun<float> store;

  void operator()(const KernelArguments& arguments) const {
    const std::vector<RowGroup> bags = ends.read(arguments);
    const auto count = int64_t(bags.size());
    // A row comes from memory far away, 15 ns of two threads; its elements cost little.
    const double row = 15 + 0.05 * double(width);
    std::atomic<bool> right{true};
    parallel_for(count, 20 + row * double(indices) / double(std::max<int64_t>(count, 1)), [&](int64_t a, int64_t b) {
      if (!join_bags(arguments, bags, a, b)) right = false;
    });
    if (!right) checked_indices(op, load_index, input(arguments, 0), indices, rows);  // names the first one
  }

 private:
  // Bags `a` to `b`; false where an index is out of range.
  bool join_bags(const KernelArguments& arguments, const std::vector<RowGroup>& bags, int64_t a, int64_t b) const {
    const int64_t first = bags[size_t(a)].begin, n = bags[size_t(b - 1)].end - first;
    std::vector<int64_t> index(static_cast<size_t>(n));
    std::vector<float> scales(size_t(scaled ? n : 0)), made(static_cast<size_t>(width));
    if (n) load_index(input(arguments, 0), first, 1, n, index.data());
    if (!count_from_start(index.data(), n, rows)) return false;
    if (padding >= 0) std::replace(index.begin(), index.end(), padding, int64_t(-1));
    if (scaled && n) load(input(arguments, 3), first, 1, n, scales.data());
    void* y = output(arguments);
    for (int64_t i = a; i < b; ++i) {
      const Bag<T> bag{static_cast<const T*>(input(arguments, 1)),
                       width,
                       index.data(),
                       bags[size_t(i)].begin - first,
                       bags[size_t(i)].end - first,
                       n};
      if (join == Join::places) {
        largest_of_bag(bag, nullptr, static_cast<int64_t*>(y) + i * width);
        continue;
      }
      if (join == Join::largest)
        largest_of_bag(bag, made.data(), nullptr);
      else
        sum_bag(bag, scaled ? scales.data() : nullptr, made.data());
      if (join == Join::mean) divide(bag, made);
      store(made.data(), width, y, i * width, 1);
    }
    return true;
  }

  static void divide(const Bag<T>& bag, std::vector<float>& sums) {
    int64_t all = 0;
    for (int64_t j = bag.begin; j < bag.end; ++j) all += bag.rows[j] >= 0;
    const float factor = all > 1 ? 1.0f / float(all) : 1.0f;
    for (float& sum : sums) sum *= factor;
  }
};

template <class T>
void add_bags(const Op& op, CandidateList& out) {
  const TensorDesc index = dense_plain(op.in(0)), weight = dense_plain(op.in(1)), y = dense_plain(op.out());
  const bool places = op.schema->name == "embedding_bag_rows";
  std::vector<TensorDesc> inputs;
  for (const TensorDesc& each : op.inputs) inputs.push_back(dense_plain(each));
  const std::string mode = places ? "" : op.attributes[attr::mode];
  const Join join = places ? Join::places : mode == "max" ? Join::largest : mode == "mean" ? Join::mean : Join::sum;
  const EmbeddingBagBody<T> body{op.schema->name,
                                 join,
                                 !places && op.has(3),
                                 op.attributes[attr::padding_idx],
                                 index.elements(),
                                 weight.shape[0],
                                 weight.shape[1],
                                 RowGroups(op, 2, index.elements()),
                                 integer_loader(index.dtype),
                                 float_loader(weight.dtype),
                                 places ? nullptr : float_storer(y.dtype)};
  add_candidate(out, "embedding_bag", Quality::fast, inputs, {y}, [body] { return body; });
}

void list_embedding_bag(const Op& op, CandidateList& out) {
  switch (op.in(1).dtype) {
    case DType::f16: return add_bags<Half>(op, out);
    case DType::bf16: return add_bags<BFloat16>(op, out);
    default: return add_bags<float>(op, out);
  }
}
PL_HOST_KIND("embedding_bag", list_embedding_bag);

}  // namespace
}  // namespace pl::host

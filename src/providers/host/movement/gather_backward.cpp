// Kinds gather_backward and gather_elements_backward: sums in f32, in the order of the index.
//
// Each element of the result is summed by one thread, in the order of the index, whatever the number of threads: so the
// result has the same bits in every run.
#include <cstring>

#include "providers/host/common/add_run.h"
#include "providers/host/common/host.h"

namespace pl::host {
namespace {

constexpr int64_t kColumns = 1024;  // summed in f32 at a time where the result is narrower

template <class T>
PL_INLINE void add_narrow(const T* __restrict from, int64_t n, float* __restrict sums) {
  for (int64_t k = 0; k < n; ++k) sums[k] += widen(from[k]);
}
PL_VECTORISED void add_narrow_run(const Half* from, int64_t n, float* sums) { add_narrow(from, n, sums); }
PL_VECTORISED void add_narrow_run(const BFloat16* from, int64_t n, float* sums) { add_narrow(from, n, sums); }
PL_VECTORISED void round_run(const float* sums, int64_t n, Half* to) {
  for (int64_t k = 0; k < n; ++k) to[k] = narrow_half(sums[k]);
}
PL_VECTORISED void round_run(const float* sums, int64_t n, BFloat16* to) {
  for (int64_t k = 0; k < n; ++k) to[k] = narrow_bfloat16(sums[k]);
}

// The row that an index names, or -1 where it is out of range.
PL_INLINE int64_t row_of(int64_t index, int64_t size) {
  const int64_t row = index < 0 ? index + size : index;
  return row >= 0 && row < size ? row : -1;
}

// Which slices of grad belong to each row of the result: those of row r are slices[first[r]] to slices[first[r + 1] -
// 1], in the order of the index.
struct Slices {
  std::vector<int64_t> first, slices;
  int64_t most = 0;  // of one row

  Slices(const int64_t* index, int64_t count, int64_t size) : first(size_t(size) + 1, 0) {
    for (int64_t i = 0; i < count; ++i)
      if (const int64_t row = row_of(index[i], size); row >= 0) ++first[size_t(row) + 1];
    for (int64_t row = 0; row < size; ++row) {
      most = std::max(most, first[size_t(row) + 1]);
      first[size_t(row) + 1] += first[size_t(row)];
    }
    slices.resize(size_t(first.back()));
    std::vector<int64_t> next(first.begin(), first.end() - 1);
    for (int64_t i = 0; i < count; ++i)
      if (const int64_t row = row_of(index[i], size); row >= 0) slices[size_t(next[size_t(row)]++)] = i;
  }

  // Of the rows before `row`: they are written, and their slices are read.
  int64_t work(int64_t row) const { return row + first[size_t(row)]; }
  // The first row before which there is so much work.
  int64_t row_at(int64_t wanted, int64_t size) const {
    int64_t low = 0, high = size;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (work(middle) < wanted) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
};

// grad is (outer, indices, inner), the result (outer, size, inner).
template <class T>
struct SlicesBody {
  int64_t outer, indices, inner, size;
  LoadRun<int64_t> load_index;

  // Rows `begin` to `end` of an outer part, columns `from` to `to`.
  void rows(const Slices& found, const T* grad, T* result, int64_t begin, int64_t end, int64_t from, int64_t to) const {
    if (inner == 1) {
      for (int64_t row = begin; row < end; ++row) {
        float sum = 0;
        for (int64_t i = found.first[size_t(row)]; i < found.first[size_t(row) + 1]; ++i)
          sum += value_of(grad[found.slices[size_t(i)]]);
        result[row] = from_value<T>(sum);
      }
      return;
    }
    for (int64_t row = begin; row < end;) {
      const int64_t first = found.first[size_t(row)], last = found.first[size_t(row) + 1];
      if (first == last) {  // all rows up to the next that has slices are zero
        int64_t next = row + 1;
        while (next < end && found.first[size_t(next) + 1] == first) ++next;
        if (to - from == inner) {
          std::memset(result + row * inner, 0, size_t((next - row) * inner) * sizeof(T));
        } else {
          for (; row < next; ++row) std::memset(result + row * inner + from, 0, size_t(to - from) * sizeof(T));
        }
        row = next;
        continue;
      }
      sum(found.slices.data() + first, last - first, grad, result + row * inner, from, to);
      ++row;
    }
  }

  void sum(const int64_t* slices, int64_t count, const T* grad, T* result, int64_t from, int64_t to) const {
    if (count == 1) {
      std::memcpy(result + from, grad + slices[0] * inner + from, size_t(to - from) * sizeof(T));
      return;
    }
    if constexpr (std::is_same_v<T, float>) {
      std::memcpy(result + from, grad + slices[0] * inner + from, size_t(to - from) * sizeof(T));
      for (int64_t i = 1; i < count; ++i) add_run(grad + slices[i] * inner + from, to - from, result + from);
    } else {
      float sums[kColumns];
      for (int64_t k = from; k < to; k += kColumns) {
        const int64_t n = std::min(kColumns, to - k);
        std::fill(sums, sums + n, 0.0f);
        for (int64_t i = 0; i < count; ++i) add_narrow_run(grad + slices[i] * inner + k, n, sums);
        round_run(sums, n, result + k);
      }
    }
  }

  void operator()(const KernelArguments& arguments) const {
    std::vector<int64_t> index(size_t(indices), 0);
    load_index(input(arguments, 1), 0, 1, indices, index.data());
    const Slices found(index.data(), indices, size);
    const T* grad = static_cast<const T*>(input(arguments, 0));
    T* result = static_cast<T*>(output(arguments));
    const int64_t each = found.work(size), all = outer * each;
    const double nanoseconds = double(all) * (2.0 + 0.1 * double(inner) * sizeof(T));
    int64_t pieces = threads_for(nanoseconds), columns = 1;
    // Where one row has most of the slices, threads share the columns of all rows.
    if (pieces > 1 && found.most + 1 > all / pieces + all / 8) {
      columns = std::max<int64_t>(1, std::min(pieces, inner * int64_t(sizeof(T)) / 256));
      pieces = columns;
    }
    parallel_for(pieces, nanoseconds / double(pieces), [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece) {
        const int64_t line = 64 / int64_t(sizeof(T));  // columns begin at multiples of 64 bytes
        const int64_t from = columns == 1 ? 0 : inner * piece / columns / line * line;
        const int64_t to = columns == 1 || piece + 1 == columns ? inner : inner * (piece + 1) / columns / line * line;
        const int64_t low = columns == 1 ? all * piece / pieces : 0;
        const int64_t high = columns == 1 ? all * (piece + 1) / pieces : all;
        for (int64_t o = each ? low / each : outer; o < outer && o * each < high; ++o) {
          const int64_t first = found.row_at(low - o * each, size);
          const int64_t last = high >= (o + 1) * each ? size : found.row_at(high - o * each, size);
          rows(found, grad + o * indices * inner, result + o * size * inner, first, last, from, to);
        }
      }
    });
  }
};

template <class T>
void add_slices(const Op& op, CandidateList& out) {
  const TensorDesc index = dense_plain(op.in(1));
  const int dim = int(op.attributes[attr::dim]), rank = op.out().rank();
  // Where an index has one dimension, the gradient has those of the result, in any order.
  std::vector<Layout> layouts{Layout::plain(rank)};
  if (rank > 2 && index.rank() == 1) layouts.push_back(Layout::channels_last(rank));
  for (const Layout& layout : layouts) {
    const TensorDesc grad = op.in(0).with_layout(layout.for_rank(op.in(0).rank()));
    const TensorDesc result = op.out().with_layout(layout);
    SlicesBody<T> body{1, index.elements(), 1, result.shape[dim], integer_loader(index.dtype)};
    bool inside = false;
    for (int i = 0; i < rank; ++i) {
      const int d = layout.order(i);
      if (d == dim)
        inside = true;
      else
        (inside ? body.inner : body.outer) *= result.shape[d];
    }
    add_candidate(out, "gather_backward", Quality::fast, {grad, index}, {result}, [body] { return body; });
  }
}

void list_slices(const Op& op, CandidateList& out) {
  switch (op.in(0).dtype) {
    case DType::f16: return add_slices<Half>(op, out);
    case DType::bf16: return add_slices<BFloat16>(op, out);
    default: return add_slices<float>(op, out);
  }
}
PL_HOST_KIND("gather_backward", list_slices);

constexpr int64_t kLines = 64;  // neighbours in the inner dimension, summed together

// grad and index are (outer, count, inner), the result (outer, size, inner).
template <class T>
struct ElementsBody {
  int64_t outer, count, inner, size;
  LoadRun<int64_t> load_index;
  LoadRun<float> load;
  StoreRun<float> store;

  void operator()(const KernelArguments& arguments) const {
    const int64_t pieces = (inner + kLines - 1) / kLines, lines = std::min(kLines, inner);
    const double nanoseconds = double(lines) * (2.0 * double(count) + 0.2 * double(size));
    parallel_for(outer * pieces, nanoseconds, [&](int64_t begin, int64_t end) {
      constexpr bool in_place = std::is_same_v<T, float>;
      std::vector<float> kept(in_place ? 0 : size_t(size * lines));
      float values[kChunk];
      int64_t rows[kChunk];
      for (int64_t piece = begin; piece < end; ++piece) {
        const int64_t o = piece / pieces, first = piece % pieces * kLines, n = std::min(kLines, inner - first);
        const int64_t target = o * size * inner + first;
        float* sums = kept.data();
        int64_t pitch = n;
        if constexpr (in_place) {
          sums = static_cast<float*>(output(arguments)) + target;
          pitch = inner;
        }
        if (pitch == n) {
          std::fill(sums, sums + size * n, 0.0f);
        } else {
          for (int64_t row = 0; row < size; ++row) std::fill(sums + row * pitch, sums + row * pitch + n, 0.0f);
        }
        // As many indices at a time as the buffers take; where n is all of inner, they are one run of memory.
        const int64_t step = n == inner ? std::max<int64_t>(1, kChunk / n) : 1;
        for (int64_t i = 0; i < count; i += step) {
          const int64_t m = std::min(step, count - i) * n, from = (o * count + i) * inner + first;
          load(input(arguments, 0), from, 1, m, values);
          load_index(input(arguments, 1), from, 1, m, rows);
          int64_t k = 0;
          for (int64_t j = 0; j < m; ++j) {
            if (const int64_t row = row_of(rows[j], size); row >= 0) sums[row * pitch + k] += values[j];
            if (++k == n) k = 0;
          }
        }
        if constexpr (!in_place) {
          if (n == inner) {
            store(sums, size * n, output(arguments), target, 1);
          } else {
            for (int64_t row = 0; row < size; ++row)
              store(sums + row * n, n, output(arguments), target + row * inner, 1);
          }
        }
      }
    });
  }
};

template <class T>
void add_elements_backward(const Op& op, CandidateList& out) {
  const TensorDesc grad = dense_plain(op.in(0)), index = dense_plain(op.in(1)), result = dense_plain(op.out());
  const int dim = int(op.attributes[attr::dim]);
  ElementsBody<T> body{1,
                       grad.shape[dim],
                       1,
                       result.shape[dim],
                       integer_loader(index.dtype),
                       float_loader(grad.dtype),
                       float_storer(grad.dtype)};
  for (int i = 0; i < grad.rank(); ++i) (i < dim ? body.outer : body.inner) *= i == dim ? 1 : grad.shape[i];
  add_candidate(out, "gather_elements_backward", Quality::fair, {grad, index}, {result}, [body] { return body; });
}

void list_elements_backward(const Op& op, CandidateList& out) {
  switch (op.in(0).dtype) {
    case DType::f16: return add_elements_backward<Half>(op, out);
    case DType::bf16: return add_elements_backward<BFloat16>(op, out);
    default: return add_elements_backward<float>(op, out);
  }
}
PL_HOST_KIND("gather_elements_backward", list_elements_backward);

}  // namespace
}  // namespace pl::host

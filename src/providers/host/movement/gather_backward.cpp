// Kinds gather_backward and gather_elements_backward: sums in f32, in the order of the index.  Each thread has columns
// of its own, so that no two write to one element.
#include "providers/host/common/host.h"

namespace pl::host {
namespace {

constexpr int64_t kColumns = 64;  // that one thread takes at a time

// grad is (outer, indices, inner), the result (outer, size, inner).
struct SlicesBody {
  TensorDesc index, result;
  int64_t outer, indices, inner, size;
  LoadRun<int64_t> load_index;
  LoadRun<float> load;
  StoreRun<float> store;

  void operator()(const KernelArguments& arguments) const {
    std::vector<int64_t> rows(size_t(indices), 0);
    load_index(input(arguments, 1), 0, 1, indices, rows.data());
    const void* grad = input(arguments, 0);
    const int64_t pieces = (inner + kColumns - 1) / kColumns;
    parallel_for(outer * pieces, 0.7 * kColumns * double(indices + size), [&](int64_t begin, int64_t end) {
      std::vector<float> sums(size_t(size * kColumns));
      float values[kColumns];
      for (int64_t piece = begin; piece < end; ++piece) {
        const int64_t o = piece / pieces, first = piece % pieces * kColumns, n = std::min(kColumns, inner - first);
        std::fill(sums.begin(), sums.end(), 0.0f);
        for (int64_t i = 0; i < indices; ++i) {
          const int64_t row = rows[size_t(i)] < 0 ? rows[size_t(i)] + size : rows[size_t(i)];
          if (row < 0 || row >= size) continue;
          load(grad, (o * indices + i) * inner + first, 1, n, values);
          for (int64_t k = 0; k < n; ++k) sums[size_t(row * n + k)] += values[k];
        }
        for (int64_t row = 0; row < size; ++row)
          store(sums.data() + row * n, n, output(arguments), (o * size + row) * inner + first, 1);
      }
    });
  }
};

void list_slices(const Op& op, CandidateList& out) {
  const TensorDesc grad = dense_plain(op.in(0)), index = dense_plain(op.in(1)), result = dense_plain(op.out());
  const int dim = int(op.attributes.integer("dim"));
  SlicesBody body{index,
                  result,
                  1,
                  index.elements(),
                  1,
                  result.shape[dim],
                  integer_loader(index.dtype),
                  float_loader(grad.dtype),
                  float_storer(grad.dtype)};
  for (int i = 0; i < result.rank(); ++i) (i < dim ? body.outer : body.inner) *= i == dim ? 1 : result.shape[i];
  add_candidate(out, "gather_backward", Quality::fair, {grad, index}, {result}, [body] { return body; });
}
PL_HOST_KIND("gather_backward", list_slices);

// grad and index are (outer, count, inner).
struct ElementsBody {
  int64_t outer, count, inner, size;
  LoadRun<int64_t> load_index;
  LoadRun<float> load;
  StoreRun<float> store;

  void operator()(const KernelArguments& arguments) const {
    parallel_for(outer * inner, 4.0 * double(count + size), [&](int64_t begin, int64_t end) {
      std::vector<float> sums(size_t(size), 0.0f), values(size_t(count), 0.0f);
      std::vector<int64_t> rows(size_t(count), 0);
      for (int64_t line = begin; line < end; ++line) {
        const int64_t o = line / inner, k = line % inner, from = o * count * inner + k;
        load(input(arguments, 0), from, inner, count, values.data());
        load_index(input(arguments, 1), from, inner, count, rows.data());
        std::fill(sums.begin(), sums.end(), 0.0f);
        for (int64_t i = 0; i < count; ++i) {
          const int64_t row = rows[size_t(i)] < 0 ? rows[size_t(i)] + size : rows[size_t(i)];
          if (row >= 0 && row < size) sums[size_t(row)] += values[size_t(i)];
        }
        store(sums.data(), size, output(arguments), o * size * inner + k, inner);
      }
    });
  }
};

void list_elements(const Op& op, CandidateList& out) {
  const TensorDesc grad = dense_plain(op.in(0)), index = dense_plain(op.in(1)), result = dense_plain(op.out());
  const int dim = int(op.attributes.integer("dim"));
  ElementsBody body{1,
                    grad.shape[dim],
                    1,
                    result.shape[dim],
                    integer_loader(index.dtype),
                    float_loader(grad.dtype),
                    float_storer(grad.dtype)};
  for (int i = 0; i < grad.rank(); ++i) (i < dim ? body.outer : body.inner) *= i == dim ? 1 : grad.shape[i];
  add_candidate(out, "gather_elements_backward", Quality::fair, {grad, index}, {result}, [body] { return body; });
}
PL_HOST_KIND("gather_elements_backward", list_elements);

}  // namespace
}  // namespace pl::host

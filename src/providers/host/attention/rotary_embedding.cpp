// Kind rotary_embedding: row by row, in the order in which the result lies in memory.
#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "providers/head_layouts.h"
#include "providers/host/common/host.h"
#include "providers/host/common/independent.h"

namespace pl::host {
namespace {

// Column i of the first half and of the second one are a pair.
PL_VECTORISED void rotate_halves(const float* x, const float* cosines, const float* sines, int64_t half, float* y) {
  PL_INDEPENDENT
  for (int64_t i = 0; i < half; ++i) {
    const float a = x[i], b = x[i + half];
    y[i] = a * cosines[i] - b * sines[i];
    y[i + half] = b * cosines[i + half] + a * sines[i + half];
  }
}

// Neighbours are a pair.
PL_VECTORISED void rotate_neighbours(const float* x, const float* cosines, const float* sines, int64_t half, float* y) {
  PL_INDEPENDENT
  for (int64_t i = 0; i < half; ++i) {
    const float a = x[2 * i], b = x[2 * i + 1];
    y[2 * i] = a * cosines[2 * i] - b * sines[2 * i];
    y[2 * i + 1] = b * cosines[2 * i + 1] + a * sines[2 * i + 1];
  }
}

struct RotaryBody {
  DType dtype;
  decltype(&rotate_halves) rotate;
  int64_t columns, turned;  // of x; of the tables
  // Of all dimensions but the last: sizes and the steps of x, cos, sin and y, the outermost of y first.
  struct Axis {
    int64_t size;
    std::array<int64_t, 4> steps;
  };
  std::vector<Axis> axes;
  LoadRun<float> load;
  StoreRun<float> store;

  void operator()(const KernelArguments& arguments) const {
    int64_t rows = 1;
    for (const Axis& axis : axes) rows *= axis.size;
    parallel_for(rows, double(columns) * 0.3 + 2, [&](int64_t begin, int64_t end) {
      std::vector<float> space(dtype == DType::f32 ? 0 : size_t(3 * columns));
      for (int64_t row = begin; row < end; ++row) {
        std::array<int64_t, 4> at{};
        int64_t rest = row;
        for (size_t d = axes.size(); d-- > 0;) {
          const int64_t i = rest % axes[d].size;
          rest /= axes[d].size;
          for (size_t t = 0; t < 4; ++t) at[t] += i * axes[d].steps[t];
        }
        if (dtype == DType::f32) {
          const auto from = [&](int t) { return static_cast<const float*>(input(arguments, t)) + at[size_t(t)]; };
          float* y = static_cast<float*>(output(arguments)) + at[3];
          rotate(from(0), from(1), from(2), turned / 2, y);
          if (turned < columns) std::memcpy(y + turned, from(0) + turned, size_t(columns - turned) * sizeof(float));
          continue;
        }
        float *x = space.data(), *cosines = x + columns, *sines = cosines + columns;
        load(input(arguments, 0), at[0], 1, columns, x);
        load(input(arguments, 1), at[1], 1, turned, cosines);
        load(input(arguments, 2), at[2], 1, turned, sines);
        rotate(x, cosines, sines, turned / 2, x);
        store(x, columns, output(arguments), at[3], 1);
      }
    });
  }
};

RotaryBody rotary_body(const std::vector<TensorDesc>& inputs, const TensorDesc& y, bool interleaved) {
  const TensorDesc &x = inputs[0], &cosines = inputs[1];
  const int rank = x.rank();
  RotaryBody body{x.dtype,
                  interleaved ? rotate_neighbours : rotate_halves,
                  x.shape[rank - 1],
                  cosines.shape[cosines.rank() - 1],
                  {},
                  float_loader(x.dtype),
                  float_storer(x.dtype)};
  const auto step = [&](const TensorDesc& desc, int d) {
    const int own = d - (rank - desc.rank());
    return own < 0 || (desc.shape[own] == 1 && x.shape[d] != 1) ? int64_t(0) : desc.strides[own];
  };
  std::vector<int> order(size_t(rank - 1));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return y.strides[a] > y.strides[b]; });
  for (int d : order) body.axes.push_back({x.shape[d], {step(x, d), step(cosines, d), step(inputs[2], d), step(y, d)}});
  return body;
}

// Layouts whose columns lie side by side.
void list_rotary_embedding(const Op& op, CandidateList& out) {
  const bool interleaved = op.attributes[attr::interleaved];
  for (const auto& [from, to] : attention_layouts(op.in(0).shape)) {
    const std::vector<TensorDesc> inputs{any_rows_as(op.in(0), from), dense_plain(op.in(1)), dense_plain(op.in(2))};
    if (inputs[0] == op.in(0) && !op.in(0).is_dense() && from != to) continue;  // with each `to` once
    const TensorDesc y = op.out().with_layout(to);
    add_candidate(out, "rotary_rows", Quality::fast, inputs, {y}, [=] { return rotary_body(inputs, y, interleaved); });
  }
}
PL_HOST_KIND("rotary_embedding", list_rotary_embedding);

}  // namespace
}  // namespace pl::host

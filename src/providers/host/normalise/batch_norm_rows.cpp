// Kinds batch_norm_training and batch_norm_backward in channels last: rows of channels, a block of rows in the cache at
// a time.
//
// Each block's sums are taken in f32, those of squares about the block's own mean, and blocks are joined in double, by
// the formula of T. Chan et al. (Stanford STAN-CS-79-773).  The rows are cut into a fixed number of parts, which are
// joined in their order, so that results do not depend on the threads.
#include "providers/host/normalise/batch_norm_rows.h"

#include <cmath>

#include "ops/post_ops.h"
#include "providers/host/common/independent.h"
#include "providers/host/normalise/batch_norm_body.h"
#include "providers/host/pointwise/functions.h"
#include "providers/host/pointwise/slope.h"

namespace pl::host {
namespace {

constexpr int64_t kMostRowParts = 32;
constexpr int64_t kBlockFloats = 4096;    // 16 KB of x, and as many of the gradient, stay in the first cache
constexpr double kRowsNanoseconds = 0.5;  // work of one element on one core

PL_VECTORISED void add_rows(const float* x, int64_t rows, int64_t channels, float* sums) {
  for (int64_t r = 0; r < rows; ++r, x += channels) PL_INDEPENDENT
  for (int64_t c = 0; c < channels; ++c) sums[c] += x[c];
}
PL_VECTORISED void add_squares(const float* x, const float* means, int64_t rows, int64_t channels, float* sums) {
  for (int64_t r = 0; r < rows; ++r, x += channels) PL_INDEPENDENT
  for (int64_t c = 0; c < channels; ++c) sums[c] += (x[c] - means[c]) * (x[c] - means[c]);
}
PL_VECTORISED void scale_rows(const float* x, const float* means, const float* scale, const float* bias, int64_t rows,
                              int64_t channels, float* y) {
  for (int64_t r = 0; r < rows; ++r, x += channels, y += channels) PL_INDEPENDENT
  for (int64_t c = 0; c < channels; ++c) y[c] = (x[c] - means[c]) * scale[c] + bias[c];
}
// The gradient where the result lies between limits, else 0.
PL_VECTORISED void pass_rows(const float* x, const float* g, const float* means, const float* scale, const float* bias,
                             float low, float high, int64_t rows, int64_t channels, float* out) {
  for (int64_t r = 0; r < rows; ++r, x += channels, g += channels, out += channels) PL_INDEPENDENT
  for (int64_t c = 0; c < channels; ++c) {
    const float y = (x[c] - means[c]) * scale[c] + bias[c];
    out[c] = y > low && y < high ? g[c] : 0.0f;
  }
}
PL_VECTORISED void add_gradients(const float* x, const float* g, const float* means, int64_t rows, int64_t channels,
                                 float* sums, float* products) {
  for (int64_t r = 0; r < rows; ++r, x += channels, g += channels) PL_INDEPENDENT
  for (int64_t c = 0; c < channels; ++c) {
    sums[c] += g[c];
    products[c] += g[c] * (x[c] - means[c]);
  }
}
// dx = by_grad * g - by_value * (x - mean) - constant
PL_VECTORISED void gradient_rows(const float* x, const float* g, const float* means, const float* by_grad,
                                 const float* by_value, const float* constant, int64_t rows, int64_t channels,
                                 float* dx) {
  for (int64_t r = 0; r < rows; ++r, x += channels, g += channels, dx += channels) PL_INDEPENDENT
  for (int64_t c = 0; c < channels; ++c) dx[c] = by_grad[c] * g[c] - by_value[c] * (x[c] - means[c]) - constant[c];
}

struct Rows : BatchNormBody {
  int64_t rows;

  Rows(const Op& op) : BatchNormBody(op), rows(channels ? op.in(0).elements() / channels : 0) {}

  int64_t block() const { return std::max<int64_t>(1, kBlockFloats / std::max<int64_t>(1, channels)); }
  int64_t parts() const { return std::clamp<int64_t>(rows / block(), 1, kMostRowParts); }

  // Calls f(part, first row, rows) for the blocks of all parts.
  template <class F>
  void each_block(F&& f) const {
    const int64_t count = parts();
    parallel_for(count, double(rows * channels) / double(count) * kRowsNanoseconds, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) {
        const int64_t last = rows * (part + 1) / count;
        for (int64_t row = rows * part / count; row < last; row += block()) f(part, row, std::min(block(), last - row));
      }
    });
  }
};

struct TrainingRowsBody : Rows {
  AppliedPostOps post_ops;

  TrainingRowsBody(const Op& op) : Rows(op), post_ops(op) {}

  void operator()(const KernelArguments& arguments) const {
    const void* x = input(arguments, 0);
    const size_t n = size_t(channels);
    struct Part {
      double count = 0;
      std::vector<double> means, squares;
    };
    std::vector<Part> all(static_cast<size_t>(parts()), Part{0, std::vector<double>(n), std::vector<double>(n)});
    // Adds values of a count, mean and sum of squares about it.
    const auto join = [&](Part& part, double count, const auto& mean, const auto& squares) {
      const double total = part.count + count;
      for (size_t c = 0; c < n; ++c) {
        const double difference = double(mean[c]) - part.means[c];
        part.means[c] += difference * count / total;
        part.squares[c] += double(squares[c]) + difference * difference * part.count * count / total;
      }
      part.count = total;
    };
    each_block([&](int64_t part, int64_t row, int64_t count) {
      thread_local std::vector<float> space, means, squares;
      const float* values = read(x, row * channels, count * channels, space);
      means.assign(n, 0.0f);
      squares.assign(n, 0.0f);
      add_rows(values, count, channels, means.data());
      for (float& mean : means) mean /= float(count);
      add_squares(values, means.data(), count, channels, squares.data());
      join(all[size_t(part)], double(count), means, squares);
    });
    for (size_t part = 1; part < all.size(); ++part)
      if (all[part].count > 0) join(all[0], all[part].count, all[part].means, all[part].squares);
    std::vector<float> means(n), variances(n), scale = parameter(arguments, 1);
    const std::vector<float> bias = parameter(arguments, 2);
    for (size_t c = 0; c < n; ++c) {
      const double variance = all[0].squares[c] / double(std::max<int64_t>(rows, 1));
      means[c] = float(all[0].means[c]);
      variances[c] = float(variance);
      scale[c] = float(double(scale[c]) / std::sqrt(variance + eps));
    }
    each_block([&](int64_t, int64_t row, int64_t count) {
      thread_local std::vector<float> space, made, operand;
      const float* values = read(x, row * channels, count * channels, space);
      write(output(arguments, 0), row * channels, count * channels, made, [&](float* y) {
        scale_rows(values, means.data(), scale.data(), bias.data(), count, channels, y);
        post_ops.apply(y, count * channels,
                       [&](int i) { return read(input(arguments, i), row * channels, count * channels, operand); });
      });
    });
    write_parameter(means, arguments, 1);
    write_parameter(variances, arguments, 2);
  }
};

struct BackwardBody : Rows {
  bool inverted;
  std::optional<Limits> limits;  // of a function that has some: one loop
  std::optional<Slope> slope;    // of another function

  BackwardBody(const Op& op) : Rows(op), inverted(op.attributes[attr::inverted]) {
    const std::optional<PostOp> function = activation_of(op);
    if (!function) return;
    limits = Limits::of(*function);
    if (!limits)
      slope = Slope(*function);
    else if (function->name == "clip")  // which passes on what is at a limit
      limits = Limits{below(float(limits->low)), -below(-float(limits->high))};
  }
  static float below(float value) { return std::nextafter(value, -std::numeric_limits<float>::infinity()); }
  double inverse_of(float variance) const {
    return inverted ? double(variance) : 1 / std::sqrt(double(variance) + eps);
  }

  void operator()(const KernelArguments& arguments) const {
    const void *x = input(arguments, 0), *grad = input(arguments, 1);
    const size_t n = size_t(channels);
    const std::vector<float> means = parameter(arguments, 2), variances = parameter(arguments, 3),
                             weights = parameter(arguments, 4);
    std::vector<float> factors, bias;  // of what the function was applied to
    if (limits || slope) {
      bias = parameter(arguments, 5);
      for (size_t c = 0; c < n; ++c) factors.push_back(float(double(weights[c]) * inverse_of(variances[c])));
    }
    const auto gradients = [&](int64_t row, int64_t count, const float* values, std::vector<float>& space) {
      const float* g = read(grad, row * channels, count * channels, space);
      const size_t size = size_t(count * channels);
      if (limits) {
        space.resize(size);
        pass_rows(values, g, means.data(), factors.data(), bias.data(), float(limits->low), float(limits->high), count,
                  channels, space.data());
      } else if (slope) {
        thread_local std::vector<float> results;
        results.resize(size);
        space.resize(size);
        scale_rows(values, means.data(), factors.data(), bias.data(), count, channels, results.data());
        slope->run(results.data(), g, int64_t(size), space.data());
      } else {
        return g;
      }
      return static_cast<const float*>(space.data());
    };
    std::vector<double> all(size_t(parts()) * 2 * n, 0.0);
    each_block([&](int64_t part, int64_t row, int64_t count) {
      thread_local std::vector<float> space, more, sums;
      sums.assign(2 * n, 0.0f);
      const float* values = read(x, row * channels, count * channels, space);
      add_gradients(values, gradients(row, count, values, more), means.data(), count, channels, sums.data(),
                    sums.data() + n);
      double* own = all.data() + size_t(part) * 2 * n;
      for (size_t i = 0; i < 2 * n; ++i) own[i] += double(sums[i]);
    });
    for (size_t part = 1; part < size_t(parts()); ++part)
      for (size_t i = 0; i < 2 * n; ++i) all[i] += all[part * 2 * n + i];
    std::vector<float> of_weight(n), of_bias(n), by_grad(n), by_value(n), constant(n);
    for (size_t c = 0; c < n; ++c) {
      const double inverse = inverse_of(variances[c]), count = double(std::max<int64_t>(rows, 1));
      const double scale = double(weights[c]) * inverse, products = all[n + c] * inverse;
      of_bias[c] = float(all[c]);
      of_weight[c] = float(products);
      by_grad[c] = float(scale);
      by_value[c] = float(scale * inverse * products / count);
      constant[c] = float(scale * all[c] / count);
    }
    each_block([&](int64_t, int64_t row, int64_t count) {
      thread_local std::vector<float> space, more, made;
      const float *values = read(x, row * channels, count * channels, space), *g = gradients(row, count, values, more);
      write(output(arguments, 0), row * channels, count * channels, made, [&](float* dx) {
        gradient_rows(values, g, means.data(), by_grad.data(), by_value.data(), constant.data(), count, channels, dx);
      });
    });
    write_parameter(of_weight, arguments, 1);
    write_parameter(of_bias, arguments, 2);
  }
};

template <class Body>
void list_batch_norm_rows(const Op& op, CandidateList& out) {
  const int rank = op.in(0).rank();
  std::vector<TensorDesc> inputs, outputs;
  const auto place = [&](const TensorDesc& desc) {
    return desc.rank() == rank && rank >= 3 ? desc.with_layout(Layout::channels_last(rank)) : dense_plain(desc);
  };
  for (const TensorDesc& desc : op.inputs) inputs.push_back(place(desc));
  for (const TensorDesc& desc : op.outputs) outputs.push_back(place(desc));
  const Body body(op);
  add_candidate(out, "batch_norm_rows", Quality::fast, inputs, outputs, [body] { return body; });
}

}  // namespace

void list_training_rows(const Op& op, CandidateList& out) { list_batch_norm_rows<TrainingRowsBody>(op, out); }
void list_backward_rows(const Op& op, CandidateList& out) { list_batch_norm_rows<BackwardBody>(op, out); }

}  // namespace pl::host

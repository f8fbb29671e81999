// Kinds cross_entropy and cross_entropy_backward, position by position: where the classes of a position are neighbours
// in memory, exponentials in f32 vectors, with sums in double; else all in double.
//
// 1024 rows of 50257 f32, two cores with AVX-512: log_softmax, the choice of the targets' and the gradients of both
// were five passes over memory and 87 ms; here forward reads x once and backward reads x and writes dx once.
#include <cmath>

#include "providers/host/common/reference.h"
#include "providers/host/normalise/softmax_row.h"

namespace pl::host {
namespace {

struct Loss {
  std::string op;
  TensorDesc x, target, weight, grad, result;
  int64_t classes, positions, inner;  // inner: positions of an image
  int64_t ignore;
  bool mean, none;
  double smoothing;
  LoadRun<double> load;
  LoadRun<int64_t> load_target;
  StoreRun<double> store;

  // Of one position: its weight, and the sum of its log-softmax times the weights that the target gives each class.
  struct Terms {
    double largest = 0, log_sum = 0;  // log_softmax = x - largest - log_sum
    double weight = 0;                // of the target: what the mean divides by
    double total = 0;                 // of all classes: factor of the softmax in the gradient
    bool counts = false;
    int64_t target = 0;
  };

  // The class of each position, or what is ignored; throws where one is neither.
  std::vector<int64_t> targets(const void* data) const {
    std::vector<int64_t> found(static_cast<size_t>(positions));
    load_target(data, 0, 1, positions, found.data());
    for (int64_t p = 0; p < positions; ++p) {
      const int64_t t = found[size_t(p)];
      require(t == ignore || (t >= 0 && t < classes), Code::invalid_argument, op, ": target is ", t, " at element ", p,
              ", expected 0 to ", classes - 1, " or ", ignore, " (ignore_index)");
    }
    return found;
  }

  std::vector<double> weights(const void* data) const {
    std::vector<double> values(size_t(classes), 1.0);
    if (weight.present) load(data, 0, 1, classes, values.data());
    return values;
  }

  void read(const void* data, int64_t position, double* row) const {
    const int64_t image = position / inner, place = position % inner;
    load(data, image * classes * inner + place, inner, classes, row);
  }

  Terms terms(const double* row, int64_t target, const std::vector<double>& w, double sum) const {
    Terms t;
    t.target = target;
    t.counts = target != ignore;
    if (!t.counts) return t;
    t.largest = row[0];
    for (int64_t i = 1; i < classes; ++i) t.largest = std::max(t.largest, row[i]);
    double total = 0;
    for (int64_t i = 0; i < classes; ++i) total += std::exp(row[i] - t.largest);
    t.log_sum = std::log(total);
    t.weight = w[size_t(t.target)];
    t.total = (1 - smoothing) * t.weight + smoothing / double(classes) * sum;
    return t;
  }
};

double sum_of(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += value;
  return sum;
}

// What the mean divides by: the weights of the targets that count.
double divisor_of(const Loss& loss, const std::vector<int64_t>& targets, const std::vector<double>& w) {
  double divisor = 0;
  for (int64_t target : targets)
    if (target != loss.ignore) divisor += w[size_t(target)];
  return divisor;
}

struct ForwardBody {
  Loss loss;

  void operator()(const KernelArguments& arguments) const {
    const void* x = input(arguments, 0);
    const std::vector<int64_t> targets = loss.targets(input(arguments, 1));
    const std::vector<double> w = loss.weights(loss.weight.present ? input(arguments, 2) : nullptr);
    const double all = sum_of(w);
    std::vector<double> losses(size_t(loss.positions), 0.0), counted(size_t(loss.positions), 0.0);
    parallel_for(loss.positions, 10.0 * double(loss.classes), [&](int64_t begin, int64_t end) {
      std::vector<double> row(size_t(loss.classes));
      for (int64_t p = begin; p < end; ++p) {
        loss.read(x, p, row.data());
        const Loss::Terms t = loss.terms(row.data(), targets[size_t(p)], w, all);
        if (!t.counts) continue;
        const double shift = t.largest + t.log_sum;
        double value = -(1 - loss.smoothing) * t.weight * (row[size_t(t.target)] - shift);
        if (loss.smoothing > 0)
          for (int64_t i = 0; i < loss.classes; ++i)
            value -= loss.smoothing / double(loss.classes) * w[size_t(i)] * (row[size_t(i)] - shift);
        losses[size_t(p)] = value;
        counted[size_t(p)] = t.weight;
      }
    });
    void* result = output(arguments);
    if (loss.none) return loss.store(losses.data(), loss.positions, result, 0, 1);
    const double sum = sum_of(losses), value = loss.mean ? sum / sum_of(counted) : sum;
    loss.store(&value, 1, result, 0, 1);
  }
};

struct BackwardBody {
  Loss loss;

  void operator()(const KernelArguments& arguments) const {
    const void *x = input(arguments, 0), *grad = input(arguments, 2);
    const std::vector<int64_t> targets = loss.targets(input(arguments, 1));
    const std::vector<double> w = loss.weights(loss.weight.present ? input(arguments, 3) : nullptr);
    const double all = sum_of(w);
    const double divisor = loss.mean ? divisor_of(loss, targets, w) : 1;
    void* result = output(arguments);
    parallel_for(loss.positions, 12.0 * double(loss.classes), [&](int64_t begin, int64_t end) {
      std::vector<double> row(size_t(loss.classes)), made(size_t(loss.classes));
      for (int64_t p = begin; p < end; ++p) {
        double g = 0;
        loss.load(grad, loss.none ? p : 0, 1, 1, &g);
        loss.read(x, p, row.data());
        const Loss::Terms t = loss.terms(row.data(), targets[size_t(p)], w, all);
        for (int64_t i = 0; i < loss.classes; ++i) {
          double value = 0;
          if (t.counts) {
            const double share = (i == t.target ? (1 - loss.smoothing) * t.weight : 0) +
                                 loss.smoothing / double(loss.classes) * w[size_t(i)];
            value = g / divisor * (std::exp(row[size_t(i)] - t.largest - t.log_sum) * t.total - share);
          }
          made[size_t(i)] = value;
        }
        loss.store(made.data(), loss.classes, result, p / loss.inner * loss.classes * loss.inner + p % loss.inner,
                   loss.inner);
      }
    });
  }
};

// A row of f32: where it lies, or converted into a buffer.
struct Row {
  bool direct;
  LoadRun<float> load;
  std::vector<float> buffer;

  Row(DType dtype, int64_t classes)
      : direct(dtype == DType::f32), load(float_loader(dtype)), buffer(direct ? 0 : size_t(classes)) {}

  const float* at(const void* x, int64_t position, int64_t classes) {
    if (direct) return static_cast<const float*>(x) + position * classes;
    load(x, position * classes, 1, classes, buffer.data());
    return buffer.data();
  }
};

struct ForwardRows {
  Loss loss;

  // The loss of a position with a valid target.
  double value(const float* row, int64_t target, const std::vector<double>& w, double all) const {
    const float largest = largest_of_row(row, loss.classes);
    const double log_sum = std::log(exponentials_of_row(row, nullptr, loss.classes, largest));
    double value = -(1 - loss.smoothing) * w[size_t(target)] * (double(row[target]) - largest - log_sum);
    if (loss.smoothing > 0) {
      double weighed = 0;
      for (int64_t i = 0; i < loss.classes; ++i) weighed += w[size_t(i)] * (double(row[i]) - largest);
      value -= loss.smoothing / double(loss.classes) * (weighed - all * log_sum);
    }
    return value;
  }

  void operator()(const KernelArguments& arguments) const {
    const void* x = input(arguments, 0);
    const std::vector<int64_t> targets = loss.targets(input(arguments, 1));
    const std::vector<double> w = loss.weights(loss.weight.present ? input(arguments, 2) : nullptr);
    const double all = sum_of(w);
    std::vector<double> losses(size_t(loss.positions), 0.0);
    parallel_for(loss.positions, 0.8 * double(loss.classes), [&](int64_t begin, int64_t end) {
      Row row(loss.x.dtype, loss.classes);
      for (int64_t p = begin; p < end; ++p) {
        const int64_t target = targets[size_t(p)];
        if (target != loss.ignore) losses[size_t(p)] = value(row.at(x, p, loss.classes), target, w, all);
      }
    });
    void* result = output(arguments);
    if (loss.none) return loss.store(losses.data(), loss.positions, result, 0, 1);
    const double sum = sum_of(losses), value = loss.mean ? sum / divisor_of(loss, targets, w) : sum;
    loss.store(&value, 1, result, 0, 1);
  }
};

struct BackwardRows {
  Loss loss;
  StoreRun<float> store_row;

  void operator()(const KernelArguments& arguments) const {
    const void *x = input(arguments, 0), *grad = input(arguments, 2);
    const std::vector<int64_t> targets = loss.targets(input(arguments, 1));
    const std::vector<double> w = loss.weights(loss.weight.present ? input(arguments, 3) : nullptr);
    const double all = sum_of(w), divisor = loss.mean ? divisor_of(loss, targets, w) : 1;
    const int64_t classes = loss.classes;
    void* result = output(arguments);
    parallel_for(loss.positions, double(classes), [&](int64_t begin, int64_t end) {
      Row row(loss.x.dtype, classes);
      for (int64_t p = begin; p < end; ++p) {
        float* made = row.direct ? static_cast<float*>(result) + p * classes : row.buffer.data();
        const int64_t target = targets[size_t(p)];
        if (target == loss.ignore) {
          std::fill(made, made + classes, 0.0f);
        } else {
          double g = 0;
          loss.load(grad, loss.none ? p : 0, 1, 1, &g);
          g /= divisor;
          const double even = loss.smoothing / double(classes), own = (1 - loss.smoothing) * w[size_t(target)];
          const float* from = row.at(x, p, classes);
          const float largest = largest_of_row(from, classes);
          const double sum = exponentials_of_row(from, made, classes, largest);
          scale_row(made, classes, float(g * (own + even * all) / sum));
          if (even > 0)
            for (int64_t i = 0; i < classes; ++i) made[i] = float(made[i] - g * even * w[size_t(i)]);
          made[target] = float(made[target] - g * own);
        }
        if (!row.direct) store_row(made, classes, result, p * classes, 1);
      }
    });
  }
};

Loss loss_of(const Op& op, int weight) {
  Loss loss;
  loss.op = op.schema->name;
  loss.x = dense_plain(op.in(0));
  loss.target = dense_plain(op.in(1));
  loss.weight = op.has(weight) ? dense_plain(op.in(weight)) : TensorDesc();
  loss.result = dense_plain(op.out());
  loss.classes = loss.x.shape[1];
  loss.positions = loss.target.elements();
  loss.inner = std::max<int64_t>(1, loss.x.shape[0] ? loss.positions / loss.x.shape[0] : 1);
  loss.ignore = op.attributes[attr::ignore_index];
  loss.mean = op.attributes[attr::reduction] == "mean";
  loss.none = op.attributes[attr::reduction] == "none";
  loss.smoothing = op.attributes[attr::label_smoothing];
  loss.load = double_loader(loss.x.dtype);
  loss.load_target = integer_loader(loss.target.dtype);
  loss.store = double_storer(loss.x.dtype);
  return loss;
}

void list_forward(const Op& op, CandidateList& out) {
  const Loss loss = loss_of(op, 2);
  std::vector<TensorDesc> inputs{loss.x, loss.target};
  if (op.inputs.size() > 2) inputs.push_back(loss.weight);
  if (loss.inner == 1)
    return add_candidate(out, "cross_entropy_rows", Quality::fast, inputs, {loss.result},
                         [loss] { return ForwardRows{loss}; });
  add_candidate(out, "cross_entropy", Quality::fair, inputs, {loss.result}, [loss] { return ForwardBody{loss}; });
}
PL_HOST_KIND("cross_entropy", list_forward);

void list_backward(const Op& op, CandidateList& out) {
  const Loss loss = loss_of(op, 3);
  std::vector<TensorDesc> inputs{loss.x, loss.target, dense_plain(op.in(2))};
  if (op.inputs.size() > 3) inputs.push_back(loss.weight);
  if (loss.inner == 1)
    return add_candidate(out, "cross_entropy_backward_rows", Quality::fast, inputs, {loss.result}, [loss] {
      return BackwardRows{loss, float_storer(loss.x.dtype)};
    });
  add_candidate(out, "cross_entropy_backward", Quality::fair, inputs, {loss.result},
                [loss] { return BackwardBody{loss}; });
}
PL_HOST_KIND("cross_entropy_backward", list_backward);

}  // namespace
}  // namespace pl::host

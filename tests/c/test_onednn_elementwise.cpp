// oneDNN's elementwise ops: every candidate against loops in double precision; special values, threads.
#include "onednn_testing.h"

using namespace pltest;

namespace {

SETUP() { find_onednn(); }

TEST("unary") {
  struct Case {
    const char* name;
    const char* attributes;
    double alpha, beta, low, high;
  };
  for (const Case& c : std::vector<Case>{{"leaky_relu", "negative_slope=0.2", 0.2, 0, -3, 3},
                                         {"gelu", "", 0, 0, -4, 4},
                                         {"silu", "", 0, 0, -9, 9},
                                         {"hardswish", "", 0, 0, -5, 5},
                                         {"sigmoid", "", 0, 0, -9, 9},
                                         {"tanh", "", 0, 0, -5, 5},
                                         {"abs", "", 0, 0, -3, 3},
                                         {"neg", "", 0, 0, -3, 3},
                                         {"log", "", 0, 0, 0.1, 9},
                                         {"sqrt", "", 0, 0, 0, 9},
                                         {"reciprocal", "", 0, 0, 0.2, 4},
                                         {"square", "", 0, 0, -3, 3},
                                         {"round", "", 0, 0, -9, 9}}) {
    for (const Dims& shape : {Dims{2, 13, 5, 7}, Dims{1, 17, 3}, Dims{1, 9, 2, 3, 2}, Dims{37}, Dims{}}) {
      const Argument x = random_argument(DType::f32, shape, 7, c.low, c.high);
      Values y = x.values;
      for (double& value : y) value = activate(c.name, value, c.alpha, c.beta);
      check(c.name, c.attributes, {x}, y);
    }
  }
  const Argument x = random_argument(DType::bf16, {1, 24, 5, 5}, 7);
  Values y = x.values;
  for (double& value : y) value = activate("silu", value);
  check("silu", "", {x}, y);
  for (const char* name : {"sin", "elu", "rsqrt"}) check(name, "", {random_argument(DType::f32, {3}, 7)}, {}, 0);
}

double combine(const std::string& f, double x, double y) {
  if (f == "add") return x + y;
  if (f == "sub") return x - y;
  if (f == "mul") return x * y;
  if (f == "div") return x / y;
  if (f == "eq") return x == y;
  if (f == "ne") return x != y;
  if (f == "lt") return x < y;
  if (f == "le") return x <= y;
  if (f == "gt") return x > y;
  return x >= y;
}

TEST("binary") {
  for (const char* name : {"add", "sub", "mul", "div", "eq", "ne", "lt", "le", "gt", "ge"}) {
    const std::vector<std::pair<Dims, Dims>> shapes{{{2, 13, 3, 5}, {2, 13, 3, 5}},
                                                    {{2, 13, 3, 5}, {1, 13, 1, 1}},
                                                    {{2, 13, 3, 5}, {13, 1, 1}},
                                                    {{2, 24, 3, 5}, {}},
                                                    {{2, 13, 3, 5}, {5}},
                                                    {{1, 13, 1, 1}, {2, 13, 3, 5}},
                                                    {{7}, {7}},
                                                    {{2, 3}, {2, 1}}};
    for (const auto& pair : shapes) {
      const Argument x = random_argument(DType::f32, pair.first, 1), y = random_argument(DType::f32, pair.second, 2);
      Argument z = x;
      const Dims shape = pair.first.size() >= pair.second.size() && pair.first.product() >= pair.second.product()
                             ? pair.first
                             : pair.second;
      Values values(size_t(shape.product()));
      const auto pick = [&](const Argument& tensor, const Dims& index) {
        Dims own;
        const int rank = tensor.desc.rank();
        for (int d = 0; d < rank; ++d) own.push_back(tensor.desc.shape[d] == 1 ? 0 : index[index.size() - rank + d]);
        return tensor.values[at(tensor.desc.shape, own)];
      };
      for_each(shape, [&](const Dims& index, size_t i) { values[i] = combine(name, pick(x, index), pick(y, index)); });
      // oneDNN broadcasts its second argument, and takes NaN for greater.
      const bool swaps = shape != pair.first;
      const std::string f = name;
      const bool refused = swaps ? f == "sub" || f == "div" || f == "lt" || f == "le" : f == "gt" || f == "ge";
      check(name, "", {x, y}, values, refused ? 0 : 1);
    }
  }
  const Argument x = random_argument(DType::f32, {1, 16, 4, 4}, 1), y = random_argument(DType::f32, {1, 16, 4, 4}, 2);
  Values sum = x.values;
  for (size_t i = 0; i < sum.size(); ++i) sum[i] = std::max(0.0, sum[i] + y.values[i]);
  check("add", "activation=relu", {x, y}, sum, 3);
}

TEST("prelu") {
  for (const Dims& shape : {Dims{2, 13, 3, 5}, Dims{1, 32, 4, 4}, Dims{2, 9, 5}, Dims{3, 6}})
    for (const int64_t slopes : {int64_t(1), shape[1]}) {
      const Argument x = random_argument(DType::f32, shape, 1), w = random_argument(DType::f32, {slopes}, 2);
      Values y = x.values;
      for_each(shape, [&](const Dims& p, size_t i) {
        if (y[i] <= 0) y[i] *= w.values[slopes == 1 ? 0 : size_t(p[1])];
      });
      check("prelu", "", {x, w}, y);
    }
}

// NaN goes through, infinities and overflow are right; what cannot promise that is refused.
TEST("special_values") {
  const double nan = NAN, inf = HUGE_VAL;
  const auto repeated = [](const Values& values) {
    Values all;
    // Whole vectors and a tail, in two dimensions, as of one oneDNN has plain loops alone.
    while (all.size() < 70 || all.size() % 2) all.insert(all.end(), values.begin(), values.end());
    return Argument{TensorDesc::dense(DType::f32, {2, int64_t(all.size()) / 2}), all};
  };
  struct Case {
    const char* name;
    Values x, y;
  };
  for (const Case& c : std::vector<Case>{{"leaky_relu", {nan, inf, -inf, -1}, {nan, inf, -inf, -0.01}},
                                         {"log", {nan, inf, 0, -1}, {nan, inf, -inf, nan}},
                                         {"sqrt", {nan, inf, 0, -1}, {nan, inf, 0, nan}},
                                         {"reciprocal", {nan, inf, 0, -inf}, {nan, 0, inf, 0}},
                                         {"sigmoid", {nan, inf, -inf, 100, -100}, {nan, 1, 0, 1, 0}},
                                         {"tanh", {nan, inf, -inf, 100, -100}, {nan, 1, -1, 1, -1}},
                                         {"silu", {nan, inf, 100, -100}, {nan, inf, 100, 0}},
                                         {"gelu", {nan, 100, -100}, {nan, 100, 0}},
                                         {"hardswish", {nan, inf, -100}, {nan, inf, 0}},
                                         {"round", {nan, inf, -inf, 2.5, 1e9}, {nan, inf, -inf, 2, 1e9}},
                                         {"square", {nan, inf, 1e30}, {nan, inf, inf}},
                                         {"abs", {nan, inf, -inf}, {nan, inf, inf}},
                                         {"neg", {nan, inf, -inf}, {nan, -inf, inf}}})
    check(c.name, "", {repeated(c.x)}, repeated(c.y).values);
  for (const char* name : {"relu", "relu6", "clip", "exp", "hardsigmoid", "amax", "amin"})
    check(name, "", {repeated({nan})}, {}, 0);
  const Argument x = repeated({nan, 1, 1, inf, 3}), y = repeated({nan, nan, 2, inf, 2});
  for (const char* name : {"maximum", "minimum", "gt", "ge"}) check(name, "", {x, y}, {}, 0);
  check("eq", "", {x, y}, repeated({0, 0, 0, 1, 0}).values);
  check("ne", "", {x, y}, repeated({1, 1, 1, 0, 1}).values);
  check("lt", "", {x, y}, repeated({0, 0, 1, 0, 0}).values);
  check("le", "", {x, y}, repeated({0, 0, 1, 1, 0}).values);
  check("div", "", {repeated({1, 0, -1, nan}), repeated({0, 0, 0, 1})}, repeated({inf, nan, -inf, nan}).values);
  const Argument large{TensorDesc::dense(DType::f32, {2, 16}), Values(32, 1000.0)};
  check("softmax", "dim=1", {large}, Values(32, 1.0 / 16));
  check("log_softmax", "dim=1", {large}, Values(32, -std::log(16.0)));
  for (const double special : {nan, inf}) {
    Argument row = large;
    Values y(32, 1.0 / 16);
    row.values[3] = special;
    std::fill_n(y.begin(), 16, nan);
    check("softmax", "dim=1", {row}, y);
  }
}

// Four threads, one kernel, different buffers.
TEST("threads") {
  const TensorDesc desc = TensorDesc::dense(DType::f32, {1, 16, 8, 8});
  CandidateList list;
  provider->list(make_op(*find_schema("abs"), {}, {desc}), *device, list);
  REQUIRE(!list.candidates.empty());
  const auto kernel = list.candidates[0].prepare();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const Argument x = random_argument(DType::f32, desc.shape, unsigned(t));
      for (int repeat = 0; repeat < 200; ++repeat) {
        const BufferRef in = place(*device, desc, &x.values), out = place(*device, desc, nullptr);
        Buffer *inputs[] = {in.get()}, *outputs[] = {out.get()};
        kernel->run({inputs, outputs, nullptr});
        for (size_t i = 0; i < x.values.size(); ++i)
          CHECK(static_cast<float*>(out->host())[i] == std::fabs(x.values[i]));
      }
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

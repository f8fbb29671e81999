// oneDNN's pools and reductions: every candidate against loops in double precision.
#include "onednn_testing.h"

using namespace pltest;

namespace {

SETUP() { find_onednn(); }

TEST("pool") {
  struct Case {
    int spatial;
    const char* mode;
    Dims x;
    std::vector<int64_t> kernel, stride, padding, dilation;
    bool ceil, count;
  };
  using V = std::vector<int64_t>;
  for (const Case& c :
       std::vector<Case>{{2, "max", {1, 13, 9, 9}, V{3, 3}, V{2, 2}, V{1, 1}, V{1, 1}, false, false},
                         {2, "max", {1, 17, 8, 8}, V{3, 3}, V{2, 2}, V{0, 0}, V{1, 1}, true, false},
                         {2, "max", {1, 16, 9, 10}, V{2, 3}, V{1, 2}, V{0, 1}, V{2, 1}, false, false},
                         {2, "avg", {2, 16, 9, 9}, V{3, 3}, V{2, 2}, V{1, 1}, V{1, 1}, false, true},
                         {2, "avg", {2, 3, 9, 9}, V{3, 3}, V{2, 2}, V{1, 1}, V{1, 1}, false, false},
                         {2, "avg", {2, 16, 8, 8}, V{3, 3}, V{2, 2}, V{1, 1}, V{1, 1}, true, false},
                         {2, "avg", {2, 24, 8, 8}, V{3, 3}, V{4, 4}, V{0, 0}, V{1, 1}, false, true},
                         {1, "max", {2, 13, 20}, V{3}, V{3}, V{1}, V{2}, false, false},
                         {1, "avg", {2, 16, 20}, V{4}, V{4}, V{0}, V{1}, false, true},
                         {3, "max", {1, 9, 5, 6, 7}, V{2, 2, 2}, V{2, 2, 2}, V{0, 0, 0}, V{1, 1, 1}, false, false},
                         {3, "avg", {1, 16, 5, 6, 7}, V{3, 2, 2}, V{1, 2, 2}, V{1, 0, 1}, V{1, 1, 1}, false, true}}) {
    const bool average = std::string(c.mode) == "avg";
    std::string text = "kernel_size=" + list_text(c.kernel) + " stride=" + list_text(c.stride) +
                       " padding=" + list_text(c.padding) + " ceil_mode=" + (c.ceil ? "true" : "false");
    text += average ? std::string(" count_include_pad=") + (c.count ? "true" : "false")
                    : " dilation=" + list_text(c.dilation);
    const std::string name = std::string(c.mode) + "_pool" + std::to_string(c.spatial) + "d";
    const Argument x = random_argument(DType::f32, c.x, 5);
    const Dims shape = make_op(*find_schema(name), Attributes::parse(text), {x.desc}).out().shape;
    Values y(size_t(shape.product()));
    for_each(shape, [&](const Dims& p, size_t i) {
      double sum = 0, best = -HUGE_VAL;
      int64_t count = 0, all = 1;
      for (int64_t k : c.kernel) all *= k;
      for_each(Dims(c.kernel), [&](const Dims& k, size_t) {
        Dims q{p[0], p[1]};
        for (int d = 0; d < c.spatial; ++d) {
          const size_t s = size_t(d);
          q.push_back(p[2 + d] * c.stride[s] - c.padding[s] + k[d] * c.dilation[s]);
          if (q[2 + d] < 0 || q[2 + d] >= c.x[2 + d]) return;
        }
        ++count;
        sum += x.values[at(c.x, q)];
        best = std::max(best, x.values[at(c.x, q)]);
      });
      y[i] = average ? sum / double(c.count ? all : count) : best;
    });
    check(name, text, {x}, y);
  }
  const Argument x = random_argument(DType::f32, {2, 17, 6, 4}, 5);
  for (const char* name : {"global_avg_pool", "global_max_pool"}) {
    Values y(34, 0.0);
    for (size_t i = 0; i < 34; ++i) {
      const auto begin = x.values.begin() + ptrdiff_t(i * 24);
      double sum = 0;
      for (int k = 0; k < 24; ++k) sum += begin[k];
      y[i] = name[7] == 'a' ? sum / 24 : *std::max_element(begin, begin + 24);
    }
    check(name, "", {x}, y);
  }
  check("adaptive_avg_pool2d", "output_size=[4,4]", {x}, {}, 0);
}

TEST("reduce") {
  for (const char* name : {"sum", "mean", "prod", "reduce_l1", "reduce_l2", "reduce_sum_square"})
    for (const std::vector<int64_t>& dims : std::vector<std::vector<int64_t>>{{2, 3}, {1}, {3}, {0, 1, 2, 3}, {0, 2}})
      for (const bool keepdim : {false, true})
        for (const Dims& shape : {Dims{2, 13, 3, 5}, Dims{1, 32, 2, 4}}) {
          const std::string f = name;
          // Kept near 1 for the product's sake.
          const Argument x =
              f == "prod" ? random_argument(DType::f32, shape, 1, 0.9, 1.1) : random_argument(DType::f32, shape, 1);
          Dims kept = shape;
          for (int64_t dim : dims) kept[int(dim)] = 1;
          const double count = double(shape.product() / kept.product());
          Values y(size_t(kept.product()), f == "prod" ? 1 : 0);
          for_each(shape, [&](const Dims& p, size_t i) {
            Dims q = p;
            for (int64_t dim : dims) q[int(dim)] = 0;
            double& value = y[at(kept, q)];
            const double v = x.values[i];
            if (f == "sum") value += v;
            if (f == "mean") value += v / count;
            if (f == "prod") value *= v;
            if (f == "reduce_l1") value += std::fabs(v);
            if (f == "reduce_l2" || f == "reduce_sum_square") value += v * v;
          });
          if (f == "reduce_l2")
            for (double& value : y) value = std::sqrt(value);
          check(name, "dim=" + list_text(dims) + " keepdim=" + (keepdim ? "true" : "false"), {x}, y);
        }
}

}  // namespace

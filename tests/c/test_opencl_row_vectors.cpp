// Kernels that work by vectors on CPUs.  Of rows (kernels/common/row_vectors.clh): every width, number of columns and
// steps that they can have, whole runs and such with a rest, rows side by side and in pieces; reorders by tiles of each
// size and by runs.  The same ops by work-groups, as on GPUs (kernels/common/row_groups.clh): rows whole and in parts.
// Against double precision.
#include <algorithm>
#include <map>
#include <set>

#include "opencl_testing.h"
#include "providers/opencl/runtime/opencl_device.h"

using namespace pl;
using namespace pl::opencl_testing;

namespace {

const double kNan = std::nan(""), kInf = INFINITY;

// Rows as lists of the places, in logical order, of their elements.
using Rows = std::vector<std::vector<size_t>>;

Rows rows_along(const Dims& shape, const std::vector<int>& dims) {
  std::map<int64_t, std::vector<size_t>> rows;  // by the index with `dims` set to 0, in logical order
  each(shape, [&](Dims index) {
    const auto place = size_t(linear(shape, index));
    for (int dim : dims) index[dim] = 0;
    rows[linear(shape, index)].push_back(place);
  });
  Rows out;
  for (auto& row : rows) out.push_back(std::move(row.second));
  return out;
}

bool by_work_groups(const std::string& name) {
  return name.find("_groups") != std::string::npos || name.find("cumsum_parts") != std::string::npos;
}

std::set<std::string> ran;     // "softmax_vectors", ... on some CPU device
std::set<std::string> groups;  // "softmax_groups", "softmax_groups[PARTS]", ... on any

// Compares all candidates, and those by vectors at least in `layouts` layouts where there is a CPU device.
void run(const char* name, const char* attributes, const std::vector<Input>& inputs, const Values& expected,
         double factor, double absolute, int layouts = 1) {
  bool cpu = false;
  for (const Target& target : targets()) {
    opencl::OpenclDevice* device = opencl::as_opencl(*target.device);
    cpu |= device && device->capabilities().cpu;
  }
  std::set<std::string> seen;
  const auto check = expect(expected, factor, absolute);
  run_all_opencl(
      name, attributes, inputs,
      [&](const Op& op, const std::vector<Values>& y, const std::string& what) {
        check(op, y, what);
        const size_t by = what.find(" by opencl/");
        const std::string key = what.substr(by + 4, what.find(" on ", by) - by - 4);
        if (key.find("_vectors") != std::string::npos) seen.insert(key);
        if (by_work_groups(key)) groups.insert(key.substr(7, key.find('/', 7) - 7));
      },
      true, [](const Candidate& candidate) {  // the others have tests of their own
        const std::string& by = candidate.implementation;
        return by.find("_vectors") != std::string::npos || by_work_groups(by);
      });
  for (const std::string& key : seen) ran.insert(key.substr(7, key.find("_vectors") + 1));
  if (cpu && int(seen.size()) < layouts) {
    std::fprintf(stderr, "%s %s of %s: by vectors in %zu layouts, expected %d\n", name, attributes,
                 inputs[0].desc.str().c_str(), seen.size(), layouts);
    end_test();
  }
}

void check_softmax(const Input& x, int dim, int layouts) {
  for (const char* name : {"softmax", "log_softmax"}) {
    const bool log = name[0] == 'l';
    // The last step alone is another one: with every third input.
    static size_t turn = 0;
    if (log && (x.desc.dtype != DType::f32 || turn++ % 3)) continue;
    Values y(x.values.size());
    for (const auto& row : rows_along(x.desc.shape, {dim})) {
      double most = -kInf, sum = 0;
      for (size_t e : row) most = std::isnan(x.values[e]) || x.values[e] > most ? x.values[e] : most;
      for (size_t e : row) sum += std::exp(x.values[e] - most);
      for (size_t e : row) y[e] = log ? x.values[e] - most - std::log(sum) : std::exp(x.values[e] - most) / sum;
    }
    run(name, ("dim=" + std::to_string(dim)).c_str(), {x}, y, 8, log ? 2e-6 : 1e-7, layouts);
  }
}

void test_softmax() {
  // Along the run: each vector width, one to four columns, each with a rest and without.
  for (int64_t size : {4, 5, 8, 13, 16, 23, 32, 50, 64, 197}) check_softmax(random_input(DType::f32, {3, size}), 1, 1);
  // Across, and in pieces of blocks.
  for (int64_t inner : {4, 7, 8, 16, 33, 64, 150})
    check_softmax(random_input(DType::f32, {2, 32, inner}), 1, inner % 8 || inner == 8 ? 4 : 4);
  check_softmax(random_input(DType::f32, {2, 9, 5, 16}), 2, 2);
  Input far = random_input(DType::f32, {6, 70}, -80, 90);
  far.values[3] = -kInf, far.values[100] = kNan, far.values[150] = kInf;
  for (int e = 210; e < 280; ++e) far.values[size_t(e)] = -kInf;
  check_softmax(far, 1, 1);
  check_softmax(far, 0, 1);
  check_softmax(random_input(DType::f16, {3, 16, 21}), 1, 3);
  check_softmax(random_input(DType::bf16, {2, 37}), 1, 1);
  check_softmax(random_input(DType::f32, {1, 9001}, 0, 1), 1, 1);  // sums in parts
  // Work-groups: lanes from 8 to 512, rows that fill their last work-group or not, with a rest and without.
  for (int64_t size : {32, 96, 256, 1024, 1028, 4096, 20000}) check_softmax(random_input(DType::f32, {5, size}), 1, 1);
  check_softmax(random_input(DType::f16, {7, 1024}), 1, 1);
  check_softmax(random_input(DType::bf16, {2, 9016}), 1, 1);
  check_softmax(random_input(DType::f32, {2, 256, 64}), 1, 4);
  check_softmax(random_input(DType::f16, {1, 256, 136}), 1, 4);
  check_softmax(random_input(DType::f32, {1, 5000, 8}), 1, 1);  // parts of steps, across
  check_softmax(random_input(DType::f16, {1, 9600, 2}), 1, 1);  // and along runs of a block
  far = random_input(DType::f32, {3, 9001}, -80, 90);
  for (int e = 0; e < 4600; ++e) far.values[size_t(e)] = -kInf;  // a part of nothing else
  far.values[9001 + 17] = kNan, far.values[2 * 9001 + 8000] = kInf;
  check_softmax(far, 1, 1);
}

Values normalised(const Input& x, const Rows& rows, double eps) {
  Values y(x.values.size());
  for (const auto& row : rows) {
    double mean = 0, var = 0;
    for (size_t e : row) mean += x.values[e] / double(row.size());
    for (size_t e : row) var += (x.values[e] - mean) * (x.values[e] - mean) / double(row.size());
    for (size_t e : row) y[e] = (x.values[e] - mean) / std::sqrt(var + eps);
  }
  return y;
}

void test_layer_norm() {
  const auto check = [](const Input& x, int kept, bool affine, int layouts) {
    Dims normal;
    std::vector<int> dims;
    for (int d = kept; d < x.desc.rank(); ++d) normal.push_back(x.desc.shape[d]), dims.push_back(d);
    std::vector<Input> inputs{x};
    Values y = normalised(x, rows_along(x.desc.shape, dims), 1e-5);
    if (affine) {
      inputs.push_back(random_input(x.desc.dtype, normal));
      inputs.push_back(random_input(x.desc.dtype, normal));
      const auto size = size_t(normal.product());
      for (size_t e = 0; e < y.size(); ++e) y[e] = y[e] * inputs[1].values[e % size] + inputs[2].values[e % size];
    }
    std::string shape = "normalized_shape=[";
    for (int d = 0; d < normal.size(); ++d) shape += (d ? "," : "") + std::to_string(normal[d]);
    run("layer_norm", (shape + "]").c_str(), inputs, y, 8, 2e-5, layouts);
  };
  for (int64_t size : {4, 11, 16, 40, 77, 300}) check(random_input(DType::f32, {5, size}, 5, 6), 1, size % 2, 1);
  check(random_input(DType::f32, {2, 16, 33}), 2, true, 2);     // rows side by side in NWC, a weight for each step
  check(random_input(DType::f32, {2, 5, 3, 7}), 2, true, 1);    // two dimensions
  check(random_input(DType::f32, {2, 16, 3, 5}), 1, true, 1);   // only where they lie in their order
  check(random_input(DType::f32, {2, 16, 3, 5}), 1, false, 4);  // in any order
  check(random_input(DType::bf16, {4, 40}), 1, true, 1);
  check(random_input(DType::f16, {4, 40}), 1, true, 1);
  check(random_input(DType::f32, {1, 10000}, 5, 6), 1, true, 1);  // sums in parts
  check(random_input(DType::f16, {9, 1024}), 1, true, 1);
  check(random_input(DType::f32, {1, 5000, 2, 8}), 1, false, 3);
}

void test_group_norm() {
  const auto check = [](const char* name, const Input& x, int64_t groups, bool affine, int layouts,
                        double absolute = 8e-6) {
    const int64_t channels = x.desc.shape[1];
    Rows rows(size_t(x.desc.shape[0] * groups));
    Values channel;
    each(x.desc.shape, [&](const Dims& i) {
      rows[size_t(i[0] * groups + i[1] * groups / channels)].push_back(size_t(linear(x.desc.shape, i)));
      channel.push_back(double(i[1]));
    });
    Values y = normalised(x, rows, 1e-5);
    std::vector<Input> inputs{x};
    if (affine) {
      inputs.push_back(random_input(x.desc.dtype, {channels}));
      inputs.push_back(random_input(x.desc.dtype, {channels}));
      for (size_t e = 0; e < y.size(); ++e)
        y[e] = y[e] * inputs[1].values[size_t(channel[e])] + inputs[2].values[size_t(channel[e])];
    }
    const std::string attributes = name[0] == 'g' ? "num_groups=" + std::to_string(groups) : "";
    run(name, attributes.c_str(), inputs, y, 8, absolute, layouts);
  };
  for (int64_t groups : {1, 2, 4, 8}) check("group_norm", random_input(DType::f32, {2, 32, 5, 5}), groups, true, 4);
  check("group_norm", random_input(DType::f32, {2, 48, 3, 7}), 4, true, 2);  // 12 channels: no blocks of 8 or 16
  check("group_norm", random_input(DType::f32, {3, 20}), 2, true, 1);
  check("group_norm", random_input(DType::bf16, {2, 64, 9}), 4, false, 4);
  check("group_norm", random_input(DType::f32, {2, 32, 60, 32}), 4, true, 4);  // parts of each kind
  check("group_norm", random_input(DType::f16, {1, 32, 100, 20}), 2, true, 4);
  check("group_norm", random_input(DType::bf16, {1, 32, 3000}), 4, true, 4);  // whole rows, few of them side by side
  // Channels that lie last: rows that all of a multiprocessor holds, with few work-groups and with many; groups of 1,
  // 3 and 5 channels; a mean that is far from 0, and one number that is far from the others.
  check("group_norm", random_input(DType::f32, {1, 16, 41, 27}), 2, true, 4);
  check("group_norm", random_input(DType::f32, {4, 32, 1107}), 4, false, 4);
  check("group_norm", random_input(DType::f16, {4, 32, 2111}), 4, true, 4);
  check("group_norm", random_input(DType::bf16, {1, 40, 2111}), 5, true, 3);
  check("group_norm", random_input(DType::f32, {1, 16, 2111}), 16, true, 4);
  check("group_norm", random_input(DType::f32, {1, 12, 1300}), 4, true, 1);
  check("group_norm", random_input(DType::f16, {1, 15, 1107}), 3, true, 1);
  check("group_norm", random_input(DType::f32, {2, 16, 1107}, 100, 101), 2, true, 4, 2e-4);
  Input far = random_input(DType::f32, {1, 16, 1107});
  far.values[0] = far.values.back() = 1e4;
  check("group_norm", far, 2, false, 4);
  check("instance_norm", random_input(DType::f32, {2, 16, 3, 7}), 16, true, 4);
  check("instance_norm", random_input(DType::f16, {2, 48, 21}), 48, true, 4);
}

void test_reduce() {
  struct Case {
    const char* name;
    std::function<double(const Values&)> of;
  };
  const auto sum_of = [](const Values& v, const std::function<double(double)>& f) {
    double sum = 0;
    for (double x : v) sum += f(x);
    return sum;
  };
  const auto best_of = [](const Values& v, double sign) {
    double best = -kInf;
    for (double x : v) best = std::isnan(best) || !(std::isnan(x) || sign * x > best) ? best : sign * x;
    return sign * best;
  };
  const Case cases[] = {
      {"sum", [&](const Values& v) { return sum_of(v, [](double x) { return x; }); }},
      {"mean", [&](const Values& v) { return sum_of(v, [](double x) { return x; }) / double(v.size()); }},
      {"amax", [&](const Values& v) { return best_of(v, 1); }},
      {"amin", [&](const Values& v) { return best_of(v, -1); }},
      {"reduce_l1", [&](const Values& v) { return sum_of(v, [](double x) { return std::fabs(x); }); }},
      {"reduce_l2", [&](const Values& v) { return std::sqrt(sum_of(v, [](double x) { return x * x; })); }},
      {"reduce_sum_square", [&](const Values& v) { return sum_of(v, [](double x) { return x * x; }); }},
  };
  const auto check = [&](const Case& c, const Input& x, const std::vector<int>& dims, bool keepdim, int layouts) {
    Values y;
    for (const auto& row : rows_along(x.desc.shape, dims)) {
      Values values;
      for (size_t e : row) values.push_back(x.values[e]);
      y.push_back(c.of(values));
    }
    std::string attributes = "dim=[";
    for (size_t i = 0; i < dims.size(); ++i) attributes += (i ? "," : "") + std::to_string(dims[i]);
    const std::string kept = c.name[0] == 'r' && keepdim ? "] keepdim=true" : keepdim ? "] keepdim=true" : "]";
    run(c.name, (attributes + kept).c_str(), {x}, y, 8, 4e-5, layouts);
  };
  for (int64_t size : {4, 6, 9, 16, 31, 48, 64, 131})
    check(cases[0], random_input(DType::f32, {3, size}), {1}, false, 1);
  for (int64_t inner : {4, 9, 16, 40, 70, 130}) check(cases[1], random_input(DType::f32, {2, 7, inner}), {1}, false, 1);
  for (const Case& c : cases) {
    Input x = random_input(DType::f32, {2, 32, 5, 7});
    check(c, x, {2, 3}, true, 4);
    check(c, x, {1}, false, 4);
    check(c, x, {1, 3}, false, 0);  // rows in more parts than the walk knows
    if (std::string(c.name).rfind("am", 0) == 0) {
      x.values[40] = kNan, x.values[77] = kInf, x.values[500] = -kInf, x.values.back() = kNan;
      check(c, x, {2, 3}, false, 4);
      check(c, x, {3}, true, 3);
    }
  }
  check(cases[1], random_input(DType::bf16, {2, 32, 5, 7}), {2, 3}, true, 4);
  check(cases[0], random_input(DType::f16, {2, 16, 20}, 0, 1), {2}, false, 3);
  check(cases[0], random_input(DType::f32, {2, 30001}, 0, 1), {1}, false, 1);  // sums in parts
  check(cases[0], random_input(DType::f32, {300, 3, 16}, 0, 1), {0}, false, 1);
  check(cases[1], random_input(DType::f32, {1, 9000, 8}, 0, 1), {1}, false, 1);
  check(cases[2], random_input(DType::bf16, {3, 20000}), {1}, false, 1);
  check(cases[5], random_input(DType::f16, {1, 9600, 2}), {1}, false, 1);
  for (const char* name : {"global_avg_pool", "global_max_pool"}) {
    Input x = random_input(DType::f32, {2, 16, 7, 7});
    if (name[7] == 'm') x.values[60] = kNan;
    Values y;
    for (const auto& row : rows_along(x.desc.shape, {2, 3})) {
      Values values;
      for (size_t e : row) values.push_back(x.values[e]);
      y.push_back(cases[name[7] == 'm' ? 2 : 1].of(values));
    }
    run(name, "", {x}, y, 4, 1e-6, 4);
  }
}

void test_arg_reduce() {
  const auto check = [](const char* name, const Input& x, int dim, bool keepdim, int layouts) {
    const double sign = name[4] == 'i' ? -1 : 1;
    std::vector<int> dims{dim};
    if (dim < 0) {
      dims.clear();
      for (int d = 0; d < x.desc.rank(); ++d) dims.push_back(d);
    }
    Values y;
    for (const auto& row : rows_along(x.desc.shape, dims)) {
      size_t best = 0;
      for (size_t e = 1; e < row.size(); ++e) {
        const double a = sign * x.values[row[e]], b = sign * x.values[row[best]];
        if (!std::isnan(b) && (std::isnan(a) || a > b)) best = e;
      }
      y.push_back(double(best));
    }
    const std::string attributes = (dim < 0 ? std::string() : "dim=" + std::to_string(dim)) +
                                   (keepdim ? std::string(" keepdim=true") : std::string());
    run(name, attributes.c_str(), {x}, y, 0, 0, layouts);
  };
  for (const char* name : {"argmax", "argmin"}) {
    for (int64_t size : {4, 7, 16, 29, 64, 200}) {
      if (name[4] == 'i' && size % 2 == 0 && size != 200) continue;  // the comparison alone is another one
      Input x = random_input(DType::f32, {4, size});
      for (double& value : x.values) value = std::floor(value);  // many ties
      for (int64_t e = 0; e < size; ++e) x.values[size_t(size + e)] = name[4] == 'i' ? kInf : -kInf;
      x.values[size_t(2 * size + size / 2)] = x.values[size_t(3 * size - 1)] = kNan;
      x.values[size_t(3 * size + size - 1)] = name[4] == 'i' ? -kInf : kInf;
      check(name, x, 1, false, 1);
      if (size >= 16) check(name, x, 0, true, 1);
    }
    Input x = random_input(DType::f32, {2, 16, 5, 9});
    for (double& value : x.values) value = std::floor(value);
    x.values[5] = x.values[50] = kNan;
    check(name, x, 1, true, 4);
    check(name, x, 3, true, 3);
    check(name, x, 3, false, 1);
    check(name, x, -1, false, 1);
    check(name, random_input(DType::bf16, {3, 80}), 1, false, 1);
    Input far = random_input(DType::f16, {3, 20000});  // in parts, with ties, a NaN in one row
    for (double& value : far.values) value = std::floor(value);
    far.values[25000] = far.values[39999] = kNan;
    check(name, far, 1, false, 1);
    check(name, random_input(DType::f32, {1, 9000, 8}), 1, false, 1);
    for (DType dtype : {DType::f32, DType::f16}) {  // many work-items a row, of which each has several
      Input beside = random_input(dtype, {1, 400, 88});
      for (double& value : beside.values) value = std::floor(value * 4);
      beside.values[88 * 33 + 5] = beside.values[88 * 200 + 5] = beside.values[88 * 399 + 14] = kNan;
      check(name, beside, 1, false, 1);
    }
  }
}

void test_cumsum() {
  const auto check = [](const Input& x, int dim, double factor) {
    Values y(x.values.size());
    for (const auto& row : rows_along(x.desc.shape, {dim})) {
      double sum = 0;
      for (size_t e : row) y[e] = sum += x.values[e];
    }
    run("cumsum", ("dim=" + std::to_string(dim)).c_str(), {x}, y, factor, 4e-5, 0);
  };
  for (int64_t size : {1, 5, 32, 100, 256, 1024, 1030, 9000})
    check(random_input(DType::f32, {3, size}, 0, 1), 1, size > 2000 ? 200 : 60);
  for (int64_t inner : {3, 8, 64}) check(random_input(DType::f32, {2, 70, inner}, 0, 1), 1, 60);
  check(random_input(DType::f32, {2, 96, 37}, 0, 1), 1, 60);  // in pieces of blocks
  check(random_input(DType::f16, {1, 256, 160}, 0, 1), 1, 8);
  Input x = random_input(DType::f16, {5, 264}, 0, 1);
  x.values[700] = INFINITY, x.values[1000] = kNan;  // nothing before them knows of it
  check(x, 1, 8);
  check(random_input(DType::bf16, {2, 300, 8}, 0, 1), 1, 8);
  // Rows in parts of several tiles, integers that wrap around, and what is joined otherwise.
  check(random_input(DType::f32, {1, 70000}, 0, 1), 1, 2000);
  check(random_input(DType::s64, {2, 9000}, -100, 100), 1, 0);
  check(random_input(DType::s32, {3, 33, 5}, -100, 100), 1, 0);
  Input logs = random_input(DType::f32, {2, 5000});
  Values y(logs.values.size());
  for (const auto& row : rows_along(logs.desc.shape, {1})) {
    double sum = 0;
    for (size_t e : row) y[e] = std::log(sum += std::exp(logs.values[e]));
  }
  run("logcumsumexp", "dim=1", {logs}, y, 200, 1e-3, 0);
}

void test_reorder() {
  const auto check = [](const Input& x, const char* to, int least) {
    int count = 0;
    run_all_opencl("reorder", ("target=" + std::string(to)).c_str(), {x},
                   [&](const Op&, const std::vector<Values>& y, const std::string& what) {
                     compare(y[0], x.values, 0, 0, what);
                     count += what.find("reorder_transposed") != what.npos || what.find("reorder_runs") != what.npos;
                   });
    if (!ran.empty() && count < least) {  // there is a CPU device
      std::fprintf(stderr, "reorder of %s to %s: by vectors in %d ways\n", x.desc.str().c_str(), to, count);
      end_test();
    }
  };
  const auto in = [](Input x, const char* layout) {
    x.desc = x.desc.with_layout(Layout::parse(layout));
    return x;
  };
  for (DType dtype : {DType::f32, DType::bf16, DType::u8, DType::s64})  // tiles of 4, 8 and 16, whole and not
    for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{5, 4}, {8, 30}, {16, 80}, {33, 150}})
      check(random_input(dtype, {2, rows, columns}), "acb", dtype == DType::s64 ? 0 : rows < 16 ? 1 : 2);
  for (const char* to : {"NHWC", "nChw16c", "nChw8c"}) check(random_input(DType::f32, {2, 32, 5, 7}), to, 1);
  for (const char* to : {"NCHW", "nChw16c", "nChw8c"})
    check(in(random_input(DType::f32, {2, 32, 9, 5}), "NHWC"), to, 1);
  for (const char* to : {"NCHW", "NHWC"}) check(in(random_input(DType::f32, {2, 48, 9, 5}), "nChw16c"), to, 1);
  check(in(random_input(DType::f32, {2, 48, 9, 5}), "nChw16c"), "nChw8c", 0);
  for (int64_t run : {4, 7, 13, 31, 44}) check(random_input(DType::f16, {3, 5, 37, run}), "acbd", 1);
  check(random_input(DType::s64, {3, 70, 9}), "bac", 1);
}

// A case is worth something only where these were among its candidates.
void expect_groups(std::initializer_list<const char*> names) {
  for (const auto* each : {&ran, &groups})
    for (const std::string& name : *each) std::printf("ran %s\n", name.c_str());
  for (const char* name : names)
    if (!groups.count(name)) {
      std::fprintf(stderr, "%s did not run\n", name);
      check_count_failure();
    }
}

SETUP() {
  if (targets().empty()) SKIP("no OpenCL device here");
  for (const Target& target : targets())
    if (opencl::OpenclDevice* device = opencl::as_opencl(*target.device)) testing::unoptimised_on_cpus(*device);
  ran.clear();
  groups.clear();
}

TEST("softmax") {
  test_softmax();
  expect_groups({"softmax_groups", "softmax_groups[PARTS]", "softmax_groups[FEW]", "softmax_groups[MANY]"});
}
TEST("norms") {
  test_layer_norm();
  test_group_norm();
  expect_groups({"normalise_groups", "normalise_groups[PARTS]", "normalise_groups[FEW]", "normalise_groups[MANY]",
                 "normalise_groups[NARROW]", "normalise_groups[ALONE]"});
}
TEST("reduce") {
  test_reduce();
  expect_groups({"reduce_groups", "reduce_groups[PARTS]"});
}
TEST("arg_reduce") {
  test_arg_reduce();
  expect_groups({"arg_reduce_groups", "arg_reduce_groups[PARTS]"});
}
TEST("cumsum") {
  test_cumsum();
  expect_groups({"cumsum_groups", "cumsum_parts"});
}
TEST("reorder") { test_reorder(); }

}  // namespace

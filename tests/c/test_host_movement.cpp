// The host provider's kinds that move elements: concat, pad, where, gather, gather_elements, resize, in every layout
// and dtype.
#include <cmath>

#include "host_testing.h"

using namespace pl;
using namespace pl::host_testing;

namespace {

const DType kDtypes[] = {DType::f32, DType::f16, DType::bf16, DType::s8,
                         DType::u8,  DType::s32, DType::s64,  DType::boolean};
const DType kFloats[] = {DType::f32, DType::f16, DType::bf16};

double at(const Input& input, const Dims& index) { return input.values[size_t(linear(input.desc.shape, index))]; }
std::string list(const std::vector<int64_t>& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) text += (i ? "," : "") + std::to_string(values[i]);
  return text + "]";
}

TEST("concat") {
  struct Case {
    std::vector<Dims> shapes;
    int dim;
  };
  const Case cases[] = {{{{2, 16, 3, 4}, {2, 32, 3, 4}}, 1},
                        {{{2, 3, 3, 4}, {2, 20, 3, 4}, {2, 9, 3, 4}}, 1},
                        {{{2, 17, 3, 4}, {1, 17, 3, 4}}, 0},
                        {{{1, 24, 3, 4}, {1, 24, 3, 9}}, 3},
                        {{{5}, {1}, {3}}, 0},
                        {{{2, 0, 3}, {2, 5, 3}}, 1},
                        {{{2, 5, 3, 2, 2}, {2, 12, 3, 2, 2}}, 1}};
  for (const Case& c : cases)
    for (DType dtype : kDtypes) {
      std::vector<Input> inputs;
      for (const Dims& shape : c.shapes) inputs.push_back(random_input(dtype, shape));
      run_all("concat", ("dim=" + std::to_string(c.dim)).c_str(), inputs,
              [&](const Op& op, const std::vector<Values>& out, const std::string& what) {
                Values expected;
                each(op.out().shape, [&](const Dims& index) {
                  Dims own = index;
                  size_t k = 0;
                  while (own[c.dim] >= c.shapes[k][c.dim]) own[c.dim] -= c.shapes[k++][c.dim];
                  expected.push_back(at(inputs[k], own));
                });
                compare(out[0], expected, 0, 0, what);
              });
    }
}

TEST("pad") {
  struct Case {
    Dims shape;
    std::vector<int64_t> pad;
  };
  const Case cases[] = {{{2, 17, 4, 5}, {1, 2, 3, 0}},
                        {{2, 17, 4, 5}, {0, 1, 2, 2, 3, 4, 1, 0}},
                        {{2, 17, 4, 5}, {-1, 2, 3, -2}},
                        {{1, 3, 6}, {2, 2}},
                        {{7}, {3, 3}},
                        {{2, 24, 5, 4}, {3, -3, -1, -1, 2, 0}},
                        {{1, 18, 3, 3, 2}, {1, 1, 2, 1, 0, 2}}};
  for (const Case& c : cases)
    for (const char* mode : {"constant", "reflect", "replicate"})
      for (DType dtype : kDtypes) {
        const Input x = random_input(dtype, c.shape);
        const bool constant = std::string(mode) == "constant";
        const std::string attributes = "pad=" + list(c.pad) + " mode=" + mode + (constant ? " value=1" : "");
        run_all("pad", attributes.c_str(), {x},
                [&](const Op& op, const std::vector<Values>& out, const std::string& what) {
                  const auto& begins = op.attributes[attr::begins];
                  Values expected;
                  each(op.out().shape, [&](const Dims& index) {
                    Dims source = index;
                    bool inside = true;
                    for (int d = 0; d < index.size(); ++d) {
                      const int64_t n = c.shape[d];
                      source[d] = index[d] - begins[size_t(d)];
                      inside &= source[d] >= 0 && source[d] < n;
                      if (std::string(mode) == "replicate")
                        source[d] = std::min(std::max<int64_t>(source[d], 0), n - 1);
                      if (std::string(mode) == "reflect") {
                        if (source[d] < 0) source[d] = -source[d];
                        if (source[d] >= n) source[d] = 2 * (n - 1) - source[d];
                      }
                    }
                    expected.push_back(constant && !inside ? 1 : at(x, source));
                  });
                  compare(out[0], expected, 0, 0, what);
                });
      }
  const Input nothing{TensorDesc::dense(DType::f32, {0, 2}), {}};
  run_all("pad", "pad=[1,1,2,1] value=2.5", {nothing}, expect(Values(12, 2.5)));
}

TEST("where") {
  const std::vector<Dims> shapes[] = {{{2, 17, 3, 5}, {2, 17, 3, 5}, {2, 17, 3, 5}},
                                      {{1, 17, 1, 1}, {2, 17, 3, 5}, {5}},
                                      {{2, 1, 3, 5}, {}, {1, 17, 1, 1}},
                                      {{40000}, {40000}, {1}}};
  for (const auto& s : shapes)
    for (DType dtype : kDtypes) {
      const Input c = random_input(DType::boolean, s[0]), x = random_input(dtype, s[1]), y = random_input(dtype, s[2]);
      run_all("where", "", {c, x, y}, [&](const Op& op, const std::vector<Values>& out, const std::string& what) {
        const auto broadcast = [&](const Input& input, const Dims& index) {
          Dims own;
          const int added = index.size() - input.desc.rank();
          for (int d = 0; d < input.desc.rank(); ++d) own.push_back(input.desc.shape[d] == 1 ? 0 : index[added + d]);
          return at(input, own);
        };
        Values expected;
        each(op.out().shape, [&](const Dims& index) {
          expected.push_back(broadcast(c, index) != 0 ? broadcast(x, index) : broadcast(y, index));
        });
        compare(out[0], expected, 0, 0, what);
      });
    }
}

Input random_index(DType dtype, const Dims& shape, int64_t size) {
  Input index{TensorDesc::dense(dtype, shape), {}};
  std::uniform_int_distribution<int64_t> random(-size, size - 1);
  for (int64_t i = 0; i < shape.product(); ++i) index.values.push_back(double(random(generator())));
  return index;
}

bool refused(const char* name, const char* attributes, const std::vector<Input>& inputs) {
  try {
    run_all(name, attributes, inputs, [](const Op&, const std::vector<Values>&, const std::string&) {});
    return false;
  } catch (const Error& error) {
    return error.code() == Code::invalid_argument && std::string(error.what()).find("index") != std::string::npos;
  }
}

TEST("gather") {
  const Dims table{3, 20, 4, 5};
  for (DType dtype : kDtypes)
    for (DType index_type : {DType::s64, DType::s32})
      for (int dim = 0; dim < 4; ++dim)
        for (const Dims& index_shape : {Dims{}, Dims{7}, Dims{2, 3}, Dims{0}}) {
          const Input x = random_input(dtype, table), index = random_index(index_type, index_shape, table[dim]);
          run_all("index_select", ("dim=" + std::to_string(dim)).c_str(), {x, index},
                  [&](const Op& op, const std::vector<Values>& out, const std::string& what) {
                    Values expected;
                    each(op.out().shape, [&](const Dims& o) {
                      Dims source, chosen;
                      for (int d = 0; d < dim; ++d) source.push_back(o[d]);
                      for (int d = 0; d < index_shape.size(); ++d) chosen.push_back(o[dim + d]);
                      const int64_t i = int64_t(at(index, chosen));
                      source.push_back(i < 0 ? i + table[dim] : i);
                      for (int d = dim + index_shape.size(); d < o.size(); ++d) source.push_back(o[d]);
                      expected.push_back(at(x, source));
                    });
                    compare(out[0], expected, 0, 0, what);
                  });
        }
  const Input weight = random_input(DType::f32, {50, 33}), words = random_index(DType::s64, {4, 6}, 50);
  run_all("embedding", "", {words, weight}, [&](const Op& op, const std::vector<Values>& out, const std::string& what) {
    Values expected;
    each(op.out().shape, [&](const Dims& o) {
      const int64_t row = int64_t(at(words, {o[0], o[1]}));
      expected.push_back(at(weight, {row < 0 ? row + 50 : row, o[2]}));
    });
    compare(out[0], expected, 0, 0, what);
  });
  const Input wrong{TensorDesc::dense(DType::s64, {2}), {1, 50}};
  CHECK(refused("embedding", "", {wrong, weight}));
  const Input below{TensorDesc::dense(DType::s32, {2}), {1, -4}};
  CHECK(refused("index_select", "dim=0", {random_input(DType::f32, table), below}));

  for (DType dtype : kDtypes)
    for (int dim = 0; dim < 4; ++dim) {
      Dims shape{2, 18, 4, 3};
      shape[dim] += 2;
      const Input x = random_input(dtype, table), index = random_index(DType::s64, shape, table[dim]);
      run_all("gather", ("dim=" + std::to_string(dim)).c_str(), {x, index},
              [&](const Op& op, const std::vector<Values>& out, const std::string& what) {
                Values expected;
                each(op.out().shape, [&](const Dims& o) {
                  Dims source = o;
                  source[dim] = int64_t(at(index, o));
                  if (source[dim] < 0) source[dim] += table[dim];
                  expected.push_back(at(x, source));
                });
                compare(out[0], expected, 0, 0, what);
              });
    }
  const Input one{TensorDesc::dense(DType::s64, {1, 1, 1, 1}), {7}};
  CHECK(refused("gather", "dim=0", {random_input(DType::f32, table), one}));
}

TEST("resize") {
  struct Case {
    Dims shape;
    const char* attributes;
  };
  const Case cases[] = {{{2, 17, 4, 5}, "size=[7,3] mode=nearest"},
                        {{2, 17, 4, 5}, "scale_factor=[2.0,2.0] mode=nearest"},
                        {{1, 3, 6}, "size=[13] mode=nearest"},
                        {{1, 20, 2, 3, 4}, "scale_factor=[1.7,0.6,2.0] mode=nearest"},
                        {{2, 17, 4, 5}, "size=[7,3] mode=bilinear"},
                        {{2, 17, 4, 5}, "size=[9,11] mode=bilinear align_corners=true"},
                        {{2, 17, 4, 5}, "scale_factor=[2.5,0.5] mode=bilinear"},
                        {{2, 17, 1, 1}, "size=[3,1] mode=bilinear align_corners=true"},
                        {{2, 24, 6}, "size=[4] mode=linear"},
                        {{1, 5, 3, 4, 2}, "size=[5,3,4] mode=trilinear"},
                        {{1, 5, 3, 4, 2}, "size=[5,7,3] mode=trilinear align_corners=true"}};
  for (const Case& c : cases)
    for (DType dtype : kFloats) {
      const Input x = random_input(dtype, c.shape);
      run_all("interpolate", c.attributes, {x},
              [&](const Op& op, const std::vector<Values>& out, const std::string& what) {
                const auto& scale = op.attributes[attr::scale_floats];
                const bool nearest = op.attributes[attr::mode] == "nearest", align = op.attributes[attr::align_corners];
                const int spatial = c.shape.size() - 2;
                Values expected;
                each(op.out().shape, [&](const Dims& o) {
                  double sum = 0;
                  for (int corner = 0; corner < (1 << spatial); ++corner) {
                    Dims source = o;
                    double weight = 1;
                    for (int d = 0; d < spatial; ++d) {
                      const int64_t n = c.shape[2 + d];
                      const double p = double(o[2 + d]), s = scale[size_t(d)];
                      if (nearest) {
                        source[2 + d] = std::min(int64_t(std::floor(float(p) * float(s))), n - 1);
                        weight *= (corner >> d & 1) ? 0 : 1;
                        continue;
                      }
                      const double position = align ? p * s : std::max((p + 0.5) * s - 0.5, 0.0);
                      const int64_t first = std::min(int64_t(position), n - 1);
                      const double second_weight = position - double(first);
                      source[2 + d] = (corner >> d & 1) ? std::min(first + 1, n - 1) : first;
                      weight *= (corner >> d & 1) ? second_weight : 1 - second_weight;
                    }
                    sum += weight * at(x, source);
                  }
                  expected.push_back(sum);
                });
                expect(expected, 1, nearest ? 0 : 2e-6)(op, out, what);
              });
    }
  const Input bytes = random_input(DType::u8, {1, 19, 3, 3}, 0, 200);
  run_all("interpolate", "scale_factor=[1.0,1.0] mode=nearest", {bytes}, expect(bytes.values));
}

}  // namespace

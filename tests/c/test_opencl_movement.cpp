// Resizing, concat, pad, gather, casts to blocks of few channels on every OpenCL device, against
// references in double precision, in every layout the provider offers, with 1 to 3 spatial dimensions.
#include "opencl_elements.h"
#include "ops/spatial.h"

using namespace pl;
using namespace pl::opencl_testing;

namespace {

SETUP() { unoptimised_on_pocl(); }

TEST("resize") {
  const auto check = [](const char* attributes, const Input& x) {
    const Dims in = spatial_part(x.desc.shape);
    const bool linear = std::string(attributes).find("linear") != std::string::npos;
    run(
        "interpolate", attributes, {x},
        [&](const Op& op, const Dims& out) {
          double sum = 0;
          each(Dims::filled(in.size(), 2), [&](const Dims& corner) {
            double weight = 1;
            Dims index = out;
            for (int d = 0; d < in.size(); ++d) {
              const auto scale = float(op.attributes[attr::scale_floats][size_t(d)]);
              const auto q = float(out[2 + d]);
              float s = op.attributes[attr::align_corners] ? q * scale : std::max((q + 0.5f) * scale - 0.5f, 0.0f);
              if (!linear) s = std::floor(q * scale);
              const int64_t low = std::min(int64_t(s), in[d] - 1);
              const double high = linear ? std::min(double(s) - double(low), 1.0) : 0;
              index[2 + d] = std::min(low + corner[d], in[d] - 1);
              weight *= corner[d] ? high : 1 - high;
            }
            if (weight != 0) sum += weight * at(x, index);
          });
          return sum;
        },
        8, 4e-6);
  };
  Input x = random_input(DType::f32, {2, 9, 4, 5});
  check("size=[7,3] mode=bilinear", x);
  check("size=[7,9] mode=bilinear align_corners=true", x);
  check("scale_factor=[1.7,0.6]", x);
  check("scale_factor=2.5 mode=linear", random_input(DType::bf16, {2, 9, 5}));
  check("size=11", random_input(DType::u8, {2, 9, 5}));
  check("size=[5,2,4] mode=trilinear", random_input(DType::f16, {1, 9, 3, 4, 2}));
  check("size=[2,5,3]", random_input(DType::f32, {1, 9, 3, 4, 2}));
  // Channels side by side: vectors of 4, 8 and 16, whole and not.
  for (int64_t channels : {4, 7, 8, 19, 48})
    check("size=[7,3] mode=bilinear", random_input(DType::f32, {2, channels, 4, 5}));
  check("size=[7,9] mode=bilinear align_corners=true", random_input(DType::f32, {2, 16, 4, 5}));
  check("scale_factor=[1.7,0.6]", random_input(DType::f32, {2, 16, 4, 5}));
  check("size=[5,2,4] mode=trilinear", random_input(DType::f16, {1, 32, 3, 4, 2}));
  check("scale_factor=2.5 mode=linear", random_input(DType::bf16, {2, 16, 5}));
  Input special{TensorDesc::dense(DType::f32, {1, 1, 4}), {kNan, 1, 2, kInf}};
  run_all_opencl("interpolate", "size=8 mode=linear", {special},
                 expect({kNan, kNan, kNan, 1.25, 1.75, kInf, kInf, kInf}));
}

constexpr DType kAll[] = {DType::f32, DType::f16, DType::bf16, DType::s8,
                          DType::u8,  DType::s32, DType::s64,  DType::boolean};

TEST("concat") {
  const auto check = [](const char* attributes, int dim, const std::vector<Input>& inputs) {
    run("concat", attributes, inputs, [&](const Op&, const Dims& index) {
      int64_t from = index[dim];
      size_t i = 0;
      for (; from >= inputs[i].desc.shape[dim]; ++i) from -= inputs[i].desc.shape[dim];
      return at(inputs[i], with(index, dim, from));
    });
  };
  const Input a = random_input(DType::f32, {2, 9, 3, 4}), b = random_input(DType::f32, {2, 3, 3, 4}),
              c = random_input(DType::f32, {2, 9, 2, 4});
  check("dim=1", 1, {a, b, a});
  check("dim=-2", 2, {a, c});
  for (DType dtype : kAll) check("", 0, {random_input(dtype, {2, 3}), random_input(dtype, {1, 3})});
  // Rows in pieces of 16 bytes down to 1; more tensors than one launch takes.
  for (DType dtype : {DType::f32, DType::f16, DType::u8})
    for (int64_t channels : {16, 4, 2})
      check("dim=1", 1, {random_input(dtype, {2, 16, 3, 5}), random_input(dtype, {2, channels, 3, 5})});
  check("dim=1", 1, {random_input(DType::f32, {1, 3, 41, 43}), random_input(DType::f32, {1, 7, 41, 43})});
  check("", 0, {random_input(DType::u8, {5, 2003}), random_input(DType::u8, {6, 2003})});
  std::vector<Input> many;
  for (int i = 0; i < 11; ++i) many.push_back(random_input(DType::f32, {2, 4 * (i % 3), 2, 3}));
  check("dim=1", 1, many);
}

// Few channels to one block of them, and casts on the way.
TEST("reorder_pieces") {
  for (int64_t channels : {1, 3, 4, 7})
    for (const char* attributes :
         {"target=aBcd4b", "target=aBcd8b", "target=aBcd8b dtype=f16", "target=aBcd4b dtype=bf16"}) {
      const Input x = random_input(DType::f32, {2, channels, 5, 7});
      run("reorder", attributes, {x}, [&](const Op&, const Dims& index) { return at(x, index); });
    }
  const Input x = random_input(DType::f16, {2, 3, 9}), image = random_input(DType::f32, {2, 3, 4, 5});
  run("cast", "dtype=f32", {x}, [&](const Op&, const Dims& index) { return at(x, index); });
  for (const char* attributes : {"dtype=f16", "dtype=bf16"})
    run("cast", attributes, {image}, [&](const Op&, const Dims& index) { return at(image, index); });
}

TEST("pad") {
  const auto check = [](const char* attributes, const Input& x) {
    run("pad", attributes, {x}, [&](const Op& op, const Dims& out) {
      const std::string mode = op.attributes[attr::mode];
      Dims index = out;
      for (int d = 0; d < out.size(); ++d) {
        const int64_t size = x.desc.shape[d];
        int64_t& s = index[d];
        s -= op.attributes[attr::begins][size_t(d)];
        if (mode == "constant" && (s < 0 || s >= size)) return op.attributes[attr::value];
        if (mode == "reflect") s = s < 0 ? -s : s >= size ? 2 * (size - 1) - s : s;
        if (mode == "replicate") s = std::min(std::max<int64_t>(s, 0), size - 1);
      }
      return at(x, index);
    });
  };
  const Input x = random_input(DType::f32, {2, 9, 3, 4});
  check("pad=[1,2,0,1,-1,4] value=-inf", x);
  check("pad=[3,-1,2,1,2,3] mode=reflect", x);
  check("pad=[5,6,0,2,1,0,0,1] mode=replicate", x);
  for (DType dtype : kAll) check("pad=[1,2] value=1", random_input(dtype, {2, 3}));
  check("pad=[-1,0]", random_input(DType::bf16, {2, 9, 5}));
}

Input indices(DType dtype, const Dims& shape, int64_t size) {
  Input index = random_input(dtype, shape, -double(size), double(size));
  index.values.back() = double(size);  // out of range on either side
  if (index.values.size() > 1) index.values[0] = -double(size) - 1;
  return index;
}
// The element of x along `dim`, zero where there is none.
double taken(const Input& x, const Dims& index, int dim, double wanted) {
  const auto size = double(x.desc.shape[dim]);
  if (wanted < 0) wanted += size;
  return wanted < 0 || wanted >= size ? 0 : at(x, with(index, dim, int64_t(wanted)));
}

TEST("gather") {
  const auto select = [](const char* attributes, int dim, const Input& x, const Input& index) {
    run("index_select", attributes, {x, index}, [&](const Op&, const Dims& out) {
      Dims place, chosen;
      for (int d = 0; d < index.desc.rank(); ++d) chosen.push_back(out[dim + d]);
      for (int d = 0; d < x.desc.rank(); ++d)
        place.push_back(d < dim ? out[d] : d == dim ? 0 : out[d - 1 + index.desc.rank()]);
      return taken(x, place, dim, at(index, chosen));
    });
  };
  const Input x = random_input(DType::f32, {2, 9, 3, 4});
  select("dim=1", 1, x, indices(DType::s64, {11}, 9));
  select("dim=-1", 3, x, indices(DType::s32, {2, 3}, 4));
  select("dim=1", 1, x, indices(DType::s64, {}, 9));

  const Input table = random_input(DType::bf16, {7, 6}), rows = indices(DType::s64, {2, 9, 4}, 7);
  run("embedding", "", {rows, table}, [&](const Op&, const Dims& out) {
    return taken(table, {0, out[3]}, 0, at(rows, {out[0], out[1], out[2]}));
  });

  const auto gather = [](const char* attributes, int dim, const Input& x, const Input& index) {
    run("gather", attributes, {x, index},
        [&](const Op&, const Dims& out) { return taken(x, out, dim, at(index, out)); });
  };
  gather("dim=1", 1, x, indices(DType::s64, {2, 12, 2, 4}, 9));
  gather("dim=2", 2, x, indices(DType::s32, {1, 9, 5, 4}, 3));
  for (DType dtype : kAll) gather("dim=0", 0, random_input(dtype, {5, 3}), indices(DType::s64, {4, 3}, 5));
}

}  // namespace

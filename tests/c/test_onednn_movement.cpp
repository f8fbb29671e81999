// oneDNN's concat, resizing, reorders: every candidate against loops in double precision.
#include "onednn_testing.h"

using namespace pltest;

namespace {

SETUP() { find_onednn(); }

TEST("concat") {
  for (const DType dtype : {DType::f32, DType::bf16, DType::u8})
    for (const std::vector<int64_t>& channels : std::vector<std::vector<int64_t>>{{16, 32}, {3, 13, 17}, {8, 24, 9}})
      for (int dim : {0, 1, 2}) {
        std::vector<Argument> parts;
        Dims shape{2, channels[0], 4, 3};
        shape[dim] = 0;
        for (size_t k = 0; k < channels.size(); ++k) {
          Dims part{2, channels[0], 4, 3};
          part[dim] = dim == 1 ? channels[k] : int64_t(k) + 1;
          shape[dim] += part[dim];
          parts.push_back(random_argument(dtype, part, unsigned(k), 0, 9));
        }
        Values y(size_t(shape.product()));
        int64_t start = 0;
        for (const Argument& part : parts) {
          for_each(part.desc.shape, [&](const Dims& p, size_t i) {
            Dims q = p;
            q[dim] += start;
            y[at(shape, q)] = part.values[i];
          });
          start += part.desc.shape[dim];
        }
        check("concat", "dim=" + std::to_string(dim), parts, y);
      }
}

TEST("resize") {
  struct Case {
    Dims x;
    std::vector<int64_t> size;
    const char* mode;
    bool possible;
  };
  using V = std::vector<int64_t>;
  for (const Case& c : std::vector<Case>{{{2, 13, 4, 5}, V{8, 10}, "nearest", true},
                                         {{1, 16, 4, 5}, V{12, 5}, "nearest", true},
                                         {{1, 16, 4, 5}, V{7, 9}, "nearest", false},
                                         {{2, 13, 4, 5}, V{8, 10}, "bilinear", true},
                                         {{1, 32, 7, 5}, V{3, 11}, "bilinear", true},
                                         {{2, 17, 9}, V{18}, "linear", true},
                                         {{1, 9, 3, 4, 5}, V{6, 8, 10}, "trilinear", true}}) {
    const int spatial = c.x.size() - 2;
    const Argument x = random_argument(DType::f32, c.x, 1);
    Dims shape{c.x[0], c.x[1]};
    for (int64_t size : c.size) shape.push_back(size);
    Values y(size_t(shape.product()), 0.0);
    for_each(shape, [&](const Dims& p, size_t i) {
      for (int corner = 0; corner < 1 << spatial; ++corner) {
        Dims q{p[0], p[1]};
        double weight = 1;
        for (int d = 0; d < spatial; ++d) {
          const double in = double(c.x[2 + d]), scale = in / double(shape[2 + d]);
          if (c.mode[0] == 'n') {
            q.push_back(int64_t(std::floor(double(p[2 + d]) * scale)));
            if (corner) weight = 0;
            continue;
          }
          const double source = std::max((double(p[2 + d]) + 0.5) * scale - 0.5, 0.0), low = std::floor(source);
          const bool upper = corner >> d & 1;
          weight *= upper ? source - low : 1 - (source - low);
          q.push_back(std::min(int64_t(low) + upper, c.x[2 + d] - 1));
        }
        y[i] += weight * x.values[at(c.x, q)];
      }
    });
    check("interpolate", "size=" + list_text(c.size) + " mode=" + c.mode, {x}, y, c.possible);
  }
  check("interpolate", "size=[7,9] mode=bilinear align_corners=true", {random_argument(DType::f32, {1, 3, 4, 5}, 1)},
        {}, 0);
  check("interpolate", "scale_factor=1.3 mode=bilinear", {random_argument(DType::f32, {1, 3, 4, 5}, 1)}, {}, 0);
}

TEST("reorder") {
  const char* layouts[] = {"NCHW", "NHWC", "nChw16c", "nChw8c"};
  for (int64_t channels : {3, 16, 17})
    for (const char* from : layouts)
      for (const char* to : layouts) {
        Argument x = random_argument(DType::f32, {2, channels, 5, 3}, 1);
        x.desc = x.desc.with_layout(Layout::parse(from));
        check("reorder", std::string("target=") + to, {x}, x.values);
      }
  for (const char* to : {"OIhw16i16o", "HWIO", "OIhw8i8o", "Ohwi16o"}) {
    const Argument x = random_argument(DType::f32, {17, 20, 3, 3}, 1);
    check("reorder", std::string("target=") + to, {x}, x.values);
  }
  // A window of a larger tensor.
  Argument part = random_argument(DType::f32, {2, 5, 4, 3}, 1);
  part.desc = TensorDesc::strided(DType::f32, part.desc.shape, {1000, 150, 12, 2});
  part.desc.offset = 17;
  for (const char* to : layouts) check("reorder", std::string("target=") + to, {part}, part.values);
  // Halves go to the even neighbour, what does not fit to the nearest end.
  Argument wide = random_argument(DType::f32, {10}, 1);
  wide.values = {0.5, 1.5, 2.5, -0.5, -1.5, 300, -300, 127.4, 1e9, -1e9};
  check("reorder", "target=a dtype=s8", {wide}, {0, 2, 2, -0.0, -2, 127, -128, 127, 127, -128});
  check("reorder", "target=a dtype=u8", {wide}, {0, 2, 2, 0, 0, 255, 0, 127, 255, 0});
  wide.values = {0.5, 1.5, 2.5, -0.5, -1.5, 3e9, -3e9, 127.4, 1e9, -1e9};
  check("reorder", "target=a dtype=s32", {wide}, {0, 2, 2, 0, -2, 2147483647, -2147483648.0, 127, 1e9, -1e9});
  wide.values = {1.00390625, 3.0, 0.1, 1e-30, 1e30, 0, -7, 65504, 2, 4};
  Values rounded = wide.values;
  for (double& value : rounded) value = bfloat16_to_float(float_to_bfloat16(float(value)));
  check("reorder", "target=a dtype=bf16", {wide}, rounded);
}

}  // namespace

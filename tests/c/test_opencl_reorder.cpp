// Reorders that transpose, by every kernel and every tile the tuner may choose: whole and partial tiles, sides that
// quads suit and sides that they do not, blocks with padding; equal to the source, rounded, bit for bit.
#include <set>

#include "opencl_testing.h"

using namespace pl;
using namespace pl::opencl_testing;

namespace {

std::set<std::string> tiles;  // that ran

void check(const char* source, const char* target, const Dims& shape, DType from, DType to) {
  Input x = random_input(from, shape, -9, 9);
  x.desc = TensorDesc::dense(from, shape, Layout::parse(source));
  const std::string attributes = std::string("target=") + target + " dtype=" + name_of(to);
  run_all_opencl(
      "reorder", attributes.c_str(), {x},
      [&](const Op&, const std::vector<Values>& y, const std::string& what) {
        Values expected;
        for (double v : x.values) expected.push_back(rounded(to, v));
        compare(y[0], expected, 0, 0, what);
        const size_t at = what.find("reorder_quads[");
        if (at != std::string::npos) tiles.insert(what.substr(at, what.find(']', at) + 1 - at));
      },
      true);
}

void both_ways(const char* one, const char* other, const Dims& shape, DType from, DType to) {
  check(one, other, shape, from, to);
  check(other, one, shape, from, to);
}

TEST("all") {
  unoptimised_on_pocl();
  const DType f32 = DType::f32, f16 = DType::f16, bf16 = DType::bf16;
  both_ways("abcd", "aBcd16b", {2, 32, 18, 18}, f32, f32);  // 324 pixels: more than a tile of 256
  both_ways("abcd", "aBcd16b", {1, 35, 9, 9}, f32, f16);    // padding; odd rows
  both_ways("abcd", "aBcd16b", {2, 20, 4, 5}, f16, f16);    // padding; quads
  both_ways("abcd", "aBcd8b", {1, 12, 12, 12}, bf16, f32);
  both_ways("abcd", "aBcd4b", {2, 7, 4, 9}, f32, f32);
  both_ways("abcd", "acdb", {2, 68, 10, 14}, f32, f32);
  both_ways("abcd", "acdb", {1, 37, 9, 9}, f16, f32);
  both_ways("abcd", "acdb", {2, 6, 6, 8}, f32, bf16);
  both_ways("ab", "ba", {70, 133}, f32, f32);
  both_ways("ab", "ba", {132, 64}, f16, f16);
  both_ways("abc", "Abc16a", {19, 5, 36}, f32, f32);
  std::printf("reorder_quads: %zu tiles\n", tiles.size());
  if (!targets().empty()) CHECK(tiles.size() >= 40);
}

}  // namespace

#include "providers/opencl/reorder/reorder_tiled.h"

#include <algorithm>

#include "providers/opencl/addressing/quads.h"
#include "providers/opencl/tuning/tuning.h"

namespace pl::opencl {

int unit_axis(const Iteration& it, size_t t) {
  for (size_t i = it.kept.size(); i-- > 0;)
    if (it.kept[i].strides[t] == 1 && it.kept[i].size > 1) return int(i);
  return -1;
}

namespace {

constexpr int kTile = 32, kRows = 8;  // the defaults of reorder_tiled.cl

// What both kernels are given, tiles_arg in their files, and what its numbers are multiples of.
struct Transposition {
  const Axis *a, *b;                   // the unit axes of the destination and of the source
  int64_t weight_a = 0, weight_b = 0;  // parts of the checked index that one step along them adds
  bool checked = false, stored = true, wide = false;
  bool load_quads, store_quads;  // four elements side by side always begin at a multiple of four
  int64_t outer = 1;             // tiles of a and b lie in so many places
  size_t outer_axes = 1;
  std::vector<int64_t> argument;

  explicit Transposition(const Iteration& it) {
    const auto index_a = size_t(unit_axis(it, 1)), index_b = size_t(unit_axis(it, 0));
    a = &it.kept[index_a];
    b = &it.kept[index_b];
    wide = it.wide;
    std::vector<int64_t> weight(it.kept.size(), 0);
    int64_t limit = 0;
    for (const Check& check : it.kept_checks) {
      if (check.outer >= 0) weight[size_t(check.outer)] = check.block;
      weight[size_t(check.inner)] = 1;
      limit = check.limit;
      checked = true;
      stored = check.stored;
    }
    weight_a = weight[index_a];
    weight_b = weight[index_b];
    load_quads = b->size % 4 == 0 && a->strides[0] % 4 == 0 && it.offsets[0] % 4 == 0;
    store_quads = a->size % 4 == 0 && b->strides[1] % 4 == 0 && it.offsets[1] % 4 == 0;
    std::vector<int64_t> sizes, sources, targets, weights;
    for (size_t i = 0; i < it.kept.size(); ++i) {
      if (i == index_a || i == index_b) continue;
      sizes.push_back(it.kept[i].size);
      sources.push_back(it.kept[i].strides[0]);
      targets.push_back(it.kept[i].strides[1]);
      weights.push_back(weight[i]);
      outer *= it.kept[i].size;
      load_quads = load_quads && sources.back() % 4 == 0;
      store_quads = store_quads && targets.back() % 4 == 0;
    }
    if (sizes.empty()) {
      sizes.push_back(1);
      sources.push_back(0);
      targets.push_back(0);
      weights.push_back(0);
    }
    outer_axes = sizes.size();
    argument = {a->size, b->size, a->strides[0], b->strides[1], it.offsets[0], it.offsets[1]};
    for (const auto* list : {&sizes, &sources, &targets}) argument.insert(argument.end(), list->begin(), list->end());
    argument.insert(argument.end(), {limit, weight_a, weight_b});
    argument.insert(argument.end(), weights.begin(), weights.end());
    // A vector lies across the limit where places beyond it are left out (stores) or zero (loads).
    if (checked && stored && weight_b) load_quads = false;
    if (checked && !stored && weight_a) store_quads = false;
  }

  int64_t tiles(int64_t tile_a, int64_t tile_b) const {
    return (a->size + tile_a - 1) / tile_a * ((b->size + tile_b - 1) / tile_b) * outer;
  }

  // The share of a tile's work-items that move something, over all tiles.
  double used(int64_t tile_a, int64_t tile_b) const {
    return double(a->size) * double(b->size) * double(outer) /
           (double(tiles(tile_a, tile_b) * tile_a) * double(tile_b));
  }

  std::unique_ptr<Kernel> prepare(OpenclDevice& device, KernelSource& source, const char* name, int64_t groups,
                                  int items) const {
    source.define("OUTER", int64_t(outer_axes));
    if (checked) source.define("CHECKED", 1).define("CHECK_STORED", int(stored));
    source.wide_indices(wide);
    auto kernel = std::make_unique<KernelList>(device);
    Launch& launch = kernel->add(source, name);
    launch.input(0).output(0);
    if (wide) {
      launch.raw(argument.data(), argument.size() * 8);
    } else {
      const std::vector<int32_t> narrow(argument.begin(), argument.end());
      launch.raw(narrow.data(), narrow.size() * 4);
    }
    launch.global({size_t(groups) * size_t(items)}).local({size_t(items)});
    return kernel;
  }
};

KernelSource source_of(const char* file, DType src, DType dst) {
  KernelSource source(file);
  source.define("SRC_DTYPE", name_of(src)).define("DST_DTYPE", name_of(dst));
  return source;
}

const Family& quads_family() {
  static const std::vector<int> sizes{4, 8, 16, 32, 64, 128, 256};
  static const Family family("reorder_quads", {{"TILE_A", sizes}, {"TILE_B", sizes}, {"ITEMS", {32, 64, 128, 256}}});
  return family;
}
PL_TUNING_FAMILY(quads_family);

constexpr int64_t kNarrow = 16;  // a block of channels: tiles are no wider than such an axis

int power_of_two_from(int64_t least, int most) {
  int value = 4;
  while (value < least && value < most) value *= 2;
  return value;
}

// Whether the device can run a tile, and it is not much larger than the axes.
bool suits_quads(const Capabilities& has, const Transposition& t, const Point& point) {
  const int items = point["ITEMS"], quads = point["TILE_A"] * point["TILE_B"] / 4;  // accesses of each side
  if (size_t(items) > has.max_work_group || size_t(quads) * 16 > has.local_memory) return false;
  if (quads < items || quads > 4 * items || std::max(point["TILE_A"], point["TILE_B"]) < 32) return false;
  const bool a_narrow = t.a->size <= t.b->size && t.a->size <= kNarrow;
  const bool b_narrow = !a_narrow && t.b->size <= kNarrow;
  const auto fits = [&](int tile, int64_t size, bool narrow, bool beside_narrow) {
    if (narrow) return tile == power_of_two_from(size, int(kNarrow));
    return tile >= 32 && tile <= std::max(32, power_of_two_from(size, beside_narrow ? 256 : 128));
  };
  return fits(point["TILE_A"], t.a->size, a_narrow, b_narrow) && fits(point["TILE_B"], t.b->size, b_narrow, a_narrow);
}

Point quads_point(int tile_a, int tile_b, int items) {
  return {{"TILE_A", tile_a}, {"TILE_B", tile_b}, {"ITEMS", items}};
}

// Two to try everywhere: a work-item moves two quads or four.
std::vector<Point> starts_of(const Transposition& t) {
  std::vector<Point> points;
  const bool a_narrower = t.a->size <= t.b->size;
  const int64_t narrower = std::min(t.a->size, t.b->size), wider = std::max(t.a->size, t.b->size);
  for (int quads : {2, 4}) {
    int longer = quads == 2 ? 128 : 256, shorter = power_of_two_from(narrower, int(kNarrow));
    if (narrower > kNarrow) longer = shorter = quads == 2 ? 32 : power_of_two_from(narrower, 64);
    longer = std::max(32, power_of_two_from(wider, longer));
    const int items = std::max(32, std::min(256, longer * shorter / 4 / quads));
    points.push_back(a_narrower ? quads_point(shorter, longer, items) : quads_point(longer, shorter, items));
  }
  return points;
}

void add_quads(const Op& op, OpenclDevice& device, const std::shared_ptr<const Transposition>& t, CandidateList& out) {
  const DType from = op.in(0).dtype, to = op.out().dtype;
  const Capabilities& has = device.capabilities();
  if (!has_quads(from) || !has_quads(to) || std::min(t->a->size, t->b->size) < 3) return;
  const auto suits = [&](const Point& point) { return suits_quads(has, *t, point); };
  const ShapeClass shapes(from, concat("to-", name_of(to)), t->a->size, t->b->size, t->outer);
  const auto choices = quads_family().choices(device, shapes, starts_of(*t), suits, out.whole_space);
  quads_family().add(make_candidate(op, ""), shapes, choices, out, [&](Candidate& candidate, const Point& point) {
    if (!suits(point)) return false;
    const double access = t->load_quads && t->store_quads ? 0.9 : 0.8;
    candidate.efficiency = has.cpu ? 0.05 : access * t->used(point["TILE_A"], point["TILE_B"]);
    candidate.prepare = [&device, t, from, to, point] {
      KernelSource source = source_of("reorder/reorder_quads.cl", from, to);
      point.define(source);
      source.define("LOAD_VECTOR", t->load_quads ? 4 : 1).define("STORE_VECTOR", t->store_quads ? 4 : 1);
      return t->prepare(device, source, "reorder_quads", t->tiles(point["TILE_A"], point["TILE_B"]), point["ITEMS"]);
    };
    return true;
  });
}

}  // namespace

void add_reorder_tiled(const Op& op, OpenclDevice& device, std::shared_ptr<const Iteration> it, CandidateList& out) {
  const int a = unit_axis(*it, 1), b = unit_axis(*it, 0);
  if (a < 0 || b < 0 || a == b || it->kept_checks.size() > 1) return;
  // Its axes are the iteration's, which lives as long.
  struct Kept {
    std::shared_ptr<const Iteration> it;
    Transposition transposition;
  };
  const auto kept = std::make_shared<const Kept>(Kept{it, Transposition(*it)});
  const std::shared_ptr<const Transposition> t(kept, &kept->transposition);
  add_quads(op, device, t, out);
  const Capabilities& has = device.capabilities();
  if (has.max_work_group < size_t(kTile * kRows)) return;
  Candidate tiled = make_candidate(op, "reorder_tiled");
  // On an H200, of 4.2 TB/s for a copy: 3.5, 2.1 with tiles of which 16 rows are used, 0.4 with 3 rows.
  const int64_t rows = std::min(t->a->size, t->b->size);
  tiled.efficiency = has.cpu ? 0.1 : rows >= kTile ? 0.8 : rows >= kTile / 2 ? 0.5 : 0.1;
  tiled.prepare = [&device, t, from = op.in(0).dtype, to = op.out().dtype] {
    KernelSource source = source_of("reorder/reorder_tiled.cl", from, to);
    source.define("TILE", kTile).define("ROWS", kRows);
    return t->prepare(device, source, "reorder_tiled", t->tiles(kTile, kTile), kTile * kRows);
  };
  out.add(std::move(tiled));
}

}  // namespace pl::opencl

#include "providers/opencl/addressing/row_groups.h"

#include <algorithm>

#include "providers/opencl/addressing/quads.h"

namespace pl::opencl {
namespace {

constexpr int kUsualItems = 128;  // work-items of a work-group, more where a row needs them
constexpr int kWidest = 512;      // work-items that share a row
constexpr int64_t kFew = 32;      // registers of what a work-item holds, so that many are at work
constexpr int64_t kMost = 64;     // the same, where a row would else be read twice
// Where a row is long, some of it in local memory.
struct Depth {
  int64_t items;      // of a work-group at most
  int64_t registers;  // of what a work-item holds
  int64_t local;      // as many more, in local memory
};
constexpr Depth kDeep{256, 80, 24};   // so that a multiprocessor has room for two work-groups
constexpr Depth kAlone{512, 80, 20};  // as much as one work-group that has a multiprocessor alone can hold: 200 KB
constexpr int64_t kApart = 64;  // elements side by side that a work-group reads at least, where rows lie in pieces
// Bytes, the same, where a row would else be read twice: what memory moves at once, if not less.
constexpr int64_t kBurst = 64, kSector = 32;
constexpr int64_t kWorthTuning = 32 << 10;  // elements

int64_t power_of_two(int64_t least) {
  int64_t power = 1;
  while (power < least) power *= 2;
  return power;
}

// A vector that divides `size`: 16 bytes, of 16-bit types 8 bytes too, or one element.
int vector_for_row(DType dtype, int64_t size) {
  if (size_of(dtype) == 2 && size % 8 == 0) return 8;
  return size % 4 ? 1 : 4;
}

// Work-items for `pieces` vectors: so that none holds more than `kept`, at least `near` of them.
int64_t lanes_for(int64_t pieces, int64_t kept, int64_t near, int64_t most) {
  return std::min(power_of_two(std::max(divided_up(pieces, kept), std::min(near, pieces))), most);
}

// Cuts `pieces` vectors (or steps) into equal parts, of which `lanes` work-items hold `kept` each at most.
void cut(RowGroups& rows, int64_t pieces, int64_t lanes, int64_t kept) {
  rows.parts = divided_up(pieces, lanes * kept);
  rows.part = divided_up(pieces, rows.parts);
  rows.parts = divided_up(pieces, rows.part);
  rows.kept = divided_up(rows.part, lanes);
}

// Bytes of local memory of two joins: GROUP_MEMORY of kernels/common/row_groups.clh.
size_t joins_bytes(const RowGroups& rows) {
  const int lanes = rows.lanes(), vector = rows.pieces.across ? rows.vector : 1;
  const int near = lanes * rows.slots, of_row = lanes > 256 ? 32 : 16;
  const int far = vector > 1 && lanes >= vector ? near / vector : lanes > of_row ? of_row * rows.slots : 0;
  return lanes == 1 ? 0 : 2 * sizeof(float) * size_t(near + far) * size_t(vector);
}

// False where rows cannot be taken in this way.  `of_register`: elements in a register; `apart`: elements side by side
// that a work-group reads at least, where rows lie in pieces.
bool choose(const OpenclDevice& device, RowGroups& rows, const RowWay& way, const Depth* deep, int64_t of_register,
            int64_t apart) {
  const auto has = int64_t(device.capabilities().max_work_group);
  const int64_t items = std::min<int64_t>(deep ? deep->items : way.lanes > 0 ? 2 * kWidest : kWidest, has);
  const int64_t width = rows.vector;
  // Each work-item that shares eight rows joins eight numbers: fewer of them, which hold more.
  const int64_t registers = rows.pieces.across && width == 8 ? 2 * kFew : kFew;
  const int64_t few = std::max<int64_t>(1, registers * of_register / width);
  // A work-group of 1024 leaves each of its work-items 64 registers.
  const int64_t in_registers = deep ? deep->registers : way.lanes > 0 ? kMost - kMost / 4 : kMost;
  const int64_t most = (in_registers + (deep ? deep->local : 0)) * of_register / width;
  const RowPieces& at = rows.pieces;
  const auto shared = [&](int64_t lanes, int64_t limit) {
    return way.lanes > 0 ? std::min(2 * lanes, limit) : way.lanes < 0 ? std::max<int64_t>(lanes / 2, 1) : lanes;
  };
  const auto kept = [&](int64_t pieces, int64_t lanes) { return way.parts || pieces <= lanes * few ? few : most; };
  if (rows.flat) {
    const int64_t pieces = at.run / width;
    const int64_t near = 8;  // 128 bytes at a time
    const int64_t limit = way.parts ? std::min<int64_t>(items, 256) : items;
    const int64_t wide = shared(lanes_for(pieces, few, near, std::min<int64_t>(limit, kWidest)), limit);
    rows.run_lanes = int(wide);
    cut(rows, pieces, wide, kept(pieces, wide));
    rows.slots = int(std::max<int64_t>(1, std::min<int64_t>(kUsualItems, items) / wide));
  } else {
    rows.run_lanes = at.across ? 1 : int(at.run / width);
    const int64_t neighbours = at.across ? at.inner / width : at.inner;
    rows.slots = 1;
    const int64_t of_slot = rows.run_lanes * width;
    while (rows.slots < neighbours && rows.slots * of_slot < apart) rows.slots *= 2;
    const int64_t side = rows.run_lanes * rows.slots;
    if (side > items) return false;
    int64_t most_lanes = 1;
    while (most_lanes * 2 * side <= items) most_lanes *= 2;
    const int64_t lanes = shared(lanes_for(at.steps, few, 1, most_lanes), most_lanes);
    rows.step_lanes = int(lanes);
    cut(rows, at.steps, lanes, kept(at.steps, lanes));
    while (rows.slots < neighbours && lanes * rows.run_lanes * rows.slots * 2 <= std::min<int64_t>(kUsualItems, items))
      rows.slots *= 2;
  }
  size_t local = joins_bytes(rows);
  const Capabilities& limits = device.capabilities();
  if (deep) {
    const int64_t of_word = limits.nvidia ? of_register : 1;  // other devices may hold f16 as f32
    const int64_t beyond = std::max(rows.kept / 2, rows.kept - in_registers * of_register / width);
    rows.local_kept = std::min(beyond, deep->local * of_word / width);
    rows.alone = deep == &kAlone;
    if (rows.alone && limits.compute_capability >= 80) rows.lines = 128;
    local += size_t(rows.local_kept * (4 * width / of_word) * rows.lanes() * rows.slots);
  }
  return (way.parts ? rows.parts > 1 : rows.parts == 1) && local <= limits.local_memory;
}

// A row of few work-items, or few rows, leave the device idle.
double part_in_use(const OpenclDevice& device, int64_t groups) {
  return std::clamp(double(groups) / (2.0 * device.capabilities().compute_units), 0.05, 1.0);
}

}  // namespace

void RowGroups::define(KernelSource& source) const {
  source.define("VECTOR", vector).define("ACROSS", pieces.across ? 1 : 0);
  source.define("STEPS", pieces.steps).define("INNER", pieces.inner).define("RUN", pieces.run);
  source.define("PARTS", parts).define("PART", part).define("SLOTS", slots);
  source.define("RUN_LANES", run_lanes).define("STEP_LANES", step_lanes).define("KEPT", kept);
  source.define("LOCAL_KEPT", local_kept).define("ALONE", alone ? 1 : 0);
  source.define("LOCAL_ASYNC", lines ? 1 : 0).define("LINES", lines);
}

int64_t RowGroups::groups() const {
  if (flat) return divided_up(rows, slots) * parts;
  return pieces.outer * parts * divided_up(pieces.inner / (pieces.across ? vector : 1), slots);
}

Launch& RowGroups::over_groups(Launch& launch) const {
  const auto items = size_t(run_lanes) * size_t(step_lanes) * size_t(slots);
  return launch.global({size_t(groups()) * items}).local({items});
}

Launch& RowGroups::over_rows(Launch& launch) const { return launch.global({size_t(rows)}).local({64}); }

const std::vector<RowWay>& row_ways(bool whole_space) {
  static const std::vector<RowWay> starts{{""}, {"[PARTS]", true}};
  static const std::vector<RowWay> all{{""},
                                       {"[PARTS]", true},
                                       {"[MANY]", false, 1},
                                       {"[FEW]", false, -1},
                                       {"[NARROW]", false, 0, true},
                                       {"[WIDE]", false, 0, false, true},
                                       {"[ALONE]", false, 0, false, false, true}};
  return whole_space ? all : starts;
}

std::optional<RowGroups> row_groups(const OpenclDevice& device, const TensorDesc& desc,
                                    const std::vector<MemoryAxis>& axes, const RowWay& way, const RowUse& use) {
  if (!has_quads(desc.dtype)) return std::nullopt;
  const auto pieces = row_pieces(desc, axes);
  if (!pieces) return std::nullopt;
  RowGroups rows;
  rows.pieces = *pieces;
  rows.flat = pieces->inner == 1;
  rows.rows = pieces->outer * pieces->inner;
  if (rows.flat) {
    rows.pieces.run = pieces->blocks * pieces->steps * pieces->run;
    rows.pieces.blocks = rows.pieces.steps = 1;
    rows.vector = vector_for_row(desc.dtype, pieces->run);
  } else if (pieces->across) {
    rows.vector = use.eights ? vector_for_row(desc.dtype, pieces->inner) : pieces->inner % 4 ? 1 : 4;
  } else {
    rows.vector = vector_for_row(desc.dtype, pieces->run);
    if (pieces->run / rows.vector > 64) return std::nullopt;
  }
  const int64_t size = int64_t(size_of(desc.dtype));
  const int64_t of_register = use.held && rows.vector > 1 ? 4 / size : 1;
  const auto chosen_if = [&](const RowWay& how, const Depth* deep) -> std::optional<RowGroups> {
    std::vector<std::pair<int, int64_t>> attempts{{rows.vector, how.narrow ? 1 : kApart}};
    if (rows.pieces.across && rows.vector == 8) attempts.push_back({4, attempts[0].second});  // half the local memory
    if (deep == &kAlone) attempts = {{rows.vector, kBurst / size}};
    if (!how.parts && !rows.flat) attempts.push_back({rows.vector, std::min(attempts[0].second, kSector / size)});
    for (const auto& [vector, apart] : attempts) {
      RowGroups out = rows;
      out.vector = vector;
      if (choose(device, out, how, deep, of_register, apart)) return out;
    }
    return std::nullopt;
  };
  const auto chosen = [&](const RowWay& how) {
    auto out = chosen_if(how, nullptr);
    const bool long_rows = !out || out->lanes() * out->slots > kDeep.items;
    if (!use.local || how.lanes || how.wide || how.parts || !long_rows) return out;
    const int64_t beside = out ? out->run_lanes * out->slots * out->vector * size : 0;  // bytes
    if (!rows.flat && rows.vector * size == 16 && !how.narrow && beside < kBurst) {
      const auto alone = chosen_if(how, &kAlone);
      const auto units = int64_t(device.capabilities().compute_units);
      if (alone && (how.alone || alone->groups() > units)) return alone;
    }
    if (const auto deep = chosen_if(how, &kDeep)) out = deep;
    return out;
  };
  const bool usual_way = !way.lanes && !way.narrow && !way.wide && !way.alone;
  if (!usual_way && desc.elements() < kWorthTuning) return std::nullopt;
  const auto out = chosen(way);
  if (out && !usual_way) {  // only what is another way
    const auto usual = chosen(RowWay{""});
    if (usual && usual->lanes() == out->lanes() && usual->slots == out->slots && usual->local_kept == out->local_kept)
      return std::nullopt;
  }
  return out;
}

bool offers_row_groups(const OpenclDevice& device, const CandidateList& out) {
  return device.capabilities().gpu || out.whole_space;
}

double efficiency_of_groups(const OpenclDevice& device, const RowGroups& rows, bool read_again) {
  if (!device.capabilities().gpu) return 0.02;
  return (rows.parts > 1 && read_again ? 0.5 : 0.7) * part_in_use(device, rows.groups());
}

double efficiency_by_rows(const OpenclDevice& device, int64_t elements, int64_t size, double most) {
  return device.capabilities().gpu ? most * part_in_use(device, elements / std::max<int64_t>(1, size)) : most;
}

}  // namespace pl::opencl

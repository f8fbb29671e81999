#include "providers/opencl/attention/attention_mma.h"

#include <algorithm>
#include <cmath>

#include "providers/opencl/addressing/rows.h"
#include "providers/opencl/attention/heads.h"
#include "providers/opencl/matrix_units/matrix_unit.h"
#include "providers/opencl/pointwise/pointwise_axes.h"
#include "providers/opencl/tuning/tuning.h"

namespace pl::opencl {
namespace {

constexpr int64_t kMostColumns = 256;  // of a head: more sums than a work-item has registers

const Family& attention_mma_family() {
  static const Family family("attention_mma", {{"TILE_M", {32, 64, 128}},
                                               {"TILE_N", {16, 32, 64}},
                                               {"WARPS_M", {1, 2, 4, 8}},
                                               {"STAGES", {1, 2}},
                                               {"PROMOTE", {1, 2}}});
  return family;
}
PL_TUNING_FAMILY(attention_mma_family);

Point attention_mma_point(int queries, int keys, int warps, int stages, int promote = 1) {
  return {{"TILE_M", queries}, {"TILE_N", keys}, {"WARPS_M", warps}, {"STAGES", stages}, {"PROMOTE", promote}};
}

struct Attention {
  DType dtype;
  int64_t heads, queries, keys, width, values;
  bool unit;     // NVIDIA's matrix unit
  int products;  // of tf32 for one of f32

  Attention(const Op& op, const OpenclDevice& device)
      : dtype(op.in(0).dtype),
        heads(1),
        unit(matrix_unit(device.capabilities()).kind == MatrixUnit::Kind::nvidia),
        products(dtype == DType::f32 && op.math == Math::fp32 ? 3 : 1) {
    const Dims &q = op.in(0).shape, &v = op.in(2).shape;
    const int last = q.size() - 1;
    for (int d = 0; d < last - 1; ++d) heads *= q[d];
    queries = q[last - 1];
    keys = v[last - 1];
    width = q[last];
    values = v[last];
  }

  int64_t bits() const { return dtype == DType::f32 ? 32 : 16; }
  // As the kernel counts its local memory: LOCAL_SLOTS.
  int64_t local_bytes(const Point& p) const {
    const int64_t k_pitch = row_pitch(width, bits(), products == 3 ? 2 * p["PROMOTE"] : 2);
    const int64_t v_pitch = (bits() == 32 ? rounded_up(values, 8) / 4 : rounded_up(values, 16) / 8) | 1;
    const int64_t stage = p["TILE_N"] * (k_pitch + v_pitch), stages = p["STAGES"],
                  queries_slots = p["TILE_M"] * k_pitch;
    // On NVIDIA queries lie there only until they are in registers.
    if (unit) return 16 * std::max(stages * stage, queries_slots);
    return 16 * (stages * stage + queries_slots + p["TILE_M"] * (p["TILE_N"] / 4 + 2));
  }
  // Floats that a work-item keeps from one tile to the next, or while scores are made.
  int64_t kept(const Point& p) const {
    const int64_t rows = p["TILE_M"] / p["WARPS_M"] / 16, sums = rows * (rounded_up(values, 8) / 2 + p["TILE_N"] / 2);
    return unit ? sums + rows * rounded_up(width, 16) / 2 * bits() / 32 : sums;
  }
  bool fits(const OpenclDevice& device, const Point& p) const {
    const Capabilities& can = device.capabilities();
    const int rows = p["TILE_M"] / p["WARPS_M"];
    return rows % 16 == 0 && rows >= 16 && rows <= 32 && size_t(p["WARPS_M"] * 32) <= can.max_work_group &&
           size_t(local_bytes(p)) <= can.local_memory;
  }
  bool suits(const OpenclDevice& device, const Point& p) const {
    if (!fits(device, p) || (p["PROMOTE"] > 1 && (!unit || products == 1))) return false;
    if (p["STAGES"] > 1 && !unit) return false;                                     // copies there wait for themselves
    if (p["TILE_N"] > 16 && p["TILE_N"] >= 2 * rounded_up(keys, 16)) return false;  // more than half would be empty
    if (p["TILE_M"] > 32 && p["TILE_M"] >= 2 * rounded_up(queries, 16)) return false;
    return kept(p) <= (products == 3 ? 150 : 192);
  }
  // The first of these that the device can run; more would be slower than others, never wrong.
  std::vector<Point> starts(const OpenclDevice& device) const {
    std::vector<Point> found;
    const bool few = queries <= 32;
    const auto take = [&](std::initializer_list<Point> points) {
      for (const Point& p : points)
        if (suits(device, p)) return found.push_back(p);
    };
    if (unit && bits() == 16) {
      if (!few) take({attention_mma_point(128, 64, 4, 2), attention_mma_point(128, 32, 4, 2)});
      if (!few) take({attention_mma_point(64, 64, 4, 2), attention_mma_point(64, 32, 4, 2)});
    } else if (unit && products == 1) {
      if (!few) take({attention_mma_point(128, 32, 4, 2), attention_mma_point(128, 16, 4, 2)});
      if (!few) take({attention_mma_point(64, 32, 4, 2), attention_mma_point(64, 16, 4, 2)});
    } else if (unit) {
      if (!few) take({attention_mma_point(64, 32, 4, 2), attention_mma_point(64, 16, 4, 2)});
      if (!few) take({attention_mma_point(128, 32, 8, 2), attention_mma_point(128, 16, 8, 2)});
    } else if (!few) {
      take({attention_mma_point(64, 32, 2, 1), attention_mma_point(32, 32, 2, 1)});
    }
    if (found.empty())
      for (const int keys_of : {32, 16})
        for (const int stages : {unit ? 2 : 1, 1})
          for (const Point& p : {attention_mma_point(32, keys_of, 2, stages)})
            if (found.empty() && fits(device, p)) found.push_back(p);
    return found;
  }
};

std::unique_ptr<Kernel> prepare_attention_mma(OpenclDevice& device, const Op& op, const Candidate& candidate,
                                              const Point& point) {
  const Attention attention(op, device);
  const int last = op.in(0).rank() - 1;
  const auto rows_of = [&](const Addressing& from) { return as_rows(from, {last}); };
  const Addressing dst = rows_of(Addressing(candidate.outputs[0]));
  KernelSource source("attention/attention_mma.cl");
  const int64_t piece = 128 / attention.bits();
  bool pieces = attention.width % piece == 0 && attention.values % piece == 0;
  for (size_t i = 0; i < 3; ++i) pieces = pieces && rows_aligned(rows_of(Addressing(candidate.inputs[i])), piece);
  define_attention(source, op, candidate);
  point.define(source);
  source.define("MATRIX_DTYPE", name_of(attention.dtype)).define("PRODUCTS", attention.products);
  source.define("NVIDIA_PTX", attention.unit ? 1 : 0).define("WIDTH", attention.width);
  const DropoutBits dropout(op, 4, 0);
  dropout.define(source, op);
  source.define("VALUES", attention.values)
      .define("RISING", int(op.attributes[attr::scale] > 0))
      .define("PIECES", int(pieces))
      .define("PAIRS", int(attention.values % 2 == 0 && rows_aligned(dst, 2)));
  auto kernel = std::make_unique<KernelList>(device);
  dropout.draw(*kernel, op);
  Launch& launch = kernel->add(source, "attention_mma").input(0, "Q").input(1, "K").input(2, "V");
  if (op.has(3)) launch.input(3, "MASK");
  dropout.pass(launch);
  if (op.has(5)) launch.input(5, "SINKS");
  launch.output(0, "DST").scalar(cl_float(op.attributes[attr::scale] / std::log(2.0)));
  const auto items = size_t(point["WARPS_M"] * 32);
  const int64_t tiles = rounded_up(attention.queries, point["TILE_M"]) / point["TILE_M"] * attention.heads;
  launch.global({size_t(tiles) * items}).local({items});
  return kernel;
}

}  // namespace

void list_attention_mma(const Op& op, OpenclDevice& device, CandidateList& out) {
  const Attention attention(op, device);
  if (attention.width > kMostColumns || attention.values > kMostColumns) {
    if (device.capabilities().gpu)
      out.refuse("opencl", concat("attention_mma: heads of ", attention.width, " and ", attention.values,
                                  " columns, of at most ", kMostColumns, " a work-item has registers for its sums"));
    return;
  }
  const std::vector<Point> starts = attention.starts(device);
  if (starts.empty()) {
    if (device.capabilities().gpu)
      out.refuse("opencl", concat("attention_mma: the device's ", device.capabilities().local_memory,
                                  " bytes of local memory hold no tiles of heads of ", attention.width, " columns"));
    return;
  }
  const std::string kind =
      attention.dtype == DType::f32 ? attention.products == 3 ? "heads-fp32" : "heads-tf32" : "heads";
  const ShapeClass shapes(attention.dtype, kind, attention.queries, attention.keys, attention.width);
  const auto choices = attention_mma_family().choices(
      device, shapes, starts, [&](const Point& p) { return attention.suits(device, p); }, out.whole_space);
  for (const Layout& layout : heads_layouts(op)) {
    Candidate base = make_candidate(op, "");
    for (size_t i = 0; i < 3; ++i) base.inputs[i] = as_it_lies(op.in(int(i)), layout);
    for (int i : {3, 4, 5})
      if (op.has(i)) base.inputs[size_t(i)] = op.in(i).with_layout(Layout::plain(op.in(i).rank()));
    base.outputs[0] = op.out().with_layout(layout);
    base.workspace_bytes = DropoutBits(op, 4, 0).bytes();
    attention_mma_family().add(base, shapes, choices, out, [&](Candidate& candidate, const Point& p) {
      // Most of the time is the first copies', the exponentials' and what tiles' edges leave empty.
      const double used = double(attention.queries) / double(rounded_up(attention.queries, p["TILE_M"])) *
                          double(attention.keys) / double(rounded_up(attention.keys, p["TILE_N"]));
      candidate.efficiency = (attention.unit ? 0.4 : 0.25) * used;
      candidate.prepare = [&device, op, candidate, p] { return prepare_attention_mma(device, op, candidate, p); };
      return true;
    });
  }
}

}  // namespace pl::opencl

// scaled_dot_product_attention_backward (kernels/attention/attention_backward_*.cl): stats of all queries,
// then dq by queries, and dk and dv by keys.
#include <algorithm>
#include <cmath>

#include "providers/opencl/addressing/rows.h"
#include "providers/opencl/attention/attention_mma.h"
#include "providers/opencl/attention/heads.h"
#include "providers/opencl/matrix_units/matrix_unit.h"
#include "providers/opencl/pointwise/pointwise_axes.h"
#include "providers/opencl/tuning/tuning.h"

namespace pl::opencl {
namespace {

enum Input { kQ, kK, kV, kGrad, kMask, kSeed };
constexpr int64_t kLocalItems = 32;  // of kernels with a work-item a row

const Family& attention_backward_family() {
  static const Family family("attention_backward_mma", {{"TILE_M", {16, 32, 64, 128}},
                                                        {"TILE_N", {16, 32, 64}},
                                                        {"WARPS_M", {1, 2, 4, 8}},
                                                        {"STAGES", {1, 2}},
                                                        {"TERMS_HELD", {0, 1}}});
  return family;
}
PL_TUNING_FAMILY(attention_backward_family);

Point attention_backward_point(int rows, int columns, int warps, int stages, int held) {
  return {{"TILE_M", rows}, {"TILE_N", columns}, {"WARPS_M", warps}, {"STAGES", stages}, {"TERMS_HELD", held}};
}

struct Gradients {
  DType dtype;
  int64_t query_heads = 1, key_heads = 1, group = 1;  // group: heads of q that share one of k and v
  int64_t queries, keys, width, values;
  bool unit;     // NVIDIA's matrix unit
  int products;  // of tf32 for one of f32

  Gradients(const Op& op, const OpenclDevice& device)
      : dtype(op.in(kQ).dtype),
        unit(matrix_unit(device.capabilities()).kind == MatrixUnit::Kind::nvidia),
        products(dtype == DType::f32 && op.math == Math::fp32 ? 3 : 1) {
    const Dims &q = op.in(kQ).shape, &k = op.in(kK).shape, &v = op.in(kV).shape;
    const int last = q.size() - 1;
    for (int d = 0; d < last - 1; ++d) {
      query_heads *= q[d];
      key_heads *= k[d];
    }
    if (last > 1) group = q[last - 2] / k[last - 2];
    queries = q[last - 1];
    keys = v[last - 1];
    width = q[last];
    values = v[last];
  }
  size_t stats_bytes() const { return size_t(query_heads * queries) * 4 * sizeof(float); }
  DropoutBits dropout(const Op& op) const { return {op, kSeed, stats_bytes()}; }

  // Three quarters of what the forward kernel reached on an H200 with 96 heads of 1,024 rows (docs/results/h200.md).
  double teraflops() const { return bits() == 16 ? 200 : products == 1 ? 100 : 28; }
  int64_t bits() const { return dtype == DType::f32 ? 32 : 16; }
  int64_t local_bytes(const Point& p) const {  // LOCAL_SLOTS
    const int64_t pitch = row_pitch(width, bits(), 2) + row_pitch(values, bits(), 2);
    const int64_t tiles = (p["TILE_M"] + p["STAGES"] * p["TILE_N"]) * pitch;
    return 16 * (unit ? tiles : tiles + p["TILE_M"] * (p["TILE_N"] / 4 + 2));
  }
  // Numbers in registers of a work-item for dk and dv: sums, a tile's scores and gradients, and rows.
  int64_t kept(const Point& p) const {
    const int64_t rows = p["TILE_M"] / p["WARPS_M"] / 16, columns = rounded_up(width, 8) + rounded_up(values, 8);
    const int64_t held = p["TERMS_HELD"] ? (rounded_up(width, 16) + rounded_up(values, 16)) / 2 * bits() / 32 : 0;
    return rows * (columns / 2 + p["TILE_N"] + held);
  }
  bool fits(const OpenclDevice& device, const Point& p) const {
    const Capabilities& can = device.capabilities();
    const int rows = p["TILE_M"] / p["WARPS_M"];
    return rows % 16 == 0 && rows >= 16 && rows <= 32 && size_t(p["WARPS_M"] * 32) <= can.max_work_group &&
           size_t(local_bytes(p)) <= can.local_memory && kept(p) <= (products == 3 ? 180 : 208);
  }
  bool suits(const OpenclDevice& device, const Point& p) const {
    if (!fits(device, p)) return false;
    if (!unit && (p["STAGES"] > 1 || p["TERMS_HELD"])) return false;  // copies wait for themselves; rows stay local
    const int64_t rows = std::max(queries, keys);
    if (p["TILE_N"] > 16 && p["TILE_N"] >= 2 * rounded_up(rows, 16)) return false;  // more than half would be empty
    return p["TILE_M"] <= 16 || p["TILE_M"] < 2 * rounded_up(rows, 16);
  }
  // The first of these that the device can run; more would be slower than others, never wrong.
  std::vector<Point> starts(const OpenclDevice& device) const {
    std::vector<Point> found;
    const auto take = [&](std::initializer_list<Point> points) {
      for (const Point& p : points)
        if (suits(device, p) && std::find(found.begin(), found.end(), p) == found.end()) return found.push_back(p);
    };
    if (unit && bits() == 16) {
      take({attention_backward_point(64, 64, 4, 1, 1), attention_backward_point(64, 32, 4, 1, 1),
            attention_backward_point(64, 32, 4, 1, 0)});
      take({attention_backward_point(128, 32, 8, 1, 1), attention_backward_point(64, 32, 4, 2, 1),
            attention_backward_point(32, 32, 2, 1, 0)});
    } else if (unit) {
      take({attention_backward_point(64, 16, 4, 1, 0), attention_backward_point(32, 16, 2, 1, 0)});
      take({attention_backward_point(32, 32, 2, 1, 0), attention_backward_point(32, 16, 2, 2, 0)});
    }
    if (found.empty())
      take({attention_backward_point(64, 32, 2, 1, 0), attention_backward_point(32, 32, 2, 1, 0),
            attention_backward_point(32, 16, 2, 1, 0), attention_backward_point(16, 16, 1, 1, 0)});
    return found;
  }
};

Addressing rows_of(const TensorDesc& desc) { return as_rows(desc, {desc.rank() - 1}); }

void define_tensors(KernelSource& source, const Op& op, const Candidate& candidate) {
  const char* const names[] = {"Q", "K", "V", "GRAD"};
  for (size_t i = 0; i < 4; ++i) source.tensor(names[i], rows_of(candidate.inputs[i]));
  if (op.has(kMask)) {
    Dims scores = op.in(kQ).shape;
    const int last = scores.size() - 1;
    scores[last] = op.in(kV).shape[last - 1];
    source.tensor("MASK", as_rows(broadcast_to(candidate.inputs[kMask], scores), {last}));
    source.define("MASK_IS_BOOL", int(op.in(kMask).dtype == DType::boolean));
  }
  if (!op.attributes.is_none(attr::softcap)) source.define("SOFTCAP", op.attributes[attr::softcap]);
  source.define("CAUSAL", int(op.attributes[attr::is_causal]));
}
Launch& pass_inputs(Launch& launch, const Op& op, const DropoutBits& dropout) {
  launch.input(kQ, "Q").input(kK, "K").input(kV, "V").input(kGrad, "GRAD");
  if (op.has(kMask)) launch.input(kMask, "MASK");
  dropout.pass(launch);
  return launch.workspace();
}

std::unique_ptr<Kernel> prepare_rows(OpenclDevice& device, const Op& op, const Candidate& candidate) {
  const Gradients sizes(op, device);
  const DropoutBits dropout = sizes.dropout(op);
  KernelSource source("attention/attention_backward_rows.cl");
  define_tensors(source, op, candidate);
  dropout.define(source, op);
  const char* const results[] = {"DQ", "DK", "DV"};
  for (size_t i = 0; i < 3; ++i) source.tensor(results[i], rows_of(candidate.outputs[i]));
  source.define("WIDTH", sizes.width).define("VALUES", sizes.values).define("SHARED_BY", sizes.group);
  const int64_t most = std::max(sizes.width, sizes.values);
  source.define("PIECE", most <= 16 ? 16 : 64);
  const auto scale = cl_float(op.attributes[attr::scale]);
  auto kernel = std::make_unique<KernelList>(device);
  dropout.draw(*kernel, op);
  const auto over = [&](Launch& launch, int64_t rows) {
    launch.scalar(scale).index(rows).global({size_t(rows)}).local({size_t(kLocalItems)});
  };
  over(pass_inputs(kernel->add(source, "attention_backward_stats"), op, dropout), sizes.query_heads * sizes.queries);
  over(pass_inputs(kernel->add(source, "attention_backward_rows"), op, dropout).output(0, "DQ"),
       sizes.query_heads * sizes.queries);
  over(pass_inputs(kernel->add(source, "attention_backward_columns"), op, dropout).output(1, "DK").output(2, "DV"),
       sizes.key_heads * sizes.keys);
  return kernel;
}

std::unique_ptr<Kernel> prepare_mma(OpenclDevice& device, const Op& op, const Candidate& candidate,
                                    const Point& point) {
  const Gradients sizes(op, device);
  const int64_t piece = 128 / sizes.bits();
  bool pieces = sizes.width % piece == 0 && sizes.values % piece == 0;
  bool pairs = sizes.width % 2 == 0 && sizes.values % 2 == 0;
  for (size_t i = 0; i < 4; ++i) pieces = pieces && rows_aligned(rows_of(candidate.inputs[i]), piece);
  for (size_t i = 0; i < 3; ++i) pairs = pairs && rows_aligned(rows_of(candidate.outputs[i]), 2);
  const double scale = op.attributes[attr::scale];
  auto kernel = std::make_unique<KernelList>(device);
  const DropoutBits dropout = sizes.dropout(op);
  dropout.draw(*kernel, op);
  const auto add = [&](int part, std::initializer_list<int> results) {
    const char* const names[] = {"DQ", "DK", "DV"};
    KernelSource source("attention/attention_backward_mma.cl");
    define_tensors(source, op, candidate);
    dropout.define(source, op);
    for (int i : results) source.tensor(names[i], rows_of(candidate.outputs[size_t(i)]));
    point.define(source);
    source.define("PART", part).define("MATRIX_DTYPE", name_of(sizes.dtype)).define("PRODUCTS", sizes.products);
    source.define("NVIDIA_PTX", sizes.unit ? 1 : 0).define("GROUP", sizes.group);
    source.define("WIDTH", sizes.width).define("VALUES", sizes.values);
    source.define("PIECES", int(pieces)).define("PAIRS", int(pairs));
    Launch& launch = pass_inputs(kernel->add(source, "attention_backward_mma"), op, dropout);
    for (int i : results) launch.output(i, names[i]);
    launch.scalar(cl_float(scale / std::log(2.0))).scalar(cl_float(scale));
    const auto items = size_t(point["WARPS_M"] * 32);
    const int64_t rows = part == 2 ? sizes.keys : sizes.queries,
                  heads = part == 2 ? sizes.key_heads : sizes.query_heads;
    launch.global({size_t(rounded_up(rows, point["TILE_M"]) / point["TILE_M"] * heads) * items}).local({items});
  };
  add(0, {});
  add(1, {0});
  add(2, {1, 2});
  return kernel;
}

// All tensors of heads in one layout; what is read may be parts of larger ones, as queries, keys and values of one
// product are.
Candidate base_candidate(const Op& op, const Gradients& sizes, const Layout& layout) {
  Candidate base = make_candidate(op, "");
  for (size_t i = 0; i < 4; ++i) base.inputs[i] = as_it_lies(op.in(int(i)), layout);
  for (int i : {kMask, kSeed})
    if (op.has(i)) base.inputs[size_t(i)] = op.in(i).with_layout(Layout::plain(op.in(i).rank()));
  for (size_t i = 0; i < 3; ++i) base.outputs[i] = op.out(int(i)).with_layout(layout);
  base.workspace_bytes = sizes.stats_bytes() + sizes.dropout(op).bytes();
  return base;
}

void list(const Op& op, OpenclDevice& device, CandidateList& out) {
  // On GPUs a work-item a row, which reads all of a head for itself, loses to products with the scores as tensors,
  // which a plan takes where there is no kernel (expand_attention).
  if (device.capabilities().gpu) return list_attention_backward_mma(op, device, out);
  for (const Layout& layout : heads_layouts(op)) {
    Candidate candidate = base_candidate(op, Gradients(op, device), layout);
    candidate.implementation = "attention_backward_rows";
    candidate.efficiency = 0.02;
    candidate.prepare = [&device, op, candidate] { return prepare_rows(device, op, candidate); };
    out.add(std::move(candidate));
  }
}

PL_OPENCL_OP("attention_backward", list);

}  // namespace

void list_attention_backward_mma(const Op& op, OpenclDevice& device, CandidateList& out) {
  const Gradients sizes(op, device);
  const std::vector<Point> starts = sizes.starts(device);
  if (starts.empty()) {
    if (device.capabilities().gpu)
      out.refuse("opencl", concat("attention_backward_mma: heads of ", sizes.width, " and ", sizes.values,
                                  " columns need more than the device's ", device.capabilities().local_memory,
                                  " bytes of local memory, or more registers than a work-item has"));
    return;
  }
  const std::string kind = sizes.dtype == DType::f32 ? sizes.products == 3 ? "heads-fp32" : "heads-tf32" : "heads";
  const ShapeClass shapes(sizes.dtype, kind, sizes.queries, sizes.keys, sizes.width);
  const auto choices = attention_backward_family().choices(
      device, shapes, starts, [&](const Point& p) { return sizes.suits(device, p); }, out.whole_space);
  for (const Layout& layout : heads_layouts(op)) {
    const Candidate base = base_candidate(op, sizes, layout);
    attention_backward_family().add(base, shapes, choices, out, [&](Candidate& candidate, const Point& p) {
      // Nine products where the op's definition has five; the rest as of attention_mma.
      const auto used = [&](int64_t size, int tile) { return double(size) / double(rounded_up(size, tile)); };
      const double filled = (used(sizes.queries, p["TILE_M"]) * used(sizes.keys, p["TILE_N"]) +
                             used(sizes.keys, p["TILE_M"]) * used(sizes.queries, p["TILE_N"])) /
                            2;
      candidate.efficiency = 0.25 * 5 / 9 * filled;
      if (sizes.unit) candidate.busy_ms = op.schema->flops(op) * 9 / 5 / (1e9 * sizes.teraflops() * filled);
      candidate.prepare = [&device, op, candidate, p] { return prepare_mma(device, op, candidate, p); };
      return true;
    });
  }
}

}  // namespace pl::opencl

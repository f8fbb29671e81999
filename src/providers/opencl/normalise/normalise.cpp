// layer_norm, rms_norm and group_norm (kernels/normalise/).
#include <numeric>

#include "providers/opencl/addressing/places.h"
#include "providers/opencl/addressing/quads.h"
#include "providers/opencl/addressing/row_groups.h"
#include "providers/opencl/addressing/row_vectors.h"
#include "providers/opencl/addressing/rows.h"
#include "providers/opencl/normalise/norm_kernel.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {

std::optional<RowNorm> row_norm(const Op& op, const Candidate& candidate) {
  if (op.schema->kind != "layer_norm" || op.attributes[attr::centred] || op.attributes[attr::limited] || op.has(2) ||
      op.attributes[attr::normalized_shape].size() != 1)
    return std::nullopt;
  const TensorDesc& x = candidate.inputs[0];
  if (!same_memory(x, TensorDesc::dense(x.dtype, x.shape)) || !same_memory(x, candidate.outputs[0]))
    return std::nullopt;
  const DType weight = op.has(1) ? op.in(1).dtype : x.dtype;
  return RowNorm{x.shape[x.rank() - 1], op.attributes[attr::eps], x.dtype, op.has(1), weight};
}

namespace {

struct Rows {
  std::vector<int> last;  // the row's dimensions
  int64_t groups = 1;     // group norm: rows for each combination of the other dimensions
  int64_t size = 1;       // elements of a row
  int64_t count = 1;
};

Rows rows_of(const Op& op) {
  const Dims& shape = op.in(0).shape;
  const bool per_channel = op.schema->kind == "group_norm";
  const int first = per_channel ? 1 : shape.size() - int(op.attributes[attr::normalized_shape].size());
  Rows rows;
  for (int dim = first; dim < shape.size(); ++dim) {
    rows.last.push_back(dim);
    rows.size *= shape[dim];
  }
  if (per_channel) rows.groups = op.attributes[attr::num_groups];
  rows.size /= rows.groups;
  rows.count = op.in(0).elements() / rows.size;
  return rows;
}

// CENTRED and LIMITED of kernels/normalise/scale.clh.
void define_scale(const Op& op, KernelSource& source) {
  const bool rows = op.schema->kind == "layer_norm";
  source.define("CENTRED", rows ? int(op.attributes[attr::centred]) : 1);
  source.define("LIMITED", rows ? int(op.attributes[attr::limited]) : 0);
}

std::unique_ptr<Kernel> prepare_normalise(OpenclDevice& device, const Op& op, const Candidate& candidate) {
  const Rows rows = rows_of(op);
  const int group = row_group(device, rows.size);
  const Addressing dst = as_rows(candidate.outputs[0], rows.last);
  auto kernel = std::make_unique<NormKernel>(device, op, candidate);
  add_zero_padding(*kernel, dst);
  KernelSource source("normalise/normalise_rows.cl");
  source.tensor("SRC", as_rows(candidate.inputs[0], rows.last)).tensor("DST", dst);
  source.define("GROUP", group).define("ROW_DIMS", int64_t(rows.last.size()));
  define_scale(op, source);
  source.define("PER_CHANNEL", op.schema->kind == "group_norm" ? 1 : 0);
  const char* const names[] = {"", "WEIGHT", "BIAS"};
  for (int i : {1, 2})
    if (op.has(i)) source.tensor(names[i], TensorDesc::dense(op.in(i).dtype, {op.in(i).elements()}));
  Launch& launch = kernel->add(source, "normalise_rows").input(0, "SRC").output(0, "DST");
  for (int i : {1, 2})
    if (op.has(i)) launch.input(i, names[i]);
  launch.scalar(cl_float(op.attributes[attr::eps]))
      .index(rows.groups)
      .index(rows.size)
      .index(rows.count)
      .global({size_t(rows.count * group)})
      .local({size_t(group > 1 ? group : 64)});
  return kernel;
}

// Splits dimension 1 of (n, c, positions...) into groups, which name rows, and their channels.  False where blocks of
// channels and groups do not divide each other, or images are not outermost: a row's number says its group.
bool split_channels(std::vector<MemoryAxis>& axes, int64_t block, int64_t channels_of_group) {
  if (block > 1 && channels_of_group % block && block % channels_of_group) return false;
  std::vector<MemoryAxis> split;
  bool outermost = true;
  for (const MemoryAxis& axis : axes) {
    if (axis.dim == 0 && axis.size > 1 && &axis != axes.data()) return false;
    if (axis.dim != 1) {
      split.push_back({axis.dim, axis.size, axis.dim == 0 ? AxisKind::kept : AxisKind::row});
      continue;
    }
    // Channels of a group among those that one step along the axis is; the block's axis is the second of two.
    const int64_t step = outermost ? block : 1;
    const int64_t of_group = std::min(axis.size, std::max<int64_t>(1, channels_of_group / step));
    split.push_back({1, axis.size / of_group, AxisKind::kept});
    split.push_back({1, of_group, AxisKind::weighted});
    outermost = false;
  }
  axes = split;
  return true;
}

// How weights lie beside the rows: the kernel's BY_RUN and BY_ROW; nothing where in neither way.
struct Weights {
  int by_run = 0, by_row = 0;
};
std::optional<Weights> weights_beside(const RowVectors& rows) {
  const auto weighted = [](int64_t size, AxisKind kind) { return size > 1 && kind == AxisKind::weighted; };
  const bool blocks = weighted(rows.blocks, rows.blocks_kind), steps = weighted(rows.steps, rows.steps_kind);
  const bool run = weighted(rows.run, rows.run_kind);
  if (run && !steps) return Weights{1, 0};
  if (run || (blocks && steps)) return std::nullopt;
  return Weights{0, rows.across && !steps ? 1 : 0};
}

// By vectors, on CPUs.
void list_normalise_vectors(const Op& op, OpenclDevice& device, CandidateList& out) {
  if (!device.capabilities().cpu || op.in(0).elements() == 0) return;
  for (const TensorDesc& input : op.inputs)
    if (input.present && !has_quads(input.dtype)) return;
  const Rows all = rows_of(op);
  const bool per_channel = op.schema->kind == "group_norm", has_weights = op.has(1) || op.has(2);
  const int64_t of_group = per_channel ? op.in(0).shape[1] / all.groups : 0;
  add_per_layout(op, "normalise_vectors", out, [&](Candidate& candidate) {
    const TensorDesc& x = candidate.inputs[0];
    std::optional<RowVectors> rows;
    if (per_channel) {
      std::vector<MemoryAxis> axes = memory_axes(x);
      if (split_channels(axes, x.layout.block_of(1), of_group)) rows = row_vectors(device, x, std::move(axes));
    } else if (!has_weights || in_order_of_indices(x, all.last)) {
      rows = row_vectors(device, x, all.last, AxisKind::weighted);
    }
    if (!rows) return false;
    const auto weights = weights_beside(*rows);
    if (!weights && has_weights) return false;
    for (int i : {1, 2})
      if (op.has(i)) candidate.inputs[size_t(i)] = op.in(i).with_layout(Layout::plain(op.in(i).rank()));
    candidate.efficiency = 0.5;
    candidate.prepare = [&device, op, groups = all.groups, of_group, rows = *rows,
                         weights = weights.value_or(Weights())] {
      KernelSource source("normalise/normalise_vectors.cl");
      source.define("SRC_DTYPE", name_of(op.in(0).dtype)).define("DST_DTYPE", name_of(op.out().dtype));
      define_scale(op, source);
      source.define("BY_RUN", weights.by_run).define("BY_ROW", weights.by_row);
      if (op.has(1)) source.define("WEIGHT_DTYPE", name_of(op.in(1).dtype));
      if (op.has(2)) source.define("BIAS_DTYPE", name_of(op.in(2).dtype));
      rows.define(source);
      auto kernel = std::make_unique<KernelList>(device);
      Launch& launch = kernel->add(source, "normalise_vectors").input(0).output(0);
      for (int i : {1, 2})
        if (op.has(i)) launch.input(i);
      rows.walk(launch).scalar(cl_float(op.attributes[attr::eps])).index(groups).index(of_group);
      rows.global(launch, device);
      return kernel;
    };
    return true;
  });
}

// The kernel's WEIGHTS, WEIGHT_BLOCK and WEIGHT_RUN for rows by work-groups; nothing where weights lie in no such way.
struct WeightPlaces {
  int way = 0;
  int64_t block = 1, run = 1;
};
std::optional<WeightPlaces> weight_places(const RowPieces& rows) {
  const auto weighted = [](int64_t size, AxisKind kind) { return size > 1 && kind == AxisKind::weighted; };
  const bool blocks = weighted(rows.blocks, rows.blocks_kind), steps = weighted(rows.steps, rows.steps_kind);
  const bool run = weighted(rows.run, rows.run_kind);
  if (rows.inner > 1) {
    if (steps && run) return std::nullopt;
    return WeightPlaces{run ? 3 : steps ? 4 : 0};
  }
  if (steps) return std::nullopt;
  if (run) return WeightPlaces{1, rows.steps * rows.run, rows.run};
  return blocks ? WeightPlaces{2, rows.steps * rows.run, 1} : WeightPlaces{};
}

std::unique_ptr<Kernel> prepare_groups(OpenclDevice& device, const Op& op, const Candidate& candidate,
                                       const RowGroups& rows, const WeightPlaces& places, int64_t groups,
                                       int64_t of_group) {
  KernelSource source("normalise/normalise_groups.cl");
  source.define("SRC_DTYPE", name_of(op.in(0).dtype)).define("DST_DTYPE", name_of(op.out().dtype));
  define_scale(op, source);
  source.define("WEIGHTS", places.way).define("WEIGHT_BLOCK", places.block).define("WEIGHT_RUN", places.run);
  if (op.has(1)) source.define("WEIGHT_DTYPE", name_of(op.in(1).dtype));
  if (op.has(2)) source.define("BIAS_DTYPE", name_of(op.in(2).dtype));
  rows.define(source);
  const auto eps = cl_float(op.attributes[attr::eps]);
  auto kernel = std::make_unique<NormKernel>(device, op, candidate);
  if (rows.parts > 1) {
    rows.over_groups(kernel->add(source, "normalise_parts").input(0).workspace().scalar(cl_int(rows.rows)));
    rows.over_rows(kernel->add(source, "normalise_join").workspace().scalar(cl_int(rows.rows)).scalar(eps));
  }
  Launch& launch = kernel->add(source, rows.parts > 1 ? "normalise_apply" : "normalise_groups").input(0).output(0);
  for (int i : {1, 2})
    if (op.has(i)) launch.input(i);
  if (rows.parts > 1) launch.workspace();
  launch.scalar(cl_int(rows.rows));
  if (rows.parts == 1) launch.scalar(eps);
  rows.over_groups(launch.index(groups).index(of_group));
  return kernel;
}

// By work-groups, on GPUs.
void list_normalise_groups(const Op& op, OpenclDevice& device, CandidateList& out) {
  if (!offers_row_groups(device, out) || op.in(0).elements() == 0 || op.out().dtype != op.in(0).dtype) return;
  RowUse use;
  use.held = use.local = true;
  for (const TensorDesc& input : op.inputs)
    if (input.present && !has_quads(input.dtype)) return;
  const Rows all = rows_of(op);
  const bool per_channel = op.schema->kind == "group_norm", has_weights = op.has(1) || op.has(2);
  const int64_t of_group = per_channel ? op.in(0).shape[1] / all.groups : 0;
  for (const RowWay& way : row_ways(out.whole_space))
    add_per_layout(op, concat("normalise_groups", way.name), out, [&](Candidate& candidate) {
      const TensorDesc& x = candidate.inputs[0];
      std::vector<MemoryAxis> axes;
      if (per_channel) {
        axes = memory_axes(x);
        if (!split_channels(axes, x.layout.block_of(1), of_group)) return false;
      } else {
        if (has_weights && !in_order_of_indices(x, all.last)) return false;
        axes = axes_of_rows(x, all.last, AxisKind::weighted);
      }
      const auto pieces = row_pieces(x, axes);
      if (!pieces) return false;
      const auto places = weight_places(*pieces);
      if (!places && has_weights) return false;
      const auto rows = row_groups(device, x, axes, way, use);
      if (!rows) return false;
      for (int i : {1, 2})
        if (op.has(i)) candidate.inputs[size_t(i)] = op.in(i).with_layout(Layout::plain(op.in(i).rank()));
      candidate.efficiency = efficiency_of_groups(device, *rows, true);
      candidate.workspace_bytes = way.parts ? rows->stats_bytes(2) : 0;
      if (row_norm(op, candidate)) candidate.absorbed = Candidate::Absorbed::before;
      candidate.prepare = [&device, op, candidate, rows = *rows, places = places.value_or(WeightPlaces()),
                           groups = all.groups,
                           of_group] { return prepare_groups(device, op, candidate, rows, places, groups, of_group); };
      return true;
    });
}

void list_normalise(const Op& op, OpenclDevice& device, CandidateList& out) {
  list_normalise_vectors(op, device, out);
  list_normalise_groups(op, device, out);
  const int64_t row_size = op.in(0).elements() == 0 ? 1 : rows_of(op).size;
  add_per_layout(op, "normalise_rows", out, [&](Candidate& candidate) {
    for (int i : {1, 2})  // read as one run, the last dimension fastest
      if (op.has(i)) candidate.inputs[size_t(i)] = op.in(i).with_layout(Layout::plain(op.in(i).rank()));
    candidate.efficiency = efficiency_by_rows(device, op.in(0).elements(), row_size, 0.1);
    if (row_norm(op, candidate)) candidate.absorbed = Candidate::Absorbed::before;
    candidate.prepare = [&device, op, candidate] { return prepare_normalise(device, op, candidate); };
    return true;
  });
}

PL_OPENCL_OP("layer_norm", list_normalise);
PL_OPENCL_OP("group_norm", list_normalise);

}  // namespace
}  // namespace pl::opencl

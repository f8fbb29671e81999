// squeeze_excite: sums of channels, a gate for each, and the product; and its gradients (kernels/squeeze_excite/).
#include <algorithm>

#include "providers/opencl/addressing/quads.h"
#include "providers/opencl/pointwise/pointwise_text.h"
#include "providers/opencl/pool/global_pool.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

constexpr int64_t kLeastOfLane = 8;   // positions of a work-item: sums of parts cost no launch of their own
constexpr int64_t kRows = 4;          // positions that a work-item multiplies
constexpr int64_t kMostItems = 1024;  // of a work-group that makes the gates of an image

int64_t items_of(const OpenclDevice& device) {
  int64_t items = kMostItems;
  while (items > 32 && items > int64_t(device.capabilities().max_work_group)) items /= 2;
  return items;
}

// Work-items for a result of the first layer: all results at once where that leaves each a few terms.
int64_t lanes_of(int64_t squeezed, int64_t items) {
  int64_t lanes = 32;
  while (lanes > 8 && items / lanes < squeezed) lanes /= 2;
  return lanes;
}

size_t local_bytes(int64_t channels, int64_t squeezed, int64_t items) {
  return sizeof(float) * size_t(channels + squeezed + squeezed * (lanes_of(squeezed, items) + 1) + 4 * items);
}

// `weight1`: which input that is; the other weights follow it.
void define_layers(KernelSource& source, const Op& op, int weight1, int64_t items) {
  const char* const names[] = {"WEI1_DTYPE", "BIAS1_DTYPE", "WEI2_DTYPE", "BIAS2_DTYPE"};
  for (int i = 0; i < 4; ++i) source.define(names[i], name_of(op.in(weight1 + i).dtype));
  const int64_t squeezed = op.in(weight1).shape[0];
  source.define("CHANNELS", op.in(0).shape[1]).define("SQUEEZED", squeezed);
  source.define("ITEMS", items).define("LANES", lanes_of(squeezed, items));
  source.define("HIDDEN", "UNARY_" + op.attributes[attr::hidden]).define("GATE", "UNARY_" + op.attributes[attr::gate]);
}

// Where the weights lie: those of the second layer with channels innermost, (c, s, 1, 1) as s, c, 1, 1.
void place_layers(const Op& op, int weight1, Candidate& candidate) {
  for (int i = weight1; i < weight1 + 4; ++i)
    candidate.inputs[size_t(i)] = op.in(i).with_layout(Layout::plain(op.in(i).rank()));
  const TensorDesc& second = op.in(weight1 + 2);
  std::string swapped;
  for (int d = 0; d < second.rank(); ++d) swapped += char('a' + d);
  std::swap(swapped[0], swapped[1]);
  candidate.inputs[size_t(weight1 + 2)] = second.with_layout(Layout::parse(swapped));
}

// Output 0: an input times the gates, which lie from gates_at of the workspace on; `shifted`: and shifts behind them.
void add_scale(KernelList& kernel, const GlobalPool& pool, int input, int64_t gates_at, bool shifted) {
  KernelSource source("squeeze_excite/squeeze_excite_scale.cl");
  source.define("SRC_DTYPE", name_of(pool.dtype)).define("DST_DTYPE", name_of(pool.dtype)).define("ROWS", kRows);
  source.define("SHIFTED", shifted ? 1 : 0).wide_indices(pool.wide());
  Launch& product = kernel.add(source, "squeeze_excite_scale").input(input).workspace().output(0);
  for (int64_t number : {gates_at, pool.channels, pool.positions}) product.index(number);
  const std::vector<size_t> group = group_of_quads(size_t(pool.channels) / 4);
  const size_t tiles = size_t((pool.positions + kRows - 1) / kRows);
  product.global({size_t(pool.channels) / 4, tiles, size_t(pool.batch)}).local({group[0], group[1], 1});
}

std::unique_ptr<Kernel> prepare_squeeze_excite(OpenclDevice& device, const Op& op, const GlobalPool& pool) {
  auto kernel = std::make_unique<KernelList>(device);
  pool.add(*kernel, true, false, 1.0);
  const int64_t gates_at = pool.batch * pool.parts * pool.channels, items = items_of(device);

  KernelSource gate("squeeze_excite/squeeze_excite_gate.cl");
  define_layers(gate, op, 1, items);
  gate.wide_indices(pool.wide());
  Launch& gates = kernel->add(gate, "squeeze_excite_gate").workspace();
  for (int i = 1; i < 5; ++i) gates.input(i);
  gates.workspace().index(gates_at).scalar(cl_int(pool.parts)).scalar(cl_float(1.0 / double(pool.positions)));
  gates.global({size_t(pool.batch * items)}).local({size_t(items)});

  add_scale(*kernel, pool, 0, gates_at, false);
  return kernel;
}

void list_squeeze_excite(const Op& op, OpenclDevice& device, CandidateList& out) {
  const TensorDesc& x = op.in(0);
  const int64_t channels = x.shape[1], squeezed = op.in(1).shape[0];
  if (channels % 4 || squeezed == 0 || x.elements() == 0)
    return out.refuse("opencl", concat("squeeze_excite: ", channels, " channels, expected a multiple of 4"));
  if (local_bytes(channels, squeezed, items_of(device)) > device.capabilities().local_memory)
    return out.refuse("opencl", concat("squeeze_excite: ", channels, " channels do not fit the local memory"));
  Candidate candidate = make_candidate(op, "squeeze_excite");
  candidate.inputs[0] = TensorDesc::dense(x.dtype, x.shape, Layout::channels_last(x.rank()));
  candidate.outputs[0] = candidate.inputs[0];
  place_layers(op, 1, candidate);
  candidate.in_place = 1;
  const GlobalPool pool(device, candidate.inputs[0], false, kLeastOfLane);
  candidate.workspace_bytes = pool.parts_bytes() + size_t(pool.batch * channels) * sizeof(float);
  candidate.efficiency = efficiency_of_quads(device);
  candidate.prepare = [&device, op, pool] { return prepare_squeeze_excite(device, op, pool); };
  out.add(std::move(candidate));
}

PL_OPENCL_OP("squeeze_excite", list_squeeze_excite);

// ---- gradients ----

constexpr int64_t kLanesOfQuad = 16;  // work-items that share a quad's positions

std::unique_ptr<Kernel> prepare_squeeze_excite_backward(OpenclDevice& device, const Op& op, const GlobalPool& pool) {
  auto kernel = std::make_unique<KernelList>(device);
  const int64_t squeezed = op.in(2).shape[0], items = items_of(device);
  const cl_int at = cl_int(pool.batch * pool.parts * 2 * pool.channels), batch = cl_int(pool.batch),
               positions = cl_int(pool.positions);
  KernelSource source("squeeze_excite/squeeze_excite_backward.cl");
  define_layers(source, op, 2, items);
  source.define("SRC_DTYPE", name_of(op.in(0).dtype)).define("GRAD_DTYPE", name_of(op.in(1).dtype));
  const char* const results[] = {"DWEI1_DTYPE", "DBIAS1_DTYPE", "DWEI2_DTYPE", "DBIAS2_DTYPE"};
  for (int i = 0; i < 4; ++i) source.define(results[i], name_of(op.out(i + 1).dtype));
  source.define("QUADS_OF_GROUP", pool.quads).define("LANES_OF_QUAD", kLanesOfQuad);
  define_slope(source, "HIDDEN_SLOPE", PostOp::function(op.attributes[attr::hidden]));
  define_slope(source, "GATE_SLOPE", PostOp::function(op.attributes[attr::gate]));

  const size_t quads = size_t(pool.channels) / 4;
  Launch& sums = kernel->add(source, "squeeze_excite_backward_sums").input(0).input(1).workspace();
  sums.scalar(positions).scalar(cl_int(pool.positions_of_part));
  const size_t groups = size_t(divided_up(int64_t(quads), pool.quads));
  sums.global({groups * size_t(pool.quads), size_t(pool.parts * kLanesOfQuad), size_t(batch)});
  sums.local({size_t(pool.quads), size_t(kLanesOfQuad), 1});

  Launch& layers = kernel->add(source, "squeeze_excite_backward").workspace();
  for (int i = 2; i < 6; ++i) layers.input(i);
  layers.scalar(at).scalar(cl_int(pool.parts)).scalar(cl_float(1.0 / double(pool.positions)));
  layers.global({size_t(batch * items)}).local({size_t(items)});

  const std::vector<size_t> group = group_of_quads(quads);
  Launch& weights = kernel->add(source, "squeeze_excite_backward_weights").workspace();
  for (int i = 1; i < 5; ++i) weights.output(i);
  weights.scalar(at).scalar(batch).global({quads, size_t(squeezed) + 1}).local({group[0], group[1]});

  add_scale(*kernel, pool, 1, at, true);
  return kernel;
}

void list_squeeze_excite_backward(const Op& op, OpenclDevice& device, CandidateList& out) {
  const TensorDesc& x = op.in(0);
  const int64_t batch = x.shape[0], channels = x.shape[1], squeezed = op.in(2).shape[0];
  const auto refuse = [&](const std::string& why) { out.refuse("opencl", "squeeze_excite_backward: " + why); };
  if (channels % 4 || squeezed == 0 || x.elements() == 0)
    return refuse(concat(channels, " channels, expected a multiple of 4"));
  if (x.elements() >= int64_t(1) << 30) return refuse(concat(x.elements(), " elements, expected fewer than 2^30"));
  if (local_bytes(channels, squeezed, items_of(device)) + sizeof(float) * size_t(channels + squeezed) >
      device.capabilities().local_memory)
    return refuse(concat(channels, " channels do not fit the local memory"));
  Candidate candidate = make_candidate(op, "squeeze_excite_backward");
  candidate.inputs[0] = TensorDesc::dense(x.dtype, x.shape, Layout::channels_last(x.rank()));
  candidate.inputs[1] = candidate.outputs[0] = candidate.inputs[0];
  place_layers(op, 2, candidate);
  for (int i = 1; i < 5; ++i) candidate.outputs[size_t(i)] = op.out(i).with_layout(Layout::plain(op.out(i).rank()));
  candidate.in_place = 2;
  const GlobalPool pool(device, candidate.inputs[0], false, kLeastOfLane);
  candidate.workspace_bytes = size_t(batch * (2 * (pool.parts + 2) * channels + 2 * squeezed)) * sizeof(float);
  candidate.efficiency = efficiency_of_quads(device);
  candidate.prepare = [&device, op, pool] { return prepare_squeeze_excite_backward(device, op, pool); };
  out.add(std::move(candidate));
}

PL_OPENCL_OP("squeeze_excite_backward", list_squeeze_excite_backward);

}  // namespace
}  // namespace pl::opencl

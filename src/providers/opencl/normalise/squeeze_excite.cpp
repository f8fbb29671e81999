// squeeze_excite: sums of channels, a gate for each, and the product (kernels/squeeze_excite/).
#include <algorithm>

#include "providers/opencl/addressing/quads.h"
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

std::unique_ptr<Kernel> prepare_squeeze_excite(OpenclDevice& device, const Op& op, const GlobalPool& pool) {
  auto kernel = std::make_unique<KernelList>(device);
  pool.add(*kernel, true, false, 1.0);
  const int64_t gates_at = pool.batch * pool.parts * pool.channels, items = items_of(device);

  KernelSource gate("squeeze_excite/squeeze_excite_gate.cl");
  const char* const names[] = {"", "WEI1_DTYPE", "BIAS1_DTYPE", "WEI2_DTYPE", "BIAS2_DTYPE"};
  for (int i = 1; i < 5; ++i) gate.define(names[i], name_of(op.in(i).dtype));
  gate.define("CHANNELS", pool.channels).define("SQUEEZED", op.in(1).shape[0]);
  gate.define("ITEMS", items).define("LANES", lanes_of(op.in(1).shape[0], items));
  gate.define("HIDDEN", "UNARY_" + op.attributes[attr::hidden]).define("GATE", "UNARY_" + op.attributes[attr::gate]);
  const bool wide = pool.batch * pool.positions * pool.channels >= int64_t(1) << 30;
  if (wide) gate.define("PL_INDEX64", 1);
  const auto index = [wide](Launch& launch, int64_t number) -> Launch& {
    return wide ? launch.scalar(cl_long(number)) : launch.scalar(cl_int(number));
  };
  Launch& gates = kernel->add(gate, "squeeze_excite_gate").workspace();
  for (int i = 1; i < 5; ++i) gates.input(i);
  index(gates.workspace(), gates_at).scalar(cl_int(pool.parts)).scalar(cl_float(1.0 / double(pool.positions)));
  gates.global({size_t(pool.batch * items)}).local({size_t(items)});

  KernelSource scale("squeeze_excite/squeeze_excite_scale.cl");
  scale.define("SRC_DTYPE", name_of(pool.dtype)).define("DST_DTYPE", name_of(pool.dtype)).define("ROWS", kRows);
  if (wide) scale.define("PL_INDEX64", 1);
  Launch& product = kernel->add(scale, "squeeze_excite_scale").input(0).workspace().output(0);
  index(index(index(product, gates_at), pool.channels), pool.positions);
  const std::vector<size_t> group = group_of_quads(size_t(pool.channels) / 4);
  const size_t tiles = size_t((pool.positions + kRows - 1) / kRows);
  product.global({size_t(pool.channels) / 4, tiles, size_t(pool.batch)}).local({group[0], group[1], 1});
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
  for (int i : {1, 2, 4}) candidate.inputs[size_t(i)] = op.in(i).with_layout(Layout::plain(op.in(i).rank()));
  // The channels of the second layer innermost: (c, s, 1, 1) as s, c, 1, 1.
  std::string swapped;
  for (int d = 0; d < op.in(3).rank(); ++d) swapped += char('a' + d);
  std::swap(swapped[0], swapped[1]);
  candidate.inputs[3] = op.in(3).with_layout(Layout::parse(swapped));
  candidate.in_place = 1;
  const GlobalPool pool(device, candidate.inputs[0], false, kLeastOfLane);
  candidate.workspace_bytes = pool.parts_bytes() + size_t(pool.batch * channels) * sizeof(float);
  candidate.efficiency = efficiency_of_quads(device);
  candidate.prepare = [&device, op, pool] { return prepare_squeeze_excite(device, op, pool); };
  out.add(std::move(candidate));
}

PL_OPENCL_OP("squeeze_excite", list_squeeze_excite);

}  // namespace
}  // namespace pl::opencl

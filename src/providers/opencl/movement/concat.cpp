// concat (kernels/concat/): rows side by side where tensors have them, on CPUs by runs of them, else a copy for each
// input.
#include <algorithm>
#include <optional>
#include <vector>

#include "providers/opencl/addressing/places.h"
#include "providers/opencl/addressing/quads.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

std::unique_ptr<Kernel> prepare_concat(OpenclDevice& device, const Op& op, const Candidate& candidate) {
  const int dim = int(op.attributes[attr::dim]);
  const Addressing dst(candidate.outputs[0]);
  auto kernel = std::make_unique<KernelList>(device);
  add_zero_padding(*kernel, dst);
  int64_t shift = 0;
  for (size_t i = 0; i < candidate.inputs.size(); ++i) {
    const Addressing src(candidate.inputs[i]);
    KernelSource source("concat/concat_copy.cl");
    source.tensor("SRC", src).tensor("DST", dst);
    source.define("DST_SHIFTED",
                  offset_text("DST", dst.rank, [&](int d) { return own_index(d) + (d == dim ? " + shift" : ""); }));
    Launch& launch = kernel->add(source, "concat_copy").input(int(i), "SRC").output(0, "DST").index(shift);
    over_places(launch, src);
    shift += src.dims[size_t(dim)];
  }
  return kernel;
}

// The tensors as stacks of rows of bytes that lie side by side in the result.
struct Rows {
  int64_t rows = 0;
  std::vector<int64_t> bytes;  // of a row, by input
  int64_t pitch = 0;           // of the result
  int64_t piece = 16;          // bytes that divide all of them
};

// The bytes of a dense tensor's dimension with all that lies inside of it; 0 where padding does.
int64_t row_bytes(const TensorDesc& desc, int dim) {
  if (!desc.is_dense() || desc.has_padding()) return 0;
  const Addressing a(desc);
  int64_t inside = 1;  // what lies within a step along the dimension's outer part
  for (const Addressing::Inner& inner : a.inner) inside *= inner.size;
  const auto place = std::find(a.order.begin(), a.order.end(), dim);
  for (auto it = place + 1; it != a.order.end(); ++it) inside *= a.dims[size_t(*it)] / a.block(*it);
  return inside * (a.dims[size_t(dim)] / a.block(dim)) * int64_t(size_of(desc.dtype));
}

// Nothing where some tensor has padding, or more pieces than an unsigned number counts.  `runs`: in elements of up to
// four bytes, as a caller's memory on a CPU is aligned to its elements alone.
std::optional<Rows> rows_of(const Op& op, const Candidate& candidate, bool runs) {
  const int dim = int(op.attributes[attr::dim]);
  Rows rows;
  if (runs) rows.piece = std::min<int64_t>(int64_t(size_of(candidate.outputs[0].dtype)), 4);
  rows.pitch = row_bytes(candidate.outputs[0], dim);
  if (rows.pitch == 0 || candidate.outputs[0].elements() == 0) return std::nullopt;
  rows.rows = int64_t(candidate.outputs[0].size_bytes()) / rows.pitch;
  for (const TensorDesc& input : candidate.inputs) {
    rows.bytes.push_back(input.elements() == 0 ? 0 : row_bytes(input, dim));
    if (rows.bytes.back() == 0 && input.elements() > 0) return std::nullopt;
    while (rows.bytes.back() % rows.piece) rows.piece /= 2;
  }
  if (int64_t(candidate.outputs[0].size_bytes()) / rows.piece >= int64_t(1) << 31) return std::nullopt;
  return rows;
}

// Parts of a row that are copied apart, so that all processors have some, each of a page or more.
size_t chunks_of(const OpenclDevice& device, const Rows& rows) {
  const int64_t wanted = 8 * int64_t(device.capabilities().compute_units) / rows.rows;
  return size_t(std::max<int64_t>(1, std::min(wanted, rows.pitch / 4096)));
}

// `runs`: concat_runs in place of concat_rows.
std::unique_ptr<Kernel> prepare_rows(OpenclDevice& device, Rows rows, bool runs) {
  constexpr size_t kMost = 8;  // inputs of a launch
  const char* const types[] = {"uchar", "ushort", "uint", "uint2", "uint4"};
  int type = 0;
  while (1 << type < rows.piece) ++type;
  auto kernel = std::make_unique<KernelList>(device);
  int64_t first = 0;
  for (size_t i = 0; i < rows.bytes.size();) {
    std::vector<int> inputs;
    cl_uint ends[kMost] = {};
    cl_uint end = 0;
    for (; i < rows.bytes.size() && inputs.size() < kMost; ++i) {
      if (rows.bytes[i] == 0) continue;
      end += cl_uint(rows.bytes[i] / rows.piece);
      ends[inputs.size()] = end;
      inputs.push_back(int(i));
    }
    if (inputs.empty()) break;
    std::fill(ends + inputs.size(), ends + kMost, end);
    KernelSource source(runs ? "concat/concat_runs.cl" : "concat/concat_rows.cl");
    source.define(runs ? "ELEMENT" : "PIECE", types[type]).define("INPUTS", int64_t(inputs.size()));
    Launch& launch = kernel->add(source, runs ? "concat_runs" : "concat_rows").output(0).scalar(cl_uint(first));
    launch.scalar(cl_uint(rows.pitch / rows.piece)).scalar(cl_uint(rows.rows)).raw(ends, sizeof ends);
    const size_t chunks = runs ? chunks_of(device, rows) : 1;
    if (runs) launch.scalar(cl_uint(chunks));
    for (int input : inputs) launch.input(input);
    const std::vector<size_t> sizes{chunks, size_t(rows.rows)};
    if (runs)
      launch.global(sizes).local(group_of_vectors(device, sizes));
    else
      launch.global({size_t(rows.rows) * end}).local({128});
    first += end;
  }
  return kernel;
}

void list_rows(const Op& op, OpenclDevice& device, bool runs, CandidateList& out) {
  add_per_layout(op, runs ? "concat_runs" : "concat_rows", out, [&](Candidate& candidate) {
    for (size_t i = 0; i < candidate.inputs.size(); ++i)
      candidate.inputs[i] = op.in(int(i)).with_layout(candidate.outputs[0].layout);
    const auto rows = rows_of(op, candidate, runs);
    if (!rows) return false;
    candidate.efficiency = 0.8;
    candidate.prepare = [&device, rows = *rows, runs] { return prepare_rows(device, rows, runs); };
    return true;
  });
}

void list_concat(const Op& op, OpenclDevice& device, CandidateList& out) {
  list_rows(op, device, device.capabilities().cpu, out);
  add_per_layout(op, "concat_copy", out, [&](Candidate& candidate) {
    for (size_t i = 0; i < candidate.inputs.size(); ++i)
      candidate.inputs[i] = op.in(int(i)).with_layout(candidate.outputs[0].layout);
    candidate.efficiency = 0.4;
    candidate.prepare = [&device, op, candidate] { return prepare_concat(device, op, candidate); };
    return true;
  });
}

PL_OPENCL_OP("concat", list_concat);

}  // namespace
}  // namespace pl::opencl

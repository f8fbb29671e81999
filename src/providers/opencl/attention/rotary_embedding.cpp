// rotary_embedding: pieces of columns where rows allow it, else an element a work-item (kernels/attention/rotary_*.cl).
#include <algorithm>
#include <functional>

#include "providers/head_layouts.h"
#include "providers/opencl/addressing/places.h"
#include "providers/opencl/addressing/rows.h"
#include "providers/opencl/attention/heads.h"
#include "providers/opencl/pointwise/pointwise_axes.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

int64_t turned_columns(const Op& op) { return op.in(1).shape[op.in(1).rank() - 1]; }

// The candidate's tensors as rows of columns, in the order of kernels' parameters.
struct Rows {
  Addressing src, cosines, sines, dst;

  Rows(const Op& op, const Candidate& candidate) {
    const int last = op.in(0).rank() - 1;
    Dims tables = op.in(0).shape;
    tables[last] = turned_columns(op);
    src = as_rows(Addressing(candidate.inputs[0]), {last});
    cosines = as_rows(broadcast_to(candidate.inputs[1], tables), {last});
    sines = as_rows(broadcast_to(candidate.inputs[2], tables), {last});
    dst = as_rows(Addressing(candidate.outputs[0]), {last});
  }
};

std::unique_ptr<Kernel> prepare_rotary_embedding(OpenclDevice& device, const Op& op, const Candidate& candidate) {
  const auto [src, cosines, sines, dst] = Rows(op, candidate);
  KernelSource source("attention/rotary_rows.cl");
  source.tensor("SRC", src).tensor("DST", dst).tensor("COSINES", cosines).tensor("SINES", sines);
  source.define("TURNED", turned_columns(op)).define("INTERLEAVED", int(op.attributes[attr::interleaved]));
  const int64_t places = dst.places();
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "rotary_rows").input(0, "SRC").input(1, "COSINES").input(2, "SINES");
  launch.output(0, "DST").index(places);
  launch.global({size_t(places)}).local({64});
  return kernel;
}

// What kernels/attention/rotary_pieces.cl takes.
struct PieceRows {
  struct {
    cl_uint offsets[4] = {}, strides[4][3] = {};
  } at;
  int64_t counts[3] = {1, 1, 1};  // rows that each of a row's numbers counts
  int piece = 0;
};

// False where columns do not lie side by side, or rows are named by more than three numbers.
bool piece_rows_of(const Op& op, const Candidate& candidate, PieceRows& out) {
  const Rows rows(op, candidate);
  const Addressing* const tensors[] = {&rows.src, &rows.cosines, &rows.sines, &rows.dst};
  const int64_t half = turned_columns(op) / 2, width = rows.dst.dims[7];
  std::vector<int> named;  // dimensions of more than one row, as they lie in the result
  for (int d = 0; d < 7; ++d)
    if (rows.dst.dims[size_t(d)] > 1) named.push_back(d);
  if (named.size() > 3 || half == 0) return false;
  std::sort(named.begin(), named.end(),
            [&](int a, int b) { return rows.dst.strides[size_t(a)] > rows.dst.strides[size_t(b)]; });
  const size_t front = 3 - named.size();
  for (size_t i = 0; i < named.size(); ++i) out.counts[front + i] = rows.dst.dims[size_t(named[i])];
  out.piece = 8;
  for (size_t t = 0; t < 4; ++t) {
    const Addressing& tensor = *tensors[t];
    if (tensor.strides[7] != 1 || !tensor.inner.empty() || !narrow(tensor)) return false;
    const auto bytes = int64_t(size_of(tensor.dtype));
    const auto fits = [&](int64_t run) { out.piece = std::min(out.piece, run ? piece_of(run, bytes) : out.piece); };
    fits(half), fits(width - 2 * half), fits(tensor.offset);
    out.at.offsets[t] = cl_uint(tensor.offset);
    for (size_t i = 0; i < named.size(); ++i) {
      const int64_t stride = tensor.strides[size_t(named[i])];
      fits(stride);
      out.at.strides[t][front + i] = cl_uint(stride);
    }
  }
  return out.piece > 1;
}

std::unique_ptr<Kernel> prepare_pieces(OpenclDevice& device, const Op& op, const PieceRows& rows) {
  const int64_t half = turned_columns(op) / 2, rest = op.out().shape[op.out().rank() - 1] - 2 * half;
  const bool interleaved = op.attributes[attr::interleaved];
  const int64_t pieces = ((interleaved ? 2 * half : half) + rest) / rows.piece;
  const int64_t places = rows.counts[0] * rows.counts[1] * rows.counts[2] * pieces;
  KernelSource source("attention/rotary_pieces.cl");
  source.define("PIECE", rows.piece).define("HALF", half).define("REST", rest);
  source.define("INTERLEAVED", int(interleaved));
  source.define("SRC_DTYPE", name_of(op.in(0).dtype)).define("DST_DTYPE", name_of(op.out().dtype));
  source.define("COSINES_DTYPE", name_of(op.in(1).dtype)).define("SINES_DTYPE", name_of(op.in(2).dtype));
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "rotary_pieces").input(0).input(1).input(2).output(0).scalar(rows.at);
  launch.scalar(Divisor(pieces)).scalar(Divisor(rows.counts[2])).scalar(Divisor(rows.counts[1]));
  launch.scalar(cl_uint(places)).global({size_t(places)}).local({128});
  return kernel;
}

// Adds a candidate for each order of heads and words that x may lie in, also as a strided view, with each that the
// result may lie in, and for every other layout of both; tables are plain.  finish: whether the kernel takes it.
void add_rotary(const Op& op, const std::string& implementation, CandidateList& out,
                const std::function<bool(Candidate&)>& finish) {
  const TensorDesc& x = op.in(0);
  const std::vector<Layout> heads = head_layouts(x.shape);
  std::vector<AttentionLayouts> pairs = attention_layouts(x.shape);
  for (const Layout& layout : layouts_to_try(op, x))
    if (std::find(heads.begin(), heads.end(), layout) == heads.end()) pairs.push_back({layout, layout});
  for (const auto& [from, to] : pairs) {
    Candidate candidate = make_candidate(op, implementation);
    candidate.inputs[0] = as_it_lies(x, from);
    for (int i = 1; i < 3; ++i) candidate.inputs[size_t(i)] = op.in(i).with_layout(Layout::plain(op.in(i).rank()));
    candidate.outputs[0] = op.out().with_layout(to);
    if (finish(candidate)) out.add(std::move(candidate));
  }
}

void list_pieces(const Op& op, OpenclDevice& device, CandidateList& out) {
  if (op.out().elements() == 0) return;
  add_rotary(op, "rotary_pieces", out, [&](Candidate& candidate) {
    PieceRows rows;
    if (!piece_rows_of(op, candidate, rows)) return false;
    candidate.efficiency = 0.8;
    candidate.prepare = [&device, op, rows] { return prepare_pieces(device, op, rows); };
    return true;
  });
}

void list_rotary(const Op& op, OpenclDevice& device, CandidateList& out) {
  list_pieces(op, device, out);
  add_rotary(op, "rotary_rows", out, [&](Candidate& candidate) {
    candidate.efficiency = 0.3;
    candidate.prepare = [&device, op, candidate] { return prepare_rotary_embedding(device, op, candidate); };
    return true;
  });
}

PL_OPENCL_OP("rotary_embedding", list_rotary);

}  // namespace
}  // namespace pl::opencl

// scatter and scatter_nd (kernels/scatter/): the numbers of the slices that the index names are sorted, rows of the
// index apart; then each result finds what reaches it, in the order of src.
#include <functional>
#include <string>
#include <vector>

#include "providers/opencl/addressing/places.h"
#include "providers/opencl/movement/named_slices.h"
#include "providers/opencl/reduce/row_sort.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

// The op in the terms of the kernels.
struct Scatter {
  NamedSlices index;
  std::vector<cl_int> row, place;  // by dimension of x: steps of the rows of the index, of the slices
  TensorDesc src;                  // with one dimension for `index.count`
  int picked = 0;                  // that dimension
  std::vector<int> beside;         // by dimension of src, of x that it goes with; -1: picked

  explicit Scatter(const Op& op) : row(size_t(op.in(0).rank()), 0), place(row), src(op.in(2)) {
    if (op.schema->kind == "scatter")
      along(op);
    else
      into_first(op);
  }

 private:
  void along(const Op& op) {
    const TensorDesc &x = op.in(0), &named = op.in(1);
    const int dim = int(op.attributes[attr::dim]);
    int64_t step = 1;
    for (int d = x.rank() - 1; d >= 0; --d) {
      beside.insert(beside.begin(), d == dim ? -1 : d);
      if (d == dim) continue;
      (d < dim ? index.outer : index.inner) *= named.shape[d];
      if (named.shape[d] > 1) row[size_t(d)] = cl_int(step);
      step *= named.shape[d];
    }
    picked = dim;
    index.count = src.shape[dim];
    index.sizes = {cl_int(x.shape[dim])};
    index.steps = {1};
    place[size_t(dim)] = 1;
  }

  void into_first(const Op& op) {
    const TensorDesc &x = op.in(0), &named = op.in(1);
    const auto depth = int(named.shape[named.rank() - 1]);
    index.count = named.elements() / depth;
    int64_t step = 1;
    for (int d = depth - 1; d >= 0; --d) {
      index.sizes.insert(index.sizes.begin(), cl_int(x.shape[d]));
      index.steps.insert(index.steps.begin(), cl_int(step));
      place[size_t(d)] = cl_int(step);
      step *= x.shape[d];
    }
    Dims shape{index.count};
    beside = {-1};
    for (int d = depth; d < x.rank(); ++d) {
      shape.push_back(x.shape[d]);
      beside.push_back(d);
    }
    src = TensorDesc::dense(src.dtype, shape);
  }
};

int64_t reduction(const Op& op) {
  const std::string& reduce = op.attributes[attr::reduce];
  return reduce == "none" ? 0 : reduce == "sum" ? 1 : reduce == "prod" ? 2 : reduce == "amax" ? 3 : 4;
}

// "i0 * (s).row[0] + i2 * (s).row[2]", of the steps that are not zero.
std::string linear(const char* member, const std::vector<cl_int>& steps) {
  std::string text = "(0";
  for (size_t d = 0; d < steps.size(); ++d)
    if (steps[d]) text += concat(" + i", d, " * (s).", member, "[", d, "]");
  return text + ")";
}

std::unique_ptr<Kernel> prepare_scatter(OpenclDevice& device, const Op& op, const Candidate& candidate,
                                        const Scatter& scatter, const RowSort& sort) {
  auto kernel = std::make_unique<KernelList>(device);
  scatter.index.add_numbers(*kernel, 1, op.in(1).dtype, sort.first_number());
  const int64_t lists = sort.add_lists(*kernel, device);
  const Addressing dst(candidate.outputs[0]);
  const TensorDesc src = op.schema->kind == "scatter" ? candidate.inputs[2] : scatter.src;
  KernelSource source("scatter/scatter_sorted.cl");
  source.tensor("X", candidate.inputs[0]).tensor("SRC", src).tensor("DST", dst);
  source.define("REDUCE", reduction(op)).define("INTEGERS", is_floating(src.dtype) ? 0 : 1);
  std::string reached = "1";
  for (size_t d = 0; d < scatter.beside.size(); ++d)
    if (scatter.beside[d] >= 0) reached += concat(" && i", scatter.beside[d], " < SRC_DIM(", d, ")");
  source.define("REACHED", "(" + reached + ")");
  source.define("ROW_OF(s)", linear("row", scatter.row)).define("PLACE_OF_SLICE(s)", linear("place", scatter.place));
  source.define("SRC_TAKEN", offset_text("SRC", src.rank(), [&](int d) -> std::string {
                  const int own = scatter.beside[size_t(d)];
                  return own < 0 ? "picked" : own_index(own);
                }));
  const auto rank = size_t(source.most_dimensions());
  std::vector<cl_int> steps = scatter.row;
  steps.resize(rank, 0);
  steps.insert(steps.end(), scatter.place.begin(), scatter.place.end());
  steps.resize(2 * rank, 0);
  Launch& launch = kernel->add(source, "scatter_sorted");
  launch.input(0, "X").input(2, "SRC").output(0, "DST").workspace().scalar(cl_ulong(lists));
  launch.scalar(cl_uint(scatter.index.count)).raw(steps.data(), steps.size() * sizeof(cl_int));
  over_places(launch, dst);
  return kernel;
}

void list_scatter(const Op& op, OpenclDevice& device, CandidateList& out) {
  constexpr int64_t kMost = int64_t(1) << 31;
  const Scatter scatter(op);
  const RowSort sort(DType::s32, scatter.index.rows(), scatter.index.count, scatter.index.count, false);
  if (!sort.possible() || op.in(0).elements() >= kMost || op.in(2).elements() >= kMost)
    return out.refuse("opencl", concat(op.schema->name, ": x has shape ", op.in(0).shape, " and src ", op.in(2).shape,
                                       ", expected less than 2^31 elements, and 2^27 indices in a row"));
  add_per_layout(op, "scatter_sorted", out, [&](Candidate& candidate) {
    candidate.inputs[1] = op.in(1).with_layout(Layout::plain(op.in(1).rank()));
    const bool alike = op.schema->kind == "scatter";  // src has the dimensions of x
    candidate.inputs[2] = op.in(2).with_layout(alike ? candidate.inputs[0].layout : Layout::plain(op.in(2).rank()));
    candidate.efficiency = device.capabilities().cpu ? 0.02 : 0.3;
    candidate.workspace_bytes = sort.lists_workspace_bytes();
    candidate.prepare = [&device, op, candidate, scatter, sort] {
      return prepare_scatter(device, op, candidate, scatter, sort);
    };
    return true;
  });
}

PL_OPENCL_OP("scatter", list_scatter);
PL_OPENCL_OP("scatter_nd", list_scatter);

}  // namespace
}  // namespace pl::opencl

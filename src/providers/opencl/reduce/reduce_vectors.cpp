#include "providers/opencl/reduce/reduce_vectors.h"

#include <map>

#include "providers/opencl/addressing/quads.h"
#include "providers/opencl/addressing/row_groups.h"
#include "providers/opencl/addressing/row_vectors.h"
#include "providers/opencl/pointwise/joinable_copy.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

struct Function {  // values of the kernel's macros
  int fold, element, root;
};

const Function* find(const std::string& name) {
  static const std::map<std::string, Function> functions = {
      {"sum", {0, 0, 0}},
      {"mean", {0, 0, 0}},
      {"amax", {1, 0, 0}},
      {"amin", {2, 0, 0}},
      {"reduce_l1", {0, 1, 0}},
      {"reduce_l2", {0, 2, 1}},
      {"reduce_sum_square", {0, 2, 0}},
  };
  const auto found = functions.find(name);
  return found == functions.end() ? nullptr : &found->second;
}

}  // namespace

void add_reduce_vectors(const Op& op, OpenclDevice& device, const std::string& function, const std::vector<int>& dims,
                        bool keepdim, CandidateList& out) {
  const TensorDesc& x = op.in(0);
  const Function* what = find(function);
  if (!what || !has_quads(x.dtype) || !has_quads(op.out().dtype)) return;
  int64_t count = 1;
  for (int dim : dims) count *= x.shape[dim];
  const float divisor = function == "mean" ? float(count) : 1.0f;
  const auto source_of = [what = *what, from = x.dtype, to = op.out().dtype](const char* file) {
    KernelSource source(file);
    source.define("SRC_DTYPE", name_of(from)).define("DST_DTYPE", name_of(to));
    return source.define("FOLD", what.fold).define("ELEMENT", what.element).define("ROOT", what.root);
  };
  for (const Layout& layout : layouts_to_try(op, x)) {
    Candidate candidate = make_candidate(op, "reduce_vectors");
    candidate.inputs[0] = TensorDesc::dense(x.dtype, x.shape, layout);
    bool same = keepdim;  // the result in the layout of the input, unless blocks of one element would be padding
    for (int dim : dims) same &= layout.block_of(dim) == 1;
    candidate.outputs[0] =
        TensorDesc::dense(op.out().dtype, op.out().shape, same ? layout : Layout::plain(op.out().rank()));
    if (!in_order_of_rows(candidate.outputs[0], candidate.inputs[0], dims, keepdim)) continue;
    if (const auto rows = row_vectors(device, candidate.inputs[0], dims)) {
      candidate.efficiency = 0.5;
      candidate.prepare = [&device, rows = *rows, source_of, divisor] {
        KernelSource source = source_of("reduce/reduce_vectors.cl");
        rows.define(source);
        auto kernel = std::make_unique<KernelList>(device);
        Launch& launch = kernel->add(source, "reduce_vectors").input(0).output(0);
        rows.walk(launch).scalar(cl_float(divisor));
        rows.global(launch, device);
        return kernel;
      };
      out.add(candidate);
    }
    if (!offers_row_groups(device, out)) continue;
    for (const RowWay& way : row_ways(out.whole_space)) {
      const TensorDesc& from = candidate.inputs[0];
      const auto rows = row_groups(device, from, axes_of_rows(from, dims, AxisKind::row), way, {});
      if (!rows) continue;
      candidate.implementation = concat("reduce_groups", way.name);
      candidate.efficiency = efficiency_of_groups(device, *rows, false);
      candidate.workspace_bytes = way.parts ? rows->stats_bytes(1) : 0;
      const bool adds = function == "sum";
      candidate.ends_later = adds && way.parts;
      candidate.prepare = [&device, rows = *rows, source_of, divisor, adds,
                           to = op.out().dtype]() -> std::unique_ptr<Kernel> {
        KernelSource source = source_of("reduce/reduce_groups.cl");
        rows.define(source);
        const cl_int count = cl_int(rows.rows);
        if (rows.parts == 1) {
          auto kernel = std::make_unique<KernelList>(device);
          Launch& launch = kernel->add(source, "reduce_groups").input(0).output(0);
          rows.over_groups(launch.scalar(count).scalar(cl_float(divisor)));
          return kernel;
        }
        std::vector<std::optional<ComputationPlan>> ends;
        if (adds) ends.push_back(plan_joinable_sum(device, rows.rows, 0, rows.parts, rows.rows, to));
        auto kernel = std::make_unique<KernelInParts>(device, std::move(ends));
        rows.over_groups(kernel->sums.add(source, "reduce_parts").input(0).workspace().scalar(count));
        Launch& join = kernel->join.add(source, "reduce_join").workspace().output(0);
        rows.over_rows(join.scalar(count).scalar(cl_float(divisor)));
        return kernel;
      };
      out.add(candidate);
    }
  }
}

}  // namespace pl::opencl

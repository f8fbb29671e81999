// scaled_dot_product_attention (kernels/attention/).
#include <algorithm>

#include "providers/opencl/addressing/rows.h"
#include "providers/opencl/attention/attention_few.h"
#include "providers/opencl/attention/attention_mma.h"
#include "providers/opencl/attention/heads.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

constexpr double kItemsOfUnit = 2048;  // that compute at a time

std::unique_ptr<Kernel> prepare_attention(OpenclDevice& device, const Op& op, const Candidate& candidate) {
  const Addressing dst = as_rows(Addressing(candidate.outputs[0]), {op.out().rank() - 1});
  KernelSource source("attention/attention_rows.cl");
  define_attention(source, op, candidate);
  const DropoutBits dropout(op, 4, 0);
  dropout.define(source, op);
  const int64_t width = dst.dims[7];
  source.define("VALUES", width <= 1 ? 1 : width <= 4 ? 4 : width <= 16 ? 16 : 64);
  const int64_t rows = dst.places() / dst.padded(7);
  auto kernel = std::make_unique<KernelList>(device);
  dropout.draw(*kernel, op);
  Launch& launch = kernel->add(source, "attention_rows").input(0, "Q").input(1, "K").input(2, "V");
  if (op.has(3)) launch.input(3, "MASK");
  dropout.pass(launch);
  if (op.has(5)) launch.input(5, "SINKS");
  launch.output(0, "DST").scalar(cl_float(op.attributes[attr::scale])).index(rows);
  launch.global({size_t(rows)}).local({32});
  return kernel;
}

void list_attention(const Op& op, OpenclDevice& device, CandidateList& out) {
  const size_t before = out.candidates.size();
  if (device.capabilities().gpu) {
    list_attention_few(op, device, out);
    list_attention_mma(op, device, out);
  }
  if (out.candidates.size() > before) return;  // rows took a hundred times as long (H200, bench/gpu.py)
  add_per_layout(op, "attention_rows", out, [&](Candidate& candidate) {
    const Layout layout = candidate.inputs[0].layout;
    for (int i = 0; i < 3; ++i) candidate.inputs[size_t(i)] = as_it_lies(op.in(i), layout);
    for (int i : {3, 4, 5})
      if (op.has(i)) candidate.inputs[size_t(i)] = op.in(i).with_layout(Layout::plain(op.in(i).rank()));
    candidate.workspace_bytes = DropoutBits(op, 4, 0).bytes();
    candidate.efficiency = 0.02;
    if (!device.capabilities().cpu) {  // a work-item a query
      const TensorDesc& y = op.out();
      const double queries = double(y.elements()) / double(std::max<int64_t>(1, y.shape[y.rank() - 1]));
      candidate.efficiency *= std::min(1.0, queries / (kItemsOfUnit * double(device.capabilities().compute_units)));
    }
    candidate.prepare = [&device, op, candidate] { return prepare_attention(device, op, candidate); };
    return true;
  });
}

PL_OPENCL_OP("attention", list_attention);

}  // namespace
}  // namespace pl::opencl

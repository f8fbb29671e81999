// selective_scan and its gradients (kernels/selective_scan/).
#include "providers/opencl/addressing/rows.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

std::unique_ptr<Kernel> prepare_selective_scan(OpenclDevice& device, const Op& op, const Candidate& candidate) {
  const Addressing y = as_rows(candidate.outputs[0], {1, 2});
  KernelSource source("selective_scan/selective_scan.cl");
  source.tensor("SRC", as_rows(candidate.inputs[0], {1, 2})).tensor("DELTA", as_rows(candidate.inputs[1], {1, 2}));
  source.tensor("RATES", as_rows(candidate.inputs[2], {0, 1})).tensor("TAKEN", as_rows(candidate.inputs[3], {1, 2}));
  source.tensor("GIVEN", as_rows(candidate.inputs[4], {1, 2})).tensor("DST", y);
  source.define("STATES", op.in(2).shape[1]);
  const int64_t channels = y.places() / y.padded(7);
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "selective_scan").input(0, "SRC").input(1, "DELTA").input(2, "RATES");
  launch.input(3, "TAKEN").input(4, "GIVEN").output(0, "DST").index(channels);
  launch.global({size_t(channels)}).local({32});
  return kernel;
}

// Whether a work-item's arrays of states fit its memory; else refuses.
bool fits(const Op& op, CandidateList& out) {
  constexpr int64_t kMostStates = 256;
  const int64_t states = op.in(2).shape[1];
  if (states >= 1 && states <= kMostStates) return true;
  out.refuse("opencl", concat(op.schema->name, ": ", states, " states, expected 1 to ", kMostStates));
  return false;
}

void list_scan(const Op& op, OpenclDevice& device, CandidateList& out) {
  if (!fits(op, out)) return;
  add_per_layout(op, "selective_scan", out, [&](Candidate& candidate) {
    for (int i = 2; i < 5; ++i) candidate.inputs[size_t(i)] = op.in(i).with_layout(Layout::plain(op.in(i).rank()));
    candidate.efficiency = 0.1;
    candidate.prepare = [&device, op, candidate] { return prepare_selective_scan(device, op, candidate); };
    return true;
  });
}

// What the parts of the gradients by a, b and c are.
struct Parts {
  int64_t images, channels, steps, states;
  explicit Parts(const Op& op)
      : images(op.in(0).shape[0]), channels(op.in(0).shape[1]), steps(op.in(0).shape[2]), states(op.in(2).shape[1]) {}
  int64_t of_steps() const { return images * steps * states * channels; }  // of c, and then of b
  int64_t of_rates() const { return images * states * channels; }
  int64_t all() const { return 2 * of_steps() + of_rates(); }
};

std::unique_ptr<Kernel> prepare_backward(OpenclDevice& device, const Op& op, const Candidate& candidate) {
  KernelSource source("selective_scan/selective_scan_backward.cl");
  const Addressing du = as_rows(candidate.outputs[0], {1, 2});
  source.tensor("SRC", as_rows(candidate.inputs[0], {1, 2})).tensor("DELTA", as_rows(candidate.inputs[1], {1, 2}));
  source.tensor("RATES", as_rows(candidate.inputs[2], {0, 1})).tensor("TAKEN", as_rows(candidate.inputs[3], {1, 2}));
  source.tensor("GIVEN", as_rows(candidate.inputs[4], {1, 2})).tensor("GRAD", as_rows(candidate.inputs[5], {1, 2}));
  source.tensor("DSRC", du).tensor("DDELTA", as_rows(candidate.outputs[1], {1, 2}));
  const Parts parts(op);
  source.define("STATES", parts.states).define("DST_DTYPE", name_of(op.out().dtype));
  const int64_t rows = du.places() / du.padded(7);
  auto kernel = std::make_unique<KernelList>(device);
  Launch& scan = kernel->add(source, "selective_scan_backward").input(0, "SRC").input(1, "DELTA").input(2, "RATES");
  scan.input(3, "TAKEN").input(4, "GIVEN").input(5, "GRAD").output(0, "DSRC").output(1, "DDELTA").workspace();
  scan.index(rows).global({size_t(rows)}).local({32});
  const auto sum = [&](int output, int64_t first, int64_t count, int64_t step, int64_t columns, int64_t line,
                       int64_t across) {
    const int64_t sums = op.out(output).elements();
    Launch& launch = kernel->add(source, "selective_scan_sums").workspace().output(output).scalar(cl_ulong(first));
    for (int64_t number : {count, step, columns, line, across, sums}) launch.scalar(cl_uint(number));
    launch.global({size_t(sums)}).local({64});
  };
  sum(2, 2 * parts.of_steps(), parts.images, parts.states * parts.channels, parts.states, 1, parts.channels);
  sum(3, parts.of_steps(), parts.channels, 1, 1, parts.channels, 0);
  sum(4, 0, parts.channels, 1, 1, parts.channels, 0);
  return kernel;
}

void list_backward(const Op& op, OpenclDevice& device, CandidateList& out) {
  if (!fits(op, out)) return;
  const size_t bytes = size_t(Parts(op).all()) * sizeof(cl_float), most = device.capabilities().max_allocation;
  if (bytes > most)
    return out.refuse("opencl", concat("selective_scan_backward: states of all steps take ", bytes,
                                       " bytes, the device allocates at most ", most));
  add_per_layout(op, "selective_scan_backward", out, [&](Candidate& candidate) {
    const Layout layout = candidate.inputs[0].layout;
    for (int i : {1, 5}) candidate.inputs[size_t(i)] = op.in(i).with_layout(layout);
    for (int i : {2, 3, 4}) {
      candidate.inputs[size_t(i)] = op.in(i).with_layout(Layout::plain(op.in(i).rank()));
      candidate.outputs[size_t(i)] = op.out(i).with_layout(Layout::plain(op.out(i).rank()));
    }
    candidate.efficiency = 0.05;
    candidate.workspace_bytes = bytes;
    candidate.prepare = [&device, op, candidate] { return prepare_backward(device, op, candidate); };
    return true;
  });
}

PL_OPENCL_OP("selective_scan", list_scan);
PL_OPENCL_OP("selective_scan_backward", list_backward);

}  // namespace
}  // namespace pl::opencl

// grid_sample and its gradients (kernels/grid_sample/).
#include "providers/opencl/addressing/places.h"
#include "providers/opencl/addressing/window.h"
#include "providers/opencl/reduce/row_sort.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

constexpr int64_t kMost = int64_t(1) << 31;  // what kernels count in 32 bits

// As the kernels count: the number of pixels along an axis, and in all.
struct Taps {
  int spatial, axis = 2;
  int64_t all = 1;
  explicit Taps(const Op& op) : spatial(op.in(0).rank() - 2) {
    const std::string& mode = op.attributes[attr::mode];
    axis = mode == "nearest" ? 1 : mode.find("cubic") != mode.npos ? 4 : 2;
    for (int d = 0; d < spatial; ++d) all *= axis;
  }
};

KernelSource grid_sample_source(const char* file, const Op& op) {
  const Taps taps(op);
  const std::string& padding = op.attributes[attr::padding_mode];
  KernelSource source(file);
  source.define("SPATIAL", taps.spatial).define("BETWEEN", taps.axis / 2);
  source.define("OUTSIDE", padding == "zeros" ? 0 : padding == "border" ? 1 : 2);
  return source.define("CORNERS", op.attributes[attr::align_corners] ? 1 : 0);
}

int64_t pixels_of(const Addressing& tensor) { return tensor.dims[2] * tensor.dims[3] * tensor.dims[4]; }

void list_grid_sample(const Op& op, OpenclDevice& device, CandidateList& out) {
  add_per_layout(op, "grid_sample_direct", out, [&](Candidate& candidate) {
    candidate.inputs[1] = op.in(1).with_layout(Layout::plain(op.in(1).rank()));
    candidate.efficiency = 0.2;
    candidate.prepare = [&device, op, candidate] {
      const Addressing dst = with_three_spatial(candidate.outputs[0]);
      KernelSource source = grid_sample_source("grid_sample/grid_sample_direct.cl", op);
      source.tensor("SRC", with_three_spatial(candidate.inputs[0])).tensor("DST", dst);
      auto kernel = std::make_unique<KernelList>(device);
      Launch& launch = kernel->add(source, "grid_sample_direct").input(0, "SRC").input(1).output(0, "DST");
      over_places(launch, dst);
      return kernel;
    };
    return true;
  });
}

std::unique_ptr<Kernel> prepare_backward(OpenclDevice& device, const Op& op, const Candidate& candidate,
                                         const RowSort& sort) {
  const Addressing grad = with_three_spatial(candidate.inputs[0]), src = with_three_spatial(candidate.inputs[1]);
  const Addressing dx = with_three_spatial(candidate.outputs[0]);
  const int64_t places = grad.dims[0] * pixels_of(grad), taps = Taps(op).all;
  const int64_t first_weight = int64_t(sort.lists_workspace_bytes() / sizeof(cl_float));
  auto kernel = std::make_unique<KernelList>(device);
  Launch& numbers = kernel->add(grid_sample_source("grid_sample/grid_sample_taps.cl", op), "grid_sample_taps");
  numbers.input(2).workspace().scalar(cl_ulong(sort.first_number())).scalar(cl_ulong(first_weight));
  for (size_t axis = 2; axis < 5; ++axis) numbers.scalar(cl_int(src.dims[axis]));
  numbers.scalar(cl_uint(places)).global({size_t(places)}).local({64});
  const int64_t lists = sort.add_lists(*kernel, device);

  KernelSource pixels = grid_sample_source("grid_sample/grid_sample_backward_pixels.cl", op);
  pixels.tensor("GRAD", grad).tensor("DST", dx);
  Launch& by_x = kernel->add(pixels, "grid_sample_backward_pixels").input(0, "GRAD").output(0, "DST").workspace();
  by_x.scalar(cl_ulong(lists)).scalar(cl_ulong(first_weight)).scalar(cl_uint(pixels_of(grad) * taps));
  over_places(by_x, dx);

  KernelSource numbers_of_grid = grid_sample_source("grid_sample/grid_sample_backward_grid.cl", op);
  numbers_of_grid.tensor("GRAD", grad).tensor("SRC", src);
  kernel->add(numbers_of_grid, "grid_sample_backward_grid")
      .input(0, "GRAD")
      .input(1, "SRC")
      .input(2)
      .output(1)
      .index(places)
      .global({size_t(places)})
      .local({64});
  return kernel;
}

void list_grid_sample_backward(const Op& op, OpenclDevice& device, CandidateList& out) {
  const TensorDesc &grad = op.in(0), &x = op.in(1);
  const int64_t taps = Taps(op).all, rows = x.shape[0], size = grad.elements() / (rows * grad.shape[1]) * taps;
  const RowSort sort(DType::s32, rows, size, size, false);
  if (!sort.possible() || x.elements() >= kMost || grad.elements() >= kMost)
    return out.refuse("opencl", concat("grid_sample_backward: grad has shape ", grad.shape, ", of ", taps,
                                       " pixels each, and x ", x.shape, ", expected less than 2^31 in all"));
  add_per_layout(op, "grid_sample_backward", out, [&](Candidate& candidate) {
    const Layout layout = candidate.inputs[0].layout;
    candidate.inputs[1] = x.with_layout(layout);
    candidate.inputs[2] = op.in(2).with_layout(Layout::plain(op.in(2).rank()));
    candidate.outputs[1] = op.out(1).with_layout(Layout::plain(op.out(1).rank()));
    candidate.efficiency = device.capabilities().cpu ? 0.02 : 0.1;
    candidate.workspace_bytes = sort.lists_workspace_bytes() + size_t(rows * size) * sizeof(cl_float);
    candidate.prepare = [&device, op, candidate, sort] { return prepare_backward(device, op, candidate, sort); };
    return true;
  });
}

PL_OPENCL_OP("grid_sample", list_grid_sample);
PL_OPENCL_OP("grid_sample_backward", list_grid_sample_backward);

}  // namespace
}  // namespace pl::opencl

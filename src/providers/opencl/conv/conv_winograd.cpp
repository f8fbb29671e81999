// conv by Winograd's algorithm, F(2x2, 3x3) and F(4x4, 3x3), on GPUs: kernels of 3x3, stride 1, f32, channels last.
// Three passes (kernels/conv/conv_winograd_*.cl): windows to the transformed domain, one product of matrices for each
// of its 16 or 36 points (a grouped 1x1 convolution, by the same kernels as any other), and back, with the epilogue.
// Kernels of k x 3x3 are transformed plane by plane, and sums over k taps along the depth are part of the products:
// a grouped k x 1 convolution of (planes, tiles of a plane).
// Weights are transformed once, when they are packed, or in each run where a program computes them.
//
// Error, relative to the L2 norm of the result, for normally distributed data: at most kErrorOfTwo or kErrorOfFour
// times the root of the input channels (measured: 0.3e-6 to 0.7e-6 and 0.7e-6 to 2.2e-6 for 64 to 512 channels, where
// sums by the definition have 0.4e-6 to 1.2e-6; src/providers/host/conv/winograd.cpp,
// tests/c/test_opencl_winograd.cpp). Where that is above kErrorAllowed it is refused.  Products are f32 or as accurate
// whatever `math` says: factors rounded to 11 bits would be off by 3 to 10 times as much as in a direct convolution.  A
// NaN makes all outputs NaN whose window has it.
#include <algorithm>
#include <cmath>

#include "providers/opencl/conv/conv_common.h"
#include "providers/opencl/matrix_units/matrix_unit.h"
#include "providers/opencl/matrix_units/mma.h"

namespace pl::opencl {
namespace {

constexpr double kErrorOfTwo = 0.4e-7, kErrorOfFour = 1e-7, kErrorAllowed = 3e-6;
constexpr int64_t kLeastChannels = 32;  // fewer: the transforms cost more than the products save
constexpr size_t kMostProducts = 3;     // ways to multiply that are tried without a search
constexpr int64_t kMostElements = int64_t(1) << 31;
// What a byte costs in multiplications and additions: about the balance of memory and f32 arithmetic on GPUs, or of
// three products of tf32 on matrix units (61 TFLOP/s and 3.1 TB/s on an H200).
constexpr double kFlopsPerByte = 15, kUnitFlopsPerByte = 20;

struct Geometry {
  int tile;  // outputs along a side
  int64_t tiles_h, tiles_w;
  int64_t tiles_in, tiles_out;  // of all planes of the source, of the output

  Geometry(const ConvTensors& t, int tile)
      : tile(tile),
        tiles_h((t.dst.dims[3] + tile - 1) / tile),
        tiles_w((t.dst.dims[4] + tile - 1) / tile),
        tiles_in(t.batch() * t.src.dims[2] * tiles_h * tiles_w),
        tiles_out(t.batch() * t.dst.dims[2] * tiles_h * tiles_w) {}
  int64_t points() const { return int64_t(tile + 2) * (tile + 2); }
};

// Whether each plane of the output comes from one of the source, the same.
bool planes_apart(const ConvTensors& t) {
  return t.window.size[0] == 1 && t.window.stride[0] == 1 && t.window.begin[0] == 0 && t.src.dims[2] == t.dst.dims[2];
}

// The products as a convolution, a group for each point: (tiles, points * ic) by (points * oc, ic), or where planes
// meet (n, points * ic, planes, tiles of one) by (points * oc, ic, kd, 1).
Op product_of(const ConvTensors& t, const Geometry& g) {
  const auto tensor = [](int64_t a, int64_t b, int64_t h, int64_t w) {
    return TensorDesc::dense(DType::f32, Dims{a, b, h, w});
  };
  const int64_t ic = t.channels(), oc = t.out_channels();
  Attributes attributes;
  attributes.set(attr::groups, g.points());
  if (planes_apart(t))
    return make_op(*find_schema("conv2d"), attributes,
                   {tensor(g.tiles_in, g.points() * ic, 1, 1), tensor(g.points() * oc, ic, 1, 1), {}, {}});
  const int64_t taps = t.window.size[0], stride = t.window.stride[0], dilation = t.window.dilation[0];
  const int64_t begin = t.window.begin[0], planes = t.src.dims[2];
  const int64_t end = (t.dst.dims[2] - 1) * stride + dilation * (taps - 1) + 1 - planes - begin;
  attributes.set(attr::padding, std::vector<int64_t>{begin, 0, std::max<int64_t>(0, end), 0});
  attributes.set(attr::stride, std::vector<int64_t>{stride, 1});
  attributes.set(attr::dilation, std::vector<int64_t>{dilation, 1});
  return make_op(*find_schema("conv2d"), attributes,
                 {tensor(t.batch(), g.points() * ic, planes, g.tiles_h * g.tiles_w),
                  tensor(g.points() * oc, ic, taps, 1),
                  {},
                  {}});
}

class WinogradKernel : public Kernel {
 public:
  WinogradKernel(OpenclDevice& device, std::unique_ptr<Kernel> product, bool makes_weights)
      : weights(device), input(device), output(device), product_(std::move(product)), makes_weights_(makes_weights) {}
  void run(const KernelArguments& arguments) override {
    if (makes_weights_) weights.run(arguments);
    input.run(arguments);
    Buffer* const inputs[] = {arguments.workspace, makes_weights_ ? arguments.workspace : arguments.inputs[1]};
    Buffer* const outputs[] = {arguments.workspace};
    product_->run(arguments.with(inputs, outputs));
    output.run(arguments);
  }
  KernelList weights, input, output;

 private:
  std::unique_ptr<Kernel> product_;
  bool makes_weights_;
};

// Work-groups along channels; the rest of them along tiles.
std::vector<size_t> group_of(const OpenclDevice& device, int64_t channels) {
  size_t across = 1;
  while (across < 64 && int64_t(across) < channels) across *= 2;
  const size_t most = std::min<size_t>(device.capabilities().max_work_group, 128);
  return {std::min(across, most), std::max<size_t>(1, most / across)};
}

// Where the passes meet in the workspace, in elements of f32: before that lies what the products need.
struct Places {
  int64_t input, product, end;
  int64_t weights = -1;  // transformed in each run; -1: packed
};

// Adds the transform of weights, `weights`, to where `packed` says.
Launch& add_filter(const OpenclDevice& device, KernelList& kernel, const Addressing& weights, const Addressing& packed,
                   int tile, bool turned) {
  KernelSource filter("conv/conv_winograd_filter.cl");
  filter.tensor("WEI", weights).tensor("U", packed).define("TILE", tile).define("TURNED", turned ? 1 : 0);
  Launch& launch = kernel.add(filter, "conv_winograd_filter");
  std::vector<size_t> local = group_of(device, weights.dims[1]);
  local.push_back(1);
  return launch.global({size_t(weights.dims[1]), size_t(weights.dims[0]), size_t(weights.dims[2])}).local(local);
}

std::unique_ptr<Kernel> prepare_conv_winograd(OpenclDevice& device, const Op& op, const ConvTensors& t,
                                              const Geometry& g, const Places& places, const Candidate& product,
                                              bool turned) {
  auto kernel = std::make_unique<WinogradKernel>(device, product.prepare(), places.weights >= 0);
  if (places.weights >= 0) {
    Addressing packed = with_three_spatial(product.inputs[1]);
    packed.offset = places.weights;
    add_filter(device, kernel->weights, t.wei, packed, g.tile, turned).input(1, "WEI").workspace("U");
  }
  const int deep = t.deep() ? 1 : 0;
  KernelSource input("conv/conv_winograd_input.cl");
  input.tensor("SRC", t.src).define("TILE", g.tile).define("DEPTH", deep);
  kernel->input.add(input, "conv_winograd_input")
      .input(0, "SRC")
      .workspace()
      .scalar(cl_int(places.input))
      .scalar(cl_int(g.tiles_h))
      .scalar(cl_int(g.tiles_w))
      .scalar(t.window.begin[1])
      .scalar(t.window.begin[2])
      .global({size_t(t.channels()), size_t(g.tiles_in)})
      .local(group_of(device, t.channels()));
  KernelSource output("conv/conv_winograd_output.cl");
  output.tensor("DST", t.dst).define("TILE", g.tile).define("DEPTH", deep);
  t.epilogue.define(output, op);
  Launch& last = kernel->output.add(output, "conv_winograd_output").workspace().output(0, "DST");
  t.epilogue.pass(last);
  last.scalar(cl_int(places.product)).scalar(cl_int(g.tiles_h)).scalar(cl_int(g.tiles_w));
  last.global({size_t(t.dst.padded(1)), size_t(g.tiles_out)}).local(group_of(device, t.dst.padded(1)));
  return kernel;
}

std::unique_ptr<Kernel> prepare_packing(OpenclDevice& device, const Addressing& weights, const Addressing& packed,
                                        int tile, bool turned) {
  auto kernel = std::make_unique<KernelList>(device);
  add_filter(device, *kernel, weights, packed, tile, turned).input(0, "WEI").output(0, "U");
  return kernel;
}

bool multiplies_by_units(OpenclDevice& device, Math math) {
  return wgmma_tiles_in_plain || mma_refusal(device, DType::f32, math).empty();
}

// Ways to multiply, for tensors that begin so many elements into the workspace.
std::vector<Candidate> products(const Op& product, OpenclDevice& device, const Places& places, bool whole_space) {
  CandidateList list;
  list.whole_space = whole_space;
  Candidate base = make_candidate(product, "");
  base.inputs[0] = product.in(0).with_layout(Layout::channels_last(4));
  base.outputs[0] = product.out().with_layout(Layout::channels_last(4));
  const auto tensors = [&](const Layout& weights) {
    base.inputs[1] = product.in(1).with_layout(weights);
    ConvTensors t(product, base);
    t.src.offset = places.input;
    t.dst.offset = places.product;
    t.wei.offset = std::max<int64_t>(0, places.weights);
    return t;
  };
  const bool units = multiplies_by_units(device, product.math);
  if (units) {
    add_conv_mma(product, device, base, tensors(Layout::channels_last(4)), list);
    for (Candidate& candidate : list.candidates) candidate.inputs[1] = base.inputs[1];
    if (!whole_space && list.candidates.size() > kMostProducts) list.candidates.resize(kMostProducts);
    for (size_t i = kMostProducts; i < list.candidates.size(); ++i) list.candidates[i].tuning.start = false;
  }
  if (!units) add_conv_local(product, device, base, tensors(packed_weights(4)), list);
  return std::move(list.candidates);
}

// How a candidate comes to its weights: packed, or by the best product alone in each run.
void add_tile(const Op& op, OpenclDevice& device, const Candidate& base, const ConvTensors& t, int tile, bool packed,
              bool turned, CandidateList& out) {
  const Geometry g(t, tile);
  const Op product = product_of(t, g);
  size_t needed = 0;
  for (const Candidate& way : products(product, device, {0, 0, 0}, out.whole_space))
    needed = std::max(needed, way.workspace_bytes);
  const auto aligned = [](int64_t elements) { return (elements + 63) / 64 * 64; };
  Places places;
  places.input = aligned(int64_t((needed + 3) / 4));
  places.product = aligned(places.input + g.tiles_in * g.points() * t.channels());
  places.end = places.product + g.tiles_out * g.points() * t.out_channels();
  const int64_t weights = g.points() * t.channels() * t.out_channels() * t.window.size[0];
  if (!packed) {
    places.weights = aligned(places.end);
    places.end = places.weights + weights;
  }
  if (places.end >= kMostElements) return;
  const double bytes = 8.0 * double(places.end - places.input);  // written and read, of weights made in each run too
  // Where the program may round, the direct convolution is one product of tf32, at four times the rate of the three
  // that make these (a product of 4096 on an H200).  NVIDIA's is estimated by its time, others' by the rate of those.
  const MatrixUnit unit = matrix_unit(device.capabilities());
  const double pace = op.math == Math::fp32 || unit.kind == MatrixUnit::Kind::nvidia ? 1 : 0.25;
  const double per_byte = unit ? kUnitFlopsPerByte : kFlopsPerByte;
  for (const Candidate& way : products(product, device, places, out.whole_space)) {
    Candidate candidate = base;
    candidate.implementation =
        concat("conv_fwd_winograd_f", tile, "[", way.implementation, packed ? "" : ",makes", turned ? ",turned]" : "]");
    if (packed) candidate.tuning = way.tuning;
    candidate.workspace_bytes = size_t(places.end) * sizeof(float);
    if (packed) {
      const TensorDesc& made = way.inputs[1];
      candidate.packings = {{1, concat("winograd_f", tile, turned ? "_turned:" : ":", made.layout.generic_str()),
                             made.size_bytes(),
                             packed_by([&device, weights = t.wei, to = with_three_spatial(made), tile, turned] {
                               return prepare_packing(device, weights, to, tile, turned);
                             })}};
    }
    const double direct = op.schema->flops(op), fewer = product.schema->flops(product);
    candidate.efficiency = std::min(1.0, direct / (fewer / (pace * way.efficiency) + per_byte * bytes));
    candidate.prepare = [&device, op, t, g, places, way, turned] {
      return prepare_conv_winograd(device, op, t, g, places, way, turned);
    };
    out.add(std::move(candidate));
    if (!packed) break;
  }
}

}  // namespace

void add_conv_winograd(const Op& op, OpenclDevice& device, const Candidate& base, const ConvTensors& t, bool turned,
                       CandidateList& out) {
  const WindowArgument& w = t.window;
  for (int axis : {1, 2})
    if (w.size[axis] != 3 || w.stride[axis] != 1 || w.dilation[axis] != 1) return;
  if (t.channels() < kLeastChannels || t.out_channels() < kLeastChannels) return;
  if (t.channels() % 4 || t.out_channels() % 4) return;  // products take pieces of 16 bytes
  if (w.begin[0] < 0) return;                            // the products' padding
  // Other products want weights with padding, which is zeroed where they are packed.
  const bool units = multiplies_by_units(device, op.math);
  for (const int tile : {2, 4}) {
    const double error = (tile == 2 ? kErrorOfTwo : kErrorOfFour) * std::sqrt(double(t.channels() * w.size[0]));
    if (error > kErrorAllowed) {
      out.refuse("opencl", concat("conv_fwd_winograd_f", tile, ": its error may be ", error, ", at most ",
                                  kErrorAllowed, " is allowed"));
      continue;
    }
    add_tile(op, device, base, t, tile, true, turned, out);
    if (units) add_tile(op, device, base, t, tile, false, turned, out);
  }
}

void list_conv_winograd(const Op& op, OpenclDevice& device, CandidateList& out) {
  const int rank = op.in(0).rank();
  if (op.in(0).dtype != DType::f32 || rank < 4 || op.attributes[attr::groups] != 1) return;
  Candidate base = make_candidate(op, "");
  base.inputs[0] = TensorDesc::dense(DType::f32, op.in(0).shape, Layout::channels_last(rank));
  base.inputs[1] = op.in(1).with_layout(Layout::plain(rank));
  base.outputs[0] = TensorDesc::dense(DType::f32, op.out().shape, Layout::channels_last(rank));
  complete_conv(op, base);
  add_conv_winograd(op, device, base, ConvTensors(op, base), false, out);
}

}  // namespace pl::opencl

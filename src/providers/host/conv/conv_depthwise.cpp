// Depthwise convolution, and that of narrow groups (as many channels out as in, a power of two, at most a vector; three
// columns): f32, one to three spatial dimensions, channels last or blocked by a vector.
#include "providers/host/conv/conv_candidates.h"

namespace pl::host {
namespace {

// Of one vector and one tap, the sums of neighbouring pixels taken together; from bench/layers.py.
constexpr double kNanoseconds = 0.25;
// Fewer rows and columns than this: threads divide the channels, as those of a 1x1 convolution do there, so that what
// one core has written is in its cache for the next layer.
constexpr int64_t kSmallPlane = 400;

struct DepthwiseBody {
  const ConvKernels* kernels;
  Depthwise job;
  int64_t images, vectors;
  bool by_channels;  // how threads divide the work
  double row_ns;     // of all vectors

  void operator()(const KernelArguments& arguments) const {
    Depthwise call = job;
    call.x = static_cast<const float*>(input(arguments, 0));
    call.weights = static_cast<const float*>(input(arguments, 1));
    bind(call.result, arguments);
    const int64_t rows = job.planes.out * job.rows.out;
    if (by_channels) {
      parallel_for(
          images * vectors, row_ns * double(rows) / double(vectors),
          [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i)
              kernels->depthwise(call, i / vectors, i % vectors, i % vectors + 1, 0, rows);
          },
          kAwakeNanoseconds);
      return;
    }
    parallel_for(
        images * rows, row_ns,
        [&](int64_t begin, int64_t end) {
          while (begin < end) {
            const int64_t image = begin / rows, row = begin % rows;
            const int64_t count = std::min(rows - row, end - begin);
            kernels->depthwise(call, image, 0, vectors, row, row + count);
            begin += count;
          }
        },
        kAwakeNanoseconds);
  }
};

}  // namespace

void list_depthwise(const Op& op, CandidateList& out) {
  if (!suits_conv_kernels(op, 3)) return;
  const int64_t channels = op.in(0).shape[1], groups = op.attributes[attr::groups], group = channels / groups;
  if (op.out().shape[1] != channels || channels < 4 || groups == 1 || (group & (group - 1))) return;
  const Window planes = planes_of(op), rows = rows_of(op), columns = columns_of(op);
  const auto slid = [](const Window& w) { return SlidAxis{w.in, w.out, w.kernel, w.stride, w.dilation, w.begin}; };
  if (group > 1 && (columns.kernel != 3 || columns.stride > 2 || columns.dilation != 1)) return;
  const auto suits = [&](const ConvKernels& kernels) {
    return group == 1 || (kernels.groups && group <= kernels.width);
  };
  const std::string name = group == 1 ? "depthwise" : "grouped";
  const Efficiencies reached = group == 1 ? Efficiencies{1.2, 1.45, 0.85, 1.05} : Efficiencies{0.55, 0.65, 0.5, 0.6};
  add_conv_candidates(op, name, reached, out, suits,
                      [&](const ConvKernels& kernels, const TensorDesc& x, const TensorDesc& y) {
                        DepthwiseBody body;
                        body.kernels = &kernels;
                        Depthwise& job = body.job;
                        job.group = group;
                        job.planes = slid(planes), job.rows = slid(rows);
                        job.in_w = columns.in, job.out_w = columns.out, job.kernel_w = columns.kernel;
                        job.stride_w = columns.stride, job.dilation_w = columns.dilation, job.begin_w = columns.begin;
                        const Strides strides = Strides::of(x, kernels.width);
                        job.x_image = strides.image, job.x_plane = strides.plane, job.x_row = strides.row;
                        job.x_pixel = strides.pixel, job.x_vector = strides.vector;
                        job.result = result_of(op, y, kernels.width);
                        body.images = x.shape[0];
                        body.vectors = (channels + kernels.width - 1) / kernels.width;
                        const bool blocked = y.layout.is_blocked();
                        const int64_t all_rows = planes.out * rows.out;
                        body.by_channels = blocked && (all_rows * columns.out < kSmallPlane || all_rows == 1);
                        body.row_ns = kNanoseconds * double(body.vectors * columns.out * columns.kernel * group) *
                                      double(planes.kernel * rows.kernel);
                        return body;
                      });
}

}  // namespace pl::host

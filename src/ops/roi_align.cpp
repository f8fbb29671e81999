// roi_align: boxes of images as small images of one size; and its gradient by the images.
#include <algorithm>

#include "ops/gradient.h"

namespace pl {
namespace {

// Of x, boxes and images, inputs `first` and the next ones.  Completes the attributes.
Dims aligned_shape(Op& op, int first) {
  check_rank(op, first, 4, 4);
  check_rank(op, first + 1, 2, 2);
  const Dims &x = op.in(first).shape, &boxes = op.in(first + 1).shape;
  check(op, boxes[1] == 4, Code::shape, "boxes.shape is ", boxes, ", expected (k, 4)");
  check_shape(op, first + 2, Dims{boxes[0]}, "(boxes.shape[0],)");
  const auto size = expand_ints(op, attr::output_size, 2);
  check_range(op, attr::output_size, size, 1, 1 << 12);
  check_range(op, attr::sampling_ratio, {op.attributes[attr::sampling_ratio]}, 0, 1 << 12);
  check_finite(op, attr::spatial_scale);
  check(op, boxes[0] == 0 || (x[0] > 0 && x[2] > 0 && x[3] > 0), Code::shape, "x.shape is ", x,
        ", expected pixels, as there are boxes");
  op.attributes.set(attr::output_size, size);
  return Dims{boxes[0], x[1], size[0], size[1]};
}

// Which boxes of which images, and how they are sampled.
void add_boxes(Schema& schema) {
  schema.tensor("boxes", "(k, 4), f32: the corners x1, y1, x2, y2")
      .of({DType::f32})
      .tensor("images", "(k,), s64 or s32: the image of each box")
      .of(dtypes::indices)
      .required(attr::output_size, "bins along h and w, or one number for both")
      .attribute(attr::spatial_scale, 1.0, "pixels of x for one unit of boxes")
      .attribute(attr::sampling_ratio, int64_t(0), "samples of a bin along h and along w; 0: as many as it has pixels")
      .attribute(attr::aligned, false, "pixels are centred at integers and a half")
      .attribute(attr::mode, std::string("mean"), "of the samples of a bin", {"mean", "max"});
}

double operations(const Op& op, double elements) {
  const double ratio = double(std::max<int64_t>(2, op.attributes[attr::sampling_ratio]));
  return 8 * ratio * ratio * elements;
}

Schema roi_align() {
  Schema schema(
      "roi_align", "roi_align",
      "Boxes of images, each divided into a grid of bins: the mean (or the largest) of samples of each bin.\n\n"
      "A box is (x1, y1, x2, y2) * spatial_scale, minus 1/2 where aligned; else it is at least 1 pixel wide "
      "and high.  A bin has sampling_ratio by sampling_ratio samples at even distances, each between four "
      "pixels, whose bilinear weights sum to 1; more than a pixel outside of the image a sample is 0.  With "
      "mode max the result is the largest of all weighted pixels.\n\n"
      "Returns (k, c, *output_size) in the dtype of x; sums are kept in f32.\n\n"
      "Source: He et al., Mask R-CNN, 2017; semantics of torchvision.ops.roi_align and of ONNX's RoiAlign.");
  schema.tensor("x", "(n, c, h, w), f32, f16 or bf16").of(dtypes::floats);
  add_boxes(schema);
  schema.result(Result("y").like("x"));
  schema.infer = [](Op& op) { add_output(op, aligned_shape(op, 0)); };
  schema.integers = [](const Op& op, int input) {
    return std::pair<int64_t, int64_t>(0, input == 2 ? std::max<int64_t>(0, op.in(0).shape[0] - 1) : 0);
  };
  schema.gradient = [](Derivation& d) {
    d.give_if_wanted(0, [&] {
      return d.make("roi_align_backward", d.op().attributes, {d.gradient(), d.input(0), d.input(1), d.input(2)});
    });
  };
  schema.flops = [](const Op& op) { return operations(op, double(op.out().elements())); };
  return schema;
}

Schema roi_align_backward() {
  Schema schema(
      "roi_align_backward", "roi_align_backward",
      "The gradient of roi_align by its images.\n\n"
      "dx[n, c, q] = sum over the bins p of boxes of image n of the weight that pixel q has there * grad[k, c, p]\n\n"
      "With mode max the largest weighted pixel of a bin gets it, the first of those that are equal.  By boxes there "
      "is "
      "no gradient, as in torchvision.\n\n"
      "Returns the shape and dtype of x; sums are kept in f32, in the order of boxes and bins.\n\n"
      "Source: the derivative of roi_align.");
  schema.tensor("grad", "(k, c, *output_size): the gradient by the result; f32, f16 or bf16")
      .of(dtypes::floats)
      .tensor("x", "the input of roi_align")
      .like("grad");
  add_boxes(schema);
  schema.result(Result("dx").like("grad").shaped("x"));
  schema.infer = [](Op& op) {
    check_shape(op, 0, aligned_shape(op, 1), "what roi_align gives for x and boxes");
    add_output(op);
  };
  schema.integers = [](const Op& op, int input) {
    return std::pair<int64_t, int64_t>(0, input == 3 ? std::max<int64_t>(0, op.in(1).shape[0] - 1) : 0);
  };
  schema.flops = [](const Op& op) { return operations(op, double(op.in(0).elements())); };
  return schema;
}

PL_REGISTER_OP(roi_align);
PL_REGISTER_OP(roi_align_backward);

}  // namespace
}  // namespace pl

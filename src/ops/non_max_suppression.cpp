// non_max_suppression: of boxes that overlap, those of the best scores.
#include <algorithm>

#include "ops/op.h"

namespace pl {
namespace {

void infer_non_max_suppression(Op& op) {
  check_rank(op, 0, 3, 3);
  check_rank(op, 1, 3, 3);
  const Dims &boxes = op.in(0).shape, &scores = op.in(1).shape;
  check(op, boxes[2] == 4, Code::shape, "boxes.shape is ", boxes, ", expected (n, k, 4)");
  check(op, scores[0] == boxes[0] && scores[2] == boxes[1], Code::shape, "scores.shape is ", scores, ", expected (",
        boxes[0], ", classes, ", boxes[1], ")");
  check_not_nan(op, attr::iou_threshold);
  check_not_nan(op, attr::score_threshold);
  const int64_t most = op.attributes[attr::max_boxes];
  check(op, most >= 0, Code::invalid_argument, "max_boxes is ", most, ", expected at least 0");
  const int64_t rows = safe_product(op, "the rows of the result", {scores[0], scores[1], std::min(most, scores[2])});
  add_output(op, Dims{rows, 3});
  add_output(op, Dims{});
}

Schema non_max_suppression() {
  Schema schema(
      "non_max_suppression", "non_max_suppression",
      "Of boxes that overlap, those of the best scores, by image and class.\n\n"
      "The boxes of a class are taken in descending order of their scores, those of equal scores by their "
      "index.  One is left out if its intersection with one that was taken before is more than iou_threshold "
      "of the union of both.\n\n"
      "Returns rows (image, class, box), s64, in that order of taking, with room for all that could be taken: "
      "(n * classes * min(max_boxes, k), 3); those behind the last one are -1.  And how many there are, s64 of "
      "rank 0.\n\n"
      "Source: semantics of ONNX's NonMaxSuppression.");
  schema.tensor("boxes", "(n, k, 4), f32")
      .of({DType::f32})
      .tensor("scores", "(n, classes, k), f32")
      .of({DType::f32})
      .required(attr::max_boxes, "at most so many of an image and class")
      .attribute(attr::iou_threshold, 0.0, "the part of the union up to which boxes may overlap")
      .attribute(attr::score_threshold, None{}, "boxes of this score or less are left out")
      .attribute(attr::boxes_are, std::string("corners"),
                 "corners: two opposite corners (x, y, x, y), or with y first; centres: (x, y, width, height)",
                 {"corners", "centres"})
      .result(Result("rows").of(DType::s64))
      .result(Result("count").of(DType::s64));
  schema.infer = infer_non_max_suppression;
  schema.flops = [](const Op& op) {
    const double boxes = double(op.in(0).shape[1]);
    return double(op.in(1).elements()) * std::min(boxes, double(op.attributes[attr::max_boxes])) * 8;
  };
  return schema;
}

PL_REGISTER_OP(non_max_suppression);

}  // namespace
}  // namespace pl

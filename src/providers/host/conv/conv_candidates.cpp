#include "providers/host/conv/conv_candidates.h"

#include "ops/post_ops.h"

namespace pl::host {

bool& every_instruction_set() {
  static bool every = false;
  return every;
}

Strides Strides::of(const TensorDesc& desc, int width) {
  const int rank = desc.rank();
  const int64_t channels = desc.shape[1], columns = desc.shape[rank - 1], images = desc.shape[0];
  const int64_t rows = rank >= 4 ? desc.shape[rank - 2] : 1, planes = rank == 5 ? desc.shape[2] : 1;
  const int64_t column_step = desc.strides[rank - 1], row_step = desc.strides[rank - 2];
  const int64_t plane_step = desc.strides[2], image_step = desc.strides[0];
  // Dimensions of size one say nothing; their strides here are those that let them be counted as one with their
  // neighbours.
  Strides result;
  if (desc.layout.is_blocked()) {
    result.pixel = columns > 1 ? column_step : width;
    result.row = rows > 1 ? row_step : columns * result.pixel;
    result.plane = planes > 1 ? plane_step : rows * result.row;
    result.vector = channels > width ? desc.strides[1] : planes * result.plane;
    result.image = images > 1 ? image_step : (channels + width - 1) / width * result.vector;
  } else {
    result.pixel = columns > 1  ? column_step
                   : rows > 1   ? row_step
                   : planes > 1 ? plane_step
                   : images > 1 ? image_step
                                : channels;
    result.row = rows > 1 ? row_step : columns * result.pixel;
    result.plane = planes > 1 ? plane_step : rows * result.row;
    result.vector = width;
    result.image = images > 1 ? image_step : planes * result.plane;
  }
  return result;
}

bool suits_conv_kernels(const Op& op, int most) {
  const int spatial = op.in(0).rank() - 2;
  if (op.in(0).dtype != DType::f32 || spatial < 1 || spatial > most || op.has_empty_tensor()) return false;
  return Ending::of(op).has_value();
}

void refuse_ending(const Op& op, CandidateList& out) {
  out.refuse("host", concat(op.schema->name, ": post_ops is ", to_text(post_ops_of(op)),
                            ", expected an input that is added, a function, then at most ", Ending::kMostFurther,
                            " steps, one with an input"));
}

namespace {
Window none() {
  Window one;
  one.in = one.out = 1;
  return one;
}
}  // namespace

Window planes_of(const Op& op) { return op.in(0).rank() == 5 ? window_of(op, 0) : none(); }
Window rows_of(const Op& op) { return op.in(0).rank() >= 4 ? window_of(op, op.in(0).rank() - 4) : none(); }
Window columns_of(const Op& op) { return window_of(op, op.in(0).rank() - 3); }

Layout filter_layout(int rank, int width) {
  const Layout plain = Layout::plain(rank);
  int8_t order[kMaxRank];
  for (int i = 0; i < rank; ++i) order[i] = int8_t(plain.order(i));
  const Layout::Block block{0, int16_t(width)};
  return Layout::make(order, rank, &block, 1);
}

Result result_of(const Op& op, const TensorDesc& y, int width) {
  const Strides strides = Strides::of(y, width);
  Result result;
  result.channels = y.shape[1];
  result.image = strides.image;
  result.plane = strides.plane;
  result.row = strides.row;
  result.pixel = strides.pixel;
  result.vector = strides.vector;
  result.has_bias = op.has(2);
  result.padded = y.layout.is_blocked();
  result.ending = *Ending::of(op);
  return result;
}

void bind(Result& result, const KernelArguments& arguments) {
  result.y = static_cast<float*>(output(arguments));
  if (result.has_bias) result.bias = static_cast<const float*>(input(arguments, 2));
  const auto floats = [&](int i) { return i < 0 ? nullptr : static_cast<const float*>(input(arguments, i)); };
  result.residual = floats(result.ending.added);
  result.later = floats(result.ending.later);
}

}  // namespace pl::host

#include "providers/host/conv/conv_kernels.h"

#include "providers/host/pointwise/functions.h"

namespace pl::host {

Finish Finish::of(const Op& op) {
  Finish finish;
  if (op.attributes.is_none(attr::activation)) return finish;
  const std::string name = op.attributes[attr::activation];
  const double alpha = op.attributes[attr::activation_alpha], beta = op.attributes[attr::activation_beta];
  if (name == "relu" || name == "relu6") {
    finish.kind = Kind::clamp;
    finish.low = 0;
    if (name == "relu6") finish.high = 6;
  } else if (name == "clip" && alpha <= beta) {  // else the order of the comparisons would matter
    finish.kind = Kind::clamp;
    finish.low = float(alpha);
    finish.high = float(beta);
  } else if (name == "hardswish") {
    finish.kind = Kind::hardswish;
  } else if (name == "silu") {
    finish.kind = Kind::silu;
  } else {
    finish.kind = Kind::other;
    finish.other = find_float_unary(name);
    finish.alpha = alpha;
    finish.beta = beta;
  }
  return finish;
}

const ConvKernels* const* all_conv_kernels() {
  static const struct Table {
    const ConvKernels* entries[4] = {};  // best first
    Table() {
      int count = 0;
      for (const ConvKernels* kernels : {conv_kernels_avx512(), conv_kernels_avx2(), conv_kernels_baseline()})
        if (kernels) entries[count++] = kernels;
    }
  } table;
  return table.entries;
}

const ConvKernels& conv_kernels() { return *all_conv_kernels()[0]; }

}  // namespace pl::host

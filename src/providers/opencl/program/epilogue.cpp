#include "providers/opencl/program/epilogue.h"

namespace pl::opencl {

void define_activation(KernelSource& source, const Op& op) {
  if (!op.attributes.has(attr::activation) || op.attributes.is_none(attr::activation)) return;
  source.define("ACTIVATION", "UNARY_" + op.attributes[attr::activation]);
  source.define("ACTIVATION_ALPHA", op.attributes[attr::activation_alpha]);
  source.define("ACTIVATION_BETA", op.attributes[attr::activation_beta]);
}

bool short_epilogue(const Op& op) {
  if (!op.attributes.has(attr::activation) || op.attributes.is_none(attr::activation)) return true;
  const std::string name = op.attributes[attr::activation];
  return name == "relu" || name == "relu6" || name == "clip" || name == "leaky_relu" || name == "identity";
}

void Epilogue::define(KernelSource& source, const Op& op) const {
  define_activation(source, op);
  if (bias >= 0) source.tensor("BIAS", bias_desc);
  if (residual >= 0) source.tensor("RES", residual_at);
}

void Epilogue::pass(Launch& launch) const {
  if (bias >= 0) launch.input(bias, "BIAS");
  if (residual >= 0) launch.input(residual, "RES");
}

}  // namespace pl::opencl

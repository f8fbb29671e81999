// A product of pixels and filters, divided among threads: the body of 1x1 convolutions and of linear.
#pragma once

#include "providers/host/common/host.h"
#include "providers/host/conv/conv_kernels.h"

namespace pl::host {

struct PointwiseProduct {
  // `job` without addresses; how far it is cut into blocks is decided here.
  PointwiseProduct(const ConvKernels& kernels, const Pointwise& job);
  // Inputs of the op: x, weights, bias, residual.
  void operator()(const KernelArguments& arguments) const;

 private:
  void divide(int threads);

  const ConvKernels* kernels;
  Pointwise job;
  int64_t pixels, vectors;
  int by_pixels = 1, by_vectors = 1;  // threads
  int group = 1;                      // vectors at a time
};

}  // namespace pl::host

// A product of pixels and filters, divided among threads: the body of 1x1 convolutions and of linear.  What decides how
// it is cut into tiles and blocks is here too, for products that are divided otherwise.
#pragma once

#include "providers/host/common/host.h"
#include "providers/host/conv/conv_kernels.h"

namespace pl::host {

struct PointwiseTiles {
  int vectors = 1;    // at a time
  double cycles = 0;  // of a core, for all tiles
};
PointwiseTiles best_tiles(const ConvKernels& kernels, int64_t inputs, int64_t pixels, int64_t vectors);
// Of reading so many pixels and vectors of filters from beyond the caches of a core.
double far_cycles(const ConvKernels& kernels, int64_t inputs, int64_t pixels, int64_t vectors);
double nanoseconds_of(double cycles);
// Sets the blocks of a job and what is fetched ahead: it has so many pixels, of which a thread does `own_pixels` for
// `own_vectors`, `group` vectors at a time.
void set_blocks(const ConvKernels& kernels, int64_t pixels, int64_t own_pixels, int64_t own_vectors, int group,
                Pointwise& job);

struct PointwiseProduct {
  // `job` without addresses; how far it is cut into blocks is decided here.
  PointwiseProduct(const ConvKernels& kernels, const Pointwise& job);
  // Inputs of the op: x, weights, bias, residual.
  void operator()(const KernelArguments& arguments) const;

 private:
  double divide(int threads);

  const ConvKernels* kernels;
  Pointwise job;
  int64_t pixels, vectors;
  int by_pixels = 1, by_vectors = 1;            // threads
  int64_t pixel_pieces = 1, vector_pieces = 1;  // of each
  int group = 1;                                // vectors at a time
};

}  // namespace pl::host

// The kernels for matrix units (kernels/common/mma.clh): their tunables, and which values suit a product.
#pragma once

#include <string>
#include <vector>

#include "providers/opencl/program/epilogue.h"
#include "providers/opencl/program/kernel_source.h"
#include "providers/opencl/runtime/launch.h"
#include "providers/opencl/runtime/opencl_device.h"
#include "providers/opencl/tuning/tuning.h"
#include "providers/provider.h"

namespace pl::opencl {

struct MmaTile {
  int rows, columns;             // of a work-group
  int warps_down, warps_across;  // groups of work-items that share it
  int chunks;                    // 16 bytes along the terms, of one step
  int stages;
  int promote = 1;     // times 8 terms between rounding additions
  bool wgmma = false;  // instructions of compute capability 9.0
  bool lag = false;    // a step goes on while the next begins (of factors that are not rounded)
  double rate = 0.9;   // part of the device's rate that it reaches with many tiles
  int lanes = 32;      // of a warp

  constexpr MmaTile lagging() const {
    MmaTile tile = *this;
    tile.lag = true;
    return tile;
  }
  int work_items() const { return lanes * warps_down * warps_across; }
  size_t local_bytes() const { return size_t(stages) * size_t(rows + columns) * size_t(chunks) * 16; }
  size_t local_bytes_turned() const { return size_t(stages) * size_t(rows + columns + 16) * size_t(chunks) * 16; }
};

// `products` products of rows x columns.  Their terms are `runs` runs of `run` elements that lie side by side, of right
// factors with zeros behind them up to whole pieces of 16 bytes; `gathered`: runs of one piece each, so that a step
// takes pieces of different runs.  With several `groups`, which share out the rows evenly, the rows of each have
// columns of their own; a tile computes all products of the groups that it spans, and keeps those within a group.
struct MmaProblem {
  DType dtype = DType::f32;
  int64_t rows = 0, columns = 0, products = 1, run = 0, runs = 1;
  bool gathered = false;
  bool stacked = false;    // results lie behind each other, not side by side
  bool in_order = false;   // rows are those of the left factors' tensor, side by side there
  bool turned = false;     // of both factors the terms lie outermost
  int64_t groups = 1;      // more than one only where `turned`
  int64_t row_groups = 0;  // more: so many groups of rows have right factors of their own; which is known in a run

  int64_t chunk_elements() const { return 16 / int64_t(size_of(dtype)); }
  // Of a copy of left factors, of both where `turned`: 16, 8 or 4; less where 4 bytes do not divide what lies side by
  // side.
  int left_bytes() const;
  int64_t steps(const MmaTile& tile) const;
  // Whole groups that a tile spans, 1 where one takes several tiles; 0 where tiles would not begin at whole copies.
  int64_t groups_of(const MmaTile& tile) const;
  int64_t tiles(const MmaTile& tile) const;  // of one product
};

// One way to do it.
struct MmaPlan {
  MmaTile tile{};
  int64_t parts = 1;           // of the sum, each computed by work-groups of its own
  int64_t steps_per_part = 0;  // of tile.chunks pieces
  int fill = 0;                // parts are to give each compute unit so many work-groups; 0: one part
  int products = 3;            // of tf32 for one of f32
  int left_bytes = 16;         // MmaProblem::left_bytes()
  bool tf32 = false;           // factors of f32 are rounded to tf32, and multiplied once
  bool right_rounded = false;  // the right factors of tf32 have been, see pack_tf32
  double efficiency = 0;       // estimated part of the device's rate
  double whole_ms = 0;         // of the problem at efficiency 1, on units whose times are known; 0: not known
  TuningPoint tuning;          // of the family conv_fwd_mma

  std::string name(const char* kernel) const;           // conv_fwd_mma[128x64,warps=2x2,chunks=4,bytes=8,parts=4]
  size_t parts_bytes(const MmaProblem& problem) const;  // workspace for sums of parts, 0 if there is one part
  // Whether the kernel computes where rows of left factors lie, in place of keeping it: where it has many small copies.
  bool rows_in_order(const MmaProblem& problem) const { return problem.in_order && left_bytes < 16; }
  // The kernel's tunables, and which instructions it is to use.
  void define(KernelSource& source, const MmaProblem& problem, const OpenclDevice& device) const;
  // Sizes of a kernel whose group ids are: tiles, products, parts.
  void size(Launch& launch, const MmaProblem& problem) const;
};

// The second pass of a plan with several parts: dst = activation(sum of the workspace's parts + bias + residual), all
// dense with the columns innermost; `scattered`: but dst, whose rows are apart, and there is no residual.
void add_sum_of_parts(KernelList& kernel, const Op& op, const Addressing& dst, const Epilogue& epilogue,
                      const MmaProblem& problem, int64_t parts, bool scattered = false);

// The right factors, constants, of a plan that rounds: rounded to the nearest once.  `desc`: as the candidate wants
// them.
Packing pack_tf32(OpenclDevice& device, const TensorDesc& desc, int input);

// Why the device's matrix units are not for products of these factors; empty if they are.  Tried once where a compiler
// may not know the instructions.
std::string mma_refusal(OpenclDevice& device, DType dtype, Math math);
// True if the device's matrix units take the op's factors; else a GPU's refusal says why.
bool mma_suits(const Op& op, OpenclDevice& device, CandidateList& out);
// Estimates for the candidates from `first` on, which use ordinary arithmetic where others of the op use matrix units.
void beside_matrix_unit(CandidateList& out, size_t first);
// True where a program with wgmma and more local memory than OpenCL tells of can be built; tried once.
bool has_wgmma(OpenclDevice& device);

// Plans worth measuring, the most promising first: a few to start from and, with `whole_space`, all others that the
// device can run and that are not mostly empty.  None where pieces of 4 bytes would not be aligned.  `math` says how
// f32 may be multiplied.
std::vector<MmaPlan> mma_plans(OpenclDevice& device, const MmaProblem& problem, Math math, bool whole_space);
// How many to start from.  Tests raise it, to see them all.
extern size_t most_mma_plans;
// Lists the tiles of wgmma on devices without matrix units too, where the kernel is plain OpenCL C.  Tests set it.
extern bool wgmma_tiles_in_plain;
// Work-groups of conv_fwd_stream at most, below the units that there are.  Tests lower it, so that each has many tiles.
extern int64_t most_stream_groups;

}  // namespace pl::opencl

// reorder_transposed and reorder_runs (kernels/reorder/).
#include "providers/opencl/reorder/reorder_vectors.h"

#include <algorithm>

#include "providers/opencl/addressing/quads.h"
#include "providers/opencl/reorder/reorder_tiled.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

constexpr int64_t kStrip = 4;   // tiles a work-item transposes
constexpr int64_t kChunk = 32;  // runs a work-item copies
constexpr int64_t kRun = 1024;  // elements of a run: longer ones are copied at memory's speed by reorder_axes too

// The axes but `a` and `b`: their sizes, source strides and destination strides, as the kernels take them.
struct Outer {
  std::vector<cl_int> sizes, sources, targets;
  int64_t count = 1;

  Outer(const Iteration& it, int a, int b) {
    for (size_t i = 0; i < it.kept.size(); ++i) {
      if (int(i) == a || int(i) == b) continue;
      sizes.push_back(cl_int(it.kept[i].size));
      sources.push_back(cl_int(it.kept[i].strides[0]));
      targets.push_back(cl_int(it.kept[i].strides[1]));
      count *= it.kept[i].size;
    }
    if (!sizes.empty()) return;
    sizes.push_back(1);
    sources.push_back(0);
    targets.push_back(0);
  }
  void append_to(std::vector<cl_int>& argument) const {
    argument.push_back(cl_int(count));
    for (const auto* list : {&sizes, &sources, &targets}) argument.insert(argument.end(), list->begin(), list->end());
  }
};

void launch(OpenclDevice& device, KernelList& kernel, KernelSource& source, const char* name, const Outer& outer,
            std::vector<cl_int> argument, const std::vector<size_t>& sizes) {
  outer.append_to(argument);
  source.define("OUTER", int64_t(outer.sizes.size()));
  Launch& made = kernel.add(source, name).input(0).output(0).raw(argument.data(), argument.size() * sizeof(cl_int));
  made.global(sizes).local(group_of_vectors(device, sizes));
}

// Tiles of 16 and of 8 are both tried: Intel's compiler has too few registers for the larger ones (of NCHW to NHWC it
// takes 48 us, 30 by the smaller; PoCL's takes 21 and 25).
void add_transposed(const Op& op, OpenclDevice& device, const Iteration& it, int a, int b, const char* element,
                    CandidateList& out) {
  const Axis &axis_a = it.kept[size_t(a)], &axis_b = it.kept[size_t(b)];
  const int64_t least = std::min(axis_a.size, axis_b.size);
  const Outer outer(it, a, b);
  for (int64_t tile : {16, 8, 4}) {
    if (tile > least || (tile == 4 && least >= 8)) continue;
    Candidate candidate = make_candidate(op, concat("reorder_transposed[TILE=", tile, "]"));
    candidate.efficiency = 0.5;
    candidate.prepare = [&device, outer, tile, element, axis_a, axis_b, offsets = it.offsets] {
      KernelSource source("reorder/reorder_transposed.cl");
      source.define("ELEMENT", element).define("TILE", tile).define("STRIP", kStrip);
      auto kernel = std::make_unique<KernelList>(device);
      launch(device, *kernel, source, "reorder_transposed", outer,
             {cl_int(axis_a.size), cl_int(axis_b.size), cl_int(axis_a.strides[0]), cl_int(axis_b.strides[1]),
              cl_int(offsets[0]), cl_int(offsets[1])},
             {size_t((axis_b.size + kStrip * tile - 1) / (kStrip * tile)), size_t((axis_a.size + tile - 1) / tile),
              size_t(outer.count)});
      return kernel;
    };
    out.add(std::move(candidate));
  }
}

void add_runs(const Op& op, OpenclDevice& device, const Iteration& it, int unit, const char* element,
              CandidateList& out) {
  const int64_t run = it.kept[size_t(unit)].size;
  if (it.kept.size() < 2 || run < 4 || run > kRun) return;
  int step = -1;  // the longest axis
  for (size_t i = 0; i < it.kept.size(); ++i)
    if (int(i) != unit && (step < 0 || it.kept[i].size > it.kept[size_t(step)].size)) step = int(i);
  const Axis along = it.kept[size_t(step)];
  const Outer outer(it, unit, step);
  Candidate candidate = make_candidate(op, "reorder_runs");
  candidate.efficiency = 0.5;
  candidate.prepare = [&device, outer, run, element, along, offsets = it.offsets] {
    KernelSource source("reorder/reorder_runs.cl");
    source.define("ELEMENT", element).define("RUN", run).define("CHUNK", kChunk);
    auto kernel = std::make_unique<KernelList>(device);
    launch(device, *kernel, source, "reorder_runs", outer,
           {cl_int(along.size), cl_int(along.strides[0]), cl_int(along.strides[1]), cl_int(offsets[0]),
            cl_int(offsets[1])},
           {size_t((along.size + kChunk - 1) / kChunk), size_t(outer.count)});
    return kernel;
  };
  out.add(std::move(candidate));
}

}  // namespace

void add_reorder_vectors(const Op& op, OpenclDevice& device, const Iteration& it, CandidateList& out) {
  const TensorDesc &src = op.in(0), &dst = op.out();
  if (!device.capabilities().cpu || src.dtype != dst.dtype || !it.kept_checks.empty() || src.elements() == 0) return;
  if (src.extent() >= kNarrowLimit || dst.extent() >= kNarrowLimit) return;
  const int a = unit_axis(it, 1), b = unit_axis(it, 0);
  if (a < 0 || b < 0) return;
  const size_t size = size_of(src.dtype);
  const char* const element = size == 1 ? "uchar" : size == 2 ? "ushort" : size == 4 ? "uint" : "ulong";
  if (a == b)
    add_runs(op, device, it, a, element, out);
  else if (size <= 4)
    add_transposed(op, device, it, a, b, element, out);
}

}  // namespace pl::opencl

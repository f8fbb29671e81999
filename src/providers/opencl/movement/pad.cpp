// pad: borders of a constant, mirrored or repeated elements (kernels/pad/).
#include <cstring>

#include "core/dtype.h"
#include "providers/opencl/addressing/places.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

struct PadArgument {  // pad_arg of the kernel
  cl_long begin[kMaxRank] = {};
};

std::unique_ptr<Kernel> prepare_pad(OpenclDevice& device, const Op& op, const Candidate& candidate) {
  const Addressing src(candidate.inputs[0]), dst(candidate.outputs[0]);
  const std::string& mode = op.attributes[attr::mode];
  KernelSource source("pad/pad_direct.cl");
  source.tensor("SRC", src).tensor("DST", dst);
  source.define("PAD_MODE", mode == "constant" ? 0 : mode == "reflect" ? 1 : 2);
  std::string inside = "1";
  PadArgument pad;
  for (int d = 0; d < src.rank; ++d) {
    inside += concat(" && PAD_EXISTS(", own_index(d), ", ", d, ")");
    pad.begin[d] = op.attributes[attr::begins][size_t(d)];
  }
  source.define("PADDED_INSIDE", "(" + inside + ")");
  source.define("PADDED_AT",
                offset_text("SRC", src.rank, [](int d) { return concat("PAD_SOURCE(", own_index(d), ", ", d, ")"); }));
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "pad_direct").input(0, "SRC").output(0, "DST").scalar(pad);
  const double value = op.attributes[attr::value];
  if (is_floating(src.dtype))
    launch.scalar(cl_float(value));
  else if (src.dtype == DType::s64)
    launch.scalar(mode == "constant" ? cl_long(value) : cl_long(0));
  else
    launch.scalar(mode == "constant" ? cl_int(value) : cl_int(0));
  over_places(launch, dst);
  return kernel;
}

// ---- pieces, on GPUs

// The bits of the value in an element, if it is known here: that of floats, and zero.
bool bits_of(const Op& op, uint64_t& bits) {
  const auto value = float(op.attributes[attr::value]);
  bits = 0;
  if (op.attributes[attr::mode] != "constant") return true;
  const DType dtype = op.in(0).dtype;
  if (dtype == DType::f32) {
    uint32_t word;
    std::memcpy(&word, &value, sizeof word);
    bits = word;
  } else if (dtype == DType::f16) {
    bits = float_to_half(value);
  } else if (dtype == DType::bf16) {
    bits = float_to_bfloat16(value);
  } else {
    return value == 0;
  }
  return true;
}

std::unique_ptr<Kernel> prepare_pad_pieces(OpenclDevice& device, const Op& op, const Candidate& candidate, int unit,
                                           int piece, bool whole, bool cross) {
  const Addressing src(candidate.inputs[0]), dst(candidate.outputs[0]);
  const std::string& mode = op.attributes[attr::mode];
  const auto& begins = op.attributes[attr::begins];
  const auto element_bytes = int(size_of(src.dtype));
  KernelSource source("pad/pad_pieces.cl");
  source.tensor("SRC", src).tensor("DST", dst).define("BYTES", element_bytes).define("PIECE", piece);
  source.define("PAD_MODE", mode == "constant" ? 0 : mode == "reflect" ? 1 : 2);
  source.define("UNIT", unit).define("WHOLE", whole ? 1 : 0).define("CROSS", cross ? 1 : 0);
  source.define("TAIL", dst.places() % piece ? 1 : 0);
  source.define("UNIT_INDEX(i)", concat("i##", unit));
  source.define("SRC_ROW", concat("SRC_DIM(", unit, ")")).define("DST_ROW", concat("DST_DIM(", unit, ")"));
  const auto untouched = [&](int d) { return begins[size_t(d)] == 0 && src.dims[size_t(d)] == dst.dims[size_t(d)]; };
  std::string inside = "1";
  PadArgument pad;
  for (int d = 0; d < src.rank; ++d) {
    if (mode == "constant" && d != unit && !untouched(d)) inside += concat(" && PAD_EXISTS(i##", d, ", ", d, ")");
    pad.begin[d] = begins[size_t(d)];
  }
  source.define("PADDED_INSIDE(i)", "(" + inside + ")");
  source.define("PADDED_AT(i)", offset_text("SRC", src.rank, [&](int d) -> std::string {
                  if (d == unit && !whole) return "0";
                  return untouched(d) ? concat("i##", d) : concat("PAD_SOURCE(i##", d, ", ", d, ")");
                }));
  uint64_t bits = 0;
  bits_of(op, bits);
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "pad_pieces").input(0, "SRC").output(0, "DST").scalar(pad);
  if (element_bytes == 1) launch.scalar(cl_uchar(bits));
  if (element_bytes == 2) launch.scalar(cl_ushort(bits));
  if (element_bytes == 4) launch.scalar(cl_uint(bits));
  if (element_bytes == 8) launch.scalar(cl_ulong(bits));
  launch.index(dst.places()).global({size_t((dst.places() + piece - 1) / piece)}).local({128});
  return kernel;
}

void list_pad_pieces(const Op& op, OpenclDevice& device, CandidateList& out) {
  uint64_t bits;
  if (device.capabilities().cpu || op.in(0).elements() == 0 || op.out().elements() == 0 || !bits_of(op, bits)) return;
  const auto element_bytes = int64_t(size_of(op.in(0).dtype));
  add_per_layout(op, "pad_pieces", out, [&](Candidate& candidate) {
    const Addressing src(candidate.inputs[0]), dst(candidate.outputs[0]);
    const auto [unit, block] = dst.unit();
    if (unit < 0 || !narrow(src) || !narrow(dst)) return false;
    const int64_t run = block ? block : dst.dims[size_t(unit)];
    const bool same =
        op.attributes[attr::begins][size_t(unit)] == 0 && src.dims[size_t(unit)] == dst.dims[size_t(unit)];
    if (block ? dst.inner.size() > 1 || !same : !dst.inner.empty() || src.strides[size_t(unit)] != 1) return false;
    int piece = int(16 / element_bytes);
    while (piece > run) piece /= 2;
    const bool cross = run % piece != 0;
    if (block && cross) return false;
    candidate.efficiency = 0.7;
    candidate.prepare = [&device, op, candidate, unit = unit, piece, whole = same && !cross, cross] {
      return prepare_pad_pieces(device, op, candidate, unit, piece, whole, cross);
    };
    return true;
  });
}

void list_pad(const Op& op, OpenclDevice& device, CandidateList& out) {
  list_pad_pieces(op, device, out);
  add_per_layout(op, "pad_direct", out, [&](Candidate& candidate) {
    candidate.efficiency = 0.4;
    candidate.prepare = [&device, op, candidate] { return prepare_pad(device, op, candidate); };
    return true;
  });
}

PL_OPENCL_OP("pad", list_pad);

}  // namespace
}  // namespace pl::opencl

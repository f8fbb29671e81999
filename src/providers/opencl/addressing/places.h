// Kernels with one work-item for each place of a tensor: *_INDICES(place, i) gives them the indices.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "providers/opencl/runtime/launch.h"

namespace pl::opencl {

// Passes the kernel's last argument, `const idx_t places`, and sets the sizes of the launch.
void over_places(Launch& launch, const Addressing& tensor);

// Fills the padding of an output with zeros, for kernels that leave it alone; adds nothing where there is none.
void add_zero_padding(KernelList& kernels, const Addressing& dst, int output = 0);

// The text of an offset: "SRC_OFFSET(i0, picked, i2)" of the index that `index` names for each dimension.
std::string offset_text(const std::string& tensor, int rank, const std::function<std::string(int dim)>& index);
// The index of dimension `dim` in the kernel: "i2".
inline std::string own_index(int dim) { return "i" + std::to_string(dim); }

// Pieces (kernels/common/pieces.clh).

// `divisor` of kernels: what PL_DIVIDED takes to divide numbers below 2^31: n / by = n * factor >> shift.
struct Divisor {
  cl_uint by = 1, factor = 0, shift = 0;
  explicit Divisor(int64_t by);  // 1 to 2^31 - 1
};

// The largest power of two that divides `run`, of as many elements as an access may have bytes: `bytes`.
int piece_of(int64_t run, int64_t element_bytes, int64_t bytes = 16);

// Offsets within the tensor, and ids of a work-group beyond its end, fit 31 bits.
inline bool narrow(const Addressing& a) { return a.extent() < kNarrowLimit; }

// A dense activation as kernels of pieces see it: `outer` times (positions, run), where `run` channels lie side by
// side: all (channels last), a block, or one (channels first).  False for any other layout.
struct Slabs {
  int64_t outer = 0, run = 0;
  std::vector<int64_t> spatial;
  int64_t positions() const;
};
bool slabs_of(const TensorDesc& desc, Slabs& out);

}  // namespace pl::opencl

// Kernels with one work-item for each place of a tensor: *_INDICES(place, i) gives them the indices.
#pragma once

#include <functional>
#include <string>

#include "providers/opencl/launch.h"

namespace pl::opencl {

// Passes the kernel's last argument, `const idx_t places`, and sets the sizes of the launch.
void over_places(Launch& launch, const Addressing& tensor);

// Fills the padding of an output with zeros, for kernels that leave it alone; adds nothing where there is none.
void add_zero_padding(KernelList& kernels, const Addressing& dst, int output = 0);

// The text of an offset: "SRC_OFFSET(i0, picked, i2)" of the index that `index` names for each dimension.
std::string offset_text(const std::string& tensor, int rank, const std::function<std::string(int dim)>& index);
// The index of dimension `dim` in the kernel: "i2".
inline std::string own_index(int dim) { return "i" + std::to_string(dim); }

}  // namespace pl::opencl

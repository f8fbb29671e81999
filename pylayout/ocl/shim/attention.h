// Which devices gain by attention as one op.
#pragma once

#include <c10/core/Device.h>

namespace ocl {

void gain_by_attention(c10::DeviceIndex index, bool gains);

}  // namespace ocl

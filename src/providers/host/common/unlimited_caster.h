// Casts of floats to integers that do not limit what the integer cannot hold.
#pragma once

#include "providers/host/common/elements.h"

namespace pl::host {

// caster(from, to), but such floats, and NaN, become the least s64 where that is the target, or the least s32, of which
// s8 and u8 are the low bits.
ConvertRun unlimited_caster(DType from, DType to);

}  // namespace pl::host

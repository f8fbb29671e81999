// What ops cost, for passes that choose by it.
#pragma once

#include "core/device.h"
#include "ops/op.h"

namespace pl {
class Context;
}

namespace pl::passes {

// What the fastest way of an op costs on a device, in ms: as far as it is known, else an estimate; infinite where there
// is none.
double cost_of(Context& context, Device& device, const Op& op);

}  // namespace pl::passes

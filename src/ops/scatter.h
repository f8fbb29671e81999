// The gradients of scatter and scatter_nd.
#pragma once

#include "ops/gradient.h"

namespace pl {

void derive_scatter(Derivation& d);
void derive_scatter_nd(Derivation& d);

}  // namespace pl

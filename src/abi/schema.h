// Looking up a schema by the name that came over the boundary.
#pragma once

#include "ops/op.h"

namespace pl::abi {

// Throws Error(invalid_argument) naming `function` where there is no op of this name, or `name` is null.
const Schema& schema_of(const char* name, const char* function);

}  // namespace pl::abi

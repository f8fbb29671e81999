// Every pass; each is defined in the file of its name.
#pragma once

#include "graph/pass.h"

namespace pl::passes {

Pass remove_identity();
Pass fold_constants();
Pass fold_batch_norm();
Pass fuse_bias();
Pass recognise_activation();
Pass fuse_activation();
Pass fuse_residual();

}  // namespace pl::passes

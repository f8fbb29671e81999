// Ops that do the same to each tensor of a list (`_foreach_*`): by PyTorch's loop, the calls of which wait for each other.
#pragma once

namespace ocl {

void register_list_op(const char* name);
// Lets go of the programs of lists that ran before.
void forget_lists();

}  // namespace ocl

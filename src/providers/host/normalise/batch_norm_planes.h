// Batch norm by the statistics of the batch, and its gradients, in plain layouts.
#pragma once

#include "providers/host/common/host.h"

namespace pl::host {

void list_training_planes(const Op& op, CandidateList& out);
void list_backward_planes(const Op& op, CandidateList& out);

}  // namespace pl::host

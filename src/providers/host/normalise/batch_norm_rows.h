// Batch norm by the statistics of the batch, and its gradients, in channels last.
#pragma once

#include "providers/host/common/host.h"

namespace pl::host {

void list_training_rows(const Op& op, CandidateList& out);
void list_backward_rows(const Op& op, CandidateList& out);

}  // namespace pl::host

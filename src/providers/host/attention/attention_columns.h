// Candidates of attention over few long columns, listed with the others of the kind.
#pragma once

#include "providers/provider.h"

namespace pl::host {

void list_attention_columns(const Op& op, CandidateList& out);

}  // namespace pl::host

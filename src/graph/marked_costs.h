// Costs that were measured while other programs had the processors: they serve, and are measured again on a quiet
// machine (docs/explanation/choice.md).
#pragma once

#include "graph/plan.h"

namespace pl {

// Whether a way's time is such a cost, be it this process that measured it or an earlier one.
bool is_marked(const Entry& entry, const Way& way, const CostDatabase& costs);

// Whether a program would perhaps be another one without: a way of one of its ops is marked, and chosen or within reach of
// the op's best.
bool rests_on_marked(const Program& program, const CostDatabase& costs);

}  // namespace pl

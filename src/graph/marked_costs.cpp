#include "graph/marked_costs.h"

#include <algorithm>
#include <limits>

#include "graph/program.h"

namespace pl {
namespace {

constexpr double kReach = 2;  // times the best: what is further away does not win when it is measured again

}  // namespace

// The database has it under another key then; in the process that measured it the way does not say so.
bool is_marked(const Entry& entry, const Way& way, const CostDatabase& costs) {
  return way.measured && (way.busy || !costs.find(way.environment, entry.text, way.key));
}

bool rests_on_marked(const Program& program, const CostDatabase& costs) {
  for (const Program::Step& step : program.steps()) {
    if (!step.entry) continue;
    double best = std::numeric_limits<double>::infinity();
    for (const Way& way : step.entry->ways)
      if (way.usable) best = std::min<double>(best, way.ms);
    for (const Way& way : step.entry->ways) {
      // The clock may have chosen what is further away.
      const bool within_reach = (way.usable && way.ms <= kReach * best) || &way == step.way;
      if (within_reach && is_marked(*step.entry, way, costs)) return true;
    }
  }
  return false;
}

}  // namespace pl

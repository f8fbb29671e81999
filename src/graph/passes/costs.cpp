#include "graph/passes/costs.h"

#include <limits>

#include "dispatch/catalog.h"
#include "dispatch/context.h"

namespace pl::passes {

double cost_of(Context& context, Device& device, const Op& op) {
  const EntryRef entry = context.catalog().entry(op, device);
  context.catalog().measure(*entry, Tuning::off);  // estimates
  return context.catalog().best_ms(*entry).value_or(std::numeric_limits<double>::infinity());
}

}  // namespace pl::passes

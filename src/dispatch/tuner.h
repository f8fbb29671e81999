// Tuner: searches the tuning spaces of kernel families (TuningPoint in providers/provider.h) for the ops that a context
// has met on a device, the dearest first.
//
// For each op every point that the device can run is a candidate.  Those the provider would start from are measured
// first; families and layouts that even then are far behind are not searched; the others are compiled in parallel
// (beside the measurements where the device is not the host's own processor) and measured in turns, the slow ones only
// once.  Every time goes into the cost database at once, so that a search that is interrupted goes on where it was.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "dispatch/catalog.h"

namespace pl {

struct TuneOutcome {
  std::string op;                  // its text in the cost database
  double before_ms = 0;            // of the fastest way without a search
  double after_ms = 0;             // of the fastest way found
  std::string before, after;       // what they are: provider/implementation/layouts
  int points = 0;                  // of the space that the device can run
  int measured = 0;                // of them, now or before
  bool finished = false;           // all that are worth it were measured
  std::vector<TuningPoint> found;  // the fastest point of each family that has a space here
  std::vector<double> found_ms;
};

struct TuneOptions {
  double seconds = 300;  // no measurement is begun after that
  // Called before each op and now and then during it: what is done, how far all is (0 to 1).  False: stop.
  std::function<bool(const std::string& what, double fraction)> progress;
  Interrupt& interrupt;  // stops it too, in the midst of an op
};

// Ops are `entries`, as Catalog::met lists them; outcomes are in the order in which they were tuned.
std::vector<TuneOutcome> tune(Catalog& catalog, CostDatabase& costs, std::vector<EntryRef> entries,
                              const TuneOptions& options);

// The points that searches on this device found the fastest, as the database has them, of every provider:
// {"family", "shapes", "values", "op", "ms"}.
std::string tuned_points_json(const Catalog& catalog, const CostDatabase& costs,
                              const std::vector<std::string>& providers, const Device& device);

}  // namespace pl

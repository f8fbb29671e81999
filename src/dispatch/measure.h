// Times candidates side by side: every round runs each of them once, so that a machine whose speed drifts slows
// all alike; those that are clearly slower leave after a few rounds, and those close to the best get more of them.
// Ties, of ops with large weights, are decided by what the candidates take with all of their memory evicted as well.
// Samples during which another program took a processor away are taken again, so that a busy machine delays a
// measurement more than it falsifies it.
//
// The first run of each, which is not timed, is on the same values for all, and its result is held against the others'
// (dispatch/agreement.h): what stands against them is wrong, and is not timed.
#pragma once

#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include "core/device.h"
#include "core/interrupt.h"
#include "dispatch/agreement.h"
#include "providers/provider.h"

namespace pl {

struct TimedCandidate {
  const Candidate* candidate = nullptr;
  Kernel* kernel = nullptr;
  // out: the lower quartile of its undisturbed samples; of too few, the shortest sample of all.  Of candidates that are
  // a tie it says, too, what each takes when everything is cold; see break_ties.
  double ms = 0;
  bool failed = false;    // out: it threw
  bool wrong = false;     // out: its result stands against that of most others
  bool agrees = false;    // out: it is one of those most
  double error = 0;       // out: how far its result is from theirs (difference() of dispatch/agreement.h)
  bool doubtful = false;  // out: it is short, and was disturbed in nearly all samples
};

// A candidate that is run once, untimed, to decide between results that differ.
struct Witness {
  Candidate candidate;
  std::shared_ptr<Kernel> kernel;
};

struct MeasureOptions {
  // Asked for where results differ and no group of them is the largest.
  std::function<std::vector<Witness>()> witnesses;
  // In: the result of those measured earlier; out: the one that is right.  Null: only these are compared.
  AgreedResult* agreed = nullptr;
  // Inputs that come from far away in a program: by the time a layer runs again, the weights of the others have pushed
  // its own out of the caches.  Large ones are evicted before each run; other inputs were written just before.
  std::vector<bool> constants;
  bool untimed = false;        // results are compared, and nothing is timed
  int rounds = 9;              // for those still in the race
  int final_rounds = 16;       // more, for those close to the best
  double seconds = 0.15;       // for one op; at least three rounds are made within three times of it
  double give_up_ratio = 2.0;  // slower than the best by this after three rounds: no more rounds
  // Slower than the best by this in its first run: no second one.  For searches among many, most of them bad.
  double abandon_ratio = INFINITY;
  double best_ms = INFINITY;       // of what was measured before: takes part in both
  Interrupt* interrupt = nullptr;  // polled between samples; what was not finished is then not known
};

// Whether a constant of that size is evicted from the caches before each run, and the eviction.
bool comes_from_afar(size_t constant_bytes);
void evict(const Buffer& buffer);

// How an op is measured beside what a program runs, and about what that has its device do, in ms: of a candidate that
// takes `ms`, or of anything that takes so long and reads so many bytes of sample values.
MeasureOptions beside_runs();
double cost_beside_runs(const Candidate& candidate, double ms);
double cost_beside_runs(double ms, size_t bytes);

// Runs the candidates of one op on random data in buffers of its own.
void measure(Device& device, const Op& op, std::vector<TimedCandidate>& candidates, const MeasureOptions& options);

}  // namespace pl

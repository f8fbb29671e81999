// Agreement: candidates of one op that were run on the same values must give the same result.
//
// Each candidate's outputs are read at the same few hundred positions.  Candidates whose results lie within the bound
// of each other form a group, and the largest group is right.  The bound is what rounding explains: it grows with the
// square root of the length of the sums and with the coarsest type that takes part.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/device.h"
#include "ops/op.h"

namespace pl {

// Positions in the outputs of an op: corners, borders, edges of blocks and others, the same for every layout; and what
// runs of candidates leave there, gathered on the device and read at once.
class Probe {
 public:
  // `count` positions in each output, of at most `runs` runs.
  Probe(Device& device, const Op& op, int count, size_t runs);
  // Before a run: what was left in the outputs by others must not pass for a result.  Queued.
  void poison(const std::vector<TensorDesc>& outputs, const std::vector<Buffer*>& buffers);
  // After it, queued: keeps what is there as the result of run number `run`.
  void gather(size_t run, const std::vector<TensorDesc>& outputs, const std::vector<Buffer*>& buffers);
  // The values of each run, none of those that were not gathered.  Waits for the device.
  std::vector<std::vector<double>> read();

 private:
  struct Output {
    std::vector<Dims> positions;
    DType dtype;
    size_t offset;                                                  // of its values in those of a run, in bytes
    std::vector<std::pair<TensorDesc, std::vector<size_t>>> known;  // where the positions lie, in bytes, by layout
  };
  static const std::vector<size_t>& places(Output& output, const TensorDesc& desc);

  Device& device_;
  std::vector<Output> outputs_;
  size_t bytes_ = 0;  // of a run's values
  BufferRef gathered_;
  std::vector<bool> kept_;  // by run
};

// The largest relative difference that rounding explains between two results of the op.
double agreement_bound(const Op& op);

// How far two results are apart: the root mean square of their difference, or a sixteenth of the largest single one if
// that is more, relative to the root mean square of `expected`.  Infinite where one has a value that is not finite and
// the other has another.
double difference(const std::vector<double>& result, const std::vector<double>& expected);

// The result that candidates measured earlier agreed on, and how many they were.
struct AgreedResult {
  std::vector<double> values;
  int weight = 0;
};

struct Agreement {
  // The result that most agree on, by position in the given list; -1 where no group is the largest.
  int representative = -1;
  std::vector<bool> outlier;  // of each result: not of the largest group
  std::vector<double> error;  // difference from the representative
};
// `weights`: how much each result counts, at least 1.  Results that are empty (the candidate failed) do not count.
Agreement agree(const std::vector<std::vector<double>>& results, const std::vector<int>& weights, double bound);

}  // namespace pl

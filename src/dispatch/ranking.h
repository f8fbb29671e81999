// Ranking: what each way of an op would cost in one call, and which comes first.
//
// Under the automatic policy that is
//     op time  +  conversions of its inputs (free where a copy in that layout is kept with the tensor, and
//                 for constants, which are prepacked once per storage version, unless their storage changes again
//                 and again, as that of weights in training does)
//              +  what the consumers of its result will pay for the layout it gives, or where the caller gave memory
//                 for the result, the conversion into it; a copy where an input lies there that must stay until all
//                 is read (a sum accumulated into its operand).
// The last term is learned: every tensor knows the entry that made it, so a call teaches its producers who uses
// their results.  Looking a few consumers ahead (kLookAhead) then makes the eager choices of a repeated program
// agree with each other, as value iteration does; the first pass through a program has no such knowledge.
// What the times of single ops cannot tell, a contest decides by the clock: dispatch/contest.h.
#pragma once

#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/tensor.h"
#include "dispatch/catalog.h"
#include "dispatch/contest.h"
#include "dispatch/conversion.h"

namespace pl {

// A way with everything it would cost in a call.
struct RankedWay {
  Way* way = nullptr;
  double op_ms = 0;
  double reorder_ms = 0;   // of data inputs and constants that change; of outputs under per-op or into given memory
  double consumer_ms = 0;  // expected of consumers
  double margin_ms = 0;    // what a change of layout must promise beyond its cost
  int matches = 0;         // forced policy: tensors in the forced layout, outputs counted double
  double total() const { return op_ms + reorder_ms + consumer_ms + margin_ms; }
};

// The layout a forced policy wants for this tensor; nothing under other policies.
std::optional<Layout> forced_layout(const Policy& policy, const TensorDesc& desc);

// Whether the candidate may write output i where the caller wants it, whatever inputs lie there.  Kernels read and
// write in no order, but where one says that it reads each element of an input before it writes that of the result.
bool may_write_there(const Candidate& candidate, size_t i, const std::vector<TensorRef>& inputs,
                     const std::vector<TensorRef>& destinations);

class Ranking {
 public:
  Ranking(Catalog& catalog, Conversions& conversions, Contest& contest)
      : catalog_(catalog), conversions_(conversions), contest_(contest) {}

  // The usable ways of the entry, the one to take first.  `home`: where results belong; `destinations`: the memory that
  // the caller gave for some of them, null or missing for the others.
  std::vector<RankedWay> ranked(const Op& op, Entry& entry, const Policy& policy, const std::vector<TensorRef>& inputs,
                                Device& home, const std::vector<TensorRef>& destinations);
  // The consumer ran on these inputs: teaches the entries that made them, and the contest which ops are linked.
  void learn(Entry& consumer, const std::vector<TensorRef>& inputs);
  // Forgets what was worked out for entries that may be gone.
  void forget();
  // The user reads this tensor in plain layout: a consumer like any other.
  void note_read(const Tensor& tensor);

 private:
  double input_ms(const TensorRef& tensor, const TensorDesc& wanted, Device& device);
  double output_ms(const TensorDesc& output, Device& device, const Tensor& destination);
  double aside_ms(const Candidate& candidate, size_t i, Device& device, const std::vector<TensorRef>& inputs,
                  const std::vector<TensorRef>& destinations);
  double consumers_ms(Entry& producer, const Way& way, int depth);
  static double switch_ms(const Way& way, double conversion_ms);
  double penalty(Entry& entry, int input, const TensorDesc& given, int depth);

  Catalog& catalog_;
  Conversions& conversions_;
  Contest& contest_;
  std::mutex expected_lock_;
  uint64_t expected_epoch_ = 0;
  std::unordered_map<uint64_t, double> expected_;  // consumers_ms by producer, output layouts and depth
};

}  // namespace pl

// Dispatcher: chooses a way for each call by its ranking (dispatch/ranking.h), remembers the choice for the next call
// like it, and has the runner convert what must be converted and queue the work.
#pragma once

#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/tensor.h"
#include "dispatch/call_lists.h"
#include "dispatch/catalog.h"
#include "dispatch/contest.h"
#include "dispatch/joined_kernels.h"
#include "dispatch/machine.h"
#include "dispatch/ranking.h"
#include "dispatch/size_choices.h"
#include "dispatch/waiting_kernels.h"
#include "dispatch/weight_copies.h"

namespace pl {

class Conversions;
class LaterMeasuring;
class Profile;
class Runner;
class Together;

class Dispatcher {
 public:
  Dispatcher(Machine& machine, Catalog& catalog, LaterMeasuring& later, Conversions& conversions, Runner& runner,
             Profile& profile);

  std::vector<TensorRef> run(const Schema& schema, const CallRef& call, const std::vector<TensorRef>& inputs,
                             const std::vector<TensorRef>& destinations);
  // As calls of run would do; kernels that may run together are started as one.
  void run_all(const std::vector<OpCall>& calls);
  // The tensor in plain layout for a user who reads it: a consumer like any other.
  TensorRef for_reader(const TensorRef& tensor);
  std::string query_json(const Schema& schema, const CallRef& call, const std::vector<TensorRef>& inputs);
  void tune(const Schema& schema, const CallRef& call, const std::vector<TensorRef>& inputs, double seconds);
  void forget_decisions();
  // Lets go of what was chosen for calls long ago, where all that takes more memory than it may.
  void trim();
  // True once repeated programs run as they will from now on; see Contest and LaterMeasuring.
  bool settled() const;
  Contest& contest() { return contest_; }

 private:
  struct Decision {
    // what it was made for
    const Schema* schema = nullptr;
    CallRef call;
    std::vector<TensorDesc> inputs, destinations;  // absent ones where none was given
    std::vector<Device*> devices;                  // of the inputs
    uint64_t aliased = 0;                          // inputs, by bit, in whose memory a destination lies
    uint64_t copies = 0;
    uint64_t epoch = 0;
    // the choice
    EntryRef entry;
    Way* way = nullptr;  // null: a view, or nothing to compute
    std::shared_ptr<Kernel> kernel;
    const Together* together = nullptr;  // that kernel, where it may run with others
    Device* home = nullptr;              // where results belong; differs from the entry's device for a fallback
    std::string why_elsewhere;           // of a fallback: why nothing runs on `home`
    std::vector<TensorDesc> outputs;
    bool view = false;
    TensorDesc view_source;  // present: what the input is converted to before it is viewed
    // Of a view whose elements go to a destination on its device: the reorder that brings them there beside other
    // calls.
    EntryRef copy_entry;
    Way* copy_way = nullptr;
    std::shared_ptr<Kernel> copy;
  };
  using DecisionRef = std::shared_ptr<const Decision>;

  uint64_t key_of(const Schema& schema, const CallAttributes& call, const std::vector<TensorRef>& inputs,
                  const std::vector<TensorRef>& destinations) const;
  struct Turn {
    uint32_t number = 0;  // of the contest under way; 0: none
    uint64_t key = 0;     // of the call
  };
  Turn turn_of(const Schema& schema, const CallRef& call, const std::vector<TensorRef>& inputs,
               const std::vector<TensorRef>& destinations);
  // Found or made.
  DecisionRef decision_for(const Turn& turn, const Schema& schema, const CallRef& call,
                           const std::vector<TensorRef>& inputs, const std::vector<TensorRef>& destinations);
  DecisionRef find(uint64_t key, const Schema& schema, const CallRef& call, const std::vector<TensorRef>& inputs,
                   const std::vector<TensorRef>& destinations);
  // turn: of the contest under way, which the choice is made for; 0: none.
  DecisionRef decide(const Schema& schema, const CallRef& call, const std::vector<TensorRef>& inputs,
                     const std::vector<TensorRef>& destinations, uint32_t turn);
  // Takes what an op of like sizes took, without measuring.  False: it has to be chosen by itself.
  bool follow(Decision& decision, const Op& op, const SizeChoices::Call& like, const std::vector<TensorRef>& inputs);
  // The policy as a contest or its outcome has it for this entry.
  Policy policy_of(const CallAttributes& call, const Entry& entry, uint32_t turn) const;
  // Whether contests count this call: with tuning off, and while a profile is recorded, they do not.
  bool contested(const CallAttributes& call) const;
  Device& home_of(const Schema& schema, const CallAttributes& call, const std::vector<TensorRef>& inputs);
  // `why_elsewhere`: why that is one of the host, if it is not one of `home`.
  EntryRef entry_for(const Op& op, Device& home, std::string& why_elsewhere);
  void drop_losers(const Entry& entry, const Candidate& candidate, const std::vector<TensorRef>& inputs);
  // Running a decision.
  struct ReadyInputs {
    std::vector<Buffer*> buffers;
    std::vector<TensorRef> converted;  // keep what was made for this call alive
    std::vector<BufferRef> packed;
  };
  std::vector<TensorRef> execute(const Decision& decision, const Turn& turn, const std::vector<TensorRef>& inputs,
                                 const std::vector<TensorRef>& destinations);
  std::vector<TensorRef> make_views(const Decision& decision, const Turn& turn, const std::vector<TensorRef>& inputs);
  std::vector<TensorRef> run_choice(const Decision& decision, const Turn& turn, const std::vector<TensorRef>& inputs,
                                    const std::vector<TensorRef>& destinations);
  ReadyInputs bring_inputs(const Decision& decision, const std::vector<TensorRef>& inputs);
  // Whether the kernel, to which nothing is packed, may read input i where it lies.
  static bool is_direct_input(const Decision& decision, size_t i, const std::vector<TensorRef>& inputs);
  // Whether the kernel may write output i where the caller wants it.
  static bool is_direct(const Decision& decision, size_t i, const std::vector<TensorRef>& inputs,
                        const std::vector<TensorRef>& destinations);
  static std::vector<TensorRef> place_results(const Decision& decision, const std::vector<TensorRef>& inputs,
                                              const std::vector<TensorRef>& destinations);
  // As one that waits for others like it; nothing where it has to run by itself.
  static std::optional<WaitingKernels::One> as_waiting(const DecisionRef& decision, const OpCall& call);
  void start_again(const CallLists::List& list, const std::vector<OpCall>& calls);
  void note_use(const EntryRef& entry, bool copies, const OpCall& call);
  static void add_call(CallLists::List& list, const DecisionRef& decision, const WaitingKernels::One& one,
                       const OpCall& call, const CallLists::Likeness& likeness);
  void find_copy_of_view(Decision& decision, const std::vector<TensorRef>& destinations);
  void hand_over(const Decision& decision, std::vector<TensorRef>& results, const std::vector<TensorRef>& destinations);

  Machine& machine_;
  Catalog& catalog_;
  LaterMeasuring& later_;
  Conversions& conversions_;
  Runner& runner_;
  Profile& profile_;
  Contest contest_;
  Ranking ranking_;
  SizeChoices size_choices_;
  std::shared_mutex lock_;
  std::unordered_map<uint64_t, DecisionRef> decisions_;
  JoinedKernels joined_;
  CallLists call_lists_;
  WeightCopies weight_copies_;
};

}  // namespace pl

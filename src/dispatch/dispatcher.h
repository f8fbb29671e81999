// Dispatcher: chooses a way for each call, converts what must be converted, and queues the work.
//
// The choice for one call, under the automatic policy, is the way with the least
//     op time  +  conversions of its inputs (free where a copy in that layout is kept with the tensor, and
//                 for constants, which are prepacked once per storage version)
//              +  what the consumers of its result will pay for the layout it gives.
// The last term is learned: every tensor knows the entry that made it, so a call teaches its producers who uses
// their results.  Looking a few consumers ahead (kLookAhead) then makes the eager choices of a repeated program
// agree with each other, as value iteration does; the first pass through a program has no such knowledge.
#pragma once

#include <memory>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/tensor.h"
#include "dispatch/catalog.h"
#include "dispatch/context.h"
#include "dispatch/conversion.h"

namespace pl {

class Profile;

class Dispatcher {
 public:
  Dispatcher(Context& context, Catalog& catalog, Profile& profile);

  std::vector<TensorRef> run(const Schema& schema, const CallRef& call, const std::vector<TensorRef>& inputs,
                             const std::vector<TensorRef>& destinations);
  // `why` names the op and argument that need the conversion, for the profile; `keep`: keep the copy.
  TensorRef convert(const TensorRef& tensor, Device& device, const TensorDesc& wanted, const char* role,
                    const std::string& why, bool keep);
  // The tensor as `packing` of the candidate wants it, packed on `device`; made once for each storage version if kept.
  BufferRef packed(const TensorRef& tensor, Device& device, const Candidate& candidate, const Packing& packing,
                   const std::string& why, bool keep);
  void convert_into(const TensorRef& tensor, const TensorRef& destination, const std::string& why);
  // The user reads this tensor in plain layout: a consumer like any other.
  void note_read(const Tensor& tensor);
  std::string query_json(const Schema& schema, const CallRef& call, const std::vector<TensorRef>& inputs);
  void tune(const Schema& schema, const CallRef& call, const std::vector<TensorRef>& inputs, double seconds);
  void forget_decisions();

 private:
  struct Option {  // a way with everything it would cost in this call
    Way* way = nullptr;
    double op_ms = 0;
    double reorder_ms = 0;   // of data inputs (and of the output, under per-op)
    double consumer_ms = 0;  // expected of consumers
    double margin_ms = 0;    // what a change of layout must promise beyond its cost
    int matches = 0;         // forced policy: tensors in the forced layout, outputs counted double
    double total() const { return op_ms + reorder_ms + consumer_ms + margin_ms; }
  };
  struct Decision {
    // what it was made for
    const Schema* schema = nullptr;
    CallRef call;
    std::vector<TensorDesc> inputs;
    std::vector<Device*> devices;
    uint64_t copies = 0;
    uint64_t epoch = 0;
    // the choice
    EntryRef entry;
    Way* way = nullptr;  // null: a view, or nothing to compute
    std::shared_ptr<Kernel> kernel;
    Device* home = nullptr;  // where results belong; differs from the entry's device for a fallback
    std::vector<TensorDesc> outputs;
    bool view = false;
    TensorDesc view_source;  // present: what the input is converted to before it is viewed
  };
  using DecisionRef = std::shared_ptr<const Decision>;

  uint64_t key_of(const Schema& schema, const CallAttributes& call, const std::vector<TensorRef>& inputs) const;
  DecisionRef find(uint64_t key, const Schema& schema, const CallRef& call, const std::vector<TensorRef>& inputs);
  DecisionRef decide(const Schema& schema, const CallRef& call, const std::vector<TensorRef>& inputs);
  Device& home_of(const Schema& schema, const CallAttributes& call, const std::vector<TensorRef>& inputs);
  EntryRef entry_for(const Op& op, Device& home);
  std::vector<Option> options(const Op& op, Entry& entry, const Policy& policy, const std::vector<TensorRef>& inputs,
                              Device& home);
  double input_ms(const TensorRef& tensor, const TensorDesc& wanted, Device& device);
  double consumers_ms(Entry& producer, const Way& way, int depth);
  static double switch_ms(const Way& way, double conversion_ms);
  double penalty(Entry& entry, int input, const TensorDesc& given, int depth);
  void learn(const Decision& decision, const std::vector<TensorRef>& inputs);
  std::vector<TensorRef> execute(const Decision& decision, const std::vector<TensorRef>& inputs,
                                 const std::vector<TensorRef>& destinations);
  void run_kernel(const Entry& entry, const Way& way, Kernel& kernel, const std::vector<Buffer*>& inputs,
                  const std::vector<Buffer*>& outputs, const char* kind, const char* role, const std::string& cause);

  Context& context_;
  Catalog& catalog_;
  Profile& profile_;
  Conversions conversions_;
  std::shared_mutex lock_;
  std::unordered_map<uint64_t, DecisionRef> decisions_;
  std::mutex expected_lock_;
  uint64_t expected_epoch_ = 0;
  std::unordered_map<uint64_t, double> expected_;  // consumers_ms by producer, output layouts and depth
};

}  // namespace pl

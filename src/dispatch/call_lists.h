// CallLists: lists of calls as they were started, for the next lists like them.
//
// An optimizer's step makes the same hundreds of calls again and again, on the same tensors but for the gradients, which
// are new ones of the same sizes.  What is chosen for such calls, and which of their kernels run as one, follows from
// the ops, from how their tensors lie, and from which of these share a storage.  Where all that is as it was, the
// kernels are started again with the storages of now.  No storage is kept alive for that.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/tensor.h"
#include "dispatch/catalog.h"

namespace pl {

// A call whose results are written into tensors that exist.
struct OpCall {
  const Schema& schema;
  CallRef call;
  std::vector<TensorRef> inputs, destinations;
};

// Thread-safe.
class CallLists {
 public:
  // Tensors of a list are numbered: call after call, inputs before destinations.
  static constexpr uint32_t kNone = UINT32_MAX;

  // Kernels that were started as one, or one alone.
  struct Group {
    std::vector<const Entry*> entries;
    const Way* way = nullptr;
    std::shared_ptr<Kernel> kernel;
    std::vector<uint32_t> inputs, outputs;  // the kernel's arguments, by number of the tensor; kNone: absent
    const char* kind = "op";                // these three: for the profile
    const char* role = "";
    std::string cause;
  };
  struct Call {
    const Schema* schema;
    CallRef call;
    size_t inputs, outputs;
    EntryRef entry;                     // the one that runs
    bool copies;                        // a view, whose elements that entry copies
    std::shared_ptr<const void> keeps;  // what the descriptions below are a part of
  };
  struct Place {
    const TensorDesc* desc;
    const Device* device;
    std::weak_ptr<Tensor> tensor;  // which it was: its description need not be compared
    uint32_t first;                // the first tensor of the list with the same storage
  };
  struct List {
    uint64_t epoch = 0;  // of the catalog, when it was chosen for
    std::vector<Call> calls;
    std::vector<Place> places;
    std::vector<Group> groups;  // in the order in which they are started
  };

  // What two lists must have in common, but for what only a look at each tensor shows.
  struct Likeness {
    uint64_t hash = 0;
    std::vector<uint32_t> first;  // by tensor, as in Place
  };
  static Likeness likeness(const std::vector<OpCall>& calls);

  // A list like this one, of that epoch; null: there is none.
  std::shared_ptr<const List> find(const Likeness& likeness, const std::vector<OpCall>& calls, uint64_t epoch);
  // Whether a list is to be kept: from the second time on that one like it comes.
  bool wants(const Likeness& likeness);
  void put(const Likeness& likeness, std::shared_ptr<const List> list);
  void forget();

 private:
  std::mutex lock_;
  std::unordered_map<uint64_t, std::shared_ptr<const List>> lists_;
  std::vector<uint64_t> seen_;  // hashes of lists that came once, by their low bits
};

}  // namespace pl

// Kernels that wait to be started as one (providers/together.h).
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "core/tensor.h"
#include "dispatch/call_lists.h"
#include "dispatch/catalog.h"
#include "dispatch/joined_kernels.h"
#include "providers/together.h"

namespace pl {

class Runner;

// Kernels in rounds: one that reads what another one writes, or writes what that uses, is of a later round.  Those of a
// round run in any order, the rounds one after another.  Used by one thread.
class WaitingKernels {
 public:
  struct One {
    EntryRef entry;
    Way* way;
    std::shared_ptr<Kernel> kernel;
    const Together* together;                // that kernel; null: it runs alone
    std::vector<BufferRef> inputs, outputs;  // null: absent
    const char* kind = "op";                 // these three: for the profile
    const char* role = "";
    std::string cause;
    uint32_t first_input = 0, first_output = 0;  // their numbers in a list of calls (dispatch/call_lists.h)
  };

  WaitingKernels(Runner& runner, JoinedKernels& joined) : runner_(runner), joined_(joined) {}
  // From here on notes what is started.
  void note_into(std::vector<CallLists::Group>* groups) { groups_ = groups; }
  void add(One one);
  // Starts all, those of a round that are alike as one, and forgets them.  Storages that are written have another
  // version then.
  void start();
  // Starts such a group with these arguments.
  static void start(Runner& runner, const CallLists::Group& group, const std::vector<Buffer*>& inputs,
                    const std::vector<Buffer*>& outputs);

 private:
  void start_round(const std::vector<One>& all);
  void start_group(const std::vector<const One*>& group);

  Runner& runner_;
  JoinedKernels& joined_;
  std::vector<CallLists::Group>* groups_ = nullptr;
  std::vector<std::vector<One>> rounds_;
  struct LastUse {
    int read = -1, written = -1;  // rounds
  };
  std::unordered_map<const void*, LastUse> uses_;  // by memory_of
};

}  // namespace pl

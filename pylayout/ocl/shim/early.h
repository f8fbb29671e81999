// Numbers that plans give and the host reads while other plans are queued behind them, as a loss is.
//
// A queue is in order, so who reads a loss behind backward and the optimizer's step waits for these as well, and the
// device then waits for the host until the next forward's first kernel: 1.2 to 2.6 ms of a step under torch.compile on
// an H200.  So the copy to the host is queued in front of what runs next, and reading waits for that copy alone: the
// host begins the next step while the device is in this one's backward.
#pragma once

#include <optional>

#include "shim.h"

namespace ocl {

// What a block with such a number keeps until something else sees its memory.
struct EarlyNumber {
  EarlyNumber(std::shared_ptr<std::atomic<bool>> is_wanted, uint64_t run)
      : wanted(std::move(is_wanted)), made_in(run) {}
  EarlyNumber(const EarlyNumber&) = delete;
  EarlyNumber& operator=(const EarlyNumber&) = delete;
  ~EarlyNumber();

  const std::shared_ptr<std::atomic<bool>> wanted;  // of the plan that made it: whether such reads are worth their copy
  const uint64_t made_in;                           // the number of that run
  at::Tensor host;                                  // pinned; undefined: no copy is queued
  pl_event event = nullptr;                         // after the copy
};

// Behind a run of a plan: it made this tensor of one number.
void note_number(const at::Tensor& made, const std::shared_ptr<std::atomic<bool>>& wanted);
// In front of a run of a plan: queues the copies of what the one before made, where somebody wants it.
void start_early_reads();
// The number, if it was copied so; without one it is noted whether a copy would have come earlier.
std::optional<at::Scalar> early_number(const at::Tensor& tensor);

}  // namespace ocl

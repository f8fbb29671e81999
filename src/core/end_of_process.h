// The end of the process: what is waited for before libraries go that threads may still be working in. A driver must
// not be torn down around its own call.
//
// std::atexit alone comes too late.  What is registered last is called first, and libraries register the destructors
// of objects that they make on the way: LLVM, when it compiles its first kernel.  Thread-local objects of the thread
// that ends the process go before all of these ([basic.start.term]), so each call into the library leaves one.
//
// When the main thread ends the process:
//   1. Calls of other threads are told to end (Interrupt::poll), and waited for: kMostSeconds at most.  Calls that
//      begin later are let through: a static object may wait for a thread that makes them.
//   2. The actions are called, the last added first.
// Where the main thread never called the library, std::atexit does both.
#pragma once

#include <atomic>

namespace pl {

// Throws nothing.  It is called in forked children, too, where it must wait for nothing of the parent's.
void add_end_of_process(void (*action)());

// Of every call from outside: as long as it lives, the calling thread is in the library.
class InLibrary {
 public:
  InLibrary() {
    if (depth_++ == 0) enter();
  }
  ~InLibrary() {
    if (--depth_ == 0) place_->store(kOutside, std::memory_order_release);
  }
  InLibrary(const InLibrary&) = delete;
  InLibrary& operator=(const InLibrary&) = delete;

  // Whether the calling thread's call is to end, as the process does.
  static bool is_to_end() { return place_ && place_->load(std::memory_order_relaxed) == kToEnd; }

  enum State { kOutside, kInside, kToEnd };

 private:
  void enter() {
    if (!place_) take_place();
    place_->store(kInside, std::memory_order_seq_cst);
  }
  static void take_place();
  // Of the calling thread; without destructors, as static objects' may call the library.
  static thread_local int depth_;
  static thread_local std::atomic<State>* place_;
};

}  // namespace pl

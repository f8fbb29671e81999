// Building: whether kernels may be compiled while a thread prepares them.
//
// A program for sizes that were not seen before takes kernels that are compiled already where there are some: others
// may be faster by a few per cent, and take seconds before they run.
#pragma once

#include <functional>
#include <string>
#include <utility>

namespace pl {

// Thrown by Candidate::prepare under Building::never, where a kernel would have to be compiled.  No Error: the
// candidate is sound, and who prepares it later may compile it.
struct NotBuilt {};

// What this thread does while the object lives.
class Building {
 public:
  enum Wish {
    freely,     // compiles what is asked for
    sparingly,  // who may choose takes what is compiled, where there is some
    never,
    behind,  // lets other threads compile it, where the device can: whoever runs the kernel first waits for it
  };
  // Told, by any thread, why a kernel that was prepared under `behind` turned out not to compile.
  using Failed = std::function<void(const std::string& problem)>;

  explicit Building(Wish wish, Failed failed = {}) : wish_(wish), failed_(std::move(failed)), before_(current_) {
    current_ = this;
  }
  ~Building() { current_ = before_; }
  Building(const Building&) = delete;
  Building& operator=(const Building&) = delete;
  static Wish wish() { return current_ ? current_->wish_ : freely; }
  // Empty where nobody is to be told.
  static Failed failed() { return current_ ? current_->failed_ : Failed(); }

 private:
  static inline thread_local const Building* current_ = nullptr;
  Wish wish_;
  Failed failed_;
  const Building* before_;
};

}  // namespace pl

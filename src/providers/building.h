// Building: whether kernels may be compiled while a thread prepares them.
//
// A program for sizes that were not seen before takes kernels that are compiled already where there are some: others
// may be faster by a few per cent, and take seconds before they run.
#pragma once

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
  };
  explicit Building(Wish wish) : before_(wish_) { wish_ = wish; }
  ~Building() { wish_ = before_; }
  Building(const Building&) = delete;
  Building& operator=(const Building&) = delete;
  static Wish wish() { return wish_; }

 private:
  static inline thread_local Wish wish_ = freely;
  Wish before_;
};

}  // namespace pl

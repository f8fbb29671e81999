// BesideRuns: ways of ops compiled and measured by a thread that nobody waits for, between what a program has its
// device do (dispatch/later_measuring.h, graph/live_queued.h).
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "dispatch/builders.h"
#include "dispatch/catalog.h"

namespace pl {

class BesideRuns {
 public:
  // `check` throws where all is to end; `afford` waits until the device may be kept busy for so many ms.
  BesideRuns(Catalog& catalog, Interrupt& interrupt, std::function<void()> check, std::function<void(double)> afford);

  // Has kernels compiled, where that is needed, behind those that were asked for before.
  void add(const EntryRef& entry, const std::vector<size_t>& ways);
  // Waits until they are there, or could not be made.
  void compile(const EntryRef& entry, const std::vector<size_t>& ways);
  // Compiles ways and holds them against each other, some at a time.  Choices that were made stay until the epoch grows.
  void measure(const EntryRef& entry, const std::vector<size_t>& ways);
  // Finds out what the ops' devices can do, and whether tables of their costs hold, where that is not known.
  void ask_tables(const std::vector<EntryRef>& entries);
  // Ends the threads that compile; the next kernel begins others.
  void end() { builders_ = nullptr; }

  // What measuring a way, or comparing its result, has its device do, in ms.
  static double cost_of(const Way& way);

 private:
  Builders& builders_for(const Device& device);

  Catalog& catalog_;
  Interrupt& interrupt_;
  std::function<void()> check_;
  std::function<void(double)> afford_;
  std::unique_ptr<Builders> builders_;  // from the first op on whose kernels are compiled
};

}  // namespace pl

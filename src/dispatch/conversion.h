// Conversions: the cheapest way from one (device, layout, dtype) to another.
//
// The graph of a conversion is small: the source and the target device, each with the source's and the target's
// layout and dtype.  Edges are reorders within a device and transfers of unchanged bytes between devices; the
// cheapest path is at most reorder, transfer, reorder.
#pragma once

#include <mutex>
#include <unordered_map>
#include <vector>

#include "core/desc.h"
#include "core/device.h"
#include "dispatch/catalog.h"

namespace pl {

class LaterMeasuring;

struct ConversionStep {
  enum class Kind { reorder, transfer } kind = Kind::reorder;
  EntryRef entry;            // of a reorder
  Device* device = nullptr;  // where the result lies
  TensorDesc result;
  double ms = 0;
};

struct Conversion {
  std::vector<ConversionStep> steps;  // empty: the same bytes already
  double ms = 0;
};

// What a reorder costs: as it is known, else estimated; or it is measured first where tuning permits: before anything
// goes on, or as an eager call's op is (LaterMeasuring).
enum class ReorderCosts { known, measured, eager };

class Conversions {
 public:
  Conversions(const Machine& machine, Catalog& catalog, LaterMeasuring& later)
      : machine_(machine), catalog_(catalog), later_(later) {}
  // Plans.  Throws Error(unsupported) where no path exists.
  // threads: of reorders on `cpu`; 0: the machine's.
  Conversion plan(const TensorDesc& from, Device& source, const TensorDesc& to, Device& target, ReorderCosts costs,
                  int threads = 0);
  double cost_ms(const TensorDesc& from, Device& source, const TensorDesc& to, Device& target, ReorderCosts costs,
                 int threads = 0);
  // What a copy to another place on the same device costs, as far as it is known; else an estimate.
  double copy_ms(const TensorDesc& desc, Device& device, int threads = 0);
  void forget();

 private:
  const Machine& machine_;
  Catalog& catalog_;
  LaterMeasuring& later_;
  std::mutex lock_;
  uint64_t published_ = 0;                      // LaterMeasuring::published() when these were found
  std::unordered_map<uint64_t, double> known_;  // cost by hash of the four arguments
};

}  // namespace pl

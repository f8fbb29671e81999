#include "dispatch/conversion.h"

#include <limits>

#include "dispatch/later_measuring.h"
#include "dispatch/machine.h"

namespace pl {
namespace {

// What a step costs beside its own time: the call, its memory, caches that the next op finds colder.  Reorders that
// take 2 to 4 us in a loop take 8 within ResNet-50 (Zen 5, two cores; bench/networks.py, `reorder ms` / `reorders`).
constexpr double kStepOverheadMs = 0.005;

}  // namespace

Conversion Conversions::plan(const TensorDesc& from, Device& source, const TensorDesc& to, Device& target,
                             ReorderCosts costs, int threads) {
  const Tuning tuning = costs == ReorderCosts::known ? Tuning::off : machine_.options().tuning;
  // A step that changes nothing is no step; one that cannot be made makes the path impossible.
  const auto add_reorder = [&](Conversion& path, const TensorDesc& before, const TensorDesc& after, Device& device) {
    const EntryRef entry = catalog_.reorder(before, after, device, threads);
    if (!entry) return true;
    MeasureLimits limits;
    limits.op_seconds = 0.03;
    if (costs == ReorderCosts::eager)
      later_.want(entry, tuning, limits);
    else
      catalog_.measure(*entry, tuning, limits);
    const auto ms = catalog_.best_ms(*entry);
    if (!ms) return false;
    path.steps.push_back({ConversionStep::Kind::reorder, entry, &device, after, *ms});
    path.ms += *ms + kStepOverheadMs;
    return true;
  };
  if (&source == &target) {
    Conversion path;
    if (add_reorder(path, from, to, source)) return path;
    fail(Code::unsupported, "reorder: no way from ", from, " to ", to, " on ", source.name());
  }
  const Device& remote = source.traits().host_addressable ? target : source;
  const Rates rates = catalog_.rates(const_cast<Device&>(remote));
  Conversion best;
  best.ms = std::numeric_limits<double>::infinity();
  for (const Layout& layout : {from.layout, to.layout}) {
    for (DType dtype : {from.dtype, to.dtype}) {
      const TensorDesc between = TensorDesc::dense(dtype, from.shape, layout);
      Conversion path;
      if (!add_reorder(path, from, between, source)) continue;
      const double transfer = rates.transfer_overhead_ms + double(between.size_bytes()) / rates.transfer_bytes_per_ms;
      path.steps.push_back({ConversionStep::Kind::transfer, nullptr, &target, between, transfer});
      path.ms += transfer + kStepOverheadMs;
      if (!add_reorder(path, between, to, target)) continue;
      if (path.ms < best.ms) best = std::move(path);
    }
  }
  require(!best.steps.empty(), Code::unsupported, "reorder: no way from ", from, " on ", source.name(), " to ", to,
          " on ", target.name());
  return best;
}

double Conversions::cost_ms(const TensorDesc& from, Device& source, const TensorDesc& to, Device& target,
                            ReorderCosts costs, int threads) {
  if (&source == &target && same_memory(from, to)) return 0;
  uint64_t key = hash_mix(from.hash(), to.hash());
  key = hash_mix(key, reinterpret_cast<uintptr_t>(&source));
  key = hash_mix(key, reinterpret_cast<uintptr_t>(&target));
  key = hash_mix(key, uint64_t(costs) + 4 * uint64_t(threads));
  {
    std::lock_guard<std::mutex> guard(lock_);
    if (const uint64_t published = later_.published(); published != published_) {
      known_.clear();
      published_ = published;
    }
    auto it = known_.find(key);
    if (it != known_.end()) return it->second;
  }
  const double ms = plan(from, source, to, target, costs, threads).ms;
  constexpr size_t kMost = 1 << 16;
  std::lock_guard<std::mutex> guard(lock_);
  if (known_.size() >= kMost) known_.clear();
  return known_[key] = ms;
}

double Conversions::copy_ms(const TensorDesc& desc, Device& device, int threads) {
  const EntryRef entry = catalog_.copy(desc, device, threads);
  catalog_.measure(*entry, Tuning::off);
  return catalog_.best_ms(*entry).value_or(0) + kStepOverheadMs;
}

void Conversions::forget() {
  std::lock_guard<std::mutex> guard(lock_);
  known_.clear();
}

}  // namespace pl

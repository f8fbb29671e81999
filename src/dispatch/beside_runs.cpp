#include "dispatch/beside_runs.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "core/threads.h"

namespace pl {
namespace {

constexpr double kMostAtOnceMs = 20;  // of device time, before others' share of it is looked at again
constexpr std::chrono::milliseconds kBuildLook(20);

}  // namespace

BesideRuns::BesideRuns(Catalog& catalog, Interrupt& interrupt, std::function<void()> check,
                       std::function<void(double)> afford)
    : catalog_(catalog), interrupt_(interrupt), check_(std::move(check)), afford_(std::move(afford)) {}

double BesideRuns::cost_of(const Way& way) { return cost_beside_runs(way.candidate, way.ms); }

Builders& BesideRuns::builders_for(const Device& device) {
  if (!builders_)
    builders_ = std::make_unique<Builders>(catalog_, interrupt_,
                                           std::clamp(available_processors() / 2, 1, std::max(1, device.builders())));
  return *builders_;
}

void BesideRuns::add(const EntryRef& entry, const std::vector<size_t>& ways) {
  if (!entry->device->traits().compiles) return;
  for (const size_t way : ways) builders_for(*entry->device).add(entry, way);
}

void BesideRuns::compile(const EntryRef& entry, const std::vector<size_t>& ways) {
  add(entry, ways);
  if (entry->device->traits().compiles)
    while (!builders_for(*entry->device).wait(entry, ways, std::chrono::steady_clock::now() + kBuildLook)) check_();
}

void BesideRuns::measure(const EntryRef& entry, const std::vector<size_t>& ways) {
  compile(entry, ways);
  check_();
  for (size_t done = 0; done < ways.size();) {
    std::vector<size_t> some;
    double cost = 0;
    while (done < ways.size() && (some.empty() || cost < kMostAtOnceMs)) {
      some.push_back(ways[done]);
      cost += cost_of(entry->ways[ways[done++]]);
    }
    afford_(cost);
    catalog_.measure_unannounced(*entry, some, beside_runs());
  }
}

void BesideRuns::ask_tables(const std::vector<EntryRef>& entries) {
  const auto ready = [this](const EntryRef& entry, const std::vector<size_t>& ways) {
    compile(entry, ways);
    double cost = 0;
    for (const size_t way : ways) cost += cost_of(entry->ways[way]);
    afford_(cost);
    return true;
  };
  Builders* builders = nullptr;
  bool found = false;
  std::set<Device*> devices;
  for (const EntryRef& entry : entries) devices.insert(entry->device);
  for (Device* device : devices) {
    if (device->traits().compiles) builders = &builders_for(*device);
    found = catalog_.find_rates(*device, ready) || found;
  }
  if (found) catalog_.correct_estimates(entries);
  catalog_.check_tables(entries, builders, ready);
}

}  // namespace pl

#include "dispatch/later_measuring.h"

#include <algorithm>

#include "dispatch/machine.h"
#include "profile/profile.h"

namespace pl {
namespace {

constexpr std::chrono::milliseconds kLook(50);  // the end of the process tells nobody

}  // namespace

LaterMeasuring::LaterMeasuring(Machine& machine, Catalog& catalog, Profile& profile)
    : machine_(machine),
      catalog_(catalog),
      profile_(profile),
      beside_(
          catalog, machine.interrupt(), [this] { check(); }, [this](double ms) { afford(ms); }) {}

LaterMeasuring::~LaterMeasuring() { background_.stop(); }

void LaterMeasuring::want(const EntryRef& entry, Tuning tuning, const MeasureLimits& limits) {
  const bool later = tuning == Tuning::automatic && entry->device->traits().gpu && !background_.is_left_behind();
  if (!later) return catalog_.measure(*entry, tuning, limits);
  if (entry->open || entry->left_alone || catalog_.to_measure(*entry, tuning).empty()) return;
  std::lock_guard<std::mutex> guard(lock_);
  if (entry->open.exchange(true)) return;
  ++left_;
  waiting_.push_back(entry);
  if (working_) return;
  working_ = background_.add([this] { work(); });
  if (working_) return;
  waiting_.clear();  // there are no threads
  entry->left_alone = true;
  close(*entry);
}

// ---- the background ----

void LaterMeasuring::check() const {
  if (background_.stopping() || machine_.options().tuning != Tuning::automatic) throw Stopped();
}

void LaterMeasuring::close(Entry& entry) {
  if (entry.open.exchange(false)) --left_;
}

void LaterMeasuring::work() {
  credited_ = published_at_ = Clock::now();
  std::vector<EntryRef> entries;
  const auto end = [&] {
    for (const EntryRef& entry : entries) close(*entry);
    publish(true);
    entries.clear();
    beside_.end();
  };
  for (;;) {
    try {
      wait_for_quiet();
      {
        std::lock_guard<std::mutex> guard(lock_);
        entries.swap(waiting_);
      }
      beside_.ask_tables(entries);
      measure(entries, kSome);
      catalog_.correct_estimates(entries);
      publish(true);
      measure(entries, SIZE_MAX);
    } catch (const Stopped&) {
      std::lock_guard<std::mutex> guard(lock_);
      entries.insert(entries.end(), waiting_.begin(), waiting_.end());
      waiting_.clear();
    } catch (const std::exception&) {  // what was not measured is left alone
      for (const EntryRef& entry : entries)
        if (entry->open) entry->left_alone = true;
    }
    end();
    std::lock_guard<std::mutex> guard(lock_);
    working_ = !waiting_.empty();
    if (!working_) return;
  }
}

// The first calls of a program have kernels of their own to be compiled, which these would delay.
void LaterMeasuring::wait_for_quiet() {
  const Clock::time_point until = Clock::now() + kPatience;
  std::unique_lock<std::mutex> guard(lock_);
  for (;;) {
    const Clock::time_point now = Clock::now(), chosen{Clock::duration(chosen_.load())};
    const bool compiles = std::any_of(waiting_.begin(), waiting_.end(),
                                      [](const EntryRef& entry) { return entry->device->compiles_behind(); });
    if (now >= until || (choosing_ == 0 && !compiles && now >= chosen + quiet.load())) break;
    check();
    changed_.wait_for(guard, kLook);
  }
}

// Waits until so much may be spent, and counts it as spent.
void LaterMeasuring::afford(double ms) {
  for (;;) {
    check();
    const Clock::time_point now = Clock::now();
    credit_ms_ += kShare * std::chrono::duration<double, std::milli>(now - credited_).count();
    credit_ms_ = std::min(credit_ms_, kMostCreditMs);
    credited_ = now;
    if (std::min(ms, kMostCreditMs) <= credit_ms_ && !profile_.active()) break;
    std::unique_lock<std::mutex> guard(lock_);
    changed_.wait_for(guard, kLook);
  }
  credit_ms_ -= ms;
}

// Those that are measured next, so that `most` are in all; the ones in use first, as what is to beat them is held
// against their results.
std::vector<size_t> LaterMeasuring::ways_of(Entry& entry, size_t most) {
  std::vector<size_t> ways = catalog_.to_measure(entry, Tuning::automatic);
  std::stable_partition(ways.begin(), ways.end(), [&](size_t way) { return bool(entry.ways[way].taken); });
  size_t measured = 0;
  for (const Way& way : entry.ways) measured += way.measured && way.usable;
  ways.resize(std::min(ways.size(), most - std::min(most, measured)));
  return ways;
}

void LaterMeasuring::measure(const std::vector<EntryRef>& entries, size_t most) {
  std::vector<std::pair<double, EntryRef>> order;
  for (const EntryRef& entry : entries)
    if (entry->open) order.emplace_back(catalog_.best_ms(*entry).value_or(0) * std::max(1u, entry->runs.load()), entry);
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second->text < b.second->text;
  });
  for (const auto& each : order) beside_.add(each.second, ways_of(*each.second, most));
  for (const auto& each : order) {
    const EntryRef& entry = each.second;
    try {
      // What measuring shows may bring others within reach of the best.
      for (;;) {
        const std::vector<size_t> ways = ways_of(*entry, most);
        if (ways.empty()) break;
        found_ = true;
        beside_.measure(entry, ways);
      }
    } catch (const Error&) {
      entry->left_alone = true;
    }
    if (entry->left_alone || catalog_.to_measure(*entry, Tuning::automatic).empty()) close(*entry);
    publish(false);
  }
}

void LaterMeasuring::publish(bool at_once) {
  if (!found_ || (!at_once && Clock::now() < published_at_ + kBetween)) return;
  published_at_ = Clock::now();
  ++published_;
  catalog_.bump_epoch();
  found_ = false;
}

}  // namespace pl

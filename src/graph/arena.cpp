#include "graph/arena.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "core/status.h"

namespace pl {
namespace {

// Comparisons of two buffers, about three nanoseconds each, that improving a plan may take.  What a few hundred buffers
// need to reach the bound is far below it (tests/c/test_arena.cpp).
constexpr uint64_t kWork = 30'000'000;
constexpr int kRetries = 200;
// Placed buffers are kept by stretches of steps.  A buffer that lives through many is better compared with all.
constexpr int64_t kStretches = 64;
constexpr double kManyStretches = 4;

enum class Fit { first, best };

size_t align(size_t offset, size_t alignment) { return (offset + alignment - 1) & ~(alignment - 1); }

// The most bytes alive at any one step.  Refuses what is no lifetime, no alignment, or too much.
size_t liveness_bound(const std::vector<ArenaBuffer>& buffers) {
  std::vector<std::pair<int64_t, size_t>> starts, ends;  // (step, bytes)
  size_t total = 0;
  for (size_t b = 0; b < buffers.size(); ++b) {
    const ArenaBuffer& buffer = buffers[b];
    require(buffer.first <= buffer.last, Code::internal, "arena: buffer ", b, " lives from step ", buffer.first,
            " to step ", buffer.last);
    require(buffer.alignment > 0 && (buffer.alignment & (buffer.alignment - 1)) == 0, Code::internal, "arena: buffer ",
            b, " has alignment ", buffer.alignment, ", expected a power of two");
    const size_t room = std::numeric_limits<size_t>::max() - total;
    require(buffer.alignment <= room && buffer.bytes <= room - buffer.alignment, Code::out_of_memory,
            "arena: the buffers need more memory than can be addressed");
    total += buffer.bytes + buffer.alignment;
    starts.emplace_back(buffer.first, buffer.bytes);
    ends.emplace_back(int64_t(buffer.last) + 1, buffer.bytes);
  }
  std::sort(starts.begin(), starts.end());
  std::sort(ends.begin(), ends.end());
  size_t live = 0, most = 0, end = 0;
  for (const auto& [step, bytes] : starts) {
    while (ends[end].first <= step) live -= ends[end++].second;
    live += bytes;
    most = std::max(most, live);
  }
  return most;
}

class Planner {
 public:
  explicit Planner(const std::vector<ArenaBuffer>& buffers) : buffers_(buffers) {}
  ArenaPlan run();

 private:
  struct Placed {
    size_t begin, end;
    int first, last;
    bool operator<(const Placed& other) const { return begin < other.begin; }
  };
  void divide();
  size_t stretch(int step) const { return size_t((int64_t(step) - start_) / length_); }
  bool attempt(const std::vector<int>& order, Fit fit);
  size_t place(const ArenaBuffer& buffer, Fit fit);
  // An attempt is about as much work as the one before it.
  bool done() const { return plan_.bytes == plan_.lower_bound || work_ + last_work_ > kWork; }

  const std::vector<ArenaBuffer>& buffers_;
  ArenaPlan plan_;
  std::vector<std::vector<Placed>> placed_;  // for each stretch of steps those alive in it; each by begin
  std::vector<Placed> near_;
  int64_t start_ = 0, length_ = 1;
  std::vector<size_t> offsets_;
  size_t bytes_ = 0;
  uint64_t work_ = 0, last_work_ = 0;
};

// Cuts the steps into stretches, or leaves them one where most buffers would live through many.
void Planner::divide() {
  int64_t end = std::numeric_limits<int64_t>::min();
  start_ = std::numeric_limits<int64_t>::max();
  for (const ArenaBuffer& buffer : buffers_) {
    start_ = std::min<int64_t>(start_, buffer.first);
    end = std::max<int64_t>(end, buffer.last);
  }
  length_ = (end - start_) / kStretches + 1;
  double sum = 0;
  for (const ArenaBuffer& buffer : buffers_) sum += double(stretch(buffer.last) - stretch(buffer.first) + 1);
  if (sum > kManyStretches * double(buffers_.size())) length_ = end - start_ + 1;
  placed_.resize(stretch(int(end)) + 1);
}

// The lowest place that is free while the buffer lives, or the one it fills best.
size_t Planner::place(const ArenaBuffer& buffer, Fit fit) {
  size_t top = 0, best = 0, least = std::numeric_limits<size_t>::max();
  bool found = false;
  const size_t from = stretch(buffer.first), to = stretch(buffer.last);
  const std::vector<Placed>* others = &placed_[from];
  work_ += others->size();
  if (from != to) {
    near_.clear();
    for (size_t at = from; at <= to; ++at) {
      work_ += placed_[at].size();
      for (const Placed& other : placed_[at]) {
        if (other.last < buffer.first || buffer.last < other.first) continue;
        if (stretch(std::max(other.first, buffer.first)) == at) near_.push_back(other);  // once
      }
    }
    std::sort(near_.begin(), near_.end());
    work_ += 8 * near_.size();
    others = &near_;
  }
  for (const Placed& other : *others) {
    if (other.last < buffer.first || buffer.last < other.first) continue;
    const size_t offset = align(top, buffer.alignment);
    if (offset + buffer.bytes <= other.begin && other.begin - top < least) {
      best = offset;
      least = other.begin - top;
      found = true;
      if (fit == Fit::first) break;
    }
    top = std::max(top, other.end);
  }
  return found ? best : align(top, buffer.alignment);
}

// Places all buffers in this order; keeps the result if it is smaller than any before.
bool Planner::attempt(const std::vector<int>& order, Fit fit) {
  const uint64_t before = work_;
  for (std::vector<Placed>& stretch : placed_) stretch.clear();
  offsets_.assign(buffers_.size(), 0);
  bytes_ = 0;
  for (int number : order) {
    const ArenaBuffer& buffer = buffers_[size_t(number)];
    if (buffer.bytes == 0) continue;
    const size_t offset = place(buffer, fit);
    const Placed placed{offset, offset + buffer.bytes, buffer.first, buffer.last};
    for (size_t at = stretch(buffer.first); at <= stretch(buffer.last); ++at)
      placed_[at].insert(std::upper_bound(placed_[at].begin(), placed_[at].end(), placed), placed);
    offsets_[size_t(number)] = offset;
    bytes_ = std::max(bytes_, placed.end);
  }
  last_work_ = work_ - before;
  if (!plan_.offsets.empty() && bytes_ >= plan_.bytes) return false;
  plan_.offsets = offsets_;
  plan_.bytes = bytes_;
  return true;
}

ArenaPlan Planner::run() {
  plan_.lower_bound = liveness_bound(buffers_);
  if (buffers_.empty()) return plan_;
  divide();
  const auto sorted = [&](const auto& key) {
    std::vector<int> order(buffers_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int x, int y) { return key(buffers_[size_t(x)]) > key(buffers_[size_t(y)]); });
    return order;
  };
  const auto steps = [](const ArenaBuffer& b) { return double(b.last) - double(b.first) + 1; };
  // By size; by size and time; by time; as they come.
  const std::vector<int> orders[] = {
      sorted([&](const ArenaBuffer& b) { return std::make_pair(b.bytes, steps(b)); }),
      sorted([&](const ArenaBuffer& b) { return double(b.bytes) * steps(b); }),
      sorted([&](const ArenaBuffer& b) { return std::make_pair(steps(b), b.bytes); }),
      sorted([&](const ArenaBuffer& b) { return std::make_pair(-double(b.first), b.bytes); }),
  };
  std::vector<int> best = orders[0];
  Fit fit = Fit::best;
  for (const std::vector<int>& order : orders) {
    for (Fit how : {Fit::best, Fit::first}) {
      if (!plan_.offsets.empty() && done()) return plan_;
      if (attempt(order, how)) best = order, fit = how;
    }
  }
  // What lies on top was placed too late: place it first, again and again.
  std::vector<int> order = best;
  offsets_ = plan_.offsets;
  for (int retry = 0; retry < kRetries && !done(); ++retry) {
    const auto end = [&](int number) { return offsets_[size_t(number)] + buffers_[size_t(number)].bytes; };
    const auto highest = std::max_element(order.begin(), order.end(), [&](int x, int y) { return end(x) < end(y); });
    std::rotate(order.begin(), highest, highest + 1);
    attempt(order, fit);
  }
  return plan_;
}

}  // namespace

ArenaPlan plan_arena(const std::vector<ArenaBuffer>& buffers) { return Planner(buffers).run(); }

SlotPlan plan_slots(const std::vector<ArenaBuffer>& buffers) {
  SlotPlan plan;
  plan.lower_bound = liveness_bound(buffers);
  plan.slots.assign(buffers.size(), -1);
  std::vector<int> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int x, int y) { return buffers[size_t(x)].bytes > buffers[size_t(y)].bytes; });
  std::vector<std::map<int, int>> taken;  // by slot: last step by first step of those in it
  for (int number : order) {
    const ArenaBuffer& buffer = buffers[size_t(number)];
    if (buffer.bytes == 0) break;
    const auto free = [&](const std::map<int, int>& lives) {
      const auto next = lives.lower_bound(buffer.first);
      if (next != lives.end() && next->first <= buffer.last) return false;
      return next == lives.begin() || std::prev(next)->second < buffer.first;
    };
    // Slots come by falling size: the last one that is free wastes least.
    size_t slot = taken.size();
    while (slot > 0 && !free(taken[slot - 1])) --slot;
    if (slot == 0) {
      plan.slot_bytes.push_back(buffer.bytes);
      plan.bytes += buffer.bytes;
      taken.emplace_back();
      slot = taken.size();
    }
    taken[slot - 1].emplace(buffer.first, buffer.last);
    plan.slots[size_t(number)] = int(slot - 1);
  }
  return plan;
}

}  // namespace pl

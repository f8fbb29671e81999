// The memory plan: nothing alive overlaps, and the arena stays near the liveness bound.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <random>
#include <vector>

#include "check.h"
#include "core/status.h"
#include "graph/arena.h"

using pl::ArenaBuffer;
using pl::ArenaPlan;
using pl::plan_arena;

namespace {

void check_valid(const std::vector<ArenaBuffer>& buffers, const ArenaPlan& plan) {
  REQUIRE(plan.offsets.size() == buffers.size());
  size_t top = 0;
  for (size_t a = 0; a < buffers.size(); ++a) {
    CHECK(plan.offsets[a] % buffers[a].alignment == 0);
    if (buffers[a].bytes == 0) continue;
    top = std::max(top, plan.offsets[a] + buffers[a].bytes);
    for (size_t b = 0; b < a; ++b) {
      if (buffers[b].bytes == 0 || buffers[a].last < buffers[b].first || buffers[b].last < buffers[a].first) continue;
      CHECK(plan.offsets[a] + buffers[a].bytes <= plan.offsets[b] ||
            plan.offsets[b] + buffers[b].bytes <= plan.offsets[a]);
    }
  }
  CHECK(top == plan.bytes);
  int last = 0;
  for (const ArenaBuffer& buffer : buffers) last = std::max(last, buffer.last);
  size_t most = 0;
  for (int step = 0; buffers.size() <= 200 && step <= last; ++step) {
    size_t live = 0;
    for (const ArenaBuffer& buffer : buffers)
      if (buffer.first <= step && step <= buffer.last) live += buffer.bytes;
    most = std::max(most, live);
  }
  if (buffers.size() <= 200) CHECK(plan.lower_bound == most);
  CHECK(plan.bytes >= plan.lower_bound);
}

std::vector<ArenaBuffer> random_buffers(unsigned seed) {
  std::mt19937 engine(seed);
  const auto below = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(engine); };
  std::vector<ArenaBuffer> out(size_t(below(60)));
  const int steps = 1 + below(50), kind = below(4);
  for (ArenaBuffer& buffer : out) {
    buffer.first = below(steps);
    buffer.last = std::min(steps - 1, buffer.first + (kind == 0 ? below(3) : below(steps)));
    buffer.bytes = kind == 1 ? size_t(below(3)) : size_t(1) << below(20);
    if (kind == 2) buffer.bytes += size_t(below(1000));
    if (kind == 3) buffer.alignment = size_t(1) << below(13);
  }
  return out;
}

TEST("random") {
  double ratios = 0;
  int counted = 0;
  for (unsigned seed = 0; seed < 2000; ++seed) {
    const std::vector<ArenaBuffer> buffers = random_buffers(seed);
    const ArenaPlan plan = plan_arena(buffers);
    check_valid(buffers, plan);
    CHECK(plan_arena(buffers).offsets == plan.offsets);
    if (plan.lower_bound > 100000) ratios += double(plan.bytes) / double(plan.lower_bound), ++counted;
  }
  std::printf("random: %.4f of the bound on average\n", ratios / counted);
  CHECK(counted > 500);
  CHECK(ratios / counted < 1.05);
}

// Whole blocks that buffers take turns in.
TEST("slots") {
  double ratios = 0;
  int counted = 0;
  for (unsigned seed = 0; seed < 2000; ++seed) {
    const std::vector<ArenaBuffer> buffers = random_buffers(seed);
    const pl::SlotPlan plan = pl::plan_slots(buffers);
    CHECK(plan.slots == pl::plan_slots(buffers).slots);
    REQUIRE(plan.slots.size() == buffers.size());
    CHECK(plan.lower_bound == plan_arena(buffers).lower_bound);
    CHECK(plan.bytes >= plan.lower_bound);
    size_t sum = 0;
    for (size_t bytes : plan.slot_bytes) sum += bytes;
    CHECK(sum == plan.bytes);
    for (size_t a = 0; a < buffers.size(); ++a) {
      CHECK((plan.slots[a] < 0) == (buffers[a].bytes == 0));
      if (plan.slots[a] < 0) continue;
      CHECK(buffers[a].bytes <= plan.slot_bytes[size_t(plan.slots[a])]);
      for (size_t b = 0; b < a; ++b)
        CHECK(plan.slots[a] != plan.slots[b] || buffers[a].last < buffers[b].first ||
              buffers[b].last < buffers[a].first);
    }
    if (plan.lower_bound > 100000) ratios += double(plan.bytes) / double(plan.lower_bound), ++counted;
  }
  std::printf("slots: %.4f of the bound on average\n", ratios / counted);
  CHECK(counted > 500);
  CHECK(ratios / counted < 1.2);
  CHECK(pl::plan_slots({}).slot_bytes.empty());
  CHECK(pl::plan_slots({{0, 0, 5}}).slot_bytes.empty());
  CHECK(pl::plan_slots({{100, 0, 1}, {50, 1, 2}, {70, 2, 3}}).slots == std::vector<int>({0, 1, 0}));
}

TEST("edges") {
  CHECK(plan_arena({}).bytes == 0);
  CHECK(plan_arena({{0, 0, 5}}).bytes == 0);
  const ArenaPlan pair = plan_arena({{100, 0, 1}, {100, 1, 2}});  // both are alive at step 1
  CHECK(pair.bytes == 228);
  CHECK(pair.lower_bound == 200);  // 100, up to the next 64, 100
  CHECK(plan_arena({{100, 0, 1}, {100, 2, 3}}).bytes == 100);
  CHECK(plan_arena({{100, -7, -3}, {50, -4, INT32_MAX}}).lower_bound == 150);
  const auto refused = [](const std::vector<ArenaBuffer>& buffers, pl::Code code) {
    try {
      plan_arena(buffers);
    } catch (const pl::Error& error) {
      return error.code() == code;
    }
    return false;
  };
  CHECK(refused({{1, 2, 1}}, pl::Code::internal));
  CHECK(refused({{1, 0, 1, 48}}, pl::Code::internal));
  CHECK(refused({{1, 0, 1, 0}}, pl::Code::internal));
  CHECK(refused({{SIZE_MAX / 2, 0, 1}, {SIZE_MAX / 2, 0, 1}, {100, 0, 1}}, pl::Code::out_of_memory));
}

// A graph under construction: each op reads tensors and writes one; lifetimes follow.
struct Network {
  std::vector<ArenaBuffer> buffers;
  int step = 0;
  int op(size_t c, size_t h, std::vector<int> inputs) {
    ++step;
    for (int input : inputs) buffers[size_t(input)].last = step;
    buffers.push_back({4 * c * h * h, step, step});
    return int(buffers.size()) - 1;
  }
};

Network resnet50() {
  Network net;
  int x = net.op(3, 224, {});
  x = net.op(64, 112, {x});
  x = net.op(64, 56, {x});
  const size_t widths[] = {64, 128, 256, 512}, depths[] = {3, 4, 6, 3};
  for (size_t s = 0; s < 4; ++s) {
    const size_t h = size_t(56) >> s;
    for (size_t d = 0; d < depths[s]; ++d) {
      int y = net.op(widths[s], d == 0 && s > 0 ? 2 * h : h, {x});
      y = net.op(widths[s], h, {y});
      const int shortcut = d == 0 ? net.op(4 * widths[s], h, {x}) : x;
      x = net.op(4 * widths[s], h, {y, shortcut});
    }
  }
  x = net.op(2048, 1, {x});
  net.op(1000, 1, {x});
  return net;
}

Network unet() {
  Network net;
  std::vector<int> skips;
  int x = net.op(3, 256, {});
  for (size_t s = 0; s < 4; ++s) {
    x = net.op(size_t(64) << s, size_t(256) >> s, {x});
    x = net.op(size_t(64) << s, size_t(256) >> s, {x});
    skips.push_back(x);
    x = net.op(size_t(64) << s, size_t(128) >> s, {x});
  }
  x = net.op(1024, 16, {x});
  x = net.op(1024, 16, {x});
  for (size_t s = 4; s-- > 0;) {
    x = net.op(size_t(64) << s, size_t(256) >> s, {x});
    x = net.op(size_t(128) << s, size_t(256) >> s, {x, skips[s]});
    x = net.op(size_t(64) << s, size_t(256) >> s, {x});
    x = net.op(size_t(64) << s, size_t(256) >> s, {x});
  }
  net.op(2, 256, {x});
  return net;
}

// Inception-like: four branches of unlike sizes from each tensor, then their concat.
Network inception() {
  Network net;
  int x = net.op(192, 28, {});
  for (size_t block = 0; block < 9; ++block) {
    const size_t h = block < 2 ? 28 : block < 7 ? 14 : 7, c = 64 + 32 * block;
    const int a = net.op(c, h, {x});
    const int b = net.op(c * 2, h, {net.op(c / 2 + 5, h, {x})});
    const int d = net.op(c / 2, h, {net.op(c / 4 + 3, h, {x})});
    const int e = net.op(c / 2, h, {net.op(4 * c, h, {x})});
    x = net.op(4 * c, h, {a, b, d, e});
  }
  return net;
}

// Dense blocks: every result stays alive to the end of its block.
Network densenet() {
  Network net;
  int x = net.op(64, 56, {});
  const size_t depths[] = {6, 12, 24, 16};
  for (size_t s = 0; s < 4; ++s) {
    const size_t h = size_t(56) >> s;
    std::vector<int> features{x};
    for (size_t d = 0; d < depths[s]; ++d) {
      const int joined = net.op(64 + 32 * d, h, features);
      features.push_back(net.op(32, h, {net.op(128, h, {joined})}));
    }
    x = net.op(128 << s, h / 2, {net.op(128 << s, h, {net.op(64 + 32 * depths[s], h, features)})});
  }
  return net;
}

TEST("networks") {
  struct Case {
    const char* name;
    Network net;
  } const cases[] = {{"resnet50", resnet50()}, {"unet", unet()}, {"inception", inception()}, {"densenet", densenet()}};
  for (const Case& c : cases) {
    const ArenaPlan plan = plan_arena(c.net.buffers);
    check_valid(c.net.buffers, plan);
    std::printf("%s: %.4f of the bound\n", c.name, double(plan.bytes) / double(plan.lower_bound));
    CHECK(double(plan.bytes) <= 1.01 * double(plan.lower_bound));
  }
}

TEST("fast_enough") {
  std::mt19937 engine(1);
  for (int longest : {20, 300, 10000}) {
    std::vector<ArenaBuffer> buffers(10000);
    for (size_t b = 0; b < buffers.size(); ++b) {
      buffers[b].first = int(b);
      buffers[b].last = std::min(9999, int(b) + std::uniform_int_distribution<int>(1, longest)(engine));
      buffers[b].bytes = std::uniform_int_distribution<size_t>(1, 1 << 20)(engine);
    }
    const std::clock_t start = std::clock();
    const ArenaPlan plan = plan_arena(buffers);
    const double spent = double(std::clock() - start) / CLOCKS_PER_SEC;
    std::printf("10000 buffers of up to %d steps: %.3f s, %.4f of the bound\n", longest, spent,
                double(plan.bytes) / double(plan.lower_bound));
    check_valid(buffers, plan);
    CHECK(spent < 5);  // of the processor, for sanitizers; 0.2 s is meant
    CHECK(double(plan.bytes) < 1.3 * double(plan.lower_bound));
  }
}

}  // namespace

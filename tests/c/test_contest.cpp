// Contests of layouts against invented times: when they begin, who wins, and that what is settled stays.
#include <cmath>
#include <string>
#include <vector>

#include "check.h"
#include "dispatch/catalog.h"
#include "dispatch/contest.h"
#include "dispatch/context.h"
#include "dispatch/cost_database.h"

using namespace pl;

namespace {

// A program of `ops` ops in a row, each with a way in NCHW, NHWC and nChw16c; nothing is really run.
struct Program {
  std::shared_ptr<Context> context;
  std::unique_ptr<Contest> contest;
  std::vector<std::unique_ptr<Entry>> ops;

  explicit Program(size_t count, double plain_ms = 10) {
    ContextOptions options;
    options.cache_dir = "/proc/none";  // nothing on disk
    options.tuning = Tuning::off;
    options.without = {"opencl"};
    context = Context::create(options);
    contest = std::make_unique<Contest>(context->catalog());
    for (size_t i = 0; i < count; ++i) add(plain_ms);
  }
  Entry& add(double plain_ms = 10) {
    ops.push_back(std::make_unique<Entry>());
    Entry& entry = *ops.back();
    entry.device = &context->device("cpu");
    const TensorDesc y = TensorDesc::dense(DType::f32, {1, 32, 8, 8});
    entry.op.outputs = {y};
    const Layout layouts[] = {Layout::plain(4), Layout::channels_last(4), Layout::channels_blocked(4, 16)};
    const double alone[] = {plain_ms, 1, 1};
    for (int i = 0; i < 3; ++i) {
      Way way;
      way.candidate.inputs = way.candidate.outputs = {y.with_layout(layouts[i])};
      way.ms = alone[i];
      entry.ways.push_back(std::move(way));
    }
    return entry;
  }
  void link() {
    for (size_t i = 1; i < ops.size(); ++i) contest->link(*ops[i - 1], *ops[i]);
  }
  // One pass: every op takes `greedy`, `last` or `blocked` ms, whichever contestant runs.  Returns the layouts met.
  std::string pass(double greedy, double last, double blocked, bool disturbed = false) {
    std::string met;
    for (auto& op : ops) {
      const uint32_t turn = contest->turn();
      const auto layout = contest->layout_of(*op, turn);
      const double ms = !layout ? greedy : layout->is_channels_last() ? last : blocked;
      CHECK(!layout || !layout->is_plain());  // ten times as slow alone: does not compete
      met += !layout ? 'g' : layout->is_channels_last() ? 'l' : 'b';
      contest->ran(*op, turn, 1, ms, disturbed);
    }
    return met;
  }
  // Passes until settled; at most `most`.
  int settle(double greedy, double last, double blocked, int most = 100) {
    int passes = 0;
    while (passes < most && !contest->all_settled()) pass(greedy, last, blocked), ++passes;
    return passes;
  }
};

TEST("the_fastest_layout_wins") {
  Program p(6);
  p.link();
  CHECK(!p.contest->all_settled());
  const uint64_t generation = p.contest->generation(), epoch = p.context->catalog().epoch();
  const int passes = p.settle(1.2, 1.0, 1.03);
  // Two quiet ones, three turns of two that are not timed and three that are, three more turns of the two that are not
  // clearly behind, and two.
  CHECK(passes == 2 + 3 * 5 + 3 * 5 + 2 * 5);
  CHECK(p.contest->generation() > generation);
  CHECK(p.context->catalog().epoch() > epoch);
  const LinkedReport report = p.contest->report(*p.ops[3]);
  CHECK(report.ops == 6);
  CHECK(report.settled);
  CHECK(report.layout == Layout::channels_last(4).str());
  REQUIRE(report.ms.size() == 3);
  CHECK(report.ms[0].first == "greedy");
  CHECK(std::abs(report.ms[0].second - 7.2) < 1e-9);
  CHECK(std::abs(report.ms[1].second - 6.0) < 1e-9);
  CHECK(std::abs(report.ms[2].second - 6.18) < 1e-9);
  for (const auto& op : p.ops) CHECK(Contest::settled(*op));
  CHECK(p.contest->turn() == 0);
  // From then on nothing moves, whatever the times.
  const uint64_t after = p.contest->generation();
  for (int i = 0; i < 50; ++i) CHECK(p.pass(0.1, 100, 0.1) == "llllll");
  CHECK(p.contest->generation() == after);
  CHECK(p.contest->turn() == 0);
}

// Greedy choices have to be clearly faster to be worth a mixture; the same times always give the same outcome.
TEST("one_layout_wins_a_tie") {
  for (int i = 0; i < 3; ++i) {
    Program p(5);
    p.link();
    p.settle(0.98, 1.0, 1.0);
    CHECK(p.contest->report(*p.ops[0]).layout == Layout::channels_last(4).str());
    CHECK(p.pass(1, 1, 1) == "lllll");
  }
  Program p(5);
  p.link();
  p.settle(0.95, 1.0, 1.0);
  CHECK(p.contest->report(*p.ops[0]).settled);
  CHECK(p.contest->report(*p.ops[0]).layout.empty());
  CHECK(p.pass(1, 1, 1) == "ggggg");
}

// One turn in three is a tenth slower than the machine was before, as when another program comes and goes.
TEST("drift_does_not_decide") {
  for (uint32_t unlucky = 0; unlucky < 3; ++unlucky) {
    Program p(6);
    p.link();
    for (int i = 0; i < 200 && !p.contest->all_settled(); ++i) {
      const double slow = p.contest->turn() % 3 == unlucky ? 1.1 : 1;
      p.pass(1.05 * slow, 1.06 * slow, 1.0 * slow);
    }
    CHECK(p.contest->report(*p.ops[0]).layout == Layout::channels_blocked(4, 16).str());
  }
}

// A time that was taken alone while another program had the processor does not rule a layout out.
TEST("one_wrong_cost_rules_nothing_out") {
  Program p(6);
  p.ops[2]->ways[2].ms = 100;
  p.link();
  p.settle(1.2, 1.1, 1.0);
  CHECK(p.contest->report(*p.ops[0]).layout == Layout::channels_blocked(4, 16).str());
}

// The blocked layout is the faster in three ops of four, and loses by more in the other.
TEST("sums_decide") {
  Program p(4);
  p.link();
  for (int i = 0; i < 60; ++i)
    for (size_t k = 0; k < 4; ++k) {
      const uint32_t turn = p.contest->turn();
      const auto layout = p.contest->layout_of(*p.ops[k], turn);
      const bool blocked = layout && !layout->is_channels_last();
      p.contest->ran(*p.ops[k], turn, 1, !layout ? 2.0 : blocked ? (k == 0 ? 4.0 : 0.5) : 1.0);
    }
  CHECK(p.contest->report(*p.ops[0]).layout == Layout::channels_last(4).str());
}

// Conversions that a layout causes after its op count as well.
TEST("charges_count") {
  Program p(4);
  p.link();
  for (int i = 0; i < 60; ++i) {
    for (auto& op : p.ops) {
      const uint32_t turn = p.contest->turn();
      const auto layout = p.contest->layout_of(*op, turn);
      const bool last = layout && layout->is_channels_last();
      if (op == p.ops.back() && last) p.contest->charge(*p.ops[2], turn, 7, 3.0);  // of a view
      p.contest->ran(*op, turn, 1, !layout ? 2.0 : last ? 1.0 : 1.4);
    }
  }
  CHECK(p.contest->report(*p.ops[0]).layout == Layout::channels_blocked(4, 16).str());
}

TEST("disturbed_runs_are_made_up_for") {
  Program p(4);
  p.link();
  int passes = 0;
  // Every other pass is disturbed, and then the layouts' times are the wrong way round.
  for (; !p.contest->all_settled() && passes < 200; ++passes)
    passes % 2 ? p.pass(50, 90, 5, true) : p.pass(1.5, 1.0, 1.02);
  CHECK(p.contest->report(*p.ops[0]).layout == Layout::channels_last(4).str());
  CHECK(passes > 22);
  // A machine that is never quiet delays it, but not for ever.
  Program q(4);
  q.link();
  for (passes = 0; !q.contest->all_settled() && passes < 200; ++passes) q.pass(1.5, 1.0, 1.02, true);
  CHECK(passes < 120);
  CHECK(q.contest->report(*q.ops[0]).layout == Layout::channels_last(4).str());
}

TEST("few_linked_ops_have_no_contest") {
  Program p(3);
  p.link();
  CHECK(p.contest->all_settled());
  for (int i = 0; i < 10; ++i) CHECK(p.pass(9, 1, 1) == "ggg");
  for (const auto& op : p.ops) CHECK(Contest::settled(*op));
}

TEST("no_contest_without_a_layout_to_force") {
  Program p(5);
  for (auto& op : p.ops) {
    op->ways.resize(1);
    TensorDesc& y = op->ways[0].candidate.outputs[0];
    y = y.with_layout(Layout::parse("acbd"));  // of no family
  }
  p.link();
  CHECK(p.settle(1, 1, 1) == 2);
  CHECK(p.contest->report(*p.ops[0]).settled);
  CHECK(p.contest->report(*p.ops[0]).layout.empty());
}

// Ops that are linked with settled ones follow them; once there are twice as many, they are open again.
TEST("growth") {
  Program p(4);
  p.link();
  p.settle(2, 1.0, 1.5);
  const auto last = Layout::channels_last(4).str();
  CHECK(p.contest->report(*p.ops[0]).layout == last);
  for (int i = 0; i < 3; ++i) {
    Entry& entry = p.add();
    p.contest->link(*p.ops[p.ops.size() - 2], entry);
    CHECK(Contest::settled(entry));
    CHECK(p.contest->report(entry).layout == last);
  }
  Entry& eighth = p.add();
  p.contest->link(*p.ops[6], eighth);
  CHECK(!Contest::settled(eighth));
  CHECK(!Contest::settled(*p.ops[0]));
  CHECK(!p.contest->all_settled());
  p.settle(2, 1.5, 1.0);
  CHECK(p.contest->report(eighth).layout == Layout::channels_blocked(4, 16).str());
}

// Linked ops that grow in number in the middle of their contest begin it anew, but not without end.
TEST("growth_during_contests") {
  Program p(4);
  p.link();
  for (int i = 0; i < 4; ++i) p.pass(2, 1, 1.5);
  CHECK(p.contest->turn() != 0);
  p.contest->link(*p.ops[3], p.add());
  CHECK(p.contest->turn() == 0);
  CHECK(!p.contest->all_settled());
  CHECK(p.settle(2, 1, 1.5) == 2 + 3 * 5);  // the others are far behind after a turn
  CHECK(p.contest->report(*p.ops[4]).layout == Layout::channels_last(4).str());

  Program q(4);
  q.link();
  for (int i = 0; i < 10 && !q.contest->all_settled(); ++i) {
    for (int k = 0; k < 4; ++k) q.pass(2, 1, 1.5);
    if (!q.contest->all_settled()) q.contest->link(*q.ops.back(), q.add());
  }
  CHECK(q.settle(2, 1, 1.5) < 30);
}

TEST("a_program_that_stops_is_given_up") {
  Program p(4);
  p.link();
  for (int i = 0; i < 5; ++i) p.pass(2, 1, 1.5);
  CHECK(p.contest->turn() != 0);
  Entry& other = p.add();
  for (int i = 0; i < 10000 && p.contest->turn(); ++i) p.contest->ran(other, p.contest->turn(), 1, 1);
  CHECK(p.contest->turn() == 0);
  CHECK(p.contest->all_settled());
}

// An op that was linked once and does not run any more holds nobody up.
TEST("members_that_do_not_run_are_not_waited_for") {
  Program p(4);
  p.link();
  auto gone = std::move(p.ops[0]);
  p.ops.erase(p.ops.begin());
  CHECK(p.settle(2, 1.0, 1.5, 1000) < 200);
  CHECK(p.contest->report(*p.ops[0]).layout == Layout::channels_last(4).str());
}

TEST("forgetting_opens_again") {
  Program p(4);
  p.link();
  p.settle(2, 1.0, 1.5);
  p.contest->forget();
  CHECK(!p.contest->all_settled());
  CHECK(!Contest::settled(*p.ops[0]));
  p.settle(2, 1.5, 1.0);
  CHECK(p.contest->report(*p.ops[0]).layout == Layout::channels_blocked(4, 16).str());
}

}  // namespace

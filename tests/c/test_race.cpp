// Races of layouts against invented times: who leaves when, and who wins.
#include <cmath>
#include <memory>
#include <vector>

#include "check.h"
#include "dispatch/catalog.h"
#include "dispatch/race.h"

using namespace pl;

namespace {

// Two ops, the second of which runs twice; greedy (0), NHWC (1) and nChw16c (2).
struct Field {
  std::vector<std::unique_ptr<Entry>> ops;
  std::vector<Way> ways = std::vector<Way>(4);
  Race race;

  Field() : ops(make()), race(Race::Weights{{ops[0].get(), 1.0}, {ops[1].get(), 2.0}}) {
    race.add(std::nullopt);
    race.add(Layout::channels_last(4));
    race.add(Layout::channels_blocked(4, 16));
  }
  static std::vector<std::unique_ptr<Entry>> make() {
    std::vector<std::unique_ptr<Entry>> made;
    for (int i = 0; i < 2; ++i) made.push_back(std::make_unique<Entry>());
    return made;
  }
  // Every op takes ms[contestant], in a way of that contestant's unless all are given.
  bool round(const std::vector<double>& ms, const std::vector<size_t>& way_of = {0, 1, 2}) {
    for (size_t i = 0; i < ms.size(); ++i)
      for (const auto& op : ops)
        if (!race.contestants()[i].out) race.ran(i, *op, 1, ms[i], false, &ways[way_of[i]]);
    return race.end_round();
  }
  bool in(size_t i) const { return !race.contestants()[i].out; }
};

TEST("who_is_far_behind_leaves_first") {
  Field f;
  CHECK(f.race.length() == 3);
  CHECK(f.race.members() == 2);
  CHECK(!f.round({1.2, 1.3, 1.0}));
  CHECK(f.in(0));
  CHECK(!f.in(1));
  CHECK(f.in(2));
  CHECK(f.round({1.2, 0, 1.0}));
  CHECK(f.race.winner() == 2);
  CHECK(f.race.rounds() == 2);
  CHECK(std::abs(f.race.totals()[2] - 3) < 1e-9);
  CHECK(std::abs(f.race.totals()[1] - 3.9) < 1e-9);
}

// Behind by 4% is told apart after three rounds; one round in which it was ahead keeps a contestant in until the last.
TEST("a_lead_has_to_last") {
  Field f;
  CHECK(!f.round({1.3, 1.04, 1.0}));
  CHECK(!f.round({0, 1.04, 1.0}));
  CHECK(f.round({0, 1.04, 1.0}));
  CHECK(f.race.winner() == 2);
  Field g;
  CHECK(!g.round({1.3, 1.04, 1.0}));
  CHECK(!g.round({0, 1.0, 1.1}));
  for (int i = 2; i < Race::kMostRounds - 1; ++i) CHECK(!g.round({0, 1.04, 1.0}));
  CHECK(g.round({0, 1.04, 1.0}));
  CHECK(g.race.rounds() == Race::kMostRounds);
  CHECK(g.race.winner() == 2);
}

TEST("ties_go_to_one_layout") {
  Field f;
  for (int i = 1; i < Race::kMostRounds; ++i) CHECK(!f.round({0.98, 1.0, 1.0}));
  CHECK(f.round({0.98, 1.0, 1.0}));
  CHECK(f.race.winner() == 1);  // of two layouts that are equal, the first
  Field g;
  for (int i = 1; i < 3; ++i) CHECK(!g.round({0.95, 1.0, 1.0}));
  CHECK(g.round({0.95, 1.0, 1.0}));
  CHECK(g.race.winner() == 0);
}

// Greedy choices that are those of a layout need no turns of their own, whatever they took.
TEST("equal_choices_are_one") {
  Field f;
  CHECK(!f.round({0.9, 1.05, 1.0}, {2, 1, 2}));
  CHECK(!f.in(0));
  CHECK(f.in(1));
  CHECK(f.in(2));
  Field g;  // another way in one run
  g.race.ran(0, *g.ops[1], 1, 1.0, false, &g.ways[3]);
  CHECK(!g.round({1.0, 1.0, 1.0}, {2, 1, 2}));
  CHECK(g.in(0));
}

TEST("disturbed_runs_count_only_where_there_are_no_others") {
  Field f;
  for (size_t i = 0; i < 3; ++i) {
    f.race.ran(i, *f.ops[0], 1, 1.0, false, &f.ways[i]);
    f.race.ran(i, *f.ops[0], 1, 0.1, true, &f.ways[i]);
    f.race.ran(i, *f.ops[1], 1, 5.0, true, &f.ways[i]);
  }
  for (const double total : f.race.totals()) CHECK(std::abs(total - 11) < 1e-9);
}

// An op that runs twice is slow in its first place in one layout, and a little slower throughout in the other.
TEST("places_in_the_program_count_by_themselves") {
  Field f;
  for (size_t i = 0; i < 3; ++i) {
    f.race.begin_turn(i);
    for (int run = 0; run < 3; ++run) {
      f.race.ran(i, *f.ops[0], 1, 1.0, false, &f.ways[i]);
      for (int place = 0; place < 2; ++place)
        f.race.ran(i, *f.ops[1], 1, i == 1 ? 1.2 : place == 0 ? 2.0 : 1.0, false, &f.ways[i]);
    }
  }
  CHECK(std::abs(f.race.totals()[1] - 3.4) < 1e-9);
  CHECK(std::abs(f.race.totals()[2] - 4.0) < 1e-9);
}

// What the layout of a result costs its reader is added to each run of the op.
TEST("charges_are_added") {
  Field f;
  f.race.charge(1, *f.ops[0], 5, 0.5);
  CHECK(!f.round({1.2, 1.0, 1.1}));
  CHECK(std::abs(f.race.totals()[1] - 3.5) < 1e-9);
  CHECK(std::abs(f.race.totals()[0] - 3.6) < 1e-9);
}

// Programs so long that two rounds take more than the budget end there.
TEST("long_programs_get_fewer_rounds") {
  Field f;
  CHECK(!f.round({1000, 1010, 1020}));
  CHECK(f.round({1000, 1010, 1020}));
  CHECK(f.race.rounds() == 2);
  CHECK(f.race.winner() == 1);
}

TEST("too_little_seen") {
  Field f;
  for (size_t i = 0; i < 2; ++i) f.race.ran(i, *f.ops[0], 1, 1.0, false, &f.ways[i]);
  CHECK(f.race.totals().empty());
  CHECK(f.race.end_round());
  CHECK(f.race.winner() == 0);
}

}  // namespace

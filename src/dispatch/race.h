// Race: the contestants of a contest (dispatch/contest.h), what their runs took, who is behind and who wins.
//
// Contestants take turns; when each that is still in has had one, a round is over.  Neighbouring turns differ by
// several percent on a machine that does other work too, and identical choices were 8% apart after two rounds.  So a
// contestant is not judged by one comparison: it leaves when it was behind in every round so far, by more than a margin
// that shrinks with their number (kMargins).  Those that stay within each other's noise until the last round are
// decided by their least sums.  Ties go to a single layout throughout: greedy choices rest on times of single ops,
// taken elsewhere, and have to be faster by kClearly all the while to be worth a mixture.
//
// Given the same times it decides the same.  Not thread-safe: guarded by the contest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/layout.h"

namespace pl {

struct Entry;
struct Way;

class Race {
 public:
  // The linked ops, with how often each runs in the program.
  using Weights = std::vector<std::pair<const Entry*, double>>;
  struct Contestant {
    std::optional<Layout> layout;  // nothing: greedy
    bool out = false;
    std::string name() const { return layout ? layout->str() : "greedy"; }
  };

  explicit Race(Weights weights);

  void add(std::optional<Layout> layout);  // the first one is greedy
  const std::vector<Contestant>& contestants() const { return contestants_; }
  bool has(const Entry& entry) const { return weights_.count(&entry) != 0; }
  size_t members() const { return members_.size(); }
  double length() const { return length_; }  // of the program, in runs of ops

  // The contestant's timed runs begin: the next run of each member is that of its first place in the program.
  void begin_turn(size_t contestant);
  // A run of a member, with the conversions of its inputs; key: runs that were decided alike have the same.
  void ran(size_t contestant, const Entry& entry, uint64_t key, double ms, bool disturbed, const Way* way);
  // Further time that a result's layout cost.
  void charge(size_t contestant, const Entry& entry, uint64_t key, double ms);

  // Ends a round: contestants that have lost leave.  True if there is nothing left to find out.
  bool end_round();
  int rounds() const { return int(rounds_.size()); }
  // By all rounds, the program's time under each contestant, in ms; empty if too few members were seen under all.
  std::vector<double> totals() const;
  // The number of the one to settle on; greedy's if too little was seen.
  size_t winner() const;

  static constexpr int kMostRounds = 6;
  // By how much another must have been faster in every round, after one, two... rounds, for a contestant to leave.
  static constexpr double kMargins[kMostRounds] = {0.25, 0.06, 0.03, 0.02, 0.01, 0.01};
  static constexpr double kClearly = 0.03;
  // Of one run of the program under each contestant in each round, in ms: no third round beyond that; long runs are
  // less noisy.  What another program takes meanwhile does not count.
  static constexpr double kBudgetMs = 1000;

 private:
  struct Samples {
    // Of undisturbed runs, by the op's places in the program: one that runs four times may find its input far away the
    // first time only, in one layout more than in another.
    std::vector<std::vector<double>> clean;
    std::vector<double> disturbed;
    size_t count = 0;    // of both
    bool extra = false;  // time of conversions, not of runs
  };
  using Taken = std::unordered_map<const Entry*, std::unordered_map<uint64_t, Samples>>;
  struct Record {
    Taken all, lap;  // of all rounds, of the present one
    std::unordered_map<const Entry*, size_t> turn_runs;
    std::unordered_map<const Entry*, const Way*> ways;
    bool mixed = false;  // not every op ran in the same way each time, or in ways that were not told
  };
  static void add_sample(Samples& samples, size_t place, double ms, bool disturbed);
  static std::optional<double> time_of(const Taken& taken, const Entry* entry);
  std::vector<double> sums(Taken Record::*taken) const;
  bool same_ways(size_t a, size_t b) const;
  size_t left() const;

  Weights members_;
  std::unordered_map<const Entry*, double> weights_;
  double length_ = 0;
  std::vector<Contestant> contestants_;
  std::vector<Record> records_;
  std::vector<std::vector<double>> rounds_;  // sums of each round
  double spent_ms_ = 0;
};

}  // namespace pl

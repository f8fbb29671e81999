// How the terms of integer products are divided into steps (integer_kernels.h): plain, gathered and wide ones.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace pl::host {

constexpr int64_t kGatheredBytes = 16;  // what a gathered step takes its four terms from

// Weights of two vectors of columns, the lanes; of each term those of all lanes.
class IntegerPanel {
 public:
  IntegerPanel(int64_t terms, int64_t lanes) : lanes_(lanes), weights_(std::size_t(terms * lanes)) {}
  int8_t& at(int64_t term, int64_t lane) { return weights_[std::size_t(term * lanes_ + lane)]; }
  // Whether no values of u8 make sums of these two terms that 16 bits do not hold, in no lane.
  bool fit(int64_t a, int64_t b) const;
  bool fit(const std::array<int64_t, 4>& terms) const { return fit(terms[0], terms[1]) && fit(terms[2], terms[3]); }

 private:
  int64_t lanes_;
  std::vector<int8_t> weights_;
};

struct IntegerSteps {
  // Terms are numbered through all taps.
  struct Step {
    int64_t first = 0;  // the term whose place in x the step has
    std::array<int64_t, 4> terms = {};
  };
  struct Tap {
    int64_t first, count;  // terms; a multiple of four
  };
  std::vector<Step> plain, gathered, wide;

  // Divides up to 16 terms of a tap, from its term `begin` on.  Where sums of two products saturate, steps that do not
  // fit are gathered, as few as can be: their terms are paired among themselves, or with those of one more step, and so
  // on.
  void add(const IntegerPanel& panel, Tap tap, int64_t begin, bool saturates);
};

}  // namespace pl::host

// random_dropout: what an element becomes follows from its number.
#pragma once

#include "providers/host/common/host.h"
#include "providers/host/common/philox.h"

namespace pl::host {

class Dropout {
 public:
  Dropout() = default;  // drops nothing
  Dropout(const PhiloxSeed& seed, double p);
  // Of elements [number, number + n), which lie at x.
  void run(uint64_t number, float* x, int64_t n) const;

 private:
  PhiloxSeed seed_;
  uint32_t highest_ = 0;  // an element whose word is not above it is dropped
  float scale_ = 1;
  bool drops_ = false;
};

// What is known of it before the seed is there.
struct DropoutInput {
  int seed;       // the number of that input
  int64_t seeds;  // its elements, 0 where it is not given: nothing is dropped
  double p;

  DropoutInput(const Op& op, int seed_input, const Key<double>& share)
      : seed(seed_input), seeds(op.has(seed_input) ? op.in(seed_input).elements() : 0), p(op.attributes[share]) {}
  bool given() const { return seeds > 0; }
  Dropout drawn(const KernelArguments& arguments) const {
    return given() ? Dropout(PhiloxSeed(input(arguments, seed), seeds), p) : Dropout();
  }
};

}  // namespace pl::host

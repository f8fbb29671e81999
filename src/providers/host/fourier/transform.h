// Fourier transforms of kLines sequences at once, whose numbers lie side by side: so that all steps are vector code
// whatever the length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pl::host {

constexpr int64_t kLines = 16;

// One length, by the radices 4, 2, 3, 5 and what primes are left (T. Stockham's steps: the order comes out right).
class FourierTransform {
 public:
  explicit FourierTransform(int64_t n);
  void fill_factors();  // before the first run()

  int64_t length() const { return n_; }
  // Floats of a buffer: of each number kLines real, then as many imaginary parts.
  int64_t buffer_floats() const { return 2 * kLines * n_; }
  // Floats of what run() needs besides.
  int64_t scratch_floats() const { return 2 * kLines * most_; }

  // Transforms a; the result is in the one of a and b that is returned.  All aligned to 64 bytes.  An inverse
  // transform is one of real and imaginary parts in each other's places.
  float* run(float* a, float* b, float* scratch) const;

 private:
  struct Step {
    int64_t radix, parts, stride;  // `parts` butterflies for each of `stride` sequences
    size_t twiddles, roots;        // where they begin in factors_
  };
  int64_t n_, most_ = 1;
  std::vector<Step> steps_;
  std::vector<float> factors_;
};

}  // namespace pl::host

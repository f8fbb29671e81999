// Transforms of many lines at once (providers/host/fourier/transform.h), against their definition in double.
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "check.h"
#include "providers/host/fourier/transform.h"

using namespace pl;

namespace {

constexpr double kPi = 3.14159265358979323846;

TEST("against_the_definition") {
  std::mt19937 random(5);
  for (int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 25, 27, 30, 49, 64, 97, 121, 128, 143, 210, 400, 512}) {
    host::FourierTransform transform(n);
    transform.fill_factors();
    CHECK(transform.length() == n && transform.buffer_floats() == 2 * host::kLines * n);
    const size_t floats = size_t(transform.buffer_floats()), scratch = size_t(transform.scratch_floats());
    const auto aligned = [](size_t count) {
      return std::unique_ptr<float, void (*)(void*)>(
          static_cast<float*>(std::aligned_alloc(64, (count * sizeof(float) + 63) / 64 * 64)), std::free);
    };
    const auto a = aligned(floats), b = aligned(floats), room = aligned(scratch);
    std::vector<float> given(floats);
    for (size_t i = 0; i < floats; ++i) a.get()[i] = given[i] = float(int32_t(random())) * 4.6566e-10f;
    const float* made = transform.run(a.get(), b.get(), room.get());
    CHECK(made == a.get() || made == b.get());
    double worst = 0;
    for (int64_t line : {int64_t(0), int64_t(7), host::kLines - 1})
      for (int64_t k = 0; k < n; ++k) {
        double re = 0, im = 0;
        for (int64_t j = 0; j < n; ++j) {
          const double angle = -2 * kPi * double(j * k % n) / double(n), c = std::cos(angle), s = std::sin(angle);
          const double x = given[size_t(2 * j * host::kLines + line)];
          const double y = given[size_t((2 * j + 1) * host::kLines + line)];
          re += x * c - y * s;
          im += x * s + y * c;
        }
        worst = std::max(worst, std::fabs(re - made[2 * k * host::kLines + line]));
        worst = std::max(worst, std::fabs(im - made[(2 * k + 1) * host::kLines + line]));
      }
    CHECK(worst < 4e-7 * std::sqrt(double(n)) * (2 + std::log2(double(n))));
  }
}

}  // namespace

#include "providers/host/quantized/integer_steps.h"

#include <algorithm>
#include <bitset>

namespace pl::host {
namespace {

constexpr int kMostPairings = 200;  // tries for each 16 terms; one without a dead end takes 8

// Orders `terms`, at most 16, so that neighbouring pairs fit; false where they cannot be paired, or not soon.
bool pair_up(const IntegerPanel& panel, std::vector<int64_t>& terms) {
  const size_t count = terms.size();
  using Terms = std::bitset<kGatheredBytes>;
  std::array<Terms, kGatheredBytes> partners;
  for (size_t a = 0; a < count; ++a)
    for (size_t b = a + 1; b < count; ++b) partners[a][b] = partners[b][a] = panel.fit(terms[a], terms[b]);
  std::vector<int64_t> paired;
  int tries = kMostPairings;
  const auto search = [&](const auto& again, const Terms& left) {
    if (left.none()) return true;
    if (--tries < 0) return false;
    size_t first = count;  // the term with the fewest partners: whatever is done with others, it needs one of them
    for (size_t k = 0; k < count; ++k)
      if (left[k] && (first == count || (partners[k] & left).count() < (partners[first] & left).count())) first = k;
    for (size_t k = 0; k < count; ++k) {
      if (!partners[first][k] || !left[k]) continue;
      paired.insert(paired.end(), {terms[first], terms[k]});
      Terms others = left;
      others[first] = others[k] = false;
      if (again(again, others)) return true;
      paired.resize(paired.size() - 2);
    }
    return false;
  };
  if (!search(search, Terms((1u << count) - 1))) return false;
  terms = paired;
  return true;
}

}  // namespace

bool IntegerPanel::fit(int64_t a, int64_t b) const {
  const int8_t *v = &weights_[size_t(a * lanes_)], *w = &weights_[size_t(b * lanes_)];
  int16_t positive = 0, negative = 0;
  for (int64_t lane = 0; lane < lanes_; ++lane) {
    positive = std::max(positive, int16_t(std::max<int16_t>(v[lane], 0) + std::max<int16_t>(w[lane], 0)));
    negative = std::min(negative, int16_t(std::min<int16_t>(v[lane], 0) + std::min<int16_t>(w[lane], 0)));
  }
  return 255 * positive <= 32767 && 255 * negative >= -32768;
}

void IntegerSteps::add(const IntegerPanel& panel, Tap tap, int64_t begin, bool saturates) {
  std::vector<Step> fitting, others;
  const int64_t end = tap.first + std::min(begin + kGatheredBytes, tap.count);
  for (int64_t term = tap.first + begin; term < end; term += 4) {
    const Step step = {term, {term, term + 1, term + 2, term + 3}};
    (!saturates || panel.fit(step.terms) ? fitting : others).push_back(step);
  }
  if (!others.empty()) {
    std::vector<int64_t> terms;
    for (const Step& step : others) terms.insert(terms.end(), step.terms.begin(), step.terms.end());
    bool paired = pair_up(panel, terms);
    while (!paired && !fitting.empty()) {
      const Step step = fitting.back();
      terms.insert(terms.end(), step.terms.begin(), step.terms.end());
      others.push_back(step);
      fitting.pop_back();
      paired = pair_up(panel, terms);
    }
    // The 16 bytes end with the tap at the latest, where it has as many.
    const int64_t first = tap.first + std::max<int64_t>(0, std::min(begin, tap.count - kGatheredBytes));
    if (paired)
      for (size_t k = 0; k < terms.size(); k += 4)
        gathered.push_back({first, {terms[k], terms[k + 1], terms[k + 2], terms[k + 3]}});
    else
      for (const Step& step : others) (panel.fit(step.terms) ? plain : wide).push_back(step);
  }
  plain.insert(plain.end(), fitting.begin(), fitting.end());
}

}  // namespace pl::host

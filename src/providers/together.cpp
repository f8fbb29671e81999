#include "providers/together.h"

#include <algorithm>
#include <tuple>

namespace pl {

bool Sharing::any() const {
  return std::find(common.begin(), common.end(), true) != common.end() ||
         std::any_of(written.begin(), written.end(), [](int output) { return output >= 0; });
}

bool Sharing::operator<(const Sharing& other) const {
  return std::tie(common, written) < std::tie(other.common, other.written);
}

Sharing sharing_of(size_t kernels, const std::vector<uintptr_t>& inputs, const std::vector<uintptr_t>& outputs) {
  const size_t in = inputs.size() / kernels, out = outputs.size() / kernels;
  const auto in_each = [&](const auto& holds) {
    for (size_t k = 0; k < kernels; ++k)
      if (!holds(&inputs[k * in], &outputs[k * out])) return false;
    return true;
  };
  Sharing shared;
  for (size_t i = 0; i < in; ++i) {
    shared.common.push_back(in_each([&](const uintptr_t* x, const uintptr_t*) { return x[i] == inputs[i]; }));
    int written = -1;
    for (size_t o = 0; o < out && written < 0; ++o)
      if (in_each([&](const uintptr_t* x, const uintptr_t* y) { return x[i] == y[o]; })) written = int(o);
    shared.written.push_back(written);
  }
  return shared;
}

}  // namespace pl

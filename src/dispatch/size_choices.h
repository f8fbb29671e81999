// SizeChoices: what eager calls of like sizes have taken, so that a program whose lengths change settles.
//
// Calls are alike where op, attributes, device, dtypes, layouts and the shapes of constants are the same, and each size
// of the other inputs is of the same class (dispatch/size_class.h).  The first kMeasured sizes of calls that are alike
// are chosen as any call is, by measuring.  Further ones take what the nearest of those took.  A network of fixed sizes
// hardly has so many of one class: its maps become half as large from one stage to the next, and a class is four times
// as wide as it begins.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/device.h"
#include "ops/op.h"

namespace pl {

class SizeChoices {
 public:
  static constexpr size_t kMeasured = 4;

  // What calls that are alike have in common, and the sizes in which they differ.
  struct Call {
    std::string alike;
    std::vector<int64_t> sizes;
  };
  // Of an op with these inputs as they lie; results go to these destinations, absent ones where none was given.
  static Call of(const Op& op, const Device& device, int threads, const std::vector<TensorDesc>& destinations);

  // The key of the way (Candidate::dense_key()) that the nearest sizes took.  Empty: this call has to be chosen by itself.
  std::string find(const Call& call) const;
  // A call was chosen by itself.
  void add(const Call& call, const std::string& way);
  void forget();

 private:
  struct Choice {
    std::vector<int64_t> sizes;
    std::string way;
  };

  mutable std::mutex lock_;
  std::unordered_map<std::string, std::vector<Choice>> choices_;
};

}  // namespace pl

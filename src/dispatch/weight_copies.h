// Reordered copies of weights, on devices where starting a kernel takes time: when the first of them that is of an
// older version is asked for, all that were used in that version are made again, as few kernels.  A step of training
// changes all weights, and its successor reads them one after another.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "dispatch/catalog.h"
#include "dispatch/joined_kernels.h"

namespace pl {

class Profile;
class Runner;

// Thread-safe.
class WeightCopies {
 public:
  WeightCopies(const Profile& profile, Catalog& catalog, Runner& runner, JoinedKernels& joined)
      : profile_(profile), catalog_(catalog), runner_(runner), joined_(joined) {}
  // The tensor as `wanted` on its device, which is kept with it.  `why`: for the profile.
  TensorRef of(const TensorRef& tensor, const TensorDesc& wanted, const std::string& why);
  void forget();

 private:
  struct Kept {
    std::weak_ptr<Tensor> tensor;
    TensorDesc wanted;
    std::string why;
    // How it is made beside others, found when it is made again first; without a kernel it is made alone.
    EntryRef entry;
    Way* way = nullptr;
    std::shared_ptr<Kernel> kernel;
  };
  void add(const TensorRef& tensor, const TensorDesc& wanted, const std::string& why);
  void drop_expired();
  bool can_join(Kept& kept, const TensorRef& tensor);
  void renew(const Device& device);

  const Profile& profile_;
  Catalog& catalog_;
  Runner& runner_;
  JoinedKernels& joined_;
  std::mutex lock_;
  std::vector<Kept> kept_;
};

}  // namespace pl

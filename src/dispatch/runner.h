// Runner: queues kernels, conversions and the packing of constants, with their events in the profile.
#pragma once

#include <string>
#include <vector>

#include "core/tensor.h"
#include "dispatch/catalog.h"
#include "dispatch/conversion.h"

namespace pl {

class Profile;
struct KernelArguments;
struct ProfileEvent;

// Kernels want elements aligned to their dtype; memory that was lent for constants may lie anywhere.
bool is_aligned(const Tensor& tensor);

class Runner {
 public:
  Runner(const Machine& machine, Catalog& catalog, Conversions& conversions, Profile& profile)
      : machine_(machine), catalog_(catalog), conversions_(conversions), profile_(profile) {}

  void run_kernel(const Entry& entry, const Way& way, Kernel& kernel, const std::vector<Buffer*>& inputs,
                  const std::vector<Buffer*>& outputs, const char* kind, const char* role, const std::string& cause);
  // A kernel that does the work of several ways like `way`, of these entries.
  void run_joined(const std::vector<const Entry*>& entries, const Way& way, Kernel& kernel,
                  const std::vector<Buffer*>& inputs, const std::vector<Buffer*>& outputs, const char* kind,
                  const char* role, const std::string& cause);
  // The way of a reorder whose kernel may run with others, where what that takes more than the fastest way is less than
  // starting a kernel; else the fastest.
  Way& way_beside_others(Entry& entry);
  // `why` names the op and argument that need the conversion, for the profile; `keep`: keep the copy.  `once`: it will
  // not be made again, so nothing is measured or, where that can be helped, compiled for it, and few threads make it.
  // `measure`: false for what an op that follows another (Entry::follows) is given or gives.
  TensorRef convert(const TensorRef& tensor, Device& device, const TensorDesc& wanted, const char* role,
                    const std::string& why, bool keep, bool once = false, bool measure = true);
  // Writes to the destination's memory, which may be a part of another tensor's.
  void convert_into(const TensorRef& tensor, const TensorRef& destination, const std::string& why);
  // The tensor as `packing` of the candidate wants it, packed on `device`; made once for each storage version if kept.
  BufferRef packed(const TensorRef& tensor, Device& device, const Candidate& candidate, const Packing& packing,
                   const std::string& why, bool keep, bool once = false);
  // The name under which a tensor keeps that form.
  static std::string form_name(const Candidate& candidate, const Packing& packing) {
    return candidate.provider + "/" + packing.form;
  }

 private:
  static ProfileEvent event_of(const Entry& entry, const Way& way, const char* kind, const char* role,
                               const std::string& cause);
  void run_timed(ProfileEvent event, Device& device, Kernel& kernel, const KernelArguments& arguments);
  int threads(bool once) const;
  void run_reorder(Entry& entry, Buffer& from, Buffer& to, const char* role, const std::string& why, bool once);
  void convert_into_part(const TensorRef& tensor, const TensorRef& destination, const std::string& why);
  void convert_on_device(const TensorRef& tensor, const TensorRef& destination, const std::string& why);

  const Machine& machine_;
  Catalog& catalog_;
  Conversions& conversions_;
  Profile& profile_;
};

}  // namespace pl

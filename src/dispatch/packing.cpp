// Packed constants: made once for each storage version, shared by all candidates that name the same form.
#include <thread>

#include "core/threads.h"
#include "dispatch/machine.h"
#include "dispatch/runner.h"
#include "profile/profile.h"

namespace pl {

BufferRef Runner::packed(const TensorRef& tensor, Device& device, const Candidate& candidate, const Packing& packing,
                         const std::string& why, bool keep, bool once) {
  const std::string form = form_name(candidate, packing);
  if (keep)
    if (BufferRef known = tensor->find_packed(form, device)) return known;
  const uint64_t version = tensor->buffer()->version();
  const TensorDesc& wanted = candidate.inputs[size_t(packing.input)];
  // A copy in that layout is needed only while it is packed.
  const TensorRef source = convert(tensor, device, wanted, "weights", why, false, once);
  BufferRef result = device.allocate(packing.bytes);
  refuse_after_fork();
  if (device.traits().threads) use_threads(machine_.options().threads);
  if (!profile_.active()) {
    packing.pack(*source->buffer(), *result);
  } else {
    ProfileEvent event;
    event.kind = "reorder";
    event.op = "reorder";
    event.provider = candidate.provider;
    event.implementation = packing.form;
    event.device = device.name();
    event.inputs = {wanted.str(true)};
    event.outputs = {packing.form};
    event.bytes = double(wanted.size_bytes() + packing.bytes);
    event.role = "weights";
    event.cause = why;
    event.thread = std::hash<std::thread::id>()(std::this_thread::get_id());
    event.start_ms = profile_.now_ms();
    event.timing = device.start_timing();
    packing.pack(*source->buffer(), *result);
    event.timing->stop();
    profile_.add(std::move(event));
  }
  if (keep) tensor->add_packed(form, result, version);
  return result;
}

}  // namespace pl

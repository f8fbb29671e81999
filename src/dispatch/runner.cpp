#include "dispatch/runner.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "core/threads.h"
#include "dispatch/catalog.h"
#include "dispatch/conversion.h"
#include "dispatch/machine.h"
#include "profile/profile.h"

namespace pl {

void Runner::run_kernel(const Entry& entry, const Way& way, Kernel& kernel, const std::vector<Buffer*>& inputs,
                        const std::vector<Buffer*>& outputs, const char* kind, const char* role,
                        const std::string& cause) {
  BufferRef workspace;
  if (way.candidate.workspace_bytes) workspace = entry.device->allocate(way.candidate.workspace_bytes);
  refuse_after_fork();
  if (entry.device->traits().threads) use_threads(entry.threads);
  const KernelArguments arguments{inputs.data(), outputs.data(), workspace.get(), true};
  if (!profile_.active()) {
    kernel.run(arguments);
    return;
  }
  ProfileEvent event = event_of(entry, way, kind, role, cause);
  run_timed(std::move(event), *entry.device, kernel, arguments);
}

void Runner::run_joined(const std::vector<const Entry*>& entries, const Way& way, Kernel& kernel,
                        const std::vector<Buffer*>& inputs, const std::vector<Buffer*>& outputs, const char* kind,
                        const char* role, const std::string& cause) {
  refuse_after_fork();
  const Entry& first = *entries[0];
  const KernelArguments arguments{inputs.data(), outputs.data(), nullptr, true};
  if (!profile_.active()) {
    kernel.run(arguments);
    return;
  }
  ProfileEvent event = event_of(first, way, kind, role, cause);
  event.implementation += concat(" of ", entries.size(), " calls");
  for (size_t i = 1; i < entries.size(); ++i) {
    event.bytes += bytes_of(entries[i]->op);
    event.flops += flops_of(entries[i]->op);
  }
  run_timed(std::move(event), *first.device, kernel, arguments);
}

ProfileEvent Runner::event_of(const Entry& entry, const Way& way, const char* kind, const char* role,
                              const std::string& cause) {
  ProfileEvent event;
  event.kind = kind;
  event.op = entry.op.schema->name;
  event.provider = way.candidate.provider;
  event.implementation = way.candidate.implementation;
  event.device = entry.device->name();
  const bool weights = std::string_view(role) == "weights";
  for (size_t i = 0; i < way.candidate.inputs.size(); ++i) {
    const TensorDesc& desc = way.candidate.inputs[i];
    if (desc.present) event.inputs.push_back(desc.str(weights || entry.op.schema->is_weights(int(i))));
  }
  for (const TensorDesc& desc : way.candidate.outputs) event.outputs.push_back(desc.str(weights));
  event.bytes = bytes_of(entry.op);
  event.flops = flops_of(entry.op);
  event.role = role;
  event.cause = cause;
  return event;
}

void Runner::run_timed(ProfileEvent event, Device& device, Kernel& kernel, const KernelArguments& arguments) {
  event.thread = std::hash<std::thread::id>()(std::this_thread::get_id());
  event.start_ms = profile_.now_ms();
  event.timing = device.start_timing();
  kernel.run(arguments);
  event.timing->stop();
  profile_.add(std::move(event));
}

// What is done once moves memory that is new, and a region of many threads waits for the one of them that lost its
// processor to another program: on 32 processors that were busy, 20 s for the weights of ResNet-50, measuring included.
int Runner::threads(bool once) const {
  constexpr int kOnce = 8;
  return once ? std::min(kOnce, int(machine_.options().threads)) : int(machine_.options().threads);
}

bool is_aligned(const Tensor& tensor) {
  const Buffer& buffer = *tensor.buffer();
  return !buffer.borrowed() || reinterpret_cast<uintptr_t>(buffer.host()) % size_of(tensor.desc().dtype) == 0;
}

void Runner::run_reorder(Entry& entry, Buffer& from, Buffer& to, const char* role, const std::string& why, bool once) {
  const auto before = [&](const Way& one, const Way& other) {
    if (once && one.compiles != other.compiles) return other.compiles;
    return one.ms < other.ms;
  };
  Way* way = nullptr;
  std::shared_ptr<Kernel> kernel;
  while (!kernel) {
    way = nullptr;
    for (Way* const candidate : entry.choices())
      if (!way || before(*candidate, *way)) way = candidate;
    require(way != nullptr, Code::unsupported, "reorder: every implementation failed for ", entry.text);
    kernel = catalog_.kernel(entry, *way);
  }
  way->taken = true;
  run_kernel(entry, *way, *kernel, {&from}, {&to}, "reorder", role, why);
}

Way& Runner::way_beside_others(Entry& entry) {
  constexpr double kStartMs = 0.02;  // an H200's host, 2026-11
  Way *joinable = nullptr, *best = nullptr;
  catalog_.measure(entry, Tuning::off);
  for (Way& way : entry.ways) {
    if (!way.usable) continue;
    if (way.candidate.together && (!joinable || way.ms < joinable->ms)) joinable = &way;
    if (!best || way.ms < best->ms) best = &way;
  }
  require(best != nullptr, Code::unsupported, "reorder: every implementation failed for ", entry.text);
  return joinable && joinable->ms <= best->ms + kStartMs ? *joinable : *best;
}

TensorRef Runner::convert(const TensorRef& tensor, Device& device, const TensorDesc& wanted, const char* role,
                          const std::string& why, bool keep, bool once, bool measure) {
  if (!is_aligned(*tensor)) {
    const TensorRef aligned = Tensor::allocate(tensor->device(), tensor->desc());
    const size_t bytes = tensor->desc().size_bytes();
    aligned->device().write(*aligned->buffer(), 0, tensor->buffer()->host(), bytes);
    return convert(aligned, device, wanted, role, why, false, once, measure);
  }
  if (&tensor->device() == &device && same_memory(tensor->desc(), wanted)) {
    if (tensor->desc() == wanted) return tensor;
    return std::make_shared<Tensor>(wanted, tensor->buffer());  // the same bytes under another name
  }
  if (keep)
    if (TensorRef copy = tensor->find_copy(wanted, device)) return copy;
  const ReorderCosts costs = measure && !once ? ReorderCosts::eager : ReorderCosts::known;
  const uint64_t version = tensor->buffer()->version();
  // From the tensor itself or from one of its copies, whichever is nearest.
  TensorRef source = tensor;
  if (keep && tensor->copies_hash()) {
    double best = conversions_.cost_ms(tensor->desc(), tensor->device(), wanted, device, costs, threads(once));
    for (const TensorRef& copy : tensor->copies()) {
      if (copy->desc().dtype != tensor->desc().dtype) continue;  // may have lost precision
      const double ms = conversions_.cost_ms(copy->desc(), copy->device(), wanted, device, costs, threads(once));
      if (ms < best) {
        best = ms;
        source = copy;
      }
    }
  }
  TensorRef current = source;
  const Conversion path = conversions_.plan(source->desc(), source->device(), wanted, device, costs, threads(once));
  for (const ConversionStep& step : path.steps) {
    TensorRef next = Tensor::allocate(*step.device, step.result);
    if (step.kind == ConversionStep::Kind::reorder) {
      run_reorder(*step.entry, *current->buffer(), *next->buffer(), role, why, once);
    } else {
      Device& from = current->device();
      const size_t bytes = step.result.size_bytes();
      const double start = profile_.active() ? profile_.now_ms() : 0;
      transfer(*current->buffer(), 0, *next->buffer(), 0, bytes);
      if (profile_.active()) {
        ProfileEvent event;
        event.kind = "transfer";
        event.op = "transfer";
        event.device = next->device().name();
        event.implementation = from.name() + " to " + next->device().name();
        const bool weights = std::string_view(role) == "weights";
        event.inputs = {current->desc().str(weights)};
        event.outputs = {step.result.str(weights)};
        event.bytes = double(bytes);
        event.role = role;
        event.cause = why;
        event.start_ms = start;
        event.ms = profile_.now_ms() - start;
        profile_.add(std::move(event));
      }
    }
    current = next;
  }
  if (keep) tensor->add_copy(current, version);
  return current;
}

namespace {

// Where elements that lie in row-major order go in a tensor with gaps between its own: calls put(offset of the first in
// the storage, offset of the first among the elements, bytes) for each piece without a gap.
template <class Put>
void for_pieces(const TensorDesc& places, const Put& put) {
  const size_t size = size_of(places.dtype);
  const int last = places.rank() - 1;
  Dims index = Dims::filled(places.rank(), 0);
  size_t to = 0, from = 0, bytes = 0;  // the piece so far
  for (int64_t left = places.elements(); left > 0;) {
    const int64_t row = last < 0 ? 1 : places.shape[last];
    for (int64_t i = 0; i < row; ++i) {
      if (last >= 0) index[last] = i;
      const size_t at = size_t(places.offset_of(index)) * size;
      if (bytes && at != to + bytes) {
        put(to, from, bytes);
        from += bytes;
        bytes = 0;
      }
      if (!bytes) to = at;
      bytes += size;
    }
    left -= row;
    for (int d = last - 1; d >= 0; --d) {
      if (++index[d] < places.shape[d]) break;
      index[d] = 0;
    }
  }
  if (bytes) put(to, from, bytes);
}

}  // namespace

// A part of another tensor in the host's memory, whose other elements must stay as they are.
void Runner::convert_into_part(const TensorRef& tensor, const TensorRef& destination, const std::string& why) {
  const TensorDesc& wanted = destination->desc();
  const TensorDesc plain = TensorDesc::dense(wanted.dtype, wanted.shape);
  const TensorRef copy = convert(tensor, tensor->device(), plain, "output", why, false);
  std::vector<char> elements(plain.size_bytes());
  copy->device().read(*copy->buffer(), 0, elements.data(), elements.size());
  destination->device().synchronize();
  char* storage = static_cast<char*>(destination->buffer()->host());
  for_pieces(wanted,
             [&](size_t to, size_t from, size_t bytes) { std::memcpy(storage + to, elements.data() + from, bytes); });
}

// On the destination's device, as any op there: a kernel writes the elements where they belong.
void Runner::convert_on_device(const TensorRef& tensor, const TensorRef& destination, const std::string& why) {
  const TensorDesc& wanted = destination->desc();
  Device& device = destination->device();
  TensorRef source = tensor;
  if (&source->device() != &device || !is_aligned(*source))
    source = convert(source, device, TensorDesc::dense(wanted.dtype, wanted.shape), "output", why, false);
  if (share_memory(*source->buffer(), *destination->buffer())) {  // what is read must not be written meanwhile
    source = Tensor::allocate(device, TensorDesc::dense(tensor->desc().dtype, wanted.shape));
    convert_on_device(tensor, source, why);
  }
  const bool same = same_memory(source->desc(), wanted);
  if (same && wanted.is_dense()) {
    transfer(*source->buffer(), 0, *destination->buffer(), 0, wanted.size_bytes());
    return;
  }
  const EntryRef entry = same ? catalog_.copy(wanted, device, threads(false))
                              : catalog_.reorder(source->desc(), wanted, device, threads(false));
  catalog_.measure(*entry, Tuning::off);
  run_reorder(*entry, *source->buffer(), *destination->buffer(), "output", why, false);
}

void Runner::convert_into(const TensorRef& tensor, const TensorRef& destination, const std::string& why) {
  const TensorDesc& wanted = destination->desc();
  if (wanted.elements() == 0) return;
  for (int d = 0; d < wanted.rank(); ++d)
    require(wanted.strides[d] != 0 || wanted.shape[d] <= wanted.layout.block_of(d), Code::unsupported, why,
            ": the destination has dimensions whose elements share their memory (", wanted.str(),
            "), expected memory for each");
  Device& device = destination->device();
  const bool host = device.traits().host_addressable;
  if (host && wanted.is_dense()) {
    const TensorRef copy = convert(tensor, device, wanted, "output", why, false);
    transfer(*copy->buffer(), 0, *destination->buffer(), 0, wanted.size_bytes());
  } else if (host && (!wanted.layout.is_plain() || destination->buffer()->borrowed())) {
    convert_into_part(tensor, destination, why);  // memory that was lent may be the source's, too
  } else {
    convert_on_device(tensor, destination, why);
  }
  destination->buffer()->touch();
}

}  // namespace pl

// Runs every OpenCL candidate for one op, on every OpenCL device and, where a device shares the host's memory, on
// `cpu`, and hands the results, in logical order, to a check.  The counterpart of host_testing.h's run_all.
#pragma once

#include "host_testing.h"
#include "launches_here.h"
#include "packings.h"
#include "providers/opencl/runtime/loader.h"
#include "providers/opencl/runtime/opencl_provider.h"
#include "providers/together.h"
#include "unoptimised.h"

namespace pl::opencl_testing {

using namespace pl::host_testing;

struct Target {
  Provider* provider;
  std::shared_ptr<Device> device;
};

// The OpenCL devices, then `cpu` where OpenCL serves it; made once.
inline const std::vector<Target>& targets() {
  static const std::vector<Target>* all = [] {
    auto* out = new std::vector<Target>();
    for (auto& provider : make_providers()) {
      if (provider->name() != "opencl") continue;
      Provider* kept = provider.release();
      for (const std::string& note : kept->notes()) std::printf("%s\n", note.c_str());
      for (auto& device : kept->devices()) out->push_back({kept, device});
      std::shared_ptr<Device> cpu = make_cpu_device();
      if (kept->serves(*cpu)) out->push_back({kept, cpu});
      for (const Target& target : *out)
        std::printf("%s: %s\n", target.device->name().c_str(), target.device->fingerprint().c_str());
    }
    return out;
  }();
  return *all;
}

// For tests of hundreds of kernels.
inline void unoptimised_on_pocl() {
  for (const Target& target : targets())
    if (opencl::OpenclDevice* device = opencl::as_opencl(*target.device)) testing::unoptimised_on_pocl(*device);
}

// Called for each op beside what the provider lists: implementations that it would not list for the device.
inline std::vector<opencl::OpenclList>& more_lists() {
  static std::vector<opencl::OpenclList> lists;
  return lists;
}

// Parts that are added up later give the same bits.
inline void check_end_later(Device& device, Kernel& kernel, const Candidate& candidate, std::vector<Buffer*> in,
                            std::vector<Buffer*> out, Buffer* workspace, const std::string& what) {
  auto* later = dynamic_cast<EndsLater*>(&kernel);
  const std::vector<std::unique_ptr<Kernel>> ends = later ? later->ends() : std::vector<std::unique_ptr<Kernel>>();
  const size_t first = out.size() - ends.size();
  std::vector<std::vector<char>> whole, apart;
  for (size_t k = first; k < out.size(); ++k) {
    whole.emplace_back(candidate.outputs[k].size_bytes());
    apart.emplace_back(whole.back().size(), 0x5a);
    device.read(*out[k], 0, whole.back().data(), whole.back().size());
    device.write(*out[k], 0, apart.back().data(), apart.back().size());
  }
  if (!ends.empty()) later->begin({in.data(), out.data(), workspace});
  for (size_t k = 0; k < ends.size(); ++k) {
    ends[k]->run({&workspace, &out[first + k], nullptr});
    device.read(*out[first + k], 0, apart[k].data(), apart[k].size());
  }
  if (whole == apart) return;
  std::fprintf(stderr, "%s: parts that are added up later give other results\n", what.c_str());
  end_test();
}

// Kernels are chosen as for GPUs from here on.
inline void pretend_gpus() {
  for (const Target& target : targets()) {
    opencl::OpenclDevice* device = opencl::as_opencl(*target.device);
    if (!device) continue;
    opencl::Capabilities capabilities = device->capabilities();
    capabilities.cpu = false;
    capabilities.gpu = true;
    testing::unoptimised_on_cpus(*device);
    device->pretend(capabilities);
  }
}

// `whole_space`: those that only the tuner tries too; `wanted`: not all of them.  Returns how many candidates ran; ends
// the program if a device has none.
inline int run_all_opencl(const char* name, const char* attributes, const std::vector<Input>& given, const Check& check,
                          bool whole_space = false, const std::function<bool(const Candidate&)>& wanted = {}) {
  int count = 0;
  const std::vector<Input> others = exchanged(given);
  for (const Target& target : targets())
    for (const std::vector<Input>* each : {&given, &others}) {
      const std::vector<Input>& inputs = *each;
      if (inputs.empty()) continue;
      const Op op = op_of(name, attributes, inputs);
      CandidateList list;
      list.whole_space = whole_space;
      target.provider->list(op, *target.device, list);
      opencl::OpenclDevice* const device = opencl::as_opencl(*target.device);
      if (device)
        for (opencl::OpenclList more : more_lists()) more(op, *device, list);
      if (each == &given) require_candidates(op, list);
      for (const Candidate& candidate : list.candidates) {
        if (each == &others && candidate.inputs[0].layout != inputs[0].desc.layout) continue;
        if (wanted && !wanted(candidate)) continue;
        if (device && testing::is_miscompiled(*device, candidate.implementation)) continue;
        const std::string what = op.str() + " by " + candidate.key() + " on " + target.device->name();
        std::vector<BufferRef> buffers;
        std::vector<Buffer*> in, out;
        for (size_t i = 0; i < inputs.size(); ++i) {
          if (!candidate.inputs[i].present) {
            in.push_back(nullptr);
            continue;
          }
          const std::vector<char> bytes = store(candidate.inputs[i], inputs[i].values);
          buffers.push_back(target.device->allocate(bytes.size()));
          target.device->write(*buffers.back(), 0, bytes.data(), bytes.size());
          in.push_back(buffers.back().get());
        }
        for (const TensorDesc& desc : candidate.outputs) {
          const std::vector<char> poison(desc.size_bytes() + 64, 0x5a);
          buffers.push_back(target.device->allocate(poison.size()));
          target.device->write(*buffers.back(), 0, poison.data(), poison.size());
          out.push_back(buffers.back().get());
        }
        BufferRef workspace;
        if (candidate.workspace_bytes) workspace = target.device->allocate(candidate.workspace_bytes);
        std::unique_ptr<Kernel> kernel;
        std::vector<BufferRef> packed;
        try {
          testing::check_prepared_packings(*target.device, candidate, in, what);
          packed = pack_inputs(*target.device, candidate, in);
          kernel = candidate.prepare();
          const KernelArguments arguments{in.data(), out.data(), workspace.get()};
          kernel->run(arguments);
          const int here = testing::run_later(*target.device, *kernel, arguments);
          require(here == 0, Code::internal, here, " launches were not left to the device's thread");
          check_end_later(*target.device, *kernel, candidate, in, out, workspace.get(), what);
        } catch (const Error& error) {
          std::fprintf(stderr, "%s: %s\n", what.c_str(), error.what());
          end_test();
        }
        std::vector<Values> results;
        for (size_t i = 0; i < out.size(); ++i) {
          std::vector<char> bytes(candidate.outputs[i].size_bytes() + 64);
          target.device->read(*out[i], 0, bytes.data(), bytes.size());
          results.push_back(fetch(candidate.outputs[i], bytes, what));
        }
        check(op, results, what);
        ++count;
      }
    }
  return count;
}

}  // namespace pl::opencl_testing

#include "providers/opencl/runtime/opencl_provider.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>

#include "core/files.h"
#include "providers/opencl/program/embedded_kernels.h"
#include "providers/opencl/program/epilogue.h"
#include "providers/opencl/runtime/faults.h"
#include "providers/opencl/runtime/loader.h"
#include "providers/opencl/tuning/tuned_table.h"

namespace pl::opencl {
namespace {

// Changes whenever a kernel does, so that no cost measured with other kernels is believed.  Tables of tuned values are
// no kernels: what was measured holds whichever values come first.
std::string kernels_version() {
  uint64_t hash = 0;
  for (size_t i = 0; i < embedded_file_count; ++i)
    if (!is_tuned_table(embedded_files[i].path)) hash = checksum(embedded_files[i].text, hash);
  return hex(hash);
}

// What a kernel takes on `cpu` beside its work, before it is measured: a blocking launch, and threads of two runtimes
// that wait for the same processors.  Reorders of 5,000 elements between other providers' ops of a plan take 0.05 to
// 0.7 ms on two cores of a Zen 5 (PoCL; `python -m bench.detection ssdlite yolo`).
constexpr double kStartOnHostMs = 0.1;

class OpenclProvider : public Provider {
 public:
  OpenclProvider() {
    struct Found {
      const Platform* platform;
      cl_device_id id;
      cl_device_type type;
    };
    std::vector<Found> found;
    for (const Platform& platform : libraries().platforms) {
      if (kPoclLinker.applies(pocl_version(platform.version))) {
        notes_.push_back(concat(platform.name, " is left out: ", kPoclLinker.str(), "; ", kPoclLinker.remedy));
        continue;
      }
      cl_uint count = 0;
      if (platform.cl->clGetDeviceIDs(platform.id, CL_DEVICE_TYPE_ALL, 0, nullptr, &count) != CL_SUCCESS) continue;
      std::vector<cl_device_id> ids(count);
      if (platform.cl->clGetDeviceIDs(platform.id, CL_DEVICE_TYPE_ALL, count, ids.data(), nullptr) != CL_SUCCESS)
        continue;
      for (cl_device_id id : ids) {
        cl_device_type type = 0;
        cl_bool available = CL_FALSE, compiler = CL_FALSE;
        platform.cl->clGetDeviceInfo(id, CL_DEVICE_TYPE, sizeof type, &type, nullptr);
        platform.cl->clGetDeviceInfo(id, CL_DEVICE_AVAILABLE, sizeof available, &available, nullptr);
        platform.cl->clGetDeviceInfo(id, CL_DEVICE_COMPILER_AVAILABLE, sizeof compiler, &compiler, nullptr);
        if (available && compiler) found.push_back({&platform, id, type});
      }
    }
    // GPUs first, then accelerators, then CPUs; within a kind in the order the runtimes list them.
    const auto rank = [](const Found& f) {
      return f.type & CL_DEVICE_TYPE_GPU ? 0 : f.type & CL_DEVICE_TYPE_CPU ? 2 : 1;
    };
    std::stable_sort(found.begin(), found.end(), [&](const Found& a, const Found& b) { return rank(a) < rank(b); });
    for (const Found& f : found)
      devices_.push_back(std::make_shared<OpenclDevice>(concat("opencl:", devices_.size()), *f.platform, f.id));
    version_ = kernels_version();
    // Of several runtimes for the host's processor, Intel's is the fastest where it works: a blocking launch
    // costs 3 us (PoCL 35), a plain SGEMM reaches 350 GFLOP/s on 2 cores of a Zen 5 (PoCL 246).
    for (const auto& device : devices_) {
      const Capabilities& c = device->capabilities();
      if (!c.cpu) continue;
      if (!host_ || (c.svm_system && !host_->capabilities().svm_system)) host_ = device;
    }
    if (host_) version_ += " " + host_->fingerprint();
  }

  std::string name() const override { return "opencl"; }
  std::string version() const override { return version_; }
  std::vector<std::shared_ptr<Device>> devices() override { return {devices_.begin(), devices_.end()}; }
  std::shared_ptr<Device> lend(void* context, void* queue) override {
    std::lock_guard<std::mutex> guard(lent_lock_);
    std::shared_ptr<OpenclDevice>& device = lent_[queue];
    if (!device) {
      try {
        device = OpenclDevice::share(concat("opencl:", devices_.size() + lent_count_), static_cast<cl_context>(context),
                                     static_cast<cl_command_queue>(queue));
        ++lent_count_;
      } catch (...) {
        lent_.erase(queue);
        throw;
      }
    }
    return device;
  }
  bool follows_threads() const override { return false; }
  bool compiles() const override { return true; }
  std::vector<std::string> notes() const override {
    std::vector<std::string> all = libraries().notes;
    all.insert(all.end(), notes_.begin(), notes_.end());
    for (const std::string& problem : tuned_table_problems()) all.push_back(problem);
    return all;
  }

  bool serves(const Device& device) const override {
    if (dynamic_cast<const OpenclDevice*>(&device)) return true;
    return device.traits().host_addressable && host_ && host_->shares_host_memory();
  }

  // Parts of tensors of these devices; of those of `cpu`, others' kernels write parts.
  bool takes_strided_views(const Op& op) const override {
    for (const char* kind : {"attention", "attention_backward", "binary", "pointwise", "reorder", "rotary_embedding",
                             "tensor_scatter", "unary"})
      if (op.schema->kind == kind) return true;
    return false;
  }

  void list(const Op& op, Device& device, CandidateList& out) override {
    if (op.schema->kind == "reorder" && device.traits().host_addressable && !op.out().is_dense())
      return out.refuse(name(), "reorder: no strided views");
    OpenclDevice* target = as_opencl(device);
    if (!target) target = host_.get();
    const OpenclList list = OpTable<OpenclTable, OpenclList>::instance().find(op.schema->kind);
    if (!list)
      return out.refuse(name(), op.schema->name + ": there is no OpenCL kernel for ops of kind " + op.schema->kind);
    if (!accept_post_ops(op, out)) return;
    const size_t first = out.candidates.size();
    list(op, *target, out);
    if (as_opencl(device)) return;
    for (size_t i = first; i < out.candidates.size(); ++i) {
      Candidate& candidate = out.candidates[i];
      (candidate.busy_ms > 0 ? candidate.busy_ms : candidate.start_ms) += kStartOnHostMs;
    }
  }

 private:
  std::vector<std::shared_ptr<OpenclDevice>> devices_;
  std::shared_ptr<OpenclDevice> host_;  // runs kernels on the memory of device `cpu`
  std::string version_;
  std::vector<std::string> notes_;
  std::mutex lent_lock_;
  std::map<void*, std::shared_ptr<OpenclDevice>> lent_;  // by queue, which the device retains: no address is reused
  size_t lent_count_ = 0;
};

const ProviderRegistration registered("opencl", [] { return std::make_unique<OpenclProvider>(); });

}  // namespace

Candidate make_candidate(const Op& op, std::string implementation) {
  Candidate candidate;
  candidate.provider = "opencl";
  candidate.implementation = std::move(implementation);
  candidate.inputs = op.inputs;
  candidate.outputs = op.outputs;
  return candidate;
}

void add_per_layout(const Op& op, const std::string& implementation, CandidateList& out,
                    const std::function<bool(Candidate&)>& finish) {
  const TensorDesc& activation = op.in(0);
  for (const Layout& layout : layouts_to_try(op, activation)) {
    Candidate candidate = make_candidate(op, implementation);
    candidate.inputs[0] = TensorDesc::dense(activation.dtype, activation.shape, layout);
    for (TensorDesc& output : candidate.outputs)
      if (output.rank() == activation.rank()) output = TensorDesc::dense(output.dtype, output.shape, layout);
    if (finish(candidate)) out.add(std::move(candidate));
  }
}

}  // namespace pl::opencl

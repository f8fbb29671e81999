#include "dispatch/machine.h"

#include <algorithm>

#include "core/paths.h"
#include "core/threads.h"

namespace pl {

Machine::Machine(const ContextOptions& options) : options_(options) {
  if (options_.threads == 0) options_.threads = default_threads();
  providers_ = make_providers(options_.without);
  if (options_.cache_dir.empty())
    options_.cache_dir = default_cache_dir();
  else if (std::any_of(providers_.begin(), providers_.end(), [](const auto& p) { return p->compiles(); }))
    set_shared_cache_dir(options_.cache_dir);
  host_ = make_cpu_device();
  devices_.push_back(host_);
  for (const auto& provider : providers_)
    for (auto& device : provider->devices()) devices_.push_back(device);
}

Device& Machine::device(const std::string& name) const {
  std::lock_guard<std::mutex> guard(devices_lock_);
  std::string known;
  for (const auto& device : devices_) {
    if (device->name() == name) return *device;
    known += (known.empty() ? "" : ", ") + device->name();
  }
  fail(Code::device, "device \"", name, "\" is not known; expected one of ", known);
}

std::vector<std::shared_ptr<Device>> Machine::devices() const {
  std::lock_guard<std::mutex> guard(devices_lock_);
  return devices_;
}

void Machine::add_device(std::shared_ptr<Device> device) {
  std::lock_guard<std::mutex> guard(devices_lock_);
  devices_.push_back(std::move(device));
}

std::vector<Provider*> Machine::providers_of(const Device& device) const {
  std::vector<Provider*> list;
  for (const auto& provider : providers_)
    if (provider->serves(device)) list.push_back(provider.get());
  return list;
}

void Machine::set_fallback_observer(FallbackObserver observer) {
  std::lock_guard<std::mutex> guard(observer_lock_);
  fallback_observer_ = std::move(observer);
}

void Machine::tell_fallback(const std::string& op, const Device& device, const std::string& reason) const {
  FallbackObserver observer;
  {
    std::lock_guard<std::mutex> guard(observer_lock_);
    observer = fallback_observer_;
  }
  if (observer && !observer(op, device.name(), reason))
    fail(Code::unsupported, op, ": only cpu can run it, not ", device.name(), " (", reason, "), which is refused here");
}

}  // namespace pl

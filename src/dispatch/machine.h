// Machine: the devices and providers that there are, and the options by which they are used.  Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/interrupt.h"
#include "core/load.h"
#include "dispatch/options.h"
#include "providers/provider.h"

namespace pl {

class Machine {
 public:
  // Told of each call of an op that the host runs for another device, before it does; false: it is refused.
  using FallbackObserver =
      std::function<bool(const std::string& op, const std::string& device, const std::string& reason)>;

  explicit Machine(const ContextOptions& options);
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  const ContextOptions& options() const { return options_; }
  Device& device(const std::string& name) const;  // throws Error(device) that lists the known ones
  Device& host() const { return *host_; }         // `cpu`: it runs what another device cannot
  std::vector<std::shared_ptr<Device>> devices() const;
  void add_device(std::shared_ptr<Device> device);
  const std::vector<std::unique_ptr<Provider>>& providers() const { return providers_; }
  std::vector<Provider*> providers_of(const Device& device) const;

  void set_fallback_observer(FallbackObserver observer);
  // Asks the observer; throws Error(unsupported) where it refuses.
  void tell_fallback(const std::string& op, const Device& device, const std::string& reason) const;

  Interrupt& interrupt() { return interrupt_; }  // polled by all that measures, searches or compiles
  Load& load() { return *load_; }                // of other programs
  // Before anything is measured.
  void set_load(std::unique_ptr<Load> load) { load_ = std::move(load); }

 protected:
  ContextOptions options_;

 private:
  Interrupt interrupt_;
  std::unique_ptr<Load> load_ = std::make_unique<SystemLoad>();
  mutable std::mutex observer_lock_;
  FallbackObserver fallback_observer_;
  std::vector<std::unique_ptr<Provider>> providers_;
  mutable std::mutex devices_lock_;
  std::shared_ptr<Device> host_;
  std::vector<std::shared_ptr<Device>> devices_;
};

}  // namespace pl

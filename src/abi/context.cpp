// The C ABI of contexts: devices, memory, the profile, measured costs.
#include "dispatch/context.h"

#include "abi/describe.h"
#include "abi/guard.h"
#include "abi/handles.h"

using namespace pl;
using namespace pl::abi;

namespace {

Attributes parse_options(const char* options) { return options ? Attributes::parse(options) : Attributes(); }

void give_text(const std::string& text, char** json) { *json = copied_string(text.data(), text.size()); }

}  // namespace

extern "C" {

pl_status pl_context_create(const char* options, pl_context* context) {
  return guarded([&] {
    require_pointer(context, "pl_context_create", "context");
    ContextRef created = Context::create(ContextOptions::parse(parse_options(options), ContextOptions()));
    *context = reinterpret_cast<pl_context>(contexts().add(std::move(created)));
  });
}

pl_status pl_context_set(pl_context context, const char* options) {
  return guarded([&] {
    const ContextRef self = context_of(context, "pl_context_set");
    const Attributes given = parse_options(options);
    for (const auto& [name, value] : given) {
      const std::string_view key = name.text();
      require(key == "threads" || key == "tune" || key == "math", Code::invalid_argument,
              "pl_context_set: there is no option \"", key, "\" that can be changed; expected threads, tune or math");
    }
    self->set_options(ContextOptions::parse(given, self->options()));
  });
}

pl_status pl_context_release(pl_context context) {
  return guarded([&] { contexts().remove(value_of(context), "pl_context_release", "context"); });
}

pl_status pl_context_interrupt(pl_context context, pl_interrupt check, void* user) {
  return guarded([&] {
    const ContextRef self = context_of(context, "pl_context_interrupt");
    if (check)
      self->interrupt().set([=] { return check(user) != 0; });
    else
      self->interrupt().set(nullptr);
  });
}

pl_status pl_context_on_fallback(pl_context context, pl_fallback tell, void* user) {
  return guarded([&] {
    const ContextRef self = context_of(context, "pl_context_on_fallback");
    Context::FallbackObserver observer;
    if (tell)
      observer = [=](const std::string& op, const std::string& device, const std::string& reason) {
        return tell(user, op.c_str(), device.c_str(), reason.c_str()) == 0;
      };
    self->set_fallback_observer(std::move(observer));
  });
}

pl_status pl_devices(pl_context context, char** json) {
  return guarded([&] {
    require_pointer(json, "pl_devices", "json");
    give_text(context_of(context, "pl_devices")->devices_json(), json);
  });
}

pl_status pl_synchronize(pl_context context, const char* device) {
  return guarded([&] {
    const ContextRef self = context_of(context, "pl_synchronize");
    if (device) {
      self->device(device).synchronize();
    } else {
      for (const auto& each : self->devices()) each->synchronize();
    }
  });
}

pl_status pl_context_lend_opencl(pl_context context, void* cl_context, void* cl_command_queue, char* name) {
  return guarded([&] {
    const char* function = "pl_context_lend_opencl";
    const ContextRef self = context_of(context, function);
    require_pointer(cl_context, function, "cl_context");
    require_pointer(cl_command_queue, function, "cl_command_queue");
    require_pointer(name, function, "name");
    for (const auto& provider : self->providers()) {
      const std::shared_ptr<Device> device = provider->lend(cl_context, cl_command_queue);
      if (!device) continue;
      bool known = false;
      for (const auto& each : self->devices()) known |= each == device;
      if (!known) self->add_device(device);
      copy_text(name, sizeof pl_tensor_info::device, device->name());
      return;
    }
    fail(Code::device, function, ": no OpenCL loader was found, or this context was made with opencl=false");
  });
}

pl_status pl_memory(pl_context context, const char* device, pl_memory_info* info) {
  return guarded([&] {
    const ContextRef self = context_of(context, "pl_memory");
    require_pointer(device, "pl_memory", "device");
    require_pointer(info, "pl_memory", "info");
    const MemoryStatistics statistics = self->device(device).memory();
    info->in_use = statistics.in_use;
    info->cached = statistics.cached;
    info->peak = statistics.peak;
    info->allocations = statistics.allocations;
    info->peak_held = statistics.peak_held;
  });
}

pl_status pl_memory_reset_peaks(pl_context context, const char* device) {
  return guarded([&] {
    const ContextRef self = context_of(context, "pl_memory_reset_peaks");
    require_pointer(device, "pl_memory_reset_peaks", "device");
    self->device(device).reset_memory_peaks();
  });
}

pl_status pl_memory_limit(pl_context context, const char* device, size_t bytes) {
  return guarded([&] {
    const ContextRef self = context_of(context, "pl_memory_limit");
    require_pointer(device, "pl_memory_limit", "device");
    self->device(device).set_memory_limit(bytes);
  });
}

pl_status pl_context_settled(pl_context context, int32_t* settled) {
  return guarded([&] {
    const ContextRef self = context_of(context, "pl_context_settled");
    require_pointer(settled, "pl_context_settled", "settled");
    *settled = self->settled();
  });
}

pl_status pl_memory_release_caches(pl_context context) {
  return guarded([&] { context_of(context, "pl_memory_release_caches")->release_caches(); });
}

pl_status pl_profile_start(pl_context context) {
  return guarded([&] { context_of(context, "pl_profile_start")->profile_start(); });
}

pl_status pl_profile_stop(pl_context context, char** json) {
  return guarded([&] {
    require_pointer(json, "pl_profile_stop", "json");
    give_text(context_of(context, "pl_profile_stop")->profile_stop_json(), json);
  });
}

pl_status pl_costs_describe(pl_context context, char** json) {
  return guarded([&] {
    require_pointer(json, "pl_costs_describe", "json");
    give_text(context_of(context, "pl_costs_describe")->costs_json(), json);
  });
}

pl_status pl_costs_clear(pl_context context) {
  return guarded([&] { context_of(context, "pl_costs_clear")->costs_clear(); });
}

pl_status pl_costs_export(pl_context context, const char* device, int32_t threads, char** text) {
  return guarded([&] {
    const ContextRef self = context_of(context, "pl_costs_export");
    require_pointer(device, "pl_costs_export", "device");
    require_pointer(text, "pl_costs_export", "text");
    require(threads >= 0 && threads <= 4096, Code::invalid_argument, "pl_costs_export: threads is ", threads,
            ", expected 0 to 4096");
    give_text(self->costs_export(self->device(device), threads), text);
  });
}

pl_status pl_costs_import(pl_context context, const char* text, char** json) {
  return guarded([&] {
    const ContextRef self = context_of(context, "pl_costs_import");
    require_pointer(text, "pl_costs_import", "text");
    require_pointer(json, "pl_costs_import", "json");
    give_text(self->costs_import(text), json);
  });
}

pl_status pl_calibrate(pl_context context, const char* device, char** json) {
  return guarded([&] {
    const ContextRef self = context_of(context, "pl_calibrate");
    require_pointer(device, "pl_calibrate", "device");
    require_pointer(json, "pl_calibrate", "json");
    give_text(self->calibrate_json(self->device(device)), json);
  });
}

}  // extern "C"

#include "profile/profile.h"

#include "core/json.h"
#include "core/status.h"

namespace pl {

void Profile::start() {
  std::lock_guard<std::mutex> guard(lock_);
  require(!active_, Code::invalid_argument, "profile: a recording is under way, expected none");
  events_.clear();
  began_ = std::chrono::steady_clock::now();
  active_ = true;
}

std::vector<ProfileEvent> Profile::stop() {
  std::vector<ProfileEvent> events;
  {
    std::lock_guard<std::mutex> guard(lock_);
    require(active_, Code::invalid_argument, "profile: no recording is under way");
    active_ = false;
    events = std::move(events_);
    events_.clear();
  }
  for (ProfileEvent& event : events) {
    if (event.timing) event.ms = event.timing->milliseconds();
    event.timing.reset();
  }
  return events;
}

double Profile::now_ms() const {
  std::lock_guard<std::mutex> guard(lock_);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began_).count();
}

void Profile::add(ProfileEvent event) {
  std::lock_guard<std::mutex> guard(lock_);
  if (active_) events_.push_back(std::move(event));
}

std::string to_json(const std::vector<ProfileEvent>& events) {
  Json json;
  json.object().key("events").list();
  for (const ProfileEvent& event : events) {
    json.object()
        .field("kind", event.kind)
        .field("op", event.op)
        .field("provider", event.provider)
        .field("implementation", event.implementation)
        .field("device", event.device)
        .field("inputs", event.inputs)
        .field("outputs", event.outputs)
        .field("bytes", event.bytes)
        .field("flops", event.flops)
        .field("role", event.role)
        .field("cause", event.cause)
        .field("start_ms", event.start_ms)
        .field("ms", event.ms)
        .field("thread", event.thread)
        .end();
  }
  json.end().end();
  return json.str();
}

}  // namespace pl

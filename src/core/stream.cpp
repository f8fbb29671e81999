#include "core/stream.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/status.h"

namespace pl {
namespace {

thread_local std::vector<StreamRef> current;

class ImmediateEvent : public Event {
 public:
  explicit ImmediateEvent(const void* owner) : owner_(owner) {}
  bool done() override { return true; }
  void synchronize() override {}
  double milliseconds_since(Event& first) override {
    const auto* other = dynamic_cast<ImmediateEvent*>(&first);
    require(other && other->owner_ == owner_, Code::device, "the events are of two devices, which share no clock");
    return std::chrono::duration<double, std::milli>(at_ - other->at_).count();
  }

 private:
  const void* owner_;
  std::chrono::steady_clock::time_point at_ = std::chrono::steady_clock::now();
};

class ImmediateStream : public Stream {
 public:
  ImmediateStream(const void* owner, bool own) : Stream(owner), own_(own) {}
  bool is_own() const override { return own_; }
  EventRef record() override { return std::make_shared<ImmediateEvent>(owner()); }
  void wait(const EventRef& event) override { event->synchronize(); }
  void synchronize() override {}
  bool done() override { return true; }

 private:
  bool own_;
};

auto find_current(const void* owner) {
  return std::find_if(current.begin(), current.end(), [&](const StreamRef& s) { return s->owner() == owner; });
}

}  // namespace

const std::vector<StreamRef>& current_streams() { return current; }

const Stream* current_stream(const void* owner) {
  if (current.empty()) return nullptr;
  const auto found = find_current(owner);
  return found == current.end() ? nullptr : found->get();
}

void make_current(const StreamRef& stream) {
  const auto found = find_current(stream->owner());
  if (found != current.end()) current.erase(found);
  if (!stream->is_own()) current.push_back(stream);
}

StreamsOf::StreamsOf(const std::vector<StreamRef>& streams) : before_(std::exchange(current, streams)) {}
StreamsOf::~StreamsOf() { current = std::move(before_); }

StreamRef immediate_stream(const void* owner, bool own) { return std::make_shared<ImmediateStream>(owner, own); }

}  // namespace pl

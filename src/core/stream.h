// Streams and events.
//
// A stream is a queue of work on one device: what is started later on it is done later.  Each device has one of its
// own, and may have more, whose work is done beside each other's.  A thread's work goes to the stream that the thread
// made current for the device.
//
// Results do not depend on the streams: a device with several notes which of them used a block of memory last, and has
// work that writes it wait for those, work that reads it for the one that wrote (providers/opencl/runtime/queues.h).
// Streams are ordered where they share memory, and nowhere else.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace pl {

// A point in a stream.  Any thread may use it.
class Event {
 public:
  virtual ~Event() = default;
  virtual bool done() = 0;  // whether all work before it is
  virtual void synchronize() = 0;
  // The device's time from `first` to here; waits for both.  Throws Error(device) where the device has no clock, or the
  // events are of two devices.
  virtual double milliseconds_since(Event& first) = 0;
};
using EventRef = std::shared_ptr<Event>;

class Stream {
 public:
  virtual ~Stream() = default;
  // What its device has in common with no other.
  const void* owner() const { return owner_; }
  // Whether it is the one that work goes to where no other is current.
  virtual bool is_own() const = 0;
  virtual EventRef record() = 0;
  // Work that is started from now on waits for the event, whose stream may be another device's.
  virtual void wait(const EventRef& event) = 0;
  virtual void synchronize() = 0;
  virtual bool done() = 0;  // whether all work that was started on it is

 protected:
  explicit Stream(const void* owner) : owner_(owner) {}

 private:
  const void* owner_;
};
using StreamRef = std::shared_ptr<Stream>;

// Streams of the calling thread, at most one for each owner; a device's own is none of them.
const std::vector<StreamRef>& current_streams();
const Stream* current_stream(const void* owner);  // null: the device's own
void make_current(const StreamRef& stream);

// Gives the calling thread the streams of another one.
class StreamsOf {
 public:
  explicit StreamsOf(const std::vector<StreamRef>& streams);
  ~StreamsOf();
  StreamsOf(const StreamsOf&) = delete;
  StreamsOf& operator=(const StreamsOf&) = delete;

 private:
  std::vector<StreamRef> before_;
};

// For devices whose work is done when it was started.
StreamRef immediate_stream(const void* owner, bool own);

}  // namespace pl

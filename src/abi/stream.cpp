// The C ABI of streams and events.
#include "core/stream.h"

#include "abi/guard.h"
#include "abi/handles.h"

using namespace pl;
using namespace pl::abi;

namespace {

pl_stream new_stream(StreamRef stream, ContextRef context) {
  return reinterpret_cast<pl_stream>(streams().add({std::move(stream), std::move(context)}));
}

}  // namespace

extern "C" {

pl_status pl_stream_create(pl_context context, const char* device, pl_stream* stream) {
  return guarded([&] {
    const char* function = "pl_stream_create";
    ContextRef self = context_of(context, function);
    require_pointer(device, function, "device");
    require_pointer(stream, function, "stream");
    StreamRef made = self->device(device).make_stream();
    *stream = new_stream(std::move(made), std::move(self));
  });
}

pl_status pl_stream_release(pl_stream stream) {
  return guarded([&] { streams().remove(value_of(stream), "pl_stream_release", "stream"); });
}

pl_status pl_stream_own(pl_context context, const char* device, pl_stream* stream) {
  return guarded([&] {
    const char* function = "pl_stream_own";
    ContextRef self = context_of(context, function);
    require_pointer(device, function, "device");
    require_pointer(stream, function, "stream");
    const StreamsOf none({});
    StreamRef own = self->device(device).stream();
    *stream = new_stream(std::move(own), std::move(self));
  });
}

pl_status pl_stream_current(pl_context context, const char* device, pl_stream* stream) {
  return guarded([&] {
    const char* function = "pl_stream_current";
    ContextRef self = context_of(context, function);
    require_pointer(device, function, "device");
    require_pointer(stream, function, "stream");
    StreamRef current = self->device(device).stream();
    *stream = new_stream(std::move(current), std::move(self));
  });
}

pl_status pl_stream_make_current(pl_stream stream) {
  return guarded([&] { make_current(stream_of(stream, "pl_stream_make_current").stream); });
}

pl_status pl_stream_synchronize(pl_stream stream) {
  return guarded([&] { stream_of(stream, "pl_stream_synchronize").stream->synchronize(); });
}

pl_status pl_stream_done(pl_stream stream, int32_t* done) {
  return guarded([&] {
    const StreamEntry entry = stream_of(stream, "pl_stream_done");
    require_pointer(done, "pl_stream_done", "done");
    *done = entry.stream->done();
  });
}

pl_status pl_stream_wait(pl_stream stream, pl_event event) {
  return guarded([&] {
    const StreamEntry entry = stream_of(stream, "pl_stream_wait");
    entry.stream->wait(event_of(event, "pl_stream_wait"));
  });
}

pl_status pl_event_record(pl_stream stream, pl_event* event) {
  return guarded([&] {
    StreamEntry entry = stream_of(stream, "pl_event_record");
    require_pointer(event, "pl_event_record", "event");
    EventRef made = entry.stream->record();
    *event = reinterpret_cast<pl_event>(events().add({std::move(made), std::move(entry.context)}));
  });
}

pl_status pl_event_release(pl_event event) {
  return guarded([&] { events().remove(value_of(event), "pl_event_release", "event"); });
}

pl_status pl_event_synchronize(pl_event event) {
  return guarded([&] { event_of(event, "pl_event_synchronize")->synchronize(); });
}

pl_status pl_event_done(pl_event event, int32_t* done) {
  return guarded([&] {
    const EventRef self = event_of(event, "pl_event_done");
    require_pointer(done, "pl_event_done", "done");
    *done = self->done();
  });
}

pl_status pl_event_elapsed(pl_event first, pl_event second, double* milliseconds) {
  return guarded([&] {
    const EventRef from = event_of(first, "pl_event_elapsed", "first");
    const EventRef to = event_of(second, "pl_event_elapsed", "second");
    require_pointer(milliseconds, "pl_event_elapsed", "milliseconds");
    try {
      *milliseconds = to->milliseconds_since(*from);
    } catch (const Error& error) {
      fail(error.code(), "pl_event_elapsed: ", error.what());
    }
  });
}

}  // extern "C"

// The C ABI of streams and events.
#include "core/stream.h"

#include "abi/guard.h"
#include "abi/handles.h"

using namespace pl;
using namespace pl::abi;

namespace {

// A handle of what `find` gives of the device.
template <class Find>
pl_status give_stream(pl_context context, const char* device, pl_stream* stream, const char* function, Find&& find) {
  return guarded([&] {
    ContextRef self = context_of(context, function);
    require_pointer(device, function, "device");
    require_pointer(stream, function, "stream");
    StreamRef found = find(self->device(device));
    *stream = reinterpret_cast<pl_stream>(streams().add({std::move(found), std::move(self)}));
  });
}

}  // namespace

extern "C" {

pl_status pl_stream_create(pl_context context, const char* device, pl_stream* stream) {
  return give_stream(context, device, stream, "pl_stream_create", [](Device& on) { return on.make_stream(); });
}

pl_status pl_stream_release(pl_stream stream) {
  return guarded([&] { streams().remove(value_of(stream), "pl_stream_release", "stream"); });
}

pl_status pl_stream_own(pl_context context, const char* device, pl_stream* stream) {
  return give_stream(context, device, stream, "pl_stream_own", [](Device& on) {
    const StreamsOf none({});
    return on.stream();
  });
}

pl_status pl_stream_current(pl_context context, const char* device, pl_stream* stream) {
  return give_stream(context, device, stream, "pl_stream_current", [](Device& on) { return on.stream(); });
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

"""Streams of a device, whose work is done beside each other's, and events, which are points in them."""

from __future__ import annotations

import threading
from typing import Any

from ._load import ffi, lib
from .context import handle
from .errors import ArgumentTypeError, InvalidArgumentError, check

__all__ = ["Event", "Stream", "current_stream"]


class _Entered(threading.local):
    def __init__(self) -> None:
        self.before: list[Stream] = []  # what `with` puts back, by nesting


_entered = _Entered()


class Stream:
    """A queue of work on a device. `with stream:` starts the thread's work on that device there.

    What is started later on a stream is done later; work of two streams may be done at once, but where one needs what
    the other writes. On `cpu` work is done when it was started.

    >>> import pylayout as pl
    >>> stream = pl.devices()[0].stream()
    >>> with stream:
    ...     x = pl.zeros((2, 3))
    >>> stream.synchronize()
    """

    __slots__ = ("_handle", "device")

    def __init__(self, device: Any) -> None:
        made = ffi.new("pl_stream *")
        self._handle = ffi.NULL
        self.device = str(device)
        check(lib.pl_stream_create(handle(), self.device.encode(), made))
        self._handle = made[0]

    def __del__(self, release: Any = lib.pl_stream_release) -> None:
        if self._handle:
            release(self._handle)

    def __enter__(self) -> Stream:
        before = current_stream(self.device)
        check(lib.pl_stream_make_current(self._handle))
        _entered.before.append(before)
        return self

    def __exit__(self, *exception: object) -> None:
        if not _entered.before:
            raise InvalidArgumentError("Stream: it is left, but this thread has entered none: expected `with stream:`")
        before = _entered.before.pop()
        check(lib.pl_stream_make_current(before._handle))

    def __repr__(self) -> str:
        return f"Stream({self.device!r})"

    def record(self) -> Event:
        """An event that is reached when all that was started on the stream is done."""
        event = Event(self.device)
        event.record(self)
        return event

    def wait(self, event: Event) -> None:
        """What is started on the stream from now on waits for the event."""
        _check_event("Stream.wait", "event", event)
        check(lib.pl_stream_wait(self._handle, event._recorded("wait")))

    def synchronize(self) -> None:
        """Wait for what was started on the stream."""
        check(lib.pl_stream_synchronize(self._handle))

    @property
    def done(self) -> bool:
        """Whether all that was started on the stream is done; does not wait."""
        answer = ffi.new("int32_t *")
        check(lib.pl_stream_done(self._handle, answer))
        return bool(answer[0])


def current_stream(device: Any) -> Stream:
    """The stream on which the thread starts work on the device.

    >>> import pylayout as pl
    >>> pl.current_stream("cpu")
    Stream('cpu')
    """
    made = ffi.new("pl_stream *")
    name = str(device)
    check(lib.pl_stream_current(handle(), name.encode(), made))
    stream = Stream.__new__(Stream)
    stream._handle, stream.device = made[0], name
    return stream


def _check_event(method: str, argument: str, event: Any) -> None:
    if not isinstance(event, Event):
        raise ArgumentTypeError(f"{method}: {argument} is {type(event).__name__}, expected an Event")


class Event:
    """A point in a stream: recorded, it is reached when all that was started on the stream before is done.

    >>> import pylayout as pl
    >>> before, after = pl.Event("cpu"), pl.Event("cpu")
    >>> before.record()
    >>> x = pl.zeros((2, 3))
    >>> after.record()
    >>> after.done, after.elapsed(before) >= 0
    (True, True)
    """

    __slots__ = ("_handle", "device")

    def __init__(self, device: Any) -> None:
        self._handle = ffi.NULL
        self.device = current_stream(device).device  # DeviceError where there is none of that name

    def __del__(self, release: Any = lib.pl_event_release) -> None:
        if self._handle:
            release(self._handle)

    def __repr__(self) -> str:
        return f"Event({self.device!r}{'' if self._handle else ', not recorded'})"

    def _recorded(self, method: str) -> Any:
        if not self._handle:
            raise InvalidArgumentError(f"Event.{method}: the event was not recorded")
        return self._handle

    def _stream(self, method: str, stream: Stream | None) -> Stream:
        if stream is not None and not isinstance(stream, Stream):
            raise ArgumentTypeError(f"Event.{method}: stream is {type(stream).__name__}, expected a Stream")
        return stream or current_stream(self.device)

    def record(self, stream: Stream | None = None) -> None:
        """Move to the end of what was started on `stream`; without one, on the thread's stream of the device."""
        stream = self._stream("record", stream)
        if stream.device != self.device:
            raise InvalidArgumentError(f"Event.record: stream is one of {stream.device}, expected {self.device}")
        made = ffi.new("pl_event *")
        check(lib.pl_event_record(stream._handle, made))
        before, self._handle = self._handle, made[0]
        if before:
            lib.pl_event_release(before)

    def wait(self, stream: Stream | None = None) -> None:
        """What is started on `stream` from now on waits for the event; without one, on the thread's stream."""
        self._stream("wait", stream).wait(self)

    def synchronize(self) -> None:
        """Wait until the event is reached."""
        check(lib.pl_event_synchronize(self._recorded("synchronize")))

    @property
    def done(self) -> bool:
        """Whether the event is reached."""
        answer = ffi.new("int32_t *")
        check(lib.pl_event_done(self._recorded("done"), answer))
        return bool(answer[0])

    def elapsed(self, since: Event) -> float:
        """Milliseconds from another event of the device to this one, by the device's clock; waits for both."""
        _check_event("Event.elapsed", "since", since)
        milliseconds = ffi.new("double *")
        check(lib.pl_event_elapsed(since._recorded("elapsed"), self._recorded("elapsed"), milliseconds))
        return float(milliseconds[0])

"""Batcher: gathers single requests from many threads into batches for one plan: `plan.batched(max_batch=16)`."""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .errors import ArgumentTypeError, InvalidArgumentError, QueueFullError, ShapeError

__all__ = ["Batcher", "batched"]

Array = NDArray[Any]
# Everything of a request's inputs but how many rows they have: only those that are alike fit into one batch.
Form = tuple[tuple[str, tuple[int, ...]], ...]


class Runnable(Protocol):
    """What a batcher needs of a plan."""

    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]]

    def run(self, *arrays: Any) -> list[Array]: ...


@dataclass
class _Request:
    arrays: list[Array]
    rows: int
    form: Form
    arrived: float
    future: Future[list[Array]] = field(default_factory=Future)


@dataclass
class _Queue:
    """What callers and the thread that runs share. The thread holds no Batcher, so that one can be let go."""

    plan: Runnable
    sizes: tuple[int, ...]  # numbers of rows that are run, ascending
    max_batch: int  # rows of requests in one
    max_wait: float  # seconds
    changed: threading.Condition = field(default_factory=threading.Condition)  # guards what follows
    waiting: deque[_Request] = field(default_factory=deque)
    closed: bool = False
    batches: int = 0
    rows: int = 0
    filled: int = 0  # rows that were added to reach one of the sizes

    def take(self) -> list[_Request]:
        """The next batch, waited for; empty once the queue is closed and has run out."""
        with self.changed:
            while not self.waiting:
                if self.closed:
                    return []
                self.changed.wait()
            first = self.waiting[0]
            while not self.closed:
                left = first.arrived + self.max_wait - time.monotonic()
                if left <= 0 or sum(each.rows for each in self.waiting if each.form == first.form) >= self.max_batch:
                    break
                self.changed.wait(left)
                if not self.waiting or self.waiting[0] is not first:  # taken back by close()
                    return self.take_none()
            batch, rest, room = [], deque[_Request](), self.max_batch
            for request in self.waiting:
                # In their order: a large request is not passed by smaller ones behind it for ever.
                if request.form == first.form and request.rows <= room:
                    batch.append(request)
                    room -= request.rows
                else:
                    if request.form == first.form:
                        room = 0
                    rest.append(request)
            self.waiting = rest
            return [request for request in batch if request.future.set_running_or_notify_cancel()] or self.take_none()

    @staticmethod
    def take_none() -> list[_Request]:
        """A batch without requests, which is not the end."""
        return [_NOTHING]

    def run(self, batch: Sequence[_Request]) -> None:
        """Run requests as one batch; where that fails, each by itself, so that an error reaches its own request."""
        try:
            results = self._results(batch)
        except BaseException as error:
            if len(batch) == 1 or not isinstance(error, Exception):
                for request in batch:
                    request.future.set_exception(error)
                if not isinstance(error, Exception):
                    raise
                return
            for request in batch:
                self.run([request])
            return
        for request, arrays in zip(batch, results, strict=True):
            request.future.set_result(arrays)

    def _results(self, batch: Sequence[_Request]) -> list[list[Array]]:
        rows = sum(request.rows for request in batch)
        size = next(size for size in self.sizes if size >= rows)
        inputs = []
        for place in range(len(self.plan.inputs)):
            parts = [request.arrays[place] for request in batch]
            # What fills up the last row is a copy of it: a row that the plan can compute.
            parts += [parts[-1][-1:]] * (size - rows)
            inputs.append(parts[0] if len(parts) == 1 else np.concatenate(parts))
        outputs = self.plan.run(*inputs)
        with self.changed:
            self.batches += 1
            self.rows += rows
            self.filled += size - rows
        results, begin = [], 0
        for request in batch:
            end = begin + request.rows
            # Copies, so that one that is kept does not keep the memory of all.
            results.append([output if len(output) == request.rows else output[begin:end].copy() for output in outputs])
            begin = end
        return results


_NOTHING = _Request([], 0, (), 0.0)


def _serve(queue: _Queue) -> None:
    while batch := queue.take():
        if batch[0] is not _NOTHING:
            queue.run(batch)
        batch = []  # lets go of its arrays while the next one is waited for


def _end(queue: _Queue, thread: threading.Thread, finish: bool) -> None:
    with queue.changed:
        queue.closed = True
        left = [] if finish else list(queue.waiting)
        if left:
            queue.waiting.clear()
        queue.changed.notify_all()
    for request in left:
        if request.future.set_running_or_notify_cancel():
            request.future.set_exception(InvalidArgumentError("batched: it was closed before this request was run"))
    if thread is not threading.current_thread():
        thread.join()


class Batcher:
    """Gathers requests into batches, which one thread runs. Made by `Plan.batched`; usable from any thread."""

    def __init__(
        self, plan: Runnable, any_shape: bool, max_batch: int, max_wait_ms: float, max_queue: int, sizes: Sequence[int]
    ) -> None:
        self._plan = plan
        self._any_shape = any_shape
        self._max_queue = max_queue
        self._queue = _Queue(plan, tuple(sizes), max_batch, max_wait_ms / 1000)
        self._thread = threading.Thread(target=_serve, args=(self._queue,), name="pylayout batcher", daemon=True)
        self._thread.start()
        # Also when the process ends: requests that wait then get an error, and the one that runs ends first.
        self._finalizer = weakref.finalize(self, _end, self._queue, self._thread, False)
        self.max_batch = max_batch

    def submit(self, *arrays: Any) -> Future[list[Array]]:
        """Hand over a request: the plan's inputs in order, with one row or several each along the first axis.

        The arrays are copied, and may be written to once this returns. The result is that of `Plan.run` for these rows.
        Raises QueueFullError at once where `max_queue` requests wait already, ShapeError and InvalidArgumentError where
        the arrays do not fit.
        """
        request = self._request(arrays)
        request.arrays = [array.copy() for array in request.arrays]
        return self._handed_over(request)

    def run(self, *arrays: Any) -> list[Array]:
        """As `submit`, and wait for the result; without copies, so leave the arrays as they are until then."""
        return self._handed_over(self._request(arrays)).result()

    def _handed_over(self, request: _Request) -> Future[list[Array]]:
        with self._queue.changed:
            if self._queue.closed:
                raise InvalidArgumentError("batched: it is closed, expected requests before close()")
            if len(self._queue.waiting) >= self._max_queue:
                raise QueueFullError(
                    f"batched: {len(self._queue.waiting)} requests wait already (max_queue={self._max_queue}), "
                    "expected fewer: try again when some are done"
                )
            self._queue.waiting.append(request)
            self._queue.changed.notify_all()
        return request.future

    def _request(self, arrays: Sequence[Any]) -> _Request:
        inputs = self._plan.inputs
        if len(arrays) != len(inputs):
            names = ", ".join(item["name"] for item in inputs)
            raise InvalidArgumentError(f"batched: {len(arrays)} inputs are given, expected {len(inputs)}: {names}")
        given = [np.asarray(array) for array in arrays]
        for array, item in zip(given, inputs, strict=True):
            declared = tuple(item["shape"])
            # A plan of a model with named axes says itself what does not fit, to the request that it concerns.
            fits = array.ndim == len(declared) and (self._any_shape or array.shape[1:] == declared[1:])
            if not fits:
                expected = ", ".join(["rows", *map(str, declared[1:])])
                raise ShapeError(f'batched: input "{item["name"]}" has shape {array.shape}, expected ({expected})')
        rows = given[0].shape[0]
        for array, item in zip(given, inputs, strict=True):
            if array.shape[0] != rows:
                raise ShapeError(
                    f'batched: input "{item["name"]}" has {array.shape[0]} rows, expected {rows} as '
                    f'"{inputs[0]["name"]}"'
                )
        if not 1 <= rows <= self.max_batch:
            raise ShapeError(f"batched: a request has {rows} rows, expected 1 to max_batch={self.max_batch}")
        form = tuple((array.dtype.str, array.shape[1:]) for array in given)
        return _Request(given, rows, form, time.monotonic())

    def statistics(self) -> dict[str, int]:
        """How many batches and rows were run, how many rows were added to fill batches up, how many requests wait."""
        with self._queue.changed:
            queue = self._queue
            return {"batches": queue.batches, "rows": queue.rows, "filled": queue.filled, "waiting": len(queue.waiting)}

    def close(self, finish: bool = True) -> None:
        """Take no more requests, and end the thread: after the requests that wait, or with an error for each."""
        self._finalizer.detach()
        _end(self._queue, self._thread, finish)

    def __enter__(self) -> Batcher:
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        self.close(finish=kind is None)

    def __repr__(self) -> str:
        return f"<Batcher of up to {self.max_batch} for {self._plan!r}>"


def batched(
    plan: Runnable,
    any_rows: bool,
    any_shape: bool,
    max_batch: int | None,
    max_wait_ms: float,
    max_queue: int | None,
    sizes: Sequence[int] | None,
) -> Batcher:
    """Checks the arguments of `Plan.batched`.

    `any_rows`: the plan runs other numbers of rows than its own. `any_shape`: other sizes along any axes.
    """
    if not plan.inputs or not plan.outputs:
        raise InvalidArgumentError("batched: the plan has no inputs or no outputs, expected at least one of each")
    first = plan.inputs[0]["shape"] or [0]
    for kind, items in (("input", plan.inputs), ("output", plan.outputs)):
        for item in items:
            if not item["shape"] or item["shape"][0] != first[0]:
                raise InvalidArgumentError(
                    f'batched: {kind} "{item["name"]}" has shape {tuple(item["shape"])}, expected a first axis of '
                    f"{first[0] or 'rows'}, as the first input's: rows cannot be told apart"
                )
    if max_batch is None:
        max_batch = 16 if any_rows else first[0]
    if isinstance(max_batch, bool) or not isinstance(max_batch, int) or max_batch < 1:
        raise InvalidArgumentError(f"batched: max_batch is {max_batch!r}, expected an integer of at least 1")
    if sizes is not None:
        given, sizes = sizes, list(sizes) if isinstance(sizes, Iterable) and not isinstance(sizes, (str, bytes)) else []
        if not sizes or not all(hasattr(size, "__index__") and not isinstance(size, bool) for size in sizes):
            raise ArgumentTypeError(f"batched: sizes is {given!r}, expected a list of integers")
    if not any_rows:
        if max_batch > first[0]:
            raise InvalidArgumentError(
                f"batched: max_batch is {max_batch}, expected at most {first[0]}, for which the plan was compiled "
                "(a first axis with a name takes any)"
            )
        if sizes is not None and list(sizes) != [first[0]]:
            raise InvalidArgumentError(f"batched: sizes is {list(sizes)}, expected [{first[0]}], the plan's own")
        sizes = [first[0]]
    elif sizes is None:  # 1, 2, 4... and the largest
        sizes = [1 << i for i in range((max_batch - 1).bit_length())] + [max_batch]
    sizes = sorted(set(sizes))
    if not sizes or sizes[0] < 1 or sizes[-1] < max_batch:
        raise InvalidArgumentError(f"batched: sizes is {sizes}, expected some of at least 1, the largest {max_batch}")
    if isinstance(max_wait_ms, (bool, str)) or not hasattr(max_wait_ms, "__float__"):
        raise ArgumentTypeError(f"batched: max_wait_ms is {max_wait_ms!r}, expected a number of at least 0")
    longest = 1e3 * threading.TIMEOUT_MAX
    if not 0 <= max_wait_ms <= longest:
        raise InvalidArgumentError(f"batched: max_wait_ms is {max_wait_ms}, expected at least 0, at most {longest:.0f}")
    if max_queue is None:
        max_queue = 16 * max_batch
    if isinstance(max_queue, bool) or not isinstance(max_queue, int) or max_queue < 1:
        raise InvalidArgumentError(f"batched: max_queue is {max_queue!r}, expected an integer of at least 1")
    return Batcher(plan, any_shape, max_batch, max_wait_ms, max_queue, sizes)

"""Memory of large results, kept for the next call once PyTorch has let go of it.

The system gives new memory page by page and zeroed, which takes longer than most ops take to fill it: results of a step
of training have the same sizes as those of the step before. A block is free when nothing but this file refers to its
storage. Blocks have the exact sizes of results, so that a saved tensor is as large as itself.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
from collections.abc import Callable

import torch

from ..errors import ArgumentTypeError, InvalidArgumentError
from ..sizes import is_integer

__all__ = ["empty", "empty_cache", "set_memory_limit"]

LEAST = 1 << 20  # bytes; what is smaller the C library keeps by itself
LOOKED_AT = 16  # blocks of a size in a call: a program that keeps all of its results has many that are not free
PART = 8  # of the machine's memory, that blocks may take unless a limit is set

Shape = tuple[int, ...]


def _dispatched_empty(shape: Shape, strides: Shape, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_strided(shape, strides, dtype=dtype)


# New memory of the CPU: past PyTorch's dispatcher, as the code that inductor writes does, where there is that function.
_new: Callable[[Shape, Shape, torch.dtype], torch.Tensor] = getattr(
    torch._C._dynamo.guards, "_empty_strided_cpu", _dispatched_empty
)
_uses: Callable[[int], int] | None = getattr(torch._C, "_storage_Use_Count", None)


class _Block:
    __slots__ = ("storage",)

    def __init__(self, storage: torch.UntypedStorage) -> None:
        self.storage = storage

    def references(self) -> int:
        """To the storage's object in Python, and by C++: tensors."""
        assert _uses is not None
        return sys.getrefcount(self.storage) + _uses(self.storage._cdata)


# What references() gives where nothing else refers to a block.
_FREE = _Block(torch.empty(1).untyped_storage()).references() if _uses is not None else 0


def _part_of_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // PART
    except (AttributeError, OSError, ValueError):
        return 1 << 30


class Blocks:
    """Storages by their size in bytes, with at most `limit` bytes together, those in use counted."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0
        self._of_size: dict[int, dict[int, _Block]] = {}  # by number: those looked at longest ago come first
        self._number = 0
        self._lock = threading.Lock()

    def take(self, bytes: int) -> torch.UntypedStorage | None:
        """A storage of exactly that size that nobody refers to."""
        with self._lock:
            blocks = self._of_size.get(bytes, {})
            for number in [*itertools.islice(blocks, LOOKED_AT)]:
                block = blocks.pop(number)
                free = block.references() == _FREE
                # Its memory may have been resized, or shared with a process that still reads it, or an array's.
                storage = block.storage
                if free and (storage.nbytes() != bytes or storage.is_shared() or not storage.resizable()):
                    self.bytes -= bytes
                    continue
                self._number += 1
                blocks[self._number] = block  # one in use is looked at again after the others
                if free:
                    return block.storage
        return None

    def add(self, storage: torch.UntypedStorage) -> None:
        """Keep a storage that was given out newly made, if the limit allows."""
        with self._lock:
            bytes = storage.nbytes()
            if bytes > self.limit:
                return
            self._shrink(self.limit - bytes, in_use=False)
            if self.bytes + bytes > self.limit:  # all are in use
                return
            self._number += 1
            self._of_size.setdefault(bytes, {})[self._number] = _Block(storage)
            self.bytes += bytes

    def shrink(self, bytes: int, in_use: bool = False) -> None:
        """Give free blocks back, those first that were looked at longest ago, until no more bytes are kept.

        in_use: then also forget blocks in use, which PyTorch gives back.
        """
        with self._lock:
            self._shrink(bytes, False)
            if in_use:
                self._shrink(bytes, True)

    def _shrink(self, bytes: int, in_use: bool) -> None:
        if self.bytes <= bytes:
            return
        every = sorted((number, size) for size, blocks in self._of_size.items() for number in blocks)
        for number, size in every:
            blocks = self._of_size[size]
            if in_use or blocks[number].references() == _FREE:
                del blocks[number]
                self.bytes -= size
                if not blocks:
                    del self._of_size[size]
                if self.bytes <= bytes:
                    return


_blocks = Blocks(_part_of_memory())


def empty(shape: Shape, strides: Shape, dtype: torch.dtype, bytes: int) -> torch.Tensor:
    """A tensor of the CPU without gaps that takes so many bytes; its values are those of any memory."""
    if bytes < LEAST or _uses is None:
        return _new(shape, strides, dtype)
    storage = _blocks.take(bytes)
    if storage is None:
        made = _new(shape, strides, dtype)
        if _blocks.limit:
            _blocks.add(made.untyped_storage())
        return made
    return _new((0,), (1,), dtype).set_(storage, 0, shape, strides)


def empty_cache() -> None:
    """Give the memory of results that PyTorch has let go of back to the system."""
    _blocks.shrink(0)


def set_memory_limit(bytes: int) -> None:
    """How much memory of large results is kept for later calls, those in use counted; 0: none.

    At first that is an eighth of the machine's memory.
    """
    if not is_integer(bytes):
        raise ArgumentTypeError(f"set_memory_limit: bytes is {bytes!r}, expected an integer")
    if bytes < 0:
        raise InvalidArgumentError(f"set_memory_limit: bytes is {bytes}, expected at least 0")
    _blocks.limit = bytes
    _blocks.shrink(bytes, in_use=True)

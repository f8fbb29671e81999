"""Watch: whether tensors that plans hold as constants are what they were.

A tensor is what it was while PyTorch's version of it (each op that writes in place counts it up) and the address of
its memory are the same, and, on the CPU, two words of that memory: averages of weights are written past the count, by
`weight.data.copy_`. A call of a compiled model asks that of every weight. Read one by one from Python that costs
0.14 us a weight; `_core` does it at a hundredth of a microsecond, by two functions that libtorch exports.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch.autograd.graph import increment_version
from torch.optim.optimizer import register_optimizer_step_post_hook

from .._load import ffi, lib

__all__ = ["Watch"]

_VERSION = "_ZNK2at10TensorBase8_versionEv"  # at::TensorBase::_version() const
_ADDRESS = "aoti_torch_get_data_ptr"  # of the C interface of AOTInductor


_WORD = 4  # bytes


def _places_of_words(tensor: torch.Tensor) -> list[int]:
    """Where the words that are compared lie, in bytes from the tensor's address; -1: it has none."""
    size, count = tensor.element_size(), tensor.numel()
    spanned = size * (1 + sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True)))
    if tensor.device.type != "cpu" or count == 0 or spanned < _WORD:
        return [-1, -1]
    places = []
    for element in (count // 3, count - 1):
        place = 0
        for n, stride in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
            place, element = place + element % n * stride * size, element // n
        places.append(min(place, spanned - _WORD) // _WORD * _WORD)
    return places


def _words(tensor: torch.Tensor, places: Sequence[int]) -> list[int]:
    address = tensor.data_ptr()
    return [ctypes.c_uint32.from_address(address + place).value if place >= 0 else 0 for place in places]


def _address_of(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _tensor_offset() -> int | None:
    """Bytes from a tensor's Python object to its at::Tensor, a pointer, which `_cdata` gives as well."""
    tensors = [torch.empty(1), torch.nn.Parameter(torch.empty(2))]
    for offset in range(object.__basicsize__, torch._C.TensorBase.__basicsize__, ctypes.sizeof(ctypes.c_void_p)):
        if all(ctypes.c_size_t.from_address(id(tensor) + offset).value == tensor._cdata for tensor in tensors):
            return offset
    return None


@lru_cache(maxsize=1)
def _libtorch() -> tuple[int, int, int] | None:
    """The two functions' addresses and the offset; None where this PyTorch has not what is looked for."""
    for library in sorted((Path(torch.__file__).parent / "lib").glob("libtorch_cpu.*")):
        try:
            opened = ctypes.CDLL(str(library))
            functions = _address_of(opened[_VERSION]), _address_of(opened[_ADDRESS])
        except (OSError, AttributeError):
            continue
        offset = _tensor_offset()
        if offset is not None and _answers((*functions, offset)):
            return (*functions, offset)
    return None


def _answers(libtorch: tuple[int, int, int]) -> bool:
    """Whether they see what they are to see."""
    with torch.inference_mode(False):  # tensors of that mode have no versions, and the first call may be made in it
        tensor, other = torch.zeros(2), torch.zeros(2)
        watched = _NativeWatch(libtorch, [0], [_Seen(tensor)])
        seen = [watched.changed([tensor]), watched.changed([other])]
        tensor.data[1] = 1
        seen += [watched.changed([tensor])]
        watched = _NativeWatch(libtorch, [0], [_Seen(tensor)])
        tensor.add_(0)
    return [*seen, watched.changed([tensor])] == [False, True, True, True]


@lru_cache(maxsize=1)
def _count_fused_steps() -> None:
    """From now on a fused optimizer's step counts as a write, which PyTorch does not count."""
    register_optimizer_step_post_hook(_fused_step)


def _fused_step(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    for group in optimizer.param_groups:
        if group.get("fused"):
            increment_version([each for each in group["params"] if each.grad is not None])


class _Seen:
    """What a tensor is known by."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.version, self.address = tensor._version, tensor.data_ptr()
        self.places = _places_of_words(tensor)
        self.words = _words(tensor, self.places)

    def is_like(self, tensor: torch.Tensor) -> bool:
        same = (tensor._version, tensor.data_ptr()) == (self.version, self.address)
        return same and _words(tensor, self.places) == self.words


class _NativeWatch:
    """By one call of the extension."""

    def __init__(self, libtorch: tuple[int, int, int], places: Sequence[int], seen: Sequence[_Seen]) -> None:
        self._arrays = (
            ffi.new("uint32_t[]", list(places)),
            ffi.new("int64_t[]", [each.version for each in seen]),
            ffi.new("size_t[]", [each.address for each in seen]),
            ffi.new("int64_t[]", [place for each in seen for place in each.places]),
            ffi.new("uint32_t[]", [word for each in seen for word in each.words]),
        )
        self._watch = ffi.new("pyl_watch *", (*libtorch, len(places), *self._arrays))

    def changed(self, arguments: list[Any], changed: Any = lib.pyl_changed) -> bool:
        return bool(changed(self._watch, id(arguments)))


class _PlainWatch:
    """In Python, for a PyTorch that exports no such functions."""

    def __init__(self, places: Sequence[int], seen: Sequence[_Seen]) -> None:
        self._places, self._seen = list(places), list(seen)

    def changed(self, arguments: list[Any]) -> bool:
        given = [arguments[place] for place in self._places]
        return not all(seen.is_like(tensor) for seen, tensor in zip(self._seen, given, strict=True))


class Watch:
    """The tensors at some places of a call's arguments, as they were when this was made."""

    def __init__(self, places: Sequence[int], arguments: Sequence[Any]) -> None:
        # Aliases: they keep the memory, so that no other tensor can come to lie there.
        self._kept = [arguments[place].detach() for place in places]
        self._seen = {place: _Seen(arguments[place]) for place in places}
        _count_fused_steps()
        libtorch, seen = _libtorch(), [*self._seen.values()]
        watch = _PlainWatch(places, seen) if libtorch is None else _NativeWatch(libtorch, places, seen)
        self.changed = watch.changed  # takes the list of arguments; straight, since each call of a model asks

    def those_changed(self, arguments: Sequence[Any]) -> set[int]:
        """Their places."""
        return {place for place, seen in self._seen.items() if not seen.is_like(arguments[place])}

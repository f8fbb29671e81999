"""Fourier transforms."""

from __future__ import annotations

from typing import Any

from .case import Case, into, normal

CASES: list[Case] = []
add = into(CASES)


def complex_one(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    x = torch.view_as_complex(t[0].contiguous())
    made = torch.fft.ifft(x, norm="forward") if a.get("inverse") else torch.fft.fft(x)
    return torch.view_as_real(made) * a.get("scale", 1.0)


def of_reals(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    return torch.view_as_real(torch.fft.rfft(t[0])) * a.get("scale", 1.0)


def of_windows(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    x, *window = t
    rows = x.unfold(-1, a["size"], a["hop"]) if a.get("hop") else x
    return of_reals(torch, f, [rows * window[0] if window else rows], a)


def to_reals(torch: Any, f: Any, t: list[Any], a: dict[str, Any]) -> Any:
    x = torch.view_as_complex(t[0].contiguous())
    return torch.fft.irfft(x, a["size"], norm="forward") * a.get("scale", 1.0)


# All radices, primes beyond them, groups of lines that are full, nearly empty, and several.
for _lines, _n in (
    ((1,), 1),
    ((3,), 2),
    ((33,), 12),
    ((2, 17), 30),
    ((16,), 64),
    ((5,), 49),
    ((2, 3), 77),
    ((40,), 400),
):
    add("rfft", normal((*_lines, _n)), of_reals)
    add("fft", normal((*_lines, _n, 2)), complex_one)
    add("irfft", normal((*_lines, _n // 2 + 1, 2)), to_reals, size=_n)
add("rfft", normal((3, 7, 30), (30,)), of_windows, name="window")
add("rfft", normal((2, 3, 200)), of_windows, size=48, hop=20)
add("rfft", normal((1, 4000), (64,)), of_windows, size=64, hop=16, scale=0.5, name="window")
add("rfft", normal((3, 50), (50,)), of_windows, size=50, hop=7, name="one window each")
add("rfft", normal((90,), (9,)), of_windows, size=9, hop=10, name="gaps between windows")
add("rfft", normal((512,)), of_reals, scale=0.25, name="one line")
add("rfft", normal((70, 512)), of_reals)
add("fft", normal((2, 3, 5, 21, 2)), complex_one, inverse=True, scale=1 / 21)
add("fft", normal((19, 131, 2)), complex_one, inverse=True, name="a prime")
add("irfft", normal((2, 50, 17, 2)), to_reals, size=33, scale=1 / 33)
add("rfft", normal((0, 8)), lambda torch, f, t, a: t[0][:, :5, None].expand(0, 5, 2), name="no lines")
add("fft", normal((0, 8, 2)), lambda torch, f, t, a: t[0], name="no lines")
add("fft", normal((3, 0, 2)), lambda torch, f, t, a: t[0], name="no numbers")

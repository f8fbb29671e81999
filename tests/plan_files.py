"""The checksums in files of plans and choices, for tests that change them."""

MASK = 2**64 - 1


def resealed(header):
    """A header with the checksum that fits it, for contents that no plan has."""
    return header + b"end\t" + b"%016x" % checksum(header) + b"\n"


def checksum(data):
    """src/core/files.cpp: splitmix64's finaliser over words of 8 bytes."""

    def mix(seed, value):
        x = (seed + 0x9E3779B97F4A7C15 + value) & MASK
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
        return x ^ (x >> 31)

    value = mix(0, len(data))
    whole = len(data) // 8 * 8
    for i in range(0, whole, 8):
        value = mix(value, int.from_bytes(data[i : i + 8], "little"))
    return mix(value, int.from_bytes(data[whole:], "little"))

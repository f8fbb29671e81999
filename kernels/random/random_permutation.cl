// The integers from 0 to count - 1, each once, in random order.
//
// Element i is f(i), or f(f(i)), and so on: the first that is less than count, where f permutes the integers of
// 2 * bits bits by 12 rounds that mix one half into the other (src/ops/random.cpp).
//
// Tensors: the seed and dst, s64, dense.  One work-item writes one element.
#include "common/tensor.clh"
#include "common/philox.clh"

__kernel void random_permutation(__global const long* restrict seed, __global long* restrict dst, const int bits,
                                 const uint count) {
    const uint place = (uint)get_global_id(0), mask = ((uint)1 << bits) - 1;
    if (place >= count) return;
    const ulong key = (ulong)seed[0], first = PHILOX_FIRST(seed);
    uint value = place;
    do {
        uint left = value >> bits, right = value & mask;
        for (uint round = 0; round < 12; ++round) {
            const uint next = left ^ (pl_philox(first, (ulong)right | (ulong)round << 32, key).x & mask);
            left = right;
            right = next;
        }
        value = left << bits | right;
    } while (value >= count);
    dst[place] = (long)value;
}

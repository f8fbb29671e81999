// Single units of 1, 2, 4 or 8 bytes at a few places of a buffer: gathered, or set to all bits.
//
// One work-item for each place.
#ifndef MOST_PLACES  // on its own
#define MOST_PLACES 64
#endif

typedef struct {
    ulong at[MOST_PLACES];  // in units from the start of the buffer
} places_t;

// destination[first + i] = source[places.at[i]]
__kernel void gather_places(__global const uchar* source, __global uchar* destination, const places_t places,
                            const int count, const int unit, const ulong first) {
    const int i = (int)get_global_id(0);
    if (i >= count) return;
    const ulong from = places.at[i], to = first + (ulong)i;
    if (unit == 1) destination[to] = source[from];
    if (unit == 2) ((__global ushort*)destination)[to] = ((__global const ushort*)source)[from];
    if (unit == 4) ((__global uint*)destination)[to] = ((__global const uint*)source)[from];
    if (unit == 8) ((__global ulong*)destination)[to] = ((__global const ulong*)source)[from];
}

// NaN, or -1.
__kernel void set_places(__global uchar* destination, const places_t places, const int count, const int unit) {
    const int i = (int)get_global_id(0);
    if (i >= count) return;
    const ulong to = places.at[i];
    if (unit == 1) destination[to] = (uchar)0xff;
    if (unit == 2) ((__global ushort*)destination)[to] = (ushort)0xffff;
    if (unit == 4) ((__global uint*)destination)[to] = 0xffffffffu;
    if (unit == 8) ((__global ulong*)destination)[to] = ~0ul;
}

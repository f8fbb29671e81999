// Single units of a buffer: those at a few places, gathered or set.
//
// One work-item for each place.  UNIT is a type of the unit's size: uchar, ushort, uint or ulong.
#ifndef UNIT  // on its own
#define UNIT uint
#define MOST_PLACES 64
#endif

typedef struct {
    ulong at[MOST_PLACES];  // in units from the start of the buffer
} places_t;

__kernel void gather_places(__global const UNIT* source, __global UNIT* destination, const places_t places,
                            const int count) {
    const int i = (int)get_global_id(0);
    if (i < count) destination[i] = source[places.at[i]];
}

// All bits set: NaN, or -1.
__kernel void set_places(__global UNIT* destination, const places_t places, const int count) {
    const int i = (int)get_global_id(0);
    if (i < count) destination[places.at[i]] = (UNIT)~(UNIT)0;
}

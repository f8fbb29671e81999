// Lists in order, of equal lengths, merged by WAYS: a step of a sort of rows.
//
//   of each WAYS neighbouring lists of a row the first `kept` elements in order
//
// Tensors: `lists`, which from `from` on holds `count` lists of `length` elements for each row, one behind the other,
// rows outermost.  RESULTS, where a row has no more than WAYS lists: SRC, VALUES and INDICES (s64) as rows
// (common/rows.clh), where element j of row r is written as its element j - skip; padding is left alone.  Else the
// merged lists are written from `to` on; where the last part of a row has fewer lists, what is missing of `kept` elements is NO_ELEMENT.
// One work-item takes one element of a list, and counts what comes before it in each of the others: a search by halves.
// Work-groups: `groups` for the elements of WAYS lists, for each of the `parts` of a row, rows outermost.
#include "common/rows.clh"
#include "topk/sort_key.clh"

#ifndef WAYS
#define WAYS 8  // lists that are merged at once: 2, 4, 8
#endif
#ifndef SEARCHERS
#define SEARCHERS 64  // work-items of a work-group: 32, 64, 128
#endif
#ifndef RESULTS
#define RESULTS 1  // 0: lists are written
#endif
#ifndef SRC_DTYPE  // on its own: f32, plain
#define SRC_DTYPE f32
#define SRC_OFFSET(a, b, c, d, e, f, g, h) (src_arg.offset + (g)*src_arg.stride[0] + (h)*src_arg.stride[1])
#define SRC_DIM(i) ((i) < 6 ? 1 : src_arg.dim[((i) + 2) % 8])
#define VALUES_DTYPE f32
#define VALUES_OFFSET(a, b, c, d, e, f, g, h) (values_arg.offset + (g)*values_arg.stride[0] + (h)*values_arg.stride[1])
#define INDICES_DTYPE s64
#define INDICES_OFFSET(a, b, c, d, e, f, g, h) \
    (indices_arg.offset + (g)*indices_arg.stride[0] + (h)*indices_arg.stride[1])
#endif

__kernel __attribute__((reqd_work_group_size(SEARCHERS, 1, 1)))
void topk_merge(
#if RESULTS
    TENSOR_IN(SRC, src), TENSOR_OUT(VALUES, values), TENSOR_OUT(INDICES, indices), __global const sort_t* lists,
#else
    __global sort_t* lists,
#endif
    const ulong from, const ulong to, const uint length, const uint count, const uint kept, const uint groups,
    const uint parts, const uint skip) {
    const uint task = (uint)get_group_id(0) / groups, row = task / parts, part = task - row * parts;
    const uint element = ((uint)get_group_id(0) - task * groups) * SEARCHERS + (uint)get_local_id(0);
    if (element >= length * WAYS) return;
    const uint own = element / length, at = element - own * length, first = part * WAYS;
    const uint present = min(count - first, (uint)WAYS);
    __global const sort_t* group = lists + from + ((size_t)row * count + first) * length;
    sort_t key = NO_ELEMENT;
    uint rank = element;
    if (own < present) {
        key = group[element];
        rank = at;
        for (uint other = 0; other < present && rank < kept; ++other) {
            if (other == own) continue;
            __global const sort_t* list = group + (size_t)other * length;
            // How many of them come before it: of those that are alike, what lacks elements, the lists' order tells.
            uint low = 0, high = length;
            while (low < high) {
                const uint middle = (low + high) / 2;
                const sort_t there = list[middle];
                const int before = other < own ? !COMES_BEFORE(key, there) : COMES_BEFORE(there, key);
                if (before)
                    low = middle + 1;
                else
                    high = middle;
            }
            rank += low;
        }
    }
    if (rank >= kept || rank < skip) return;
#if RESULTS
    const idx_t place = PLACE_OF(key);
    ROW_DECLARE(i)
    ROW_LOGICAL(SRC, i, (idx_t)row)
    i[7] = place;
    const COMPUTE_T(SRC) x = LOAD(SRC, src, ROW_AT(SRC, i));
    i[7] = rank - skip;
    STORE(VALUES, values, ROW_AT(VALUES, i), x);
    STORE(INDICES, indices, ROW_AT(INDICES, i), (long)place);
#else
    lists[to + (size_t)task * kept + rank] = key;
#endif
}

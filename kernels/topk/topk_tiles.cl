// The first elements in order of each tile of a row: a sort of rows, or its first step.
//
//   of the elements t * TILE ... t * TILE + TILE - 1 of a row those that come first, `kept` of them
//
// Tensors: SRC as rows (common/rows.clh), rows of one dimension of `size` elements.  RESULTS, where a row is one tile:
// VALUES and INDICES (s64) as rows too, where element j of row r is written as its element j - skip; padding is left
// alone: the library has filled it with zeros before.  Else the lists of the tiles are written to `lists`, one behind
// the other, rows outermost; what a tile lacks of `kept` elements is NO_ELEMENT.
// A work-group sorts TILES tiles in local memory by Batcher's bitonic network, of which each work-item makes every
// SORTERS-th comparison.
#include "common/rows.clh"
#include "topk/sort_key.clh"

#ifndef TILE
#define TILE 128  // elements of a tile: 8, 32, 128, 512, 2048
#endif
#ifndef TILES
#define TILES 2  // tiles of a work-group: 1, 2, 8, 32
#endif
#ifndef SORTERS
#define SORTERS 128  // work-items of a work-group: 1, 2, 4 ... 256, at most half of the elements of its tiles
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

#define ELEMENTS (TILE * TILES)

__kernel __attribute__((reqd_work_group_size(SORTERS, 1, 1)))
void topk_tiles(TENSOR_IN(SRC, src),
#if RESULTS
                TENSOR_OUT(VALUES, values), TENSOR_OUT(INDICES, indices),
#else
                __global sort_t* restrict lists,
#endif
                const idx_t size, const idx_t rows, const idx_t tiles_of_row, const idx_t kept, const idx_t skip) {
    __local sort_t sorted[ELEMENTS];
    const uint me = (uint)get_local_id(0);
    const idx_t first = (idx_t)get_group_id(0) * TILES, tiles = rows * tiles_of_row;
    ROW_DECLARE(i)
    for (uint e = me; e < ELEMENTS; e += SORTERS) {
        const idx_t tile = first + e / TILE, row = tile / tiles_of_row;
        const idx_t place = (tile - row * tiles_of_row) * TILE + e % TILE;
        sort_t key = NO_ELEMENT;
        if (tile < tiles && place < size) {
            ROW_LOGICAL(SRC, i, row)
            i[7] = place;
            key = SORT_KEY(SRC, LOAD(SRC, src, ROW_AT(SRC, i)), place);
        }
        sorted[e] = key;
    }
    for (uint run = 2; run <= TILE; run *= 2)
        for (uint far = run / 2; far > 0; far /= 2) {
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint pair = me; pair < ELEMENTS / 2; pair += SORTERS) {
                const uint low = 2 * pair - (pair & (far - 1)), high = low + far;
                const sort_t a = sorted[low], b = sorted[high];
                const int falls = run < TILE && (low & run) != 0;
                if (COMES_BEFORE(b, a) != falls) {
                    sorted[low] = b;
                    sorted[high] = a;
                }
            }
        }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint e = me; e < ELEMENTS; e += SORTERS) {
        const idx_t tile = first + e / TILE, at = e % TILE;
        if (tile >= tiles || at >= kept || at < skip) continue;
#if RESULTS
        const idx_t place = PLACE_OF(sorted[e]);
        ROW_LOGICAL(SRC, i, tile)
        i[7] = place;
        const COMPUTE_T(SRC) x = LOAD(SRC, src, ROW_AT(SRC, i));
        i[7] = at - skip;
        STORE(VALUES, values, ROW_AT(VALUES, i), x);
        STORE(INDICES, indices, ROW_AT(INDICES, i), (long)place);
#else
        lists[(size_t)tile * kept + at] = sorted[e];
#endif
    }
}

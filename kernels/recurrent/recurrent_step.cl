// One step of a recurrent layer, a launch each: lstm, rnn, and a gru whose reset gate acts on the product with the state
// (recurrent/recurrent_steps.cl has the formulas).  All compute units then share each step's weights out, which pays as
// soon as the weights of the state are many: a work-group that goes through the steps by itself reads all of them in
// each.
//
// The workspace holds w x as gates, r turned as (directions, hidden, gates * hidden), and states as (directions, hidden,
// batch), rounded up to TILE sequences: the one that a step reads, the one that it makes, and the cells.
// recurrent_states: the first states, one a work-item.
#include "recurrent/step.clh"

#define STATE_BUFFER(which, d) (space + sizes.states_at + (idx_t)((which)*sizes.directions + (d)) * UNITS * PADDED_BATCH)

__kernel void recurrent_states(__global float* restrict space, LENGTHS_IN(lengths), X_IN(first_h), X_IN(first_c),
                               X_OUT(last_h), X_OUT(last_c), const layer_sizes sizes) {
    const int place = (int)get_global_id(0);
    if (place >= sizes.directions * UNITS * PADDED_BATCH) return;
    const int n = place % PADDED_BATCH, j = place / PADDED_BATCH % UNITS, d = place / PADDED_BATCH / UNITS;
    const bool inside = n < sizes.batch;
    const float h = inside && HAS(4) ? LOAD(X, first_h, STATE_AT(d, n) + j) : 0.0f;
    const float c = inside && CELL == 0 && HAS(8) ? LOAD(X, first_c, STATE_AT(d, n) + j) : 0.0f;
    STATE_BUFFER(0, 0)[place] = h;
    if (CELL == 0) STATE_BUFFER(2, 0)[place] = c;
    if (!inside || LENGTH(lengths, n) > 0) return;
    STORE(X, last_h, STATE_AT(d, n) + j, h);
    if (CELL == 0) STORE(X, last_c, STATE_AT(d, n) + j, c);
}

__kernel __attribute__((reqd_work_group_size(TILE_UNITS, SLICES, 1)))
void recurrent_step(__global float* restrict space, X_IN(b), LENGTHS_IN(lengths), X_IN(p), X_OUT(y), X_OUT(last_h),
                    X_OUT(last_c), const layer_sizes sizes, const int s) {
    __local float parts[SLICES][GATES][TILE][TILE_UNITS];
    const int lane = (int)get_local_id(0), slice = (int)get_local_id(1), d = (int)get_group_id(2);
    const int j = (int)get_group_id(0) * TILE_UNITS + lane, first = (int)get_group_id(1) * TILE;
    __global const float* turned = space + sizes.turned_at + (idx_t)d * UNITS * GATES * UNITS;
    __global const float* before = STATE_BUFFER(s % 2, d);
    float sums[GATES][TILE];
    for (int gate = 0; gate < GATES; ++gate)
        for (int q = 0; q < TILE; ++q) sums[gate][q] = 0.0f;
    if (j < UNITS) {
#pragma unroll 4
        for (int k = slice; k < UNITS; k += SLICES) {
            OF_SEQUENCES(h, before + (idx_t)k * PADDED_BATCH + first)
            for (int gate = 0; gate < GATES; ++gate) {
                const float weight = turned[(idx_t)k * (GATES * UNITS) + gate * UNITS + j];
                for (int q = 0; q < TILE; ++q) sums[gate][q] = fma(h[q], weight, sums[gate][q]);
            }
        }
    }
    for (int gate = 0; gate < GATES; ++gate)
        for (int q = 0; q < TILE; ++q) parts[slice][gate][q][lane] = sums[gate][q];
    barrier(CLK_LOCAL_MEM_FENCE);
    // From here on a work-item has one unit of one sequence.
    const int q = slice, n = first + q;
    if (slice >= TILE || j >= UNITS || n >= sizes.batch) return;
    const idx_t own = (idx_t)j * PADDED_BATCH + n;
    __global float* after = STATE_BUFFER(1 - s % 2, d) + own;
    const int reversed = d == 1 || FIRST_REVERSED, length = LENGTH(lengths, n);
    if (s >= length) {
        *after = before[own];
        STORE(X, y, RESULT_AT(d, n, s) + j, 0.0f);
        return;
    }
    const int t = TIME(s), bias = d * 2 * GATES * UNITS + j;
    __global const float* slot = space + sizes.gates_at + SLOT_AT(d, ROW(n, t), 0) + j;
    float of_state[GATES], of_x[GATES];
    for (int gate = 0; gate < GATES; ++gate) {
        float sum = 0.0f;
        for (int part = 0; part < SLICES; ++part) sum += parts[part][gate][q][lane];
        of_x[gate] = slot[gate * UNITS] + (HAS(1) ? LOAD(X, b, bias + gate * UNITS) : 0.0f);
        of_state[gate] = sum + (HAS(1) ? LOAD(X, b, bias + (GATES + gate) * UNITS) : 0.0f);
    }
#if CELL == 0
    __global float* cell = STATE_BUFFER(2, d) + own;
    float a[GATES];
    for (int gate = 0; gate < GATES; ++gate) a[gate] = of_x[gate] + of_state[gate];
    const float now = lstm_gates(a, *cell, p, d * 3 * UNITS + j, sizes), h = a[1] * tanh(now);
    *cell = now;
    if (s == length - 1) STORE(X, last_c, STATE_AT(d, n) + j, now);
#elif CELL == 1
    const float z = pl_sigmoid(of_x[0] + of_state[0]), r = pl_sigmoid(of_x[1] + of_state[1]);
    const float h = (1.0f - z) * tanh(of_x[2] + r * of_state[2]) + z * before[own];
#else
    const float h = pl_simple(of_x[0] + of_state[0]);
#endif
    *after = h;
    STORE(X, y, RESULT_AT(d, n, t) + j, h);
    if (s == length - 1) STORE(X, last_h, STATE_AT(d, n) + j, h);
}

// The gradients of lstm, rnn, and a gru whose reset gate acts on the product with the state, a launch each step
// (recurrent/recurrent_steps_back.cl has the formulas; recurrent_step.cl says when that pays).
//
// y has all states, so that w x and r h of all steps are products, and nothing is left to be done in order but the cells:
// recurrent_previous: the state before each step, one a work-item; zeros for steps that take no part.
// recurrent_gates: the values of gates in the place of what the products gave (of a gru's third gate r h in slot 3), and
// the cells; a work-item goes through the steps of one unit of one sequence.  Of steps that take no part: zeros.
// recurrent_step_back: `step`, from the last to 0, in which gates are given their gradients, and -1, the first states.
// From step to step the workspace keeps the gradients of gates, those by r h, as (gates * hidden, batch): those that a
// step reads and those that it makes; and what else there is of the state before, as (hidden, batch).
#include "recurrent/step.clh"

__kernel void recurrent_previous(__global float* restrict space, X_IN(y), LENGTHS_IN(lengths), X_IN(first_h),
                                 const layer_sizes sizes) {
    const int place = (int)get_global_id(0);
    if (place >= sizes.directions * ROWS * UNITS) return;
    const int j = place % UNITS, row = place / UNITS % ROWS, d = place / UNITS / ROWS;
    const int n = BATCH_FIRST ? row / sizes.steps : row % sizes.batch;
    const int t = BATCH_FIRST ? row % sizes.steps : row / sizes.batch;
    const int reversed = d == 1 || FIRST_REVERSED, length = LENGTH(lengths, n), s = TIME(t);
    float h = 0.0f;
    if (t < length) {
        if (s > 0)
            h = LOAD(X, y, RESULT_AT(d, n, TIME(s - 1)) + j);
        else if (HAS(4))
            h = LOAD(X, first_h, STATE_AT(d, n) + j);
    }
    space[sizes.previous_at + place] = h;
}

__kernel void recurrent_gates(__global float* restrict space, X_IN(b), LENGTHS_IN(lengths), X_IN(first_c), X_IN(p),
                              const layer_sizes sizes) {
    const int place = (int)get_global_id(0);
    if (place >= sizes.directions * sizes.batch * UNITS) return;
    const int j = place % UNITS, n = place / UNITS % sizes.batch, d = place / UNITS / sizes.batch;
    const int reversed = d == 1 || FIRST_REVERSED, length = LENGTH(lengths, n);
    float of_input[GATES], of_state[GATES];
    for (int gate = 0; gate < GATES; ++gate) {
        const int bias = d * 2 * GATES * UNITS + gate * UNITS + j;
        of_input[gate] = HAS(1) ? LOAD(X, b, bias) : 0.0f;
        of_state[gate] = HAS(1) ? LOAD(X, b, bias + GATES * UNITS) : 0.0f;
    }
#if CELL == 0
    float cell = HAS(8) ? LOAD(X, first_c, STATE_AT(d, n) + j) : 0.0f;
#endif
    for (int s = 0; s < sizes.steps; ++s) {
        const int t = s < length ? TIME(s) : s, row = ROW(n, t);
        __global float* slot = space + sizes.gates_at + SLOT_AT(d, row, 0) + j;
        if (s >= length) {
            for (int each = 0; each < SLOTS; ++each) slot[each * UNITS] = 0.0f;
#if CELL == 0
            space[sizes.cells_at + UNIT_AT(d, row) + j] = 0.0f;
#endif
            continue;
        }
#if CELL == 0
        float a[GATES];
        for (int gate = 0; gate < GATES; ++gate) a[gate] = slot[gate * UNITS] + of_input[gate] + of_state[gate];
        cell = lstm_gates(a, cell, p, d * 3 * UNITS + j, sizes);
        for (int gate = 0; gate < GATES; ++gate) slot[gate * UNITS] = a[gate];
        space[sizes.cells_at + UNIT_AT(d, row) + j] = cell;
#elif CELL == 1
        const float r = pl_sigmoid(slot[UNITS] + of_input[1] + of_state[1]), a = slot[3 * UNITS] + of_state[2];
        slot[0] = pl_sigmoid(slot[0] + of_input[0] + of_state[0]);
        slot[UNITS] = r;
        slot[2 * UNITS] = tanh(slot[2 * UNITS] + of_input[2] + r * a);
        slot[3 * UNITS] = a;
#else
        slot[0] = pl_simple(slot[0] + of_input[0] + of_state[0]);
#endif
    }
}

#define GRADIENTS(which, d) \
    (space + sizes.states_at + (idx_t)((which)*sizes.directions + (d)) * GATES * UNITS * PADDED_BATCH)
#define REST(d) \
    (space + sizes.states_at + ((idx_t)2 * GATES * sizes.directions + (d)) * UNITS * PADDED_BATCH)

__kernel __attribute__((reqd_work_group_size(TILE_UNITS, SLICES, 1)))
void recurrent_step_back(__global float* restrict space, X_IN(r), X_IN(grad), LENGTHS_IN(lengths), X_IN(first_c),
                         X_IN(p), X_IN(grad_h), X_IN(grad_c), X_OUT(dfirst_h), X_OUT(dfirst_c),
                         const layer_sizes sizes, const int step) {
    __local float parts[SLICES][TILE][TILE_UNITS];
    const int lane = (int)get_local_id(0), slice = (int)get_local_id(1), d = (int)get_group_id(2), s = step;
    const int k = (int)get_group_id(0) * TILE_UNITS + lane, first = (int)get_group_id(1) * TILE;
    __global const float* before = GRADIENTS((s + 1) % 2, d);
    float sums[TILE];
    for (int q = 0; q < TILE; ++q) sums[q] = 0.0f;
    if (s + 1 < sizes.steps && k < UNITS) {
        const idx_t r_at = (idx_t)d * GATES * UNITS * UNITS + k;
#pragma unroll 8
        for (int row = slice; row < GATES * UNITS; row += SLICES) {
            OF_SEQUENCES(of_gate, before + (idx_t)row * PADDED_BATCH + first)
            const float weight = LOAD(X, r, r_at + (idx_t)row * UNITS);
            for (int q = 0; q < TILE; ++q) sums[q] = fma(of_gate[q], weight, sums[q]);
        }
    }
    for (int q = 0; q < TILE; ++q) parts[slice][q][lane] = sums[q];
    barrier(CLK_LOCAL_MEM_FENCE);
    // From here on a work-item has one unit of one sequence.
    const int q = slice, n = first + q;
    if (slice >= TILE || k >= UNITS || n >= sizes.batch) return;
    const int reversed = d == 1 || FIRST_REVERSED, length = LENGTH(lengths, n);
    if (s >= length) return;
    __global float* rest = REST(d) + (idx_t)k * PADDED_BATCH + n;
    float dh = 0.0f, kept;
    if (s == length - 1) {
        dh = HAS(32) ? LOAD(X, grad_h, STATE_AT(d, n) + k) : 0.0f;
        kept = CELL == 0 && HAS(64) ? LOAD(X, grad_c, STATE_AT(d, n) + k) : 0.0f;
    } else {
        for (int part = 0; part < SLICES; ++part) dh += parts[part][q][lane];
        kept = CELL == 2 ? 0.0f : *rest;
        if (CELL == 1) dh += kept;
    }
    if (s < 0) {
        STORE(X, dfirst_h, STATE_AT(d, n) + k, dh);
        if (CELL == 0) STORE(X, dfirst_c, STATE_AT(d, n) + k, kept);
        return;
    }
    const int t = TIME(s), row = ROW(n, t);
    __global float* slot = space + sizes.gates_at + SLOT_AT(d, row, 0) + k;
    const float dy = dh + LOAD(X, grad, RESULT_AT(d, n, t) + k);
#if CELL == 0
    __global const float* cells = space + sizes.cells_at + k;
    const float old = s > 0    ? cells[UNIT_AT(d, ROW(n, TIME(s - 1)))]
                      : HAS(8) ? LOAD(X, first_c, STATE_AT(d, n) + k)
                               : 0.0f;
    *rest = gates_back(slot, dy, kept, old, cells[UNIT_AT(d, row)], 0.0f, p, d * 3 * UNITS + k, sizes);
#else
    const float before_step = CELL == 1 ? space[sizes.previous_at + UNIT_AT(d, row) + k] : 0.0f;
    *rest = gates_back(slot, dy, 0.0f, 0.0f, 0.0f, before_step, p, 0, sizes);
#endif
    __global float* after = GRADIENTS(s % 2, d) + (idx_t)k * PADDED_BATCH + n;
    for (int gate = 0; gate < GATES; ++gate)
        after[(idx_t)gate * UNITS * PADDED_BATCH] = slot[(CELL == 1 && gate == 2 ? 3 : gate) * UNITS];
}

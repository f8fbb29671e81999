// The gradients of lstm, gru and rnn by their gates, the steps gone through backwards, and by the first states.
//
//   with dh the gradient by the state, from y at this step and from the step after, and dc that by an LSTM's cell:
//   lstm  do = dh * tanh(c) * o * (1 - o),  dc += dh * o * (1 - tanh(c)^2) + do * po,  di = dc * g * i * (1 - i),
//         df = dc * c' * f * (1 - f),  dg = dc * i * (1 - g^2),  dc' = dc * f + di * pi + df * pf
//   gru   dz = dh * (h' - g) * z * (1 - z),  dg = dh * (1 - z) * (1 - g^2),  dr = (what r acts on gets) * r * (1 - r)
//   rnn   da = dh * (1 - h^2), or with RELU dh where h > 0
//   dh' = the sum over gates of r^T da, of a GRU and dh * z
//
// c' and h' are those of the step before.  `gates` holds the values of gates (recurrent_steps with KEEP) and is given
// their gradients, of steps that take no part zeros.  A work-group takes one sequence in one direction.
// recurrent_sums: the rows of one column of the gates, or of one unit and peephole, added up: the gradients of b and p.
// A work-group takes SUM_UNITS columns, SUM_SLICES work-items a column, which share its rows out; their sums are added
// in their order.
#include "recurrent/layer.clh"

#define SUM_UNITS 32
#define SUM_SLICES 8

// The sum over units of gate `gate`'s gradients times its weights, for unit k of the state before.
static inline float back(__global const float* of_gate, X_IN(r), const idx_t r_at, const int k) {
    float sum = 0.0f;
    for (int j = 0; j < UNITS; ++j) sum = fma(of_gate[j], LOAD(X, r, r_at + (idx_t)j * UNITS + k), sum);
    return sum;
}

__kernel void recurrent_steps_back(__global float* restrict space, X_IN(r), X_IN(grad), LENGTHS_IN(lengths),
                                   X_IN(first_c), X_IN(p), X_IN(grad_h), X_IN(grad_c), X_OUT(dfirst_h),
                                   X_OUT(dfirst_c), const layer_sizes sizes) {
    __local float dh[UNITS], dc[UNITS];
    const uint group = (uint)get_group_id(0);
    const int n = (int)(group % (uint)sizes.batch), d = (int)(group / (uint)sizes.batch);
    const int reversed = d == 1 || FIRST_REVERSED;
    const int length = LENGTH(lengths, n);
    const idx_t r_at = (idx_t)d * GATES * UNITS * UNITS, of_unit = (idx_t)UNITS * UNITS;
    const int of_p = d * 3 * UNITS;
    __global float* gates = space + sizes.gates_at;
    __global const float* cells = space + sizes.cells_at;
    __global const float* previous = space + sizes.previous_at;
    EACH_UNIT(j) {
        dh[j] = HAS(32) ? LOAD(X, grad_h, STATE_AT(d, n) + j) : 0.0f;
        dc[j] = CELL == 0 && HAS(64) ? LOAD(X, grad_c, STATE_AT(d, n) + j) : 0.0f;
    }
    for (int s = length - 1; s >= 0; --s) {
        const int t = TIME(s), row = ROW(n, t);
        __global float* slot = gates + SLOT_AT(d, row, 0);
        barrier(BOTH_FENCES);
        EACH_UNIT(j) {
            const float dy = dh[j] + LOAD(X, grad, RESULT_AT(d, n, t) + j);
#if CELL == 0
            const float old = s > 0    ? cells[UNIT_AT(d, ROW(n, TIME(s - 1))) + j]
                              : HAS(8) ? LOAD(X, first_c, STATE_AT(d, n) + j)
                                       : 0.0f;
            dc[j] = gates_back(slot + j, dy, dc[j], old, cells[UNIT_AT(d, row) + j], 0.0f, p, of_p + j, sizes);
#else
            const float before = CELL == 1 ? previous[UNIT_AT(d, row) + j] : 0.0f;
            dc[j] = gates_back(slot + j, dy, 0.0f, 0.0f, 0.0f, before, p, of_p + j, sizes);
#endif
        }
        barrier(BOTH_FENCES);
#if CELL == 1
        EACH_UNIT(k) {
            const float u = back(slot + (RESET_AFTER ? 3 : 2) * UNITS, r, r_at + 2 * of_unit, k);
            if (RESET_AFTER) {
                dc[k] += u;
            } else {
                const float r_ = slot[UNITS + k];
                slot[UNITS + k] = u * previous[UNIT_AT(d, row) + k] * r_ * (1.0f - r_);
                dc[k] += u * r_;
            }
        }
        barrier(BOTH_FENCES);
        EACH_UNIT(k) {
            dh[k] = dc[k] + back(slot, r, r_at, k) + back(slot + UNITS, r, r_at + of_unit, k);
        }
#else
        EACH_UNIT(k) {
            float sum = 0.0f;
            for (int gate = 0; gate < GATES; ++gate) sum += back(slot + gate * UNITS, r, r_at + gate * of_unit, k);
            dh[k] = sum;
        }
#endif
    }
    for (int t = length; t < sizes.steps; ++t)
        EACH_UNIT(j)
            for (int slot = 0; slot < SLOTS; ++slot) gates[SLOT_AT(d, ROW(n, t), slot) + j] = 0.0f;
    EACH_UNIT(j) {
        STORE(X, dfirst_h, STATE_AT(d, n) + j, dh[j]);
        if (CELL == 0) STORE(X, dfirst_c, STATE_AT(d, n) + j, dc[j]);
    }
}

__kernel __attribute__((reqd_work_group_size(SUM_UNITS, SUM_SLICES, 1)))
void recurrent_sums(__global const float* restrict space, LENGTHS_IN(lengths), X_IN(first_c), X_OUT(db), X_OUT(dp),
                    const layer_sizes sizes) {
    __local float of_slices[SUM_SLICES][SUM_UNITS];
    __global const float* gates = space + sizes.gates_at;
    __global const float* cells = space + sizes.cells_at;
    const int lane = (int)get_local_id(0), slice = (int)get_local_id(1), part = (int)get_group_id(2);
    const int j = (int)get_group_id(0) * SUM_UNITS + lane;
    const int parts = CELL == 0 ? 2 * GATES + 3 : 2 * GATES, d = part / parts, one = part % parts;
    float sum = 0.0f;
    if (j < UNITS && one < 2 * GATES) {
        const int slot = RESET_AFTER && one == 2 * GATES - 1 ? 3 : one % GATES;
#pragma unroll 4
        for (int row = slice; row < ROWS; row += SUM_SLICES) sum += gates[SLOT_AT(d, row, slot) + j];
    } else if (j < UNITS) {
        const int slot = one - 2 * GATES, reversed = d == 1 || FIRST_REVERSED;
        for (int n = slice; n < sizes.batch; n += SUM_SLICES) {
            const int length = LENGTH(lengths, n);
            for (int s = 0; s < length; ++s) {
                const int from = slot == 1 ? s : s - 1;  // o sees the cell of its own step
                const float cell = from >= 0 ? cells[UNIT_AT(d, ROW(n, TIME(from))) + j]
                                   : HAS(8)  ? LOAD(X, first_c, STATE_AT(d, n) + j)
                                             : 0.0f;
                sum = fma(gates[SLOT_AT(d, ROW(n, TIME(s)), slot) + j], cell, sum);
            }
        }
    }
    of_slices[slice][lane] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (slice > 0 || j >= UNITS) return;
    for (int other = 1; other < SUM_SLICES; ++other) sum += of_slices[other][lane];
    if (one < 2 * GATES)
        STORE(X, db, (d * 2 * GATES + one) * UNITS + j, sum);
    else
        STORE(X, dp, (d * 3 + one - 2 * GATES) * UNITS + j, sum);
}

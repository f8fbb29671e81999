// A recurrent layer's steps, one after another: lstm, gru and rnn.
//
//   with a = w x + wb + rb + r h of each gate, h the state before:
//   lstm  c = sigma(f + pf * c) * c + sigma(i + pi * c) * tanh(g),  h = sigma(o + po * c) * tanh(c)
//   gru   g = tanh(w x + r (sigma(r) * h)), or RESET_AFTER: tanh(w x + wb + sigma(r) * (r h + rb)),
//         h = (1 - sigma(z)) * g + sigma(z) * h
//   rnn   h = tanh(a), or with RELU max(a, 0)
//
// The workspace holds w x as gates, and r turned, as (directions, hidden, gates * hidden), so that neighbours read
// neighbours.
// A work-group takes SEQUENCES sequences in one direction, so that each weight that it reads counts for all of them
// (recurrent/layer.clh); their states are in local memory.  Steps that take no part give zeros.  KEEP 1: for the
// gradients, where y is known; the gates' values take the place of w x, and the cell, the state before and, of a GRU,
// that times the reset gate are written for each step.
// recurrent_turn: the weights of the state as `turned`, one a work-item.
#include "recurrent/layer.clh"

#ifndef KEEP
#define KEEP 0
#endif
#ifndef SEQUENCES
#define SEQUENCES 1  // of a work-group: 1, 2, 4
#endif
#define EACH_SEQUENCE(q) for (int q = 0; q < SEQUENCES; ++q)

// sums[gate][q]: the products of the states of all sequences with the weights of `count` gates from `first` on, unit j.
#define PRODUCTS_OF_STATES(sums, states, first, count)                                           \
    float sums[count][SEQUENCES];                                                                \
    for (int gate_ = 0; gate_ < (count); ++gate_) EACH_SEQUENCE(q_) sums[gate_][q_] = 0.0f;      \
    for (int k_ = 0; k_ < UNITS; ++k_)                                                           \
        for (int gate_ = 0; gate_ < (count); ++gate_) {                                          \
            const float weight_ = turned[(idx_t)k_ * (GATES * UNITS) + ((first) + gate_) * UNITS + j]; \
            EACH_SEQUENCE(q_) sums[gate_][q_] = fma(states[q_][k_], weight_, sums[gate_][q_]);   \
        }

__kernel void recurrent_steps(__global float* restrict space, X_IN(b), LENGTHS_IN(lengths), X_IN(first_h),
                              X_IN(first_c), X_IN(p),
#if KEEP
                              X_IN(y),
#else
                              X_OUT(y), X_OUT(last_h), X_OUT(last_c),
#endif
                              const layer_sizes sizes) {
    __local float h[SEQUENCES][UNITS], c[SEQUENCES][UNITS], r_h[SEQUENCES][UNITS];
    const uint group = (uint)get_group_id(0), shares = ((uint)sizes.batch + SEQUENCES - 1) / SEQUENCES;
    const int first = (int)(group % shares) * SEQUENCES, d = (int)(group / shares);
    const int reversed = d == 1 || FIRST_REVERSED;
    int lengths_of[SEQUENCES], longest = 0;
    EACH_SEQUENCE(q) {
        lengths_of[q] = first + q < sizes.batch ? LENGTH(lengths, first + q) : 0;
        longest = max(longest, lengths_of[q]);
    }
    __global const float* turned = space + sizes.turned_at + (idx_t)d * UNITS * GATES * UNITS;
    __global float* gates = space + sizes.gates_at;
#if KEEP
    __global float* cells = space + sizes.cells_at;
    __global float* previous = space + sizes.previous_at;
    __global float* reset = space + sizes.reset_at;
#endif
    const int bias = d * 2 * GATES * UNITS, of_p = d * 3 * UNITS;
    EACH_UNIT(j) EACH_SEQUENCE(q) {
        const int n = first + q;
        const bool inside = n < sizes.batch;
        h[q][j] = inside && HAS(4) ? LOAD(X, first_h, STATE_AT(d, n) + j) : 0.0f;
        c[q][j] = inside && CELL == 0 && HAS(8) ? LOAD(X, first_c, STATE_AT(d, n) + j) : 0.0f;
    }
    for (int s = 0; s < longest; ++s) {
        barrier(BOTH_FENCES);  // the states are whole
#if CELL == 1
        EACH_UNIT(j) {
            PRODUCTS_OF_STATES(of_gates, h, 0, 2)
            EACH_SEQUENCE(q) {
                const int length = lengths_of[q], row = ROW(first + q, TIME(s));
                if (s >= length) continue;
                __global float* slot = gates + SLOT_AT(d, row, 0);
                float z = slot[j] + of_gates[0][q], r = slot[UNITS + j] + of_gates[1][q];
                if (HAS(1)) {
                    z += LOAD(X, b, bias + j) + LOAD(X, b, bias + GATES * UNITS + j);
                    r += LOAD(X, b, bias + UNITS + j) + LOAD(X, b, bias + (GATES + 1) * UNITS + j);
                }
                slot[j] = pl_sigmoid(z);
                slot[UNITS + j] = r = pl_sigmoid(r);
                r_h[q][j] = r * h[q][j];
#if KEEP
                previous[UNIT_AT(d, row) + j] = h[q][j];
                reset[UNIT_AT(d, row) + j] = r_h[q][j];
#endif
            }
        }
        barrier(BOTH_FENCES);
#endif
        // New states wait for all to have read the old ones: in c of cells that have none, else in r_h.
        EACH_UNIT(j) {
#if CELL == 1
#if RESET_AFTER
            PRODUCTS_OF_STATES(of_state, h, 2, 1)
#else
            PRODUCTS_OF_STATES(of_state, r_h, 2, 1)
#endif
            const float wb = HAS(1) ? LOAD(X, b, bias + 2 * UNITS + j) : 0.0f;
            const float rb = HAS(1) ? LOAD(X, b, bias + (GATES + 2) * UNITS + j) : 0.0f;
#else
            PRODUCTS_OF_STATES(of_gates, h, 0, GATES)
#endif
            EACH_SEQUENCE(q) {
                const int length = lengths_of[q], row = ROW(first + q, TIME(s));
                if (s >= length) continue;
                __global float* slot = gates + SLOT_AT(d, row, 0);
#if CELL == 1
                const float a = of_state[0][q] + rb;
                const float g = tanh(slot[2 * UNITS + j] + wb + (RESET_AFTER ? slot[UNITS + j] * a : a));
                slot[2 * UNITS + j] = g;
                slot[3 * UNITS + j] = a;
                c[q][j] = (1.0f - slot[j]) * g + slot[j] * h[q][j];
#else
                float a[GATES];
                for (int gate = 0; gate < GATES; ++gate) {
                    a[gate] = slot[gate * UNITS + j] + of_gates[gate][q];
                    if (HAS(1))
                        a[gate] += LOAD(X, b, bias + gate * UNITS + j) + LOAD(X, b, bias + (GATES + gate) * UNITS + j);
                }
#if KEEP
                previous[UNIT_AT(d, row) + j] = h[q][j];
#endif
#if CELL == 0
                const float cell = lstm_gates(a, c[q][j], p, of_p + j, sizes);
                c[q][j] = cell;
                r_h[q][j] = a[1] * tanh(cell);
#if KEEP
                for (int gate = 0; gate < GATES; ++gate) slot[gate * UNITS + j] = a[gate];
                cells[UNIT_AT(d, row) + j] = cell;
#endif
#else
                c[q][j] = pl_simple(a[0]);
#if KEEP
                slot[j] = c[q][j];
#endif
#endif
#endif
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        EACH_UNIT(j) EACH_SEQUENCE(q) {
            const int length = lengths_of[q], place = RESULT_AT(d, first + q, TIME(s)) + j;
            if (s >= length) continue;
#if KEEP
            h[q][j] = LOAD(X, y, place);
#else
            h[q][j] = CELL == 0 ? r_h[q][j] : c[q][j];
            STORE(X, y, place, h[q][j]);
#endif
        }
    }
    EACH_SEQUENCE(q) {
        const int n = first + q;
        if (n >= sizes.batch) break;
        for (int t = lengths_of[q]; t < sizes.steps; ++t) EACH_UNIT(j) {
#if KEEP
                previous[UNIT_AT(d, ROW(n, t)) + j] = 0.0f;
                if (CELL == 1) reset[UNIT_AT(d, ROW(n, t)) + j] = 0.0f;
                if (CELL == 0) cells[UNIT_AT(d, ROW(n, t)) + j] = 0.0f;
#else
                STORE(X, y, RESULT_AT(d, n, t) + j, 0.0f);
#endif
            }
#if !KEEP
        EACH_UNIT(j) {
            STORE(X, last_h, STATE_AT(d, n) + j, h[q][j]);
            if (CELL == 0) STORE(X, last_c, STATE_AT(d, n) + j, c[q][j]);
        }
#endif
    }
}

// turned[d, k, row] = r[d, row, k]
__kernel void recurrent_turn(X_IN(r), __global float* restrict space, const layer_sizes sizes) {
    const int place = (int)get_global_id(0);
    if (place >= sizes.directions * GATES * UNITS * UNITS) return;
    const int row = place % (GATES * UNITS), rest = place / (GATES * UNITS), k = rest % UNITS, d = rest / UNITS;
    space[sizes.turned_at + place] = LOAD(X, r, (d * GATES * UNITS + row) * UNITS + k);
}

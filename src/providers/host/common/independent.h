// Words to the compiler before a loop.
//
// PL_INDEPENDENT: no iteration reads what another one writes, so that it may vectorise the loop without a proof.
// PL_ROLLED: it does not unroll a short loop before it looks for vectors, after which it would find none.
#pragma once

#ifdef __clang__
#define PL_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#define PL_ROLLED
#else
#define PL_ROLLED _Pragma("GCC unroll 1")
#define PL_INDEPENDENT _Pragma("GCC ivdep")
#endif

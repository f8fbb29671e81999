// How the host provider gets vector code from plain C++.
//
// A function marked PL_VECTORISED is compiled three times (baseline, AVX2 with FMA, AVX-512) and the best one the
// processor has is chosen when the library is loaded.  What it calls must be inlined into it, so helpers are
// PL_INLINE.  The files of this provider are compiled with -fno-math-errno and -fno-trapping-math, which let
// comparisons become blends; NaN, infinities and signed zeros keep their meaning (there is no -ffast-math).
#pragma once

#define PL_INLINE inline __attribute__((always_inline))

// The sanitizers' run time is not ready when the choice is made; other architectures have one baseline.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define PL_HAS_CLONES 1
#define PL_VECTORISED __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define PL_HAS_CLONES 0
#define PL_VECTORISED
#endif

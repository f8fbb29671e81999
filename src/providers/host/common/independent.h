// Before a loop: no iteration reads what another one writes, so that the compiler may vectorise it without a proof.
#pragma once

#ifdef __clang__
#define PL_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define PL_INDEPENDENT _Pragma("GCC ivdep")
#endif

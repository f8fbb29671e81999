// Events by random words of 32 bits.
#pragma once

#include <cmath>
#include <cstdint>

namespace pl {

// How many of all words are below p * 2^32: those by which an event of probability p happens.
inline uint64_t words_below(double p) { return uint64_t(std::ceil(p * 4294967296.0)); }

}  // namespace pl

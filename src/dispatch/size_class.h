// Classes of sizes: within one the choices of plans for further sizes (graph/sizes.h) and of eager calls
// (dispatch/size_choices.h) are taken over from a neighbour.
#pragma once

#include <cstdint>
#include <vector>

namespace pl {

// The number of a size's class: 0, 1, 2 to 4, 5 to 16, 17 to 64, 65 to 256, more.
int size_class(int64_t size);

// How far two lists of sizes are from each other: the sum of |log(a / b)|.  Infinite where they differ in length.
double size_distance(const std::vector<int64_t>& a, const std::vector<int64_t>& b);

}  // namespace pl

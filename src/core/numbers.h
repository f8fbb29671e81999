// Numbers that files of several folders name.
#pragma once

#include <limits>

namespace pl {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace pl

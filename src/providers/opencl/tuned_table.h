// Tables of tuned values: for a device, a kernel family and a class of shapes the point to start from.
//
// They are text, `kernels/tuned/*.tuned` (shipped, inside the library) and `*.tuned` in the folder `tuned` of the cache
// directory (a user's own, which win), written by `pylayout tune --export`:
//
//   # anything after a hash is a comment
//   device NVIDIA H200                 what follows is for devices whose vendor and name contain all of these words
//   conv_fwd_local f32 window-channels rows=2^12 columns=2^6 terms=2^9: LOCAL_X=16 LOCAL_Y=8 TILE_X=8 TILE_Y=8
//   TILE_K=16
//
// A class that a table has not takes the values of the nearest one (ShapeClass::distance), unless that is far.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "providers/opencl/tuning.h"

namespace pl::opencl {

// True for the path of an embedded table, false for a kernel's.
bool is_tuned_table(const std::string& path);

struct TunedEntry {
  std::string device;  // the words after `device`
  std::string family;
  ShapeClass shapes;
  Point point;
};

// The entries of a table.  What cannot be understood is left out, and said in `problems` ("NAME:LINE: ...").
std::vector<TunedEntry> parse_tuned(const std::string& name, const std::string& text,
                                    std::vector<std::string>& problems);

// The best entry's point that the family contains: the device named by the most words, then the nearest class.
std::optional<Point> tuned_point(const Family& family, const OpenclDevice& device, const ShapeClass& shapes);

// Sentences about files that were not understood; for Provider::notes.
std::vector<std::string> tuned_table_problems();

}  // namespace pl::opencl

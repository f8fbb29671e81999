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
// A class that a table has not takes the values of the nearest one (ShapeClass::distance), unless that is far; then
// those of a line that says * for what it leaves open: a vendor's default, for all dtypes, kinds or sizes.
//   conv_fwd_local * * rows=* columns=* terms=*: LOCAL_X=16 LOCAL_Y=8 TILE_X=4 TILE_Y=8 TILE_K=8
//
// A table is advice.  Lines that cannot be understood, families and values that this version has not, and files that
// are no tables are left out and named (tuned_table_problems); nothing that a file says can make a program fail.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "providers/opencl/tuning/tuning.h"

namespace pl::opencl {

// True for the path of an embedded table, false for a kernel's.
bool is_tuned_table(const std::string& path);

struct TunedEntry {
  std::string place;   // "NAME:LINE"
  std::string device;  // the words after `device`
  std::string family;
  ShapeClass shapes;  // what is left open: kind "*", sizes kAnySize
  bool any_dtype = false;
  Point point;

  static constexpr int kAnySize = -1;
  // How far its values are from being made for `wanted`; a class left open is farther than any that is named.
  // Nothing: too far to conclude anything.
  std::optional<int> distance(const ShapeClass& wanted) const;
};

// The entries of a table.  What cannot be understood is left out, and said in `problems` ("NAME:LINE: ...").
std::vector<TunedEntry> parse_tuned(const std::string& name, const std::string& text,
                                    std::vector<std::string>& problems);

// The best entry's point that the family contains: the device named by the most words, then the nearest class.
std::optional<Point> tuned_point(const Family& family, const OpenclDevice& device, const ShapeClass& shapes);

// Sentences about what was left out, at most a few for each file; for Provider::notes.
std::vector<std::string> tuned_table_problems();

}  // namespace pl::opencl

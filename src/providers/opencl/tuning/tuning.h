// Tuning spaces: which values the tunables of a kernel family may take, and which of them suit a problem.
//
// A family is one kernel file and its tunables, with the values that the file documents.  For a problem it gives
// points: first those to start from (of a table of tuned values, tuned_table.h, and a default derived from the device),
// then, for the tuner, every other point that the device can run.
//
//   const Family& family() {
//     static const Family f("conv_fwd_tiled", {{"VECTOR", {4, 8, 16}}, {"TILE_PIXELS", {4, 6, 8}}});
//     return f;
//   }
//   for (const Choice& choice : family().choices(device, shapes, fallback, suits, out.whole_space)) ...
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/desc.h"
#include "providers/opencl/program/kernel_source.h"
#include "providers/opencl/runtime/opencl_device.h"
#include "providers/provider.h"

namespace pl::opencl {

struct Tunable {
  std::string name;         // the kernel's macro
  std::vector<int> values;  // as the kernel file documents them
};

// A value for each tunable of a family, in its order.
class Point {
 public:
  Point() = default;
  Point(std::initializer_list<std::pair<std::string, int>> values) : values_(values) {}
  explicit Point(std::vector<std::pair<std::string, int>> values) : values_(std::move(values)) {}

  int operator[](const std::string& name) const;  // Error(internal) for a tunable that it has not
  const std::vector<std::pair<std::string, int>>& values() const { return values_; }
  std::string text(char separator = ' ') const;  // "VECTOR=16 TILE_PIXELS=8"
  void define(KernelSource& source) const;
  friend bool operator==(const Point& a, const Point& b) { return a.values_ == b.values_; }

 private:
  std::vector<std::pair<std::string, int>> values_;
};

// Problems that share tuned values: a kind in the family's own words, and sizes of an equivalent product of matrices to
// the nearest power of two.
struct ShapeClass {
  DType dtype = DType::f32;
  std::string kind;                      // one word: "window-channels", "product", ...
  int rows = 0, columns = 0, terms = 0;  // logarithms to the base 2

  ShapeClass() = default;
  ShapeClass(DType dtype, std::string kind, int64_t rows, int64_t columns, int64_t terms);
  std::string text() const;  // "f32 window-channels rows=2^12 columns=2^6 terms=2^9"
  // How far apart two classes are, in powers of two; negative: nothing can be concluded from one for the other.
  int distance(const ShapeClass& other) const;
};

struct Choice {
  Point point;
  bool start;
};

class Family {
 public:
  Family(std::string name, std::vector<Tunable> tunables);
  const std::string& name() const { return name_; }
  const std::vector<Tunable>& tunables() const { return tunables_; }
  bool contains(const Point& point) const;

  // The points for a problem, those to start from first.  `suits`: the device can run the point and it is not plainly
  // wasteful here.  `starts` are always among them: those to start from where no table knows better.
  std::vector<Choice> choices(const OpenclDevice& device, const ShapeClass& shapes, const std::vector<Point>& starts,
                              const std::function<bool(const Point&)>& suits, bool whole_space) const;
  std::vector<Choice> choices(const OpenclDevice& device, const ShapeClass& shapes, const Point& start,
                              const std::function<bool(const Point&)>& suits, bool whole_space) const {
    return choices(device, shapes, std::vector<Point>{start}, suits, whole_space);
  }
  // Adds a candidate like `base` for each choice: names it, and lets `complete` give it its kernel (false: drop it).
  void add(const Candidate& base, const ShapeClass& shapes, const std::vector<Choice>& choices, CandidateList& out,
           const std::function<bool(Candidate&, const Point&)>& complete) const;

  // All families, in no order; they register themselves when they are first used.
  static std::vector<const Family*> all();

 private:
  std::string name_;
  std::vector<Tunable> tunables_;
};

// A family that is known from the program's start: its own file calls this at namespace scope.
#define PL_TUNING_FAMILY(function) \
  static const bool PL_JOIN(tuning_family_, __COUNTER__) = (static_cast<void>(function()), true)

}  // namespace pl::opencl

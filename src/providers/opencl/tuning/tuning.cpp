#include "providers/opencl/tuning/tuning.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>

#include "providers/building.h"
#include "providers/opencl/tuning/tuned_table.h"

namespace pl::opencl {
namespace {

std::vector<const Family*>& registry() {
  static std::vector<const Family*> families;
  return families;
}
std::mutex& registry_lock() {
  static std::mutex lock;
  return lock;
}

int logarithm(int64_t value) { return value <= 1 ? 0 : int(std::lround(std::log2(double(value)))); }

}  // namespace

int Point::operator[](const std::string& name) const {
  for (const auto& [tunable, value] : values_)
    if (tunable == name) return value;
  fail(Code::internal, "a point of a tuning space has no ", name, ": ", text());
}

std::string Point::text(char separator) const {
  std::string text;
  for (const auto& [name, value] : values_) {
    if (!text.empty()) text += separator;
    text += name + "=" + std::to_string(value);
  }
  return text;
}

void Point::define(KernelSource& source) const {
  for (const auto& [name, value] : values_) source.define(name, value);
}

ShapeClass::ShapeClass(DType dtype, std::string kind, int64_t rows, int64_t columns, int64_t terms)
    : dtype(dtype),
      kind(std::move(kind)),
      rows(logarithm(rows)),
      columns(logarithm(columns)),
      terms(logarithm(terms)) {}

std::string ShapeClass::text() const {
  return concat(name_of(dtype), " ", kind, " rows=2^", rows, " columns=2^", columns, " terms=2^", terms);
}

int ShapeClass::distance(const ShapeClass& other) const {
  if (dtype != other.dtype || kind != other.kind) return -1;
  return std::abs(rows - other.rows) + std::abs(columns - other.columns) + std::abs(terms - other.terms);
}

Family::Family(std::string name, std::vector<Tunable> tunables)
    : name_(std::move(name)), tunables_(std::move(tunables)) {
  std::lock_guard<std::mutex> guard(registry_lock());
  registry().push_back(this);
}

std::vector<const Family*> Family::all() {
  std::lock_guard<std::mutex> guard(registry_lock());
  return registry();
}

bool Family::contains(const Point& point) const {
  if (point.values().size() != tunables_.size()) return false;
  for (size_t i = 0; i < tunables_.size(); ++i) {
    const auto& [name, value] = point.values()[i];
    const std::vector<int>& allowed = tunables_[i].values;
    if (name != tunables_[i].name || std::find(allowed.begin(), allowed.end(), value) == allowed.end()) return false;
  }
  return true;
}

namespace {

// Points that kernels were prepared for in this process, of whatever device, by family: a program for sizes that were
// not seen before may take them, where what suits its sizes best would have to be compiled.
class Prepared {
 public:
  static Prepared& of_process() {
    static Prepared* prepared = new Prepared();
    return *prepared;
  }
  void add(const std::string& family, const Point& point) {
    std::lock_guard<std::mutex> guard(lock_);
    std::deque<Point>& list = points_[family];
    const auto at = std::find(list.begin(), list.end(), point);
    if (at != list.end()) return;
    list.push_front(point);
    if (list.size() > kMost) list.pop_back();
  }
  std::deque<Point> points(const std::string& family) const {
    std::lock_guard<std::mutex> guard(lock_);
    const auto at = points_.find(family);
    return at == points_.end() ? std::deque<Point>() : at->second;
  }

 private:
  static constexpr size_t kMost = 16;  // of a family: each is another candidate of every op
  mutable std::mutex lock_;
  std::map<std::string, std::deque<Point>> points_;
};

}  // namespace

std::vector<Choice> Family::choices(const OpenclDevice& device, const ShapeClass& shapes,
                                    const std::vector<Point>& starts, const std::function<bool(const Point&)>& suits,
                                    bool whole_space) const {
  std::vector<Choice> list;
  const auto known = [&](const Point& point) {
    return std::any_of(list.begin(), list.end(), [&](const Choice& choice) { return choice.point == point; });
  };
  if (const auto tuned = tuned_point(*this, device, shapes); tuned && suits(*tuned)) list.push_back({*tuned, true});
  for (const Point& start : starts)
    if (!known(start)) list.push_back({start, true});
  if (Building::wish() == Building::sparingly)
    for (const Point& point : Prepared::of_process().points(name_))
      if (!known(point) && suits(point)) list.push_back({point, true});
  if (!whole_space) return list;
  std::vector<size_t> place(tunables_.size(), 0);
  for (;;) {
    std::vector<std::pair<std::string, int>> values;
    for (size_t i = 0; i < tunables_.size(); ++i) values.emplace_back(tunables_[i].name, tunables_[i].values[place[i]]);
    const Point point(std::move(values));
    if (!known(point) && suits(point)) list.push_back({point, false});
    size_t i = 0;
    while (i < place.size() && ++place[i] == tunables_[i].values.size()) place[i++] = 0;
    if (i == place.size()) return list;
  }
}

void Family::add(const Candidate& base, const ShapeClass& shapes, const std::vector<Choice>& choices,
                 CandidateList& out, const std::function<bool(Candidate&, const Point&)>& complete) const {
  for (const Choice& choice : choices) {
    Candidate candidate = base;
    candidate.implementation = name_ + "[" + choice.point.text(',') + "]";
    candidate.tuning = {name_, shapes.text(), choice.point.text(), choice.start};
    if (!complete(candidate, choice.point)) continue;
    candidate.prepare = [prepare = std::move(candidate.prepare), family = name_, point = choice.point] {
      std::unique_ptr<Kernel> kernel = prepare();
      Prepared::of_process().add(family, point);
      return kernel;
    };
    out.add(std::move(candidate));
  }
}

}  // namespace pl::opencl

// Kinds scatter and scatter_nd: a copy of x, or x itself where the result lies there, then runs of src put to their
// places in the order of src.  Threads share what lies beside the index, so that no two write to one element.
#include <atomic>
#include <cstring>

#include "providers/host/common/host.h"
#include "providers/host/common/independent.h"
#include "providers/host/common/indices.h"
#include "providers/host/common/simd.h"

namespace pl::host {
namespace {

enum class Reduce { none, sum, prod, amax, amin };

Reduce reduce_of(const Op& op) {
  const std::string& text = op.attributes[attr::reduce];
  return text == "sum"    ? Reduce::sum
         : text == "prod" ? Reduce::prod
         : text == "amax" ? Reduce::amax
         : text == "amin" ? Reduce::amin
                          : Reduce::none;
}

// NaN stays, as NumPy has it.
template <class C>
PL_INLINE C joined(Reduce reduce, C there, C added) {
  switch (reduce) {
    case Reduce::sum:
      if constexpr (std::is_integral_v<C>)
        return C(uint64_t(there) + uint64_t(added));
      else
        return there + added;
    case Reduce::prod:
      if constexpr (std::is_integral_v<C>)
        return C(uint64_t(there) * uint64_t(added));
      else
        return there * added;
    case Reduce::amax: return there != there || there > added ? there : added;
    case Reduce::amin: return there != there || there < added ? there : added;
    default: return added;
  }
}

template <Reduce kReduce>
PL_VECTORISED void join_floats(const float* from, int64_t n, float* to) {
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) to[i] = joined(kReduce, to[i], from[i]);
}

// As Putter, of f32 that are joined.
template <Reduce kReduce>
struct FloatPutter {
  PL_INLINE void operator()(char* to, const char* from, int64_t n) const {
    float* target = reinterpret_cast<float*>(to);
    const float* source = reinterpret_cast<const float*>(from);
    if (n != 1) return join_floats<kReduce>(source, n, target);
    *target = joined(kReduce, *target, *source);
  }
};

// Puts n neighbouring elements of one tensor to n of another.
struct Putter {
  Reduce reduce;
  DType dtype;

  // Calls f with what puts as this one does.
  template <class F>
  void with_fastest(const F& f) const {
    if (dtype != DType::f32) return f(*this);
    switch (reduce) {
      case Reduce::sum: return f(FloatPutter<Reduce::sum>());
      case Reduce::prod: return f(FloatPutter<Reduce::prod>());
      case Reduce::amax: return f(FloatPutter<Reduce::amax>());
      case Reduce::amin: return f(FloatPutter<Reduce::amin>());
      default: return f(*this);
    }
  }

  void operator()(char* to, const char* from, int64_t n) const {
    const size_t bytes = size_of(dtype);
    if (reduce == Reduce::none) {
      if (n == 1 && bytes == 4)
        std::memcpy(to, from, 4);
      else
        std::memcpy(to, from, size_t(n) * bytes);
      return;
    }
    visit_dtype(dtype, [&](auto type) {
      using T = typename decltype(type)::type;
      using C = std::conditional_t<is_float_storage<T>, float, int64_t>;
      for (int64_t i = 0; i < n; ++i) {
        T there, added;
        std::memcpy(&there, to + size_t(i) * sizeof(T), sizeof(T));
        std::memcpy(&added, from + size_t(i) * sizeof(T), sizeof(T));
        const C result = joined<C>(reduce, C(value_of(there)), C(value_of(added)));
        T stored;
        if constexpr (std::is_same_v<T, Boolean>)
          stored = {uint8_t(result != 0)};
        else if constexpr (std::is_integral_v<T>)
          stored = T(result);  // integers wrap around
        else
          stored = from_value<T>(result);
        std::memcpy(to + size_t(i) * sizeof(T), &stored, sizeof(T));
      }
    });
  }
};

void copy(const void* from, void* to, int64_t bytes) {
  if (from == to) return;
  constexpr int64_t kPiece = 1 << 16;
  parallel_for((bytes + kPiece - 1) / kPiece, 0.05 * kPiece, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kPiece;
    std::memcpy(static_cast<char*>(to) + first, static_cast<const char*>(from) + first,
                size_t(std::min(end * kPiece, bytes) - first));
  });
}

// index: (outer, count, inner) elements, each for a run of neighbouring elements of src: those behind the last
// dimension in which the index has more than one, if src spans x there.
struct ScatterBody {
  Putter put;
  int64_t x_bytes, size, count, run;  // x.shape[dim], src.shape[dim], elements of a run
  struct Line {                       // dimensions beside dim, outermost first
    int64_t size, x_step, src_step, index_step;
  };
  std::vector<Line> lines;
  int64_t x_step, src_step, index_step, indices;  // steps along dim; how many indices there are
  bool own_rows;  // each line is a row of x, has all of its elements side by side, and indices of its own
  DType index_dtype;
  LoadRun<int64_t> load;

  struct Place {
    int64_t x, src, index;
  };
  Place place_of_line(int64_t line) const {
    Place at{0, 0, 0};
    for (size_t d = lines.size(); d-- > 0;) {
      const int64_t i = line % lines[d].size;
      line /= lines[d].size;
      at.x += i * lines[d].x_step;
      at.src += i * lines[d].src_step;
      at.index += i * lines[d].index_step;
    }
    return at;
  }

  // n elements of each run of a line, from `first` on.
  template <class Put>
  void put_line(const Place& at, const int64_t* index, int64_t step, char* to, const char* src, int64_t first,
                int64_t n, const Put& put_run) const {
    const auto bytes = int64_t(size_of(put.dtype));
    for (int64_t j = 0; j < count; ++j)
      put_run(to + (at.x + index[j * step] * x_step + first) * bytes, src + (at.src + j * src_step + first) * bytes, n);
  }

  // n lines that lie side by side, of one element each, step by step of all of them.
  template <class Put>
  void put_lines(const Place& at, const int64_t* index, char* to, const char* src, int64_t n,
                 const Put& put_one) const {
    const auto bytes = int64_t(size_of(put.dtype));
    for (int64_t j = 0; j < count; ++j) {
      const int64_t* places = index + at.index + j * index_step;
      const char* from = src + (at.src + j * src_step) * bytes;
      for (int64_t k = 0; k < n; ++k) put_one(to + (at.x + k + places[k] * x_step) * bytes, from + k * bytes, 1);
    }
  }

  // A row's elements put, in one pass over its indices; false where one is out of range.
  template <class Put>
  PL_INLINE bool put_row(const int64_t* index, int64_t bytes, const char* src, char* to, const Put& put_one) const {
    bool right = true;
    for (int64_t j = 0; j < count; ++j) {
      const int64_t place = index[j] + (index[j] < 0 ? size : 0);
      if (uint64_t(place) < uint64_t(size))
        put_one(to + place * bytes, src + j * bytes, 1);
      else
        right = false;
    }
    return right;
  }

  // Rows are copied, their indices read and their elements put by the same thread, one after the other.
  void put_rows(const KernelArguments& arguments, int64_t rows) const {
    const char* from = static_cast<const char*>(input(arguments, 0));
    const char* src = static_cast<const char*>(input(arguments, 2));
    char* to = static_cast<char*>(output(arguments));
    const void* given = input(arguments, 1);
    const auto bytes = int64_t(size_of(put.dtype));
    if (from == to) checked_indices("scatter", load, given, indices, size);  // before anything is overwritten
    std::atomic<bool> right{true};
    parallel_for(rows, 1.5 * double(count) + 0.1 * double(size), [&](int64_t begin, int64_t end) {
      std::vector<int64_t> loaded(size_t(index_dtype == DType::s64 ? 0 : count));
      for (int64_t i = begin; i < end; ++i) {
        const Place at = place_of_line(i);
        char* row = to + at.x * bytes;
        if (from != to) std::memcpy(row, from + at.x * bytes, size_t(size * bytes));
        const int64_t* index = static_cast<const int64_t*>(given) + at.index;
        if (!loaded.empty()) {
          load(given, at.index, 1, count, loaded.data());
          index = loaded.data();
        }
        const char* own = src + at.src * bytes;
        put.with_fastest([&](const auto& put_one) {
          if (!put_row(index, bytes, own, row, put_one)) right = false;
        });
      }
    });
    if (!right) checked_indices("scatter", load, given, indices, size);  // names the first one that is wrong
  }

  void operator()(const KernelArguments& arguments) const {
    int64_t all = 1;
    for (const Line& line : lines) all *= line.size;
    if (own_rows && all > 1) return put_rows(arguments, all);
    char* to = static_cast<char*>(output(arguments));
    copy(input(arguments, 0), to, x_bytes);
    if (all == 0) return;  // nothing is put
    const std::vector<int64_t> index = checked_indices("scatter", load, input(arguments, 1), indices, size);
    const char* src = static_cast<const char*>(input(arguments, 2));
    const bool beside = run == 1 && !lines.empty() && lines.back().x_step == 1 && lines.back().src_step == 1 &&
                        lines.back().index_step == 1;
    const auto lines_beside = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin, n; i < end; i += n) {
        n = std::min(end - i, lines.back().size - i % lines.back().size);
        put.with_fastest([&](const auto& put_one) { put_lines(place_of_line(i), index.data(), to, src, n, put_one); });
      }
    };
    const auto each_line = [&](int64_t begin, int64_t end, int64_t first, int64_t n) {
      for (int64_t i = begin; i < end; ++i) {
        const Place at = place_of_line(i);
        put.with_fastest([&](const auto& put_run) {
          put_line(at, index.data() + at.index, index_step, to, src, first, n, put_run);
        });
      }
    };
    const double work = double(count) * (3.0 + 0.2 * double(run));
    if (beside) return parallel_for(all, work, lines_beside);
    if (all > 1 || run < 64) return parallel_for(all, work, [&](int64_t a, int64_t b) { each_line(a, b, 0, run); });
    parallel_for(run / 32, work / (double(run) / 32), [&](int64_t a, int64_t b) {
      const int64_t first = a * 32;
      each_line(0, 1, first, (b == run / 32 ? run : b * 32) - first);
    });
  }
};

void list_scatter(const Op& op, CandidateList& out) {
  const TensorDesc x = dense_plain(op.in(0)), index = dense_plain(op.in(1)), src = dense_plain(op.in(2)),
                   y = dense_plain(op.out());
  const int dim = int(op.attributes[attr::dim]), rank = x.rank();
  ScatterBody body{{reduce_of(op), x.dtype},
                   x.elements() * int64_t(size_of(x.dtype)),
                   x.shape[dim],
                   src.shape[dim],
                   1,
                   {},
                   1,
                   1,
                   1,
                   index.elements(),
                   dim == rank - 1 && index.elements() > 0,
                   index.dtype,
                   integer_loader(index.dtype)};
  int64_t x_step = 1, src_step = 1, index_step = 1;
  bool running = true;  // src and x lie alike from here on
  for (int d = rank - 1; d >= 0; --d) {
    if (d == dim) {
      body.x_step = x_step;
      body.src_step = src_step;
      body.index_step = index_step;
      running = false;
    } else {
      body.own_rows = body.own_rows && index.shape[d] == src.shape[d] && src.shape[d] == x.shape[d];
      running = running && index.shape[d] == 1 && src.shape[d] == x.shape[d];
      if (running)
        body.run *= x.shape[d];
      else
        body.lines.insert(body.lines.begin(), {src.shape[d], x_step, src_step, index.shape[d] == 1 ? 0 : index_step});
    }
    x_step *= x.shape[d];
    src_step *= src.shape[d];
    index_step *= index.shape[d];
  }
  add_candidate(out, "scatter", Quality::fast, {x, index, src}, {y}, [body] { return body; });
  out.candidates.back().in_place = 1;
}
PL_HOST_KIND("scatter", list_scatter);

struct ScatterNdBody {
  Putter put;
  int64_t x_bytes, count, run;
  std::vector<int64_t> sizes, steps;  // of the indexed dimensions of x, in elements
  LoadRun<int64_t> load;

  void operator()(const KernelArguments& arguments) const {
    char* to = static_cast<char*>(output(arguments));
    copy(input(arguments, 0), to, x_bytes);
    const auto depth = int64_t(sizes.size());
    const std::vector<int64_t> places = read_places(input(arguments, 1), depth);
    const char* src = static_cast<const char*>(input(arguments, 2));
    const auto bytes = int64_t(size_of(put.dtype));
    const auto part = [&](int64_t first, int64_t n) {
      put.with_fastest([&](const auto& put_run) {
        for (int64_t i = 0; i < count; ++i)
          put_run(to + (places[size_t(i)] + first) * bytes, src + (i * run + first) * bytes, n);
      });
    };
    if (run < 64) return part(0, run);
    parallel_for(run / 32, double(count) * 8,
                 [&](int64_t a, int64_t b) { part(a * 32, (b == run / 32 ? run : b * 32) - a * 32); });
  }

 private:
  // Of each slice, in elements.
  std::vector<int64_t> read_places(const void* data, int64_t depth) const {
    std::vector<int64_t> index(size_t(count * depth)), places(size_t(count), 0);
    if (!index.empty()) load(data, 0, 1, count * depth, index.data());
    for (int64_t i = 0; i < count; ++i)
      for (int64_t d = 0; d < depth; ++d) {
        const int64_t each = index[size_t(i * depth + d)], size = sizes[size_t(d)];
        require(each >= -size && each < size, Code::invalid_argument, "scatter_nd: index holds ", each, ", expected ",
                -size, " to ", size - 1);
        places[size_t(i)] += (each < 0 ? each + size : each) * steps[size_t(d)];
      }
    return places;
  }
};

void list_nd(const Op& op, CandidateList& out) {
  const TensorDesc x = dense_plain(op.in(0)), index = dense_plain(op.in(1)), src = dense_plain(op.in(2)),
                   y = dense_plain(op.out());
  const auto depth = int(index.shape[index.rank() - 1]);
  ScatterNdBody body{{reduce_of(op), x.dtype},   x.elements() * int64_t(size_of(x.dtype)), 1, 1, {}, {},
                     integer_loader(index.dtype)};
  for (int d = 0; d + 1 < index.rank(); ++d) body.count *= index.shape[d];
  for (int d = depth; d < x.rank(); ++d) body.run *= x.shape[d];
  int64_t step = body.run;
  body.sizes.resize(size_t(depth));
  body.steps.resize(size_t(depth));
  for (int d = depth; d-- > 0;) {
    body.sizes[size_t(d)] = x.shape[d];
    body.steps[size_t(d)] = step;
    step *= x.shape[d];
  }
  if (body.run == 0) body.count = 0;
  add_candidate(out, "scatter_nd", Quality::fast, {x, index, src}, {y}, [body] { return body; });
  out.candidates.back().in_place = 1;
}
PL_HOST_KIND("scatter_nd", list_nd);

}  // namespace
}  // namespace pl::host

// Kinds scatter and scatter_nd: a copy of x, or x itself where the result lies there, then runs of src put to their
// places in the order of src.  Threads share what lies beside the index, so that no two write to one element.
#include <atomic>
#include <cstring>

#include "providers/host/common/add_run.h"
#include "providers/host/common/host.h"
#include "providers/host/common/independent.h"

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
C joined(Reduce reduce, C there, C added) {
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

// Puts n neighbouring elements of one tensor to n of another.
struct Putter {
  Reduce reduce;
  DType dtype;

  bool adds_floats() const { return reduce == Reduce::sum && dtype == DType::f32; }

  void operator()(char* to, const char* from, int64_t n) const {
    const size_t bytes = size_of(dtype);
    if (reduce == Reduce::none) {
      if (n == 1 && bytes == 4)
        std::memcpy(to, from, 4);
      else
        std::memcpy(to, from, size_t(n) * bytes);
      return;
    }
    if (adds_floats()) return add_run(reinterpret_cast<const float*>(from), n, reinterpret_cast<float*>(to));
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

std::vector<int64_t> indices_of(const LoadRun<int64_t> load, const void* data, int64_t count) {
  std::vector<int64_t> indices(static_cast<size_t>(count));
  if (count) load(data, 0, 1, count, indices.data());
  return indices;
}

int64_t place_of(const char* op, int64_t index, int64_t size) {
  require(index >= -size && index < size, Code::invalid_argument, op, ": index holds ", index, ", expected ", -size,
          " to ", size - 1);
  return index < 0 ? index + size : index;
}

struct AddOne {
  void operator()(char* to, const char* from, int64_t) const {
    *reinterpret_cast<float*>(to) += *reinterpret_cast<const float*>(from);
  }
};

// Counts from the end where an index is negative; false if one lies beside the dimension.
PL_VECTORISED bool count_from_start(int64_t* index, int64_t n, int64_t size) {
  int64_t beside = 0;
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    index[i] += index[i] < 0 ? size : 0;
    beside |= (index[i] < 0) | (index[i] >= size);
  }
  return beside == 0;
}

std::vector<int64_t> places_of(const char* op, std::vector<int64_t> index, int64_t size) {
  constexpr int64_t kPiece = 1 << 14;
  const auto all = int64_t(index.size());
  std::atomic<bool> right{true};
  parallel_for((all + kPiece - 1) / kPiece, 0.5 * kPiece, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kPiece;
    if (!count_from_start(index.data() + first, std::min(end * kPiece, all) - first, size)) right = false;
  });
  if (!right)
    for (int64_t i : index) place_of(op, i < 0 ? i - size : i, size);  // refuses the first one
  return index;
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
  LoadRun<int64_t> load;

  void operator()(const KernelArguments& arguments) const {
    char* to = static_cast<char*>(output(arguments));
    copy(input(arguments, 0), to, x_bytes);
    const std::vector<int64_t> index = places_of("scatter", indices_of(load, input(arguments, 1), indices), size);
    const char* src = static_cast<const char*>(input(arguments, 2));
    const auto bytes = int64_t(size_of(put.dtype));
    int64_t all = 1;
    for (const Line& line : lines) all *= line.size;
    const auto each_line_by = [&](int64_t begin, int64_t end, int64_t first, int64_t n, auto put_run) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t rest = i, x_at = 0, src_at = 0, index_at = 0;
        for (size_t d = lines.size(); d-- > 0;) {
          const int64_t at = rest % lines[d].size;
          rest /= lines[d].size;
          x_at += at * lines[d].x_step;
          src_at += at * lines[d].src_step;
          index_at += at * lines[d].index_step;
        }
        for (int64_t j = 0; j < count; ++j) {
          const int64_t place = index[size_t(index_at + j * index_step)];
          put_run(to + (x_at + place * x_step + first) * bytes, src + (src_at + j * src_step + first) * bytes, n);
        }
      }
    };
    const auto each_line = [&](int64_t begin, int64_t end, int64_t first, int64_t n) {
      if (n == 1 && put.adds_floats())
        each_line_by(begin, end, first, n, AddOne());
      else
        each_line_by(begin, end, first, n, put);
    };
    const double work = double(count) * (3.0 + 0.2 * double(run));
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
    const std::vector<int64_t> index = indices_of(load, input(arguments, 1), count * depth);
    std::vector<int64_t> places(size_t(count), 0);
    for (int64_t i = 0; i < count; ++i)
      for (int64_t d = 0; d < depth; ++d)
        places[size_t(i)] += place_of("scatter_nd", index[size_t(i * depth + d)], sizes[size_t(d)]) * steps[size_t(d)];
    const char* src = static_cast<const char*>(input(arguments, 2));
    const auto bytes = int64_t(size_of(put.dtype));
    const auto part = [&](int64_t first, int64_t n) {
      for (int64_t i = 0; i < count; ++i)
        put(to + (places[size_t(i)] + first) * bytes, src + (i * run + first) * bytes, n);
    };
    if (run < 64) return part(0, run);
    parallel_for(run / 32, double(count) * 8,
                 [&](int64_t a, int64_t b) { part(a * 32, (b == run / 32 ? run : b * 32) - a * 32); });
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

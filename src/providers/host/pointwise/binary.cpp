// Kind binary: out = f(x, y) and post-ops, element by element, with NumPy broadcasting.
#include "providers/host/common/host.h"
#include "providers/host/movement/periodic.h"
#include "providers/host/pointwise/functions.h"
#include "providers/host/pointwise/narrow_binary.h"

namespace pl::host {
namespace {

constexpr double kBinaryNanoseconds = 0.3;  // work of one element on one core

template <class T>
struct BinaryBody {
  BinaryRun<T> function;
  AppliedPostOps post_ops;
  bool direct;  // x, y and out hold T itself
  LoadRun<T> load;
  StoreRun<T> store;
  struct Part {
    Nest nest;  // over out, x, y
    int64_t period = 0;
    int repeated = 0;  // the operand that repeats with that period
  };
  std::vector<Part> parts;
  PaddingZeroer zeroer;

  void set(std::vector<Nest> nests) {
    for (Nest& nest : nests) {
      Part part;
      for (int operand : {2, 1}) {
        PeriodicNest periodic(nest, operand);
        if (!periodic.period) continue;
        part = {std::move(periodic.nest), periodic.period, operand};
        break;
      }
      if (!part.period) part.nest = std::move(nest);
      parts.push_back(std::move(part));
    }
  }

  // Runs of whole periods: everything but the repeated operand is contiguous.
  void run_periodic(const Part& part, const void* const* inputs, void* out, const int64_t* offsets,
                    int64_t periods) const {
    const int64_t total = periods * part.period, chunk = kChunk / part.period * part.period;
    const int whole = 3 - part.repeated;
    T repeated[kChunk], values[kChunk];
    load(inputs[part.repeated], offsets[part.repeated], 1, part.period, repeated);
    repeat(repeated, part.period, std::min(total, chunk));
    for (int64_t i = 0; i < total; i += chunk) {
      const int64_t count = std::min(chunk, total - i);
      const T* from = static_cast<const T*>(inputs[whole]) + offsets[whole] + i;
      T* to = static_cast<T*>(out) + offsets[0] + i;
      if (!direct) {
        load(inputs[whole], offsets[whole] + i, 1, count, values);
        from = to = values;
      }
      if (part.repeated == 2)
        function(from, 1, repeated, 1, to, count);
      else
        function(repeated, 1, from, 1, to, count);
      post_ops.apply(to, count);
      if (!direct) store(values, count, out, offsets[0] + i, 1);
    }
  }

  void operator()(const KernelArguments& arguments) const {
    const void* inputs[3] = {nullptr, input(arguments, 0), input(arguments, 1)};
    void* out = output(arguments);
    for (const Part& part : parts) {
      if (part.period) {
        for_each_run(part.nest, kBinaryNanoseconds * double(part.period),
                     [&](const int64_t* offsets, int64_t n) { run_periodic(part, inputs, out, offsets, n); });
        continue;
      }
      const Loop& run = part.nest.run();
      const int64_t so = run.stride[0], sx = run.stride[1], sy = run.stride[2];
      const bool in_place = direct && so == 1 && (sx == 0 || sx == 1) && (sy == 0 || sy == 1);
      for_each_run(part.nest, kBinaryNanoseconds, [&](const int64_t* offsets, int64_t n) {
        if (in_place) {
          T* result = static_cast<T*>(out) + offsets[0];
          function(static_cast<const T*>(inputs[1]) + offsets[1], sx, static_cast<const T*>(inputs[2]) + offsets[2], sy,
                   result, n);
          post_ops.apply(result, n);
          return;
        }
        T a[kChunk], b[kChunk];
        for (int64_t i = 0; i < n; i += kChunk) {
          const int64_t count = std::min(kChunk, n - i);
          load(inputs[1], offsets[1] + i * sx, sx, sx ? count : 1, a);
          load(inputs[2], offsets[2] + i * sy, sy, sy ? count : 1, b);
          function(a, sx != 0, b, sy != 0, a, count);
          post_ops.apply(a, count);
          store(a, count, out, offsets[0] + i * so, so);
        }
      });
    }
    zeroer.run(out);
  }
};

// All three of the same narrow dtype, without post-ops.
struct NarrowBinaryBody {
  NarrowRun function;
  int64_t bytes;
  std::vector<Nest> nests;  // over out, x, y
  PaddingZeroer zeroer;

  void operator()(const KernelArguments& arguments) const {
    const char *x = static_cast<const char*>(input(arguments, 0)), *y = static_cast<const char*>(input(arguments, 1));
    char* out = static_cast<char*>(output(arguments));
    for (const Nest& nest : nests) {
      const Loop& run = nest.run();
      const int64_t so = run.stride[0], sx = run.stride[1], sy = run.stride[2];
      const bool side_by_side = so == 1 && (sx == 0 || sx == 1) && (sy == 0 || sy == 1);
      for_each_run(nest, side_by_side ? 0.02 : 1.0, [&](const int64_t* offsets, int64_t n) {
        char* to = out + offsets[0] * bytes;
        const char *a = x + offsets[1] * bytes, *b = y + offsets[2] * bytes;
        if (side_by_side) return function(a, sx, b, sy, to, n);
        for (int64_t i = 0; i < n; ++i) function(a + i * sx * bytes, 0, b + i * sy * bytes, 0, to + i * so * bytes, 1);
      });
    }
    zeroer.run(out);
  }
};

// A candidate for each layout; make(result, x, y) gives its body.
template <class Make>
void add_per_layout(const Op& op, CandidateList& out, const Make& make) {
  for (const Layout& layout : layouts_to_try(op, op.out())) {
    const TensorDesc result = strided_view_as(op.out(), layout);
    // An operand that is broadcast is small as a rule: it is read as it lies.
    const auto as_wanted = [&](const TensorDesc& operand) {
      return operand.shape == result.shape ? any_strided_view_as(operand, layout) : dense(operand);
    };
    const TensorDesc x = as_wanted(op.in(0)), y = as_wanted(op.in(1));
    const auto nests = [=] {
      const int rank = result.rank();
      return with_long_runs(
          make_nests(result.shape, {{result, {}}, {with_rank(x, rank), {}}, {with_rank(y, rank), {}}}));
    };
    add_candidate(out, "binary", Quality::fast, {x, y}, {result}, [=] { return make(result, nests()); });
    out.candidates.back().in_place = 3;
  }
}

template <class T>
void add_binary(const Op& op, CandidateList& out, BinaryRun<T> function, bool direct, LoadRun<T> load,
                StoreRun<T> store) {
  add_per_layout(op, out, [=, post_ops = AppliedPostOps(op)](const TensorDesc& result, std::vector<Nest> nests) {
    BinaryBody<T> body{function, post_ops, direct, load, store, {}, PaddingZeroer(result)};
    body.set(std::move(nests));
    return body;
  });
}

void add_narrow_binary(const Op& op, CandidateList& out, NarrowRun function) {
  const auto bytes = int64_t(size_of(op.out().dtype));
  add_per_layout(op, out, [=](const TensorDesc& result, std::vector<Nest> nests) {
    return NarrowBinaryBody{function, bytes, std::move(nests), PaddingZeroer(result)};
  });
}

void list_binary(const Op& op, CandidateList& out) {
  const std::string& name = op.attributes[attr::function];
  const DType from = op.in(0).dtype, to = op.out().dtype;
  if (is_floating(from)) {
    if (const auto function = find_float_binary(name))
      return add_binary(op, out, function, from == DType::f32 && to == DType::f32, float_loader(from),
                        float_storer(to));
  } else if (const NarrowRun narrow = post_ops_of(op).empty() && op.in(1).dtype == from && to == from
                                          ? find_narrow_binary(name, from)
                                          : nullptr) {
    return add_narrow_binary(op, out, narrow);
  } else if (const auto function = find_integer_binary(name)) {
    return add_binary(op, out, function, from == DType::s64 && to == DType::s64, integer_loader(from),
                      integer_storer(to));
  }
  out.refuse("host", concat("binary: ", name, " is not defined on ", name_of(from)));
}
PL_HOST_KIND("binary", list_binary);

}  // namespace
}  // namespace pl::host

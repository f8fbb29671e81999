// Kinds unary and cast: y = f(x), element by element; as they lie in memory unless one is a strided view.
#include "providers/host/common/host.h"
#include "providers/host/pointwise/functions.h"
#include "providers/host/pointwise/native_unary.h"

namespace pl::host {
namespace {

// Work of one element on one core, for the decision to use more cores; within a factor of three for all functions.
constexpr double kUnaryNanoseconds = 0.3;

template <class T>
struct UnaryBody {
  UnaryRun<T> function;
  double alpha, beta;
  DType from, to;
  int64_t count;            // padding included
  std::vector<Nest> nests;  // over y and x, where one is a strided view; else none, and elements are taken as they lie
  LoadRun<T> load;
  StoreRun<T> store;
  PaddingZeroer zeroer;

  void run_strided(const void* x, void* y) const {
    for (const Nest& nest : nests) {
      const int64_t to_step = nest.run().stride[0], from_step = nest.run().stride[1];
      for_each_run(nest, kUnaryNanoseconds, [&](const int64_t* offsets, int64_t size) {
        T buffer[kChunk];
        for (int64_t i = 0; i < size; i += kChunk) {
          const int64_t n = std::min(kChunk, size - i);
          load(x, offsets[1] + i * from_step, from_step, n, buffer);
          function(buffer, buffer, n, alpha, beta);
          store(buffer, n, y, offsets[0] + i * to_step, to_step);
        }
      });
    }
  }

  void operator()(const KernelArguments& arguments) const {
    const void* x = input(arguments, 0);
    void* y = output(arguments);
    if (!nests.empty()) {
      run_strided(x, y);
    } else if (std::is_same_v<T, float> && from == DType::f32 && to == DType::f32) {
      parallel_for(count, kUnaryNanoseconds, [&](int64_t begin, int64_t end) {
        function(static_cast<const T*>(x) + begin, static_cast<T*>(y) + begin, end - begin, alpha, beta);
      });
    } else {
      parallel_for(count, kUnaryNanoseconds, [&](int64_t begin, int64_t end) {
        T buffer[kChunk];
        for (int64_t i = begin; i < end; i += kChunk) {
          const int64_t n = std::min(kChunk, end - i);
          load(x, i, 1, n, buffer);
          function(buffer, buffer, n, alpha, beta);
          store(buffer, n, y, i, 1);
        }
      });
    }
    zeroer.run(y);
  }
};

struct NativeBody {
  NativeRun function;
  double alpha, beta;
  size_t from_bytes, to_bytes;
  int64_t count;  // padding included
  PaddingZeroer zeroer;

  void operator()(const KernelArguments& arguments) const {
    const void* x = input(arguments, 0);
    void* y = output(arguments);
    parallel_for(count, kUnaryNanoseconds, [&](int64_t begin, int64_t end) {
      function(at(x, begin, from_bytes), at(y, begin, to_bytes), end - begin, alpha, beta);
    });
    zeroer.run(y);
  }
};

// `native`: what does the same on elements as they lie; may be null.
template <class T>
void add_unary(const Op& op, CandidateList& out, UnaryRun<T> function, LoadRun<T> load, StoreRun<T> store, double alpha,
               double beta, NativeRun native = nullptr) {
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    const TensorDesc x = any_strided_view_as(op.in(0), layout), y = strided_view_as(op.out(), layout);
    const bool dense_both = x.is_dense() && y.is_dense();
    const size_t from_bytes = size_of(x.dtype), to_bytes = size_of(y.dtype);
    if (native && dense_both) {
      add_candidate(out, op.schema->kind, Quality::fast, {x}, {y}, [=] {
        return NativeBody{native,          alpha, beta, from_bytes, to_bytes, x.elements() ? x.padded_elements() : 0,
                          PaddingZeroer(y)};
      });
      if (from_bytes == to_bytes) out.candidates.back().in_place = 1;
      continue;
    }
    add_candidate(out, op.schema->kind, Quality::fast, {x}, {y}, [=] {
      std::vector<Nest> nests;
      if (!dense_both) nests = with_long_runs(make_nests(x.shape, {{y, {}}, {x, {}}}));
      return UnaryBody<T>{function, alpha, beta,  x.dtype,         y.dtype, x.elements() ? x.padded_elements() : 0,
                          nests,    load,  store, PaddingZeroer(y)};
    });
    if (dense_both) out.candidates.back().in_place = 1;
  }
}

void add_named(const Op& op, CandidateList& out, const std::string& name, double alpha, double beta) {
  const DType from = op.in(0).dtype, to = op.out().dtype;
  if (is_floating(from)) {
    if (const auto function = find_float_unary(name))
      return add_unary(op, out, function, float_loader(from), float_storer(to), alpha, beta);
  } else if (const auto function = find_integer_unary(name)) {
    return add_unary(op, out, function, integer_loader(from), integer_storer(to), alpha, beta,
                     find_native_unary(name, from, to, alpha, beta));
  }
  out.refuse("host", concat(op.schema->kind, ": ", name, " is not defined on ", name_of(from)));
}

void list_unary(const Op& op, CandidateList& out) {
  add_named(op, out, op.attributes[attr::function], op.attributes[attr::alpha], op.attributes[attr::beta]);
}
PL_HOST_KIND("unary", list_unary);

struct CastBody {
  ConvertRun convert;
  int64_t count;            // padding included
  std::vector<Nest> nests;  // as UnaryBody's
  PaddingZeroer zeroer;

  void operator()(const KernelArguments& arguments) const {
    const void* x = input(arguments, 0);
    void* y = output(arguments);
    for (const Nest& nest : nests) {
      const int64_t to_step = nest.run().stride[0], from_step = nest.run().stride[1];
      for_each_run(nest, kUnaryNanoseconds, [&](const int64_t* offsets, int64_t n) {
        convert(x, offsets[1], from_step, y, offsets[0], to_step, n);
      });
    }
    if (nests.empty())
      parallel_for(count, kUnaryNanoseconds,
                   [&](int64_t begin, int64_t end) { convert(x, begin, 1, y, begin, 1, end - begin); });
    zeroer.run(y);
  }
};

void list_cast(const Op& op, CandidateList& out) {
  const auto caster_of = op.attributes[attr::limited] ? caster : unlimited_caster;
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    const TensorDesc x = any_strided_view_as(op.in(0), layout), y = strided_view_as(op.out(), layout);
    const bool dense_both = x.is_dense() && y.is_dense();
    add_candidate(out, op.schema->kind, Quality::fast, {x}, {y}, [=] {
      std::vector<Nest> nests;
      if (!dense_both) nests = with_long_runs(make_nests(x.shape, {{y, {}}, {x, {}}}));
      return CastBody{caster_of(x.dtype, y.dtype), x.elements() ? x.padded_elements() : 0, nests, PaddingZeroer(y)};
    });
  }
}
PL_HOST_KIND("cast", list_cast);

}  // namespace
}  // namespace pl::host

// Kind binary: out = activation(f(x, y)), element by element, with NumPy broadcasting.
#include "providers/host/functions.h"
#include "providers/host/host.h"

namespace pl::host {
namespace {

constexpr double kNanoseconds = 0.3;  // work of one element on one core

template <class T>
struct BinaryBody {
  BinaryRun<T> function;
  Activation activation;
  bool direct;  // x, y and out hold T itself
  LoadRun<T> load;
  StoreRun<T> store;
  std::vector<Nest> nests;  // over out, x, y
  PaddingZeroer zeroer;

  void operator()(const KernelArguments& arguments) const {
    const void* x = input(arguments, 0);
    const void* y = input(arguments, 1);
    void* out = output(arguments);
    for (const Nest& nest : nests) {
      const Loop& run = nest.run();
      const int64_t so = run.stride[0], sx = run.stride[1], sy = run.stride[2];
      const bool in_place = direct && so == 1 && (sx == 0 || sx == 1) && (sy == 0 || sy == 1);
      for_each_run(nest, kNanoseconds, [&](const int64_t* offsets, int64_t n) {
        if (in_place) {
          T* result = static_cast<T*>(out) + offsets[0];
          function(static_cast<const T*>(x) + offsets[1], sx, static_cast<const T*>(y) + offsets[2], sy, result, n);
          if (activation) activation.apply(result, n);
          return;
        }
        T a[kChunk], b[kChunk];
        for (int64_t i = 0; i < n; i += kChunk) {
          const int64_t count = std::min(kChunk, n - i);
          load(x, offsets[1] + i * sx, sx, sx ? count : 1, a);
          load(y, offsets[2] + i * sy, sy, sy ? count : 1, b);
          function(a, sx != 0, b, sy != 0, a, count);
          activation.apply(a, count);
          store(a, count, out, offsets[0] + i * so, so);
        }
      });
    }
    zeroer.run(out);
  }
};

template <class T>
void add(const Op& op, CandidateList& out, BinaryRun<T> function, bool direct, LoadRun<T> load, StoreRun<T> store) {
  for (const Layout& layout : layouts_to_try(op, op.out())) {
    const TensorDesc result = op.out().with_layout(layout);
    // An operand that is broadcast is small as a rule: it is read as it lies.
    const auto as_wanted = [&](const TensorDesc& operand) {
      return operand.shape == result.shape ? operand.with_layout(layout) : dense(operand);
    };
    const TensorDesc x = as_wanted(op.in(0)), y = as_wanted(op.in(1));
    add_candidate(out, "binary", Quality::fast, {x, y}, {result}, [=, activation = Activation::of(op)] {
      const int rank = result.rank();
      return BinaryBody<T>{function,
                           activation,
                           direct,
                           load,
                           store,
                           make_nests(result.shape, {{result, {}}, {with_rank(x, rank), {}}, {with_rank(y, rank), {}}}),
                           PaddingZeroer(result)};
    });
  }
}

void list(const Op& op, CandidateList& out) {
  const std::string& name = op.attributes.text("function");
  const DType from = op.in(0).dtype, to = op.out().dtype;
  if (is_floating(from)) {
    if (const auto function = find_float_binary(name))
      return add(op, out, function, from == DType::f32 && to == DType::f32, float_loader(from), float_storer(to));
  } else if (const auto function = find_integer_binary(name)) {
    return add(op, out, function, from == DType::s64 && to == DType::s64, integer_loader(from), integer_storer(to));
  }
  out.refuse("host", concat("binary: ", name, " is not defined on ", name_of(from)));
}
PL_HOST_KIND("binary", list);

}  // namespace
}  // namespace pl::host

// Kind where: out = condition ? x : y, with NumPy broadcasting.  Elements are only moved, so dtypes count by size.
#include "providers/host/common/host.h"
#include "providers/host/common/independent.h"

namespace pl::host {
namespace {

constexpr double kWhereNanoseconds = 0.4;  // work of one element on one core

// Steps of x and y are 0 or 1.  Both are read, so that the choice is a blend.
template <class T, int kX, int kY>
PL_VECTORISED void select_run(const uint8_t* condition, const T* x, const T* y, T* out, int64_t n) {
  PL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const T chosen = x[i * kX], other = y[i * kY];
    out[i] = condition[i] ? chosen : other;
  }
}

template <class T>
using SelectRun = void (*)(const uint8_t* condition, const T* x, const T* y, T* out, int64_t n);

// Null for other steps, of out, condition, x and y.
template <class T>
SelectRun<T> select_run_of(const int64_t* stride) {
  if (stride[0] != 1 || stride[1] != 1 || (stride[2] & ~1) || (stride[3] & ~1)) return nullptr;
  if (stride[2]) return stride[3] ? select_run<T, 1, 1> : select_run<T, 1, 0>;
  return stride[3] ? select_run<T, 0, 1> : select_run<T, 0, 0>;
}

template <class T>
struct WhereBody {
  std::vector<Nest> nests;  // over out, condition, x, y
  PaddingZeroer zeroer;

  void operator()(const KernelArguments& arguments) const {
    const uint8_t* condition = static_cast<const uint8_t*>(input(arguments, 0));
    const T* x = static_cast<const T*>(input(arguments, 1));
    const T* y = static_cast<const T*>(input(arguments, 2));
    T* out = static_cast<T*>(output(arguments));
    for (const Nest& nest : nests) {
      const int64_t* stride = nest.run().stride;
      const SelectRun<T> select = select_run_of<T>(stride);
      for_each_run(nest, kWhereNanoseconds, [&](const int64_t* offsets, int64_t n) {
        if (select) return select(condition + offsets[1], x + offsets[2], y + offsets[3], out + offsets[0], n);
        for (int64_t i = 0; i < n; ++i)
          out[offsets[0] + i * stride[0]] =
              condition[offsets[1] + i * stride[1]] ? x[offsets[2] + i * stride[2]] : y[offsets[3] + i * stride[3]];
      });
    }
    zeroer.run(out);
  }
};

template <class T>
void add_where(const Op& op, CandidateList& out) {
  for (const Layout& layout : layouts_to_try(op, op.out())) {
    const TensorDesc result = op.out().with_layout(layout);
    std::vector<TensorDesc> inputs;
    std::vector<Operand> operands = {{result, {}}};
    for (const TensorDesc& tensor : op.inputs) {
      inputs.push_back(tensor.shape == result.shape ? tensor.with_layout(layout) : dense(tensor));
      operands.push_back({with_rank(inputs.back(), result.rank()), {}});
    }
    add_candidate(out, "where", Quality::fast, inputs, {result}, [=] {
      return WhereBody<T>{make_nests(result.shape, operands), PaddingZeroer(result)};
    });
  }
}

void list_where(const Op& op, CandidateList& out) {
  switch (size_of(op.out().dtype)) {
    case 1: return add_where<uint8_t>(op, out);
    case 2: return add_where<uint16_t>(op, out);
    case 4: return add_where<uint32_t>(op, out);
    default: return add_where<uint64_t>(op, out);
  }
}
PL_HOST_KIND("where", list_where);

}  // namespace
}  // namespace pl::host

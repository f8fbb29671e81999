// Kinds gather (index_select, embedding) and gather_elements (torch.gather).
#include <atomic>
#include <cstring>

#include "providers/host/common/host.h"
#include "providers/host/common/indices.h"

namespace pl::host {
namespace {

// out[to[j]] = x[from[j]] for each j of `count`.
template <class T>
PL_VECTORISED void take_each(const char* x, const int64_t* from, char* out, const int64_t* to, int64_t count) {
  const T* source = reinterpret_cast<const T*>(x);
  T* target = reinterpret_cast<T*>(out);
  for (int64_t j = 0; j < count; ++j) target[to[j]] = source[from[j]];
}
template <class T>
PL_VECTORISED void take_in_a_row(const char* x, const int64_t* from, char* out, int64_t count) {
  const T* source = reinterpret_cast<const T*>(x);
  T* target = reinterpret_cast<T*>(out);
  for (int64_t j = 0; j < count; ++j) target[j] = source[from[j]];
}

// Calls function(T()) with an integer of so many bytes.
template <class Function>
void with_bytes(size_t bytes, const Function& function) {
  switch (bytes) {
    case 1: return function(uint8_t());
    case 2: return function(uint16_t());
    case 4: return function(uint32_t());
    default: return function(uint64_t());
  }
}

// Copies slices of x, each as large as x without the indexed dimension, to their places.
struct GatherBody {
  std::string op;
  int x_input, index_input;
  TensorDesc index;
  int64_t size;                         // of x along the indexed dimension
  std::vector<Nest> nests;              // over out and x: one slice
  DimOffset x_offset;                   // of the slice at each index of x
  std::vector<int64_t> target_offsets;  // of the slice at each element of index
  size_t bytes;
  PaddingZeroer zeroer;

  void operator()(const KernelArguments& arguments) const {
    const std::vector<int64_t> indices =
        checked_indices(op, integer_loader(index.dtype), input(arguments, index_input), index.elements(), size);
    const char* x = static_cast<const char*>(input(arguments, x_input));
    char* out = static_cast<char*>(output(arguments));
    const int64_t count = int64_t(indices.size());
    for (const Nest& nest : nests) {
      const Loop& run = nest.run();
      if (run.stride[0] == 1 && run.stride[1] == 1 && (run.size > 4 || nest.elements() == 1)) {
        const double nanoseconds = 5.0 * double(nest.runs()) + 0.1 * double(nest.elements() * int64_t(bytes));
        parallel_for(count, nanoseconds, [&](int64_t begin, int64_t end) {
          for (int64_t j = begin; j < end; ++j) {
            const int64_t from = x_offset(indices[size_t(j)]), to = target_offsets[size_t(j)];
            walk(nest, 0, nest.runs(), [&](const int64_t* offsets, int64_t n) {
              std::memcpy(out + (offsets[0] + to) * int64_t(bytes), x + (offsets[1] + from) * int64_t(bytes),
                          size_t(n) * bytes);
            });
          }
        });
        continue;
      }
      std::vector<int64_t> sources(indices.size());
      bool in_a_row = true;
      for (size_t j = 0; j < indices.size(); ++j) {
        sources[j] = x_offset(indices[j]);
        in_a_row = in_a_row && target_offsets[j] == int64_t(j);
      }
      for_each_run(nest, 0.7 * double(count), [&](const int64_t* offsets, int64_t n) {
        for (int64_t i = 0; i < n; ++i) {
          char* to = out + (offsets[0] + i * run.stride[0]) * int64_t(bytes);
          const char* from = x + (offsets[1] + i * run.stride[1]) * int64_t(bytes);
          with_bytes(bytes, [&](auto type) {
            using T = decltype(type);
            if (in_a_row)
              take_in_a_row<T>(from, sources.data(), to, count);
            else
              take_each<T>(from, sources.data(), to, target_offsets.data(), count);
          });
        }
      });
    }
    zeroer.run(out);
  }
};

// x is (before, dim, after), the result (before, index dims, after).
GatherBody gather_body(const std::string& name, int x_input, int dim, const TensorDesc& x, const TensorDesc& index,
                       const TensorDesc& y) {
  GatherBody body{name, x_input,          1 - x_input,     index, x.shape[dim], {}, DimOffset(x, dim),
                  {},   size_of(x.dtype), PaddingZeroer(y)};
  // Both get the dimensions (before, `many`, after): x's own is the last of the many.
  const int indexed = index.rank(), many = std::max(1, indexed), after = x.rank() - dim - 1;
  std::vector<bool> x_inserted(size_t(dim + many + after), false), y_inserted = x_inserted;
  for (int i = 0; i < many - 1; ++i) x_inserted[size_t(dim + i)] = true;
  if (indexed == 0) y_inserted[size_t(dim)] = true;
  const TensorDesc lifted_x = insert_dims(x, x_inserted), lifted_y = insert_dims(y, y_inserted);
  Dims slice = lifted_y.shape;
  for (int i = 0; i < many; ++i) slice[dim + i] = 1;
  if (index.elements() > 0) body.nests = make_nests(slice, {{lifted_y, {}}, {lifted_x, {}}});
  body.target_offsets = {0};
  for (int i = 0; i < indexed; ++i) {
    std::vector<int64_t> grown;
    const DimOffset offset(y, dim + i);
    for (int64_t before : body.target_offsets)
      for (int64_t j = 0; j < y.shape[dim + i]; ++j) grown.push_back(before + offset(j));
    body.target_offsets = std::move(grown);
  }
  return body;
}

void list_gather(const Op& op, CandidateList& out) {
  const bool swapped = op.attributes[attr::swapped];
  const int x_input = swapped ? 1 : 0, dim = int(op.attributes[attr::dim]);
  const TensorDesc index = dense_plain(op.in(1 - x_input));
  for (const Layout& layout : layouts_to_try(op, op.in(x_input))) {
    const TensorDesc x = op.in(x_input).with_layout(layout);
    // The result in the same family where the ranks allow it.
    const bool family = layout.is_channels_last() || layout.channel_block() > 0;
    const int rank = op.out().rank();
    const TensorDesc y = rank == x.rank() ? op.out().with_layout(layout)
                                          : op.out().with_layout(family ? layout.for_rank(rank) : Layout::plain(rank));
    std::vector<TensorDesc> inputs = {x, index};
    if (swapped) std::swap(inputs[0], inputs[1]);
    add_candidate(out, "gather", Quality::fast, inputs, {y},
                  [=, name = op.schema->name] { return gather_body(name, x_input, dim, x, index, y); });
  }
}
PL_HOST_KIND("gather", list_gather);

// n indices, `step` apart: where s64 lie side by side, as they are, else loaded into `room`.
const int64_t* indices_at(DType dtype, LoadRun<int64_t> load, const void* index, int64_t offset, int64_t step,
                          int64_t n, int64_t* room) {
  if (dtype == DType::s64 && step == 1) return static_cast<const int64_t*>(index) + offset;
  load(index, offset, step, n, room);
  return room;
}

template <class T>
struct GatherElementsBody {
  std::string op;
  int64_t size;
  std::vector<Nest> nests;  // over out, index, and x at 0 along the dimension
  DimOffset x_offset;       // of each index along it
  int64_t x_step;           // the same along it, where x has no blocks; else 0
  DType index_dtype;
  LoadRun<int64_t> load;
  PaddingZeroer zeroer;

  // Of n neighbours of the result; false where an index is out of range, `wrong`.  place(j): of index j of x.
  template <class Place>
  PL_INLINE bool take(const int64_t* index, int64_t n, const T* x, int64_t step, T* out, int64_t out_step,
                      int64_t& wrong, const Place& place) const {
    bool right = true;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t j = index[i] + (index[i] < 0 ? size : 0);
      if (uint64_t(j) >= uint64_t(size)) {
        wrong = index[i];
        right = false;
        continue;
      }
      out[i * out_step] = x[i * step + place(j)];
    }
    return right;
  }
  bool take_run(const int64_t* index, int64_t n, const T* x, int64_t step, T* out, int64_t out_step,
                int64_t& wrong) const {
    if (!x_step) return take(index, n, x, step, out, out_step, wrong, x_offset);
    if (x_step == 1 && out_step == 1) return take(index, n, x, step, out, 1, wrong, [](int64_t j) { return j; });
    return take(index, n, x, step, out, out_step, wrong, [this](int64_t j) { return j * x_step; });
  }

  void operator()(const KernelArguments& arguments) const {
    const T* x = static_cast<const T*>(input(arguments, 0));
    const void* index = input(arguments, 1);
    T* out = static_cast<T*>(output(arguments));
    std::atomic<int64_t> wrong{0};
    std::atomic<bool> failed{false};
    for (const Nest& nest : nests) {
      const int64_t* stride = nest.run().stride;
      for_each_run(nest, 1.2, [&](const int64_t* offsets, int64_t n) {
        int64_t room[kChunk];
        for (int64_t at = 0; at < n; at += kChunk) {
          const int64_t count = std::min(kChunk, n - at);
          const int64_t* chosen =
              indices_at(index_dtype, load, index, offsets[1] + at * stride[1], stride[1], count, room);
          int64_t beside = 0;
          if (take_run(chosen, count, x + offsets[2] + at * stride[2], stride[2], out + offsets[0] + at * stride[0],
                       stride[0], beside))
            continue;
          wrong = beside;
          failed = true;
        }
      });
    }
    zeroer.run(out);
    require(!failed, Code::invalid_argument, op, ": index holds ", wrong.load(), ", expected ", -size, " to ",
            size - 1);
  }
};

// Next to a copy of runs: the result written in another order than x is read.
constexpr double kReachAcross = 0.6;

template <class T>
void add_elements(const Op& op, CandidateList& out) {
  const int dim = int(op.attributes[attr::dim]);
  const auto layouts = layouts_to_try(op, op.in(0));
  for (const Layout& from : layouts)
    for (const Layout& to : layouts) {
      if (from != to && (from.block_count() || to.block_count())) continue;
      const TensorDesc x = op.in(0).with_layout(from), index = any_strided_view_as(op.in(1), to);
      const TensorDesc y = op.out().with_layout(to);
      add_candidate(out, "gather_elements", Quality::fast, {x, index}, {y}, [=, name = op.schema->name] {
        TensorDesc first = x;  // one index along the dimension: broadcast
        first.shape[dim] = 1;
        return GatherElementsBody<T>{name,
                                     x.shape[dim],
                                     make_nests(y.shape, {{y, {}}, {index, {}}, {first, {}}}),
                                     DimOffset(x, dim),
                                     x.layout.block_of(dim) > 1 ? 0 : x.strides[dim],
                                     index.dtype,
                                     integer_loader(index.dtype),
                                     PaddingZeroer(y)};
      });
      if (from != to) out.candidates.back().efficiency = kReachAcross;
    }
}

void list_elements(const Op& op, CandidateList& out) {
  switch (size_of(op.in(0).dtype)) {
    case 1: return add_elements<uint8_t>(op, out);
    case 2: return add_elements<uint16_t>(op, out);
    case 4: return add_elements<uint32_t>(op, out);
    default: return add_elements<uint64_t>(op, out);
  }
}
PL_HOST_KIND("gather_elements", list_elements);

}  // namespace
}  // namespace pl::host

// Kinds gather (index_select, embedding) and gather_elements (torch.gather).
#include <atomic>
#include <cstring>

#include "providers/host/common/host.h"

namespace pl::host {
namespace {

// The indices in logical order, made non-negative.  Throws for one that is out of range.
std::vector<int64_t> read_indices(const std::string& op, const TensorDesc& desc, const void* data, int64_t size) {
  const int64_t count = desc.elements();
  std::vector<int64_t> indices(size_t(std::max<int64_t>(count, 1)));
  if (count) integer_loader(desc.dtype)(data, 0, 1, count, indices.data());
  for (int64_t i = 0; i < count; ++i) {
    int64_t& index = indices[size_t(i)];
    require(index >= -size && index < size, Code::invalid_argument, op, ": index is ", index, " at element ", i,
            ", expected ", -size, " to ", size - 1);
    if (index < 0) index += size;
  }
  indices.resize(size_t(count));
  return indices;
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
    const std::vector<int64_t> indices = read_indices(op, index, input(arguments, index_input), size);
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
      for_each_run(nest, 1.5 * double(count), [&](const int64_t* offsets, int64_t n) {
        for (int64_t i = 0; i < n; ++i) {
          const int64_t to = offsets[0] + i * run.stride[0], from = offsets[1] + i * run.stride[1];
          for (int64_t j = 0; j < count; ++j)
            std::memcpy(out + (to + target_offsets[size_t(j)]) * int64_t(bytes),
                        x + (from + x_offset(indices[size_t(j)])) * int64_t(bytes), bytes);
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

template <class T>
struct GatherElementsBody {
  std::string op;
  int64_t size;
  std::vector<Nest> nests;  // over out, index, and x at 0 along the dimension
  DimOffset x_offset;       // of each index along it
  LoadRun<int64_t> load;
  PaddingZeroer zeroer;

  void operator()(const KernelArguments& arguments) const {
    const T* x = static_cast<const T*>(input(arguments, 0));
    const void* index = input(arguments, 1);
    T* out = static_cast<T*>(output(arguments));
    std::atomic<int64_t> wrong{0};
    std::atomic<bool> failed{false};
    for (const Nest& nest : nests) {
      const int64_t* stride = nest.run().stride;
      for_each_run(nest, 2, [&](const int64_t* offsets, int64_t n) {
        int64_t chosen[kChunk];
        for (int64_t start = 0; start < n; start += kChunk) {
          const int64_t count = std::min(kChunk, n - start);
          load(index, offsets[1] + start * stride[1], stride[1], count, chosen);
          for (int64_t i = 0; i < count; ++i) {
            const int64_t at = start + i;
            int64_t j = chosen[i] < 0 ? chosen[i] + size : chosen[i];
            if (j < 0 || j >= size) {
              wrong = chosen[i];
              failed = true;
              continue;
            }
            out[offsets[0] + at * stride[0]] = x[offsets[2] + at * stride[2] + x_offset(j)];
          }
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

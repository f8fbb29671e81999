// Graphs as records of a file (graph/records.h), the data of their constants apart.
//
//   input     value, name, dtype, shape, layout, pinned, axes
//   state     value, name, dtype, shape, offset of its data, whether it is a parameter: a value kept between runs
//   constant  value, name, dtype, shape, offset of its data
//   node      name, op, attributes, input values, first output value, number of outputs; then, where attributes follow
//             from sizes, late attributes
//   gradients value, values that it is derived by, their gradients
//   again     the node before makes again what an earlier one made
//   sizes     kind, sizes, value, name, dtype: a constant that follows from sizes; without the last three what sizes
//             must be
//   output    value, name, layout (any: as the plan likes)
//   update    state's value, value after a run
//
// Values are numbered as in the graph that is written; sizes in late attributes are of values by these numbers.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"
#include "graph/records.h"

namespace pl {
class Context;

// The records of graphs one after the other, and their data.  A tensor that several constants share is written once.
class GraphWriter {
 public:
  explicit GraphWriter(Context& context) : context_(context) {}
  // `state` gives the present tensor of a kept value.
  std::string write(const Graph& graph, const std::function<TensorRef(size_t kept)>& state);
  const std::string& data() const { return data_; }

 private:
  size_t append(const TensorRef& tensor);       // once, and where it lies; it lives as long as this
  size_t append_copy(const TensorRef& tensor);  // where it lies; it may be gone then

  Context& context_;
  std::string data_;
  std::map<const Tensor*, size_t> places_;  // in the data
};

// Reads such records; trusts nothing in them.
class GraphReader {
 public:
  // `data` is all data of the file.
  GraphReader(const RecordReader& reader, std::string_view data, Context& context)
      : reader_(reader), data_(data), context_(context) {}
  // Takes a record that is one of these; false: it is another.  Errors: reader.refuse().
  bool take(const std::vector<std::string>& line);
  // The graph that was read; what follows is another one.
  Graph finish();

 private:
  Dims shape_of(const std::string& text) const;
  ValueId value_of(const std::string& text) const;
  ValueId value_of(int64_t number) const;
  TensorRef tensor_of(const std::vector<std::string>& line);
  SizeExpression renumbered(const SizeExpression& size) const;
  void take_input(const std::vector<std::string>& line);
  void take_node(const std::vector<std::string>& line);
  void take_gradients(const std::vector<std::string>& line);
  void take_sizes(const std::vector<std::string>& line);

  const RecordReader& reader_;
  std::string_view data_;
  Context& context_;
  Graph graph_;
  std::unordered_map<int64_t, ValueId> values_;  // by their numbers in the file
  struct Placed {
    TensorRef tensor;
    DType dtype;
    Dims shape;
  };
  std::map<int64_t, Placed> tensors_;  // by offset
};

}  // namespace pl

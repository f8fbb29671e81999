// PackedConstants: constants in the forms that kernels read, made once for all programs of a plan.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dispatch/context.h"
#include "graph/graph.h"

namespace pl {

// Constants as kernels want them, shared by the programs of a plan, those that are tried for it, and those for other
// sizes.  Any number of threads may use it.
//
// A form's key holds the constant and what its packing depends on, never the op.  A constant is known by its tensor,
// or, where a plan has programs for several sizes, by its storage if that is one of the graph's as it was given, else
// by its contents: passes compute such constants anew for each size.
class PackedConstants {
 public:
  explicit PackedConstants(Context& context) : context_(context) {}
  // From here on constants are known by storage and contents; those of `source` live as long as this.
  void share(const Graph& source);
  bool are_shared() const;
  // A constant that holds these one behind the other along their first axis, the same one whenever it is asked for, and
  // without memory of its own (graph/joined_constants.h).  Null where one of them is no constant of a graph as it was
  // given.
  TensorRef in_a_row(const std::vector<TensorRef>& parts);
  TensorRef tensor(const Graph& graph, ValueId value, const TensorDesc& wanted, Device& device, const std::string& why);
  BufferRef packed(const Graph& graph, ValueId value, const Candidate& candidate, const Packing& packing,
                   Device& device, const std::string& why);
  double seconds() const;  // that making them took
  // Whether that was made before; of tensors that lie in that description already, true.
  bool has_tensor(const Graph& graph, ValueId value, const TensorDesc& wanted, Device& device) const;
  bool has_packed(const Graph& graph, ValueId value, const Candidate& candidate, const Packing& packing,
                  Device& device) const;
  // Lets go what no program holds.
  void release_unused();

 private:
  std::string key_of(const TensorRef& constant, const std::string& form, const Device& device) const;
  bool is_source(const Tensor& tensor) const;

  double seconds_ = 0;
  Context& context_;
  mutable std::mutex lock_;
  bool shared_ = false;
  // By where they lie: memory that was lent twice is the same.  Those in a row are among them.
  std::map<const void*, BufferRef> sources_;
  std::map<std::string, TensorRef> rows_;  // constants in a row, by their parts
  struct Contents {
    std::weak_ptr<Buffer> buffer;
    uint64_t version = 0;
    size_t bytes = 0;  // of its beginning
    std::string text;  // a hash of these
  };
  mutable std::map<const Buffer*, Contents> contents_;  // of buffers that are not sources
  std::map<std::string, TensorRef> tensors_;
  std::map<std::string, BufferRef> packed_;
};

}  // namespace pl

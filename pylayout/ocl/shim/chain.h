// Chains: ops on lists of tensors (`_foreach_*`) that wait, one after another on the same lists, to run as one kernel
// for each element.
//
// A step of Adam is nine such ops on five lists: each reads and writes all of the memory, and costs the host a call for
// every element. As a chain it is one expression, `t0 = x0 * s0; t1 = ...`, and one call for every element. Lists that
// came about on the way and that nobody has any more are not written.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <string>
#include <unordered_set>
#include <vector>

#include "formula.h"
#include "shim.h"

namespace ocl {

// A tensor of a call: the library's, and the block that it lies in; null: nobody else knows its memory.
struct Operand {
  Handle tensor;
  Block* block = nullptr;
};

// A call of the library's op, whose operands are elsewhere.
struct WaitingCall {
  const char* op;
  pl_attributes attributes;
  size_t inputs, outputs;
  std::shared_ptr<const void> owner;  // of op and attributes; null: they live for ever
};

// What an op on lists does to each element.
struct ListFormula {
  const char* text;  // in the language of the op `pointwise`, of elements x0, x1, ... and a number s0
  size_t lists;      // that it reads, its first arguments
  bool number;       // s0: the next argument, of all elements or a list with one for each
};

using TensorPointers = c10::ArrayRef<const at::Tensor*>;

class Chain {
 public:
  // What waits keeps memory, and no tensor: whether somebody still has one decides what is written.
  struct List {
    std::vector<c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>> tensors;
    std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> storages;  // of a list that an op of the chain makes
    std::vector<int64_t> offsets;
    std::vector<Operand> operands;  // over memory that the tensors' storages keep
    int input = -1;                 // the number of its values from before the chain; -1: nothing reads them
    std::string value;              // the name of its values of now; "": they are those
  };
  struct Number {
    std::vector<double> values;  // one, or one for each element
    std::vector<Operand> operands;
  };

  bool empty() const { return text_.empty(); }
  // Whether an op of so many lists and numbers may follow: the op `pointwise` reads so many tensors.
  bool has_room_for(size_t more) const { return lists_.size() + numbers_.size() + more <= 16; }
  bool uses(const Block* block) const { return blocks_.count(block) > 0 || number_blocks_.count(block) > 0; }
  // Whether elements of lists of the chain are like these in number and sizes.
  bool is_like(TensorPointers list) const;
  int find(TensorPointers list) const;  // -1: it is none of the chain
  const List& list(int number) const { return lists_[size_t(number)]; }
  // Takes a list, `made` by an op of the chain or not, with its operands; -1, and nothing is taken, where it shares
  // memory with others or itself, or lies where a number was whose tensor is gone.
  int take(TensorPointers list, const std::vector<Operand>& operands, bool made);
  // The op on these of its lists; its result is the list `result`.
  void add(const ListFormula& formula, const std::vector<int>& lists, Number number, int result);
  // The calls that it stands for; it is empty then.
  void finish(std::vector<WaitingCall>& calls, std::vector<Operand>& operands);

 private:
  Attributes attributes(const std::vector<size_t>& outputs, std::vector<size_t>& open);

  size_t count_ = 0;  // elements of each list
  at::ScalarType dtype_ = at::kFloat;
  std::vector<int64_t> form_;  // that, and ranks, sizes and strides of those of the first list
  std::vector<List> lists_;
  std::vector<Number> numbers_;
  std::unordered_set<const Block*> blocks_, number_blocks_;  // of lists, and of numbers
  std::string text_;                                         // statements, in which #0#, #1#, ... are the numbers
  int inputs_ = 0, values_ = 0;
};

}  // namespace ocl

#include "lists.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "arguments.h"
#include "chain.h"
#include "later.h"
#include "numbers.h"
#include "programs.h"

namespace ocl {
namespace {

// What PyTorch's loop came to for lists of such tensors, with such numbers: a program for each element.
struct ListCalls {
  struct Call {
    ProgramRef program;
    std::vector<double> numbers;
  };
  c10::OperatorName op;
  std::vector<int64_t> words;  // of the lists' arguments
  std::vector<Call> calls;
};

class Lists {
 public:
  std::shared_ptr<const ListCalls> find(const c10::OperatorHandle& op, const Arguments& arguments, uint64_t hash) {
    std::lock_guard<std::mutex> guard(lock_);
    const auto found = by_hash_.find(hash);
    if (found == by_hash_.end() || !(found->second->op == op.operator_name()) ||
        !std::equal(found->second->words.begin(), found->second->words.end(), arguments.words.begin(),
                    arguments.words.end()))
      return nullptr;
    return found->second;
  }
  // From the second time on: numbers may be others each time, as step sizes are.
  bool wants(uint64_t hash) {
    std::lock_guard<std::mutex> guard(lock_);
    seen_.resize(256);
    return std::exchange(seen_[hash % seen_.size()], hash) == hash;
  }
  void put(uint64_t hash, std::shared_ptr<const ListCalls> calls) {
    constexpr size_t kMost = 128;
    std::lock_guard<std::mutex> guard(lock_);
    if (by_hash_.size() >= kMost) by_hash_.clear();
    by_hash_[hash] = std::move(calls);
  }
  void forget() {
    std::lock_guard<std::mutex> guard(lock_);
    by_hash_.clear();
  }

 private:
  std::mutex lock_;
  std::unordered_map<uint64_t, std::shared_ptr<const ListCalls>> by_hash_;
  std::vector<uint64_t> seen_;
};

Lists& lists() {
  static auto* self = new Lists;
  return *self;
}

// Tensor `list` of call `i`, where `tensors` are those of all lists, one after another.
const at::Tensor* element(c10::ArrayRef<const at::Tensor*> tensors, size_t count, size_t list, size_t i) {
  return tensors[list * count + i];
}

// Notes the loop's calls, if there is one for each element, of the elements in order.
class Noting final : public Calls {
 public:
  Noting(const Arguments& all, size_t count) : all_(all), count_(count) {}
  void add(const ProgramRef& program, const Arguments& arguments) override {
    const size_t i = calls_.size();
    fits_ = fits_ && i < count_ && always_waits(*program) && arguments.tensors.size() * count_ == all_.tensors.size();
    for (size_t list = 0; fits_ && list < arguments.tensors.size(); ++list)
      fits_ = arguments.tensors[list]->is_same(*element(all_.tensors, count_, list, i));
    if (fits_) calls_.push_back({program, {arguments.numbers.begin(), arguments.numbers.end()}});
  }
  bool fit() const { return fits_ && calls_.size() == count_; }
  std::vector<ListCalls::Call> take() { return std::move(calls_); }

 private:
  const Arguments& all_;
  const size_t count_;
  bool fits_ = true;
  std::vector<ListCalls::Call> calls_;
};

// PyTorch's own kernel, which is a loop; the table of no other device of others has another one.
void loop(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::PrivateUse2), stack);
}

void by_loop(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Batch batch;
  loop(op, stack);
  batch.finish();
}

bool is_on(c10::DeviceIndex device, c10::ArrayRef<const at::Tensor*> tensors) {
  return std::all_of(tensors.begin(), tensors.end(),
                     [&](const at::Tensor* each) { return each->device().index() == device; });
}

// As PyTorch's dispatcher counts the changes of each of the loop's ops.
void count_change(const at::Tensor& tensor) {
  if (!c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::ADInplaceOrView) && !tensor.is_inference())
    tensor.unsafeGetTensorImpl()->bump_version();
}

// An op's name behind `aten::_foreach_`, without its overload; "" for other ops.
std::string_view packet_of(std::string_view name) {
  constexpr std::string_view prefix = "aten::_foreach_";
  if (name.substr(0, prefix.size()) != prefix) return {};
  return name.substr(prefix.size(), name.find('.') - prefix.size());
}

// ---- ops that may be of a chain ----

constexpr char kLerp[] = "s0 < 0.5 ? x0 + s0 * (x1 - x0) : x1 - (x1 - x0) * (1 - s0)";

// As PyTorch computes them for real numbers. Names without the _ of those that change their first list.
const ListFormula* formula_of(const std::string& name, const std::string& overload) {
  static const auto* all = new std::map<std::pair<std::string, std::string>, ListFormula>{
      {{"add", "Scalar"}, {"x0 + s0", 1, true}},
      {{"add", "ScalarList"}, {"x0 + s0", 1, true}},
      {{"add", "List"}, {"x0 + s0 * x1", 2, true}},
      {{"sub", "Scalar"}, {"x0 - s0", 1, true}},
      {{"sub", "ScalarList"}, {"x0 - s0", 1, true}},
      {{"sub", "List"}, {"x0 - s0 * x1", 2, true}},
      {{"mul", "Scalar"}, {"x0 * s0", 1, true}},
      {{"mul", "ScalarList"}, {"x0 * s0", 1, true}},
      {{"mul", "List"}, {"x0 * x1", 2, false}},
      {{"div", "Scalar"}, {"x0 / s0", 1, true}},
      {{"div", "ScalarList"}, {"x0 / s0", 1, true}},
      {{"div", "List"}, {"x0 / x1", 2, false}},
      {{"addcmul", "Scalar"}, {"x0 + s0 * x1 * x2", 3, true}},
      {{"addcmul", "ScalarList"}, {"x0 + s0 * x1 * x2", 3, true}},
      {{"addcdiv", "Scalar"}, {"x0 + s0 * x1 / x2", 3, true}},
      {{"addcdiv", "ScalarList"}, {"x0 + s0 * x1 / x2", 3, true}},
      {{"lerp", "Scalar"}, {kLerp, 2, true}},
      {{"lerp", "ScalarList"}, {kLerp, 2, true}},
      {{"sqrt", ""}, {"sqrt(x0)", 1, false}},
      {{"neg", ""}, {"-x0", 1, false}},
      {{"abs", ""}, {"abs(x0)", 1, false}},
      {{"reciprocal", ""}, {"1 / x0", 1, false}},
  };
  const auto found = all->find({name, overload});
  return found == all->end() ? nullptr : &found->second;
}

struct ListOp {
  const ListFormula* formula = nullptr;  // null: none of a chain
  bool in_place = false;
};

ListOp list_op_of(const c10::OperatorName& op) {
  std::string name(packet_of(op.name));
  const bool in_place = !name.empty() && name.back() == '_';
  if (in_place) name.pop_back();
  return {formula_of(name, op.overload_name), in_place};
}

// Tensors whose elements lie as those of the first list, in memory that nobody else knows.
bool suit_a_chain(TensorPointers tensors, size_t count) {
  const auto dtype = dtype_of(tensors[0]->scalar_type());
  if (!dtype || *dtype > PL_BF16) return false;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& each = *tensors[i];
    const at::Tensor& first = *tensors[i % count];
    if (each.scalar_type() != tensors[0]->scalar_type() || each.numel() == 0 || !each.is_non_overlapping_and_dense())
      return false;
    if (each.sizes() != first.sizes() || each.strides() != first.strides()) return false;
    const Block* block = place_of(each).block;
    if (!block || block->is_shared()) return false;
  }
  return true;
}

bool read_number(const c10::IValue& value, std::vector<double>& numbers) {
  if (!value.isInt() && !value.isDouble()) return false;
  numbers.push_back(value.isInt() ? double(value.toInt()) : value.toDouble());
  return std::isfinite(numbers.back());
}

bool read_numbers(const c10::IValue& value, size_t count, std::vector<double>& numbers) {
  if (!value.isList()) return read_number(value, numbers);
  const c10::ArrayRef<c10::IValue> list = value.toListRef();
  if (list.size() != count) return false;
  for (const c10::IValue& each : list)
    if (!read_number(each, numbers)) return false;
  if (std::equal(numbers.begin() + 1, numbers.end(), numbers.begin(), are_same)) numbers.resize(1);
  return true;
}

// As a part of a chain. False: it is to be done in another way.
bool by_chain(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> values, const Arguments& arguments,
              size_t count, torch::jit::Stack* stack) {
  const ListOp how = list_op_of(op.operator_name());
  if (!how.formula || arguments.tensors.size() != how.formula->lists * count) return false;
  const size_t given = how.formula->lists;
  if (values.size() != given + how.formula->number || !suit_a_chain(arguments.tensors, count)) return false;
  Chain::Number number;
  if (how.formula->number && !read_numbers(values[given], count, number.values)) return false;
  const c10::DeviceIndex device = arguments.tensors[0]->device().index();
  c10::OptionalDeviceGuard guard;
  if (device != current_device()) guard.reset_device({kDevice, device});
  std::vector<at::Tensor>
      there;  // until the chain has them: memory of numbers that nobody has is that of the next ones
  for (const double value : number.values)
    number.operands.push_back(placed_operand_of(there.emplace_back(number_on(device, value))));
  std::vector<at::Tensor> results;
  std::vector<const at::Tensor*> made;
  if (!how.in_place)
    for (size_t i = 0; i < count; ++i) {
      const at::Tensor& like = *arguments.tensors[i];
      results.push_back(empty_strided(like.sizes(), like.strides(), like.scalar_type(), device));
    }
  for (const at::Tensor& each : results) made.push_back(&each);
  const Batch batch(false);
  if (!Later::add(device, *how.formula, arguments.tensors, count, number, made)) return false;
  for (size_t i = 0; how.in_place && i < count; ++i) count_change(*arguments.tensors[i]);
  torch::jit::drop(*stack, values.size());
  if (!how.in_place) stack->emplace_back(std::move(results));
  return true;
}

// Ops of whose loop in PyTorch each turn is one op, written into the first list's tensor.
bool is_one_op_each(std::string_view name) {
  static const char* const ops[] = {"add",     "sub",  "mul", "div", "addcmul",   "addcdiv",   "lerp",      "maximum",
                                    "minimum", "sqrt", "neg", "abs", "clamp_max", "clamp_min", "reciprocal"};
  const std::string_view packet = packet_of(name);
  return std::any_of(std::begin(ops), std::end(ops), [&](const char* op) { return packet == std::string(op) + "_"; });
}

// By the programs of the loop before, for lists like those: past PyTorch's dispatcher, and found once.
void by_calls(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t given = op.schema().arguments().size();
  const c10::ArrayRef<c10::IValue> values(stack->data() + (stack->size() - given), given);
  context();  // throws where the device is not to be used
  Arguments arguments(values);
  const size_t count = values[0].isList() ? values[0].toListRef().size() : 0;
  if (arguments.obstacle || count < 2 || arguments.tensors.size() % count) return by_loop(op, stack);
  const c10::DeviceIndex device = arguments.tensors[0]->device().index();
  if (!is_on(device, arguments.tensors)) return by_loop(op, stack);
  if (by_chain(op, values, arguments, count, stack)) return;
  if (!is_one_op_each(op.operator_name().name)) return by_loop(op, stack);
  arguments.add_surroundings(device);
  const uint64_t hash = arguments.hash();
  Batch batch;
  const auto known = lists().find(op, arguments, hash);
  const auto waits = [](const ListCalls::Call& call) { return always_waits(*call.program); };
  if (known && std::all_of(known->calls.begin(), known->calls.end(), waits)) {
    c10::OptionalDeviceGuard guard;
    if (device != current_device()) guard.reset_device({kDevice, device});
    const size_t each = arguments.tensors.size() / count;
    c10::SmallVector<const at::Tensor*, 4> tensors(each);
    for (size_t i = 0; i < count; ++i) {
      for (size_t list = 0; list < each; ++list) tensors[list] = element(arguments.tensors, count, list, i);
      call_waiting(known->calls[i].program, tensors, known->calls[i].numbers, device);
      count_change(*tensors[0]);
    }
    torch::jit::drop(*stack, given);
  } else if (lists().wants(hash)) {
    const torch::jit::Stack kept(values.begin(), values.end());  // the loop takes them from the stack
    const Arguments all(kept);
    Noting noting(all, count);
    loop(op, stack);
    if (noting.fit())
      lists().put(hash, std::make_shared<ListCalls>(ListCalls{
                            op.operator_name(), {arguments.words.begin(), arguments.words.end()}, noting.take()}));
  } else {
    loop(op, stack);
  }
  batch.finish();
}

}  // namespace

void register_list_op(const char* name) {
  static auto* library = new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, 0);
  const std::string full = name;
  const size_t dot = full.find('.');
  const c10::OperatorName op(full.substr(0, dot), dot == std::string::npos ? "" : full.substr(dot + 1));
  library->impl(name, is_one_op_each(name) || list_op_of(op).formula
                          ? torch::CppFunction::makeFromBoxedFunction<&by_calls>()
                          : torch::CppFunction::makeFromBoxedFunction<&by_loop>());
}

void forget_lists() { lists().forget(); }

}  // namespace ocl

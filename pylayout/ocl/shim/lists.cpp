#include "lists.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "arguments.h"
#include "later.h"
#include "programs.h"

namespace ocl {
namespace {

// What PyTorch's loop came to for lists of such tensors: a program for each element.
struct ListCalls {
  struct Call {
    ProgramRef program;
    std::vector<double> numbers;
  };
  c10::OperatorName op;
  std::vector<int64_t> words;   // of the lists' arguments, without numbers
  std::vector<double> numbers;  // of the lists' arguments
  std::vector<Call> calls;

  // Whether they do for other numbers, too, as step sizes are: where each program reads its numbers, which are those of
  // the arguments, or its element's of a list of numbers.
  bool any_numbers = false;
  bool serves(c10::ArrayRef<double> others) const {
    return numbers.size() == others.size() &&
           (any_numbers || std::memcmp(numbers.data(), others.data(), numbers.size() * sizeof(double)) == 0);
  }
  // Those of call `i` among such numbers.
  c10::ArrayRef<double> numbers_of(size_t i, c10::ArrayRef<double> all) const {
    if (!any_numbers) return calls[i].numbers;
    return all.size() == calls.size() && calls[i].numbers.size() == 1 ? all.slice(i, 1) : all;
  }
  void find_out() {
    any_numbers = true;
    for (size_t i = 0; any_numbers && i < calls.size(); ++i) {
      const c10::ArrayRef<double> found = numbers_of(i, numbers);
      any_numbers = calls[i].program->numbers == found.size() && found.equals(calls[i].numbers);
    }
  }
};

class Lists {
 public:
  // Of lists like these with the same numbers, and with any.
  struct Key {
    uint64_t same, any;
  };
  std::shared_ptr<const ListCalls> find(const c10::OperatorHandle& op, const Arguments& without_numbers,
                                        const Key& key) {
    std::lock_guard<std::mutex> guard(lock_);
    for (const uint64_t hash : {key.same, key.any}) {
      const auto found = by_hash_.find(hash);
      if (found != by_hash_.end() && found->second->op == op.operator_name() &&
          std::equal(found->second->words.begin(), found->second->words.end(), without_numbers.words.begin(),
                     without_numbers.words.end()) &&
          found->second->serves(without_numbers.numbers))
        return found->second;
    }
    return nullptr;
  }
  // From the second time on that such lists come: numbers may be others each time.
  bool wants(const Key& key) {
    std::lock_guard<std::mutex> guard(lock_);
    seen_.resize(256);
    const auto seen = [this](uint64_t hash) { return std::exchange(seen_[hash % seen_.size()], hash) == hash; };
    const bool same = seen(key.same), any = seen(key.any);
    return same || any;
  }
  void put(const Key& key, std::shared_ptr<const ListCalls> calls) {
    constexpr size_t kMost = 128;
    std::lock_guard<std::mutex> guard(lock_);
    if (by_hash_.size() >= kMost) by_hash_.clear();
    by_hash_[calls->any_numbers ? key.any : key.same] = std::move(calls);
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
  arguments.add(device);  // constants lie there
  Lists::Key key{arguments.hash(), 0};
  arguments.forget_numbers();
  key.any = arguments.hash();
  Batch batch;
  const auto known = lists().find(op, arguments, key);
  const auto waits = [](const ListCalls::Call& call) { return always_waits(*call.program); };
  if (known && std::all_of(known->calls.begin(), known->calls.end(), waits)) {
    c10::OptionalDeviceGuard guard;
    if (device != current_device()) guard.reset_device({kDevice, device});
    const size_t each = arguments.tensors.size() / count;
    // As PyTorch's dispatcher counts the changes of each of the loop's ops.
    const bool counts = !c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::ADInplaceOrView);
    c10::SmallVector<const at::Tensor*, 4> tensors(each);
    for (size_t i = 0; i < count; ++i) {
      for (size_t list = 0; list < each; ++list) tensors[list] = element(arguments.tensors, count, list, i);
      call_waiting(known->calls[i].program, tensors, known->numbers_of(i, arguments.numbers), device);
      if (counts && !tensors[0]->is_inference()) tensors[0]->unsafeGetTensorImpl()->bump_version();
    }
    torch::jit::drop(*stack, given);
  } else if (lists().wants(key)) {
    const torch::jit::Stack kept(values.begin(), values.end());  // the loop takes them from the stack
    const Arguments all(kept);
    Noting noting(all, count);
    loop(op, stack);
    if (noting.fit()) {
      auto made = std::make_shared<ListCalls>(ListCalls{op.operator_name(),
                                                        {arguments.words.begin(), arguments.words.end()},
                                                        {arguments.numbers.begin(), arguments.numbers.end()},
                                                        noting.take()});
      made->find_out();
      lists().put(key, std::move(made));
    }
  } else {
    loop(op, stack);
  }
  batch.finish();
}

// Ops of whose loop in PyTorch each turn is one op, written into the first list's tensor.
bool is_one_op_each(std::string_view name) {
  static const char* const ops[] = {"add",     "sub",  "mul", "div", "addcmul",   "addcdiv",   "lerp",      "maximum",
                                    "minimum", "sqrt", "neg", "abs", "clamp_max", "clamp_min", "reciprocal"};
  constexpr std::string_view prefix = "aten::_foreach_";
  if (name.substr(0, prefix.size()) != prefix) return false;
  const std::string_view packet = name.substr(prefix.size(), name.find('.') - prefix.size());
  return std::any_of(std::begin(ops), std::end(ops), [&](const char* op) { return packet == std::string(op) + "_"; });
}

}  // namespace

void register_list_op(const char* name) {
  static auto* library = new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, 0);
  library->impl(name, is_one_op_each(name) ? torch::CppFunction::makeFromBoxedFunction<&by_calls>()
                                           : torch::CppFunction::makeFromBoxedFunction<&by_loop>());
}

void forget_lists() { lists().forget(); }

}  // namespace ocl

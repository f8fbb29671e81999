#include "formula.h"

#include <map>
#include <mutex>

#include "fallback.h"
#include "later.h"
#include "numbers.h"
#include "shim.h"

namespace ocl {

Attributes attributes_of(const std::string& text) {
  constexpr size_t kMost = 1024;
  static std::mutex lock;
  static auto* known = new std::map<std::string, Attributes>;
  std::lock_guard<std::mutex> guard(lock);
  const auto found = known->find(text);
  if (found != known->end()) return found->second;
  pl_attributes made = nullptr;
  check(pl_attributes_create(text.c_str(), &made));
  if (known->size() >= kMost) known->clear();
  return (*known)[text] = Attributes(made, [](pl_attributes each) {
           if (!is_forked()) pl_attributes_release(each);
         });
}

std::string Formula::x(const at::Tensor& tensor) {
  for (size_t i = 0; i < tensors_.size(); ++i)
    if (tensors_[i].is_same(tensor)) return "x" + std::to_string(i);
  tensors_.push_back(tensor);
  return "x" + std::to_string(tensors_.size() - 1);
}

std::string Formula::s(double value) {
  if (open_on_) return x(number_on(*open_on_, value));
  scalars_ += (scalars_.empty() ? "" : ",") + text_of(value);
  return "s" + std::to_string(count_++);
}

void Formula::write(const at::Tensor& target, std::string text, const MaybeTensor& skip) {
  if (skip) text = x(*skip) + " != 0 ? " + x(target) + " : (" + text + ")";
  static const char* const names[] = {"f32", "f16", "bf16"};
  const auto dtype = dtype_of(target.scalar_type());
  TORCH_CHECK_NOT_IMPLEMENTED(dtype && *dtype <= PL_BF16, "ocl: a fused op of ", target.scalar_type(),
                              ", expected float32, float16 or bfloat16");
  const Attributes attributes =
      attributes_of("expressions=\"y0 = " + text + "\" scalars=[" + scalars_ + "] dtype=" + names[*dtype]);
  if (Batch::open()) {
    std::vector<Operand> operands;
    for (const at::Tensor& tensor : tensors_) operands.push_back(placed_operand_of(tensor));
    operands.push_back(placed_operand_of(target));
    return Later::add(target.device().index(), "pointwise", attributes.get(), operands.data(), tensors_.size(), 1,
                      attributes);
  }
  std::vector<Handle> held;
  std::vector<pl_tensor> given;
  for (const at::Tensor& tensor : tensors_) given.push_back(held.emplace_back(view_of(tensor)).get());
  const Handle result = view_of(target);
  pl_tensor made = result.get();
  run_op("pointwise", attributes.get(), given, &made, 1);
}

}  // namespace ocl

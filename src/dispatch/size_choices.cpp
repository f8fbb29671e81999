#include "dispatch/size_choices.h"

#include <cmath>

#include "dispatch/size_class.h"

namespace pl {
namespace {

constexpr size_t kMostKinds = 4096;  // of calls that are alike; then all are forgotten
constexpr int64_t kWidest = 4;       // times: sizes above all classes may differ by that

bool near(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] > kWidest * b[i] || b[i] > kWidest * a[i]) return false;
  return true;
}

void append(std::string& text, const TensorDesc& desc) {
  text += ' ';
  if (!desc.present) {
    text += '-';
    return;
  }
  text += name_of(desc.dtype);
  if (!desc.layout.is_plain()) text += desc.layout.generic_str();
}

}  // namespace

SizeChoices::Call SizeChoices::of(const Op& op, const Device& device, int threads,
                                  const std::vector<TensorDesc>& destinations) {
  Call call;
  std::string& text = call.alike;
  text = concat(device.name(), ' ', threads, ' ', op.schema->name, ' ', int(op.math), ' ', op.attributes.str());
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const TensorDesc& desc = op.inputs[i];
    append(text, desc);
    if (!desc.present) continue;
    const bool constant = op.schema->role_of(int(i)) == Role::constant;
    for (int64_t size : desc.shape) {
      text += concat(',', constant ? size : size_class(size));
      if (!constant) call.sizes.push_back(size);
    }
  }
  text += " >";
  for (const TensorDesc& desc : destinations) append(text, desc);
  return call;
}

std::string SizeChoices::find(const Call& call) const {
  std::lock_guard<std::mutex> guard(lock_);
  const auto known = choices_.find(call.alike);
  if (known == choices_.end() || known->second.size() < kMeasured) return {};
  const Choice* best = nullptr;
  double least = HUGE_VAL;
  for (const Choice& choice : known->second) {
    if (choice.sizes == call.sizes) return {};
    const double away = size_distance(choice.sizes, call.sizes);
    if (away >= least || !near(choice.sizes, call.sizes)) continue;
    least = away;
    best = &choice;
  }
  return best ? best->way : std::string();
}

void SizeChoices::add(const Call& call, const std::string& way) {
  std::lock_guard<std::mutex> guard(lock_);
  if (choices_.size() >= kMostKinds && !choices_.count(call.alike)) choices_.clear();
  std::vector<Choice>& list = choices_[call.alike];
  for (Choice& choice : list)
    if (choice.sizes == call.sizes) {
      choice.way = way;
      return;
    }
  constexpr size_t kMost = 8 * kMeasured;
  if (list.size() < kMost) list.push_back({call.sizes, way});
}

void SizeChoices::forget() {
  std::lock_guard<std::mutex> guard(lock_);
  choices_.clear();
}

}  // namespace pl

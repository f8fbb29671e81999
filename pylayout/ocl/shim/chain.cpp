#include "chain.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <utility>

#include "numbers.h"

namespace ocl {
namespace {

// `text` with its names x0, x1, ..., s0 as name_of(letter, number) has them.
std::string renamed(const std::string& text, const std::function<std::string(char, size_t)>& name_of) {
  std::string made;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool begins = i == 0 || !std::isalnum(static_cast<unsigned char>(text[i - 1]));
    if (begins && (text[i] == 'x' || text[i] == 's') && i + 1 < text.size() && std::isdigit(text[i + 1])) {
      made += name_of(text[i], size_t(text[i + 1] - '0'));
      ++i;
    } else {
      made += text[i];
    }
  }
  return made;
}

bool is_nobodys(const Chain::List& list) {
  return !list.storages.empty() &&
         std::all_of(list.storages.begin(), list.storages.end(), [](const auto& each) { return each.expired(); });
}

// Calls see(word) for the dtype, and ranks, sizes and strides, as long as it gives true; whether all did.
template <class See>
bool all_words(TensorPointers list, See&& see) {
  if (!see(int64_t(list[0]->scalar_type()))) return false;
  for (const at::Tensor* each : list) {
    if (!see(each->dim())) return false;
    for (const auto& words : {each->sizes(), each->strides()})
      for (const int64_t word : words)
        if (!see(word)) return false;
  }
  return true;
}

}  // namespace

bool Chain::is_like(TensorPointers list) const {
  if (lists_.empty()) return true;
  size_t at = 0;
  return list.size() == count_ &&
         all_words(list, [&](int64_t word) { return at < form_.size() && form_[at++] == word; });
}

int Chain::find(TensorPointers list) const {
  for (size_t n = 0; n < lists_.size(); ++n) {
    const List& known = lists_[n];
    size_t same = 0;
    // A tensor that is gone has a place in memory that nobody else has yet; one that is there may have got other memory.
    while (same < list.size() && same < count_ &&
           list[same]->unsafeGetTensorImpl() == known.tensors[same]._unsafe_get_target() &&
           list[same]->storage_offset() == known.offsets[same] &&
           place_of(*list[same]).block == known.operands[same].block)
      ++same;
    if (same == list.size() && same == count_) return int(n);
  }
  return -1;
}

int Chain::take(TensorPointers list, const std::vector<Operand>& operands, bool made) {
  for (size_t i = 0; i < operands.size(); ++i)
    if (number_blocks_.count(operands[i].block) || !blocks_.insert(operands[i].block).second) {
      while (i-- > 0) blocks_.erase(operands[i].block);
      return -1;
    }
  if (lists_.empty()) {
    count_ = list.size();
    dtype_ = list[0]->scalar_type();
    form_.clear();
    all_words(list, [&](int64_t word) { return form_.push_back(word), true; });
  }
  List& taken = lists_.emplace_back();
  taken.operands = operands;
  for (const at::Tensor* each : list) {
    taken.tensors.emplace_back(each->getIntrusivePtr());
    taken.offsets.push_back(each->storage_offset());
    if (made) taken.storages.emplace_back(each->storage().getWeakStorageImpl());
  }
  return int(lists_.size()) - 1;
}

void Chain::add(const ListFormula& formula, const std::vector<int>& lists, Number number, int result) {
  const size_t own = numbers_.size();
  const std::string expression = renamed(formula.text, [&](char letter, size_t n) {
    if (letter == 's') return "#" + std::to_string(own) + "#";
    List& list = lists_[size_t(lists[n])];
    if (list.value.empty()) {
      if (list.input < 0) list.input = inputs_++;
      return "x" + std::to_string(list.input);
    }
    return list.value;
  });
  for (const Operand& each : number.operands) number_blocks_.insert(each.block);
  if (formula.number) numbers_.push_back(std::move(number));
  List& changed = lists_[size_t(result)];
  changed.value = "t" + std::to_string(values_++);
  text_ += changed.value + " = " + expression + "; ";
}

// For a chain whose lists `outputs` are written. Numbers are a part of the text until they change: `open` are those that
// the kernel reads, which do or are others for each element.
Attributes Chain::attributes(const std::vector<size_t>& outputs, std::vector<size_t>& open) {
  struct Known {
    std::vector<double> values;
    std::vector<bool> open;
    Attributes made;
  };
  constexpr size_t kMost = 256;
  static auto* all = new std::map<std::string, Known>;  // Later's lock is held
  static const char* const dtypes[] = {"f32", "f16", "bf16"};
  const std::string dtype = dtypes[*dtype_of(dtype_)];
  std::string text = text_;
  for (size_t k = 0; k < outputs.size(); ++k) text += "y" + std::to_string(k) + " = " + lists_[outputs[k]].value + "; ";
  if (all->size() >= kMost) all->clear();
  Known& known = (*all)[dtype + " " + text];
  const bool first = !known.made;
  bool changed = first;
  known.values.resize(numbers_.size());
  known.open.resize(numbers_.size());
  for (size_t n = 0; n < numbers_.size(); ++n) {
    const std::vector<double>& values = numbers_[n].values;
    const bool opens = !known.open[n] && (values.size() > 1 || (!first && !are_same(values[0], known.values[n])));
    known.values[n] = values[0];
    known.open[n] = known.open[n] || opens;
    changed = changed || opens;
  }
  for (size_t n = 0; n < numbers_.size(); ++n)
    if (known.open[n]) open.push_back(n);
  if (!changed) return known.made;
  std::string written, scalars;
  size_t closed = 0, read = size_t(inputs_);
  std::vector<std::string> names;
  for (size_t n = 0; n < numbers_.size(); ++n) {
    if (known.open[n]) {
      names.push_back("x" + std::to_string(read++));
    } else {
      names.push_back("s" + std::to_string(closed++));
      scalars += (scalars.empty() ? "" : ",") + text_of(known.values[n]);
    }
  }
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '#') {
      written += text[i];
      continue;
    }
    const size_t end = text.find('#', i + 1);
    written += names[size_t(std::stoi(text.substr(i + 1, end - i - 1)))];
    i = end;
  }
  return known.made = attributes_of("expressions=\"" + written + "\" scalars=[" + scalars + "] dtype=" + dtype);
}

void Chain::finish(std::vector<WaitingCall>& calls, std::vector<Operand>& operands) {
  std::vector<size_t> outputs, inputs(size_t(inputs_), 0), open;
  for (size_t n = 0; n < lists_.size(); ++n) {
    if (!lists_[n].value.empty() && !is_nobodys(lists_[n])) outputs.push_back(n);
    if (lists_[n].input >= 0) inputs[size_t(lists_[n].input)] = n;
  }
  if (!outputs.empty()) {
    const Attributes made = attributes(outputs, open);
    for (size_t i = 0; i < count_; ++i) {
      for (const size_t n : inputs) operands.push_back(lists_[n].operands[i]);
      for (const size_t n : open) {
        const std::vector<Operand>& given = numbers_[n].operands;
        operands.push_back(given[given.size() > 1 ? i : 0]);
      }
      for (const size_t n : outputs) operands.push_back(lists_[n].operands[i]);
      calls.push_back({"pointwise", made.get(), inputs.size() + open.size(), outputs.size(), made});
    }
  }
  lists_.clear();
  numbers_.clear();
  blocks_.clear();
  number_blocks_.clear();
  text_.clear();
  inputs_ = values_ = 0;
}

}  // namespace ocl

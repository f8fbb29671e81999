#include "core/attributes.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>

#include "core/dims.h"
#include "core/status.h"

namespace pl {
namespace {

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char text[40];
  for (int digits : {6, 15, 17}) {  // the shortest of these that reads back to the same value
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    if (std::strtod(text, nullptr) == value) break;
  }
  std::string result = text;
  if (result.find_first_of(".en") == std::string::npos) result += ".0";  // stays a float when read again
  return result;
}

template <class T, class Print>
std::string list_text(const std::vector<T>& values, Print print) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) text += (i ? "," : "") + print(values[i]);
  return text + "]";
}

bool is_word(std::string_view text) {
  if (text.empty()) return false;
  for (char c : text)
    if (c == ' ' || c == '=' || c == '[' || c == ']' || c == ',' || c == '"' || c == '\\' ||
        std::iscntrl(static_cast<unsigned char>(c)))
      return false;
  return true;
}

// A value that is one word.
AttributeValue scalar(const std::string& word) {
  if (word == "none") return None{};
  if (word == "true" || word == "false") return word == "true";
  char* end = nullptr;
  errno = 0;
  const long long integer = std::strtoll(word.c_str(), &end, 10);
  if (*end == 0) {
    require(errno == 0, Code::invalid_argument, "attributes: the integer ", word, " does not fit 64 bits");
    return int64_t(integer);
  }
  const bool numeric = std::isdigit(static_cast<unsigned char>(word[0])) || word[0] == '-' || word[0] == '+' ||
                       word[0] == '.' || word == "inf" || word == "nan";
  const double number = std::strtod(word.c_str(), &end);
  if (numeric && *end == 0) return number;
  return word;
}

class AttributesParser {
 public:
  explicit AttributesParser(std::string_view text) : text_(text) {}

  Attributes run() {
    Attributes result;
    skip_spaces();
    while (at_ < text_.size()) {
      const size_t start = at_;
      while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) ++at_;
      const std::string key(text_.substr(start, at_ - start));
      if (key.empty()) bad("expected a name");
      if (at_ == text_.size() || text_[at_] != '=') bad("expected '=' after \"" + key + "\"");
      const AttributeName name = AttributeName::of(key);
      if (result.has(name)) bad("\"" + key + "\" is given twice");
      ++at_;
      result.set_value(name, value());
      if (at_ < text_.size() && text_[at_] != ' ') bad("expected a space between attributes");
      skip_spaces();
    }
    return result;
  }

 private:
  [[noreturn]] void bad(const std::string& why) const {
    fail(Code::invalid_argument, "attributes \"", text_, "\": ", why, " at position ", at_);
  }
  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  AttributeValue value() {
    if (at_ < text_.size() && text_[at_] == '[') return list();
    if (at_ < text_.size() && text_[at_] == '"') return quoted();
    return scalar(word());
  }
  std::string word() {
    const size_t start = at_;
    while (at_ < text_.size() && is_word(text_.substr(at_, 1))) ++at_;
    if (start == at_) bad("expected a value");
    return std::string(text_.substr(start, at_ - start));
  }
  std::string quoted() {
    std::string result;
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
      result += text_[at_];
    }
    if (at_ == text_.size()) bad("the string does not end");
    ++at_;
    return result;
  }
  AttributeValue list() {
    std::vector<int64_t> integers;
    std::vector<double> numbers;
    bool all_integers = true;
    ++at_;
    while (at_ < text_.size() && text_[at_] != ']') {
      if (!numbers.empty()) {
        if (text_[at_] != ',') bad("expected ',' in the list");
        ++at_;
      }
      const AttributeValue item = scalar(word());
      if (const auto* integer = std::get_if<int64_t>(&item)) {
        integers.push_back(*integer);
        numbers.push_back(double(*integer));
      } else if (const auto* number = std::get_if<double>(&item)) {
        all_integers = false;
        numbers.push_back(*number);
      } else {
        bad("a list holds numbers only");
      }
    }
    if (at_ == text_.size()) bad("the list does not end");
    ++at_;
    if (all_integers) return integers;
    return numbers;
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

uint64_t bits_of(double value) {
  if (std::isnan(value)) return ~uint64_t(0);
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

std::string to_text(const AttributeValue& value) {
  struct Visitor {
    std::string operator()(None) const { return "none"; }
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(int64_t v) const { return std::to_string(v); }
    std::string operator()(double v) const { return number_text(v); }
    std::string operator()(const std::string& v) const {
      const bool plain = is_word(v) && std::holds_alternative<std::string>(scalar(v));
      if (plain) return v;
      std::string text = "\"";
      for (char c : v) text += (c == '"' || c == '\\' ? std::string("\\") : std::string()) + c;
      return text + "\"";
    }
    std::string operator()(const std::vector<int64_t>& v) const {
      return list_text(v, [](int64_t item) { return std::to_string(item); });
    }
    std::string operator()(const std::vector<double>& v) const { return list_text(v, number_text); }
    std::string operator()(const PostOps& v) const { return v.empty() ? "none" : (*this)(to_text(v)); }
  };
  return std::visit(Visitor{}, value);
}

const char* type_name(const AttributeValue& value) {
  constexpr const char* names[] = {"none", "bool", "int", "float", "string", "ints", "floats", "post-ops"};
  return names[value.index()];
}

const char* name_of(AttributeType type) {
  constexpr const char* names[] = {"bool", "int", "float", "string", "ints", "floats", "post-ops"};
  return names[size_t(type)];
}

// ---- names ----

namespace {

// Texts that names were made of, in lists by their ids.  Lists only grow, at the front: who reads needs no lock.
struct KeptText {
  std::string text;
  uint64_t id;
  KeptText* next;
};
std::atomic<KeptText*> kept_texts[256];

}  // namespace

AttributeName AttributeName::of(std::string_view text) {
  AttributeName name(text);
  std::atomic<KeptText*>& list = kept_texts[name.id_ % (sizeof kept_texts / sizeof *kept_texts)];
  KeptText* first = list.load(std::memory_order_acquire);
  const KeptText* searched = nullptr;  // from here on
  std::unique_ptr<KeptText> made;
  do {
    for (const KeptText* kept = first; kept != searched; kept = kept->next) {
      if (kept->id != name.id_) continue;
      require(kept->text == text, Code::invalid_argument, "attributes: the name \"", text, "\" cannot be told from \"",
              kept->text, "\", expected another one");
      name.text_ = kept->text;
      return name;
    }
    searched = first;
    if (!made) made.reset(new KeptText{std::string(text), name.id_, nullptr});
    made->next = first;
  } while (!list.compare_exchange_weak(first, made.get(), std::memory_order_acq_rel, std::memory_order_acquire));
  name.text_ = made.release()->text;
  return name;
}

// ---- attributes ----

namespace {

bool same(const AttributeValue& a, const AttributeValue& b) {
  if (a.index() != b.index()) return false;
  if (const auto* number = std::get_if<double>(&a)) return same_bits(*number, *std::get_if<double>(&b));
  if (const auto* list = std::get_if<Floats>(&a)) {
    const Floats& other = *std::get_if<Floats>(&b);
    return std::equal(list->begin(), list->end(), other.begin(), other.end(), same_bits);
  }
  return a == b;
}

struct Hash {
  uint64_t seed;

  void operator()(None) {}
  void operator()(bool value) { seed = hash_mix(seed, value); }
  void operator()(int64_t value) { seed = hash_mix(seed, uint64_t(value)); }
  void operator()(double value) { seed = hash_mix(seed, bits_of(value)); }
  void operator()(const PostOps& list) { seed = hash_of(list, seed); }
  void operator()(const std::string& text) { seed = hash_mix(seed, std::hash<std::string>()(text)); }
  template <class T>
  void operator()(const std::vector<T>& list) {
    seed = hash_mix(seed, list.size());
    for (T value : list) (*this)(value);
  }
};

}  // namespace

Attributes::Attributes() = default;
Attributes::~Attributes() = default;
Attributes::Attributes(const Attributes& other) = default;
Attributes::Attributes(Attributes&& other) noexcept = default;
Attributes& Attributes::operator=(const Attributes& other) = default;
Attributes& Attributes::operator=(Attributes&& other) noexcept = default;
Attributes::Attributes(std::initializer_list<Item> items) {
  for (const Item& item : items) set_value(item.entry.name, item.entry.value);
}

Attributes Attributes::parse(std::string_view text) { return AttributesParser(text).run(); }

const AttributeValue* Attributes::find_value(const AttributeName& name) const {
  for (const Entry& entry : entries_)
    if (entry.name == name) return &entry.value;
  return nullptr;
}

void Attributes::set_value(const AttributeName& name, AttributeValue value) {
  for (Entry& entry : entries_)
    if (entry.name == name) {
      entry.value = std::move(value);
      return;
    }
  const auto place =
      std::lower_bound(entries_.begin(), entries_.end(), name.text(),
                       [](const Entry& entry, std::string_view text) { return entry.name.text() < text; });
  entries_.insert(place, Entry{name, std::move(value)});
}

void Attributes::erase(const AttributeName& name) {
  const auto place =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.name == name; });
  if (place != entries_.end()) entries_.erase(place);
}

void Attributes::take(const Attributes& from, std::initializer_list<AttributeName> names) {
  for (const AttributeName& name : names)
    if (const AttributeValue* value = from.find_value(name))
      set_value(name, *value);
    else
      erase(name);
}

bool Attributes::is_none(const AttributeName& name) const {
  const AttributeValue* value = find_value(name);
  require(value != nullptr, Code::internal, "attribute \"", name, "\" was not filled in");
  return std::holds_alternative<None>(*value);
}

void Attributes::refuse(const AttributeName& name, const AttributeValue* value, AttributeType expected) {
  require(value != nullptr, Code::internal, "attribute \"", name, "\" was not filled in");
  fail(Code::internal, "attribute \"", name, "\" is ", type_name(*value), ", read as ", name_of(expected));
}

std::string Attributes::str() const {
  std::string text;
  for (const auto& [name, value] : entries_) {
    if (!text.empty()) text += ' ';
    text.append(name.text()).append("=") += to_text(value);
  }
  return text;
}

uint64_t Attributes::hash() const {
  Hash hash{entries_.size()};
  for (const auto& [name, value] : entries_) {
    hash.seed = hash_mix(hash_mix(hash.seed, name.id()), value.index());
    std::visit(hash, value);
  }
  return hash.seed;
}

bool operator==(const Attributes& a, const Attributes& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.name == y.name && same(x.value, y.value); });
}

}  // namespace pl

// Attributes: the named parameters of an op, as data: a value for each name.
//
// In C++ a value is reached by its key, which holds name and type (ops/attribute_keys.h has those of all ops):
//   inline constexpr Key<Ints> stride{"stride"};
//   attributes[attr::stride]                  the value: const Ints&
//   attributes.find(attr::stride)             null where it is absent or None
//   attributes.set(attr::stride, {2, 2})
// so that a name that is misspelt, and a value read or written as another type, do not compile.  References hold until
// the attributes change.
//
// Text form, used by the C ABI, the cost database and messages:  key=value key=value ...
//   stride=[2,2] padding=1 alpha=0.01 ceil_mode=true mode=nearest eps=none post_ops="add(residual), relu"
// Sorted by name, so equal attributes have equal text.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "core/post_ops.h"

namespace pl {

struct None {
  friend bool operator==(None, None) { return true; }
};
using Ints = std::vector<int64_t>;
using Floats = std::vector<double>;
using AttributeValue = std::variant<None, bool, int64_t, double, std::string, Ints, Floats, PostOps>;

uint64_t bits_of(double value);  // as text tells values apart: one NaN, two zeros
inline bool same_bits(double a, double b) { return bits_of(a) == bits_of(b); }
std::string to_text(const AttributeValue& value);
// "none", "bool", "int", "float", "string", "ints", "floats", "post-ops".
const char* type_name(const AttributeValue& value);

// What a key may be of, in the order of AttributeValue.
enum class AttributeType { boolean, integer, number, string, integers, numbers, post_ops };
const char* name_of(AttributeType type);

template <class T>
constexpr AttributeType attribute_type() {
  if constexpr (std::is_same_v<T, bool>) return AttributeType::boolean;
  if constexpr (std::is_same_v<T, int64_t>) return AttributeType::integer;
  if constexpr (std::is_same_v<T, double>) return AttributeType::number;
  if constexpr (std::is_same_v<T, std::string>) return AttributeType::string;
  if constexpr (std::is_same_v<T, Ints>) return AttributeType::integers;
  if constexpr (std::is_same_v<T, PostOps>) return AttributeType::post_ops;
  static_assert(std::is_same_v<T, bool> || std::is_same_v<T, int64_t> || std::is_same_v<T, double> ||
                    std::is_same_v<T, std::string> || std::is_same_v<T, Ints> || std::is_same_v<T, Floats> ||
                    std::is_same_v<T, PostOps>,
                "a key is of bool, int64_t, double, std::string, Ints, Floats or PostOps");
  return AttributeType::numbers;
}

// The name of an attribute.  Names that come as text are found or made by of(); C++ has keys.
class AttributeName {
 public:
  constexpr AttributeName() = default;  // no name
  // The text is kept for the rest of the process.  Any thread may call it, at any time.
  static AttributeName of(std::string_view text);

  constexpr std::string_view text() const { return text_; }
  std::string str() const { return std::string(text_); }
  constexpr uint64_t id() const { return id_; }  // of the text, the same in every process
  constexpr bool empty() const { return text_.empty(); }
  friend constexpr bool operator==(const AttributeName& a, const AttributeName& b) { return a.id_ == b.id_; }
  friend constexpr bool operator!=(const AttributeName& a, const AttributeName& b) { return a.id_ != b.id_; }

 protected:
  constexpr explicit AttributeName(std::string_view text) : text_(text), id_(id_of(text)) {}

 private:
  static constexpr uint64_t id_of(std::string_view text) {  // FNV-1a; of() fails where two texts have the same
    uint64_t id = 0xcbf29ce484222325ull;
    for (char c : text) id = (id ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
    return id;
  }

  std::string_view text_;
  uint64_t id_ = 0;
};

// A name together with the type of its values.  One name may have keys of several types, for ops that mean several
// things by it; a schema has a name once.
template <class T>
class Key : public AttributeName {
 public:
  static constexpr AttributeType type = attribute_type<T>();

  constexpr explicit Key(const char* name) : AttributeName(std::string_view(name)) {}
};

// What the attribute of a Key<T> may be set to: a T or None; of a list also one number, which a schema makes a list of.
template <class T>
struct Given {
  Given(None) : value(None{}) {}
  template <class Number, class = std::enable_if_t<std::is_arithmetic_v<Number> &&
                                                   std::is_same_v<Number, bool> == std::is_same_v<T, bool> &&
                                                   (std::is_integral_v<Number> || std::is_same_v<T, double>)>>
  Given(Number number) : value(T(number)) {}
  AttributeValue value;
};
template <>
struct Given<std::string> {
  Given(None) : value(None{}) {}
  Given(std::string text) : value(std::move(text)) {}
  Given(const char* text) : value(std::string(text)) {}
  AttributeValue value;
};
template <>
struct Given<PostOps> {
  Given(None) : value(None{}) {}
  Given(PostOps list) : value(std::move(list)) {}
  AttributeValue value;
};
template <class T>
struct Given<std::vector<T>> {
  Given(None) : value(None{}) {}
  Given(T one) : value(one) {}
  Given(std::vector<T> list) : value(std::move(list)) {}
  Given(std::initializer_list<T> list) : value(std::vector<T>(list)) {}
  AttributeValue value;
};
template <class T>
struct GivenFor {  // Given<T> where T follows from another argument
  using type = Given<T>;
};

class Attributes {
 public:
  struct Entry {
    AttributeName name;
    AttributeValue value;
  };
  struct Item {  // {attr::stride, {2, 2}}
    template <class T>
    Item(const Key<T>& key, typename GivenFor<T>::type given) : entry{key, std::move(given.value)} {}
    Entry entry;
  };

  Attributes();
  ~Attributes();
  Attributes(const Attributes& other);
  Attributes(Attributes&& other) noexcept;
  Attributes& operator=(const Attributes& other);
  Attributes& operator=(Attributes&& other) noexcept;
  Attributes(std::initializer_list<Item> items);
  static Attributes parse(std::string_view text);  // throws Error(invalid_argument) with the position

  bool has(const AttributeName& name) const { return find_value(name) != nullptr; }
  void erase(const AttributeName& name);
  // Takes the attributes of these names from others; what those have not is erased.
  void take(const Attributes& from, std::initializer_list<AttributeName> names);

  // The schema has already filled defaults and checked types, so a miss is a defect.
  bool is_none(const AttributeName& name) const;
  template <class T>
  decltype(auto) operator[](const Key<T>& key) const {  // by value where T is a number or bool
    return value_of<T>(key, find_value(key));
  }
  // Null where it is absent or None; std::optional<T> where T is a number or bool, else const T*.
  template <class T>
  auto find(const Key<T>& key) const {
    using Found = std::conditional_t<std::is_arithmetic_v<T>, std::optional<T>, const T*>;
    const AttributeValue* value = find_value(key);
    if (!value || std::holds_alternative<None>(*value)) return Found();
    if constexpr (std::is_arithmetic_v<T>)
      return Found(value_of<T>(key, value));
    else
      return Found(&value_of<T>(key, value));
  }
  template <class T>
  void set(const Key<T>& key, typename GivenFor<T>::type given) {
    set_value(key, std::move(given.value));
  }

  // For what handles attributes whatever they are: schemas, rules, the C ABI.
  const AttributeValue* find_value(const AttributeName& name) const;  // null where it is absent
  void set_value(const AttributeName& name, AttributeValue value);

  std::string str() const;
  uint64_t hash() const;  // of no use beyond this process
  bool empty() const { return entries_.empty(); }
  auto begin() const { return entries_.begin(); }  // of entries, sorted by name
  auto end() const { return entries_.end(); }
  // Names, types and values alike; of floats the bits count, so that zeros have signs, and each NaN is the same.
  friend bool operator==(const Attributes& a, const Attributes& b);

 private:
  template <class T>
  static std::conditional_t<std::is_arithmetic_v<T>, T, const T&> value_of(const Key<T>& key,
                                                                           const AttributeValue* value) {
    if (value) {
      if (const T* typed = std::get_if<T>(value)) return *typed;
      if constexpr (std::is_same_v<T, double>)  // attributes as a user gave them
        if (const auto* integer = std::get_if<int64_t>(value)) return double(*integer);
    }
    refuse(key, value, Key<T>::type);
  }
  [[noreturn]] static void refuse(const AttributeName& name, const AttributeValue* value, AttributeType expected);

  std::vector<Entry> entries_;  // few, so that a search by id from the first on is the fastest
};

}  // namespace pl

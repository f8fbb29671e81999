/* Test cases that register themselves, and checks that print both values and go on.
 *
 *   TEST("adds") { CHECK(1 + 1 == 2); }     a case, named FILE.adds; support/runner.c lists and runs them
 *   SETUP() { ... }                         before each case of its file
 *   CHECK(condition)                        a failure is printed and counted; the case goes on
 *   REQUIRE(condition)                      a failure ends the case: what follows could not run
 *   SKIP("why")                             ends the case; with no failure before it, it counts as skipped
 *   end_test()                              ends the case as failed, after a message of the caller's
 *
 * In C++, CHECK prints the two sides of a comparison. C has CHECK_EQUAL(a, b) for numbers, and REQUIRE ends the
 * program. */
#ifndef PYLAYOUT_TESTS_CHECK_H
#define PYLAYOUT_TESTS_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct check_case {
  const char* file; /* __FILE__ */
  const char* name; /* NULL: the file's SETUP */
  void (*body)(void);
  void (*call)(void (*body)(void)); /* calls `body` and reports what it throws; NULL: it throws nothing */
  struct check_case* next;
} check_case;

void check_register(check_case* added);
/* Prints and counts a failure of the running case. Any thread may call it. `values` may be NULL. */
void check_failed(const char* file, int line, const char* condition, const char* values);
void check_count_failure(void); /* after a message of the caller's */
void check_skip(const char* why);

#ifdef __cplusplus
}
#endif

#define CHECK_JOIN_(a, b) a##b
#define CHECK_JOIN(a, b) CHECK_JOIN_(a, b)
#define CHECK_REGISTER_(title, number, caller)                                                   \
  static void CHECK_JOIN(check_body_, number)(void);                                             \
  __attribute__((constructor)) static void CHECK_JOIN(check_register_, number)(void) {           \
    static check_case this_case = {__FILE__, title, CHECK_JOIN(check_body_, number), caller, 0}; \
    check_register(&this_case);                                                                  \
  }                                                                                              \
  static void CHECK_JOIN(check_body_, number)(void)
#define TEST(title) CHECK_REGISTER_(title, __LINE__, CHECK_CALLER)
#define SETUP() CHECK_REGISTER_(0, __LINE__, CHECK_CALLER)

#ifndef __cplusplus

#define CHECK_CALLER 0
#define CHECK(condition) ((condition) ? (void)0 : check_failed(__FILE__, __LINE__, #condition, 0))
#define CHECK_EQUAL(a, b)                                          \
  do {                                                             \
    const double a_ = (double)(a), b_ = (double)(b);               \
    if (a_ != b_) {                                                \
      char values_[100];                                           \
      snprintf(values_, sizeof values_, "%.17g == %.17g", a_, b_); \
      check_failed(__FILE__, __LINE__, #a " == " #b, values_);     \
    }                                                              \
  } while (0)
#define REQUIRE(condition)                             \
  do {                                                 \
    if (!(condition)) {                                \
      check_failed(__FILE__, __LINE__, #condition, 0); \
      exit(1);                                         \
    }                                                  \
  } while (0)

#else

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace check_cpp {

struct Ended {};  // thrown to leave a case

[[noreturn]] inline void leave() { throw Ended(); }

// ---- values as text

void call(void (*body)(void));
std::string show(bool value);
std::string show(long long value);
std::string show(unsigned long long value);
std::string show(double value);
std::string show(const void* value);
std::string show(const char* value);
std::string show(const std::string& value);

template <class T, class = void>
struct HasStr : std::false_type {};
template <class T>
struct HasStr<T, std::void_t<decltype(std::string(std::declval<const T&>().str()))> > : std::true_type {};

template <class T>
std::string text_of(const T& value);
template <class T>
std::string text_of(const std::vector<T>& list) {
  std::string text = "{";
  for (size_t i = 0; i < list.size(); ++i) text += (i ? ", " : "") + text_of<T>(list[i]);
  return text + "}";
}
template <class A, class B>
std::string text_of(const std::pair<A, B>& pair) {
  return "(" + text_of(pair.first) + ", " + text_of(pair.second) + ")";
}
template <class T>
std::string text_of(const std::optional<T>& value) {
  return value ? text_of(*value) : "nothing";
}
template <class T>
std::string text_of(const T& value) {
  using V = std::decay_t<T>;
  if constexpr (std::is_same_v<V, bool>)
    return show(bool(value));
  else if constexpr (std::is_enum_v<V>)
    return show(static_cast<long long>(value));
  else if constexpr (std::is_integral_v<V> && std::is_signed_v<V>)
    return show(static_cast<long long>(value));
  else if constexpr (std::is_integral_v<V>)
    return show(static_cast<unsigned long long>(value));
  else if constexpr (std::is_floating_point_v<V>)
    return show(double(value));
  else if constexpr (std::is_convertible_v<const T&, std::string>)
    return show(std::string(value));
  else if constexpr (std::is_same_v<V, std::nullptr_t>)
    return "nullptr";
  else if constexpr (std::is_pointer_v<V> && !std::is_function_v<std::remove_pointer_t<V> >)
    return show(static_cast<const void*>(value));
  else if constexpr (HasStr<V>::value)
    return value.str();
  else
    return "a value";
}

// ---- what CHECK makes of its condition: Condition{} <= a == b is (Condition{} <= a) == b

// Checks stand in the innermost loops of tests: one that holds costs no more than its comparison.
#define CHECK_INLINE_ inline __attribute__((always_inline))

struct Outcome {
  bool holds;
  explicit CHECK_INLINE_ operator bool() const { return holds; }
};

std::string& compared();  // what the last comparison of this thread that did not hold was between

template <class L>
struct Side {
  const L& value;
  explicit CHECK_INLINE_ operator bool() const { return static_cast<bool>(value); }

// The comparison is the test's own, of the types that it has there.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-compare"
#define CHECK_COMPARISON_(op)                                  \
  template <class R>                                           \
  CHECK_INLINE_ Outcome operator op(const R& other) const {    \
    const bool holds = static_cast<bool>(value op other);      \
    if (!holds) keep(" " #op " ", text_of(other));             \
    return {holds};                                            \
  }                                                            \
  CHECK_INLINE_ Outcome operator op(const char* other) const { \
    const bool holds = static_cast<bool>(value op other);      \
    if (!holds) keep(" " #op " ", show(other));                \
    return {holds};                                            \
  }
  CHECK_COMPARISON_(==)
  CHECK_COMPARISON_(!=)
  CHECK_COMPARISON_(<)
  CHECK_COMPARISON_(<=)
  CHECK_COMPARISON_(>)
  CHECK_COMPARISON_(>=)
#undef CHECK_COMPARISON_
#pragma GCC diagnostic pop

  __attribute__((noinline, cold)) void keep(const char* op, const std::string& other) const {
    compared() = text_of(value) + op + other;
  }
};

// `Condition() <= a == b` is what the macros make.
#pragma GCC diagnostic ignored "-Wparentheses"
struct Condition {
  template <class L>
  CHECK_INLINE_ Side<L> operator<=(const L& value) const {
    return {value};
  }
};

void failed(const char* file, int line, const char* condition, bool with_values);

// Returns whether the condition holds.
CHECK_INLINE_ bool report(const Outcome& outcome, const char* file, int line, const char* condition) {
  if (!outcome.holds) failed(file, line, condition, true);
  return outcome.holds;
}
CHECK_INLINE_ bool report(bool holds, const char* file, int line, const char* condition) {
  if (!holds) failed(file, line, condition, false);
  return holds;
}
template <class L>
CHECK_INLINE_ bool report(const Side<L>& side, const char* file, int line, const char* condition) {
  return report(static_cast<bool>(side), file, line, condition);
}

}  // namespace check_cpp

[[noreturn]] inline void end_test() {
  check_count_failure();
  check_cpp::leave();
}

#define CHECK_CALLER ::check_cpp::call
#define CHECK_REPORT_(...) \
  ::check_cpp::report(::check_cpp::Condition() <= __VA_ARGS__, __FILE__, __LINE__, #__VA_ARGS__)
#define CHECK(...) static_cast<void>(CHECK_REPORT_(__VA_ARGS__))
#define REQUIRE(...)                                     \
  do {                                                   \
    if (!CHECK_REPORT_(__VA_ARGS__)) check_cpp::leave(); \
  } while (0)
#define SKIP(why)       \
  do {                  \
    check_skip(why);    \
    check_cpp::leave(); \
  } while (0)

#endif
#endif

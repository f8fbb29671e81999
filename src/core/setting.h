// Setting: a small value that threads share without a lock.
#pragma once

#include <atomic>

namespace pl {

// A value that one thread may change while others read it; which of the two they see is left open.
template <class T>
class Setting {
 public:
  explicit Setting(T value) : value_(value) {}
  Setting(const Setting& other) : value_(T(other)) {}
  Setting& operator=(const Setting& other) { return *this = T(other); }
  Setting& operator=(T value) {
    value_.store(value, std::memory_order_relaxed);
    return *this;
  }
  operator T() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<T> value_;
};

}  // namespace pl

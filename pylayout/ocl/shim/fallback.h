#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/ArrayRef.h>

#include <string>
#include <utility>
#include <vector>

#include "pylayout.h"

namespace ocl {

// Runs an op on copies of its arguments on the CPU, and gives results on the device.
void on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack, const std::string& reason);

// Counts a call of an op whose work the host does, and warns; throws where that is forbidden.
void count_fallback(const std::string& name, const std::string& reason);

// The library runs on `cpu` what a device has no kernel for, and tells (pl_context_on_fallback). While a watch lives,
// what it tells in this thread is counted: as calls of one op of PyTorch, or, where that is not known, of the
// library's.
class Watch {
 public:
  explicit Watch(const c10::OperatorHandle* op = nullptr);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  bool has_seen() const { return !seen_.empty(); }
  // Throws where a call failed because fallbacks are forbidden.
  void check() const;
  // Counts, and warns.
  void finish();

  // What the library calls.
  static int tell(void*, const char* op, const char* device, const char* reason);

 private:
  std::string name_of(const std::string& op) const;
  const c10::OperatorHandle* op_;
  Watch* outer_;
  bool refused_ = false;
  std::vector<std::pair<std::string, std::string>> seen_;  // the library's ops, and why they ran on the host
};

// An op of the library, under a watch of its own: what PyTorch's op is made of, where no program runs it.
void run_op(const char* op, pl_attributes attributes, c10::ArrayRef<pl_tensor> inputs, pl_tensor* outputs,
            size_t count);

}  // namespace ocl

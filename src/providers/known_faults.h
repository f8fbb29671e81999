// Known faults of the libraries and drivers below, in one table: what goes wrong, in which versions, and what is done
// instead.  The code that avoids a fault names it, so that the reason reaches query, explain and `pylayout devices`,
// and tests/c/test_known_faults.cpp holds one test for each.
//
// To add one: a KnownFault in the provider's faults.h and faults.cpp, its use where the provider avoids it, its test.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pl {

struct KnownFault {
  const char* id;         // "onednn-strided-post-ops": unique
  const char* library;    // "oneDNN", "PoCL", "NVIDIA OpenCL"
  const char* since;      // the first version that has it; "": the earliest that is supported
  const char* fixed;      // the first version that has it no more; "": none known
  const char* condition;  // when it strikes
  const char* effect;     // what comes out
  const char* seen;       // where it was seen
  const char* instead;    // what is done instead

  // Whether this version of the library has it: "3.2.0" against "3.3".
  bool concerns(std::string_view version) const;
  // "id: condition: effect", for refusals.
  std::string str() const;
};

// All of them, in the order of their ids.
const std::vector<const KnownFault*>& known_faults();

struct KnownFaultRegistration {
  explicit KnownFaultRegistration(const KnownFault& fault);
};

}  // namespace pl

// Known faults of the libraries and drivers below, in one table: what goes wrong, in which versions, and what is done
// instead.  The code that avoids a fault names it, so that the reason reaches query, explain and `pylayout devices`;
// `pylayout doctor --faults` lists the table, and tests/c/test_known_faults.cpp holds one test for each.
//
// To add one: a KnownFault in the provider's faults.h and faults.cpp, its use where the provider avoids it, its test.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pl {

struct KnownFault {
  const char* id;           // "onednn-strided-post-ops": unique
  const char* library;      // "oneDNN", "PoCL", "NVIDIA OpenCL"
  const char* since;        // the first version that has it; "": the earliest that is supported
  const char* fixed;        // the first version that has it no more; "": none known
  const char* condition;    // when it strikes
  const char* effect;       // what comes out
  const char* seen;         // where it was seen
  const char* instead;      // what is done instead
  const char* remedy = "";  // what a user can do, where avoiding it loses much; "": nothing needs to be done
  // Whether this process meets the condition, where more than the version tells that; null: the version tells it.
  bool (*met)(const std::string& version) = nullptr;

  // Whether this version of the library has it: "3.2.0" against "3.3".
  bool concerns(std::string_view version) const;
  // The same, and the condition may be met in this process.
  bool applies(const std::string& version) const { return concerns(version) && (!met || met(version)); }
  // "id: condition: effect", for refusals.
  std::string str() const;
};

// All of them, in the order of their ids.
const std::vector<const KnownFault*>& known_faults();

struct KnownFaultRegistration {
  explicit KnownFaultRegistration(const KnownFault& fault);
};

// How the versions of a library that this process has opened are found: none, one, or several (OpenCL runtimes).
using LibraryVersions = std::vector<std::string> (*)();

struct LibraryRegistration {
  LibraryRegistration(const char* library, LibraryVersions versions);
};

// The versions of a KnownFault::library that this process has opened.
std::vector<std::string> versions_here(std::string_view library);

}  // namespace pl

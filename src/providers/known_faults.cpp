#include "providers/known_faults.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>

#include "core/status.h"

namespace pl {
namespace {

std::vector<const KnownFault*>& table() {
  static auto* faults = new std::vector<const KnownFault*>();
  return *faults;
}

std::map<std::string, LibraryVersions, std::less<>>& libraries() {
  static auto* known = new std::map<std::string, LibraryVersions, std::less<>>();
  return *known;
}

// The numbers of a version: "3.2.0" and "PoCL 3.1" are {3, 2, 0} and {3, 1}.
std::vector<int> numbers_of(std::string_view version) {
  std::vector<int> numbers;
  bool inside = false;
  for (char c : version) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit && c != '.' && !numbers.empty()) break;
    if (digit && !inside) numbers.push_back(0);
    if (digit) numbers.back() = numbers.back() * 10 + (c - '0');
    inside = digit;
  }
  return numbers;
}

}  // namespace

bool KnownFault::concerns(std::string_view version) const {
  const std::vector<int> numbers = numbers_of(version);
  return (!*since || numbers >= numbers_of(since)) && (!*fixed || numbers < numbers_of(fixed));
}

std::string KnownFault::str() const { return concat("known fault ", id, ": ", condition, ": ", effect); }

const std::vector<const KnownFault*>& known_faults() { return table(); }

KnownFaultRegistration::KnownFaultRegistration(const KnownFault& fault) {
  std::vector<const KnownFault*>& faults = table();
  const auto before = [](const KnownFault* a, const KnownFault* b) { return std::strcmp(a->id, b->id) < 0; };
  faults.insert(std::upper_bound(faults.begin(), faults.end(), &fault, before), &fault);
}

LibraryRegistration::LibraryRegistration(const char* library, LibraryVersions versions) {
  libraries().emplace(library, versions);
}

std::vector<std::string> versions_here(std::string_view library) {
  const auto found = libraries().find(library);
  return found == libraries().end() ? std::vector<std::string>() : found->second();
}

}  // namespace pl

#include "abi/schema.h"

#include <unordered_map>

#include "abi/guard.h"

namespace pl::abi {

// All schemas by name: one hash instead of a search through the sorted table.
const Schema& schema_of(const char* name, const char* function) {
  static const auto table = [] {
    std::unordered_map<std::string_view, const Schema*> by_name;
    for (const Schema* schema : all_schemas()) by_name.emplace(schema->name, schema);
    return by_name;
  }();
  require_pointer(name, function, "op");
  const auto found = table.find(std::string_view(name));
  require(found != table.end(), Code::invalid_argument, function, ": there is no op \"", name,
          "\"; pl_ops lists those there are");
  return *found->second;
}

}  // namespace pl::abi

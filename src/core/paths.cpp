#include "core/paths.h"

#include <cstdlib>
#include <filesystem>

namespace pl {

std::string default_cache_dir() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  };
  if (const std::string own = variable("PYLAYOUT_CACHE_DIR"); !own.empty()) return own;
  if (const std::string xdg = variable("XDG_CACHE_HOME"); !xdg.empty()) return xdg + "/pylayout";
  if (const std::string home = variable("HOME"); !home.empty()) return home + "/.cache/pylayout";
  return {};
}

bool make_directories(const std::string& path) {
  if (path.empty()) return false;
  std::error_code error;
  const bool created = std::filesystem::create_directories(path, error);
  if (created) std::filesystem::permissions(path, std::filesystem::perms::owner_all, error);
  return std::filesystem::is_directory(path, error);
}

}  // namespace pl

#include "core/paths.h"

#include <cstdlib>
#include <filesystem>
#include <mutex>

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

namespace {
struct Chosen {
  std::mutex lock;
  std::string path;
};
Chosen& chosen() {
  static auto* made = new Chosen();  // never destroyed: programs may be built while the process ends
  return *made;
}
}  // namespace

std::string shared_cache_dir() {
  {
    std::lock_guard<std::mutex> guard(chosen().lock);
    if (!chosen().path.empty()) return chosen().path;
  }
  return default_cache_dir();
}

void set_shared_cache_dir(const std::string& path) {
  std::lock_guard<std::mutex> guard(chosen().lock);
  chosen().path = path;
}

bool make_directories(const std::string& path) {
  if (path.empty()) return false;
  std::error_code error;
  const bool created = std::filesystem::create_directories(path, error);
  if (created) std::filesystem::permissions(path, std::filesystem::perms::owner_all, error);
  return std::filesystem::is_directory(path, error);
}

}  // namespace pl

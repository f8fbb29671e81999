#include "providers/opencl/runtime/loader.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>

#include "providers/opencl/runtime/calls_in_turn.h"
#include "providers/opencl/runtime/objects.h"

namespace pl::opencl {
namespace {

using GetExtensionAddress = void* (*)(const char*);
using IcdGetPlatformIds = cl_int (*)(cl_uint, cl_platform_id*, cl_uint*);

// dlopen.  Libraries of Python packages may need others from their own folder without saying where those lie
// (intel-opencl-rt's loader needs libsvml.so): what is reported missing is opened from there first.
void* open_shared(const std::string& path, const std::vector<std::string>& directories, std::string& reason) {
  constexpr int kMode = RTLD_NOW | RTLD_LOCAL;
  for (int attempt = 0; attempt < 8; ++attempt) {
    if (void* handle = dlopen(path.c_str(), kMode)) return handle;
    const char* error = dlerror();
    reason = error ? error : "dlopen failed";
    const size_t colon = reason.find(": cannot open shared object file");
    if (colon == std::string::npos) return nullptr;
    const std::string missing = reason.substr(0, colon);
    if (missing == path || missing.find('/') != std::string::npos) return nullptr;
    bool found = false;
    for (const std::string& directory : directories)
      found = found || dlopen((directory + "/" + missing).c_str(), kMode) != nullptr;
    if (!found) return nullptr;
  }
  return nullptr;
}

// Opens `path` and fills a table; on failure returns null and says why in `reason`.
const Api* open_library(const std::string& path, const std::vector<std::string>& directories, std::string& reason) {
  void* handle = open_shared(path, directories, reason);
  if (!handle) return nullptr;
  auto api = std::make_unique<Api>();
  api->library = path;
  auto extension = reinterpret_cast<GetExtensionAddress>(dlsym(handle, "clGetExtensionFunctionAddress"));
  std::string missing;
  auto find = [&](const char* name) {
    void* symbol = dlsym(handle, name);
    if (!symbol && extension) symbol = extension(name);
    if (!symbol) missing += missing.empty() ? name : std::string(", ") + name;
    return symbol;
  };
#define PL_OPENCL_FIND(name) api->name = reinterpret_cast<decltype(api->name)>(find(#name));
  PL_OPENCL_REQUIRED(PL_OPENCL_FIND)
#undef PL_OPENCL_FIND
#define PL_OPENCL_FIND(name) api->name = reinterpret_cast<decltype(api->name)>(dlsym(handle, #name));
  PL_OPENCL_OPTIONAL(PL_OPENCL_FIND)
#undef PL_OPENCL_FIND
  // A runtime opened without a loader may export clGetPlatformIDs only through the ICD extension.
  if (extension) {
    auto icd = reinterpret_cast<IcdGetPlatformIds>(extension("clIcdGetPlatformIDsKHR"));
    if (icd && path.find("libOpenCL") == std::string::npos) api->clGetPlatformIDs = icd;
  }
  if (!missing.empty()) {
    reason = "it lacks " + missing + " (OpenCL 1.2 is needed)";
    return nullptr;
  }
  return api.release();  // lives as long as the process: objects made through it may outlive everything else
}

bool exists(const std::string& path) { return access(path.c_str(), R_OK) == 0; }

// The path of an ICD loader that is loaded in this process already, or "".
std::string loaded_loader() {
  std::string found;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        const char* base = info->dlpi_name ? std::strrchr(info->dlpi_name, '/') : nullptr;
        if (!base || std::strncmp(base + 1, "libOpenCL", 9) != 0) return 0;
        *static_cast<std::string*>(data) = info->dlpi_name;
        return 1;
      },
      &found);
  return found;
}

std::vector<std::string> search_directories() {
  std::vector<std::string> directories;
  auto add = [&](const std::string& directory) {
    for (const std::string& known : directories)
      if (known == directory) return;
    if (!directory.empty()) directories.push_back(directory);
  };
  if (const char* list = std::getenv("PYLAYOUT_OPENCL_PATH")) {
    std::string text = list;
    for (size_t begin = 0; begin <= text.size();) {
      size_t end = std::min(text.find(':', begin), text.size());
      add(text.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  Dl_info self{};
  if (dladdr(reinterpret_cast<void*>(&libraries), &self) && self.dli_fname) {
    std::string folder = self.dli_fname;
    for (int level = 0; level < 5; ++level) {  // .../lib/python3.x/site-packages/pylayout/libpylayout.so
      size_t slash = folder.rfind('/');
      if (slash == std::string::npos || slash == 0) break;
      folder.resize(slash);
      size_t parent = folder.rfind('/');
      std::string name = folder.substr(parent == std::string::npos ? 0 : parent + 1);
      if (level > 0 && (name == "lib" || name == "lib64")) add(folder);
    }
  }
  return directories;
}

std::string platform_text(const Api& cl, cl_platform_id id, cl_platform_info what) {
  size_t size = 0;
  if (cl.clGetPlatformInfo(id, what, 0, nullptr, &size) != CL_SUCCESS || size == 0) return {};
  std::string text(size, '\0');
  if (cl.clGetPlatformInfo(id, what, size, &text[0], nullptr) != CL_SUCCESS) return {};
  while (!text.empty() && (text.back() == '\0' || text.back() == ' ')) text.pop_back();
  return text;
}

// Adds the platforms `cl` lists that are not known yet; returns how many it listed.
size_t add_platforms(const Api& cl, Libraries& out) {
  cl_uint count = 0;
  // A loader without a runtime answers CL_PLATFORM_NOT_FOUND_KHR.
  if (cl.clGetPlatformIDs(0, nullptr, &count) != CL_SUCCESS || count == 0) return 0;
  std::vector<cl_platform_id> ids(count);
  if (cl.clGetPlatformIDs(count, ids.data(), nullptr) != CL_SUCCESS) return 0;
  for (cl_platform_id id : ids) {
    Platform platform{&cl, id, platform_text(cl, id, CL_PLATFORM_NAME), platform_text(cl, id, CL_PLATFORM_VERSION)};
    bool known = false;
    for (const Platform& other : out.platforms)
      known |= other.id == id || (other.name == platform.name && other.version == platform.version);
    if (platform.name.find("NVIDIA") == 0) platform.cl = calls_in_turn(cl);
    if (!known) out.platforms.push_back(platform);
  }
  return count;
}

const char kHowToAdd[] =
    "to add OpenCL for this machine's CPU: `pip install intel-opencl-rt intel-cmplr-lib-rt`, or Debian's "
    "`pocl-opencl-icd`; for a GPU: its vendor's driver";

Libraries open_all() {
  Libraries out;
  std::string reason;
  const std::vector<std::string> directories = search_directories();
  const char* forced = std::getenv("PYLAYOUT_OPENCL");
  if (forced && *forced) {
    if (std::strcmp(forced, "none") == 0) {
      out.notes.push_back("OpenCL is turned off by PYLAYOUT_OPENCL=none");
      return out;
    }
    const Api* cl = open_library(forced, directories, reason);
    if (!cl)
      out.notes.push_back(concat("OpenCL: PYLAYOUT_OPENCL=", forced, " could not be opened: ", reason));
    else if (add_platforms(*cl, out) == 0)
      out.notes.push_back(concat("OpenCL: PYLAYOUT_OPENCL=", forced, " was opened but lists no platform"));
    else
      out.notes.push_back(concat("OpenCL: ", forced, " (PYLAYOUT_OPENCL)"));
    return out;
  }

  std::vector<std::string> loaders;
  std::string already = loaded_loader();
  if (!already.empty()) loaders.push_back(already);
  loaders.push_back("libOpenCL.so.1");
  // The folder this library finds oneDNN in comes before the system's, and may hold a loader that does not open.
  for (const char* folder : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"})
    if (exists(concat(folder, "/libOpenCL.so.1"))) loaders.push_back(concat(folder, "/libOpenCL.so.1"));
  for (const std::string& directory : directories)
    if (exists(directory + "/libOpenCL.so.1")) loaders.push_back(directory + "/libOpenCL.so.1");
  const Api* loader = nullptr;
  for (const std::string& path : loaders) {
    loader = open_library(path, directories, reason);
    if (!loader) continue;
    size_t platforms = add_platforms(*loader, out);
    out.notes.push_back(
        concat("OpenCL: the loader ", path, " lists ", platforms, platforms == 1 ? " platform" : " platforms"));
    break;
  }
  for (const std::string& directory : directories) {
    std::string path = directory + "/libintelocl.so";
    if (!exists(path)) continue;
    const Api* runtime = open_library(path, directories, reason);
    if (!runtime) {
      out.notes.push_back(concat("OpenCL: Intel's runtime ", path, " could not be opened: ", reason,
                                 "; `pip install intel-cmplr-lib-rt` brings the libraries it needs"));
      continue;
    }
    add_platforms(*runtime, out);
    out.notes.push_back(concat("OpenCL: Intel's runtime ", path));
    break;
  }
  if (out.platforms.empty()) {
    out.notes.push_back(concat(
        loader ? "OpenCL: no runtime is installed; " : "OpenCL: no loader (libOpenCL.so.1) and no runtime were found; ",
        kHowToAdd));
  }
  return out;
}

std::atomic<const Libraries*> opened_libraries{nullptr};

}  // namespace

const Libraries& libraries() {
  static const Libraries* all = [] {
    const auto* opened = new Libraries(open_all());
    opened_libraries = opened;
    return opened;
  }();
  return *all;
}

std::vector<Platform> opened_platforms() {
  const Libraries* opened = opened_libraries;
  return opened ? opened->platforms : std::vector<Platform>();
}

}  // namespace pl::opencl

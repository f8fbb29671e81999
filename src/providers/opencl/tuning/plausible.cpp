#include "providers/opencl/tuning/plausible.h"

#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#include <array>
#include <cstdint>

namespace pl::opencl {
namespace {

constexpr size_t kRetainContext = 6, kContextEntries = 3;  // clRetainContext, clReleaseContext, clGetContextInfo

// The words at an address, by way of a pipe: the kernel answers EFAULT where reading them would be a crash.
template <size_t count>
bool words_at(const void* address, std::array<uintptr_t, count>& words) {
  if (reinterpret_cast<uintptr_t>(address) % alignof(uintptr_t) != 0) return false;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  const ssize_t bytes = sizeof words;  // far less than a pipe holds, so that neither call waits
  const bool read_all =
      write(ends[1], address, sizeof words) == bytes && read(ends[0], words.data(), sizeof words) == bytes;
  close(ends[0]);
  close(ends[1]);
  return read_all;
}

// Whether an address lies in the code of a library of this process.
bool is_code(uintptr_t address) {
  const auto visit = [](dl_phdr_info* library, size_t, void* wanted) {
    for (int i = 0; i < library->dlpi_phnum; ++i) {
      const auto& segment = library->dlpi_phdr[i];
      const uintptr_t inside = *static_cast<const uintptr_t*>(wanted) - (library->dlpi_addr + segment.p_vaddr);
      if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) && inside < segment.p_memsz) return 1;
    }
    return 0;
  };
  return dl_iterate_phdr(visit, &address) != 0;
}

bool has_table(const void* object) {
  std::array<uintptr_t, 1> table{};
  std::array<uintptr_t, kContextEntries> entries{};
  if (!object || !words_at(object, table)) return false;
  if (!words_at(reinterpret_cast<const uintptr_t*>(table[0]) + kRetainContext, entries)) return false;
  for (uintptr_t entry : entries)
    if (!is_code(entry)) return false;
  return true;
}

}  // namespace

bool plausible(const void* object, cl_platform_id known) { return object && (has_table(object) || !has_table(known)); }

}  // namespace pl::opencl

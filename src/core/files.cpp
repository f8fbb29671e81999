#include "core/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

#include "core/dims.h"
#include "core/paths.h"
#include "core/status.h"

namespace pl {
namespace {

constexpr char kTemporaryPrefix[] = ".tmp-";
constexpr time_t kStaleSeconds = 3600;

std::vector<std::string> names_in(const std::string& directory) {  // none if it cannot be read
  std::vector<std::string> names;
  DIR* dir = opendir(directory.c_str());
  if (!dir) return names;
  while (const dirent* entry = readdir(dir)) names.push_back(entry->d_name);
  closedir(dir);
  return names;
}

}  // namespace

std::string cache_directory(std::string_view kind) {
  const std::string base = shared_cache_dir();
  if (base.empty()) return {};
  const std::string directory = concat(base, '/', kind);
  return make_directories(directory) ? directory : std::string();
}

std::optional<std::string> read_file(const std::string& path) {
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  std::string bytes;
  struct stat status {};
  if (fstat(fd, &status) == 0 && status.st_size > 0) bytes.reserve(size_t(status.st_size));
  char chunk[65536];
  ssize_t got;
  while ((got = read(fd, chunk, sizeof chunk)) > 0 || (got < 0 && errno == EINTR))
    if (got > 0) bytes.append(chunk, size_t(got));
  const int error = errno;
  close(fd);
  errno = error;
  if (got < 0) return std::nullopt;
  return bytes;
}

namespace {

// Where a file that is put in the place of `path` goes: where its links lead. Empty, and errno: there is something else
// than a file, such as a device, which a file must not replace.
std::string place_of_file(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return path;  // nothing there, or who writes is told
  if (!S_ISREG(status.st_mode)) {
    errno = S_ISDIR(status.st_mode) ? EISDIR : ENOTSUP;
    return {};
  }
  char* resolved = realpath(path.c_str(), nullptr);
  const std::string place = resolved ? resolved : path;
  free(resolved);
  return place;
}

}  // namespace

bool write_file_atomically(const std::string& given, std::string_view bytes) {
  static std::atomic<uint64_t> counter{0};
  const std::string path = place_of_file(given);
  if (path.empty()) return false;
  size_t slash = path.rfind('/');
  std::string directory = slash == std::string::npos ? std::string(".") : path.substr(0, slash);
  std::string temporary = directory + '/' + kTemporaryPrefix + std::to_string(getpid()) + '-' +
                          std::to_string(counter.fetch_add(1)) + '-' + std::to_string(std::time(nullptr));
  int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return false;
  bool good = true;
  for (size_t done = 0; good && done < bytes.size();) {
    ssize_t wrote = write(fd, bytes.data() + done, bytes.size() - done);
    if (wrote > 0)
      done += size_t(wrote);
    else if (wrote < 0 && errno != EINTR)
      good = false;
  }
  const int error = errno;
  if (close(fd) != 0) {
    good = false;
  } else {
    errno = error;  // of the write
  }
  good = good && rename(temporary.c_str(), path.c_str()) == 0;
  if (!good) {
    const int error = errno;
    unlink(temporary.c_str());
    errno = error;
  }
  return good;
}

void remove_files(const std::string& directory) {
  for (const std::string& name : names_in(directory))
    unlink((directory + '/' + name).c_str());  // fails for directories
}

void remove_stale_temporaries(const std::string& directory) {
  const time_t now = std::time(nullptr);
  for (const std::string& name : names_in(directory)) {
    if (name.rfind(kTemporaryPrefix, 0) != 0) continue;
    const std::string path = directory + '/' + name;
    struct stat status {};
    if (stat(path.c_str(), &status) == 0 && now - status.st_mtime > kStaleSeconds) unlink(path.c_str());
  }
}

uint64_t checksum(std::string_view bytes, uint64_t seed) {
  uint64_t hash = hash_mix(seed, bytes.size());
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + i, 8);
    hash = hash_mix(hash, word);
  }
  uint64_t tail = 0;
  std::memcpy(&tail, bytes.data() + i, bytes.size() - i);
  return hash_mix(hash, tail);
}

std::string hex(uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

}  // namespace pl

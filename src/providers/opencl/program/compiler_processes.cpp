#include "providers/opencl/program/compiler_processes.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

extern char** environ;

namespace pl::opencl {
namespace {

constexpr int kStartMs = 20000;     // until a helper must have made its context (1 to 2.3 s on 16 cores with an H200)
constexpr int kCompileMs = 120000;  // until it must have compiled a program
constexpr size_t kDeviceBytes = size_t(2) << 30;  // of device memory for each: its context takes up to 0.5 GiB

bool send_all(int socket, const void* data, size_t bytes) {
  auto at = static_cast<const char*>(data);
  while (bytes) {
    const ssize_t sent = send(socket, at, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    bytes -= size_t(sent);
  }
  return true;
}

// The byte that comes within so many ms; 0 where none does, or the other side is gone.
char receive(int socket, int ms) {
  pollfd one{socket, POLLIN, 0};
  int ready;
  do ready = poll(&one, 1, ms);
  while (ready < 0 && errno == EINTR);
  char byte = 0;
  return ready == 1 && recv(socket, &byte, 1, 0) == 1 ? byte : char(0);
}

}  // namespace

// As in the Python package and in build folders, or in libexec of the prefix that it is installed in.
std::string CompilerProcesses::beside_this_library() {
  Dl_info self{};
  if (!dladdr(reinterpret_cast<void*>(&CompilerProcesses::beside_this_library), &self) || !self.dli_fname) return {};
  std::string folder = self.dli_fname;
  const size_t slash = folder.rfind('/');
  folder = slash == std::string::npos ? "." : folder.substr(0, slash);
  for (const char* place : {"/pylayout-compiler", "/../libexec/pylayout/pylayout-compiler"})
    if (access((folder + place).c_str(), X_OK) == 0) return folder + place;
  return {};
}

CompilerProcesses::CompilerProcesses(Target target, int limit, std::string path)
    : target_(std::move(target)), limit_(limit), path_(std::move(path)), starting_(std::max(1, limit)) {
  if (const char* wanted = std::getenv("PYLAYOUT_COMPILERS")) limit_ = std::clamp(std::atoi(wanted), 0, 64);
  const char* off = std::getenv("CUDA_CACHE_DISABLE");  // without the driver's cache nothing would come of it
  if (off && std::strcmp(off, "1") == 0) limit_ = 0;
  if (path_.empty()) limit_ = 0;
}

CompilerProcesses::~CompilerProcesses() {
  starting_.stop();
  for (Helper& helper : idle_) end(helper);
}

int CompilerProcesses::useful(int processors, size_t device_memory) {
  // More wait for each other as they open the driver: four are ready after 1.0 s, eight after 1.7, twelve after 2.3.
  return processors < 4 ? 0 : int(std::min<size_t>({6, size_t(processors) / 2, device_memory / kDeviceBytes}));
}

int CompilerProcesses::limit() const {
  std::lock_guard<std::mutex> guard(lock_);
  return limit_;
}

uint64_t CompilerProcesses::compiled() const {
  std::lock_guard<std::mutex> guard(lock_);
  return compiled_;
}

std::vector<pid_t> CompilerProcesses::idle() const {
  std::lock_guard<std::mutex> guard(lock_);
  std::vector<pid_t> pids;
  for (const Helper& helper : idle_) pids.push_back(helper.pid);
  return pids;
}

CompilerProcesses::Here CompilerProcesses::ahead(Kind kind, std::string_view program, const std::string& options) {
  Helper helper;
  {
    std::unique_lock<std::mutex> guard(lock_);
    drop_ended();
    // Once there are helpers nothing is compiled here: what they have finished would wait for it.
    const auto free_here = [&] { return limit_ == 0 || (here_ == 0 && ready_ == 0); };
    changed_.wait(guard, [&] { return !idle_.empty() || free_here() || helpers_ < limit_; });
    if (!idle_.empty()) {
      helper = idle_.back();
      idle_.pop_back();
    } else if (free_here()) {
      ++here_;
      return Here(this);
    } else {
      ++helpers_;
    }
  }
  bool built = false, alive = true, started = true;
  if (helper.socket < 0) {
    alive = started = start(helper);
    std::lock_guard<std::mutex> guard(lock_);
    ready_ += started;
  }
  alive = alive && ask(helper, kind, program, options, built);
  if (!alive) end(helper);
  std::lock_guard<std::mutex> guard(lock_);
  if (alive)
    idle_.push_back(helper);
  else
    --helpers_, ready_ -= started;
  if (!started) limit_ = 0;  // here is none that works
  compiled_ += built;
  changed_.notify_all();
  return {};
}

void CompilerProcesses::prepare() {
  const auto begin = [this] {
    Helper helper;
    const bool started = start(helper);
    if (!started) end(helper);
    std::lock_guard<std::mutex> guard(lock_);
    if (started) {
      ++ready_;
      idle_.push_back(helper);
    } else {
      --helpers_;
      limit_ = 0;  // here is none that works
    }
    changed_.notify_all();
  };
  std::lock_guard<std::mutex> guard(lock_);
  drop_ended();
  for (; helpers_ < limit_ && starting_.add(begin); ++helpers_) {
  }
}

void CompilerProcesses::leave() {
  std::lock_guard<std::mutex> guard(lock_);
  --here_;
  changed_.notify_all();
}

bool CompilerProcesses::start(Helper& helper) const {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return false;
  const std::string device = std::to_string(target_.device);
  const char* arguments[] = {path_.c_str(),           target_.library.c_str(), target_.platform.c_str(),
                             target_.version.c_str(), device.c_str(),          nullptr};
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, ends[1], 0);
  for (int output : {1, 2}) posix_spawn_file_actions_addopen(&files, output, "/dev/null", O_WRONLY, 0);
  const int code = posix_spawn(&helper.pid, path_.c_str(), &files, nullptr, const_cast<char**>(arguments), environ);
  posix_spawn_file_actions_destroy(&files);
  close(ends[1]);
  helper.socket = ends[0];
  if (code != 0) helper.pid = -1;
  return code == 0 && receive(helper.socket, kStartMs) == 'r';
}

// Helpers that had nothing to do for a while have ended: they neither say anything nor hold their end.
void CompilerProcesses::drop_ended() {
  const auto gone = std::remove_if(idle_.begin(), idle_.end(), [&](Helper& helper) {
    char byte;
    if (recv(helper.socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN) return false;
    end(helper);
    --helpers_, --ready_;
    return true;
  });
  idle_.erase(gone, idle_.end());
}

// False where the helper is of no more use.
bool CompilerProcesses::ask(const Helper& helper, Kind kind, std::string_view program, const std::string& options,
                            bool& built) {
  const uint64_t head[3] = {kind == Kind::binary, program.size(), options.size()};
  if (!send_all(helper.socket, head, sizeof head) || !send_all(helper.socket, program.data(), program.size()) ||
      !send_all(helper.socket, options.data(), options.size()))
    return false;
  const char byte = receive(helper.socket, kCompileMs);
  built = byte == 'b';
  return byte != 0;
}

void CompilerProcesses::end(Helper& helper) {
  if (helper.socket >= 0) close(helper.socket);
  if (helper.pid > 0) {
    kill(helper.pid, SIGKILL);
    while (waitpid(helper.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  helper = {};
}

}  // namespace pl::opencl

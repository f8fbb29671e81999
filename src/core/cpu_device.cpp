// The host processor as a Device.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include "core/device.h"
#include "core/threads.h"

namespace pl {
namespace {

struct CpuInfo {
  std::string model = "unknown";
  std::string isa;
};

// What costs depend on: the model's name and the vector extensions, from the operating system.
CpuInfo read_cpu_info() {
  CpuInfo info;
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (colon != std::string::npos && line.compare(0, 10, "model name") == 0) info.model = line.substr(colon + 2);
    if (line.empty() && info.model != "unknown") break;
  }
#if defined(__x86_64__) || defined(__i386__)
  __builtin_cpu_init();
  const auto add = [&](bool has, const char* name) {
    if (has) info.isa += (info.isa.empty() ? "" : " ") + std::string(name);
  };
  add(__builtin_cpu_supports("sse4.2"), "sse4.2");
  add(__builtin_cpu_supports("avx"), "avx");
  add(__builtin_cpu_supports("avx2"), "avx2");
  add(__builtin_cpu_supports("fma"), "fma");
  add(__builtin_cpu_supports("avx512f"), "avx512f");
  add(__builtin_cpu_supports("avx512bw"), "avx512bw");
  add(__builtin_cpu_supports("avx512vnni"), "avx512vnni");
  add(__builtin_cpu_supports("avx512bf16"), "avx512bf16");
#endif
  return info;
}

class WallTiming : public Timing {
 public:
  void stop() override { end_ = std::chrono::steady_clock::now(); }
  double milliseconds() override { return std::chrono::duration<double, std::milli>(end_ - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now(), end_ = start_;
};

class CpuDevice : public Device {
 public:
  CpuDevice() : Device("cpu", raw_memory()), info_(read_cpu_info()) {}

  std::string fingerprint() const override {
    return "cpu|" + info_.model + "|" + info_.isa + "|" + std::to_string(std::thread::hardware_concurrency());
  }
  std::map<std::string, std::string> properties() const override {
    return {{"model", info_.model},
            {"isa", info_.isa},
            {"processors", std::to_string(std::thread::hardware_concurrency())}};
  }
  bool host_memory() const override { return true; }
  void read(Buffer& source, size_t offset, void* destination, size_t bytes) override {
    if (bytes) std::memcpy(destination, static_cast<char*>(source.host()) + offset, bytes);
  }
  void write(Buffer& destination, size_t offset, const void* source, size_t bytes) override {
    if (bytes) std::memcpy(static_cast<char*>(destination.host()) + offset, source, bytes);
  }
  void fill_zero(Buffer& destination, size_t offset, size_t bytes) override {
    if (bytes) std::memset(static_cast<char*>(destination.host()) + offset, 0, bytes);
  }
  void copy(Buffer& source, Buffer& destination, size_t bytes) override {
    copy_bytes(destination.host(), source.host(), bytes);
  }
  void synchronize() override {}
  std::unique_ptr<Timing> start_timing() override { return std::make_unique<WallTiming>(); }

 private:
  static RawMemory raw_memory() {
    return {[](size_t bytes) -> std::unique_ptr<Block> {
              void* host = nullptr;
              if (posix_memalign(&host, bytes < 65536 ? 128 : kHostAlignment, bytes) != 0) return nullptr;
              auto block = std::make_unique<Block>();
              block->host = host;
              block->bytes = bytes;
              return block;
            },
            [](std::unique_ptr<Block> block) {
              block->companions.clear();  // before the memory they refer to
              std::free(block->host);
            }};
  }
  CpuInfo info_;
};

}  // namespace

std::shared_ptr<Device> make_cpu_device() { return std::make_shared<CpuDevice>(); }

}  // namespace pl

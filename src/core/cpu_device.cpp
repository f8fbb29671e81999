// The host processor as a Device.
#ifdef __linux__
#include <sys/auxv.h>
#include <sys/mman.h>
#endif

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
  std::string implementer, part;  // what there is on AArch64, where no line says "model name"
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    const auto begins = [&](const char* name) { return line.compare(0, std::strlen(name), name) == 0; };
    if (colon != std::string::npos) {
      const std::string value = line.substr(colon + 2);
      if (begins("model name")) info.model = value;
      if (begins("CPU implementer")) implementer = value;
      if (begins("CPU part")) part = value;
    }
    if (line.empty() && (info.model != "unknown" || !part.empty())) break;
  }
  if (info.model == "unknown" && !part.empty()) info.model = "implementer " + implementer + " part " + part;
  [[maybe_unused]] const auto add = [&](bool has, const char* name) {
    if (has) info.isa += (info.isa.empty() ? "" : " ") + std::string(name);
  };
#if defined(__aarch64__) && defined(__linux__)
  const unsigned long has = getauxval(AT_HWCAP);  // the bits are those of Linux' <asm/hwcap.h>
  add(has & (1ul << 1), "asimd");
  add(has & (1ul << 10), "asimdhp");
  add(has & (1ul << 20), "asimddp");
  add(has & (1ul << 22), "sve");
#elif defined(__x86_64__) || defined(__i386__)
  __builtin_cpu_init();
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

// Weights are read once a run, in an order that changes pages often: with pages of 4 KiB the processor looks most of
// them up in memory.  In huge ones products of 50 rows take 0.87 to 0.93 of the time.
constexpr size_t kHugePage = size_t(2) << 20;

bool huge_pages_wanted() {
  static const bool wanted = [] {
    const char* setting = std::getenv("PYLAYOUT_HUGE_PAGES");
    return !setting || std::strcmp(setting, "0") != 0;
  }();
  return wanted;
}

// Null if there is no memory left.
void* allocate_host(size_t bytes) {
  const bool huge = bytes >= kHugePage && huge_pages_wanted();
  void* host = nullptr;
  if (posix_memalign(&host, huge ? kHugePage : bytes < 65536 ? 128 : kHostAlignment, bytes) != 0) return nullptr;
#ifdef MADV_HUGEPAGE
  // Whole pages only: nothing behind the block becomes resident.  A system without huge pages refuses; small ones
  // serve.
  if (huge) madvise(host, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
  return host;
}

class CpuDevice : public Device {
 public:
  CpuDevice() : Device("cpu", traits_of_cpu(), raw_memory()), info_(read_cpu_info()) {}

  std::string fingerprint() const override { return "cpu|" + info_.model + "|" + info_.isa + "|" + processors_; }
  std::map<std::string, std::string> properties() const override {
    return {{"model", info_.model}, {"isa", info_.isa}, {"processors", processors_}};
  }
  void read(Buffer& source, size_t offset, void* destination, size_t bytes) override {
    if (bytes) std::memcpy(destination, static_cast<char*>(source.host()) + offset, bytes);
  }
  void write(Buffer& destination, size_t offset, const void* source, size_t bytes) override {
    if (bytes) std::memcpy(static_cast<char*>(destination.host()) + offset, source, bytes);
  }
  void fill_zero(Buffer& destination, size_t offset, size_t bytes) override {
    if (bytes) std::memset(static_cast<char*>(destination.host()) + offset, 0, bytes);
  }
  void copy(Buffer& source, size_t source_offset, Buffer& destination, size_t destination_offset,
            size_t bytes) override {
    copy_bytes(static_cast<char*>(destination.host()) + destination_offset,
               static_cast<const char*>(source.host()) + source_offset, bytes);
  }
  void synchronize() override {}
  std::unique_ptr<Timing> start_timing() override { return std::make_unique<WallTiming>(); }

 private:
  static DeviceTraits traits_of_cpu() {
    DeviceTraits traits;
    traits.threads = traits.host_addressable = true;
    return traits;
  }
  static RawMemory raw_memory() {
    return {[](size_t bytes) -> std::unique_ptr<Block> {
              void* host = allocate_host(bytes);
              if (!host) return nullptr;
              auto block = std::make_unique<Block>();
              block->host = host;
              block->bytes = bytes;
              return block;
            },
            [](std::unique_ptr<Block> block) {
              block->companions.clear();  // before the memory they refer to
              std::free(block->host);
            },
            nullptr};
  }
  CpuInfo info_;
  const std::string processors_ = std::to_string(std::thread::hardware_concurrency());  // which reads files
};

}  // namespace

std::shared_ptr<Device> make_cpu_device() { return std::make_shared<CpuDevice>(); }

}  // namespace pl

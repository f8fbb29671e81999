#include "providers/opencl/program/program_cache.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "core/dims.h"
#include "core/files.h"
#include "providers/building.h"
#include "providers/opencl/program/ptx.h"

namespace pl::opencl {
namespace {

// File: magic, key size, binary size, checksum of key, checksum of binary (8 bytes each), key, binary.
constexpr char kMagic[8] = {'P', 'L', 'C', 'L', 'B', 'I', 'N', '1'};
constexpr size_t kHeaderBytes = 40;
constexpr size_t kLogLimit = 6000;  // characters of a build log that an error shows

uint64_t read_u64(const std::string& bytes, size_t at) {
  uint64_t value;
  std::memcpy(&value, bytes.data() + at, 8);
  return value;
}

void append_u64(std::string& bytes, uint64_t value) { bytes.append(reinterpret_cast<const char*>(&value), 8); }

}  // namespace

ProgramCache::ProgramCache(const Api* cl, cl_context context, cl_device_id device, std::string fingerprint,
                           bool on_disk, CompilerProcesses& compilers)
    : cl_(cl),
      context_(context),
      device_(device),
      fingerprint_(std::move(fingerprint)),
      on_disk_(on_disk),
      compilers_(compilers) {}

ProgramRef ProgramCache::get(const std::string& name, const std::string& source, const std::string& options) {
  Key key;
  key.low = checksum(source, checksum(options, 1));
  key.high = checksum(source, checksum(options, key.low));
  std::promise<ProgramRef> promise;
  std::shared_future<ProgramRef> others;
  {
    std::lock_guard<std::mutex> guard(lock_);
    if (Building::wish() == Building::never && !programs_.count(key)) throw NotBuilt();
    Known& known = programs_[key];
    if (ProgramRef program = known.program.lock()) {
      remember(program);
      return program;
    }
    if (Building::wish() == Building::never) throw NotBuilt();
    others = known.building;
    if (!others.valid()) known.building = promise.get_future().share();
  }
  if (others.valid()) return others.get();
  try {
    ProgramRef program = load_or_build(key, name, source, options);
    {
      std::lock_guard<std::mutex> guard(lock_);
      programs_[key] = {{}, program};
      remember(program);
    }
    promise.set_value(program);
    return program;
  } catch (...) {
    promise.set_exception(std::current_exception());
    std::lock_guard<std::mutex> guard(lock_);
    programs_.erase(key);  // a failure may be passing (out of memory): the next caller tries again
    throw;
  }
}

void ProgramCache::expect_many() {
  {
    std::lock_guard<std::mutex> guard(lock_);
    if (!programs_.empty()) return;
  }
  const std::string directory = on_disk_ ? cache_directory("programs") : std::string();
  std::error_code problem;
  if (directory.empty() || std::filesystem::is_empty(directory, problem) || problem) compilers_.prepare();
}

// With lock_ held.
void ProgramCache::remember(const ProgramRef& program) {
  const auto at = std::find(recent_.begin(), recent_.end(), program);
  if (at != recent_.end()) recent_.erase(at);
  recent_.push_back(program);
  if (recent_.size() <= kRecent) return;
  recent_.pop_front();
  if (programs_.size() % kRecent != 0) return;  // now and then
  for (auto it = programs_.begin(); it != programs_.end();)
    it = !it->second.building.valid() && it->second.program.expired() ? programs_.erase(it) : std::next(it);
}

ProgramCache::Statistics ProgramCache::statistics() const {
  std::lock_guard<std::mutex> guard(lock_);
  Statistics result = statistics_;
  for (const auto& [key, known] : programs_) result.held += !known.program.expired();
  return result;
}

ProgramRef ProgramCache::load_or_build(const Key& key, const std::string& name, const std::string& source,
                                       const std::string& options) {
  std::string directory = on_disk_ ? cache_directory("programs") : std::string();
  std::string path, key_text;
  if (!directory.empty()) {
    key_text = concat(fingerprint_, '\n', options, '\n', source.size(), ' ', key.low, ' ', key.high);
    path = directory + '/' + hex(checksum(key_text, 2)) + hex(checksum(key_text, 3)) + ".clbin";
    Program program = load(path, key_text, options);
    if (program) return std::make_shared<const Program>(std::move(program));
  }
  Program program = build(name, source, options);
  if (!path.empty()) store(path, key_text, program.get());
  return std::make_shared<const Program>(std::move(program));
}

Program ProgramCache::build(const std::string& name, const std::string& source, const std::string& options) {
  const char* text = source.data();
  size_t size = source.size();
  cl_int code = CL_SUCCESS;
  Program program(cl_, cl_->clCreateProgramWithSource(context_, 1, &text, &size, &code));
  check_cl(code, "creating the OpenCL program " + name);
  {
    const auto turn = compilers_.ahead(CompilerProcesses::Kind::source, source, options);
    code = cl_->clBuildProgram(program.get(), 1, &device_, options.c_str(), nullptr, nullptr);
  }
  if (code != CL_SUCCESS) {
    std::string log;
    size_t log_size = 0;
    if (cl_->clGetProgramBuildInfo(program.get(), device_, CL_PROGRAM_BUILD_LOG, 0, nullptr, &log_size) == CL_SUCCESS &&
        log_size > 0) {
      log.resize(log_size);
      cl_->clGetProgramBuildInfo(program.get(), device_, CL_PROGRAM_BUILD_LOG, log_size, &log[0], nullptr);
      log.resize(std::strlen(log.c_str()));
    }
    if (log.size() > kLogLimit) log = log.substr(0, kLogLimit) + "\n[the rest of the log is cut]";
    fail(code == CL_BUILD_PROGRAM_FAILURE ? Code::device
         : is_allocation_failure(code)    ? Code::out_of_memory
                                          : Code::device,
         "building the OpenCL program ", name, " failed: ", error_name(code), " (", code, ")\noptions: ", options, "\n",
         log);
  }
  const bool marked = source.find(kSm90aMark) != std::string::npos;
  const std::string binary = marked ? binary_of(program.get()) : std::string();
  const std::string for_sm_90a = with_sm_90a(binary);
  if (for_sm_90a.empty()) {  // nothing may be left of them as comments
    const bool left = binary.find(kSm90aMark) != std::string::npos || source.find(kNeedsSm90a) != std::string::npos;
    require(!left, Code::device, "the driver gives no PTX for sm_90 of the OpenCL program ", name);
  } else {
    const auto turn = compilers_.ahead(CompilerProcesses::Kind::binary, for_sm_90a, options);
    program = from_binary(for_sm_90a, options);
    require(bool(program), Code::device, "the driver refuses the OpenCL program ", name, " for sm_90a");
  }
  std::lock_guard<std::mutex> guard(lock_);
  ++statistics_.built;
  return program;
}

// Null where the driver refuses it.
Program ProgramCache::from_binary(std::string_view binary, const std::string& options) {
  const auto* data = reinterpret_cast<const unsigned char*>(binary.data());
  size_t size = binary.size();
  cl_int status = CL_SUCCESS, code = CL_SUCCESS;
  Program program(cl_, cl_->clCreateProgramWithBinary(context_, 1, &device_, &size, &data, &status, &code));
  if (code != CL_SUCCESS || status != CL_SUCCESS) return {};
  if (cl_->clBuildProgram(program.get(), 1, &device_, options.c_str(), nullptr, nullptr) != CL_SUCCESS) return {};
  return program;
}

// Empty where the runtime has none.
std::string ProgramCache::binary_of(cl_program program) {
  // The program was made for one device, so there is one binary.
  size_t size = 0;
  if (cl_->clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, nullptr) != CL_SUCCESS) return {};
  std::string binary(size, '\0');
  auto* data = reinterpret_cast<unsigned char*>(&binary[0]);
  if (size && cl_->clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof data, &data, nullptr) != CL_SUCCESS) return {};
  return binary;
}

Program ProgramCache::load(const std::string& path, const std::string& key_text, const std::string& options) {
  std::optional<std::string> bytes = read_file(path);
  if (!bytes) return {};
  auto unusable = [this] {
    std::lock_guard<std::mutex> guard(lock_);
    ++statistics_.damaged;
    return Program();
  };
  if (bytes->size() < kHeaderBytes || std::memcmp(bytes->data(), kMagic, sizeof kMagic) != 0) return unusable();
  uint64_t key_size = read_u64(*bytes, 8), binary_size = read_u64(*bytes, 16);
  uint64_t left = bytes->size() - kHeaderBytes;
  if (key_size > left || binary_size != left - key_size || binary_size == 0) return unusable();
  std::string_view all = *bytes;
  std::string_view key = all.substr(kHeaderBytes, key_size), binary = all.substr(kHeaderBytes + key_size);
  if (checksum(key) != read_u64(*bytes, 24) || checksum(binary) != read_u64(*bytes, 32) || key != key_text)
    return unusable();

  Program program = from_binary(binary, options);
  if (!program) return unusable();
  std::lock_guard<std::mutex> guard(lock_);
  ++statistics_.loaded;
  return program;
}

void ProgramCache::store(const std::string& path, const std::string& key_text, cl_program program) {
  const std::string binary = binary_of(program);
  if (binary.empty()) return;  // a runtime without binaries is no failure
  std::string bytes(kMagic, sizeof kMagic);
  append_u64(bytes, key_text.size());
  append_u64(bytes, binary.size());
  append_u64(bytes, checksum(key_text));
  append_u64(bytes, checksum(binary));
  bytes += key_text;
  bytes += binary;
  write_file_atomically(path, bytes);
  static std::once_flag cleaned;
  std::call_once(cleaned, [&] { remove_stale_temporaries(path.substr(0, path.rfind('/'))); });
}

}  // namespace pl::opencl

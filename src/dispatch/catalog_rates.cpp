// Catalog: the rates of a device, which estimates rest on.
#include <algorithm>
#include <limits>

#include "core/clock.h"
#include "dispatch/catalog.h"
#include "dispatch/cost_database.h"
#include "dispatch/machine.h"

namespace pl {
namespace {

// In the database, where the device's providers are not: the rates, and those taken on a busy machine.
constexpr const char *kRates = "rates", *kBusyRates = "busy rates";

// GPUs' is that of a larger product, which the other key never was.
const char* flops_key(const Device& device) { return device.traits().gpu ? "large_flops_per_ms" : "flops_per_ms"; }

// By the names under which the database keeps them.
std::vector<std::pair<const char*, double*>> parts_of(Rates& rates, const Device& device) {
  return {{"bytes_per_ms", &rates.bytes_per_ms},
          {flops_key(device), &rates.flops_per_ms},
          {"overhead_ms", &rates.overhead_ms},
          {"transfer_bytes_per_ms", &rates.transfer_bytes_per_ms},
          {"transfer_overhead_ms", &rates.transfer_overhead_ms}};
}

// Until a GPU's are measured.  Products reach three quarters of what it can do, and a byte takes as long as 16 of these
// operations: as on an H200; on GPUs for games two to four times as many, on those in a processor twice.
Rates expected_rates(const Device& device) {
  Rates rates;
  if (const double peak = device.peak_flops_per_ms(); peak > 0) {
    rates.flops_per_ms = 0.75 * peak;
    rates.bytes_per_ms = peak / 16;
  }
  return rates;
}

}  // namespace

// Those that are kept, where they need not be measured again.
std::optional<Rates> Catalog::kept_rates(const std::string& key, const Device& device) {
  const auto read = [&](const char* op) -> std::optional<Rates> {
    Rates rates;
    for (const auto& [name, value] : parts_of(rates, device)) {
      const auto known = costs_.find(key, op, name);
      if (!known) return std::nullopt;
      *value = *known;
    }
    return rates;
  };
  if (const auto known = read(kRates)) return known;
  const auto busy = read(kBusyRates);
  return busy && machine_.options().tuning != Tuning::off && is_quiet(device, 0) ? std::nullopt : busy;
}

Rates Catalog::rates(Device& device) {
  const std::string key = environment(device, "rates");
  {
    std::lock_guard<std::mutex> guard(rates_lock_);
    auto it = rates_.find(key);
    if (it != rates_.end()) return it->second.rates;
  }
  const std::optional<Rates> known = kept_rates(key, device);
  const bool gpu = device.traits().gpu;
  if (!known && !gpu) return machine_.options().tuning == Tuning::off ? Rates() : calibrate(device);
  std::lock_guard<std::mutex> guard(rates_lock_);
  return rates_.emplace(key, KnownRates{known.value_or(expected_rates(device)), known.has_value()}).first->second.rates;
}

bool Catalog::find_rates(Device& device, const Ready& ready) {
  const std::string key = environment(device, "rates");
  rates(device);
  {
    std::lock_guard<std::mutex> guard(rates_lock_);
    auto it = rates_.find(key);
    if (it != rates_.end() && it->second.measured) return false;
  }
  calibrate(device, ready);
  return true;
}

Rates Catalog::calibrate(Device& device, const Ready& ready) {
  Rates rates;
  const auto since = Load::Clock::now();
  // Set before measuring: pricing the calibration's own ops asks for rates.
  const std::string key = environment(device, "rates");
  {
    std::lock_guard<std::mutex> guard(rates_lock_);
    rates_[key] = {rates, true};
  }
  struct Forget {  // where an error or an interrupt ends it, the next call measures again
    Catalog& catalog;
    const std::string& key;
    bool done = false;
    ~Forget() {
      if (done) return;
      std::lock_guard<std::mutex> guard(catalog.rates_lock_);
      catalog.rates_.erase(key);
    }
  } forget{*this, key};
  const auto best = [&](const char* name, const std::vector<TensorDesc>& inputs) -> std::optional<double> {
    const Schema* schema = find_schema(name);
    if (!schema) return std::nullopt;
    const EntryRef held = entry(make_op(*schema, {}, inputs), device);
    Entry& found = *held;
    MeasureLimits limits;
    limits.op_seconds = 0.1;
    limits.without_compiling = !device.traits().compiles;  // compilers take longer than all else here
    if (device.traits().compiles) limits.ways = 2;
    std::optional<double> least;
    const auto take = [&] {
      if (ready) {
        std::vector<size_t> ways = to_measure(found, Tuning::automatic, limits.without_compiling);
        ways.resize(std::min(ways.size(), limits.ways));
        if (!ways.empty()) ready(held, ways);
      }
      measure(found, Tuning::automatic, limits);
      for (const Way& way : found.ways)
        if (way.measured && way.usable) least = std::min(least.value_or(way.ms), double(way.ms));
    };
    take();
    limits.without_compiling = false;
    if (!least) take();
    return least;
  };
  const auto f32 = [](std::initializer_list<int64_t> shape) { return TensorDesc::dense(DType::f32, Dims(shape)); };
  const int64_t large = int64_t(8) << 20;  // 32 MiB each way: beyond the caches of one socket's share
  if (const auto ms = best("relu", {f32({16})})) rates.overhead_ms = *ms;
  if (const auto ms = best("relu", {f32({large})})) rates.bytes_per_ms = double(large) * 8 / *ms;
  // On a GPU one that takes much longer than to start it: at 512 an H200 reached a fifth of its rate.
  const int64_t side = device.traits().gpu ? 2048 : 512;
  if (const auto ms = best("matmul", {f32({side, side}), f32({side, side})}))
    rates.flops_per_ms = 2.0 * double(side * side * side) / *ms;
  bool complete = true;
  BufferRef buffer;
  if (!device.traits().host_addressable) {
    try {
      buffer = device.allocate(size_t(large));
    } catch (const Error& error) {  // what is expected will do, in this process
      if (error.code() != Code::out_of_memory) throw;
      complete = false;
    }
  }
  if (buffer) {
    std::vector<char> host(size_t(large), 1);
    const auto time = [&](size_t bytes) {
      double ms = std::numeric_limits<double>::infinity();
      for (int i = 0; i < 5; ++i) {
        device.synchronize();
        const double start = now_ms();
        device.write(*buffer, 0, host.data(), bytes);
        ms = std::min(ms, now_ms() - start);
      }
      return ms;
    };
    rates.transfer_overhead_ms = time(64);
    rates.transfer_bytes_per_ms = double(large) / std::max(1e-6, time(host.size()) - rates.transfer_overhead_ms);
  }
  const char* op = was_disturbed(device, 0, since) ? kBusyRates : kRates;
  if (complete)
    for (const auto& [name, value] : parts_of(rates, device)) costs_.record(key, op, name, *value);
  std::lock_guard<std::mutex> guard(rates_lock_);
  rates_[key] = {rates, true};
  forget.done = true;
  return rates;
}

}  // namespace pl

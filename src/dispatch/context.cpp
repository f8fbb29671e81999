#include "dispatch/context.h"

#include <algorithm>
#include <cstring>

#include "core/files.h"
#include "core/json.h"
#include "core/paths.h"
#include "core/threads.h"
#include "dispatch/catalog.h"
#include "dispatch/conversion.h"
#include "dispatch/cost_database.h"
#include "dispatch/cost_tables.h"
#include "dispatch/dispatcher.h"
#include "dispatch/later_measuring.h"
#include "dispatch/runner.h"
#include "dispatch/tuner.h"
#include "profile/profile.h"

namespace pl {

std::shared_ptr<Context> Context::create(const ContextOptions& options) {
  return std::shared_ptr<Context>(new Context(options));
}

Context::Context(const ContextOptions& options) : Machine(options) {
  costs_ = std::make_unique<CostDatabase>(options_.cache_dir);
  profile_ = std::make_unique<Profile>();
  catalog_ = std::make_unique<Catalog>(*this, *costs_);
  later_ = std::make_unique<LaterMeasuring>(*this, *catalog_, *profile_);
  conversions_ = std::make_unique<Conversions>(*this, *catalog_, *later_);
  runner_ = std::make_unique<Runner>(*this, *catalog_, *conversions_, *profile_);
  dispatcher_ = std::make_unique<Dispatcher>(*this, *catalog_, *later_, *conversions_, *runner_, *profile_);
}

Context::~Context() = default;

void Context::set_options(const ContextOptions& options) {
  options_.tuning = options.tuning;
  if (options.math != options_.math) {
    options_.math = options.math;
    dispatcher_->forget_decisions();
  }
  if (options.threads != options_.threads) {
    // Costs depend on the number of threads.
    options_.threads = options.threads;
    catalog_->forget_costs();
    dispatcher_->contest().forget();
    dispatcher_->forget_decisions();
  }
}

std::string Context::devices_json() const {
  Json json;
  json.object().key("devices").list();
  for (const auto& device : devices()) {
    json.object().field("name", device->name()).key("providers").list();
    for (Provider* provider : providers_of(*device)) json.value(provider->name());
    json.end().field("fingerprint", device->fingerprint()).key("properties").object();
    for (const auto& [key, value] : device->properties()) json.field(key, value);
    json.end().end();
  }
  json.end().key("providers").list();
  for (const auto& provider : providers())
    json.object()
        .field("name", provider->name())
        .field("version", provider->version())
        .field("notes", provider->notes())
        .end();
  json.end().key("wrong").list();
  for (const auto& device : devices())
    for (Provider* provider : providers_of(*device))
      for (const CostDatabase::Record& record : catalog_->found_wrong(*device, provider->name()))
        json.object()
            .field("device", device->name())
            .field("op", record.op)
            .field("candidate", record.candidate)
            .field("difference", record.ms)
            .end();
  json.end().field("threads", int(options_.threads)).field("cache_dir", options_.cache_dir).end();
  return json.str();
}

std::vector<TensorRef> Context::run(const Schema& schema, const CallRef& call, const std::vector<TensorRef>& inputs,
                                    const std::vector<TensorRef>& destinations) {
  return dispatcher_->run(schema, call, inputs, destinations);
}

void Context::run_all(const std::vector<OpCall>& calls) { dispatcher_->run_all(calls); }

TensorRef Context::convert(const TensorRef& tensor, Device& device, const Layout& layout, DType dtype) {
  const TensorDesc wanted = TensorDesc::dense(dtype, tensor->desc().shape, layout);
  dispatcher_->trim();
  return runner_->convert(tensor, device, wanted, "activation", "to", true);
}

void Context::copy(const TensorRef& source, const TensorRef& destination) {
  const TensorDesc &from = source->desc(), &to = destination->desc();
  require(from.shape == to.shape && from.dtype == to.dtype, Code::invalid_argument, "copy: source is ", from,
          ", expected the shape and dtype of destination, ", to);
  if (from.elements() == 0) return;
  dispatcher_->trim();
  runner_->convert_into(source, destination, "copy");
}

void Context::read(const TensorRef& tensor, void* data, size_t bytes, bool later) {
  const TensorDesc plain = TensorDesc::dense(tensor->desc().dtype, tensor->desc().shape);
  const size_t expected = size_t(plain.elements()) * size_of(plain.dtype);
  require(bytes == expected, Code::invalid_argument, "read: bytes is ", bytes, ", expected ", expected, " for ",
          tensor->desc());
  if (expected == 0) return;
  const TensorRef copy = dispatcher_->for_reader(tensor);
  if (later)
    copy->device().read_later(*copy->buffer(), 0, data, bytes);
  else
    copy->device().read(*copy->buffer(), 0, data, bytes);
}

void Context::write(const TensorRef& tensor, const void* data, size_t bytes, bool later) {
  const TensorDesc plain = TensorDesc::dense(tensor->desc().dtype, tensor->desc().shape);
  const size_t expected = size_t(plain.elements()) * size_of(plain.dtype);
  require(bytes == expected, Code::invalid_argument, "write: bytes is ", bytes, ", expected ", expected, " for ",
          tensor->desc());
  if (expected == 0) return;
  const bool lies_so = same_memory(tensor->desc(), plain);
  const TensorRef written = lies_so ? tensor : Tensor::allocate(tensor->device(), plain);
  if (later)
    written->device().write_later(*written->buffer(), 0, data, bytes);
  else
    written->device().write(*written->buffer(), 0, data, bytes);
  if (lies_so) return tensor->buffer()->touch();
  runner_->convert_into(written, tensor, "write");
}

std::string Context::query_json(const Schema& schema, const CallRef& call, const std::vector<TensorRef>& inputs) {
  return dispatcher_->query_json(schema, call, inputs);
}

std::string Context::tune_json(const Schema& schema, const CallRef& call, const std::vector<TensorRef>& inputs,
                               double seconds) {
  require(seconds > 0, Code::invalid_argument, "tune: seconds is ", seconds, ", expected more than 0");
  dispatcher_->tune(schema, call, inputs, seconds);
  return dispatcher_->query_json(schema, call, inputs);
}

std::string Context::tune_met_json(Device& device, double seconds,
                                   const std::function<bool(const std::string&, double)>& progress) {
  require(seconds > 0, Code::invalid_argument, "tune: seconds is ", seconds, ", expected more than 0");
  const auto began = std::chrono::steady_clock::now();
  const std::vector<TuneOutcome> outcomes =
      tune(*catalog_, *costs_, catalog_->met(device), {seconds, progress, interrupt()});
  remove_files(choices_directory());  // what was faster before may not be now
  dispatcher_->forget_decisions();
  Json json;
  json.object().field("device", device.name());
  json.field("seconds", std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  json.key("ops").list();
  for (const TuneOutcome& outcome : outcomes) {
    json.object()
        .field("op", outcome.op)
        .field("before_ms", outcome.before_ms)
        .field("after_ms", outcome.after_ms)
        .field("before", outcome.before)
        .field("after", outcome.after)
        .field("points", outcome.points)
        .field("measured", outcome.measured)
        .field("finished", outcome.finished);
    json.key("found").list();
    for (size_t i = 0; i < outcome.found.size(); ++i)
      json.object()
          .field("family", outcome.found[i].family)
          .field("shapes", outcome.found[i].shapes)
          .field("values", outcome.found[i].values)
          .field("ms", outcome.found_ms[i])
          .end();
    json.end().end();
  }
  json.end().end();
  return json.str();
}

std::string Context::tuned_json(Device& device) {
  std::vector<std::string> names;
  for (Provider* provider : providers_of(device)) names.push_back(provider->name());
  return tuned_points_json(*catalog_, *costs_, names, device);
}

void Context::profile_start() { profile_->start(); }
std::string Context::profile_stop_json() { return to_json(profile_->stop()); }

std::string Context::costs_json() {
  const CostDatabase::Status status = costs_->status();
  const Catalog::Memory choices = catalog_->memory();
  Json json;
  json.object()
      .field("path", status.path)
      .field("records", status.records)
      .field("environments", status.environments)
      .field("stale", status.records - costs_->count(catalog_->environments()))
      .field("damaged", status.damaged)
      .field("writable", status.writable)
      .field("choices", choices.entries)
      .field("choice_bytes", choices.bytes)
      .field("choice_memory", choices.limit)
      .field("choices_let_go", choices.evicted)
      .field("cache_dir", options_.cache_dir)
      .field("cost_tables", options_.cost_tables);
  json.key("tables");
  catalog_->describe_tables(json);
  json.end();
  return json.str();
}

std::string Context::costs_export(const Device& device, int threads) const {
  return catalog_->cost_table(device, threads ? threads : int(options_.threads));
}

std::string Context::costs_import(const std::string& text) {
  const CostTableRef table = CostTable::parse(text, "");
  require(table != nullptr, Code::invalid_argument, "this is no table of costs: it does not begin with its two lines");
  require(table->ops() > 0, Code::invalid_argument, "the table of costs has no line that can be used, and ",
          table->damaged(), " that cannot");
  const std::string folder = tables_directory(), device_class = table->device_class().str();
  const std::string path = folder + "/" + hex(checksum(device_class)) + ".costs";
  require(!folder.empty() && make_directories(folder) && write_file_atomically(path, text), Code::io,
          "there is no cache directory that can be written");
  catalog_->forget_tables();
  Json json;
  json.object().field("path", path).field("class", device_class).field("ops", table->ops());
  json.field("candidates", table->candidates()).field("damaged", table->damaged()).key("devices").list();
  for (const auto& device : devices())
    if (std::isfinite(table->device_class().distance(cost_class(*device, int(options_.threads)))))
      json.value(device->name());
  json.end().end();
  return json.str();
}

std::string Context::tables_directory() const {
  return options_.cache_dir.empty() ? std::string() : options_.cache_dir + "/costs";
}

std::string Context::choices_directory() const {
  return options_.cache_dir.empty() ? std::string() : options_.cache_dir + "/plans";
}

void Context::costs_clear() {
  costs_->clear();
  remove_files(choices_directory());
  remove_files(tables_directory());
  catalog_->forget_tables();
  catalog_->forget_costs();
  dispatcher_->contest().forget();
  dispatcher_->forget_decisions();
}

std::string Context::calibrate_json(Device& device) {
  const Rates rates = catalog_->calibrate(device);
  Json json;
  json.object()
      .field("device", device.name())
      .field("gigabytes_per_second", rates.bytes_per_ms * 1e-6)
      .field("gigaflops_per_second", rates.flops_per_ms * 1e-6)
      .field("overhead_us", rates.overhead_ms * 1e3)
      .field("transfer_gigabytes_per_second", rates.transfer_bytes_per_ms * 1e-6)
      .field("transfer_overhead_us", rates.transfer_overhead_ms * 1e3)
      .end();
  return json.str();
}

bool Context::settled() {
  using Clock = std::chrono::steady_clock;
  const Clock::duration since = Clock::now().time_since_epoch() - Clock::duration(last_live_run_.load());
  return dispatcher_->settled() && (!last_live_run_.load() || since > std::chrono::seconds(1));
}

void Context::note_live_run() { last_live_run_ = std::chrono::steady_clock::now().time_since_epoch().count(); }

void Context::trim_choices() { dispatcher_->trim(); }

void Context::release_caches() {
  dispatcher_->forget_decisions();
  for (const auto& device : devices()) device->release_cache();
}

}  // namespace pl

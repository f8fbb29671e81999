// Context: everything a program shares between its op calls: a machine, prepared calls, measured costs, the profile.
// Thread-safe.  The C ABI is a thin shell around it.
//
// It owns dispatch's units and calls them; none of them knows it (tests/test_layers.py).
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "dispatch/machine.h"
#include "ops/op.h"

namespace pl {

class Catalog;
class Conversions;
class CostDatabase;
class Dispatcher;
class LaterMeasuring;
class Profile;
class Runner;
struct OpCall;

class Context : public Machine, public std::enable_shared_from_this<Context> {
 public:
  static std::shared_ptr<Context> create(const ContextOptions& options);
  ~Context();

  void set_options(const ContextOptions& options);  // threads and tuning; the rest is fixed at creation
  std::string devices_json() const;

  // Runs an op: checks, chooses, reorders what must be, queues the work.  `inputs` may hold nulls for absent
  // optional inputs.  Where destinations[i] is given the result is written there.
  std::vector<TensorRef> run(const Schema& schema, const CallRef& call, const std::vector<TensorRef>& inputs,
                             const std::vector<TensorRef>& destinations = {});
  // The same of several calls, one after another (dispatch/dispatcher.h).
  void run_all(const std::vector<OpCall>& calls);
  TensorRef convert(const TensorRef& tensor, Device& device, const Layout& layout, DType dtype);
  // The elements of a tensor into another one of its shape and dtype, wherever and however that lies.
  void copy(const TensorRef& source, const TensorRef& destination);
  // Plain row-major bytes of the logical elements; `later`: as Device::read_later and write_later.
  void read(const TensorRef& tensor, void* data, size_t bytes, bool later = false);
  void write(const TensorRef& tensor, const void* data, size_t bytes, bool later = false);

  std::string query_json(const Schema& schema, const CallRef& call, const std::vector<TensorRef>& inputs);
  std::string tune_json(const Schema& schema, const CallRef& call, const std::vector<TensorRef>& inputs,
                        double seconds);
  // Searches the tuning spaces for every op met so far on the device (dispatch/tuner.h).
  std::string tune_met_json(Device& device, double seconds,
                            const std::function<bool(const std::string&, double)>& progress);
  std::string tuned_json(Device& device);  // tuned_points_json
  void profile_start();
  std::string profile_stop_json();
  std::string costs_json();
  void costs_clear();
  // A table (cost_tables.h); of ops on so many threads, 0: the context's.
  std::string costs_export(const Device& device, int threads) const;
  std::string costs_import(const std::string& text);
  std::string tables_directory() const;  // of imported tables; empty: nowhere
  // Where choices of compiled graphs are kept (graph/remembered.cpp), which are forgotten with the costs they rest on;
  // empty: nowhere.
  std::string choices_directory() const;
  std::string calibrate_json(Device& device);
  void release_caches();
  // Dispatcher::settled, and nothing competes in the runs of a plan that ran within the last second.
  bool settled();
  // Where choices take more memory than they may, lets go of those used least recently.
  void trim_choices();
  void note_live_run();  // of a plan in whose runs others compete

  CostDatabase& costs() { return *costs_; }
  Profile& profile() { return *profile_; }
  Catalog& catalog() { return *catalog_; }
  LaterMeasuring& later_measuring() { return *later_; }
  Runner& runner() { return *runner_; }

 private:
  explicit Context(const ContextOptions& options);

  std::unique_ptr<CostDatabase> costs_;
  std::unique_ptr<Profile> profile_;
  std::unique_ptr<Catalog> catalog_;
  std::unique_ptr<LaterMeasuring> later_;
  std::unique_ptr<Conversions> conversions_;
  std::unique_ptr<Runner> runner_;
  std::unique_ptr<Dispatcher> dispatcher_;
  std::atomic<std::chrono::steady_clock::rep> last_live_run_{0};  // by steady_clock; 0: none
};

}  // namespace pl

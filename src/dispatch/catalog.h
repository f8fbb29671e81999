// Catalog: for each op description met so far, the ways to run it, what each costs, and who consumes the result.
//
// An entry does not depend on the layouts its inputs happen to have (those are the chooser's business), so a
// layer has one entry whatever the policy.  Reorders are ops too and have entries like any other.
#pragma once

#include <atomic>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/load.h"
#include "core/setting.h"
#include "core/tensor.h"
#include "dispatch/cost_database.h"
#include "dispatch/cost_model.h"
#include "dispatch/cost_tables.h"
#include "dispatch/measure.h"
#include "dispatch/options.h"
#include "ops/op.h"
#include "providers/provider.h"

namespace pl {

class Builders;
class Json;
class Machine;
struct LinkedOps;  // dispatch/contest.h
struct Entry;
using EntryRef = std::shared_ptr<Entry>;

// One candidate with its cost and, once used, its kernel.
struct Way {
  Candidate candidate;
  std::string key;          // Candidate::key()
  std::string environment;  // of the cost database
  bool compiles = false;    // its provider's kernels are compiled when they are prepared
  // Read by choices without the entry's lock, while another thread may measure.
  Setting<double> ms{0};  // measured, else estimated
  Setting<bool> measured{false};
  // In another process, while other programs had the processors: it is measured again once they have not.
  Setting<bool> busy{false};
  Setting<bool> within{false};  // ms is not measured, but what it took within a program
  Setting<bool> tabled{false};  // ms is neither, but follows from a table of machines like this one (cost_tables.h)
  Setting<bool> usable{true};   // false: preparing it failed, or it is wrong
  Setting<bool> taken{false};   // an eager call ran it
  double wrong = 0;             // how far its result was from the others', of a way that is not used for that
  bool agrees = false;          // its result was held against the others' in this process, and is theirs
  std::shared_ptr<Kernel> kernel;
};

// A place where an op's result was used: input `input` of `entry`; id null: read by the user, in plain layout.
struct Consumer {
  const Entry* id = nullptr;   // of `entry`, which may be gone
  std::weak_ptr<Entry> entry;  // consumers do not keep each other alive
  int output = 0;              // which output of the producer
  int input = 0;
  uint64_t count = 0;
};

struct Entry : Origin, std::enable_shared_from_this<Entry> {
  Op op;
  Device* device = nullptr;
  int threads = 1;   // of `cpu` ops: kernels are made for that many and run with them
  std::string text;  // the op's key in the cost database
  std::vector<Way> ways;
  std::vector<Refusal> refusals;  // beside ways that are wrong: Catalog::refusals() has those, too
  // Not empty: it has one way at most, the one with this Candidate::dense_key(), as an op of like sizes, and nothing is
  // found out about it.
  std::string only;
  bool follows() const { return !only.empty(); }

  // Its ways are compiled and measured behind the calls (dispatch/later_measuring.h).
  std::atomic<bool> open{false};
  std::atomic<bool> left_alone{false};  // that failed, for want of memory say: what is estimated stays
  // The usable ways that an eager call chooses among.  While it is open, from the first measurement on: of the others,
  // whose kernels may not be there and whose estimates are no match for a time, those alone that ran before.
  std::vector<Way*> choices();

  std::mutex lock;  // guards what follows and the mutable parts of ways
  bool all_measured = false;
  AgreedResult agreed;  // of the ways measured in this process
  std::atomic<uint32_t> runs{0};
  std::vector<Consumer> consumers;

  // Kept by Contest: the ops that this one is linked with, and its runs counted there.
  LinkedOps* linked = nullptr;
  uint64_t linked_stamp = 0;
  uint32_t linked_runs = 0;
  std::atomic<bool> settled{false};

  // What it takes in memory, as far as that can be told; used: Catalog::now() when it was last asked for or run.
  std::atomic<size_t> bytes{0};
  std::atomic<uint64_t> used{0};
};

// How much of an entry is measured.
struct MeasureLimits {
  double op_seconds = 1e9;  // for the samples of an op, if less than it would get
  // In all, preparing kernels included: what is not prepared by then stays unmeasured.  One kernel is prepared whatever
  // it takes.
  double seconds = INFINITY;
  bool without_compiling = false;  // only ways whose kernels need not be compiled
  size_t ways = SIZE_MAX;          // no more than so many of an op: those that promise most
  std::vector<size_t> these = {};  // not empty: of its ways these alone, if they were not measured yet
};

class Catalog {
 public:
  Catalog(Machine& machine, CostDatabase& costs);

  // The entry for an op on a device; asks the providers on first sight.  threads: of `cpu` ops; 0: the machine's.
  EntryRef entry(const Op& op, Device& device, int threads = 0);
  // The entry for an op some of whose tensors are strided views of larger ones: those whose descriptions are not dense.
  // Its ways take and give just these; there may be none.  `way`: as for following().
  EntryRef strided(const Op& op, Device& device, int threads = 0, const std::string& way = {});
  // The entry for an op that follows one of like sizes: with the way of this Candidate::dense_key() alone, or none
  // where that is not to be had for these sizes.
  EntryRef following(const Op& op, Device& device, const std::string& way, int threads = 0);
  // The entry for the reorder of `from` into `to` (same shape), or null if the two are the same bytes.
  EntryRef reorder(const TensorDesc& from, const TensorDesc& to, Device& device, int threads = 0);
  // The entry for a copy to another place, of a tensor that need not be dense.
  EntryRef copy(const TensorDesc& desc, Device& device, int threads = 0);

  // The same as entry(), or strided() where a tensor is a strided view, but not among the entries: for checks, which
  // look at more ops than a program has.  every_point: with every point of the tuning spaces.
  EntryRef unlisted(const Op& op, Device& device, bool every_point);
  // What the tuner works on: a description with every point of the tuning spaces, not among the entries.
  EntryRef whole_space(const Entry& entry);
  // Lists the ways of an entry anew, after its `space` was searched; later choices see the new entry.  `entry` lives
  // on.
  EntryRef renew(const EntryRef& entry, const Entry& space);
  // Entries met so far on a device, without reorders and those that follow others, in no order.
  std::vector<EntryRef> met(const Device& device);
  // Measures these ways of an entry and records what they cost.
  // `prepare_seconds`: as MeasureLimits::seconds.
  void measure(Entry& entry, const std::vector<size_t>& ways, const MeasureOptions& options,
               double prepare_seconds = INFINITY);
  // The same; an entry whose sample values find no memory is left alone.
  void measure_if_it_fits(Entry& entry, const std::vector<size_t>& ways, const MeasureOptions& options,
                          double prepare_seconds = INFINITY);
  // As the first, and choices that were made stay as they are until the epoch grows.
  void measure_unannounced(Entry& entry, const std::vector<size_t>& ways, const MeasureOptions& options,
                           double prepare_seconds = INFINITY);
  // Holds a way's result against the others', without timing it.  False if it cannot be used: it failed, or it is
  // wrong.
  bool compare(Entry& entry, Way& way);
  // The key under which the database keeps that the space of an op was searched.
  static constexpr const char* kSearched = "searched";

  // While it lives, entries that its thread makes are listed.  In the end those are forgotten that nobody else holds and
  // no eager call has met: of one of very many sizes, most of which come once.
  class Passing {
   public:
    explicit Passing(Catalog& catalog) : catalog_(catalog), outer_(current) { current = this; }
    ~Passing();
    Passing(const Passing&) = delete;
    Passing& operator=(const Passing&) = delete;

   private:
    friend class Catalog;
    static inline thread_local Passing* current = nullptr;
    Catalog& catalog_;
    Passing* outer_;
    std::vector<EntryRef> made_;
  };

  // Records what a way took within a program: better than an estimate until it is measured alone.  Its cost here and
  // now stays as it is.
  void record_within(const Entry& entry, const Way& way, double ms);
  // Whether other programs took of the processors that ops of the device run on, from `since` until now: what was
  // measured meanwhile is no lasting truth.  threads 0: all.
  bool was_disturbed(const Device& device, int threads, Load::Clock::time_point since);

  // Measures ways that matter: in automatic tuning those whose estimate lies within twice the best one, in
  // full tuning all.  Does nothing where that was done before.
  void measure(Entry& entry, Tuning tuning, const MeasureLimits& limits = {});
  // The ways, by number, that this would measure first.  Estimates what was not priced yet.
  std::vector<size_t> to_measure(Entry& entry, Tuning tuning, bool without_compiling = false);
  // Estimates the unmeasured ways of these entries anew, by how far the model was off at measured ones: of the same
  // implementation and type, else of the same op and type.  Never below the model.
  void correct_estimates(const std::vector<EntryRef>& entries);
  // Finds out whether a table of the entries' devices is to be believed, where it is not known: by measuring two ways
  // of a few of the entries.  If so, it prices what was not measured, here and in entries made later.  `builders`: has
  // kernels compiled for that where they have to be; null: only those ways are looked at that need none, or were
  // measured before.  `ready`: waits until these ways of an op may be measured; false: they are left out.  Without it
  // kernels are waited for, for a while.
  using Ready = std::function<bool(const EntryRef&, const std::vector<size_t>& ways)>;
  void check_tables(const std::vector<EntryRef>& entries, Builders* builders = nullptr, const Ready& ready = {});
  // Looks for tables again.
  void forget_tables();
  // What was measured here on a device, as the text of a table for others of its class.
  std::string cost_table(const Device& device, int threads) const;
  // The tables that there are, and what was found out about those that may serve a device here.
  void describe_tables(Json& json);
  // A way's kernel, prepared on first use.  Null if it cannot be (the way is not usable then) or may not be compiled.
  // Under Building::behind that may turn out once it runs.
  std::shared_ptr<Kernel> kernel(Entry& entry, Way& way);
  // The fastest usable way's time; nothing if there is none.
  std::optional<double> best_ms(Entry& entry);
  // Why ways are missing; those that failed when they were prepared or measured among them.
  std::vector<Refusal> refusals(Entry& entry);
  // Those alone that are not used because the others' result is another, with the figures.
  std::vector<Refusal> disagreements(Entry& entry);
  // What each provider says of an entry without usable ways, in one line.
  std::string refusals_in_a_line(Entry& entry);
  // For an entry without usable ways: a sentence that says so (`where`: what the op is part of, if anything), and below
  // it what each provider says.
  std::string why_nothing_runs(Entry& entry, const std::string& where = "");

  // What was found wrong on a device by measuring, in this process or before: op, candidate, and in place of a time how
  // far its result was from the others'.
  std::vector<CostDatabase::Record> found_wrong(const Device& device, const std::string& provider) const;

  // The rates of a device, measured once for each environment: of a GPU, whose kernels take seconds to compile, when
  // find_rates() is called first.  Before they follow from what it says of itself.  With tuning off
  // nothing is measured.
  Rates rates(Device& device);
  // Measures them where that was not done.  True if it was now: estimates that rest on others are corrected by
  // correct_estimates().
  bool find_rates(Device& device, const Ready& ready = {});
  Rates calibrate(Device& device, const Ready& ready = {});
  std::string environment(const Device& device, const std::string& provider, int threads = 0) const;
  // Those of every device and provider here, with each number of threads up to the processors'.
  std::set<std::string> environments() const;

  // ---- memory ----
  // Entries and their prepared kernels are let go, the least recently used first, where they take more than the
  // options' `choice_memory`.

  uint64_t now() const { return now_.load(std::memory_order_relaxed); }  // counts entries made
  void touch(Entry& entry) const {
    const uint64_t now = this->now();
    if (entry.used.load(std::memory_order_relaxed) != now) entry.used.store(now, std::memory_order_relaxed);
  }
  bool over_limit() const { return bytes_.load(std::memory_order_relaxed) > trigger_; }
  // Lets go of entries that renew() replaced and nobody else holds; trim() does, too.
  void forget_renewed(const std::function<bool(Entry&)>& leave);
  // Lets go of entries that nobody else holds until a quarter of the limit is free.  `leave`: takes an entry out of
  // what refers to it otherwise; false: it has to stay.
  void trim(const std::function<bool(Entry&)>& leave);
  // Entries used after this have to stay if trim() is to get by with the others.
  uint64_t cutoff() const;
  struct Memory {
    size_t entries = 0, bytes = 0, limit = 0;
    uint64_t evicted = 0;
  };
  Memory memory() const;

  // Grows when a measurement or a newly met consumer may change a choice made before.
  uint64_t epoch() const { return epoch_->load(std::memory_order_acquire); }
  void bump_epoch() { epoch_->fetch_add(1, std::memory_order_acq_rel); }
  // Forgets estimates and measurements; entries are asked again.
  void forget_costs();
  CostDatabase& costs() { return costs_; }

 private:
  // only: the dense_key() of the one way that it is to have; empty: all.
  EntryRef find_or_make(const Op& op, Device& device, int threads, const std::string& only = {});
  EntryRef reorder_entry(const TensorDesc& from, const TensorDesc& to, Device& device, int threads);
  EntryRef make(const Op& op, Device& device, int threads, bool whole_space, const std::string& only = {});
  void price(Entry& entry);
  bool may_measure_again(const Entry& entry);
  bool is_quiet(const Device& device, int threads);  // in the last moments; threads 0: all
  // Processors that others take beyond those that the device's ops leave free.
  static double beyond_the_spare(double others, const Device& device, int threads);
  std::optional<Rates> kept_rates(const std::string& key, const Device& device);
  void refuse_wrong(Way& way, double error);
  std::vector<Witness> witnesses(Entry& entry);
  struct Belief {
    CostTableRef table;    // null: none is believed
    double speed = 1;      // times what the table says, this machine takes
    bool decided = false;  // no table is tried any more
  };
  void apply_table(Entry& entry);
  std::optional<double> probe(const CostTable& table, const std::vector<EntryRef>& entries, Builders* builders,
                              const Ready& ready);
  // Under which the database keeps what was found out about a table.
  std::string belief_key(const CostTable& table) const;
  std::optional<double> belief_in(const CostTable& table, const Device& device, int threads) const;

  Machine& machine_;
  CostDatabase& costs_;
  mutable std::mutex lock_;
  std::unordered_map<std::string, EntryRef> entries_;
  std::vector<EntryRef> renewed_;  // those that were replaced: the contest's groups and decisions point to them
  std::mutex rates_lock_;
  struct KnownRates {
    Rates rates;
    bool measured = false;  // or being measured
  };
  std::unordered_map<std::string, KnownRates> rates_;
  std::mutex measuring_;  // one measurement at a time
  std::mutex tables_lock_;
  CostTables tables_;
  std::map<std::pair<const Device*, int>, Belief> beliefs_;  // by device and threads
  // Of its own: a kernel that is compiled behind the calls may fail when the catalog is gone.
  std::shared_ptr<std::atomic<uint64_t>> epoch_ = std::make_shared<std::atomic<uint64_t>>(1);
  const size_t limit_;
  std::atomic<size_t> bytes_{0};  // of what entries_ holds
  std::atomic<size_t> trigger_;   // the limit, or more where what others hold takes as much
  std::atomic<uint64_t> now_{1};
  uint64_t evicted_ = 0;
};

}  // namespace pl

#include "dispatch/catalog.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>

#include "core/files.h"
#include "core/threads.h"
#include "dispatch/context.h"
#include "dispatch/cost_database.h"
#include "dispatch/measure.h"

namespace pl {
namespace {

// The layouts of a tensor's own choosing do not belong to an op's description, unless they are of no known family
// (then the candidates asked for differ).  Reorders are about nothing but layouts, so theirs stay.
TensorDesc standardised(const TensorDesc& desc) {
  if (!desc.present) return desc;
  const Layout& layout = desc.layout;
  const int rank = desc.rank();
  const bool family = layout == Layout::channels_last(rank) || layout == Layout::channels_blocked(rank, 16) ||
                      layout == Layout::channels_blocked(rank, 8);
  return TensorDesc::dense(desc.dtype, desc.shape, family ? Layout::plain(rank) : layout);
}

std::string describe(const TensorDesc& desc) {
  if (!desc.present) return "-";
  std::string text{name_of(desc.dtype)};
  for (int i = 0; i < desc.rank(); ++i) text += (i ? 'x' : ':') + std::to_string(desc.shape[i]);
  if (!desc.layout.is_plain()) text += ":" + desc.layout.generic_str();
  if (!desc.is_dense()) {
    text += ":";
    for (int64_t stride : desc.strides) text += "s" + std::to_string(stride);
    text += "o" + std::to_string(desc.offset);
  }
  return text;
}

bool is_window(const TensorDesc& desc) { return desc.present && !desc.is_dense(); }

bool writes_windows(const Op& op) { return std::any_of(op.outputs.begin(), op.outputs.end(), is_window); }
// A reorder reads any tensor, so only its result counts.
bool has_windows(const Op& op) {
  return writes_windows(op) || (!op.schema->relayouts && std::any_of(op.inputs.begin(), op.inputs.end(), is_window));
}

// Whether a candidate takes and gives the windows that the op states.
bool suits_windows(const Op& op, const Candidate& candidate) {
  const auto suit = [](const std::vector<TensorDesc>& asked, const std::vector<TensorDesc>& given) {
    for (size_t i = 0; i < asked.size(); ++i)
      if (is_window(asked[i]) ? !same_memory(asked[i], given[i]) : is_window(given[i])) return false;
    return true;
  };
  return !candidate.reference && suit(op.inputs, candidate.inputs) && suit(op.outputs, candidate.outputs);
}

std::string describe(const Op& op) {
  std::string text = op.schema->name;
  for (const TensorDesc& desc : op.inputs) text += ' ' + describe(desc);
  if (writes_windows(op))
    for (const TensorDesc& desc : op.outputs) text += " >" + describe(desc);
  if (op.schema->products && op.math != Math::fp32) text += " math=tf32";
  return op.attributes.empty() ? text : text + " " + op.attributes.str();
}

std::string key_of(const Device& device, int threads, const std::string& text) {
  return concat(device.name(), '\t', device.is_cpu() ? threads : 0, '\t', text);
}

// GPUs' is that of a larger product, which the other key never was.
// The database keeps what was found wrong beside the times, under the candidate's key with this before it.
constexpr const char* kWrong = "wrong ";

const char* flops_key(const Device& device) { return device.is_gpu() ? "large_flops_per_ms" : "flops_per_ms"; }

// What choices hold in memory, measured as the growth of a process that meets new shapes (oneDNN 3.2, two cores): a
// convolution with some twenty ways 120 KiB and 60 for its primitive, an elementwise function 16.
constexpr size_t kEntryBytes = 2048;
constexpr size_t kWayBytes = 5120;  // with a library's description of it
constexpr size_t kKernelBytes = size_t(48) << 10;

size_t bytes_of(const Entry& entry) {
  size_t bytes = kEntryBytes + entry.text.size();
  for (const Way& way : entry.ways)
    bytes += kWayBytes + (way.candidate.inputs.size() + way.candidate.outputs.size()) * sizeof(TensorDesc);
  return bytes;
}

std::string within_key(const Way& way) { return "within " + way.key; }

bool same_layouts(const Candidate& a, const Candidate& b) {
  return a.inputs == b.inputs && a.outputs == b.outputs && a.packings.empty() && b.packings.empty();
}

// Of the points that only a search finds, those remain that are faster than all other ways of the same layouts.
void keep_winners(Entry& entry) {
  std::vector<Way> kept;
  for (size_t i = 0; i < entry.ways.size(); ++i) {
    const Way& way = entry.ways[i];
    bool wins = true;
    if (!way.candidate.tuning.start) {
      wins = way.measured;
      for (size_t j = 0; j < entry.ways.size() && wins; ++j) {
        const Way& other = entry.ways[j];
        if (i == j || !other.measured || !same_layouts(way.candidate, other.candidate)) continue;
        wins = way.ms < other.ms || (way.ms == other.ms && i < j);
      }
    }
    if (wins) kept.push_back(way);
  }
  entry.ways = std::move(kept);
}

}  // namespace

Catalog::Catalog(Context& context, CostDatabase& costs)
    : context_(context), costs_(costs), limit_(context.options().choice_memory), trigger_(limit_) {}

std::string Catalog::environment(const Device& device, const std::string& provider, int threads) const {
  std::string text = device.fingerprint() + "|" + provider;
  for (const auto& p : context_.providers())
    if (p->name() == provider) text += "|" + p->version();
  if (device.is_cpu()) text += "|threads=" + std::to_string(threads ? threads : int(context_.options().threads));
  uint64_t seed = 1;
  for (char c : text) seed = hash_mix(seed, static_cast<unsigned char>(c));
  return hex(seed);
}

std::set<std::string> Catalog::environments() const {
  std::set<std::string> found;
  for (const auto& device : context_.devices()) {
    std::vector<std::string> measured{"rates"};
    for (const Provider* provider : context_.providers_of(*device)) measured.push_back(provider->name());
    const int most = device->is_cpu() ? std::max(available_processors(), int(context_.options().threads)) : 1;
    for (const std::string& name : measured)
      for (int threads = 1; threads <= most; ++threads) found.insert(environment(*device, name, threads));
  }
  return found;
}

EntryRef Catalog::entry(const Op& asked, Device& device, int threads) {
  Op op = asked;
  if (!op.schema->relayouts) {
    for (TensorDesc& desc : op.inputs) desc = standardised(desc);
  }
  return find_or_make(op, device, threads);
}

EntryRef Catalog::unlisted(const Op& asked, Device& device, bool every_point) {
  Op op = asked;
  if (!op.schema->relayouts)
    for (TensorDesc& desc : op.inputs)
      if (!has_windows(asked) || !is_window(desc)) desc = standardised(desc);
  op.math = std::max<Math>(op.math, context_.options().math);
  return make(op, device, context_.options().threads, every_point);
}

EntryRef Catalog::windowed(const Op& asked, Device& device, int threads) {
  Op op = asked;
  for (TensorDesc& desc : op.inputs)
    if (!is_window(desc)) desc = standardised(desc);
  return find_or_make(op, device, threads);
}

EntryRef Catalog::find_or_make(const Op& asked, Device& device, int threads) {
  Op op = asked;
  op.math = std::max<Math>(op.math, context_.options().math);
  if (!threads) threads = context_.options().threads;
  const std::string key = key_of(device, threads, describe(op));
  {
    std::lock_guard<std::mutex> guard(lock_);
    auto it = entries_.find(key);
    if (it != entries_.end()) {
      touch(*it->second);
      return it->second;
    }
  }
  EntryRef made = make(op, device, threads, false);
  std::lock_guard<std::mutex> guard(lock_);
  const auto [it, added] = entries_.emplace(key, made);
  if (added) {
    made->bytes = key.size() + bytes_of(*made);
    bytes_ += made->bytes;
    now_.fetch_add(1, std::memory_order_relaxed);
  }
  touch(*it->second);
  return it->second;
}

void Catalog::trim(const std::function<bool(Entry&)>& leave) {
  std::vector<EntryRef> gone;  // destroyed without the lock
  std::lock_guard<std::mutex> guard(lock_);
  std::vector<std::pair<uint64_t, const std::string*>> order;
  for (const auto& [key, entry] : entries_)
    if (entry.use_count() == 1) order.emplace_back(entry->used, &key);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [used, key] : order) {
    if (bytes_ <= limit_ / 4 * 3) break;
    const auto it = entries_.find(*key);
    if (!leave(*it->second)) continue;
    bytes_ -= it->second->bytes;
    gone.push_back(std::move(it->second));
    entries_.erase(it);
    ++evicted_;
  }
  trigger_ = std::max(limit_, bytes_ + limit_ / 4);
}

uint64_t Catalog::cutoff() const {
  std::lock_guard<std::mutex> guard(lock_);
  std::vector<std::pair<uint64_t, size_t>> order;
  for (const auto& [key, entry] : entries_) order.emplace_back(entry->used, entry->bytes);
  std::sort(order.begin(), order.end());
  size_t left = bytes_;
  for (const auto& [used, bytes] : order) {
    if (left <= limit_ / 4 * 3) return used;
    left -= std::min(left, bytes);
  }
  return now();
}

Catalog::Memory Catalog::memory() const {
  std::lock_guard<std::mutex> guard(lock_);
  return {entries_.size(), bytes_, limit_, evicted_};
}

// Lists what can run an op.  Points of tuning spaces that the provider would not start from are kept if whole_space;
// else those whose time is known and that are the fastest for some layouts.
EntryRef Catalog::make(const Op& op, Device& device, int threads, bool whole_space) {
  auto entry = std::make_shared<Entry>();
  entry->op = op;
  entry->device = &device;
  entry->threads = threads;
  entry->text = describe(op);
  CandidateList list;
  if (device.is_cpu()) use_threads(threads);  // which oneDNN's descriptions are made for
  const bool empty = op.has_empty_tensor(), windows = has_windows(op);
  for (Provider* provider : context_.providers_of(device)) {
    if (windows && !provider->takes_windows(op)) {
      list.refuse(provider->name(), op.schema->name + ": no windows of larger tensors");
      continue;
    }
    if (empty && !provider->handles_empty()) {
      list.refuse(provider->name(), op.schema->name + ": a tensor has no elements");
      continue;
    }
    const size_t before = list.candidates.size() + list.refusals.size();
    list.whole_space =
        whole_space || costs_.find(environment(device, provider->name(), threads), entry->text, kSearched);
    provider->list(op, device, list);
    if (list.candidates.size() + list.refusals.size() == before)
      list.refuse(provider->name(), op.schema->name + ": kind \"" + op.schema->kind + "\" has no implementation here");
  }
  // Reference implementations stand in only where there is nothing else.
  const bool others = std::any_of(list.candidates.begin(), list.candidates.end(),
                                  [](const Candidate& candidate) { return !candidate.reference; });
  for (Candidate& candidate : list.candidates) {
    if (windows && !suits_windows(op, candidate)) continue;
    if (candidate.reference && others) {
      list.refuse(candidate.provider,
                  candidate.implementation + ": a reference implementation, not used where others exist");
      continue;
    }
    if (!op.schema->results.empty() && (candidate.in_place & ~op.schema->results[0].overwrites))
      fail(Code::internal, op.schema->name, ": ", candidate.key(),
           " writes its result where an input lies that the schema does not give for that");
    Way way;
    way.key = candidate.key();
    for (const auto& provider : context_.providers())
      if (provider->name() == candidate.provider) way.compiles = provider->compiles();
    way.candidate = std::move(candidate);
    entry->ways.push_back(std::move(way));
  }
  entry->refusals = std::move(list.refusals);
  price(*entry);
  if (!whole_space) keep_winners(*entry);
  return entry;
}

EntryRef Catalog::whole_space(const Entry& entry) { return make(entry.op, *entry.device, entry.threads, true); }

EntryRef Catalog::renew(const EntryRef& entry, const Entry& space) {
  EntryRef made = make(entry->op, *entry->device, entry->threads, false);
  // Doubtful times are not in the database, but the best that is known here.
  for (const Entry* source : {static_cast<const Entry*>(entry.get()), &space})
    for (Way& way : made->ways)
      for (const Way& known : source->ways)
        if (!way.measured && known.measured && known.key == way.key) {
          way.ms = double(known.ms);
          way.measured = true;
        }
  {
    std::lock_guard<std::mutex> guard(entry->lock);
    made->consumers = entry->consumers;
    made->runs = entry->runs.load();
  }
  std::lock_guard<std::mutex> guard(lock_);
  renewed_.push_back(entry);
  made->bytes = bytes_of(*made);
  bytes_ += made->bytes;
  touch(*made);
  entries_[key_of(*entry->device, entry->threads, entry->text)] = made;
  return made;
}

std::vector<EntryRef> Catalog::met(const Device& device) {
  std::vector<EntryRef> found;
  std::lock_guard<std::mutex> guard(lock_);
  for (const auto& [key, entry] : entries_)
    if (entry->device == &device && !entry->op.schema->relayouts) found.push_back(entry);
  return found;
}

EntryRef Catalog::reorder(const TensorDesc& from, const TensorDesc& to, Device& device, int threads) {
  return same_memory(from, to) ? nullptr : reorder_entry(from, to, device, threads);
}

EntryRef Catalog::copy(const TensorDesc& desc, Device& device, int threads) {
  return reorder_entry(desc, desc, device, threads);
}

EntryRef Catalog::reorder_entry(const TensorDesc& from, const TensorDesc& to, Device& device, int threads) {
  static const Schema* schema = find_schema("reorder");
  require(schema != nullptr, Code::internal, "the op reorder is not registered");
  Attributes attributes;
  attributes.set("target", to.layout.generic_str());
  attributes.set("dtype", std::string(name_of(to.dtype)));
  Op op = make_op(*schema, attributes, {from});
  op.outputs[0] = to;
  return find_or_make(op, device, threads);
}

void Catalog::let_go(std::vector<EntryRef>& entries) {
  std::sort(entries.begin(), entries.end());
  entries.erase(std::unique(entries.begin(), entries.end()), entries.end());
  std::lock_guard<std::mutex> guard(lock_);
  while (!entries.empty()) {
    const EntryRef entry = std::move(entries.back());
    entries.pop_back();
    if (entry->runs || entry->chain || !entry->consumers.empty() || entry.use_count() > 2) continue;
    const auto it = entries_.find(key_of(*entry->device, entry->threads, entry->text));
    if (it != entries_.end() && it->second == entry) entries_.erase(it);
  }
}

void Catalog::record_within(const Entry& entry, const Way& way, double ms) {
  costs_.record(way.environment, entry.text, within_key(way), ms);
}

// Fills in what is known: measured costs from the database, or else what was seen within programs, estimates for the
// rest.
void Catalog::price(Entry& entry) {
  bool all = true;
  for (Way& way : entry.ways) {
    way.environment = environment(*entry.device, way.candidate.provider, entry.threads);
    const auto error = costs_.find(way.environment, entry.text, kWrong + way.key);
    if (error && way.usable) refuse_wrong(way, *error);
    if (!error && way.wrong > 0) way.wrong = 0, way.usable = true;  // the database was cleared
    const auto known = costs_.find(way.environment, entry.text, way.key);
    way.measured = known.has_value();
    way.within = false;
    if (known) {
      way.ms = *known;
    } else if (const auto within = costs_.find(way.environment, entry.text, within_key(way))) {
      all = false;
      way.within = true;
      way.ms = *within;
    } else {
      all = false;
      // The rates themselves are measured through entries of a few ops, which must not ask for rates.
      way.ms = std::numeric_limits<double>::infinity();
    }
  }
  entry.all_measured = all;
}

std::vector<size_t> Catalog::to_measure(Entry& entry, Tuning tuning, bool without_compiling) {
  std::unique_lock<std::mutex> guard(entry.lock);
  if (entry.all_measured) return {};
  const bool priced = std::all_of(entry.ways.begin(), entry.ways.end(),
                                  [](const Way& way) { return !std::isinf(way.ms) || !way.usable; });
  if (!priced) {
    guard.unlock();
    const Rates known = rates(*entry.device);
    guard.lock();
    for (Way& way : entry.ways)
      if (!way.measured && std::isinf(way.ms)) way.ms = estimate_ms(entry.op, way.candidate, known);
  }
  std::vector<size_t> chosen;
  if (tuning == Tuning::off) return chosen;
  double best = std::numeric_limits<double>::infinity();
  for (const Way& way : entry.ways)
    if (way.usable) best = std::min(best, double(way.ms));
  for (size_t i = 0; i < entry.ways.size(); ++i) {
    const Way& way = entry.ways[i];
    if (without_compiling && way.compiles) continue;
    if (way.usable && !way.measured && (tuning == Tuning::full || way.ms <= 2 * best)) chosen.push_back(i);
  }
  // In case the time runs out: what is ready at once, then what promises most.
  std::stable_sort(chosen.begin(), chosen.end(), [&](size_t a, size_t b) {
    const Way &one = entry.ways[a], &other = entry.ways[b];
    return one.compiles != other.compiles ? other.compiles : double(one.ms) < double(other.ms);
  });
  return chosen;
}

void Catalog::measure(Entry& entry, Tuning tuning, const MeasureLimits& limits) {
  MeasureOptions options;
  if (tuning == Tuning::full) {
    options.rounds = 15;
    options.seconds = 1.0;
  }
  options.seconds = std::min(options.seconds, limits.op_seconds);
  const auto began = std::chrono::steady_clock::now();
  const auto left = [&] {
    return limits.seconds - std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  };
  if (!limits.these.empty()) {
    std::vector<size_t> chosen;
    {
      std::lock_guard<std::mutex> guard(entry.lock);
      for (size_t way : limits.these)
        if (entry.ways[way].usable && !entry.ways[way].measured) chosen.push_back(way);
    }
    if (!chosen.empty() && tuning != Tuning::off) measure(entry, chosen, options, left());
    return;
  }
  // What measuring shows may bring others within reach of the best, so until no way that matters is unmeasured.
  for (;;) {
    std::vector<size_t> chosen = to_measure(entry, tuning, limits.without_compiling);
    if (chosen.empty() || left() <= 0) break;
    const bool some = chosen.size() > limits.ways;
    if (some) chosen.resize(limits.ways);
    measure(entry, chosen, options, left());
    if (some) break;
  }
  if (tuning == Tuning::off) return;
  std::lock_guard<std::mutex> guard(entry.lock);
  entry.all_measured =
      std::all_of(entry.ways.begin(), entry.ways.end(), [](const Way& way) { return way.measured || !way.usable; });
}

namespace {

// How far estimates are off: the geometric mean of what was measured over what was estimated.
struct ModelError {
  double log_sum = 0;
  int count = 0;

  void add(double ratio) { log_sum += std::log(ratio), ++count; }
  double factor() const { return std::exp(log_sum / count); }
};

}  // namespace

void Catalog::correct_estimates(const std::vector<EntryRef>& entries) {
  const auto op_of = [](const Entry& entry) {
    const DType dtype = entry.op.outputs.empty() ? DType::f32 : entry.op.out().dtype;
    return entry.device->name() + " " + std::string(entry.op.schema->name) + " " + name_of(dtype);
  };
  const auto family_of = [&](const Entry& entry, const Way& way) {
    const std::string& implementation = way.candidate.implementation;  // jit:avx512_core, conv_fwd_mma[128x64,...]
    return op_of(entry) + " " + way.candidate.provider + "/" +
           implementation.substr(0, implementation.find_first_of(":["));
  };
  std::map<std::string, ModelError> errors;  // by op and by family
  for (const EntryRef& entry : entries) {
    const Rates known = rates(*entry->device);
    std::lock_guard<std::mutex> guard(entry->lock);
    for (const Way& way : entry->ways) {
      if (!(way.measured || way.within) || !way.usable) continue;
      const double ratio = way.ms / estimate_ms(entry->op, way.candidate, known);
      if (!(ratio > 0)) continue;
      errors[op_of(*entry)].add(ratio);
      errors[family_of(*entry, way)].add(ratio);
    }
  }
  for (const EntryRef& entry : entries) {
    const Rates known = rates(*entry->device);
    std::lock_guard<std::mutex> guard(entry->lock);
    for (Way& way : entry->ways) {
      if (way.measured || way.within || !way.usable) continue;
      auto error = errors.find(family_of(*entry, way));
      if (error == errors.end()) error = errors.find(op_of(*entry));
      const double factor = error == errors.end() ? 1 : std::max(1.0, error->second.factor());
      way.ms = factor * estimate_ms(entry->op, way.candidate, known);
    }
  }
  bump_epoch();
}

// Kernels are prepared and run outside the entry's lock; other threads may use the entry meanwhile.
void Catalog::measure(Entry& entry, const std::vector<size_t>& chosen, const MeasureOptions& given,
                      double prepare_seconds) {
  std::vector<Contender> contenders;
  std::vector<std::shared_ptr<Kernel>> kernels;
  std::vector<size_t> places;
  const auto began = std::chrono::steady_clock::now();
  for (size_t i : chosen) {
    context_.interrupt().poll();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    if (!contenders.empty() && took.count() > prepare_seconds) break;
    if (auto prepared = kernel(entry, entry.ways[i])) {
      contenders.push_back({&entry.ways[i].candidate, prepared.get()});
      kernels.push_back(prepared);
      places.push_back(i);
    }
  }
  if (contenders.empty()) return;
  MeasureOptions options = given;
  options.interrupt = &context_.interrupt();
  for (size_t i = 0; i < entry.op.inputs.size(); ++i)
    options.constants.push_back(entry.op.schema->role_of(int(i)) == Role::constant);
  options.witnesses = [&] { return witnesses(entry); };
  bool overturned = false;
  {
    std::lock_guard<std::mutex> one(measuring_);
    if (entry.device->is_cpu()) use_threads(entry.threads);
    options.agreed = &entry.agreed;
    const std::vector<double> before = entry.agreed.values;
    pl::measure(*entry.device, entry.op, contenders, options);
    overturned = !before.empty() && difference(before, entry.agreed.values) > agreement_bound(entry.op);
  }
  std::lock_guard<std::mutex> guard(entry.lock);
  if (overturned)  // what was measured before agreed on another result
    for (Way& way : entry.ways)
      if (way.agrees) {
        way.agrees = false;
        refuse_wrong(way, 1);
        costs_.record(way.environment, entry.text, kWrong + way.key, way.wrong);
      }
  for (size_t i = 0; i < places.size(); ++i) {
    Way& way = entry.ways[places[i]];
    if (contenders[i].failed) {
      way.usable = false;
      entry.refusals.push_back({way.candidate.provider, way.candidate.implementation + ": failed when it was run"});
      continue;
    }
    if (contenders[i].wrong) {
      refuse_wrong(way, contenders[i].error);
      costs_.record(way.environment, entry.text, kWrong + way.key, way.wrong);
      continue;
    }
    way.agrees = contenders[i].agrees;
    way.ms = contenders[i].ms;
    way.measured = true;
    // What was hardly ever left alone serves this process, as the best that is known, and is not handed on to others.
    if (!contenders[i].doubtful) costs_.record(way.environment, entry.text, way.key, way.ms);
  }
  bump_epoch();
}

// With the entry's lock, or before others see the entry.
void Catalog::refuse_wrong(Way& way, double error) {
  way.usable = false;
  way.wrong = std::isfinite(error) ? std::max(error, 1e-9) : 1e9;  // the database keeps finite numbers
}

// Ways that are not measured, and plain loops where they take no more than a second or so.
std::vector<Witness> Catalog::witnesses(Entry& entry) {
  constexpr size_t kMost = 3;
  constexpr double kReferenceFlops = 1e9;
  std::vector<Witness> found;
  const auto add = [&](const Candidate& candidate) {
    try {
      found.push_back({candidate, candidate.prepare()});
    } catch (const Error&) {  // one that cannot be prepared is none
    }
  };
  if (entry.op.schema->flops(entry.op) <= kReferenceFlops) {
    CandidateList list;
    for (Provider* provider : context_.providers_of(*entry.device)) provider->list(entry.op, *entry.device, list);
    for (const Candidate& candidate : list.candidates)
      if (candidate.reference && found.empty()) add(candidate);
  }
  const auto has_kernel = [&](const Way& way) {
    std::lock_guard<std::mutex> guard(entry.lock);
    return way.kernel != nullptr;
  };
  for (const Way& way : entry.ways)
    if (found.size() < kMost && way.usable && !way.measured && !has_kernel(way)) add(way.candidate);
  return found;
}

std::vector<CostDatabase::Record> Catalog::found_wrong(const Device& device, const std::string& provider) const {
  std::vector<CostDatabase::Record> found;
  const std::string mark = kWrong;
  for (CostDatabase::Record& record : costs_.records(environment(device, provider), "")) {
    if (record.candidate.compare(0, mark.size(), mark) != 0) continue;
    record.candidate.erase(0, mark.size());
    found.push_back(std::move(record));
  }
  return found;
}

std::shared_ptr<Kernel> Catalog::kernel(Entry& entry, Way& way) {
  {
    std::lock_guard<std::mutex> guard(entry.lock);
    if (way.kernel || !way.usable) return way.kernel;
  }
  refuse_after_fork();
  std::shared_ptr<Kernel> made;
  std::string problem;
  try {
    if (entry.device->is_cpu()) use_threads(entry.threads);
    made = way.candidate.prepare();
  } catch (const Error& error) {
    if (error.code() == Code::out_of_memory) throw;
    problem = error.what();
  }
  std::lock_guard<std::mutex> guard(entry.lock);
  if (made) {
    if (!way.kernel) {
      way.kernel = std::move(made);
      if (entry.bytes) entry.bytes += kKernelBytes, bytes_ += kKernelBytes;  // else it is not among the entries
    }
  } else if (way.usable) {
    way.usable = false;
    entry.refusals.push_back({way.candidate.provider, way.candidate.implementation + ": " + problem});
    bump_epoch();
  }
  return way.kernel;
}

std::vector<Refusal> Catalog::refusals(Entry& entry) {
  std::vector<Refusal> found = disagreements(entry);
  std::lock_guard<std::mutex> guard(entry.lock);
  found.insert(found.begin(), entry.refusals.begin(), entry.refusals.end());
  return found;
}

std::vector<Refusal> Catalog::disagreements(Entry& entry) {
  std::vector<Refusal> found;
  std::lock_guard<std::mutex> guard(entry.lock);
  for (const Way& way : entry.ways) {
    if (way.wrong == 0) continue;
    char text[64];
    std::snprintf(text, sizeof text, "%.1e, bound %.1e", way.wrong, agreement_bound(entry.op));
    found.push_back(
        {way.candidate.provider,
         concat(way.candidate.implementation, " ", way.candidate.outputs[0].layout.str(),
                ": wrong: its result stands against the other candidates' (relative difference ", text, ")")});
  }
  return found;
}

std::string Catalog::why_nothing_runs(Entry& entry, const std::string& where) {
  std::string text = concat(entry.op.schema->name, ": nothing on ", entry.device->name(), " can run ", entry.op.str());
  if (!where.empty()) text += " (" + where + ")";
  const std::vector<Refusal> list = refusals(entry);
  if (!list.empty()) text += "; the providers say:";
  for (const Refusal& refusal : list) text += "\n  " + refusal.provider + ": " + refusal.reason;
  return text;
}

std::optional<double> Catalog::best_ms(Entry& entry) {
  std::lock_guard<std::mutex> guard(entry.lock);
  std::optional<double> best;
  for (const Way& way : entry.ways)
    if (way.usable && (!best || way.ms < *best)) best = way.ms;
  return best;
}

Rates Catalog::rates(Device& device) {
  const std::string key = environment(device, "rates");
  {
    std::lock_guard<std::mutex> guard(rates_lock_);
    auto it = rates_.find(key);
    if (it != rates_.end()) return it->second;
  }
  Rates rates;
  const auto read = [&](const char* name, double& value) {
    const auto known = costs_.find(key, "rates", name);
    if (known) value = *known;
    return known.has_value();
  };
  bool complete = read("bytes_per_ms", rates.bytes_per_ms);
  complete &= read(flops_key(device), rates.flops_per_ms);
  complete &= read("overhead_ms", rates.overhead_ms);
  complete &= read("transfer_bytes_per_ms", rates.transfer_bytes_per_ms);
  complete &= read("transfer_overhead_ms", rates.transfer_overhead_ms);
  if (!complete) {
    if (context_.options().tuning == Tuning::off) return rates;
    return calibrate(device);
  }
  std::lock_guard<std::mutex> guard(rates_lock_);
  rates_[key] = rates;
  return rates;
}

Rates Catalog::calibrate(Device& device) {
  Rates rates;
  // Set before measuring: pricing the calibration's own ops asks for rates.
  const std::string key = environment(device, "rates");
  {
    std::lock_guard<std::mutex> guard(rates_lock_);
    rates_[key] = rates;
  }
  const auto best = [&](const char* name, const std::vector<TensorDesc>& inputs) -> std::optional<double> {
    const Schema* schema = find_schema(name);
    if (!schema) return std::nullopt;
    const EntryRef held = entry(make_op(*schema, {}, inputs), device);
    Entry& found = *held;
    MeasureLimits limits;
    limits.op_seconds = 0.1;
    limits.without_compiling = device.is_cpu();  // compilers take longer than all else here
    if (!device.is_cpu()) limits.ways = 2;
    std::optional<double> least;
    const auto take = [&] {
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
  try {
    if (const auto ms = best("relu", {f32({16})})) rates.overhead_ms = *ms;
    if (const auto ms = best("relu", {f32({large})})) rates.bytes_per_ms = double(large) * 8 / *ms;
    // On a GPU one that takes much longer than to start it: at 512 an H200 reached a fifth of its rate.
    const int64_t side = device.is_gpu() ? 2048 : 512;
    if (const auto ms = best("matmul", {f32({side, side}), f32({side, side})}))
      rates.flops_per_ms = 2.0 * double(side * side * side) / *ms;
  } catch (const Interrupted&) {
    std::lock_guard<std::mutex> guard(rates_lock_);
    rates_.erase(key);  // the next call measures again
    throw;
  }
  if (!device.is_cpu()) {
    std::vector<char> host(size_t(large), 1);
    const BufferRef buffer = device.allocate(host.size());
    const auto time = [&](size_t bytes) {
      double ms = std::numeric_limits<double>::infinity();
      for (int i = 0; i < 5; ++i) {
        device.synchronize();
        const auto start = std::chrono::steady_clock::now();
        device.write(*buffer, 0, host.data(), bytes);
        ms = std::min(ms, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
      }
      return ms;
    };
    rates.transfer_overhead_ms = time(64);
    rates.transfer_bytes_per_ms = double(large) / std::max(1e-6, time(host.size()) - rates.transfer_overhead_ms);
  }
  const auto keep = [&](const char* name, double value) { costs_.record(key, "rates", name, value); };
  keep("bytes_per_ms", rates.bytes_per_ms);
  keep(flops_key(device), rates.flops_per_ms);
  keep("overhead_ms", rates.overhead_ms);
  keep("transfer_bytes_per_ms", rates.transfer_bytes_per_ms);
  keep("transfer_overhead_ms", rates.transfer_overhead_ms);
  std::lock_guard<std::mutex> guard(rates_lock_);
  rates_[key] = rates;
  return rates;
}

void Catalog::forget_costs() {
  {
    std::lock_guard<std::mutex> guard(rates_lock_);
    rates_.clear();
  }
  std::lock_guard<std::mutex> guard(lock_);
  for (auto& [key, entry] : entries_) {
    std::lock_guard<std::mutex> inner(entry->lock);
    price(*entry);
  }
  bump_epoch();
}

}  // namespace pl

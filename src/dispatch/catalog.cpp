#include "dispatch/catalog.h"

#include <algorithm>

#include "core/files.h"
#include "core/threads.h"
#include "dispatch/cost_database.h"
#include "dispatch/descriptions.h"
#include "dispatch/machine.h"

namespace pl {
namespace {

std::string entry_key(const Device& device, int threads, const std::string& text, const std::string& only) {
  std::string key = concat(device.name(), '\t', device.traits().threads ? threads : 0, '\t', text);
  return only.empty() ? key : key + '\t' + only;
}

std::string entry_key(const Entry& entry) { return entry_key(*entry.device, entry.threads, entry.text, entry.only); }

// What choices hold in memory, measured as the growth of a process that meets new shapes (oneDNN 3.2, two cores): a
// convolution with some twenty ways 120 KiB and 60 for its primitive, an elementwise function 16.
constexpr size_t kEntryBytes = 2048;
constexpr size_t kWayBytes = 5120;  // with a library's description of it

size_t bytes_of(const Entry& entry) {
  size_t bytes = kEntryBytes + entry.text.size();
  for (const Way& way : entry.ways)
    bytes += kWayBytes + (way.candidate.inputs.size() + way.candidate.outputs.size()) * sizeof(TensorDesc);
  return bytes;
}

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

std::vector<Way*> Entry::choices() {
  const auto measured = [](const Way& way) { return way.usable && way.measured; };
  const bool some = open && std::any_of(ways.begin(), ways.end(), measured);
  std::vector<Way*> list;
  for (Way& way : ways)
    if (way.usable && (!some || way.measured || way.taken)) list.push_back(&way);
  return list;
}

Catalog::Catalog(Machine& machine, CostDatabase& costs)
    : machine_(machine),
      costs_(costs),
      tables_(machine.options().cache_dir.empty() ? "" : machine.options().cache_dir + "/costs"),
      limit_(machine.options().choice_memory),
      trigger_(limit_) {}

std::string Catalog::environment(const Device& device, const std::string& provider, int threads) const {
  std::string text = device.fingerprint() + "|" + provider;
  for (const auto& p : machine_.providers())
    if (p->name() == provider) text += "|" + p->version();
  if (device.traits().threads) {
    text += "|threads=" + std::to_string(threads ? threads : int(machine_.options().threads));
    if (threads_sleep()) text += "|asleep";
  }
  uint64_t seed = 1;
  for (char c : text) seed = hash_mix(seed, static_cast<unsigned char>(c));
  return hex(seed);
}

std::set<std::string> Catalog::environments() const {
  std::set<std::string> found;
  for (const auto& device : machine_.devices()) {
    std::vector<std::string> measured{"rates", "tables"};
    for (const Provider* provider : machine_.providers_of(*device)) measured.push_back(provider->name());
    const int most = device->traits().threads ? std::max(available_processors(), int(machine_.options().threads)) : 1;
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
      if (!has_strided_views(asked) || !is_strided_view(desc)) desc = standardised(desc);
  op.math = std::max<Math>(op.math, machine_.options().math);
  return make(op, device, machine_.options().threads, every_point);
}

EntryRef Catalog::strided(const Op& asked, Device& device, int threads, const std::string& way) {
  Op op = asked;
  for (TensorDesc& desc : op.inputs)
    if (!is_strided_view(desc)) desc = standardised(desc);
  return find_or_make(op, device, threads, way);
}

EntryRef Catalog::following(const Op& asked, Device& device, const std::string& way, int threads) {
  Op op = asked;
  if (!op.schema->relayouts)
    for (TensorDesc& desc : op.inputs) desc = standardised(desc);
  return find_or_make(op, device, threads, way);
}

EntryRef Catalog::find_or_make(const Op& asked, Device& device, int threads, const std::string& only) {
  Op op = asked;
  op.math = std::max<Math>(op.math, machine_.options().math);
  if (!threads) threads = machine_.options().threads;
  const std::string key = entry_key(device, threads, describe(op), only);
  {
    std::lock_guard<std::mutex> guard(lock_);
    auto it = entries_.find(key);
    if (it != entries_.end()) {
      touch(*it->second);
      return it->second;
    }
  }
  EntryRef made = make(op, device, threads, false, only);
  std::lock_guard<std::mutex> guard(lock_);
  const auto [it, added] = entries_.emplace(key, made);
  if (added) {
    made->bytes = key.size() + bytes_of(*made);
    bytes_ += made->bytes;
    now_.fetch_add(1, std::memory_order_relaxed);
    if (Passing::current && &Passing::current->catalog_ == this) Passing::current->made_.push_back(it->second);
  }
  touch(*it->second);
  return it->second;
}

void Catalog::trim(const std::function<bool(Entry&)>& leave) {
  forget_renewed(leave);
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

void Catalog::forget_renewed(const std::function<bool(Entry&)>& leave) {
  std::vector<EntryRef> gone;  // destroyed without the lock
  std::lock_guard<std::mutex> guard(lock_);
  for (EntryRef& entry : renewed_)
    if (entry.use_count() == 1 && leave(*entry)) gone.push_back(std::move(entry));
  renewed_.erase(std::remove(renewed_.begin(), renewed_.end(), nullptr), renewed_.end());
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
// else those whose time is known and that are the fastest for some layouts.  only: as for find_or_make().
EntryRef Catalog::make(const Op& op, Device& device, int threads, bool whole_space, const std::string& only) {
  auto entry = std::make_shared<Entry>();
  entry->op = op;
  entry->device = &device;
  entry->threads = threads;
  entry->text = describe(op);
  entry->only = only;
  CandidateList list;
  if (!only.empty()) list.wanted.emplace(only);
  if (device.traits().threads) use_threads(threads);  // which oneDNN's descriptions are made for
  const bool empty = op.has_empty_tensor(), strided = has_strided_views(op);
  for (Provider* provider : machine_.providers_of(device)) {
    if (list.wanted && list.wanted->provider() != provider->name()) continue;
    if (strided && !provider->takes_strided_views(op)) {
      list.refuse(provider->name(), op.schema->name + ": no strided views");
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
    if (strided && !suits_strided_views(op, candidate)) continue;
    if (candidate.reference && others) {
      list.refuse(candidate.provider,
                  candidate.implementation + ": a reference implementation, not used where others exist");
      continue;
    }
    // Only over inputs whose memory the schema gives for a result.
    if (!op.schema->results.empty()) {
      uint64_t given = 0;
      for (const Result& result : op.schema->results) given |= result.overwrites;
      candidate.in_place &= uint32_t(given);
    }
    Way way;
    way.key = candidate.key();
    if (list.wanted && candidate.dense_key() != only) continue;
    for (const auto& provider : machine_.providers())
      if (provider->name() == candidate.provider) way.compiles = provider->compiles();
    way.candidate = std::move(candidate);
    entry->ways.push_back(std::move(way));
  }
  entry->refusals = std::move(list.refusals);
  price(*entry);
  if (!whole_space && only.empty()) keep_winners(*entry);
  return entry;
}

EntryRef Catalog::whole_space(const Entry& entry) { return make(entry.op, *entry.device, entry.threads, true); }

EntryRef Catalog::renew(const EntryRef& entry, const Entry& space) {
  EntryRef made = make(entry->op, *entry->device, entry->threads, false);
  // The database may say so of what was measured here: in this process that stays.
  for (const Entry* source : {static_cast<const Entry*>(entry.get()), &space})
    for (Way& way : made->ways)
      for (const Way& known : source->ways)
        if (way.busy && known.measured && !known.busy && known.key == way.key) way.busy = false;
  {
    std::lock_guard<std::mutex> guard(entry->lock);
    made->consumers = entry->consumers;
    made->runs = entry->runs.load();
  }
  std::lock_guard<std::mutex> guard(lock_);
  renewed_.push_back(entry);
  made->bytes = bytes_of(*made);
  bytes_ += made->bytes;
  bytes_ -= entry->bytes;
  touch(*made);
  entries_[entry_key(*entry)] = made;
  return made;
}

std::vector<EntryRef> Catalog::met(const Device& device) {
  std::vector<EntryRef> found;
  std::lock_guard<std::mutex> guard(lock_);
  for (const auto& [key, entry] : entries_)
    if (entry->device == &device && !entry->op.schema->relayouts && !entry->follows()) found.push_back(entry);
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
  attributes.set(attr::target, to.layout.generic_str());
  attributes.set(attr::dtype, std::string(name_of(to.dtype)));
  Op op = make_op(*schema, attributes, {from});
  op.outputs[0] = to;
  return find_or_make(op, device, threads);
}

Catalog::Passing::~Passing() {
  current = outer_;
  std::lock_guard<std::mutex> guard(catalog_.lock_);
  for (const EntryRef& entry : made_) {  // destroyed after this, without the lock
    // Besides this the catalog holds it.
    if (entry->runs || entry->linked || !entry->consumers.empty() || entry.use_count() > 2) continue;
    const auto it = catalog_.entries_.find(entry_key(*entry));
    if (it == catalog_.entries_.end() || it->second != entry) continue;
    catalog_.bytes_ -= entry->bytes;
    catalog_.entries_.erase(it);
  }
}

}  // namespace pl

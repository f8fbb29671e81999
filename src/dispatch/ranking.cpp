#include "dispatch/ranking.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace pl {

std::optional<Layout> forced_layout(const Policy& policy, const TensorDesc& desc) {
  if (policy.mode != Policy::Mode::forced) return std::nullopt;
  return family_layout(policy.layout, desc);
}

namespace {

constexpr int kLookAhead = 4;  // consumers of consumers considered; each level halves what is still undecided
// A way that wants another layout than it is given must promise this share of its time on top of the conversion.  Times
// taken op by op are that far from those within a program: mixes of layouts chosen by differences of a few percent ran
// ResNet-50 4% slower than NHWC throughout on a 2-core Zen 5, and 10% slower on a 16-core Xeon (bench/networks.py).
constexpr double kSwitchMargin = 0.1;
constexpr uint32_t kLearningRuns = 64;  // runs of an entry during which its inputs' producers are taught

bool obeys(const Policy& policy, const TensorDesc& desc) {
  const auto forced = forced_layout(policy, desc);
  return forced && same_memory(desc, desc.with_layout(*forced));
}

}  // namespace

bool may_write_there(const Candidate& candidate, size_t i, const std::vector<TensorRef>& inputs,
                     const std::vector<TensorRef>& destinations) {
  const Tensor& given = *destinations[i];
  const TensorDesc& desc = candidate.outputs[i];
  const auto lies_there = [&](const TensorRef& each) { return each && share_memory(*each->buffer(), *given.buffer()); };
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (!lies_there(inputs[k])) continue;
    if (k >= 32 || memory_of(*inputs[k]->buffer()) != memory_of(*given.buffer()) || !(candidate.in_place >> k & 1) ||
        !same_memory(inputs[k]->desc(), desc) || !same_memory(candidate.inputs[k], desc) ||
        std::count_if(destinations.begin(), destinations.end(), lies_there) > 1)
      return false;
  }
  return true;
}

double Ranking::input_ms(const TensorRef& tensor, const TensorDesc& wanted, Device& device) {
  double best = conversions_.cost_ms(tensor->desc(), tensor->device(), wanted, device, ReorderCosts::eager);
  if (best > 0 && tensor->copies_hash())
    for (const TensorRef& copy : tensor->copies())
      best = std::min(best, conversions_.cost_ms(copy->desc(), copy->device(), wanted, device, ReorderCosts::eager));
  return best;
}

// A part of a larger tensor is written by a kernel that costs what one to a dense tensor does.
double Ranking::output_ms(const TensorDesc& output, Device& device, const Tensor& destination) {
  const TensorDesc& wanted = destination.desc();
  if (wanted.dtype != output.dtype || wanted.shape != output.shape) return 0;  // will be refused
  const TensorDesc dense = wanted.is_dense() ? wanted : TensorDesc::dense(wanted.dtype, wanted.shape);
  return conversions_.cost_ms(output, device, dense, destination.device(), ReorderCosts::eager);
}

// Where an input lies in the memory that is to be written, and the kernel does not say that it may.
double Ranking::aside_ms(const Candidate& candidate, size_t i, Device& device, const std::vector<TensorRef>& inputs,
                         const std::vector<TensorRef>& destinations) {
  const Tensor& destination = *destinations[i];
  if (&destination.device() != &device || !same_memory(destination.desc(), candidate.outputs[i]) ||
      may_write_there(candidate, i, inputs, destinations))
    return 0;
  const Rates& rates = catalog_.rates(device);
  return rates.overhead_ms + 2 * double(destination.desc().size_bytes()) / rates.bytes_per_ms;
}

// What consumers of this producer's results are expected to pay for the layouts that `way` gives.
double Ranking::consumers_ms(Entry& producer, const Way& way, int depth) {
  std::vector<Consumer> consumers;
  {
    std::lock_guard<std::mutex> guard(producer.lock);
    consumers = producer.consumers;
  }
  if (consumers.empty()) return 0;
  uint64_t key = hash_mix(reinterpret_cast<uintptr_t>(&producer), uint64_t(depth));
  for (const TensorDesc& output : way.candidate.outputs) key = hash_mix(key, output.hash());
  {
    std::lock_guard<std::mutex> guard(expected_lock_);
    if (expected_epoch_ != catalog_.epoch()) {
      expected_.clear();
      expected_epoch_ = catalog_.epoch();
    }
    auto it = expected_.find(key);
    if (it != expected_.end()) return it->second;
  }
  const double runs = std::max<double>(1, std::min(producer.runs.load(), kLearningRuns));
  double total = 0;
  for (const Consumer& consumer : consumers) {
    const TensorDesc& given = way.candidate.outputs[size_t(consumer.output)];
    const double share = std::min(1.0, double(consumer.count) / runs);
    const EntryRef user = consumer.entry.lock();
    if (consumer.id && !user) continue;
    if (!user) {
      const TensorDesc plain = TensorDesc::dense(given.dtype, given.shape);
      total += share * conversions_.cost_ms(given, *producer.device, plain, *producer.device, ReorderCosts::eager);
    } else {
      total += share * penalty(*user, consumer.input, given, depth - 1);
    }
  }
  std::lock_guard<std::mutex> guard(expected_lock_);
  expected_[key] = total;
  return total;
}

double Ranking::switch_ms(const Way& way, double conversion_ms) {
  return conversion_ms > 0 ? conversion_ms + kSwitchMargin * way.ms : 0;
}

// How much more `entry` costs when its input comes as `given` than when it comes as the entry likes best.
double Ranking::penalty(Entry& entry, int input, const TensorDesc& given, int depth) {
  double free = std::numeric_limits<double>::infinity(), paid = free;
  for (Way& way : entry.ways) {
    if (!way.usable || std::isinf(way.ms)) continue;
    const TensorDesc& wanted = way.candidate.inputs[size_t(input)];
    if (!wanted.present) continue;
    double ms = way.ms;
    if (ms >= paid) continue;  // cannot improve on either
    if (depth > 0) ms += consumers_ms(entry, way, depth);
    free = std::min(free, ms);
    if (ms < paid)
      paid = std::min(paid, ms + switch_ms(way, conversions_.cost_ms(given, *entry.device, wanted, *entry.device,
                                                                     ReorderCosts::eager)));
  }
  return std::isinf(paid) ? 0 : paid - free;
}

std::vector<RankedWay> Ranking::ranked(const Op& op, Entry& entry, const Policy& policy,
                                       const std::vector<TensorRef>& inputs, Device& home,
                                       const std::vector<TensorRef>& destinations) {
  const bool all_given = destinations.size() >= op.outputs.size() &&
                         std::all_of(destinations.begin(), destinations.end(), [](const auto& each) { return each; });
  std::vector<RankedWay> list;
  for (Way* const way : entry.choices()) {
    RankedWay ranked;
    ranked.way = way;
    ranked.op_ms = way->ms;
    const Candidate& candidate = way->candidate;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i] || !candidate.inputs[i].present) continue;
      const Role role = op.schema->role_of(int(i));
      const Packing* packing = candidate.packing_of(int(i));
      const bool per_op = policy.mode == Policy::Mode::per_op;
      if (packing && (per_op || inputs[i]->changes()))
        ranked.reorder_ms += estimate_ms(candidate, *packing, catalog_.rates(*entry.device));
      if (per_op) {
        // As a framework without layout tracking: from plain and back around every op, weights too.
        const TensorDesc plain = TensorDesc::dense(op.in(int(i)).dtype, op.in(int(i)).shape);
        ranked.reorder_ms += conversions_.cost_ms(plain, home, candidate.inputs[i], *entry.device, ReorderCosts::eager);
      } else if (role == Role::data) {
        const double ms = input_ms(inputs[i], candidate.inputs[i], *entry.device);
        ranked.reorder_ms += ms;
        if (policy.mode == Policy::Mode::automatic) ranked.margin_ms += switch_ms(*way, ms) - ms;
      } else if (inputs[i]->changes()) {
        ranked.reorder_ms += conversions_.cost_ms(inputs[i]->desc(), inputs[i]->device(), candidate.inputs[i],
                                                  *entry.device, ReorderCosts::eager);
      }
      if (role == Role::data && obeys(policy, candidate.inputs[i])) ranked.matches += 1;
    }
    for (size_t i = 0; i < candidate.outputs.size(); ++i) {
      const TensorDesc& output = candidate.outputs[i];
      if (policy.mode == Policy::Mode::automatic && i < destinations.size() && destinations[i])
        ranked.reorder_ms += output_ms(output, *entry.device, *destinations[i]) +
                             aside_ms(candidate, i, *entry.device, inputs, destinations);
      if (policy.mode == Policy::Mode::per_op)
        ranked.reorder_ms += conversions_.cost_ms(output, *entry.device, TensorDesc::dense(output.dtype, output.shape),
                                                  home, ReorderCosts::eager);
      if (obeys(policy, output)) ranked.matches += 2 * int(inputs.size() + 1);
    }
    if (policy.mode == Policy::Mode::automatic && !all_given)
      ranked.consumer_ms = consumers_ms(entry, *way, kLookAhead);
    list.push_back(ranked);
  }
  std::stable_sort(list.begin(), list.end(), [&](const RankedWay& a, const RankedWay& b) {
    if (a.matches != b.matches) return a.matches > b.matches;
    // Such a framework picks the implementation by its own speed and pays for the reorders afterwards.
    if (policy.mode == Policy::Mode::per_op) return a.op_ms < b.op_ms;
    return a.total() < b.total();
  });
  return list;
}

void Ranking::forget() {
  std::lock_guard<std::mutex> guard(expected_lock_);
  expected_.clear();
}

// ---- learning ----

void Ranking::learn(Entry& consumer, const std::vector<TensorRef>& inputs) {
  if (consumer.follows()) return;
  if (consumer.runs.load(std::memory_order_relaxed) >= kLearningRuns) return;
  consumer.runs.fetch_add(1, std::memory_order_relaxed);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i] || !inputs[i]->origin()) continue;
    Entry& producer = static_cast<Entry&>(*inputs[i]->origin());
    if (producer.device != consumer.device || producer.follows()) continue;
    const int output = inputs[i]->origin_output();
    std::unique_lock<std::mutex> guard(producer.lock);
    auto known = std::find_if(producer.consumers.begin(), producer.consumers.end(), [&](const Consumer& c) {
      return c.id == &consumer && !c.entry.expired() && c.output == output && c.input == int(i);
    });
    if (known != producer.consumers.end()) {
      known->count++;
    } else {
      producer.consumers.erase(std::remove_if(producer.consumers.begin(), producer.consumers.end(),
                                              [](const Consumer& c) { return c.id && c.entry.expired(); }),
                               producer.consumers.end());
      producer.consumers.push_back({&consumer, consumer.weak_from_this(), output, int(i), 1});
      guard.unlock();
      if (!consumer.device->traits().queued) contest_.link(producer, consumer);
      catalog_.bump_epoch();
    }
  }
}

void Ranking::note_read(const Tensor& tensor) {
  if (!tensor.origin()) return;
  Entry& producer = static_cast<Entry&>(*tensor.origin());
  if (producer.follows()) return;
  if (producer.runs.load(std::memory_order_relaxed) >= kLearningRuns) return;
  std::lock_guard<std::mutex> guard(producer.lock);
  for (Consumer& consumer : producer.consumers)
    if (!consumer.id && consumer.output == tensor.origin_output()) {
      consumer.count++;
      return;
    }
  producer.consumers.push_back({nullptr, {}, tensor.origin_output(), 0, 1});
  catalog_.bump_epoch();
}

}  // namespace pl

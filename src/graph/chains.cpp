#include "graph/chains.h"

#include <omp.h>

#include <algorithm>
#include <exception>
#include <set>

#include "core/threads.h"
#include "graph/arena.h"

namespace pl {

Maker maker_of(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  if (value.node >= 0) return {value.node, value.output};
  for (size_t i = 0; i < graph.inputs().size(); ++i)
    if (graph.inputs()[i].value == id) return {-1, int(i)};
  return {-1, -1};
}

// ---- cutting ----

CutGraph cut_out(const Graph& graph, size_t first, size_t end, const std::map<Maker, Layout>& layouts) {
  CutGraph result;
  std::vector<ValueId> places(graph.values().size(), kNoValue);
  const auto inside = [&](int32_t node) { return node >= int32_t(first) && node < int32_t(end); };
  const auto take = [&](ValueId id) {  // makes a value from elsewhere known
    if (id == kNoValue || places[size_t(id)] != kNoValue) return;
    const Value& value = graph.value(id);
    if (value.constant) {
      places[size_t(id)] = result.graph.constant(value.name, value.constant);
      return;
    }
    const Maker maker = maker_of(graph, id);
    TensorDesc desc = value.desc;
    bool pinned = true;
    if (maker.first >= 0) {
      const auto layout = layouts.find(maker);
      require(layout != layouts.end(), Code::internal, "graph: value ", value.name, " is handed on in no known layout");
      desc = TensorDesc::dense(desc.dtype, desc.shape, layout->second);
    } else {
      pinned = graph.inputs()[size_t(maker.second)].pinned;
    }
    places[size_t(id)] = result.graph.input(value.name, desc, {}, pinned);
    result.inputs.push_back(maker);
  };
  for (size_t n = first; n < end; ++n)  // inputs and constants first, so that no node takes their names
    for (ValueId id : graph.node(n).inputs)
      if (id == kNoValue || !inside(graph.value(id).node)) take(id);
  for (size_t n = first; n < end; ++n) {
    const Node& node = graph.node(n);
    std::vector<ValueId> inputs;
    for (ValueId id : node.inputs) inputs.push_back(id == kNoValue ? kNoValue : places[size_t(id)]);
    const std::vector<ValueId> made = result.graph.add(*node.schema, node.attributes, inputs, node.name);
    for (size_t k = 0; k < made.size(); ++k) places[size_t(node.outputs[k])] = made[k];
  }
  const auto known = [&](const Maker& maker) {
    const auto it = layouts.find(maker);
    return it == layouts.end() ? std::nullopt : std::optional<Layout>(it->second);
  };
  for (size_t k = 0; k < graph.outputs().size(); ++k) {
    const GraphOutput& output = graph.outputs()[k];
    const int32_t node = graph.value(output.value).node;
    if (node >= 0 ? !inside(node) : first != 0) continue;
    take(output.value);
    result.outputs.push_back(maker_of(graph, output.value));
    result.graph.output(places[size_t(output.value)], output.name,
                        output.layout ? output.layout : known(result.outputs.back()));
    result.results.push_back(int(k));
  }
  std::set<Maker> later;
  for (size_t n = end; n < graph.nodes().size(); ++n)
    for (ValueId id : graph.node(n).inputs)
      if (id != kNoValue && inside(graph.value(id).node)) later.insert(maker_of(graph, id));
  for (const Maker& maker : later) {
    const Value& value = graph.value(graph.node(size_t(maker.first)).outputs[size_t(maker.second)]);
    result.graph.output(places[size_t(graph.node(size_t(maker.first)).outputs[size_t(maker.second)])],
                        "to later nodes: " + value.name, known(maker));
    result.outputs.push_back(maker);
    result.results.push_back(-1);
  }
  return result;
}

std::vector<std::vector<Maker>> values_across(const Graph& graph, size_t most) {
  const size_t count = graph.nodes().size();
  std::vector<size_t> last(graph.values().size(), 0);  // the last node that uses a value
  for (size_t n = 0; n < count; ++n)
    for (ValueId id : graph.node(n).inputs)
      if (id != kNoValue) last[size_t(id)] = n;
  std::vector<bool> of_batch(graph.values().size(), false);  // depends on an input
  for (const GraphInput& input : graph.inputs()) of_batch[size_t(input.value)] = true;
  size_t unlike = 0;                          // how many are alive that do not
  std::vector<std::vector<Maker>> result(1);  // nothing comes before node 0
  std::vector<std::vector<Maker>> ends(count);
  std::set<Maker> alive;
  const auto same_for_all = [&](const Maker& maker) {
    return !of_batch[size_t(graph.node(size_t(maker.first)).outputs[size_t(maker.second)])];
  };
  for (size_t n = 0; n < count; ++n) {
    const Node& node = graph.node(n);
    const bool depends = std::any_of(node.inputs.begin(), node.inputs.end(),
                                     [&](ValueId id) { return id != kNoValue && of_batch[size_t(id)]; });
    for (ValueId id : node.outputs) {
      of_batch[size_t(id)] = depends;
      if (last[size_t(id)] <= n) continue;
      alive.insert(maker_of(graph, id));
      ends[last[size_t(id)]].push_back(maker_of(graph, id));
      unlike += !depends;
    }
    for (const Maker& maker : ends[n]) {
      alive.erase(maker);
      unlike -= same_for_all(maker);
    }
    // What node n + 1 is the last to use is still alive between the two.
    result.emplace_back();
    if (alive.size() <= most && unlike == 0) result.back().assign(alive.begin(), alive.end());
  }
  return result;
}

// A shortest path: after each node, the least time in which it can have been reached by each variant.
std::vector<Chain> cheapest_chains(const std::vector<std::vector<double>>& node_ms,
                                   const std::function<double(size_t from, size_t to, size_t place)>& change_ms,
                                   double& ms) {
  const size_t variants = node_ms.size(), count = node_ms.at(0).size();
  std::vector<double> least(variants, 0.0);
  std::vector<std::vector<size_t>> came(count, std::vector<size_t>(variants));
  for (size_t n = 0; n < count; ++n) {
    std::vector<double> next = least;
    for (size_t to = 0; to < variants; ++to) {
      came[n][to] = to;
      for (size_t from = 0; n > 0 && from < variants; ++from) {
        if (least[from] >= next[to]) continue;  // staying costs nothing, changing no less
        const double changed = least[from] + change_ms(from, to, n);
        if (changed >= next[to]) continue;
        next[to] = changed;
        came[n][to] = from;
      }
    }
    for (size_t v = 0; v < variants; ++v) least[v] = next[v] + node_ms[v][n];
  }
  size_t variant = size_t(std::min_element(least.begin(), least.end()) - least.begin());
  ms = least[variant];
  std::vector<Chain> chains{{variant, 0, count}};
  for (size_t n = count; n-- > 0;) {
    if (came[n][variant] == variant) continue;
    variant = came[n][variant];
    chains.back().first = n;
    chains.push_back({variant, 0, n});
  }
  std::reverse(chains.begin(), chains.end());
  return chains;
}

// ---- running ----

void run_slices(Program& program, int64_t slices, int streams, const std::vector<External>& inputs,
                const std::vector<External>& outputs, const std::vector<size_t>& input_bytes,
                const std::vector<size_t>& output_bytes, std::vector<double>* step_ms) {
  if (slices == 1) {
    program.run(inputs.data(), outputs.data(), {step_ms});
    return;
  }
  const auto run = [&](int64_t first, int64_t last, std::vector<double>* ms) {
    std::vector<External> in = inputs, out = outputs;
    for (int64_t slice = first; slice < last; ++slice) {
      for (size_t i = 0; i < in.size(); ++i) in[i].offset = inputs[i].offset + size_t(slice) * input_bytes[i];
      for (size_t i = 0; i < out.size(); ++i) out[i].offset = outputs[i].offset + size_t(slice) * output_bytes[i];
      program.run(in.data(), out.data(), {ms});
    }
  };
  if (streams == 1) {
    run(0, slices, step_ms);
    return;
  }
  std::exception_ptr problem;
  use_threads(streams);
#pragma omp parallel num_threads(streams)
  {
    const int64_t stream = omp_get_thread_num(), count = omp_get_num_threads();
    try {
      run(slices * stream / count, slices * (stream + 1) / count, stream == 0 ? step_ms : nullptr);
    } catch (...) {
#pragma omp critical(pl_stream_problem)
      if (!problem) problem = std::current_exception();
    }
  }
  if (problem) std::rethrow_exception(problem);
}

void Chains::add(Program& program, const Share& share, std::vector<Maker> inputs, std::vector<Maker> outputs,
                 std::vector<int> results) {
  Chain chain{&program, share, std::move(inputs), std::move(outputs), std::move(results), {}, {}};
  for (const TensorDesc& desc : program.inputs()) chain.input_bytes.push_back(desc.size_bytes());
  for (const TensorDesc& desc : program.outputs()) chain.output_bytes.push_back(desc.size_bytes());
  chains_.push_back(std::move(chain));
}

void Chains::finish() {
  std::vector<Maker> makers;
  std::vector<ArenaBuffer> buffers;
  std::map<Maker, size_t> known;
  for (size_t c = 0; c < chains_.size(); ++c) {
    const Chain& chain = chains_[c];
    for (size_t i = 0; i < chain.inputs.size(); ++i) {
      if (chain.inputs[i].first < 0) continue;
      const auto it = known.find(chain.inputs[i]);
      require(it != known.end(), Code::internal, "chains: what chain ", c, " takes is made by none before it");
      ArenaBuffer& buffer = buffers[it->second];
      require(chain.end(chain.input_bytes[i]) <= buffer.bytes, Code::internal, "chains: chain ", c, " takes ",
              chain.end(chain.input_bytes[i]), " bytes, it is handed ", buffer.bytes);
      buffer.last = int(c);
    }
    for (size_t i = 0; i < chain.outputs.size(); ++i) {
      if (chain.results[i] >= 0) continue;
      const size_t end = chain.end(chain.output_bytes[i]);
      const auto [it, added] = known.try_emplace(chain.outputs[i], buffers.size());
      if (added) {
        makers.push_back(chain.outputs[i]);
        buffers.push_back({end, int(c), int(c), 128});
        continue;
      }
      ArenaBuffer& buffer = buffers[it->second];  // the rest of it
      require(chain.offset(chain.output_bytes[i]) == buffer.bytes, Code::internal, "chains: chain ", c, " goes on at ",
              chain.offset(chain.output_bytes[i]), " bytes of what ends at ", buffer.bytes);
      buffer.bytes = end;
      buffer.last = int(c);
    }
  }
  const ArenaPlan plan = plan_arena(buffers);
  for (size_t i = 0; i < makers.size(); ++i) places_[makers[i]] = plan.offsets[i];
  between_ = {plan.bytes, plan.lower_bound};
  if (between_.bytes) free_.push_back(home_.allocate(between_.bytes));
}

bool Chains::run(const std::vector<External>& inputs, const std::vector<External>& outputs, const RunTimes& times) {
  BufferRef memory;
  if (between_.bytes) {
    const std::lock_guard<std::mutex> guard(lock_);
    if (!free_.empty()) {
      memory = std::move(free_.back());
      free_.pop_back();
    }
  }
  if (between_.bytes && !memory) memory = home_.allocate(between_.bytes);
  struct Return {  // whatever happens
    Chains& chains;
    BufferRef& memory;
    ~Return() {
      if (!memory) return;
      const std::lock_guard<std::mutex> guard(chains.lock_);
      chains.free_.push_back(std::move(memory));
    }
  } give_back{*this, memory};
  std::vector<External> in, out;
  for (const Chain& chain : chains_) {
    in.clear();
    out.clear();
    for (size_t i = 0; i < chain.inputs.size(); ++i) {
      const Maker& maker = chain.inputs[i];
      in.push_back(maker.first < 0 ? inputs[size_t(maker.second)] : External{memory.get(), places_.at(maker)});
      in.back().offset += chain.offset(chain.input_bytes[i]);
    }
    for (size_t i = 0; i < chain.outputs.size(); ++i) {
      out.push_back(chain.results[i] >= 0 ? outputs[size_t(chain.results[i])]
                                          : External{memory.get(), places_.at(chain.outputs[i])});
      out.back().offset += chain.offset(chain.output_bytes[i]);
    }
    if (chains_.size() == 1 && chain.share.slices == 1) return chain.program->run(in.data(), out.data(), times);
    if (times.overwrote && chain.program->writes_to_inputs()) *times.overwrote = true;
    run_slices(*chain.program, chain.share.slices, chain.share.streams, in, out, chain.input_bytes, chain.output_bytes,
               chains_.size() == 1 ? times.step_ms : nullptr);
  }
  return true;
}

}  // namespace pl

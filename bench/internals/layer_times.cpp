// What convolutions with bias and activation take, by provider and layout: each one alone, and within a chain.
// bench/layers.py feeds it and sums up.
//
//   layer_times [threads [milliseconds a shape]] < shapes > results
//
// A shape is a line "times n c h w oc k stride padding groups activation".  A result is a line of JSON for each:
//   {"alone": {"onednn": {"NHWC": US, ...}, "host": {...}}, "chain": {...}, "names": {"onednn": {"NHWC": NAME, ...}}}
// by the layout of the output, which the input has too unless the channels of the input are few.
//
// Alone: the lower decile of samples taken in turns, memory warm.  In a chain: the layers in the order given, each
// as often as it occurs, each with weights of its own, reading what the one before wrote; the lower decile over
// rounds, chains taking turns.  A chain takes the provider's candidate that was fastest alone, or the other
// provider's where it has none (its time is then not listed).
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "core/json.h"
#include "core/threads.h"
#include "dispatch/context.h"
#include "providers/provider.h"

namespace {

using namespace pl;
using Clock = std::chrono::steady_clock;

struct Shape {
  int64_t times, n, c, h, w, oc, k, stride, padding, groups;
  std::string activation;
};

Op convolution(const Shape& s) {
  const auto f32 = [](std::initializer_list<int64_t> shape) { return TensorDesc::dense(DType::f32, Dims(shape)); };
  Attributes attributes;
  attributes.set(attr::stride, s.stride);
  attributes.set(attr::padding, s.padding);
  attributes.set(attr::groups, s.groups);
  if (s.activation != "none") attributes.set(attr::activation, s.activation);
  return make_op(*find_schema("conv2d"), attributes,
                 {f32({s.n, s.c, s.h, s.w}), f32({s.oc, s.c / s.groups, s.k, s.k}), f32({s.oc})});
}

// A prepared candidate with memory: its own, but for the activations if some are lent to it.
class Runner {
 public:
  Runner(Device& device, const Candidate& candidate, BufferRef x = nullptr, BufferRef y = nullptr)
      : kernel_(candidate.prepare()) {
    for (size_t i = 0; i < candidate.inputs.size(); ++i)
      inputs_.push_back(place(device, candidate.inputs[i], i == 0 ? x : nullptr));
    outputs_.push_back(place(device, candidate.outputs[0], y));
    if (candidate.workspace_bytes) buffers_.push_back(workspace_ = device.allocate(candidate.workspace_bytes));
    packed_ = pack_inputs(device, candidate, inputs_);
  }
  void run() { kernel_->run({inputs_.data(), outputs_.data(), workspace_.get()}); }
  double microseconds(int repeat) {
    const auto start = Clock::now();
    for (int i = 0; i < repeat; ++i) run();
    return std::chrono::duration<double, std::micro>(Clock::now() - start).count() / repeat;
  }
  std::vector<double> samples;
  int repeat = 1;

 private:
  Buffer* place(Device& device, const TensorDesc& desc, BufferRef buffer) {
    if (!desc.present) return nullptr;
    if (!buffer) {
      buffer = device.allocate(desc.size_bytes());
      std::vector<float> values(desc.size_bytes() / sizeof(float));
      for (size_t i = 0; i < values.size(); ++i) values[i] = (0.5f + float(i * 7919 % 1024) / 1024) * (i % 2 ? 1 : -1);
      device.write(*buffer, 0, values.data(), values.size() * sizeof(float));
    }
    buffers_.push_back(buffer);
    return buffer.get();
  }
  std::unique_ptr<Kernel> kernel_;
  std::vector<BufferRef> buffers_, packed_;
  std::vector<Buffer*> inputs_, outputs_;
  BufferRef workspace_;
};

// What disturbs a run makes it longer, never shorter; the minimum itself would reward a single lucky run.
double lower_decile(std::vector<double>& samples) {
  const size_t at = samples.size() / 10;
  std::nth_element(samples.begin(), samples.begin() + long(at), samples.end());
  return samples[at];
}

struct Found {
  double us = INFINITY, chain_us = NAN;
  Candidate candidate;
};
// By provider, then layout.
using Best = std::map<std::string, std::map<std::string, Found>>;

Best time_alone(Context& context, const Shape& shape, double milliseconds) {
  Device& cpu = context.device("cpu");
  const Op op = convolution(shape);
  CandidateList list;
  for (Provider* provider : context.providers_of(cpu))
    if (provider->name() == "onednn" || provider->name() == "host") provider->list(op, cpu, list);
  std::vector<std::pair<const Candidate*, std::unique_ptr<Runner>>> race;
  double least = INFINITY;
  for (const Candidate& candidate : list.candidates) {
    if (candidate.reference) continue;
    try {
      auto runner = std::make_unique<Runner>(cpu, candidate);
      runner->microseconds(1);
      const double us = std::min(runner->microseconds(1), runner->microseconds(1));
      least = std::min(least, us);
      if (us > 4 * least) continue;
      runner->repeat = std::clamp(int(100 / us), 1, 500);  // samples of 0.1 ms and more
      race.emplace_back(&candidate, std::move(runner));
    } catch (const Error&) {
      continue;
    }
  }
  const auto start = Clock::now();
  for (int round = 0; round < 200; ++round) {
    if (round >= 9 && std::chrono::duration<double, std::milli>(Clock::now() - start).count() > milliseconds) break;
    for (auto& [candidate, runner] : race) {
      runner->microseconds(1);  // brings its memory into the caches
      runner->samples.push_back(runner->microseconds(runner->repeat));
    }
  }
  Best best;
  for (auto& [candidate, runner] : race) {
    const double us = lower_decile(runner->samples);
    Found& found = best[candidate->provider][candidate->outputs[0].layout.str()];
    if (us < found.us) found = {us, NAN, *candidate};
  }
  return best;
}

// A chain of one provider's candidates in one layout.
struct Chain {
  std::string provider, layout;
  std::vector<std::unique_ptr<Runner>> layers;
  std::vector<Found*> found;                 // null: another provider stands in
  std::vector<std::vector<double>> samples;  // of each layer

  void run(bool count) {
    for (size_t i = 0; i < layers.size(); ++i) {
      const double us = layers[i]->microseconds(1);
      if (count) samples[i].push_back(us);
    }
  }
};

void time_chains(Context& context, const std::vector<Shape>& shapes, std::vector<Best>& bests) {
  Device& cpu = context.device("cpu");
  std::vector<Chain> chains;
  for (const char* provider : {"onednn", "host"})
    for (const char* layout : {"NHWC", "nChw16c"}) {
      Chain chain{provider, layout, {}, {}, {}};
      size_t bytes = 0;
      std::vector<Candidate*> picked;
      for (Best& best : bests) {
        Found* found = nullptr;
        for (const char* from : {provider, "onednn", "host"})
          if (!found && best[from].count(layout)) found = &best[from].at(layout);
        if (!found)  // in another layout
          for (auto& [from, ways] : best)
            for (auto& [other, way] : ways)
              if (!found || way.us < found->us) found = &way;
        require(found != nullptr, Code::internal, "layer_times: a layer without candidates");
        for (const auto& desc : {found->candidate.inputs[0], found->candidate.outputs[0]})
          bytes = std::max(bytes, desc.size_bytes());
        chain.found.push_back(
            found->candidate.provider == provider && found->candidate.outputs[0].layout.str() == layout ? found
                                                                                                        : nullptr);
        picked.push_back(&found->candidate);
      }
      BufferRef ping = cpu.allocate(bytes), pong = cpu.allocate(bytes);
      cpu.fill_zero(*ping, 0, bytes);
      std::vector<Found*> repeated;
      for (size_t i = 0; i < shapes.size(); ++i)
        for (int64_t t = 0; t < shapes[i].times; ++t) {
          chain.layers.push_back(std::make_unique<Runner>(cpu, *picked[i], ping, pong));
          repeated.push_back(chain.found[i]);
          std::swap(ping, pong);
        }
      chain.found = repeated;
      chain.samples.resize(repeated.size());
      chains.push_back(std::move(chain));
    }
  const auto start = Clock::now();
  for (int round = 0; round < 60; ++round) {
    if (round >= 5 && std::chrono::duration<double>(Clock::now() - start).count() > 4) break;
    for (Chain& chain : chains) {
      for (int i = 0; i < 2; ++i) chain.run(false);
      chain.run(true);
    }
  }
  for (Chain& chain : chains)
    for (size_t i = 0; i < chain.layers.size(); ++i) {
      if (!chain.found[i]) continue;
      double& mean = chain.found[i]->chain_us;  // over the repetitions of a layer: all of one kind
      const double us = lower_decile(chain.samples[i]);
      mean = std::isnan(mean) ? us : std::min(mean, us);
    }
}

void print(Best& best) {
  Json json;
  json.object();
  for (const char* what : {"alone", "chain", "names"}) {
    json.key(what).object();
    for (auto& [provider, ways] : best) {
      json.key(provider).object();
      for (auto& [layout, found] : ways)
        if (*what == 'n')
          json.field(layout, found.candidate.implementation);
        else
          json.field(layout, *what == 'a' ? found.us : found.chain_us);
      json.end();
    }
    json.end();
  }
  std::printf("%s\n", json.end().str().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    ContextOptions options;
    options.threads = argc > 1 ? std::atoi(argv[1]) : 0;
    const double milliseconds = argc > 2 ? std::atof(argv[2]) : 100;
    const auto context = Context::create(options);
    use_threads(context->options().threads);
    std::vector<Shape> shapes;
    for (std::string line; std::getline(std::cin, line);) {
      std::istringstream text(line);
      Shape s{};
      text >> s.times >> s.n >> s.c >> s.h >> s.w >> s.oc >> s.k >> s.stride >> s.padding >> s.groups >> s.activation;
      if (!text) throw Error(Code::invalid_argument, "shape \"" + line + "\", expected ten numbers and a name");
      shapes.push_back(s);
    }
    std::vector<Best> bests;
    for (const Shape& shape : shapes) bests.push_back(time_alone(*context, shape, milliseconds));
    time_chains(*context, shapes, bests);
    for (Best& best : bests) print(best);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "layer_times: %s\n", error.what());
    return 1;
  }
  return 0;
}

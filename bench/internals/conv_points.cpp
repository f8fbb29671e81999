// Convolutions on an OpenCL GPU: the time of every point of one family's tuning space, beside the best of the others.
//
//   conv_points [FAMILY [DEVICE [SECONDS]]] < convolutions
//
// A convolution is a line "DTYPE n c h w oc kh kw groups stride padding", with bias and ReLU.  FAMILY (conv_fwd_quad)
// takes part with all its points, other kernels with those that dispatch begins with.  All programs are built first, on
// all processors; then SECONDS (40) are shared by the convolutions.  Of each a line with the
// microseconds of the fastest others, one with those of the family, the fastest first: what an input's layout is, where
// there are several, then the values of the tunables.  Times are medians of queued runs; inputs are warm in caches.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dispatch/context.h"

namespace {

using namespace pl;
using Clock = std::chrono::steady_clock;

struct Way {
  Candidate candidate;
  std::unique_ptr<Kernel> kernel;
  std::string refusal;
  double us = INFINITY;
};

struct Convolution {
  std::string line;
  Op op;
  std::vector<Way> ways;
};

Op convolution(const std::string& line) {
  std::istringstream in(line);
  std::string dtype;
  int64_t n, c, h, w, oc, kh, kw, groups, stride, padding;
  if (!(in >> dtype >> n >> c >> h >> w >> oc >> kh >> kw >> groups >> stride >> padding))
    fail(Code::invalid_argument, "not a convolution: ", line);
  const DType type = parse_dtype(dtype);
  Attributes attributes;
  attributes.set(attr::padding, padding);
  attributes.set(attr::stride, stride);
  attributes.set(attr::groups, groups);
  attributes.set(attr::activation, std::string("relu"));
  return make_op(*find_schema("conv2d"), attributes,
                 {TensorDesc::dense(type, Dims{n, c, h, w}), TensorDesc::dense(type, Dims{oc, c / groups, kh, kw}),
                  TensorDesc::dense(type, Dims{oc})});
}

// Small numbers of either sign: what a unit takes may depend on the values.
BufferRef random_buffer(Device& device, DType dtype, size_t size_bytes) {
  std::vector<unsigned char> bytes(size_bytes);
  uint32_t state = 1;
  const auto next = [&] { return state = state * 1664525 + 1013904223, float(state >> 8) / float(1 << 24) - 0.5f; };
  const size_t size = size_of(dtype), period = std::min(size_bytes, size_t(1) << 20);
  for (size_t i = 0; i + size <= period; i += size) {
    const float value = next();
    const uint16_t half = dtype == DType::f16 ? float_to_half(value) : float_to_bfloat16(value);
    std::memcpy(&bytes[i], size == 4 ? static_cast<const void*>(&value) : &half, size);
  }
  for (size_t i = period; i < size_bytes; ++i) bytes[i] = bytes[i - period];
  BufferRef buffer = device.allocate(size_bytes);
  device.write(*buffer, 0, bytes.data(), size_bytes);
  return buffer;
}

void time_ways(Device& device, Convolution& c, double seconds) {
  const auto began = Clock::now();
  std::map<std::pair<size_t, size_t>, BufferRef> buffers;  // by input, and bytes of its layout
  const auto buffer_of = [&](size_t input, const TensorDesc& desc) {
    BufferRef& buffer = buffers[{input, desc.size_bytes()}];
    if (!buffer) buffer = random_buffer(device, desc.dtype, desc.size_bytes());
    return buffer.get();
  };
  for (Way& way : c.ways) {
    if (!way.kernel || std::chrono::duration<double>(Clock::now() - began).count() > seconds) continue;
    std::vector<Buffer*> inputs;
    for (size_t i = 0; i < way.candidate.inputs.size(); ++i) {
      const TensorDesc& desc = way.candidate.inputs[i];
      inputs.push_back(desc.present ? buffer_of(i, desc) : nullptr);
    }
    const std::vector<BufferRef> packed = pack_inputs(device, way.candidate, inputs);
    const BufferRef workspace =
        way.candidate.workspace_bytes ? device.allocate(way.candidate.workspace_bytes) : nullptr;
    Buffer* output = buffer_of(c.op.inputs.size(), way.candidate.outputs[0]);
    std::vector<double> samples;
    int repeat = 1;
    for (int sample = 0; sample < 7; ++sample) {
      device.synchronize();
      const auto timing = device.start_timing();
      for (int i = 0; i < repeat; ++i) way.kernel->run({inputs.data(), &output, workspace.get()});
      timing->stop();
      const double us = timing->milliseconds() * 1e3 / repeat;
      if (sample > 1) samples.push_back(us);
      repeat = std::clamp(int(400 / us), 1, 40);
      if (sample == 1 && us > 1000) samples.push_back(us), sample = 7;
    }
    std::sort(samples.begin(), samples.end());
    way.us = samples[samples.size() / 2];
  }
}

std::string values_of(const Way& way, bool layouts) {
  std::string text = layouts ? way.candidate.inputs[0].layout.str() + ":" : "";
  bool inside = false;
  for (const char letter : way.candidate.tuning.values) {
    inside = letter == '=' || (inside && letter != ' ');
    if (inside && letter != '=') text += letter;
    if (letter == ' ') text += ',';
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string family = argc > 1 ? argv[1] : "conv_fwd_quad", name = argc > 2 ? argv[2] : "opencl:0";
  const double seconds = argc > 3 ? std::atof(argv[3]) : 40;
  try {
    const auto began = Clock::now();
    const auto past = [&] { return std::chrono::duration<double>(Clock::now() - began).count(); };
    ContextOptions options;
    const std::shared_ptr<Context> context = Context::create(options);
    Device& device = context->device(name);
    std::vector<Convolution> convolutions;
    for (std::string line; std::getline(std::cin, line);) {
      if (line.empty() || line[0] == '#') continue;
      Convolution c{line, convolution(line), {}};
      CandidateList list;
      list.whole_space = true;
      for (Provider* provider : context->providers_of(device)) provider->list(c.op, device, list);
      for (Candidate& candidate : list.candidates)
        if (candidate.tuning.family == family || (candidate.tuning.start && candidate.efficiency >= 0.02))
          c.ways.push_back({std::move(candidate), nullptr, {}});
      convolutions.push_back(std::move(c));
    }
    std::vector<Way*> all;
    for (Convolution& c : convolutions)
      for (Way& way : c.ways) all.push_back(&way);
    std::atomic<size_t> next{0};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i)
      threads.emplace_back([&] {
        for (size_t at; (at = next++) < all.size();) {
          try {
            all[at]->kernel = all[at]->candidate.prepare();
          } catch (const Error& error) {
            all[at]->refusal = error.what();
          }
        }
      });
    for (std::thread& thread : threads) thread.join();
    std::printf("# %s: %zu programs in %.1f s\n", device.fingerprint().c_str(), all.size(), past());
    const double each = seconds / double(std::max<size_t>(1, convolutions.size()));
    for (Convolution& c : convolutions) {
      time_ways(device, c, each);
      std::sort(c.ways.begin(), c.ways.end(), [](const Way& a, const Way& b) { return a.us < b.us; });
      std::printf("%s\n ", c.line.c_str());
      int others = 0;
      bool layouts = false;
      for (const Way& way : c.ways) {
        layouts |= way.candidate.inputs[0].layout != Layout::channels_last(4) && way.candidate.tuning.family == family;
        if (way.candidate.tuning.family == family || ++others > 4 || std::isinf(way.us)) continue;
        std::printf(" %s %s %.1f (%.2f);", way.candidate.implementation.c_str(),
                    way.candidate.inputs[0].layout.str().c_str(), way.us, way.candidate.efficiency);
      }
      std::printf("\n ");
      for (const Way& way : c.ways) {
        if (way.candidate.tuning.family != family) continue;
        if (!way.refusal.empty()) std::printf(" FAILED %s", way.refusal.substr(0, 300).c_str());
        std::printf(" %s%s %.1f;", values_of(way, layouts).c_str(), way.candidate.tuning.start ? "*" : "", way.us);
      }
      std::printf("\n");
      std::fflush(stdout);
    }
    std::printf("# %.1f s in all\n", past());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "conv_points: %s\n", error.what());
    return 1;
  }
  return 0;
}

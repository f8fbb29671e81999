// Kinds channel_shuffle and interleave: channels in another order, from one or two tensors to one or several.
#include <cstring>
#include <vector>

#include "providers/host/common/host.h"

namespace pl::host {
namespace {

constexpr int64_t kMostLanes = 64;  // of a block of channels

// A tensor in memory is [outer][channel / block][inner][block]: NCHW has block 1, NHWC also inner 1.
struct Geometry {
  int64_t outer = 1, inner = 1, block = 1;
};

std::optional<Geometry> geometry_of(const TensorDesc& desc) {
  const Layout& layout = desc.layout;
  if (layout.block_count() > 1 || (layout.block_count() == 1 && layout.block(0).dim != 1)) return std::nullopt;
  Geometry geometry;
  geometry.block = layout.block_of(1);
  if (geometry.block > kMostLanes) return std::nullopt;
  bool before = true;
  for (int i = 0; i < layout.rank(); ++i) {
    const int dim = layout.order(i);
    if (dim == 1)
      before = false;
    else
      (before ? geometry.outer : geometry.inner) *= desc.shape[dim];
  }
  return geometry;
}

// Channels 0, 1, ... of all sources together, taken from `groups` groups of them in turns, go to the channels of all
// results together.
template <class T>
struct ShuffleBody {
  Geometry g;
  int64_t groups = 1, each = 0;         // each: channels in a group
  std::vector<int64_t> sources, parts;  // their channels

  struct Place {
    size_t tensor;
    int64_t channel;
  };
  // Where channel `c` of all results comes from.
  Place source_of(int64_t c) const {
    int64_t channel = c % groups * each + c / groups;
    size_t tensor = 0;
    for (; channel >= sources[tensor]; ++tensor) channel -= sources[tensor];
    return {tensor, channel};
  }
  int64_t blocks_of(int64_t channels) const { return (channels + g.block - 1) / g.block; }

  // Channel by channel, `inner` elements of each that lie together.
  void planes(const T* const* x, T* y, int64_t first, int64_t count) const {
    parallel_for(g.outer * count, 0.1 * double(g.inner) * sizeof(T), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Place from = source_of(first + i % count);
        std::memcpy(y + i * g.inner, x[from.tensor] + (i / count * sources[from.tensor] + from.channel) * g.inner,
                    size_t(g.inner) * sizeof(T));
      }
    });
  }

  // Position by position, all channels together.
  void rows(const T* const* x, T* y, int64_t first, int64_t count) const {
    std::vector<Place> places;
    if (!pairs(first, count))
      for (int64_t c = 0; c < count; ++c) places.push_back(source_of(first + c));
    parallel_for(g.outer, 0.4 * double(count), [&](int64_t begin, int64_t end) {
      if (places.empty()) {
        const Place even = source_of(first), odd = source_of(first + 1);
        for (int64_t i = begin; i < end; ++i) {
          const T* a = x[even.tensor] + i * sources[even.tensor] + even.channel;
          const T* b = x[odd.tensor] + i * sources[odd.tensor] + odd.channel;
          T* to = y + i * count;
#pragma omp simd
          for (int64_t j = 0; j < count / 2; ++j) {
            to[2 * j] = a[j];
            to[2 * j + 1] = b[j];
          }
        }
        return;
      }
      for (int64_t i = begin; i < end; ++i)
        for (int64_t c = 0; c < count; ++c)
          y[i * count + c] =
              x[places[size_t(c)].tensor][i * sources[places[size_t(c)].tensor] + places[size_t(c)].channel];
    });
  }
  // Whether these channels are those of two runs in turns.
  bool pairs(int64_t first, int64_t count) const {
    if (groups != 2 || first % 2 || count % 2 || count == 0) return false;
    return source_of(first).tensor == source_of(first + count - 2).tensor &&
           source_of(first + 1).tensor == source_of(first + count - 1).tensor;
  }

  // A block of channels at a time; each of its lanes has a source.
  void blocked(const T* const* x, T* y, int64_t first, int64_t count) const {
    const int64_t blocks = blocks_of(count), b = g.block, plane = g.inner * b;
    parallel_for(g.outer * blocks, 0.5 * double(plane), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        T* to = y + i * plane;
        const int64_t start = i % blocks * b, lanes = std::min(b, count - start);
        const T* from[kMostLanes];
        for (int64_t lane = 0; lane < lanes; ++lane) {
          const Place place = source_of(first + start + lane);
          from[lane] = x[place.tensor] + (i / blocks * blocks_of(sources[place.tensor]) + place.channel / b) * plane +
                       place.channel % b;
        }
        for (int64_t p = 0; p < g.inner; ++p) {
          for (int64_t lane = 0; lane < lanes; ++lane) to[p * b + lane] = from[lane][p * b];
          for (int64_t lane = lanes; lane < b; ++lane) to[p * b + lane] = T(0);
        }
      }
    });
  }

  void operator()(const KernelArguments& arguments) const {
    const T* x[2] = {};
    for (size_t i = 0; i < sources.size(); ++i) x[i] = static_cast<const T*>(input(arguments, int(i)));
    int64_t first = 0;
    for (size_t k = 0; k < parts.size(); first += parts[k++]) {
      T* y = static_cast<T*>(output(arguments, int(k)));
      if (g.block > 1)
        blocked(x, y, first, parts[k]);
      else if (g.inner == 1)
        rows(x, y, first, parts[k]);
      else
        planes(x, y, first, parts[k]);
    }
  }
};

template <class T>
void add(const Op& op, const char* name, int64_t groups, const Layout& layout, CandidateList& out) {
  ShuffleBody<T> body;
  std::vector<TensorDesc> inputs, outputs;
  int64_t channels = 0;
  for (const TensorDesc& desc : op.inputs) {
    inputs.push_back(desc.with_layout(layout));
    body.sources.push_back(desc.shape[1]);
    channels += desc.shape[1];
  }
  for (const TensorDesc& desc : op.outputs) {
    outputs.push_back(desc.with_layout(layout));
    body.parts.push_back(desc.shape[1]);
  }
  const auto geometry = geometry_of(inputs[0]);
  if (!geometry) return;
  body.g = *geometry;
  body.groups = groups;
  body.each = channels / groups;
  add_candidate(out, name, Quality::fast, inputs, outputs, [=] { return body; });
}

void list_channel_shuffle(const Op& op, const char* name, int64_t groups, CandidateList& out) {
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    switch (size_of(op.in(0).dtype)) {
      case 1: add<uint8_t>(op, name, groups, layout, out); break;
      case 2: add<uint16_t>(op, name, groups, layout, out); break;
      case 4: add<uint32_t>(op, name, groups, layout, out); break;
      default: add<uint64_t>(op, name, groups, layout, out); break;
    }
  }
}

PL_HOST_KIND("channel_shuffle", [](const Op& op, CandidateList& out) {
  list_channel_shuffle(op, "channel_shuffle", op.attributes[attr::groups], out);
});
PL_HOST_KIND("interleave", [](const Op& op, CandidateList& out) {
  list_channel_shuffle(op, "interleave", op.attributes[attr::groups], out);
});

}  // namespace
}  // namespace pl::host

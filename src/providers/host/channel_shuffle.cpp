// Kind channel_shuffle: copies of whole planes, or the channels of a position in another order.
#include <cstring>

#include "providers/host/host.h"

namespace pl::host {
namespace {

// Memory is [outer][channel / block][inner][block]: NCHW has block 1, NHWC also inner 1.
struct Geometry {
  int64_t outer = 1, channels = 0, inner = 1, block = 1, groups = 1;

  int64_t blocks() const { return (channels + block - 1) / block; }
  int64_t source_of(int64_t channel) const { return channel % groups * (channels / groups) + channel / groups; }
};

template <class T>
struct ShuffleBody {
  Geometry g;

  // Channel by channel, `inner` elements of each that lie together.
  void planes(const T* x, T* y) const {
    parallel_for(g.outer * g.channels, 0.1 * double(g.inner) * sizeof(T), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t source = i / g.channels * g.channels + g.source_of(i % g.channels);
        std::memcpy(y + i * g.inner, x + source * g.inner, size_t(g.inner) * sizeof(T));
      }
    });
  }

  // Position by position, all channels together.
  void rows(const T* x, T* y) const {
    const int64_t groups = g.groups, each = g.channels / groups;
    parallel_for(g.outer, 0.4 * double(g.channels), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T* from = x + i * g.channels;
        T* to = y + i * g.channels;
        if (groups == 2) {
#pragma omp simd
          for (int64_t j = 0; j < each; ++j) {
            to[2 * j] = from[j];
            to[2 * j + 1] = from[each + j];
          }
        } else {
          for (int64_t j = 0; j < each; ++j)
            for (int64_t k = 0; k < groups; ++k) to[j * groups + k] = from[k * each + j];
        }
      }
    });
  }

  // A block of channels at a time; each of its lanes has a source block and lane.
  void blocked(const T* x, T* y) const {
    const int64_t blocks = g.blocks(), b = g.block, plane = g.inner * b;
    parallel_for(g.outer * blocks, 0.5 * double(plane), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T* from = x + i / blocks * blocks * plane;
        T* to = y + i * plane;
        const int64_t first = i % blocks * b, lanes = std::min(b, g.channels - first);
        int64_t offsets[kMostLanes];
        for (int64_t lane = 0; lane < lanes; ++lane) {
          const int64_t source = g.source_of(first + lane);
          offsets[lane] = source / b * plane + source % b;
        }
        for (int64_t p = 0; p < g.inner; ++p) {
          for (int64_t lane = 0; lane < lanes; ++lane) to[p * b + lane] = from[offsets[lane] + p * b];
          for (int64_t lane = lanes; lane < b; ++lane) to[p * b + lane] = T(0);
        }
      }
    });
  }

  void operator()(const KernelArguments& arguments) const {
    const T* x = static_cast<const T*>(input(arguments, 0));
    T* y = static_cast<T*>(output(arguments));
    if (g.block > 1) return blocked(x, y);
    if (g.inner == 1) return rows(x, y);
    planes(x, y);
  }

  static constexpr int64_t kMostLanes = 64;
};

template <class T>
void add(CandidateList& out, const TensorDesc& x, const Geometry& geometry) {
  if (geometry.block > ShuffleBody<T>::kMostLanes) return;
  add_candidate(out, "channel_shuffle", Quality::fast, {x}, {x}, [=] { return ShuffleBody<T>{geometry}; });
}

void list(const Op& op, CandidateList& out) {
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    if (layout.block_count() > 1 || (layout.block_count() == 1 && layout.block(0).dim != 1)) continue;
    const TensorDesc x = op.in(0).with_layout(layout);
    Geometry geometry;
    geometry.channels = x.shape[1];
    geometry.block = layout.block_of(1);
    geometry.groups = op.attributes.integer("groups");
    bool before = true;
    for (int i = 0; i < layout.rank(); ++i) {
      const int dim = layout.order(i);
      if (dim == 1)
        before = false;
      else
        (before ? geometry.outer : geometry.inner) *= x.shape[dim];
    }
    switch (size_of(x.dtype)) {
      case 1: add<uint8_t>(out, x, geometry); break;
      case 2: add<uint16_t>(out, x, geometry); break;
      case 4: add<uint32_t>(out, x, geometry); break;
      default: add<uint64_t>(out, x, geometry); break;
    }
  }
}
PL_HOST_KIND("channel_shuffle", list);

}  // namespace
}  // namespace pl::host

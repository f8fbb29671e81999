// The vector code of conv_micro.h for one filter a channel, and for groups of channels.  A part of that file, in its
// namespace: no include guard, as there.

// All taps of a place along an axis, without those beside the image; `top`: where tap 0 is.
struct Taps {
  int64_t top, first, last;
};
Taps taps_of(const SlidAxis& axis, int64_t place) {
  Taps taps = {place * axis.stride - axis.begin, 0, axis.kernel};
  while (taps.first < taps.last && taps.top + taps.first * axis.dilation < 0) ++taps.first;
  while (taps.last > taps.first && taps.top + (taps.last - 1) * axis.dilation >= axis.in) --taps.last;
  return taps;
}
// The rows of a filter that lie within the image.
struct FilterRows {
  Taps planes, rows;
};
// Calls use(where what it reads begins, its weights) for each; x and w: of tap (0, 0, 0).
template <class Use>
PL_ALWAYS void for_each_row(const Depthwise& job, const FilterRows& filter, const float* x, const float* w,
                            int64_t w_row, Use use) {
  for (int64_t kd = filter.planes.first; kd < filter.planes.last; ++kd)
    for (int64_t kh = filter.rows.first; kh < filter.rows.last; ++kh)
      use(x + kd * job.planes.dilation * job.x_plane + kh * job.rows.dilation * job.x_row,
          w + (kd * job.rows.kernel + kh) * w_row);
}
PL_ALWAYS int64_t filter_rows(const Depthwise& job) { return job.planes.kernel * job.rows.kernel; }

// P pixels of one row and vector, of these rows of the filter.  `x`: what tap (0, 0, 0) of the first pixel reads,
// `column` its column.  Edge: taps may lie beside the image.  Cut: only `part` channels are in memory; else x and y are
// blocked where the last vector is not whole.
template <int P, bool Edge, bool Cut>
void depthwise_tile(const Depthwise& job, const float* x, int64_t column, const FilterRows& of, int64_t vector,
                    int64_t offset, int part) {
  constexpr Last kLast = Cut ? Last::cut : Last::filled;
  Vec sums[P][1];
  start<P, 1, kLast>(sums, job.result, offset, vector, part);
  const int64_t step = job.stride_w * job.x_pixel;
  const int64_t w_row = job.kernel_w * kWidth;
  const float* weights = job.weights + vector * filter_rows(job) * w_row;
  for_each_row(
      job, of, x, weights, w_row, [&](const float* row, const float* w) __attribute__((always_inline)) {
        int64_t at = column;
        for (int64_t kw = 0; kw < job.kernel_w; ++kw, w += kWidth) {
          const Vec filter = load(w);
#pragma GCC unroll 32
          for (int p = 0; p < P; ++p) {
            const float* from = row + p * step;
            if (Edge) {
              const bool inside = uint64_t(at + p * job.stride_w) < uint64_t(job.in_w);
              from = inside ? from : kZeros;
            }
            sums[p][0] += (Cut ? load_part(from, part) : load(from)) * filter;
          }
          row += job.dilation_w * job.x_pixel;
          at += job.dilation_w;
        }
      });
  end<P, 1, kLast>(sums, job.result, offset, part);
}

// The channels of x for each of y: one, a part of a vector (a power of two), or a whole one.
enum class Group { one, part, whole };

// Lane l gets lane l / group * group + i: input channel i of the group that output channel l belongs to, which is less
// than a vector.
PL_ALWAYS Vec spread(const Vec& v, const Lanes& lanes) {
#if PL_CONV_MASKS == 512
  return Vec(_mm512_maskz_permutexvar_ps(__mmask16(-1), __m512i(lanes), __m512(v)));
#elif PL_CONV_MASKS == 256
  return Vec(_mm256_permutevar_ps(__m256(v), __m256i(lanes)));  // within each half: groups are of 4 at most
#elif defined(__aarch64__)
  return Vec(vqtbl1q_u8(uint8x16_t(v), uint8x16_t(lanes * 0x04040404 + 0x03020100)));  // a table of bytes
#else
  Vec result;
  for (int i = 0; i < kWidth; ++i) result[i] = v[lanes[i]];
  return result;
#endif
}

// The same for a kernel of K columns, stride S and no dilation: each column of x is loaded once for all its taps.
// G: job.group channels of x for each of y.
template <int P, int Step, bool Edge, bool Cut, int K, int S, Group G>
void depthwise_columns(const Depthwise& job, const float* x, int64_t column, const FilterRows& of, int64_t vector,
                       int64_t offset, int part) {
  constexpr Last kLast = Cut ? Last::cut : Last::filled;
  Vec sums[P][1];
  start<P, 1, kLast>(sums, job.result, offset, vector, part);
  const int64_t pixel = Step ? Step : job.x_pixel, group = G == Group::one ? 1 : job.group;
  Lanes lanes{};
  if (G == Group::part) {
    for (int l = 0; l < kWidth; ++l) lanes[l] = l;
    lanes &= -int(group);  // a power of two
  }
  const int64_t channel = filter_rows(job) * K * kWidth;
  const float* weights = job.weights + vector * group * channel;
  for_each_row(
      job, of, x, weights, K * kWidth, [&](const float* row, const float* w) __attribute__((always_inline)) {
        Lanes from_lanes = lanes;
        for (int64_t i = 0; i < group; ++i, w += channel) {
          Vec filter[K];
#pragma GCC unroll 8
          for (int kw = 0; kw < K; ++kw) filter[kw] = load(w + kw * kWidth);
#pragma GCC unroll 32
          for (int c = 0; c < (P - 1) * S + K; ++c) {
            const float* from = row + c * pixel;
            const bool inside = !Edge || uint64_t(column + c) < uint64_t(job.in_w);
            // A branch goes the same way for all channels of a group, and costs less than to choose an address.
            if (G != Group::one && !inside) continue;
            if (!inside) from = kZeros;
            Vec value = G == Group::whole ? all(from[i]) : Cut ? load_part(from, part) : load(from);
            if (G == Group::part) value = spread(value, from_lanes);
#pragma GCC unroll 8
            for (int kw = 0; kw < K; ++kw)
              if (c >= kw && (c - kw) % S == 0 && (c - kw) / S < P) sums[(c - kw) / S][0] += value * filter[kw];
          }
          if (G == Group::part) from_lanes += 1;
        }
      });
  end<P, 1, kLast>(sums, job.result, offset, part);
}

using DepthwiseTile = void (*)(const Depthwise&, const float*, int64_t, const FilterRows&, int64_t, int64_t, int);
struct DepthwiseTiles {
  DepthwiseTile tile[kTiles.depthwise_pixels + 1][2] = {};  // by pixels, and whether at an edge
};
constexpr int kFewPixels = 3;  // so few are left to the general code

// K = 0: any kernel, stride and dilation.  Step: of neighbouring columns of x, or 0.
template <int Step, bool Cut, int K, int S, Group G, int P = kTiles.depthwise_pixels>
constexpr DepthwiseTiles fill_depthwise(DepthwiseTiles tiles) {
  if constexpr (G == Group::one && (K == 0 || P <= kFewPixels)) {
    tiles.tile[P][0] = depthwise_tile<P, false, Cut>;
    tiles.tile[P][1] = depthwise_tile<P, true, Cut>;
  } else {
    tiles.tile[P][0] = depthwise_columns<P, Step, false, Cut, K, S, G>;
    tiles.tile[P][1] = depthwise_columns<P, Step, true, Cut, K, S, G>;
  }
  if constexpr (P > 1)
    return fill_depthwise<Step, Cut, K, S, G, P - 1>(tiles);
  else
    return tiles;
}
// By how the channels lie: blocked, channels last, and the last vector of these, which groups of a whole vector fill.
struct DepthwiseFamily {
  DepthwiseTiles blocked, apart, cut;
};
template <int K, int S, Group G = Group::one>
constexpr DepthwiseFamily kFamily = {fill_depthwise<kWidth, false, K, S, G>({}), fill_depthwise<0, false, K, S, G>({}),
                                     fill_depthwise<0, G != Group::whole, K, S, G>({})};

const DepthwiseFamily& family_of(const Depthwise& job) {
#if PL_CONV_GROUPS
  if (job.group == kWidth) return job.stride_w == 1 ? kFamily<3, 1, Group::whole> : kFamily<3, 2, Group::whole>;
  if (job.group > 1) return job.stride_w == 1 ? kFamily<3, 1, Group::part> : kFamily<3, 2, Group::part>;
#endif
  if (job.dilation_w == 1) {
    if (job.kernel_w == 3 && job.stride_w == 1) return kFamily<3, 1>;
    if (job.kernel_w == 3 && job.stride_w == 2) return kFamily<3, 2>;
    if (job.kernel_w == 5 && job.stride_w == 1) return kFamily<5, 1>;
    if (job.kernel_w == 5 && job.stride_w == 2) return kFamily<5, 2>;
  }
  return kFamily<0, 0>;
}

void depthwise(const Depthwise& job, int64_t image, int64_t first_vector, int64_t last_vector, int64_t first,
               int64_t last) {
  const Result& result = job.result;
  const DepthwiseFamily& family = family_of(job);
  const int64_t pieces = (job.out_w + kTiles.depthwise_pixels - 1) / kTiles.depthwise_pixels;
  const int64_t reach = job.dilation_w * (job.kernel_w - 1);
  int64_t x_row = 0, y_row = 0;  // where they begin in an image
  FilterRows filter = {};
  const auto at_row = [&](int64_t row) {
    const int64_t od = row / job.rows.out, oh = row % job.rows.out;
    filter = {taps_of(job.planes, od), taps_of(job.rows, oh)};
    x_row = filter.planes.top * job.x_plane + filter.rows.top * job.x_row;
    y_row = od * result.plane + oh * result.row;
  };
  const auto piece_of_row = [&](int64_t piece, int64_t vector) {
    const int part = result.channels - vector * kWidth < kWidth ? int(result.channels % kWidth) : 0;
    const DepthwiseTiles& tiles = part && !result.padded  ? family.cut
                                  : job.x_pixel == kWidth ? family.blocked
                                                          : family.apart;
    const int64_t ow = job.out_w * piece / pieces, pixels = job.out_w * (piece + 1) / pieces - ow;
    const int64_t left = ow * job.stride_w - job.begin_w;
    const bool edge = left < 0 || left + (pixels - 1) * job.stride_w + reach >= job.in_w;
    const float* x = job.x + image * job.x_image + vector * job.x_vector + x_row + left * job.x_pixel;
    const int64_t offset = image * result.image + y_row + vector * result.vector + ow * result.pixel;
    tiles.tile[pixels][edge](job, x, left, filter, vector, offset, part);
  };
  // In the order in which x lies in memory.
  if (result.padded) {
    for (int64_t vector = first_vector; vector < last_vector; ++vector)
      for (int64_t row = first; row < last; ++row) {
        at_row(row);
        for (int64_t piece = 0; piece < pieces; ++piece) piece_of_row(piece, vector);
      }
  } else {
    for (int64_t row = first; row < last; ++row) {
      at_row(row);
      for (int64_t piece = 0; piece < pieces; ++piece)
        for (int64_t vector = first_vector; vector < last_vector; ++vector) piece_of_row(piece, vector);
    }
  }
}

// Kind fourier: lines are transposed into a buffer that holds a number of each side by side, transformed there, and
// transposed back.  Two real lines are one complex one, whose halves are told apart by their symmetry.  As these are
// sums and differences, the second line is scaled to the size of the first one, by a power of two; lines with infinities
// or NaN are transformed by themselves.
#include <cmath>
#include <cstring>
#include <memory>

#include "providers/host/common/host.h"
#include "providers/host/common/independent.h"
#include "providers/host/fourier/transform.h"
#include "providers/host/reorder/transpose.h"

namespace pl::host {
namespace {

enum class Way { complex, real_to_half, half_to_real };

constexpr int64_t kNumber = 2 * kLines;  // floats of a number of all lines
constexpr size_t kAlignment = 64;

PL_VECTORISED void scale_run(float* x, int64_t n, float scale) {
  for (int64_t i = 0; i < n; ++i) x[i] *= scale;
}

// Of z = a + i b, a and b real lines: the first `half` numbers of the transforms of both.
PL_VECTORISED void split_halves(const float* z, int64_t n, int64_t half, float scale, float* a, float* b) {
  scale *= 0.5f;
  for (int64_t k = 0; k < half; ++k) {
    const float *x = z + k * kNumber, *y = z + (k ? n - k : 0) * kNumber;
    float *to_a = a + k * kNumber, *to_b = b + k * kNumber;
    PL_INDEPENDENT
    for (int64_t i = 0; i < kLines; ++i) {
      const float re = x[i], im = x[kLines + i], other_re = y[i], other_im = y[kLines + i];
      to_a[i] = scale * (re + other_re);
      to_a[kLines + i] = scale * (im - other_im);
      to_b[i] = scale * (im + other_im);
      to_b[kLines + i] = scale * (other_re - re);
    }
  }
}
// The transform of a + i b from the first half of those of both; imaginary and real parts are in each other's places.
PL_VECTORISED void join_halves(const float* a, const float* b, int64_t n, int64_t half, float scale, float* z) {
  for (int64_t k = 0; k < half; ++k) {
    const bool alone = k == 0 || 2 * k == n;  // it is its own conjugate
    const float *of_a = a + k * kNumber, *of_b = b + k * kNumber, inside = alone ? 0.0f : scale;
    float *x = z + k * kNumber, *y = z + (k ? n - k : 0) * kNumber;
    PL_INDEPENDENT
    for (int64_t i = 0; i < kLines; ++i) {
      const float a_re = scale * of_a[i], a_im = inside == 0 ? 0.0f : inside * of_a[kLines + i];
      const float b_re = scale * of_b[i], b_im = inside == 0 ? 0.0f : inside * of_b[kLines + i];
      x[kLines + i] = a_re - b_im;
      x[i] = a_im + b_re;
      y[kLines + i] = a_re + b_im;
      y[i] = b_re - a_im;
    }
  }
}

// The largest magnitude of each column of rows of kNumber floats, as bits: NaN's are the largest.
PL_VECTORISED void largest_of_columns(const float* x, int64_t rows, uint32_t* largest) {
  std::fill_n(largest, kNumber, 0u);
  for (int64_t k = 0; k < rows; ++k) {
    uint32_t bits[kNumber];
    std::memcpy(bits, x + k * kNumber, sizeof bits);
    for (int64_t i = 0; i < kNumber; ++i) {
      const uint32_t magnitude = bits[i] & 0x7fffffffu;
      largest[i] = magnitude > largest[i] ? magnitude : largest[i];
    }
  }
}
// Columns times their factors, kLines side by side in rows of kNumber floats.
PL_VECTORISED void scale_columns(float* x, int64_t rows, const float* factors) {
  for (int64_t k = 0; k < rows; ++k)
    for (int64_t i = 0; i < kLines; ++i) x[k * kNumber + i] *= factors[i];
}

// Factors by which second lines become as large as the first ones, and those that undo it.
struct Balance {
  bool finite = true, even = true;  // even: all factors may as well be 1
  float there[kLines], back[kLines];

  // Of the bits of the largest magnitudes of both.
  Balance(const uint32_t* first, const uint32_t* second) {
    constexpr int kSmallest = 2, kMost = 120;  // exponents
    for (int64_t i = 0; i < kLines; ++i) {
      const int a = int(first[i] >> 23), b = int(second[i] >> 23);
      finite = finite && a < 255 && b < 255;
      const bool both = first[i] != 0 && second[i] != 0;
      const int by = both ? std::max(-kMost, std::min(a - b, kMost)) : 0;
      even = even && std::abs(by) <= kSmallest;
      there[i] = std::ldexp(1.0f, by);
      back[i] = std::ldexp(1.0f, -by);
    }
  }
};

struct FourierBody {
  Way way = Way::complex;
  bool inverse = false, windowed = false;
  float scale = 1;
  int64_t lines = 1, in_floats = 1, out_floats = 1;  // of a line
  // From a line to the next, of so many one after the other; and from the first of those to the first of the next.
  int64_t in_step = 1, neighbours = 1, outer_step = 1;
  int64_t slots = 1;  // threads at most
  std::shared_ptr<const FourierTransform> transform;

  int64_t of_group() const { return way == Way::complex ? kLines : 2 * kLines; }

  // What a thread works in, a part of the workspace: two buffers, each with room for half a transform of as many lines
  // twice.
  struct Room {
    float *a, *b, *scratch;
  };
  int64_t half_floats() const { return (transform->length() / 2 + 1) * kNumber; }
  int64_t buffer_floats() const { return std::max(transform->buffer_floats(), 2 * half_floats()); }
  int64_t room_floats() const { return 2 * buffer_floats() + transform->scratch_floats(); }
  size_t workspace_bytes() const { return size_t(slots * room_floats()) * sizeof(float) + kAlignment; }
  Room room_of(void* workspace, int64_t slot) const {
    const auto address = reinterpret_cast<uintptr_t>(workspace);
    float* at = reinterpret_cast<float*>((address + kAlignment - 1) / kAlignment * kAlignment) + slot * room_floats();
    return {at, at + buffer_floats(), at + 2 * buffer_floats()};
  }

  // Lines from `first` on, at most kLines, to or from a buffer; `columns` floats of each, `step` apart in the buffer.
  void load(const float* x, int64_t first, int64_t columns, float* buffer, int64_t step) const {
    const int64_t end = std::min(first + kLines, lines);
    for (int64_t line = first; line < end;) {
      const int64_t outer = line / neighbours, place = line % neighbours;
      const int64_t n = std::min(end - line, neighbours - place);
      transposer(4)(x + outer * outer_step + place * in_step, in_step, buffer + (line - first), step, n, columns);
      line += n;
    }
  }
  void store(const float* buffer, int64_t step, int64_t first, float* y) const {
    if (const int64_t n = std::min(kLines, lines - first); n > 0)
      transposer(4)(buffer, step, y + first * out_floats, out_floats, out_floats, n);
  }

  void group(int64_t first, const float* x, const float* window, float* y, const Room& room) const {
    const int64_t n = transform->length();
    if (lines - first < of_group()) std::fill_n(room.a, 2 * buffer_floats(), 0.0f);  // what lines lack
    if (way == Way::complex) {
      load(x, first, in_floats, room.a, kLines);
      if (inverse) swap_parts(room.a, n);
      float* made = transform->run(room.a, room.b, room.scratch);
      if (inverse) swap_parts(made, n);
      if (scale != 1) scale_run(made, n * kNumber, scale);
      store(made, kLines, first, y);
    } else if (!halves(first, true, true, x, window, y, room)) {
      halves(first, true, false, x, window, y, room);
      halves(first, false, true, x, window, y, room);
    }
  }

  // First lines, and the second ones, or one of them.  False, and nothing is done, if both are asked for and one has an
  // infinity or NaN.
  bool halves(int64_t first, bool firsts, bool seconds, const float* x, const float* window, float* y,
              const Room& room) const {
    const int64_t n = transform->length(), half = n / 2 + 1, second = first + kLines;
    const bool both = firsts && seconds;
    if (!both) std::fill_n(room.a, 2 * buffer_floats(), 0.0f);
    uint32_t largest[2 * kNumber];
    if (way == Way::real_to_half) {
      if (firsts) load(x, first, n, room.a, kNumber);
      if (seconds) load(x, second, n, room.a + kLines, kNumber);
      if (window) weigh(room.a, window, n);
      largest_of_columns(room.a, n, largest);
      const Balance balance(largest, largest + kLines);
      if (both && !balance.finite) return false;
      if (!balance.even) scale_columns(room.a + kLines, n, balance.there);
      const float* made = transform->run(room.a, room.b, room.scratch);
      float *left = made == room.a ? room.b : room.a, *right = left + half_floats();
      split_halves(made, n, half, scale, left, right);
      if (!balance.even)
        for (float* part : {right, right + kLines}) scale_columns(part, half, balance.back);
      if (firsts) store(left, kLines, first, y);
      if (seconds) store(right, kLines, second, y);
    } else {
      float *left = room.b, *right = left + half_floats();
      if (firsts) load(x, first, in_floats, left, kLines);
      if (seconds) load(x, second, in_floats, right, kLines);
      largest_of_columns(left, half, largest);
      largest_of_columns(right, half, largest + kNumber);
      for (uint32_t* of : {largest, largest + kNumber})
        for (int64_t i = 0; i < kLines; ++i) of[i] = std::max(of[i], of[kLines + i]);
      const Balance balance(largest, largest + kNumber);
      if (both && !balance.finite) return false;
      if (!balance.even)
        for (float* part : {right, right + kLines}) scale_columns(part, half, balance.there);
      join_halves(left, right, n, half, scale, room.a);
      float* made = transform->run(room.a, room.b, room.scratch);
      if (!balance.even) scale_columns(made, n, balance.back);
      if (firsts) store(made + kLines, kNumber, first, y);
      if (seconds) store(made, kNumber, second, y);
    }
    return true;
  }

  PL_VECTORISED static void weigh(float* x, const float* window, int64_t n) {
    for (int64_t k = 0; k < n; ++k)
      for (int64_t i = 0; i < kNumber; ++i) x[k * kNumber + i] *= window[k];
  }
  PL_VECTORISED static void swap_parts(float* x, int64_t n) {
    for (int64_t k = 0; k < n; ++k)
      for (int64_t i = 0; i < kLines; ++i) std::swap(x[k * kNumber + i], x[k * kNumber + kLines + i]);
  }

  void operator()(const KernelArguments& arguments) const {
    if (lines == 0 || out_floats == 0) return;
    const float* x = static_cast<const float*>(input(arguments, 0));
    const float* window = windowed ? static_cast<const float*>(input(arguments, 1)) : nullptr;
    float* y = static_cast<float*>(output(arguments));
    const int64_t groups = (lines + of_group() - 1) / of_group();
    const double n = double(transform->length()), work = n * (4 * std::log2(n + 1) + 20);
    const int threads = int(std::min<int64_t>(slots, threads_for(double(groups) * work)));
    in_shares(threads, groups, [&](int64_t rank, Shares::Taker take) {
      const Room room = room_of(arguments.workspace->host(), rank);
      for (int64_t i; (i = take()) >= 0;) group(i * of_group(), x, window, y, room);
    });
  }
};

void list_fourier(const Op& op, CandidateList& out) {
  const TensorDesc x = dense_plain(op.in(0)), y = dense_plain(op.out());
  const std::string& name = op.schema->name;
  FourierBody body;
  body.way = name == "fft" ? Way::complex : name == "rfft" ? Way::real_to_half : Way::half_to_real;
  body.scale = float(double(op.attributes[attr::scale]));
  const int out_dims = body.way == Way::half_to_real ? 1 : 2;
  for (int d = 0; d < y.rank() - out_dims; ++d) body.lines *= y.shape[d];
  for (int d = y.rank() - out_dims; d < y.rank(); ++d) body.out_floats *= y.shape[d];
  const int64_t length = x.shape[x.rank() - 1];
  int64_t n = length;  // numbers of a line
  if (body.way == Way::complex) {
    body.inverse = op.attributes[attr::inverse];
    n = x.shape[x.rank() - 2];
    body.in_floats = 2 * n;
  } else if (body.way == Way::half_to_real) {
    n = body.out_floats;
    body.in_floats = 2 * (n / 2 + 1);
  } else {
    body.windowed = op.has(1);
    if (op.attributes[attr::hop] > 0) n = op.attributes[attr::size];
    body.in_floats = n;
  }
  body.in_step = body.in_floats;
  body.neighbours = std::max<int64_t>(body.lines, 1);
  if (body.way == Way::real_to_half && op.attributes[attr::hop] > 0) {
    body.in_step = op.attributes[attr::hop];
    body.neighbours = (length - n) / body.in_step + 1;
    body.outer_step = length;
  }
  body.transform = std::make_shared<const FourierTransform>(std::max<int64_t>(n, 1));
  body.slots = std::min<int64_t>(omp_get_max_threads(), (body.lines + body.of_group() - 1) / body.of_group());
  std::vector<TensorDesc> inputs{x};
  for (size_t i = 1; i < op.inputs.size(); ++i) inputs.push_back(dense_plain(op.inputs[i]));
  add_candidate(out, "fourier", Quality::fair, inputs, {y}, [body] {
    FourierBody made = body;
    auto transform = std::make_shared<FourierTransform>(*body.transform);
    transform->fill_factors();
    made.transform = std::move(transform);
    return made;
  });
  out.candidates.back().workspace_bytes = body.workspace_bytes();
}
PL_HOST_KIND("fourier", list_fourier);

}  // namespace
}  // namespace pl::host

// Kind random_dropout: Philox4x32-10 by the number of each element.
#include "providers/host/common/host.h"

namespace pl::host {
namespace {

struct Words {
  uint32_t word[4];
};

Words philox(uint64_t counter, uint64_t key) {
  uint32_t c[4] = {uint32_t(counter), uint32_t(counter >> 32), 0, 0};
  uint32_t k[2] = {uint32_t(key), uint32_t(key >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = uint64_t(0xD2511F53u) * c[0], second = uint64_t(0xCD9E8D57u) * c[2];
    const uint32_t next[4] = {uint32_t(second >> 32) ^ c[1] ^ k[0], uint32_t(second),
                              uint32_t(first >> 32) ^ c[3] ^ k[1], uint32_t(first)};
    std::copy(next, next + 4, c);
    k[0] += 0x9E3779B9u;
    k[1] += 0xBB67AE85u;
  }
  return {{c[0], c[1], c[2], c[3]}};
}

struct Body {
  TensorDesc x;
  double p;
  LoadRun<float> load;
  StoreRun<float> store;

  void operator()(const KernelArguments& arguments) const {
    const int64_t count = x.elements();
    const uint64_t seed = uint64_t(*static_cast<const int64_t*>(input(arguments, 1)));
    const double limit = p * 4294967296.0;
    const float scale = float(1 / (1 - p));
    parallel_for((count + kChunk - 1) / kChunk, 8.0 * kChunk, [&](int64_t begin, int64_t end) {
      float values[kChunk];
      for (int64_t at = begin * kChunk; at < std::min(end * kChunk, count); at += kChunk) {
        const int64_t n = std::min(kChunk, count - at);
        load(input(arguments, 0), at, 1, n, values);
        for (int64_t i = 0; i < n; i += 4) {
          const Words words = philox(uint64_t(at + i) / 4, seed);
          for (int64_t k = 0; k < std::min<int64_t>(4, n - i); ++k)
            values[i + k] = double(words.word[k]) < limit ? 0.0f : values[i + k] * scale;
        }
        store(values, n, output(arguments), at, 1);
      }
    });
  }
};
static_assert(kChunk % 4 == 0, "chunks begin at whole counters");

void list(const Op& op, CandidateList& out) {
  const TensorDesc x = dense_plain(op.in(0));
  const Body body{x, op.attributes.number("p"), float_loader(x.dtype), float_storer(x.dtype)};
  add_candidate(out, "random_dropout", Quality::fair, {x, dense_plain(op.in(1))}, {x}, [body] { return body; });
}
PL_HOST_KIND("random_dropout", list);

}  // namespace
}  // namespace pl::host

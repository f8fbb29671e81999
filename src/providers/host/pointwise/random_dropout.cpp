// Kind random_dropout: by the number of each element.
#include "providers/host/common/host.h"
#include "providers/host/common/philox.h"

namespace pl::host {
namespace {

struct RandomDropoutBody {
  TensorDesc x;
  int64_t seeds;  // elements of the input `seed`
  double p;
  LoadRun<float> load;
  StoreRun<float> store;

  void operator()(const KernelArguments& arguments) const {
    const int64_t count = x.elements();
    const PhiloxSeed seed(input(arguments, 1), seeds);
    const double limit = p * 4294967296.0;
    const float scale = float(1 / (1 - p));
    parallel_for((count + kChunk - 1) / kChunk, 8.0 * kChunk, [&](int64_t begin, int64_t end) {
      float values[kChunk];
      for (int64_t at = begin * kChunk; at < std::min(end * kChunk, count); at += kChunk) {
        const int64_t n = std::min(kChunk, count - at);
        load(input(arguments, 0), at, 1, n, values);
        for (int64_t i = 0; i < n; i += 4) {
          const PhiloxWords words = seed.words(uint64_t(at + i) / 4);
          for (int64_t k = 0; k < std::min<int64_t>(4, n - i); ++k)
            values[i + k] = double(words.word[k]) < limit ? 0.0f : values[i + k] * scale;
        }
        store(values, n, output(arguments), at, 1);
      }
    });
  }
};
static_assert(kChunk % 4 == 0, "chunks begin at whole counters");

void list_random_dropout(const Op& op, CandidateList& out) {
  const TensorDesc x = dense_plain(op.in(0));
  const RandomDropoutBody body{x, op.in(1).elements(), op.attributes[attr::p], float_loader(x.dtype),
                               float_storer(x.dtype)};
  add_candidate(out, "random_dropout", Quality::fair, {x, dense_plain(op.in(1))}, {x}, [body] { return body; });
}
PL_HOST_KIND("random_dropout", list_random_dropout);

}  // namespace
}  // namespace pl::host

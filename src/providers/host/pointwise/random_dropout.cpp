// Kind random_dropout: by the number of each element.
#include "providers/host/common/dropout.h"

namespace pl::host {
namespace {

struct RandomDropoutBody {
  TensorDesc x;
  DropoutInput how;
  LoadRun<float> load;
  StoreRun<float> store;

  void operator()(const KernelArguments& arguments) const {
    const int64_t count = x.elements();
    const Dropout dropout = how.drawn(arguments);
    parallel_for((count + kChunk - 1) / kChunk, 1.0 * kChunk, [&](int64_t begin, int64_t end) {
      float values[kChunk];
      for (int64_t at = begin * kChunk; at < std::min(end * kChunk, count); at += kChunk) {
        const int64_t n = std::min(kChunk, count - at);
        load(input(arguments, 0), at, 1, n, values);
        dropout.run(uint64_t(at), values, n);
        store(values, n, output(arguments), at, 1);
      }
    });
  }
};

void list_random_dropout(const Op& op, CandidateList& out) {
  const TensorDesc x = dense_plain(op.in(0));
  const RandomDropoutBody body{x, DropoutInput(op, 1, attr::p), float_loader(x.dtype), float_storer(x.dtype)};
  add_candidate(out, "random_dropout", Quality::fair, {x, dense_plain(op.in(1))}, {x}, [body] { return body; });
}
PL_HOST_KIND("random_dropout", list_random_dropout);

}  // namespace
}  // namespace pl::host

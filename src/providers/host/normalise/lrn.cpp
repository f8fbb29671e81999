// Kind lrn: local response normalisation across channels.  A column of channels is gathered for each position.
#include <cmath>

#include "providers/host/common/host.h"
#include "providers/host/common/split_walk.h"

namespace pl::host {
namespace {

struct LrnBody {
  int64_t size;
  double alpha, beta, k;
  SplitWalk split;  // over x and y: channels along
  LoadRun<double> load;
  StoreRun<double> store;
  PaddingZeroer zeroer;

  void operator()(const KernelArguments& arguments) const {
    const void* x = input(arguments, 0);
    void* y = output(arguments);
    const int64_t channels = split.along_elements;
    const size_t count = size_t(channels);
    for (const Nest& nest : split.kept) {
      const int64_t* step = nest.run().stride;
      for_each_run(nest, 30.0 * double(channels), [&](const int64_t* offsets, int64_t n) {
        std::vector<double> column(count), result(count);
        for (int64_t i = 0; i < n; ++i) {
          gather_row(split, 0, load, x, offsets[0] + i * step[0], column.data());
          for (int64_t c = 0; c < channels; ++c) {
            // Summed anew for each channel: running sums would carry an infinity on.
            const int64_t first = std::max<int64_t>(0, c - size / 2), last = std::min(channels - 1, c + (size - 1) / 2);
            double sum = 0;
            for (int64_t j = first; j <= last; ++j) sum += column[size_t(j)] * column[size_t(j)];
            const double base = k + alpha / double(size) * sum;
            const double power = beta == 0.75 ? std::sqrt(base) * std::sqrt(std::sqrt(base)) : std::pow(base, beta);
            result[size_t(c)] = column[size_t(c)] / power;
          }
          scatter_row(split, 1, store, y, offsets[1] + i * step[1], result.data());
        }
      });
    }
    zeroer.run(y);
  }
};

void list_lrn(const Op& op, CandidateList& out) {
  for (const Layout& layout : layouts_to_try(op, op.in(0))) {
    const TensorDesc x = op.in(0).with_layout(layout), y = op.out().with_layout(layout);
    add_candidate(out, "lrn", Quality::reference, {x}, {y},
                  [=, size = op.attributes[attr::size], alpha = op.attributes[attr::alpha],
                   beta = op.attributes[attr::beta], k = op.attributes[attr::k_float]] {
                    std::vector<bool> along(size_t(x.rank()), false);
                    along[1] = true;
                    return LrnBody{size,
                                   alpha,
                                   beta,
                                   k,
                                   SplitWalk(x.shape, along, {{x, {}}, {y, {}}}),
                                   double_loader(x.dtype),
                                   double_storer(x.dtype),
                                   PaddingZeroer(y)};
                  });
  }
}
PL_HOST_KIND("lrn", list_lrn);

}  // namespace
}  // namespace pl::host

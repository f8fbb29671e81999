// Kind fold: one channel of an image at a time, its windows added row by row.
#include <algorithm>
#include <vector>

#include "providers/host/common/host.h"
#include "providers/host/common/planes.h"

namespace pl::host {
namespace {

// Spatial dimensions as three; missing ones in front have size 1.
struct FoldBody {
  TensorDesc y;
  Planes planes;
  int64_t channels = 0, elements = 1, count = 1;  // elements of a window, windows
  int64_t kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1}, begin[3] = {0, 0, 0};
  int64_t windows[3] = {1, 1, 1};
  LoadRun<float> load;
  StoreRun<float> store;

  // Along an axis: the windows whose element k lies within y.
  std::pair<int64_t, int64_t> inside(int axis, int64_t k) const {
    const int64_t first = k * dilation[axis] - begin[axis];  // where that of window 0 lies
    const int64_t low = first >= 0 ? 0 : (-first + stride[axis] - 1) / stride[axis];
    const int64_t room = planes.size[axis] - 1 - first;
    const int64_t high = room < 0 ? 0 : std::min(windows[axis], room / stride[axis] + 1);
    return {low, std::max(low, high)};
  }

  void add(const void* x, int64_t from, float* plane, std::vector<float>& row) const {
    int64_t k[3];
    for (k[0] = 0; k[0] < kernel[0]; ++k[0])
      for (k[1] = 0; k[1] < kernel[1]; ++k[1])
        for (k[2] = 0; k[2] < kernel[2]; ++k[2], from += count) {
          std::pair<int64_t, int64_t> range[3];
          int64_t first[3];
          for (int axis = 0; axis < 3; ++axis) {
            range[axis] = inside(axis, k[axis]);
            first[axis] = k[axis] * dilation[axis] - begin[axis];
          }
          const auto [low, high] = range[2];
          if (low == high) continue;
          for (int64_t d = range[0].first; d < range[0].second; ++d)
            for (int64_t h = range[1].first; h < range[1].second; ++h) {
              load(x, from + (d * windows[1] + h) * windows[2] + low, 1, high - low, row.data());
              float* to = plane + (first[0] + d * stride[0]) * planes.step[0] +
                          (first[1] + h * stride[1]) * planes.step[1] + (first[2] + low * stride[2]) * planes.step[2];
              const int64_t step = stride[2] * planes.step[2];
              for (int64_t w = 0; w < high - low; ++w) to[w * step] += row[size_t(w)];
            }
        }
  }

  void operator()(const KernelArguments& arguments) const {
    const void* x = input(arguments, 0);
    Staged<float> staged(y, output(arguments));
    float* base = staged.get();
    const int64_t lanes = planes.groups * planes.width, positions = planes.size[0] * planes.size[1] * planes.size[2];
    parallel_for(
        planes.images * lanes, 1.0 * double(elements * count) + double(positions), [&](int64_t from, int64_t end) {
          std::vector<float> row(static_cast<size_t>(windows[2]));
          for (int64_t i = from; i < end; ++i) {
            const int64_t image = i / lanes, channel = i % lanes;
            float* plane =
                base + image * planes.image_step + channel / planes.width * planes.group_step + channel % planes.width;
            for (int64_t d = 0; d < planes.size[0]; ++d)
              for (int64_t h = 0; h < planes.size[1]; ++h)
                for (int64_t w = 0; w < planes.size[2]; ++w)
                  plane[d * planes.step[0] + h * planes.step[1] + w * planes.step[2]] = 0;
            // What is left are lanes of padding.
            if (channel < channels) add(x, (image * channels + channel) * elements * count, plane, row);
          }
        });
    staged.commit(store);
  }
};

void list_fold(const Op& op, CandidateList& out) {
  const TensorDesc x = dense_plain(op.in(0));
  const auto kernel = op.attributes[attr::kernel_size], stride = op.attributes[attr::stride],
             dilation = op.attributes[attr::dilation], padding = op.attributes[attr::padding],
             windows = op.attributes[attr::windows];
  FoldBody body;
  body.channels = op.out().shape[1];
  for (size_t s = 0; s < windows.size(); ++s) {
    const size_t axis = 3 - windows.size() + s;
    body.kernel[axis] = kernel[s], body.stride[axis] = stride[s], body.dilation[axis] = dilation[s];
    body.begin[axis] = padding[s], body.windows[axis] = windows[s];
    body.elements *= kernel[s], body.count *= windows[s];
  }
  body.load = float_loader(x.dtype);
  body.store = float_storer(x.dtype);
  for (const Layout& layout : layouts_to_try(op, op.out())) {
    body.y = op.out().with_layout(layout);
    const auto planes = Planes::of(body.y);
    if (!planes) continue;
    body.planes = *planes;
    add_candidate(out, "fold", Quality::fair, {x}, {body.y}, [body] { return body; });
  }
}
PL_HOST_KIND("fold", list_fold);

}  // namespace
}  // namespace pl::host

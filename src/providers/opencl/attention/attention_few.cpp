// Attention of few queries and many keys (kernels/attention/attention_few.cl).
#include "providers/opencl/attention/attention_few.h"

#include "providers/opencl/addressing/rows.h"
#include "providers/opencl/attention/heads.h"

namespace pl::opencl {
namespace {

constexpr int64_t kItems = 128, kMostRows = 8, kMostOfRow = 256;

struct FewQueries {
  int64_t queries, keys, width, values, group, of_keys;  // of_keys: heads of k, of all of the batch

  explicit FewQueries(const Op& op) {
    const Dims &q = op.in(0).shape, &k = op.in(1).shape;
    const int last = q.size() - 1;
    queries = q[last - 1];
    keys = k[last - 1];
    width = q[last];
    values = op.in(2).shape[last];
    group = last > 1 ? q[last - 2] / k[last - 2] : 1;
    of_keys = k.product() / (keys * width);
  }
  int64_t rows() const { return group * queries; }
  int64_t parts() const { return (keys + kItems - 1) / kItems; }
  size_t bytes() const { return size_t(of_keys * parts() * rows() * (values + 2)) * sizeof(float); }
};

std::unique_ptr<Kernel> prepare(OpenclDevice& device, const Op& op, const Candidate& candidate) {
  const FewQueries few(op);
  const int64_t vector = 16 / int64_t(size_of(op.in(0).dtype));
  KernelSource source("attention/attention_few.cl");
  define_attention(source, op, candidate);
  source.define("ROWS", few.rows()).define("QUERIES", few.queries).define("VECTOR", vector).define("ITEMS", kItems);
  source.define("WIDTH", few.width).define("VALUES", few.values);
  auto kernel = std::make_unique<KernelList>(device);
  Launch& parts = kernel->add(source, "attention_few").input(0, "Q").input(1, "K").input(2, "V");
  if (op.has(3)) parts.input(3, "MASK");
  parts.workspace().scalar(cl_ulong(0)).scalar(cl_float(op.attributes[attr::scale])).index(few.parts());
  parts.global({size_t(few.of_keys * few.parts() * kItems)}).local({size_t(kItems)});
  Launch& join = kernel->add(source, "attention_join").input(1, "K");
  if (op.has(5)) join.input(5, "SINKS");
  const int64_t places = few.of_keys * few.rows() * few.values;
  join.output(0, "DST").workspace().scalar(cl_ulong(0)).index(few.parts()).index(places);
  join.global({size_t(places)}).local({64});
  return kernel;
}

}  // namespace

void list_attention_few(const Op& op, OpenclDevice& device, CandidateList& out) {
  if (op.in(0).rank() < 2 || op.has(4) || op.has_empty_tensor()) return;
  const FewQueries few(op);
  const int64_t vector = 16 / int64_t(size_of(op.in(0).dtype));
  const bool fits = few.rows() <= kMostRows && few.width <= kMostOfRow && few.values <= kMostOfRow &&
                    few.width % vector == 0 && few.values % vector == 0;
  if (!fits || size_t(kItems) > device.capabilities().max_work_group) return;
  for (const Layout& layout : heads_layouts(op)) {
    Candidate candidate = make_candidate(op, "attention_few");
    for (size_t i = 0; i < 3; ++i) candidate.inputs[i] = as_it_lies(op.in(int(i)), layout);
    for (int i : {3, 5})
      if (op.has(i)) candidate.inputs[size_t(i)] = op.in(i).with_layout(Layout::plain(op.in(i).rank()));
    candidate.outputs[0] = op.out().with_layout(layout);
    bool aligned = true;
    for (size_t i = 0; i < 3; ++i)
      aligned = aligned && rows_aligned(as_rows(Addressing(candidate.inputs[i]), {op.in(0).rank() - 1}), vector);
    if (!aligned) continue;
    candidate.workspace_bytes = few.bytes();
    candidate.efficiency = 0.3;
    candidate.prepare = [&device, op, candidate] { return prepare(device, op, candidate); };
    out.add(std::move(candidate));
  }
}

}  // namespace pl::opencl

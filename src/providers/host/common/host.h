// The host provider: every op in plain C++ on the processor, in every layout and dtype, so that the library is
// whole without an OpenCL runtime.
//
// One file for each op kind, which registers itself:
//   void list(const Op& op, CandidateList& out);   // adds candidates or a refusal
//   PL_HOST_KIND("softmax", list);
// Data movement and elementwise kinds are fast; where oneDNN has a good implementation, the loop here is a
// reference: exact (sums in double), slow, and offered as such.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "providers/host/common/elements.h"
#include "providers/host/common/nest.h"
#include "providers/host/common/parallel.h"
#include "providers/provider.h"

namespace pl::host {

class HostProvider : public Provider {
 public:
  std::string name() const override { return "host"; }
  std::string version() const override;
  bool serves(const Device& device) const override { return device.traits().threads; }
  bool handles_empty() const override { return true; }
  bool takes_strided_views(const Op& op) const override;
  void list(const Op& op, Device& device, CandidateList& out) override;
};

using HostList = void (*)(const Op& op, CandidateList& out);
using HostTable = OpTable<HostProvider, HostList>;

#define PL_HOST_KIND(kind, list)                                        \
  [[maybe_unused]] static const bool PL_JOIN(host_kind_, __COUNTER__) = \
      ::pl::host::HostTable::instance().add(kind, list)

// A kernel made of a callable: void(const KernelArguments&) const.
template <class Body>
class BodyKernel final : public Kernel {
 public:
  explicit BodyKernel(Body body) : body_(std::move(body)) {}
  void run(const KernelArguments& arguments) override { body_(arguments); }

 private:
  Body body_;
};

// fast: near what memory gives; fair: vector code that others may well beat; reference: a loop.
enum class Quality { fast, fair, reference };

// All of a candidate but what prepares it.
Candidate unprepared(std::string implementation, Quality quality, std::vector<TensorDesc> inputs,
                     std::vector<TensorDesc> outputs);

// Adds a candidate.  make() is called when the candidate is prepared and returns the kernel's body; it must hold
// copies of what it needs, as the op is gone by then.
template <class Make>
void add_candidate(CandidateList& out, std::string implementation, Quality quality, std::vector<TensorDesc> inputs,
                   std::vector<TensorDesc> outputs, Make make) {
  Candidate candidate = unprepared(std::move(implementation), quality, std::move(inputs), std::move(outputs));
  candidate.prepare = [make = std::move(make)]() -> std::unique_ptr<Kernel> {
    auto body = make();
    return std::make_unique<BodyKernel<decltype(body)>>(std::move(body));
  };
  out.add(std::move(candidate));
}

// The tensor, dense in the layout it has, or in another one.
inline TensorDesc dense(const TensorDesc& desc) { return desc.present ? desc.with_layout(desc.layout) : desc; }
// Dense in `layout` if the rank fits, else as it is.
inline TensorDesc dense_as(const TensorDesc& desc, const Layout& layout) {
  return desc.present && desc.rank() == layout.rank() ? desc.with_layout(layout) : dense(desc);
}
// Whether channels lie side by side where pixels do not: of a view they may be apart, or all be one (expand).
inline bool has_whole_pixels(const TensorDesc& desc) {
  if (desc.layout.is_plain() || desc.layout.is_blocked() || desc.rank() == 0) return true;
  const int innermost = desc.layout.order(desc.rank() - 1);
  return desc.shape[innermost] == 1 || desc.strides[innermost] == 1;
}
// The same, but a strided view in `layout` stays what it is: for kernels that go by strides, and of channels last read
// those of a pixel one after another.
inline TensorDesc strided_view_as(const TensorDesc& desc, const Layout& layout) {
  const bool stays = desc.present && desc.layout == layout && !desc.is_dense() && has_whole_pixels(desc);
  return stays ? desc : dense_as(desc, layout);
}
// The same, but a strided view stays what it is in any layout: for kernels that walk tensors of several layouts at
// once.
inline TensorDesc any_strided_view_as(const TensorDesc& desc, const Layout& layout) {
  return desc.present && !desc.is_dense() ? desc : dense_as(desc, layout);
}
// The same, if the elements along `dim` lie side by side: for kernels that go by rows, or columns.
inline TensorDesc any_runs_as(const TensorDesc& desc, const Layout& layout, int dim) {
  const bool stays = !desc.is_dense() && !desc.layout.is_blocked() && desc.strides[dim] == 1;
  return stays ? desc : dense_as(desc, layout);
}
inline TensorDesc any_rows_as(const TensorDesc& desc, const Layout& layout) {
  return any_runs_as(desc, layout, desc.rank() - 1);
}
inline TensorDesc dense_plain(const TensorDesc& desc) {
  return desc.present ? desc.with_layout(Layout::plain(desc.rank())) : desc;
}

inline void* input(const KernelArguments& arguments, int i) {
  return arguments.inputs[i] ? arguments.inputs[i]->host() : nullptr;
}
inline void* output(const KernelArguments& arguments, int i = 0) { return arguments.outputs[i]->host(); }

}  // namespace pl::host

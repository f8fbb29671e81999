#include "providers/host/common/host.h"
#include "pylayout.h"

namespace pl::host {
namespace {

const ProviderRegistration registration("host", [] { return std::make_unique<HostProvider>(); });

}  // namespace

std::string HostProvider::version() const { return pl_version(); }

bool HostProvider::takes_strided_views(const Op& op) const {
  if (op.schema->kind == "pool") return op.in(0).dtype == DType::f32;  // other dtypes are copied first, as a whole
  for (const char* kind : {"attention", "batch_norm", "binary", "cast", "concat", "conv", "gather_elements", "matmul",
                           "pointwise", "reorder", "rotary_embedding", "unary"})
    if (op.schema->kind == kind) return true;
  return false;
}

Candidate unprepared(std::string implementation, Quality quality, std::vector<TensorDesc> inputs,
                     std::vector<TensorDesc> outputs) {
  Candidate candidate;
  candidate.provider = "host";
  candidate.implementation = std::move(implementation);
  candidate.inputs = std::move(inputs);
  candidate.outputs = std::move(outputs);
  candidate.reference = quality == Quality::reference;
  candidate.efficiency = quality == Quality::fast ? 0.7 : quality == Quality::fair ? 0.25 : 0.01;
  return candidate;
}

void HostProvider::list(const Op& op, Device&, CandidateList& out) {
  const HostList list = HostTable::instance().find(op.schema->kind);
  if (list)
    list(op, out);
  else
    out.refuse(name(), op.schema->kind + ": not implemented by the host provider");
}

}  // namespace pl::host

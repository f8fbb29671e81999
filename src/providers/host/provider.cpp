#include "providers/host/host.h"
#include "pylayout.h"

namespace pl::host {
namespace {

const ProviderRegistration registration("host", [] { return std::make_unique<HostProvider>(); });

}  // namespace

std::string HostProvider::version() const { return pl_version(); }

void HostProvider::list(const Op& op, Device&, CandidateList& out) {
  const HostList* list = HostTable::instance().find(op.schema->kind);
  if (list)
    (*list)(op, out);
  else
    out.refuse(name(), op.schema->kind + ": not implemented by the host provider");
}

}  // namespace pl::host

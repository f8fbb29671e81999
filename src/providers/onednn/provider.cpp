// The oneDNN provider: primitives of libdnnl on `cpu`.
#include "providers/provider.h"

#include "oneapi/dnnl/dnnl_debug.h"
#include "providers/onednn/candidates.h"
#include "providers/onednn/faults.h"

namespace pl::onednn {
class OnednnProvider final : public Provider {
 public:
  std::string name() const override { return "onednn"; }

  // Costs depend on the build and on the instruction set it may use (ONEDNN_MAX_CPU_ISA).
  std::string version() const override {
    return concat(library_version(), '+', std::string(dnnl_version()->hash).substr(0, 8), '-', instruction_set());
  }

  bool serves(const Device& device) const override { return device.traits().threads; }

  bool multiplies(const Device& device, DType dtype) const override {
    return device.traits().threads && has_products_of(dtype);
  }

  // Reorders write to any strides.  For strided tensors of other ops oneDNN 3.2 has nothing but its plain loops.
  bool takes_strided_views(const Op& op) const override { return op.schema->kind == "reorder"; }

  void list(const Op& op, Device&, CandidateList& out) override {
    const ListFunction function = Table::instance().find(op.schema->kind);
    if (!function) return refuse(op, out, "oneDNN has no primitive of this kind");
    if (!supported_library()) return refuse(op, out, too_old());
    function(op, out);
  }

  std::vector<std::string> notes() const override {
    if (!supported_library()) return {too_old()};
    const dnnl_version_t* version = dnnl_version();
    return {concat("oneDNN ", library_version(), " (commit ", version->hash, "), instruction set ", instruction_set(),
                   ", CPU threads by ", dnnl_runtime2str(version->cpu_runtime))};
  }

 private:
  static bool supported_library() { return dnnl_version()->major == 3 && !has(kTooOld); }
  static std::string too_old() {
    return concat("the libdnnl that is loaded is version ", library_version(), "; 3.2 or a later 3.x is needed");
  }
};

static const ProviderRegistration registration("onednn", [] { return std::make_unique<OnednnProvider>(); });

}  // namespace pl::onednn

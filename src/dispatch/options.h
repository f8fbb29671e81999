// What a program may ask of a context and of a call.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "core/attributes.h"
#include "core/desc.h"
#include "core/layout.h"
#include "core/setting.h"
#include "ops/op.h"

namespace pl {

enum class Tuning { off, automatic, full };
// off, auto, full; errors say what it is of, and what is expected.
Tuning parse_tuning(const std::string& text, const char* what, const char* expected);
Math parse_math(const std::string& text);  // fp32, tf32, fp16

struct ContextOptions {
  Setting<int> threads{0};  // 0: the processors of this process
  Setting<Tuning> tuning{Tuning::automatic};
  Setting<Math> math{Math::fp32};
  std::string cache_dir;                     // empty: default_cache_dir()
  std::set<std::string> without;             // names of providers that are left out
  size_t choice_memory = size_t(256) << 20;  // bytes of choices and prepared kernels of calls; Catalog::trim
  bool cost_tables = true;                   // what other machines measured serves as a prior (cost_tables.h)

  // Applies the given options to `base`; throws Error(invalid_argument) for unknown keys and values.
  static ContextOptions parse(const Attributes& attributes, ContextOptions base);
};

// How the layouts of one call are chosen.
struct Policy {
  enum class Mode { automatic, forced, per_op };
  Mode mode = Mode::automatic;
  Layout layout;       // forced: a layout of the wanted family, made to fit each tensor by Layout::for_rank
  std::string device;  // empty: the inputs'

  friend bool operator==(const Policy& a, const Policy& b) {
    return a.mode == b.mode && a.layout == b.layout && a.device == b.device;
  }
};

// The layout that `layout` stands for where a tensor of this description is concerned: its family's for that rank.
// Nothing where it has no meaning: ranks below 3, or a layout of no family and another rank.
std::optional<Layout> family_layout(const Layout& layout, const TensorDesc& desc);

// What every call may be told beside the attributes of its op.
namespace call_option {
inline constexpr Key<std::string> layout{"layout"}, device{"device"};
}  // namespace call_option

// The attributes of a call with these options taken out, hashed once.  Immutable and
// shared, so that repeated calls are recognised by the pointer.
struct CallAttributes;
using CallRef = std::shared_ptr<const CallAttributes>;
struct CallAttributes {
  Attributes attributes;
  Policy policy;
  uint64_t hash = 0;

  static CallRef parse(const Attributes& all);
};

}  // namespace pl

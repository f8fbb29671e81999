// What oneDNN's implementations are thought to cost before they are measured.
#pragma once

#include <string_view>

#include "providers/provider.h"

namespace pl::onednn {

// Sets efficiency, start_ms and more_bytes of a candidate that has its tensors, by the implementation's name without
// prefix, and whether it is a reference.
void estimate(const Op& op, std::string_view name, Candidate& candidate);

}  // namespace pl::onednn

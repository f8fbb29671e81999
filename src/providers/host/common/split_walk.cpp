#include "providers/host/common/split_walk.h"

namespace pl::host {

SplitWalk::SplitWalk(const Dims& shape, const std::vector<bool>& worked_along, const std::vector<Operand>& operands) {
  Dims kept_shape = shape, along_shape = shape;
  for (int d = 0; d < shape.size(); ++d) (worked_along[size_t(d)] ? kept_shape : along_shape)[d] = 1;
  kept_elements = kept_shape.product();
  along_elements = along_shape.product();
  // Only walks that do something: an empty product on either side leaves the other side's elements.
  kept = make_nests(kept_shape, operands);
  std::vector<Operand> relative = operands;
  for (Operand& operand : relative) {
    operand.desc.offset = 0;
    operand.begin = Dims();
  }
  along = make_nests(along_shape, relative);
}

}  // namespace pl::host

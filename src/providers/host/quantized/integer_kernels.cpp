#include "providers/host/quantized/integer_kernels.h"

namespace pl::host {

const IntegerKernels* const* all_integer_kernels() {
  static const struct Table {
    const IntegerKernels* entries[4] = {};
    Table() {
      int count = 0;
      for (const IntegerKernels* kernels : {integer_kernels_vnni(), integer_kernels_avx512(), integer_kernels_avx2()})
        if (kernels) entries[count++] = kernels;
    }
  } table;
  return table.entries;
}

}  // namespace pl::host

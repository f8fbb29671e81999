// argmax and argmin, with ties and NaN, on every OpenCL device, against
// references in double precision, in every layout the provider offers, with 1 to 3 spatial dimensions.
#include "opencl_elements.h"

using namespace pl;
using namespace pl::opencl_testing;

namespace {

SETUP() { unoptimised_on_pocl(); }

TEST("arg_reduce") {
  const auto check = [](const char* name, const char* attributes, const Input& x, int dim) {
    run(name, attributes, {x}, [&](const Op& op, const Dims& out) {
      const bool keep = op.attributes[attr::keepdim], min = std::string(name) == "argmin";
      double best = kNan, place = -1;
      int64_t e = 0;
      each(x.desc.shape, [&](const Dims& index) {
        if (dim >= 0) {
          e = index[dim];
          for (int d = 0; d < index.size(); ++d)
            if (d != dim && index[d] != out[keep || d < dim ? d : d - 1]) return;
        }
        const double value = at(x, index);
        if (place < 0 || (!std::isnan(best) && (std::isnan(value) || (min ? value < best : value > best)))) {
          best = value;
          place = double(e);
        }
        ++e;
      });
      return place;
    });
  };
  Input x = random_input(DType::f32, {2, 9, 5, 7}, -3, 3);
  for (double& value : x.values) value = std::floor(value);  // many ties
  check("argmin", "dim=1", x, 1);
  x.values[40] = kNan, x.values[47] = kNan, x.values[9] = kInf;
  check("argmax", "dim=2 keepdim=true", x, 2);
  check("argmin", "dim=1 keepdim=true", x, 1);
  check("argmax", "", x, -1);
  check("argmax", "dim=0", random_input(DType::s64, {70, 3}), 0);
  check("argmin", "dim=-1", random_input(DType::bf16, {3, 80}), 1);
  check("argmax", "keepdim=true", random_input(DType::u8, {3, 80}, 0, 200), -1);
  check("argmax", "", random_input(DType::f16, {}), -1);
}

}  // namespace

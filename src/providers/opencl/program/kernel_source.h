// KernelSource: the text of one OpenCL program: a kernel file, specialised by macros for its tensors.
//
// A kernel addresses a tensor of any layout through macros.  For a tensor added as "SRC" the file sees
//   SRC_DTYPE            f32, f16, ...: see kernels/common/dtype.clh for LOAD, STORE, COMPUTE_T...
//   SRC_RANK             the number of dimensions
//   SRC_OFFSET(n,c,h,w)  the element's place, in elements; as many arguments as dimensions
//   SRC_DIM(i), SRC_STRIDE(i)   the logical size and the stride between outer blocks; i a literal
//   SRC_BLOCK(i)         product of the inner blocks of dimension i, 1 if none: a literal
//   SRC_PADDED(i)        SRC_DIM(i) rounded up to whole blocks
//   SRC_INDICES(place, i)  declares idx_t i0, i1, ...: the indices of the place-th element in the order of memory,
//                        padding included (place from 0 to Addressing::places() - 1)
//   SRC_AT(i)            SRC_OFFSET(i0, i1, ...)
//   SRC_INSIDE(i)        i0, i1, ... lie within the logical sizes, not in padding
//   SRC_UNIT_DIM         the dimension whose neighbours lie side by side, -1 if there is none
//   SRC_UNIT_RUN         how many do: the innermost block, or 0 for the dimension's whole size
// and takes the tensor as two arguments, TENSOR_IN(SRC, src) or TENSOR_OUT(DST, dst) (kernels/common/tensor.clh):
// a pointer and a struct of sizes and strides.  The block structure is compiled in; sizes and strides are
// arguments, so that a new size costs no build, unless specialise() compiles them in too.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/desc.h"

namespace pl::opencl {

// How a kernel addresses one tensor: a TensorDesc that may have been given more dimensions.
struct Addressing {
  struct Inner {
    int dim;
    int64_t size;    // of the block
    int64_t stride;  // in elements
    int64_t below;   // product of the same dimension's blocks further inside
  };
  DType dtype = DType::f32;
  int rank = 0;
  std::array<int64_t, kMaxRank> dims{};
  std::array<int64_t, kMaxRank> strides{};  // between outer blocks, in elements
  int64_t offset = 0;
  std::vector<Inner> inner;  // outermost first
  std::vector<int> order;    // dimensions in the order of memory, outermost first

  Addressing();
  ~Addressing();
  Addressing(const Addressing& other);
  Addressing(Addressing&& other) noexcept;
  Addressing& operator=(const Addressing& other);
  Addressing& operator=(Addressing&& other) noexcept;
  explicit Addressing(const TensorDesc& desc);
  // Adds dimensions of size 1 before dimension `position`: (n, c, w) with (2, 2) becomes (n, c, 1, 1, w).
  Addressing& insert(int position, int count);
  int64_t block(int dim) const;
  int64_t padded(int dim) const { return (dims[size_t(dim)] + block(dim) - 1) / block(dim) * block(dim); }
  std::pair<int, int64_t> unit() const;  // SRC_UNIT_DIM, SRC_UNIT_RUN
  int64_t places() const;                // product of the padded sizes
  int64_t extent() const;                // elements from 0 to the last one, padding included
};

// Places from here on need 64 bits. A little under 2^31, so that those a work-group beyond the end do not overflow
// either.
constexpr int64_t kNarrowLimit = (int64_t(1) << 31) - (1 << 20);

// An OpenCL literal of exactly this value as a float: (0.5f), INFINITY, NAN.
std::string float_literal(double value);

class KernelSource {
 public:
  explicit KernelSource(std::string file);  // below kernels/: "conv/conv_fwd_direct.cl"
  ~KernelSource();
  KernelSource(const KernelSource& other);
  KernelSource(KernelSource&& other) noexcept;
  KernelSource& operator=(const KernelSource& other);
  KernelSource& operator=(KernelSource&& other) noexcept;
  // A generated program: `text` may include files of kernels/; `name` appears in build logs.
  static KernelSource generated(std::string name, std::string text);

  KernelSource& tensor(const std::string& name, const TensorDesc& desc);
  KernelSource& tensor(const std::string& name, Addressing addressing);
  KernelSource& define(const std::string& name, int64_t value);
  KernelSource& define(const std::string& name, int value);
  KernelSource& define(const std::string& name, double value);  // a float literal, exact
  KernelSource& define(const std::string& name, const std::string& value);
  KernelSource& define(const std::string& name, const char* value);
  KernelSource& specialise();                          // sizes and strides of all tensors become constants
  KernelSource& wide_indices(bool wide = true);        // idx_t has 64 bits, whatever the tensors
  KernelSource& standard(const std::string& version);  // "CL1.2" unless set
  KernelSource& option(const std::string& text);       // one more build option

  const std::string& name() const { return file_; }
  const std::string& standard() const { return standard_; }
  std::string text() const;  // macros, then the file with its includes
  std::string options() const;
  bool wide() const;  // idx_t has 64 bits: some tensor's extent is kNarrowLimit or more, or wide_indices() said so
  const Addressing& addressing(const std::string& name) const;
  int most_dimensions() const;  // of its tensors, at least 1: PL_RANK of kernels/common/tensor.clh
  // The bytes of a tensor's struct argument, `tensor_arg` of kernels/common/tensor.clh.
  std::vector<unsigned char> tensor_argument(const std::string& name) const;

 private:
  std::string file_;
  std::string generated_;  // text in place of a file
  std::vector<std::pair<std::string, Addressing>> tensors_;
  std::vector<std::pair<std::string, std::string>> defines_;
  std::string standard_ = "CL1.2";
  std::string extra_options_;
  bool specialised_ = false, wide_ = false;
};

}  // namespace pl::opencl

// What a schema states of dtypes, of its results and of axes, as data: passes, checks and tests read it, and nobody
// finds it out by trying.  Names are those of parameters; register_schema resolves and checks them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "core/attributes.h"
#include "core/dtype.h"

namespace pl {

struct Op;
struct Schema;

class DTypes {
 public:
  constexpr DTypes() = default;
  constexpr DTypes(std::initializer_list<DType> list) {
    for (DType dtype : list) bits_ = uint16_t(bits_ | 1u << unsigned(dtype));
  }
  constexpr bool has(DType dtype) const { return bits_ >> unsigned(dtype) & 1; }
  constexpr bool empty() const { return bits_ == 0; }
  std::string str() const;  // "f32, f16, bf16"

 private:
  uint16_t bits_ = 0;
};

namespace dtypes {
inline constexpr DTypes any{DType::f32, DType::f16, DType::bf16, DType::s8,
                            DType::u8,  DType::s32, DType::s64,  DType::boolean};
inline constexpr DTypes numbers{DType::f32, DType::f16, DType::bf16, DType::s8, DType::u8, DType::s32, DType::s64};
inline constexpr DTypes floats{DType::f32, DType::f16, DType::bf16};
inline constexpr DTypes integers{DType::s8, DType::u8, DType::s32, DType::s64};
inline constexpr DTypes bits{DType::s8, DType::u8, DType::s32, DType::s64, DType::boolean};
inline constexpr DTypes wide{DType::f32, DType::f16, DType::bf16, DType::s32, DType::s64};  // for sums
inline constexpr DTypes indices{DType::s64, DType::s32};
inline constexpr DTypes bytes{DType::u8, DType::s8};
}  // namespace dtypes

// The dtypes that an input may have: those of a set, or that of another input.
struct InputDTypes {
  DTypes of = dtypes::any;
  std::string like;     // empty: none
  int like_input = -1;  // its number
};

// With one of these values of an attribute an input takes no other dtypes than these.
struct Restriction {
  AttributeName attribute;
  std::vector<AttributeValue> values;
  std::string input;
  DTypes of;
  int number = -1;  // of the input
};

// How an input may hold a batch of images along axis 0 where the result holds one, image by image.  What is batched by
// broadcasting reaches up to the result's axis 0; what is not does not, or has size one there.  Where an input that
// `mixes` is given, results depend on the number of an image.
enum class Batch { never, always, broadcast, mixes };

// What an attribute, as infer completes it, says of axes.
struct AxisRule {
  enum class Meaning {
    along,    // the axes that the op works along; None: all of them
    order,    // a permutation of the axes
    offsets,  // a number for each axis: zero where the elements stay where they are
    sizes,    // the shape of the result
    last,     // as many numbers as last axes that the op works along
  };
  AttributeName attribute;
  Meaning meaning = Meaning::along;
};

// A result of an op.
struct Result {
  enum class Shape { inferred, like, broadcast };  // broadcast: what all inputs broadcast to by NumPy's rules

  ~Result();
  Result(const Result& other);
  Result(Result&& other) noexcept;
  Result& operator=(const Result& other);
  Result& operator=(Result&& other) noexcept;
  explicit Result(std::string name);

  std::string name;
  // Its dtype: that which an attribute names, unless that is None, else that of the first of some inputs that is given,
  // else a fixed one.
  std::optional<Key<std::string>> dtype_attribute;
  DTypes allowed = dtypes::any;  // of the attribute
  std::vector<std::string> dtype_inputs;
  DType dtype = DType::f32;

  Shape shape = Shape::inferred;
  std::string shape_input;
  std::vector<std::string> may_overwrite;  // inputs in whose memory a kernel that says so may write it
  std::string state;                       // the input, a state, of which it is the new value
  std::string only_with;                   // there is one only where this optional input is given
  bool many = false;                       // one or more results

  // What register_schema resolves of these.
  std::vector<int> dtype_numbers;
  int shape_number = -1, only_with_number = -1;
  uint64_t overwrites = 0;  // a bit for each input; a variadic one stands for all

  // Builder.
  Result& named_by(const Key<std::string>& attribute, DTypes allowed_dtypes = dtypes::any);
  Result& like(std::string input);
  Result& of(DType fixed);
  Result& shaped(std::string input);
  Result& broadcast();
  Result& over(std::string input);
  Result& updates(std::string input);
  Result& with(std::string input);
  Result& repeated();
};

// What an elementwise op of two inputs is to algebra, before its post-ops.
struct Algebra {
  enum class Operation {
    none,  // nothing that a rewrite knows
    sum,
    difference,
    product,
    quotient,
    power,
    larger,
    smaller,
    conjunction,
    disjunction,
  };
  Operation operation = Operation::none;
  bool commutes = false;          // f(x, y) = f(y, x)
  std::optional<double> neutral;  // f(x, neutral) = x to the bit; the sign of a zero counts, but in integers
  AttributeName not_with;         // with this attribute it is none of this
};

// How input 1, a weight, meets the data, input 0: a sum of products, channel by channel, to which input 2, the bias, is
// added by channel of the result.  An attribute `groups` parts the channels.
struct Weighting {
  enum class Order {
    none,           // the op is no such product
    outputs_first,  // (oc, c / groups, ...)
    inputs_first,   // (c, oc / groups, ...)
    matrices,       // (..., k, n): data like input 0, with as many matrices as it wants
  };
  Order order = Order::none;
  int channels = 1;  // their axis in input 0 and in the result; -1: the last one

  explicit operator bool() const { return order != Order::none; }
};

// What the attribute `padding` puts around input 0: the op does the same to a border of such values.
enum class Padding { none, zeros, lowest };

// An attribute, completed, all of whose numbers are this one.
struct AllEqual {
  Key<Ints> attribute;
  int64_t number = 0;
};

// ---- what the rules say of a call ----

// Checks the dtypes of the inputs.  Throws Error(unsupported | invalid_argument) naming op, argument, expected, actual.
void check_dtypes(const Op& op);
bool takes_dtypes(const Op& op);  // whether that passes
// The dtype of a result; of an attribute that names none: Error(invalid_argument | unsupported).
DType result_dtype(const Op& op, int result);
// Each element of the results follows from those elements of the inputs that broadcasting brings to its place.
bool is_elementwise(const Op& op);
// What the op is to algebra with these attributes, completed or not.
const Algebra& algebra_of(const Schema& schema, const Attributes& attributes);
// Whether the only result, if it has the shape and dtype of input 0, is input 0 whatever that holds.
bool is_same_if_alike(const Op& op);
// Whether, with these inputs batched along axis 0, the results are batched and each image follows from the same image
// of those inputs alone.  Sizes along axis 0 are for the caller to compare.
bool keeps_images_apart(const Op& op, const std::vector<bool>& batched);
// Whether what lies at different places along this axis of input 0, which is no input's but this one's, stays apart.
bool keeps_apart(const Op& op, int axis);

}  // namespace pl

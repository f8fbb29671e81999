// Op: an op is data.  A Schema describes a kind of op once; everything else (Python signatures, checks, shape
// inference, candidates, cost, documentation) is a function of it.
//
// To add an op: write ops/<family>.cpp with a PL_REGISTER_OP, and an implementation in at least one provider.
// No list is edited; an attribute that no op has yet gets a key in ops/attribute_keys.h.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/attributes.h"
#include "core/desc.h"
#include "ops/attribute_keys.h"
#include "ops/rules.h"

namespace pl {

struct Schema;
class Derivation;  // ops/gradient.h

// How exact products of f32 must be.  tf32: factors may be rounded to 11 significant bits (as matrix units do); sums
// are kept in f32 in any case.  fp16, bf16: plans may hold values so too, where the device gains by it
// (graph/half_precision.h).  Of a context's and a plan's the later one counts.
enum class Math { fp32, tf32, fp16, bf16 };

// One call of an op, fully described.
struct Op {
  Op();
  ~Op();
  Op(const Op& other);
  Op(Op&& other) noexcept;
  Op& operator=(const Op& other);
  Op& operator=(Op&& other) noexcept;

  const Schema* schema = nullptr;
  Math math = Math::fp32;           // matters where Schema::products
  Attributes attributes;            // complete: every attribute of the schema has a value of its type
  std::vector<TensorDesc> inputs;   // in schema order; optional inputs that were not given are !present
  std::vector<TensorDesc> outputs;  // from Schema::infer: shape and dtype; layout plain until a candidate sets it

  const TensorDesc& in(int i) const { return inputs[size_t(i)]; }
  const TensorDesc& out(int i = 0) const { return outputs[size_t(i)]; }
  bool has(int i) const { return size_t(i) < inputs.size() && inputs[size_t(i)].present; }
  bool has_empty_tensor() const;
  std::string str() const;  // conv2d x=f32 (1, 64, 56, 56) weight=... stride=[1,1] ...
};

// What an input is for.  Constant inputs (weights, statistics) are prepacked once per storage version, so a
// reorder of them does not count against a candidate.
enum class Role { data, constant };

struct Parameter {
  enum class Kind { tensor, optional_tensor, tensors, attribute };

  Parameter();
  ~Parameter();
  Parameter(const Parameter& other);
  Parameter(Parameter&& other) noexcept;
  Parameter& operator=(const Parameter& other);
  Parameter& operator=(Parameter&& other) noexcept;

  std::string name;
  Kind kind = Kind::tensor;
  std::string doc;
  Role role = Role::data;   // of tensors
  AttributeName attribute;  // of attributes: the name
  AttributeType type = AttributeType::integer;
  AttributeValue fallback;  // of attributes; None with `required` false means "none" is a legal value
  bool required = false;    // attribute without a default
  // Of string attributes: the values allowed; empty: any.  Of lists of integers: words allowed in place of the list,
  // which infer replaces by numbers.
  std::vector<std::string> choices;

  // Of tensors (ops/rules.h).
  InputDTypes dtypes;
  Batch batch = Batch::never;
  bool trainable = false;  // a constant there is a parameter of a network that is trained; so is every Role::constant
  bool selects = false;    // its values choose among those of the other inputs and are in no result
  bool nonzero = false;    // a zero there gives infinities
  bool ascending = false;  // integers, none less than the one before it
};

// What a view does to the elements of input 0.
enum class Renaming {
  none,    // the op computes or moves
  shape,   // the same elements in the same order under another shape
  order,   // all elements with the dimensions in another order: the completed attribute `dims`
  part,    // some of the elements: from the completed attribute `starts` on, in steps of `steps`
  repeat,  // elements repeated along dimensions
  split,   // parts one behind the other along the completed attribute `dim`, each a result
};

// Where results hold zeros, given where inputs do.
enum class Zeros { unknown, where_all, where_any };

// x0, x1, ...: the op's inputs; s0, s1, ...: the scalars; the result is y0.
struct ElementExpression {
  std::string text;
  std::vector<double> scalars;
  bool of_integers =
      false;  // integers among the inputs are read as f32, as a cast does, and a result of 8 bits is in range
};

// What may be fused behind an op, apart from functions and scale, which all that take any take.
struct TakenPostOps {
  bool taken = false;
  std::vector<PostOp> operands;  // the steps that read an input, as the schema names it: add(residual)
  bool of_reals = false;         // the result's integers stand for real numbers, and the steps are of those
};

struct Schema {
  Schema(std::string name, std::string kind, std::string doc);
  ~Schema();
  Schema(const Schema& other);
  Schema(Schema&& other) noexcept;
  Schema& operator=(const Schema& other);
  Schema& operator=(Schema&& other) noexcept;

  std::string name;                   // "conv2d": unique, the name users write
  std::string kind;                   // "conv": what providers implement; several names may share a kind
  std::string doc;                    // one line, then formula, shapes, source
  std::vector<Parameter> parameters;  // in signature order, tensors and attributes mixed as in torch
  bool products = false;              // sums of products: Op::math applies
  bool several = false;               // the result is a list, even of one tensor (split)
  Attributes constants;               // attributes that providers see and users cannot set: function=relu, mode=max

  // ---- rules, as data (ops/rules.h) ----
  std::vector<Result> results;
  std::vector<Restriction> restrictions;
  TakenPostOps post_ops;  // take_post_ops (ops/post_ops.h)
  std::vector<AxisRule> axes;
  int last_axes = 0;         // that the op works along, whatever its attributes
  bool other_axes = false;   // along axes that no rule names elements stay apart; false: that holds for axis 0 only
  bool elementwise = false;  // is_elementwise
  AttributeName not_with;    // with this attribute it is not
  Renaming renaming = Renaming::none;
  bool repeats = false;        // elements of input 0 are repeated to more: a constant result is large
  bool joins = false;          // the result is the inputs side by side, so that each may be made where it is to lie
  bool relayouts = false;      // layouts are what the op is about: those of its tensors are a part of what is asked
  bool same_if_alike = false;  // a result of input 0's shape and dtype is input 0; see same_only_if
  bool idempotent = false;     // f(f(x)) = f(x)
  bool keeps_finite = false;   // finite values give finite results, but for zeros in Parameter::nonzero
  Zeros zeros = Zeros::unknown;

  // Checks attributes and inputs, expands attributes (stride=2 -> [2,2]) and fills `outputs` with shapes and
  // dtypes.  Throws Error(shape | invalid_argument | unsupported) naming op, argument, expected, actual.
  std::function<void(Op&)> infer;
  // Arithmetic operations of the call (a multiply-add counts two).  Never null once registered: the default is
  // one per output element.
  std::function<double(const Op&)> flops;
  // The least and the largest value that makes sense in an integer input (s32, s64) of the call: an index into a
  // dimension, a number of steps.  Measurements draw from it.  Null: zero is all that is known to make sense.
  std::function<std::pair<int64_t, int64_t>(const Op&, int input)> integers;
  // For ops that may only rename memory (reshape, transpose, slice): the outputs as views of input 0, or
  // nothing when this input layout does not permit a view.  Such ops need no provider.
  std::function<std::optional<std::vector<TensorDesc>>(const Op&)> view;
  // What an op computes for each element of its one result, in the language of `pointwise` (ops/pointwise.h), in f32.
  // Null, or without text: it is not said.
  std::function<ElementExpression(const Op&)> expression;
  // The gradients of the inputs as values of other ops (ops/gradient.h).  Null: the op has none.
  std::function<void(Derivation&)> gradient;

  // ---- rules that passes ask for, as data (ops/rules.h) ----
  Algebra algebra;
  bool applies_function = false;  // of one argument: the completed attributes `function`, `alpha` and `beta`
  Weighting weighting;
  Padding padding = Padding::none;
  // What it is made for are rows, the last axis, each by itself: a result's row follows from that row of input 0 and
  // from inputs that are the same for all rows.  A residual is not.
  bool by_rows = false;
  // Of a sum of products: the op that computes it of integers of 8 bits, with their scales (ops/quantized.h); none: "".
  std::string quantized_as;
  std::string trained_as;  // the op that a model in training has in its place: statistics are the batch's own
  std::vector<AllEqual> same_only_if;  // same_if_alike holds where all of these do

  // Builder.
  Schema& tensor(std::string name, std::string doc, Role role = Role::data);
  Schema& optional(std::string name, std::string doc, Role role = Role::data);
  Schema& tensors(std::string name, std::string doc);  // variadic; must be the only tensor parameter
  template <class T>
  Schema& required(const Key<T>& key, std::string about) {
    return add_attribute(key, Key<T>::type, true, None{}, std::move(about), {});
  }
  template <class T>
  Schema& attribute(const Key<T>& key, typename GivenFor<T>::type fallback, std::string about,
                    std::vector<std::string> choices = {}) {
    return add_attribute(key, Key<T>::type, false, std::move(fallback.value), std::move(about), std::move(choices));
  }
  template <class T>
  Schema& constant(const Key<T>& key, typename GivenFor<T>::type value) {
    constants.set(key, std::move(value));
    return *this;
  }
  // Of the parameter added last.
  Schema& of(DTypes dtypes);
  Schema& like(std::string input);                // its dtype
  Schema& like_or(std::string input, DTypes of);  // or one of these
  Schema& batched(Batch batch = Batch::always);
  Schema& trainable();
  Schema& selects();
  Schema& nonzero();
  Schema& ascending();
  // Of the op.
  Schema& result(Result result);
  // With one of these values of an attribute an input takes no other dtypes than these.
  Schema& restrict(const AttributeName& attribute, std::vector<AttributeValue> values, std::string input, DTypes of);
  Schema& axis(const AttributeName& attribute, AxisRule::Meaning meaning = AxisRule::Meaning::along);
  // Elements of all inputs, broadcast, to elements of all results; `not_with`: not where that attribute is given.
  Schema& by_element(const AttributeName& not_with = {});

  int input_index(std::string_view parameter) const;  // -1 if there is none
  const Parameter& input_parameter(int input) const;  // the parameter an input belongs to (variadic: the same for all)
  bool updates_states() const;                        // results are the new values of states
  Role role_of(int input) const { return input_parameter(input).role; }
  // Whether people read an input's layout in the letters of weights (OIHW) rather than of activations (NCHW).
  bool is_weights(int input) const { return role_of(input) == Role::constant; }

 private:
  Schema& add_attribute(const AttributeName& attribute, AttributeType type, bool needed, AttributeValue fallback,
                        std::string about, std::vector<std::string> choices);
};

// Registration.  Schemas are immutable once the library is loaded.
bool register_schema(Schema schema);  // true: PL_REGISTER_OP initialises a variable with it
const Schema* find_schema(std::string_view name);
const std::vector<const Schema*>& all_schemas();  // sorted by name

#define PL_JOIN_(a, b) a##b
#define PL_JOIN(a, b) PL_JOIN_(a, b)
// PL_REGISTER_OP(make_relu);  where make_relu is a function without arguments that returns a Schema
#define PL_REGISTER_OP(make) \
  [[maybe_unused]] static const bool PL_JOIN(registered_op_, __COUNTER__) = ::pl::register_schema(make())

// Builds a checked Op: fills default attributes, rejects unknown ones and wrong types (an int is accepted for a
// number, an int for a list of one), checks which inputs are given, and infers the outputs.  Every error begins
// with the op's name.  `attributes` are what the user gave: the attributes of an inferred Op hold more (constants,
// what infer computed), so keep the user's where an op is to be made again for other inputs.
Op make_op(const Schema& schema, const Attributes& attributes, const std::vector<TensorDesc>& inputs);

// What the user gave, converted and checked, with defaults and constants, before infer completes it.
Attributes complete_attributes(const Schema& schema, const Attributes& given);

// Helpers for infer functions.
//   check(op, condition, Code::shape, "weight.ic is ", w, ", expected ", e)  ->  "conv2d: weight.ic is ..."
template <class... Parts>
void check(const Op& op, bool condition, Code code, const Parts&... parts) {
  if (__builtin_expect(!condition, 0)) fail(code, op.schema->name, ": ", parts...);
}
void check_rank(const Op& op, int input, int lowest, int highest);
void check_dtype(const Op& op, int input, std::initializer_list<DType> allowed);
void check_float(const Op& op, int input);                          // f32, f16 or bf16
void check_same_dtype(const Op& op, int input, int reference = 0);  // weight.dtype is f16, expected f32 (x.dtype)
// The shape of an input; `why` says where the expectation comes from: "x.c".  Absent inputs pass.
void check_shape(const Op& op, int input, const Dims& expected, const char* why);
void check_seed(const Op& op, int input);                        // of random numbers: one element or two
void check_finite(const Op& op, const Key<double>& attribute);   // neither NaN nor infinite
void check_not_nan(const Op& op, const Key<double>& attribute);  // None passes
// Each value in [lowest, highest].
void check_range(const Op& op, const AttributeName& attribute, const std::vector<int64_t>& values, int64_t lowest,
                 int64_t highest);
// The word in place of a list of integers; empty where the list itself is given.
std::string_view word_of(const Op& op, const Key<Ints>& attribute);
// The attribute as `count` integers: a single value is repeated; another count is an error naming it.
std::vector<int64_t> expand_ints(Op& op, const Key<Ints>& attribute, int count);
// A dimension index in [-rank, rank), made non-negative.
int64_t normalise_dim(const Op& op, const AttributeName& attribute, int64_t dim, int rank);
// NumPy broadcasting of the shapes of the given inputs.
Dims broadcast_shapes(const Op& op, const std::vector<int>& inputs);
int64_t safe_product(const Op& op, const char* what, std::initializer_list<int64_t> factors);
// Appends the next output, dense in the plain layout: dtype and, where none is given, shape by its rule.
void add_output(Op& op);
void add_output(Op& op, const Dims& shape);
void add_output(Op& op, DType dtype, const Dims& shape);

}  // namespace pl

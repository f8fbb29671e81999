// The part of the C ABI that needs no context: errors, strings, schemas, layouts.
#include <algorithm>
#include <cstring>
#include <new>

#include "abi/describe.h"
#include "abi/guard.h"
#include "core/json.h"
#include "ops/activation.h"
#include "ops/op.h"
#include "providers/known_faults.h"

namespace pl::abi {

namespace {

const char* name_of(Parameter::Kind kind) {
  switch (kind) {
    case Parameter::Kind::tensor: return "tensor";
    case Parameter::Kind::optional_tensor: return "optional_tensor";
    case Parameter::Kind::tensors: return "tensors";
    case Parameter::Kind::attribute: return "attribute";
  }
  return "";
}

std::vector<std::string> names_of(DTypes dtypes) {
  std::vector<std::string> names;
  for (int i = 0; i < kDTypeCount; ++i)
    if (dtypes.has(DType(i))) names.push_back(pl::name_of(DType(i)));
  return names;
}

const char* name_of(Batch batch) {
  constexpr const char* names[] = {"never", "always", "broadcast", "mixes"};
  return names[size_t(batch)];
}

const char* name_of(AxisRule::Meaning meaning) {
  constexpr const char* names[] = {"along", "order", "offsets", "sizes", "last"};
  return names[size_t(meaning)];
}

const char* name_of(Renaming renaming) {
  constexpr const char* names[] = {"none", "shape", "order", "part", "repeat", "split"};
  return names[size_t(renaming)];
}

const char* name_of(Zeros zeros) {
  constexpr const char* names[] = {"unknown", "where_all", "where_any"};
  return names[size_t(zeros)];
}

const char* name_of(Algebra::Operation operation) {
  constexpr const char* names[] = {"none",  "sum",    "difference", "product",     "quotient",
                                   "power", "larger", "smaller",    "conjunction", "disjunction"};
  return names[size_t(operation)];
}

const char* name_of(Weighting::Order order) {
  constexpr const char* names[] = {"none", "outputs_first", "inputs_first", "matrices"};
  return names[size_t(order)];
}

const char* name_of(Padding padding) {
  constexpr const char* names[] = {"none", "zeros", "lowest"};
  return names[size_t(padding)];
}

const char* name_of(Result::Shape shape) {
  constexpr const char* names[] = {"inferred", "like", "broadcast"};
  return names[size_t(shape)];
}

void write_result(Json& json, const Result& result) {
  json.object().field("name", result.name);
  json.field("dtype_attribute", result.dtype_attribute ? result.dtype_attribute->text() : "")
      .field("dtype_inputs", result.dtype_inputs);
  json.field("dtype", pl::name_of(result.dtype)).field("shape", name_of(result.shape));
  json.field("shape_input", result.shape_input).field("may_overwrite", result.may_overwrite);
  json.field("state", result.state).field("only_with", result.only_with).field("many", result.many).end();
}

void write_rules(Json& json, const Schema& schema) {
  json.key("results").list();
  for (const Result& result : schema.results) write_result(json, result);
  json.end().key("restrictions").list();
  for (const Restriction& rule : schema.restrictions) {
    json.object()
        .field("attribute", rule.attribute.text())
        .field("input", rule.input)
        .field("dtypes", names_of(rule.of));
    json.key("values").list();
    for (const AttributeValue& value : rule.values) json.value(value);
    json.end().end();
  }
  json.end().key("axes").list();
  for (const AxisRule& rule : schema.axes)
    json.object().field("attribute", rule.attribute.text()).field("meaning", name_of(rule.meaning)).end();
  json.end().field("elementwise", schema.elementwise).field("renaming", name_of(schema.renaming));
  json.field("same_if_alike", schema.same_if_alike).field("idempotent", schema.idempotent);
  json.field("keeps_finite", schema.keeps_finite).field("zeros", name_of(schema.zeros));
  json.field("applies_function", schema.applies_function).field("by_rows", schema.by_rows);
  json.field("padding", name_of(schema.padding)).field("trained_as", schema.trained_as);
  json.field("quantized_as", schema.quantized_as);
  json.key("same_only_if").object();
  for (const AllEqual& rule : schema.same_only_if) json.field(rule.attribute.text(), rule.number);
  json.end().key("algebra").object().field("operation", name_of(schema.algebra.operation));
  json.field("commutes", schema.algebra.commutes).field("not_with", schema.algebra.not_with.text());
  if (schema.algebra.neutral) json.field("neutral", *schema.algebra.neutral);
  json.end().key("weighting").object().field("order", name_of(schema.weighting.order));
  json.field("channels", schema.weighting.channels);
  json.end().key("post_ops").object().field("taken", schema.post_ops.taken).key("operands").list();
  for (const PostOp& operand : schema.post_ops.operands) json.value(operand.str());
  json.end()
      .field("of_reals", schema.post_ops.of_reals)
      .key("of_integers")
      .list();  // functions that integers have, too
  for (const UnaryFunction& function : unary_functions())
    if (schema.post_ops.taken && function.is(unary::kIntegers) && function.is_post_op()) json.value(function.name);
  json.end().end();
}

void write_parameter(Json& json, const Parameter& parameter) {
  json.object().field("name", parameter.name).field("kind", name_of(parameter.kind)).field("doc", parameter.doc);
  if (parameter.kind == Parameter::Kind::attribute) {
    json.field("type", pl::name_of(parameter.type)).field("required", parameter.required);
    if (!parameter.required) json.field("default", parameter.fallback);
    if (!parameter.choices.empty()) json.field("choices", parameter.choices);
  } else {
    json.field("role", parameter.role == Role::constant ? "constant" : "data");
    json.field("dtypes", names_of(parameter.dtypes.of)).field("like", parameter.dtypes.like);
    json.field("batch", name_of(parameter.batch)).field("selects", parameter.selects);
    json.field("ascending", parameter.ascending);
  }
  json.end();
}

std::string schemas_json() {
  Json json;
  json.list();
  for (const Schema* schema : all_schemas()) {
    json.object().field("name", schema->name).field("kind", schema->kind).field("doc", schema->doc);
    json.field("view", schema->view != nullptr).field("several", schema->several);
    json.field("differentiable", schema->gradient != nullptr).key("constants").object();
    for (const auto& [key, value] : schema->constants) json.field(key.text(), value);
    json.end().key("parameters").list();
    for (const Parameter& parameter : schema->parameters) write_parameter(json, parameter);
    json.end();
    write_rules(json, *schema);
    json.end();
  }
  return json.end().str();
}

std::string known_faults_json() {
  Json json;
  json.list();
  for (const KnownFault* fault : known_faults()) {
    const std::vector<std::string> here = versions_here(fault->library);
    const auto applies = [&](const std::string& version) { return fault->applies(version); };
    json.object()
        .field("id", fault->id)
        .field("library", fault->library)
        .field("since", fault->since)
        .field("fixed", fault->fixed)
        .field("condition", fault->condition)
        .field("effect", fault->effect)
        .field("seen", fault->seen)
        .field("instead", fault->instead)
        .field("remedy", fault->remedy)
        .field("here", here)
        .field("applies", std::any_of(here.begin(), here.end(), applies))
        .end();
  }
  return json.end().str();
}

}  // namespace

void copy_text(char* destination, size_t capacity, const std::string& text) {
  const size_t length = std::min(text.size(), capacity - 1);
  std::memcpy(destination, text.data(), length);
  std::memset(destination + length, 0, capacity - length);
}

void describe(const TensorDesc& desc, pl_tensor_info& info) {
  info = pl_tensor_info{};
  info.dtype = static_cast<pl_dtype>(desc.dtype);
  info.rank = desc.rank();
  std::copy(desc.shape.begin(), desc.shape.end(), info.shape);
  std::copy(desc.strides.begin(), desc.strides.end(), info.strides);
  info.offset = desc.offset;
  info.storage_bytes = desc.size_bytes();
  copy_text(info.layout, sizeof info.layout, desc.layout.str());
  info.is_dense = desc.is_dense();
}

Dims checked_shape(int32_t rank, const int64_t* shape, const char* function) {
  require(rank >= 0 && rank <= kMaxRank, Code::shape, function, ": rank is ", rank, ", expected 0 to ", kMaxRank);
  require(rank == 0 || shape != nullptr, Code::invalid_argument, function, ": shape is NULL, expected ", rank,
          " sizes");
  return Dims(shape, size_t(rank));
}

int64_t offset_of_bytes(uint64_t bytes, DType dtype, const char* function, const char* what) {
  constexpr uint64_t kMost = uint64_t(1) << 62;
  require(bytes % size_of(dtype) == 0 && bytes <= kMost, Code::invalid_argument, function, ": ", what, " is ", bytes,
          ", expected a multiple of ", size_of(dtype), ", at most ", kMost);
  return int64_t(bytes / size_of(dtype));
}

}  // namespace pl::abi

using namespace pl;
using namespace pl::abi;

extern "C" {

const char* pl_last_error(void) { return last_error(); }

void pl_string_free(char* string) { ::operator delete(string); }

pl_status pl_ops(char** json) {
  return guarded([&] {
    require_pointer(json, "pl_ops", "json");
    static const std::string text = schemas_json();  // schemas never change once the library is loaded
    *json = copied_string(text.data(), text.size());
  });
}

pl_status pl_known_faults(char** json) {
  return guarded([&] {
    require_pointer(json, "pl_known_faults", "json");
    const std::string text = known_faults_json();
    *json = copied_string(text.data(), text.size());
  });
}

pl_status pl_layout_parse(const char* text, int32_t* rank, char* name, char* generic) {
  return guarded([&] {
    require_pointer(text, "pl_layout_parse", "text");
    const Layout layout = Layout::parse(text);
    const std::string canonical = layout.str(), letters = layout.generic_str();
    if (rank) *rank = layout.rank();
    if (name) copy_text(name, sizeof pl_tensor_info::layout, canonical);
    if (generic) copy_text(generic, sizeof pl_tensor_info::layout, letters);
  });
}

pl_status pl_layout_describe(const char* layout, pl_dtype dtype, int32_t rank, const int64_t* shape,
                             pl_tensor_info* info, int64_t* padded_shape) {
  return guarded([&] {
    const char* function = "pl_layout_describe";
    require_pointer(info, function, "info");
    const Dims sizes = checked_shape(rank, shape, function);
    const DType type = checked_dtype(dtype, function);
    const TensorDesc desc = TensorDesc::dense(type, sizes, layout ? Layout::parse(layout) : Layout::plain(rank));
    const Dims padded = desc.padded_shape();
    describe(desc, *info);
    if (padded_shape) std::copy(padded.begin(), padded.end(), padded_shape);
  });
}

}  // extern "C"

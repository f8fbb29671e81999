// The C ABI of op calls and their attributes.
#include "ops/op.h"

#include <algorithm>
#include <cstring>

#include "abi/guard.h"
#include "abi/handles.h"
#include "abi/schema.h"
#include "core/json.h"
#include "dispatch/dispatcher.h"

using namespace pl;
using namespace pl::abi;

namespace {

CallRef call_attributes(pl_attributes attributes, const char* function) {
  if (!attributes) {
    static const CallRef none = CallAttributes::parse(Attributes());
    return none;
  }
  return attribute_sets().read(value_of(attributes), function, "attributes",
                               [](const AttributesEntry& entry) { return entry.call; });
}

AttributesEntry parsed(Attributes text) {
  CallRef call = CallAttributes::parse(text);
  return {std::make_shared<const Attributes>(std::move(text)), std::move(call)};
}

pl_status set_attribute(pl_attributes attributes, const char* key, const char* function, AttributeValue value) {
  return guarded([&] {
    require_pointer(key, function, "key");
    // The same rule as in attribute text, where a key is letters, digits and underscores.
    const bool word =
        *key && std::strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == std::strlen(key);
    require(word, Code::invalid_argument, function, ": key is \"", key, "\", expected letters, digits and underscores");
    attribute_sets().update(value_of(attributes), function, "attributes", [&](const AttributesEntry& entry) {
      Attributes text = *entry.text;
      text.set_value(AttributeName::of(key), std::move(value));
      return parsed(std::move(text));
    });
  });
}

// The number of handles up to the last that is not NULL.  Callers give room for a thousand, mostly without one: blocks
// are looked at as a whole.
size_t up_to_last(const pl_tensor* handles, size_t count) {
  constexpr size_t kBlock = 16;
  for (; count >= kBlock; count -= kBlock) {
    uintptr_t any = 0;
    for (const pl_tensor* handle = handles + count - kBlock; handle != handles + count; ++handle)
      any |= reinterpret_cast<uintptr_t>(*handle);
    if (any) break;
  }
  while (count > 0 && !handles[count - 1]) --count;
  return count;
}

// What op_query and op_tune share.
struct Call {
  ContextRef context;
  const Schema& schema;
  CallRef attributes;
  std::vector<TensorRef> inputs;

  Call(pl_context context_handle, const char* op, pl_attributes attributes_handle, const pl_tensor* handles,
       size_t count, const char* function)
      : context(context_of(context_handle, function)),
        schema(schema_of(op, function)),
        attributes(call_attributes(attributes_handle, function)),
        inputs(tensors_of(*context, schema.name, handles, count, function, "inputs")) {}
};

}  // namespace

extern "C" {

pl_status pl_attributes_create(const char* text, pl_attributes* attributes) {
  return guarded([&] {
    require_pointer(attributes, "pl_attributes_create", "attributes");
    AttributesEntry entry = parsed(text ? Attributes::parse(text) : Attributes());
    *attributes = reinterpret_cast<pl_attributes>(attribute_sets().add(std::move(entry)));
  });
}

pl_status pl_attributes_set_ints(pl_attributes attributes, const char* key, const int64_t* values, size_t count) {
  if (count && !values) return guarded([&] { require_pointer(values, "pl_attributes_set_ints", "values"); });
  std::vector<int64_t> list;
  const pl_status status = guarded([&] {
    require(count <= 4096, Code::invalid_argument, "pl_attributes_set_ints: count is ", count,
            ", expected at most 4096");
    list.assign(values, values + count);
  });
  return status != PL_OK ? status : set_attribute(attributes, key, "pl_attributes_set_ints", std::move(list));
}

pl_status pl_attributes_set_float(pl_attributes attributes, const char* key, double value) {
  return set_attribute(attributes, key, "pl_attributes_set_float", value);
}

pl_status pl_attributes_set_text(pl_attributes attributes, const char* key, const char* value) {
  std::string text;
  const pl_status status = guarded([&] {
    require_pointer(value, "pl_attributes_set_text", "value");
    text = value;
  });
  return status != PL_OK ? status : set_attribute(attributes, key, "pl_attributes_set_text", std::move(text));
}

pl_status pl_attributes_release(pl_attributes attributes) {
  return guarded([&] { attribute_sets().remove(value_of(attributes), "pl_attributes_release", "attributes"); });
}

pl_status pl_op_run(pl_context context, const char* op, pl_attributes attributes, const pl_tensor* inputs,
                    size_t input_count, pl_tensor* outputs, size_t capacity, size_t* output_count) {
  return guarded([&] {
    const char* function = "pl_op_run";
    const Call call(context, op, attributes, inputs, input_count, function);
    require(capacity == 0 || outputs != nullptr, Code::invalid_argument, function,
            ": outputs is NULL, expected room for ", capacity, " handles");
    std::vector<TensorRef> destinations;
    if (const size_t count = up_to_last(outputs, capacity))
      destinations = tensors_of(*call.context, call.schema.name, outputs, count, function, "outputs");
    const std::vector<Result>& declared = call.schema.results;
    const bool fit = declared.size() <= capacity &&
                     std::none_of(declared.begin(), declared.end(), [](const Result& result) { return result.many; });
    if (!destinations.empty() && !fit) {  // nothing is written to them if there is not room for all
      std::vector<TensorDesc> descs;
      for (const TensorRef& tensor : call.inputs) descs.push_back(tensor ? tensor->desc() : TensorDesc());
      const size_t count = make_op(call.schema, call.attributes->attributes, descs).outputs.size();
      if (output_count) *output_count = count;
      require(count <= capacity, Code::invalid_argument, call.schema.name, ": outputs has room for ", capacity,
              ", expected ", count);
    }
    std::vector<TensorRef> results = call.context->run(call.schema, call.attributes, call.inputs, destinations);
    if (output_count) *output_count = results.size();  // also when they do not fit: so much room is needed
    require(results.size() <= capacity, Code::invalid_argument, call.schema.name, ": outputs has room for ", capacity,
            ", expected ", results.size());
    size_t made = 0;
    const auto given = [&](size_t i) { return i < destinations.size() && destinations[i]; };
    try {
      for (; made < results.size(); ++made)
        if (!given(made)) outputs[made] = new_handle({std::move(results[made]), call.context});
    } catch (...) {
      while (made-- > 0)
        if (!given(made)) {
          tensors().remove(value_of(outputs[made]), function, "outputs");
          outputs[made] = nullptr;
        }
      throw;
    }
  });
}

pl_status pl_op_run_all(pl_context context, const pl_op_call* calls, size_t count) {
  return guarded([&] {
    const char* function = "pl_op_run_all";
    const ContextRef self = context_of(context, function);
    if (count) require_pointer(calls, function, "calls");
    std::vector<OpCall> list;
    list.reserve(count);
    const Schema* schema = nullptr;  // of the call before, as most are of one op with one set of attributes
    CallRef attributes;
    for (const pl_op_call* each = calls; each != calls + count; ++each) {
      const bool first = each == calls;
      if (first || each->op != each[-1].op) schema = &schema_of(each->op, function);
      if (first || each->attributes != each[-1].attributes) attributes = call_attributes(each->attributes, function);
      std::vector<TensorRef> inputs =
          tensors_of(*self, schema->name, each->inputs, each->input_count, function, "inputs");
      std::vector<TensorRef> outputs =
          tensors_of(*self, schema->name, each->outputs, each->output_count, function, "outputs");
      for (size_t i = 0; i < outputs.size(); ++i)
        if (!outputs[i]) fail(Code::invalid_argument, schema->name, ": output ", i, " is NULL, expected a tensor");
      list.push_back({*schema, attributes, std::move(inputs), std::move(outputs)});
    }
    self->run_all(list);
  });
}

pl_status pl_op_query(pl_context context, const char* op, pl_attributes attributes, const pl_tensor* inputs,
                      size_t input_count, char** json) {
  return guarded([&] {
    require_pointer(json, "pl_op_query", "json");
    const Call call(context, op, attributes, inputs, input_count, "pl_op_query");
    const std::string text = call.context->query_json(call.schema, call.attributes, call.inputs);
    *json = copied_string(text.data(), text.size());
  });
}

pl_status pl_op_tune(pl_context context, const char* op, pl_attributes attributes, const pl_tensor* inputs,
                     size_t input_count, double seconds, char** json) {
  return guarded([&] {
    require_pointer(json, "pl_op_tune", "json");
    require(seconds > 0, Code::invalid_argument, "pl_op_tune: seconds is ", seconds, ", expected more than 0");
    const Call call(context, op, attributes, inputs, input_count, "pl_op_tune");
    const std::string text = call.context->tune_json(call.schema, call.attributes, call.inputs, seconds);
    *json = copied_string(text.data(), text.size());
  });
}

pl_status pl_op_candidates(pl_context context, const char* op, pl_attributes attributes, const pl_tensor* inputs,
                           size_t input_count, const char* options, pl_candidates* candidates) {
  return guarded([&] {
    const char* function = "pl_op_candidates";
    require_pointer(candidates, function, "candidates");
    const Call call(context, op, attributes, inputs, input_count, function);
    const auto parsed = CandidateOptions::parse(options ? Attributes::parse(options) : Attributes());
    CandidateRuns runs(*call.context, call.schema, *call.attributes, call.inputs, parsed);
    auto state = std::make_shared<CandidatesState>(call.context, std::move(runs));
    *candidates = reinterpret_cast<pl_candidates>(candidate_sets().add(std::move(state)));
  });
}

pl_status pl_candidates_release(pl_candidates candidates) {
  return guarded([&] { candidate_sets().remove(value_of(candidates), "pl_candidates_release", "candidates"); });
}

pl_status pl_candidates_describe(pl_candidates candidates, char** json) {
  return guarded([&] {
    require_pointer(json, "pl_candidates_describe", "json");
    const CandidatesRef self = candidates_of(candidates, "pl_candidates_describe");
    const std::string text = self->runs.json();
    *json = copied_string(text.data(), text.size());
  });
}

pl_status pl_candidates_run(pl_candidates candidates, size_t index, pl_tensor* outputs, size_t capacity,
                            size_t* output_count, char** json) {
  return guarded([&] {
    const char* function = "pl_candidates_run";
    require_pointer(json, function, "json");
    require(capacity == 0 || outputs != nullptr, Code::invalid_argument, function,
            ": outputs is NULL, expected room for ", capacity, " handles");
    const CandidatesRef self = candidates_of(candidates, function);
    std::lock_guard<std::mutex> guard(self->lock);
    CandidateRuns::Run run = self->runs.run(index);
    if (output_count) *output_count = run.outputs.size();  // also when they do not fit: so much room is needed
    require(run.outputs.size() <= capacity, Code::invalid_argument, function, ": outputs has room for ", capacity,
            ", expected ", run.outputs.size());
    Json report;
    report.object().field("prepared", run.prepared).field("ms", run.ms).field("damage", run.damage).end();
    char* text = copied_string(report.str().data(), report.str().size());
    size_t made = 0;
    try {
      for (size_t i = 0; i < capacity; ++i) outputs[i] = nullptr;
      for (; made < run.outputs.size(); ++made)
        outputs[made] = new_handle({std::move(run.outputs[made]), self->context});
    } catch (...) {
      while (made-- > 0) {
        tensors().remove(value_of(outputs[made]), function, "outputs");
        outputs[made] = nullptr;
      }
      pl_string_free(text);
      throw;
    }
    *json = text;
  });
}

pl_status pl_tune(pl_context context, const char* device, double seconds, pl_tune_progress progress, void* user,
                  char** json) {
  return guarded([&] {
    require_pointer(json, "pl_tune", "json");
    require_pointer(device, "pl_tune", "device");
    const auto target = context_of(context, "pl_tune");
    std::function<bool(const std::string&, double)> report;
    if (progress) report = [=](const std::string& what, double done) { return !progress(user, what.c_str(), done); };
    const std::string text = target->tune_met_json(target->device(device), seconds, report);
    *json = copied_string(text.data(), text.size());
  });
}

pl_status pl_tuned(pl_context context, const char* device, char** json) {
  return guarded([&] {
    require_pointer(json, "pl_tuned", "json");
    require_pointer(device, "pl_tuned", "device");
    const auto target = context_of(context, "pl_tuned");
    const std::string text = target->tuned_json(target->device(device));
    *json = copied_string(text.data(), text.size());
  });
}

}  // extern "C"

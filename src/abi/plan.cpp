// The C ABI of plans.
#include "graph/plan.h"

#include "abi/guard.h"
#include "abi/handles.h"
#include "abi/lease.h"
#include "core/json.h"

using namespace pl;
using namespace pl::abi;

namespace {

// A dense tensor over the caller's memory.
TensorRef over_memory(Device& cpu, const char* function, const char* what, const Value& value,
                      const std::optional<Layout>& layout, void* data) {
  const Layout order = layout ? *layout : Layout::plain(value.desc.rank());
  const TensorDesc desc = TensorDesc::dense(value.desc.dtype, value.desc.shape, order);
  require(data != nullptr || desc.size_bytes() == 0, Code::invalid_argument, function, what, " \"", value.name,
          "\" is NULL, expected ", desc.size_bytes(), " bytes");
  require(reinterpret_cast<uintptr_t>(data) % size_of(desc.dtype) == 0, Code::invalid_argument, function, what, " \"",
          value.name, "\" is not aligned to its dtype, expected a multiple of ", size_of(desc.dtype), " bytes");
  return borrow_host(cpu, desc, data, desc.size_bytes(), nullptr);
}

// Runs a plan on the caller's memory: at the sizes that it was made for, or at others, for which `other` was made.
void run_on_memory(const char* function, Plan& plan, Plan* other, const void* const* inputs, size_t input_count,
                   void* const* outputs, size_t output_count) {
  const Plan& of_sizes = other ? *other : plan;
  const Graph& graph = of_sizes.graph();
  const std::vector<const GraphInput*> wanted = of_sizes.inputs();
  const std::vector<const GraphOutput*> results = of_sizes.results();
  require(input_count == wanted.size() && (inputs != nullptr || input_count == 0), Code::invalid_argument, function,
          ": ", inputs ? input_count : 0, " inputs given, expected ", wanted.size());
  require(output_count == results.size() && (outputs != nullptr || output_count == 0), Code::invalid_argument, function,
          ": ", outputs ? output_count : 0, " outputs given, expected ", results.size());
  Device& cpu = plan.context()->device("cpu");
  std::vector<TensorRef> given, destinations;
  given.reserve(input_count);
  destinations.reserve(output_count);
  for (size_t i = 0; i < input_count; ++i) {
    const GraphInput& input = *wanted[i];
    const Value& value = graph.value(input.value);
    const auto layout = input.pinned ? std::optional<Layout>(value.desc.layout) : std::nullopt;
    given.push_back(over_memory(cpu, function, ": input", value, layout, const_cast<void*>(inputs[i])));
  }
  for (size_t i = 0; i < output_count; ++i) {
    const GraphOutput& output = *results[i];
    const Value& value = graph.value(output.value);
    destinations.push_back(over_memory(cpu, function, ": output", value, output.layout, outputs[i]));
  }
  plan.run(given, destinations, other);
  // A tensor is done when it is read; memory must be when the call returns.
  if (&plan.home() != &cpu) plan.home().finish();
}

std::vector<int64_t> sizes_of(const char* function, const int64_t* sizes, size_t count) {
  require(sizes != nullptr || count == 0, Code::invalid_argument, function, ": sizes is NULL, expected ", count,
          " sizes");
  return {sizes, sizes + count};
}

}  // namespace

extern "C" {

pl_status pl_plan_compile(pl_graph graph, const char* options, pl_progress progress, void* user, pl_plan* plan) {
  return guarded([&] {
    const char* function = "pl_plan_compile";
    GraphEntry entry = graph_of(graph, function);
    require_pointer(plan, function, "plan");
    PlanOptions parsed = PlanOptions::parse(options ? Attributes::parse(options) : Attributes());
    if (progress) parsed.progress = [=](const char* stage, double fraction) { progress(user, stage, fraction); };
    Graph copy;
    {
      std::lock_guard<std::mutex> guard(entry.state->lock);
      copy = entry.state->graph;
    }
    *plan = reinterpret_cast<pl_plan>(plans().add(Plan::compile(entry.context, copy, parsed)));
  });
}

pl_status pl_plan_release(pl_plan plan) {
  return guarded([&] { plans().remove(value_of(plan), "pl_plan_release", "plan"); });
}

pl_status pl_plan_run(pl_plan plan, const pl_tensor* inputs, size_t input_count, pl_tensor* outputs, size_t capacity) {
  return guarded([&] {
    const char* function = "pl_plan_run";
    const PlanRef self = plan_of(plan, function);
    const size_t count = self->results().size();
    require(capacity >= count && (outputs != nullptr || count == 0), Code::invalid_argument, function,
            ": outputs has room for ", outputs ? capacity : 0, ", expected ", count);
    const std::vector<TensorRef> given =
        tensors_of(*self->context(), function, inputs, input_count, function, "inputs");
    std::vector<TensorRef> destinations = tensors_of(*self->context(), function, outputs, count, function, "outputs");
    std::vector<TensorRef> results = self->run(given, destinations);
    size_t made = 0;
    try {
      for (; made < results.size(); ++made)
        if (!destinations[made]) outputs[made] = new_handle({std::move(results[made]), self->context()});
    } catch (...) {
      while (made-- > 0)
        if (!destinations[made]) {
          tensors().remove(value_of(outputs[made]), function, "outputs");
          outputs[made] = nullptr;
        }
      throw;
    }
  });
}

pl_status pl_plan_run_memory(pl_plan plan, const void* const* inputs, size_t input_count, void* const* outputs,
                             size_t output_count) {
  return guarded([&] {
    const char* function = "pl_plan_run_memory";
    run_on_memory(function, *plan_of(plan, function), nullptr, inputs, input_count, outputs, output_count);
  });
}

pl_status pl_plan_run_memory_at(pl_plan plan, const int64_t* sizes, size_t size_count, const void* const* inputs,
                                size_t input_count, void* const* outputs, size_t output_count) {
  return guarded([&] {
    const char* function = "pl_plan_run_memory_at";
    const PlanRef self = plan_of(plan, function);
    const PlanRef other = self->at(sizes_of(function, sizes, size_count));
    run_on_memory(function, *self, other.get(), inputs, input_count, outputs, output_count);
  });
}

pl_status pl_plan_prepare(pl_plan plan, const int64_t* sizes, size_t size_count) {
  return guarded([&] {
    const char* function = "pl_plan_prepare";
    plan_of(plan, function)->at(sizes_of(function, sizes, size_count));
  });
}

pl_status pl_plan_state(pl_plan plan, const char* name, pl_tensor* tensor) {
  return guarded([&] {
    const char* function = "pl_plan_state";
    const PlanRef self = plan_of(plan, function);
    require_pointer(name, function, "name");
    require_pointer(tensor, function, "tensor");
    *tensor = new_handle({self->state(name), self->context()});
  });
}

pl_status pl_plan_set_state(pl_plan plan, const char* name, pl_tensor tensor) {
  return guarded([&] {
    const char* function = "pl_plan_set_state";
    const PlanRef self = plan_of(plan, function);
    require_pointer(name, function, "name");
    const TensorEntry entry = tensor_of(tensor, function);
    require(entry.context == self->context(), Code::invalid_argument, function,
            ": tensor belongs to another context than the plan");
    self->set_state(name, entry.tensor);
  });
}

pl_status pl_plan_extend(pl_plan plan, pl_graph graph) {
  return guarded([&] {
    const char* function = "pl_plan_extend";
    const PlanRef self = plan_of(plan, function);
    GraphEntry entry = graph_of(graph, function);
    require(entry.context == self->context(), Code::invalid_argument, function,
            ": graph belongs to another context than the plan");
    Graph copy;
    {
      std::lock_guard<std::mutex> guard(entry.state->lock);
      copy = entry.state->graph;
    }
    self->extend(std::move(copy));
  });
}

pl_status pl_plan_save(pl_plan plan, const char* path) {
  return guarded([&] {
    const PlanRef self = plan_of(plan, "pl_plan_save");
    require_pointer(path, "pl_plan_save", "path");
    self->save(path);
  });
}

pl_status pl_plan_load(pl_context context, const char* path, const char* options, pl_plan* plan) {
  return guarded([&] {
    const char* function = "pl_plan_load";
    ContextRef self = context_of(context, function);
    require_pointer(path, function, "path");
    require_pointer(plan, function, "plan");
    Attributes given = options ? Attributes::parse(options) : Attributes();
    static constexpr Key<bool> replan_key{"replan"};
    bool replan = false;
    if (const AttributeValue* value = given.find_value(replan_key)) {
      const bool* flag = std::get_if<bool>(value);
      require(flag != nullptr, Code::invalid_argument, function, ": replan is ", to_text(*value),
              ", expected true or false");
      replan = *flag;
      given.erase(replan_key);
    }
    const PlanOptions parsed = PlanOptions::parse(given);
    if (!replan && given.begin() != given.end())
      fail(Code::invalid_argument, function, ": ", given.begin()->name.text(),
           " is given without replan=true; a plan keeps what it was made for");
    *plan = reinterpret_cast<pl_plan>(plans().add(Plan::load(std::move(self), path, replan, parsed)));
  });
}

pl_status pl_plan_describe(pl_plan plan, char** json) {
  return guarded([&] {
    const PlanRef self = plan_of(plan, "pl_plan_describe");
    require_pointer(json, "pl_plan_describe", "json");
    const Graph& graph = self->graph();
    Json out;
    const auto describe = [&](const std::string& name, const TensorDesc& desc, const std::string& layout) {
      out.object().field("name", name).field("dtype", std::string(name_of(desc.dtype)));
      out.field("shape", desc.shape.vector()).field("layout", layout);
    };
    out.object().field("device", self->home().name()).key("inputs").list();
    for (const GraphInput* input : self->inputs()) {
      const Value& value = graph.value(input->value);
      describe(value.name, value.desc, input->pinned ? value.desc.layout.str() : "any");
      out.field("axes", input->axes).end();
    }
    out.end().key("states").list();
    for (const KeptValue& kept : graph.kept()) {
      const Value& value = graph.value(kept.value);
      out.object().field("name", value.name).field("dtype", std::string(name_of(value.desc.dtype)));
      out.field("shape", value.desc.shape.vector()).field("parameter", kept.parameter);
      out.field("updated", kept.update != kNoValue).end();
    }
    out.end().key("outputs").list();
    for (const GraphOutput* output : self->results()) {
      describe(output->name, graph.value(output->value).desc, output->layout ? output->layout->str() : "any");
      out.end();
    }
    out.end().end();
    *json = copied_string(out.str().data(), out.str().size());
  });
}

pl_status pl_plan_explain(pl_plan plan, char** text) {
  return guarded([&] {
    const PlanRef self = plan_of(plan, "pl_plan_explain");
    require_pointer(text, "pl_plan_explain", "text");
    const std::string made = self->explain();
    *text = copied_string(made.data(), made.size());
  });
}

pl_status pl_plan_summary(pl_plan plan, char** json) {
  return guarded([&] {
    const PlanRef self = plan_of(plan, "pl_plan_summary");
    require_pointer(json, "pl_plan_summary", "json");
    const std::string made = self->summary_json();
    *json = copied_string(made.data(), made.size());
  });
}

pl_status pl_plan_graph(pl_plan plan, const char* format, char** text) {
  return guarded([&] {
    const PlanRef self = plan_of(plan, "pl_plan_graph");
    require_pointer(text, "pl_plan_graph", "text");
    const std::string made = graph_text(self->snapshot(), format, "pl_plan_graph");
    *text = copied_string(made.data(), made.size());
  });
}

pl_status pl_plan_settled(pl_plan plan, int32_t* settled) {
  return guarded([&] {
    const PlanRef self = plan_of(plan, "pl_plan_settled");
    require_pointer(settled, "pl_plan_settled", "settled");
    *settled = self->settled();
  });
}

pl_status pl_plan_freeze(pl_plan plan) {
  return guarded([&] { plan_of(plan, "pl_plan_freeze")->freeze(); });
}

}  // extern "C"

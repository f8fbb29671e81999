// The C ABI of graphs.
#include "graph/graph.h"

#include <algorithm>
#include <cstring>

#include "abi/describe.h"
#include "abi/guard.h"
#include "abi/handles.h"
#include "abi/lease.h"
#include "abi/schema.h"
#include "core/json.h"
#include "graph/gradients.h"
#include "graph/pass.h"
#include "graph/trainable.h"

using namespace pl;
using namespace pl::abi;

namespace {

// "n,,," as one name for each axis.
std::vector<std::string> split_names(const char* text) {
  std::vector<std::string> names;
  if (!text) return names;
  names.emplace_back();
  for (; *text; ++text) {
    if (*text == ',')
      names.emplace_back();
    else
      names.back() += *text;
  }
  return names;
}

bool is_any(const char* layout) { return layout && std::string_view(layout) == "any"; }

pl_graph new_graph(Graph graph, ContextRef context) {
  auto state = std::make_shared<GraphState>();
  state->graph = std::move(graph);
  return reinterpret_cast<pl_graph>(graphs().add({std::move(state), std::move(context)}));
}

// The graph of a handle, locked for as long as this lives.
struct Locked {
  GraphEntry entry;
  std::lock_guard<std::mutex> guard;
  Graph& graph;
  Locked(pl_graph handle, const char* function)
      : entry(graph_of(handle, function)), guard(entry.state->lock), graph(entry.state->graph) {}
};

const Value& value_at(const Graph& graph, pl_value value, const char* function) {
  require(value >= 0 && size_t(value) < graph.values().size(), Code::invalid_argument, function, ": value is ", value,
          ", expected 0 to ", int64_t(graph.values().size()) - 1);
  return graph.value(value);
}

void add_op(const char* function, pl_graph graph, const char* op, pl_attributes attributes, const char* late,
            const pl_value* inputs, size_t input_count, const char* name, pl_value* first, size_t* count) {
  Locked locked(graph, function);
  const Schema& schema = schema_of(op, function);
  require(input_count == 0 || inputs != nullptr, Code::invalid_argument, function, ": inputs is NULL, expected ",
          input_count, " values");
  require_pointer(first, function, "first");
  Attributes given;
  if (attributes)
    given = attribute_sets().read(value_of(attributes), function, "attributes",
                                  [](const AttributesEntry& entry) { return *entry.text; });
  const std::vector<ValueId> made = locked.graph.add(schema, given, std::vector<ValueId>(inputs, inputs + input_count),
                                                     name ? name : "", locked.graph.late_attributes(late));
  *first = made.empty() ? PL_NO_VALUE : made.front();
  if (count) *count = made.size();
}

}  // namespace

std::string pl::abi::graph_text(const Graph& graph, const char* format, const char* function) {
  const std::string kind = format ? format : "text";
  require(kind == "text" || kind == "dot" || kind == "json", Code::invalid_argument, function, ": format is \"", kind,
          "\", expected text, dot or json");
  return kind == "text" ? graph.str() : kind == "dot" ? graph.dot() : graph.json();
}

extern "C" {

pl_status pl_graph_create(pl_context context, pl_graph* graph) {
  return guarded([&] {
    ContextRef self = context_of(context, "pl_graph_create");
    require_pointer(graph, "pl_graph_create", "graph");
    *graph = new_graph(Graph(), std::move(self));
  });
}

pl_status pl_graph_release(pl_graph graph) {
  return guarded([&] { graphs().remove(value_of(graph), "pl_graph_release", "graph"); });
}

pl_status pl_graph_input(pl_graph graph, const char* name, pl_dtype dtype, int32_t rank, const int64_t* shape,
                         const char* axes, const char* layout, pl_value* value) {
  return guarded([&] {
    const char* function = "pl_graph_input";
    Locked locked(graph, function);
    require_pointer(name, function, "name");
    require_pointer(value, function, "value");
    const DType type = checked_dtype(dtype, function);
    const Dims sizes = checked_shape(rank, shape, function);
    const Layout order = layout && !is_any(layout) ? Layout::parse(layout) : Layout::plain(rank);
    *value = locked.graph.input(name, TensorDesc::dense(type, sizes, order), split_names(axes), !is_any(layout));
  });
}

pl_status pl_graph_constant(pl_graph graph, const char* name, pl_tensor tensor, pl_value* value) {
  return guarded([&] {
    const char* function = "pl_graph_constant";
    Locked locked(graph, function);
    require_pointer(value, function, "value");
    TensorEntry entry = tensor_of(tensor, function);
    require(entry.context == locked.entry.context, Code::invalid_argument, function,
            ": tensor belongs to another context than the graph");
    *value = locked.graph.constant(name ? name : "", std::move(entry.tensor));
  });
}

static void add_kept(pl_graph graph, const char* name, pl_tensor tensor, pl_value* value, bool parameter,
                     const char* function) {
  Locked locked(graph, function);
  require_pointer(name, function, "name");
  require_pointer(value, function, "value");
  TensorEntry entry = tensor_of(tensor, function);
  require(entry.context == locked.entry.context, Code::invalid_argument, function,
          ": tensor belongs to another context than the graph");
  *value = locked.graph.keep(name, std::move(entry.tensor), parameter);
}

pl_status pl_graph_parameter(pl_graph graph, const char* name, pl_tensor tensor, pl_value* value) {
  return guarded([&] { add_kept(graph, name, tensor, value, true, "pl_graph_parameter"); });
}

pl_status pl_graph_state(pl_graph graph, const char* name, pl_tensor tensor, pl_value* value) {
  return guarded([&] { add_kept(graph, name, tensor, value, false, "pl_graph_state"); });
}

pl_status pl_graph_update(pl_graph graph, pl_value state, pl_value value) {
  return guarded([&] { Locked(graph, "pl_graph_update").graph.update(state, value); });
}

pl_status pl_graph_gradients(pl_graph graph, pl_value loss, const pl_value* by, size_t count, pl_value* made) {
  return guarded([&] {
    const char* function = "pl_graph_gradients";
    Locked locked(graph, function);
    require(count == 0 || (by != nullptr && made != nullptr), Code::invalid_argument, function,
            ": by or gradients is NULL, expected ", count, " values");
    Graph changed = locked.graph;  // as it was where an op has no gradient
    const std::vector<ValueId> results =
        gradients(changed, loss, std::vector<ValueId>(by, by + count), locked.entry.context->device("cpu"));
    locked.graph = std::move(changed);
    std::copy(results.begin(), results.end(), made);
  });
}

pl_status pl_graph_scaled_gradients(pl_graph graph, pl_value loss, const pl_value* by, size_t count, double initial,
                                    int64_t interval, pl_value* made, pl_value* factor) {
  return guarded([&] {
    const char* function = "pl_graph_scaled_gradients";
    Locked locked(graph, function);
    require(by != nullptr && made != nullptr, Code::invalid_argument, function, ": by or gradients is NULL, expected ",
            count, " values");
    require_pointer(factor, function, "grad_scale");
    Graph changed = locked.graph;  // as it was where an op has no gradient
    const ScaledGradients results = scaled_gradients(changed, loss, std::vector<ValueId>(by, by + count),
                                                     LossScale{initial, interval}, locked.entry.context->device("cpu"));
    locked.graph = std::move(changed);
    std::copy(results.values.begin(), results.values.end(), made);
    *factor = results.factor;
  });
}

pl_status pl_graph_trainable(pl_graph graph, double momentum, const pl_value* constants, const pl_trained* kinds,
                             size_t count, pl_graph* made) {
  return guarded([&] {
    const char* function = "pl_graph_trainable";
    Locked locked(graph, function);
    require_pointer(made, function, "trainable");
    require(momentum >= 0 && momentum <= 1, Code::invalid_argument, function, ": momentum is ", momentum,
            ", expected 0 to 1");
    require(count == 0 || (constants && kinds), Code::invalid_argument, function, ": constants or kinds is NULL");
    std::vector<Trained> known(count ? locked.graph.values().size() : 0, Trained::by_use);
    for (size_t i = 0; i < count; ++i) {
      require(constants[i] >= 0 && size_t(constants[i]) < known.size() && locked.graph.is_constant(constants[i]),
              Code::invalid_argument, function, ": constants[", i, "] is ", constants[i],
              ", expected a constant of the graph");
      int kind;  // what a caller in C has written may be no value of the type
      static_assert(sizeof(kind) == sizeof(kinds[i]));
      std::memcpy(&kind, &kinds[i], sizeof(kind));
      require(kind >= PL_TRAINED_BY_USE && kind <= PL_TRAINED_GIVEN, Code::invalid_argument, function, ": kinds[", i,
              "] is ", kind, ", expected a pl_trained");
      known[size_t(constants[i])] = Trained(kind);
    }
    *made = new_graph(trainable(locked.graph, momentum, known, *locked.entry.context), locked.entry.context);
  });
}

pl_status pl_graph_constant_memory(pl_graph graph, const char* name, pl_dtype dtype, int32_t rank, const int64_t* shape,
                                   const void* data, void (*release)(void* user), void* user, pl_value* value) {
  return guarded([&] {
    const char* function = "pl_graph_constant_memory";
    Locked locked(graph, function);
    require_pointer(value, function, "value");
    const TensorDesc desc = TensorDesc::dense(checked_dtype(dtype, function), checked_shape(rank, shape, function));
    require(data != nullptr || desc.size_bytes() == 0, Code::invalid_argument, function, ": data is NULL, expected ",
            desc.size_bytes(), " bytes");
    auto lease = release ? std::make_shared<Lease>([release, user] { release(user); }) : nullptr;
    Device& cpu = locked.entry.context->device("cpu");
    TensorRef made = borrow_host(cpu, desc, const_cast<void*>(data), desc.size_bytes(), lease);
    *value = locked.graph.constant(name ? name : "", std::move(made));
    if (lease) lease->begin();
  });
}

pl_status pl_graph_op(pl_graph graph, const char* op, pl_attributes attributes, const pl_value* inputs,
                      size_t input_count, const char* name, pl_value* first, size_t* count) {
  return guarded([&] { add_op("pl_graph_op", graph, op, attributes, "", inputs, input_count, name, first, count); });
}

pl_status pl_graph_op_late(pl_graph graph, const char* op, pl_attributes attributes, const char* late,
                           const pl_value* inputs, size_t input_count, const char* name, pl_value* first,
                           size_t* count) {
  return guarded([&] {
    require_pointer(late, "pl_graph_op_late", "late");
    add_op("pl_graph_op_late", graph, op, attributes, late, inputs, input_count, name, first, count);
  });
}

pl_status pl_graph_sizes(pl_graph graph, const char* name, pl_dtype dtype, const char* sizes, pl_value* value) {
  return guarded([&] {
    const char* function = "pl_graph_sizes";
    Locked locked(graph, function);
    require_pointer(sizes, function, "sizes");
    require_pointer(value, function, "value");
    const DType type = checked_dtype(dtype, function);
    std::string_view text = sizes;
    const auto within = [&](std::string_view before, std::string_view behind) {
      if (text.size() < before.size() + behind.size() || text.substr(0, before.size()) != before ||
          text.substr(text.size() - behind.size()) != behind)
        return false;
      text = text.substr(before.size(), text.size() - before.size() - behind.size());
      return true;
    };
    const SizeRule::Kind kind = within("range(", ")") ? SizeRule::Kind::range
                                : within("[", "]")    ? SizeRule::Kind::numbers
                                                      : SizeRule::Kind::number;
    std::vector<SizeExpression> list = locked.graph.size_expressions(text);
    require(kind != SizeRule::Kind::number || list.size() == 1, Code::invalid_argument, function, ": sizes is \"",
            sizes, "\", expected [size,...], range(first,end,step) or one size");
    Device& cpu = locked.entry.context->device("cpu");
    *value = locked.graph.late_constant(name ? name : "", type, cpu, kind, std::move(list));
  });
}

pl_status pl_graph_require(pl_graph graph, const char* condition) {
  return guarded([&] {
    const char* function = "pl_graph_require";
    Locked locked(graph, function);
    require_pointer(condition, function, "condition");
    const std::string_view text = condition;
    const std::pair<const char*, SizeRule::Kind> signs[] = {{"==", SizeRule::Kind::equal},
                                                            {"!=", SizeRule::Kind::different},
                                                            {"<=", SizeRule::Kind::at_most},
                                                            {"<", SizeRule::Kind::less}};
    for (const auto& [sign, kind] : signs) {
      const size_t at = text.find(sign);
      if (at == std::string_view::npos) continue;
      return locked.graph.require_sizes(kind, locked.graph.size_expression(text.substr(0, at)),
                                        locked.graph.size_expression(text.substr(at + std::string_view(sign).size())));
    }
    fail(Code::invalid_argument, function, ": condition is \"", text, "\", expected two sizes with ==, !=, < or <=");
  });
}

pl_status pl_graph_output(pl_graph graph, pl_value value, const char* name, const char* layout) {
  return guarded([&] {
    Locked locked(graph, "pl_graph_output");
    const int rank = value_at(locked.graph, value, "pl_graph_output").desc.rank();
    std::optional<Layout> wanted;
    if (!is_any(layout)) wanted = layout ? Layout::parse(layout) : Layout::plain(rank);
    locked.graph.output(value, name ? name : "", wanted);
  });
}

pl_status pl_graph_value(pl_graph graph, pl_value value, pl_tensor_info* info) {
  return guarded([&] {
    const char* function = "pl_graph_value";
    Locked locked(graph, function);
    require_pointer(info, function, "info");
    const Value& found = value_at(locked.graph, value, function);
    *info = pl_tensor_info{};
    describe(found.constant ? found.constant->desc() : found.desc, *info);
    if (found.constant) {
      copy_text(info->device, sizeof info->device, found.constant->device().name());
      info->is_borrowed = found.constant->buffer()->borrowed();
    }
  });
}

pl_status pl_graph_value_tensor(pl_graph graph, pl_value value, pl_tensor* tensor) {
  return guarded([&] {
    const char* function = "pl_graph_value_tensor";
    Locked locked(graph, function);
    require_pointer(tensor, function, "tensor");
    const Value& found = value_at(locked.graph, value, function);
    *tensor = found.constant ? new_handle({found.constant, locked.entry.context}) : nullptr;
  });
}

pl_status pl_graph_describe(pl_graph graph, const char* format, char** text) {
  return guarded([&] {
    const char* function = "pl_graph_describe";
    Locked locked(graph, function);
    require_pointer(text, function, "text");
    const std::string made = graph_text(locked.graph, format, function);
    *text = copied_string(made.data(), made.size());
  });
}

pl_status pl_graph_bind(pl_graph graph, const char* sizes, pl_graph* bound) {
  return guarded([&] {
    const char* function = "pl_graph_bind";
    Locked locked(graph, function);
    require_pointer(sizes, function, "sizes");
    require_pointer(bound, function, "bound");
    const Attributes given = Attributes::parse(sizes);
    std::map<std::string, int64_t> map;
    for (const auto& [key, value] : given) {
      require(std::holds_alternative<int64_t>(value), Code::invalid_argument, function, ": sizes: ", key, " is ",
              to_text(value), ", expected an integer");
      map[std::string(key.text())] = std::get<int64_t>(value);
    }
    *bound = new_graph(locked.graph.bound(map), locked.entry.context);
  });
}

pl_status pl_graph_simplify(pl_graph graph, const char* without, pl_graph* simplified, char** json) {
  return guarded([&] {
    const char* function = "pl_graph_simplify";
    Locked locked(graph, function);
    require_pointer(simplified, function, "simplified");
    Graph copy = locked.graph;
    std::vector<std::string> names = split_names(without);
    if (names.size() == 1 && names[0].empty()) names.clear();
    const std::vector<PassReport> reports = simplify(copy, *locked.entry.context, names);
    if (json) {
      Json text;
      text.list();
      for (size_t i = 0; i < reports.size(); ++i)
        text.object()
            .field("name", reports[i].name)
            .field("doc", std::string(standard_passes()[i].doc))
            .field("rewrites", reports[i].rewrites)
            .end();
      text.end();
      *json = copied_string(text.str().data(), text.str().size());
    }
    *simplified = new_graph(std::move(copy), locked.entry.context);
  });
}

pl_status pl_graph_join_elements(pl_graph graph, pl_graph* joined) {
  return guarded([&] {
    const char* function = "pl_graph_join_elements";
    Locked locked(graph, function);
    require_pointer(joined, function, "joined");
    Graph copy = locked.graph;
    join_elements(copy, *locked.entry.context);
    *joined = new_graph(std::move(copy), locked.entry.context);
  });
}

}  // extern "C"

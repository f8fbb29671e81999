// Plans on disk.
//
//   pylayout plan 2 <newline>
//   one record a line, fields separated by tabs, tabs, newlines and backslashes escaped:
//     environment  what the choices depend on (device, driver, providers, threads), as text
//     plan         device, threads, math
//     widened      a dtype that is held as f32; one record each
//     part         first node, slice, streams, threads of each: how the batch is cut from that node on (graph/chains.h)
//     input        value, name, dtype, shape, layout, pinned, axes
//     state        value, name, dtype, shape, offset of its data, whether it is a parameter: a value kept between runs
//     constant     value, name, dtype, shape, offset of its data
//     node         name, op, attributes, input values, first output value, number of outputs
//     output       value, name, layout (any: as the plan likes)
//     update       state's value, value after a run
//     choice       one for each node: the key of the way, or the descriptions that a view or a concat in place takes
//     rest         the same for the images left over by a part's slices, for each node of the parts that leave some
//   data <tab> bytes <tab> checksum of the data
//   end <tab> checksum of everything above <newline>
// and then the data of the constants, dense and row-major, each at a multiple of 64 bytes from its beginning.
//
// Nothing in the file is trusted: sizes are checked against the file's, and ops are made and checked as any other.
#include <algorithm>
#include <cerrno>
#include <sstream>
#include <system_error>
#include <unordered_map>

#include "core/files.h"
#include "graph/choices.h"
#include "graph/compiler.h"

namespace pl {
namespace {

constexpr std::string_view kMagic = "pylayout plan 2\n";
constexpr size_t kAlignment = 64;

}  // namespace

std::string Plan::environment() const {
  std::string text = home_->fingerprint();
  for (Device* device : {home_, &context_->device("cpu")})
    for (Provider* provider : context_->providers_of(*device))
      text += "|" + provider->name() + " " + provider->version();
  return text + "|threads=" + std::to_string(threads_);
}

void Plan::save(const std::string& path) const {
  std::string header(kMagic);
  std::string data;
  header += record("environment", environment());
  header += record("plan", home_->name(), threads_, int(options_.math));
  for (DType dtype : widened_) header += record("widened", name_of(dtype));
  const Graph graph = snapshot();
  const auto append = [&](const TensorRef& tensor) {
    const TensorDesc& desc = tensor->desc();
    data.resize((data.size() + kAlignment - 1) / kAlignment * kAlignment);
    const size_t bytes = size_t(desc.elements()) * size_of(desc.dtype), at = data.size();
    data.resize(at + bytes);
    if (bytes) context_->read(tensor, data.data() + at, bytes);
    return at;
  };
  std::lock_guard<std::mutex> turn(taking_turns_);
  for (const GraphInput& input : graph.inputs()) {
    const Value& value = graph.value(input.value);
    if (input.kept >= 0) {
      const size_t at = append(copy_of_state(size_t(input.kept)));
      header += record("state", input.value, value.name, name_of(value.desc.dtype), joined(value.desc.shape.vector()),
                       at, int(graph.kept()[size_t(input.kept)].parameter));
      continue;
    }
    std::string axes;
    for (size_t i = 0; i < input.axes.size(); ++i) axes += (i ? "," : "") + input.axes[i];
    header += record("input", input.value, value.name, name_of(value.desc.dtype), joined(value.desc.shape.vector()),
                     value.desc.layout.generic_str(), int(input.pinned), axes);
  }
  const std::vector<int32_t> uses = graph.use_counts();
  for (size_t i = 0; i < graph.values().size(); ++i) {
    const Value& value = graph.values()[i];
    if (!value.constant || !uses[i]) continue;
    const TensorDesc& desc = value.constant->desc();
    const size_t at = append(value.constant);
    header += record("constant", i, value.name, name_of(desc.dtype), joined(desc.shape.vector()), at);
  }
  for (const Node& node : graph.nodes()) {
    std::vector<int64_t> inputs(node.inputs.begin(), node.inputs.end());
    header += record("node", node.name, node.schema->name, node.attributes.str(), joined(inputs), node.outputs[0],
                     node.outputs.size());
  }
  for (const GraphOutput& output : graph.outputs())
    header += output.kept >= 0
                  ? record("update", graph.kept()[size_t(output.kept)].value, output.value)
                  : record("output", output.value, output.name, output.layout ? output.layout->generic_str() : "any");
  header += chosen().records();
  header += record("data", data.size(), hex(checksum(data)));
  const bool written = write_file_atomically(path, sealed(std::move(header)) + data);
  require(written, Code::io, "plan: could not be written to ", path, ": ", std::generic_category().message(errno));
}

std::shared_ptr<Plan> Plan::load(std::shared_ptr<Context> context, const std::string& path, bool replan,
                                 const PlanOptions& options) {
  std::optional<std::string> bytes = read_file(path);
  require(bytes.has_value(), Code::io, "plan file ", path,
          ": could not be read: ", std::generic_category().message(errno));
  const RecordReader reader(kMagic, "plan file " + path, std::move(*bytes));
  const auto& lines = reader.lines();
  const std::string_view data = reader.rest();

  std::shared_ptr<Plan> plan(new Plan());
  plan->context_ = std::move(context);
  plan->options_ = options;
  plan->options_.progress = nullptr;
  PlanChoices choices;
  std::string environment, device;
  std::unordered_map<int64_t, ValueId> values;  // by their numbers in the file
  Graph& graph = plan->graph_;
  const auto shape_of = [&](const std::string& text) {
    const std::vector<int64_t> sizes = reader.integers(text, 0, int64_t(1) << 59, "a size");
    if (sizes.size() > size_t(kMaxRank)) reader.refuse("a shape has ", sizes.size(), " sizes");
    return Dims(sizes);
  };
  const auto value_of = [&](const std::string& text) {
    const int64_t number = reader.integer(text, -1, INT32_MAX, "a value");
    if (number < 0) return kNoValue;
    const auto it = values.find(number);
    if (it == values.end()) reader.refuse("value ", number, " is used before it is made");
    return it->second;
  };
  for (const auto& line : lines) {
    const std::string& kind = line[0];
    if (kind == "data") {
      reader.expect_fields(line, 3);
      if (reader.integer(line[1], 0, INT64_MAX, "the size of the data") != int64_t(data.size()) ||
          line[2] != hex(checksum(data)))
        reader.refuse("is damaged: its data are not whole");
    }
  }
  for (const auto& line : lines) {
    const std::string& kind = line[0];
    if (kind == "environment") {
      reader.expect_fields(line, 2);
      environment = line[1];
    } else if (kind == "plan") {
      reader.expect_fields(line, 4);
      device = line[1];
      plan->threads_ = int(reader.integer(line[2], 1, 4096, "threads"));
      plan->options_.math = Math(reader.integer(line[3], 0, 2, "math"));
    } else if (kind == "widened") {
      reader.expect_fields(line, 2);
      plan->widened_.push_back(parse_dtype(line[1]));
    } else if (kind == "input") {
      reader.expect_fields(line, 8);
      const TensorDesc desc = TensorDesc::dense(parse_dtype(line[3]), shape_of(line[4]),
                                                line[5].empty() ? Layout() : Layout::parse(line[5]));
      std::vector<std::string> axes;
      if (!line[7].empty() && desc.rank()) {
        std::istringstream parts(line[7] + ",");
        for (std::string part; std::getline(parts, part, ',');) axes.push_back(part);
      }
      values[reader.integer(line[1], 0, INT32_MAX, "a value")] =
          graph.input(line[2], desc, axes, reader.integer(line[6], 0, 1, "pinned") == 1);
    } else if (kind == "constant" || kind == "state") {
      reader.expect_fields(line, kind == "state" ? 7 : 6);
      const TensorDesc desc = TensorDesc::dense(parse_dtype(line[3]), shape_of(line[4]));
      const size_t size = size_t(desc.elements()) * size_of(desc.dtype);
      const int64_t at = reader.integer(line[5], 0, int64_t(data.size()), "an offset");
      if (size > data.size() - size_t(at)) reader.refuse(kind, " \"", line[2], "\" reaches beyond the data");
      const TensorRef tensor = Tensor::allocate(plan->context_->device("cpu"), desc);
      if (size) plan->context_->write(tensor, data.data() + at, size);
      values[reader.integer(line[1], 0, INT32_MAX, "a value")] =
          kind == "state" ? graph.keep(line[2], tensor, reader.integer(line[6], 0, 1, "whether it is a parameter") == 1)
                          : graph.constant(line[2], tensor);
    } else if (kind == "update") {
      reader.expect_fields(line, 3);
      graph.update(value_of(line[1]), value_of(line[2]));
    } else if (kind == "node") {
      reader.expect_fields(line, 7);
      const Schema* schema = find_schema(line[2]);
      if (!schema) reader.refuse("there is no op \"", line[2], "\"");
      std::vector<ValueId> inputs;
      std::istringstream parts(line[4]);
      for (std::string part; std::getline(parts, part, ',');) inputs.push_back(value_of(part));
      const std::vector<ValueId> made = graph.add(*schema, Attributes::parse(line[3]), inputs, line[1]);
      const int64_t first = reader.integer(line[5], 0, INT32_MAX, "a value");
      if (reader.integer(line[6], 0, INT32_MAX, "the number of results") != int64_t(made.size()))
        reader.refuse("node \"", line[1], "\" has ", made.size(), " results, the file says ", line[6]);
      for (size_t k = 0; k < made.size(); ++k) values[first + int64_t(k)] = made[k];
    } else if (kind == "output") {
      reader.expect_fields(line, 4);
      std::optional<Layout> layout;
      if (line[3] != "any") layout = line[3].empty() ? Layout() : Layout::parse(line[3]);
      const ValueId value = value_of(line[1]);
      if (value == kNoValue) reader.refuse("output \"", line[2], "\" has no value");
      graph.output(value, line[2], layout);
    } else if (kind != "data" && !choices.take(reader, line)) {
      reader.refuse("there is no record \"", kind, "\"");
    }
  }
  if (graph.outputs().empty()) reader.refuse("has no outputs");

  if (const std::string problem = choices.misfit(graph); !problem.empty()) reader.refuse(problem);

  // Whether the choices still hold.
  std::string reason;
  const auto devices = plan->context_->devices();
  const bool known = std::any_of(devices.begin(), devices.end(), [&](const auto& d) { return d->name() == device; });
  if (!known) {
    reason = "its device " + device + " is not here";
  } else {
    plan->home_ = &plan->context_->device(device);
    plan->conversions_ = std::make_shared<Conversions>(*plan->context_, plan->context_->catalog());
    plan->constants_ = std::make_shared<PackedConstants>(*plan->context_);
    reason = plan->environment() == environment
                 ? plan->take(choices)
                 : "it was made for \"" + environment + "\", this is \"" + plan->environment() + "\"";
  }
  if (reason.empty()) {
    plan->place_states();
    plan->release_constants();
    return plan;
  }
  require(replan, Code::unsupported, "plan file ", path, ": ", reason, "; expected to be compiled anew (replan)");
  return compile(plan->context_, plan->graph_, options);
}

}  // namespace pl

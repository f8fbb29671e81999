// Plans on disk.
//
//   pylayout plan 2 <newline>
//   one record a line, fields separated by tabs, tabs, newlines and backslashes escaped:
//     environment  what the choices depend on (device, driver, providers, threads), as text
//     plan         device, threads, math
//     part         first node, slice, streams, threads of each: how the batch is cut from that node on (graph/chains.h)
//     input        value, name, dtype, shape, layout, pinned, axes
//     constant     value, name, dtype, shape, offset of its data
//     node         name, op, attributes, input values, first output value, number of outputs
//     output       value, name, layout (any: as the plan likes)
//     choice       one for each node: the key of the way, or the descriptions that a view or a concat in place takes
//     rest         the same for the images left over by a part's slices, for each node of the parts that leave some
//   data <tab> bytes <tab> checksum of the data
//   end <tab> checksum of everything above <newline>
// and then the data of the constants, dense and row-major, each at a multiple of 64 bytes from its beginning.
//
// Nothing in the file is trusted: sizes are checked against the file's, and ops are made and checked as any other.
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <sstream>
#include <system_error>
#include <unordered_map>

#include "core/files.h"
#include "graph/batch.h"
#include "graph/compiler.h"

namespace pl {
namespace {

constexpr std::string_view kMagic = "pylayout plan 2\n";
constexpr size_t kAlignment = 64;

std::string escaped(std::string_view text) {
  std::string result;
  for (char c : text) {
    if (c == '\\')
      result += "\\\\";
    else if (c == '\t')
      result += "\\t";
    else if (c == '\n')
      result += "\\n";
    else
      result += c;
  }
  return result;
}

std::string unescaped(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      result += text[i];
      continue;
    }
    const char c = text[++i];
    result += c == 't' ? '\t' : c == 'n' ? '\n' : c;
  }
  return result;
}

template <class... Fields>
std::string record(const Fields&... fields) {
  std::string line;
  ((line += (line.empty() ? "" : "\t") + escaped(concat(fields))), ...);
  return line + "\n";
}

std::string joined(const std::vector<int64_t>& values) {
  std::string text;
  for (int64_t value : values) text += (text.empty() ? "" : ",") + std::to_string(value);
  return text;
}

std::string hex(uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

// What tells a state from the others of its node, in any process.
std::string key_of(const State& state) {
  if (state.way) return state.way->key;
  std::string text = "in place";
  for (const TensorDesc& desc : state.inputs)
    text += " " + concat(desc.layout.generic_str(), ':', joined(desc.strides.vector()));
  for (const TensorDesc& desc : state.outputs)
    text += " > " + desc.layout.generic_str() + (desc.is_dense() ? "" : ":" + joined(desc.strides.vector()));
  return text;
}

class Reader {
 public:
  Reader(const std::string& path, std::string bytes) : path_(path), bytes_(std::move(bytes)) {}

  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail(Code::invalid_argument, "plan file ", path_, ": ", parts...);
  }

  // Lines up to `end`, split into fields; `data` is what follows.
  std::vector<std::vector<std::string>> lines() {
    if (bytes_.compare(0, kMagic.size(), kMagic) != 0) refuse("is not a plan of this version of pylayout");
    std::vector<std::vector<std::string>> result;
    size_t at = kMagic.size();
    for (;;) {
      const size_t stop = bytes_.find('\n', at);
      if (stop == std::string::npos) refuse("ends early");
      const std::string_view line(bytes_.data() + at, stop - at);
      std::vector<std::string> fields;
      for (size_t begin = 0; begin <= line.size();) {
        const size_t tab = std::min(line.find('\t', begin), line.size());
        fields.push_back(unescaped(line.substr(begin, tab - begin)));
        begin = tab + 1;
      }
      if (fields[0] == "end") {
        if (fields.size() != 2 || fields[1] != hex(checksum(std::string_view(bytes_.data(), at))))
          refuse("is damaged: the checksum of its header does not fit");
        data_begin_ = stop + 1;
        return result;
      }
      result.push_back(std::move(fields));
      at = stop + 1;
    }
  }

  std::string_view data() const { return std::string_view(bytes_).substr(data_begin_); }

  int64_t integer(const std::string& text, int64_t lowest, int64_t highest, const char* what) const {
    int64_t value = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (problem != std::errc() || end != text.data() + text.size() || value < lowest || value > highest)
      refuse(what, " is \"", text, "\", expected ", lowest, " to ", highest);
    return value;
  }
  std::vector<int64_t> integers(const std::string& text, int64_t lowest, int64_t highest, const char* what) const {
    std::vector<int64_t> values;
    std::istringstream parts(text);
    for (std::string part; std::getline(parts, part, ',');) values.push_back(integer(part, lowest, highest, what));
    return values;
  }

 private:
  std::string path_, bytes_;
  size_t data_begin_ = 0;
};

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
  for (const auto& part : parts_) header += record("part", part->first, part->slice, part->streams, part->threads);
  for (const GraphInput& input : graph_.inputs()) {
    const Value& value = graph_.value(input.value);
    std::string axes;
    for (size_t i = 0; i < input.axes.size(); ++i) axes += (i ? "," : "") + input.axes[i];
    header += record("input", input.value, value.name, name_of(value.desc.dtype), joined(value.desc.shape.vector()),
                     value.desc.layout.generic_str(), int(input.pinned), axes);
  }
  const std::vector<int32_t> uses = graph_.use_counts();
  for (size_t i = 0; i < graph_.values().size(); ++i) {
    const Value& value = graph_.values()[i];
    if (!value.constant || !uses[i]) continue;
    const TensorDesc& desc = value.constant->desc();
    data.resize((data.size() + kAlignment - 1) / kAlignment * kAlignment);
    header += record("constant", i, value.name, name_of(desc.dtype), joined(desc.shape.vector()), data.size());
    const size_t bytes = size_t(desc.elements()) * size_of(desc.dtype);
    const size_t at = data.size();
    data.resize(at + bytes);
    if (bytes) context_->read(value.constant, data.data() + at, bytes);
  }
  for (const Node& node : graph_.nodes()) {
    std::vector<int64_t> inputs(node.inputs.begin(), node.inputs.end());
    header += record("node", node.name, node.schema->name, node.attributes.str(), joined(inputs), node.outputs[0],
                     node.outputs.size());
  }
  for (const GraphOutput& output : graph_.outputs())
    header += record("output", output.value, output.name, output.layout ? output.layout->generic_str() : "any");
  for (const auto& part : parts_)
    for (size_t i = 0; i < part->nodes.size(); ++i)
      header += record("choice", key_of(part->nodes[i].states[size_t(part->assignment.states[i])]));
  for (const auto& part : parts_)
    for (size_t i = 0; part->rest && i < part->nodes.size(); ++i)
      header += record("rest", key_of(part->rest->nodes[i].states[size_t(part->rest->assignment.states[i])]));
  header += record("data", data.size(), hex(checksum(data)));
  header += record("end", hex(checksum(header)));
  const bool written = write_file_atomically(path, header + data);
  require(written, Code::io, "plan: could not be written to ", path, ": ", std::generic_category().message(errno));
}

std::shared_ptr<Plan> Plan::load(std::shared_ptr<Context> context, const std::string& path, bool replan,
                                 const PlanOptions& options) {
  std::optional<std::string> bytes = read_file(path);
  require(bytes.has_value(), Code::io, "plan file ", path,
          ": could not be read: ", std::generic_category().message(errno));
  Reader reader(path, std::move(*bytes));
  const auto lines = reader.lines();
  const std::string_view data = reader.data();

  std::shared_ptr<Plan> plan(new Plan());
  plan->context_ = std::move(context);
  plan->options_ = options;
  plan->options_.progress = nullptr;
  struct Cut {
    size_t first;
    int64_t slice;
    int streams, threads;
  };
  std::vector<Cut> cuts;
  std::string environment, device;
  std::vector<std::string> choices, choices_of_rests;
  std::unordered_map<int64_t, ValueId> values;  // by their numbers in the file
  Graph& graph = plan->graph_;
  const auto fields_of = [&](const std::vector<std::string>& line, size_t count) {
    if (line.size() != count)
      reader.refuse("a record \"", line[0], "\" has ", line.size(), " fields, expected ", count);
  };
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
      fields_of(line, 3);
      if (reader.integer(line[1], 0, INT64_MAX, "the size of the data") != int64_t(data.size()) ||
          line[2] != hex(checksum(data)))
        reader.refuse("is damaged: its data are not whole");
    }
  }
  for (const auto& line : lines) {
    const std::string& kind = line[0];
    if (kind == "environment") {
      fields_of(line, 2);
      environment = line[1];
    } else if (kind == "plan") {
      fields_of(line, 4);
      device = line[1];
      plan->threads_ = int(reader.integer(line[2], 1, 4096, "threads"));
      plan->options_.math = Math(reader.integer(line[3], 0, 2, "math"));
    } else if (kind == "part") {
      fields_of(line, 5);
      cuts.push_back({size_t(reader.integer(line[1], 0, INT32_MAX, "a node")),
                      reader.integer(line[2], 0, int64_t(1) << 40, "slice"),
                      int(reader.integer(line[3], 1, 4096, "streams")),
                      int(reader.integer(line[4], 1, 4096, "threads"))});
    } else if (kind == "input") {
      fields_of(line, 8);
      const TensorDesc desc = TensorDesc::dense(parse_dtype(line[3]), shape_of(line[4]),
                                                line[5].empty() ? Layout() : Layout::parse(line[5]));
      std::vector<std::string> axes;
      if (!line[7].empty() && desc.rank()) {
        std::istringstream parts(line[7] + ",");
        for (std::string part; std::getline(parts, part, ',');) axes.push_back(part);
      }
      values[reader.integer(line[1], 0, INT32_MAX, "a value")] =
          graph.input(line[2], desc, axes, reader.integer(line[6], 0, 1, "pinned") == 1);
    } else if (kind == "constant") {
      fields_of(line, 6);
      const TensorDesc desc = TensorDesc::dense(parse_dtype(line[3]), shape_of(line[4]));
      const size_t size = size_t(desc.elements()) * size_of(desc.dtype);
      const int64_t at = reader.integer(line[5], 0, int64_t(data.size()), "an offset");
      if (size > data.size() - size_t(at)) reader.refuse("constant \"", line[2], "\" reaches beyond the data");
      const TensorRef tensor = Tensor::allocate(plan->context_->device("cpu"), desc);
      if (size) plan->context_->write(tensor, data.data() + at, size);
      values[reader.integer(line[1], 0, INT32_MAX, "a value")] = graph.constant(line[2], tensor);
    } else if (kind == "node") {
      fields_of(line, 7);
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
      fields_of(line, 4);
      std::optional<Layout> layout;
      if (line[3] != "any") layout = line[3].empty() ? Layout() : Layout::parse(line[3]);
      const ValueId value = value_of(line[1]);
      if (value == kNoValue) reader.refuse("output \"", line[2], "\" has no value");
      graph.output(value, line[2], layout);
    } else if (kind == "choice" || kind == "rest") {
      fields_of(line, 2);
      (kind == "choice" ? choices : choices_of_rests).push_back(line[1]);
    } else if (kind != "data") {
      reader.refuse("there is no record \"", kind, "\"");
    }
  }
  if (graph.outputs().empty()) reader.refuse("has no outputs");

  if (cuts.empty()) reader.refuse("has no part");

  // Whether the choices still hold.
  std::vector<std::unique_ptr<Variant>> variants;  // by part
  std::string reason;
  const auto devices = plan->context_->devices();
  const bool known = std::any_of(devices.begin(), devices.end(), [&](const auto& d) { return d->name() == device; });
  if (!known) {
    reason = "its device " + device + " is not here";
  } else {
    plan->home_ = &plan->context_->device(device);
    if (plan->environment() != environment) {
      reason = "it was made for \"" + environment + "\", this is \"" + plan->environment() + "\"";
    } else {
      std::optional<int64_t> batch;  // asked for once
      size_t rests = 0;              // choices used of those of rests
      const auto across = cuts.size() > 1 ? values_across(graph, SIZE_MAX) : std::vector<std::vector<Maker>>();
      for (size_t p = 0; p < cuts.size(); ++p) {
        const size_t first = cuts[p].first;
        if (p == 0 ? first != 0 : first <= cuts[p - 1].first || first >= graph.nodes().size() || across[first].empty())
          reader.refuse("its chains do not fit together at node ", first);
      }
      for (size_t p = 0; p < cuts.size() && reason.empty(); ++p) {
        const Cut& cut = cuts[p];
        const size_t end = p + 1 < cuts.size() ? cuts[p + 1].first : graph.nodes().size();
        if (cut.slice || p > 0) {
          if (!batch) batch = batch_of(graph).value_or(0);
          if (*batch <= 0 || (cut.slice && cut.streams > *batch / cut.slice))
            reader.refuse("its batch cannot be run in slices of ", cut.slice, ", ", cut.streams, " at a time");
        }
        const auto choose = [&](Variant& variant, const std::vector<std::string>& keys, size_t key) {
          variant.nodes = plan->states_of(variant);
          variant.assignment.states.assign(variant.nodes.size(), 0);
          for (size_t i = cut.first; i < end && reason.empty(); ++i, ++key) {
            const auto& all = variant.nodes[i].states;
            const auto it = std::find_if(all.begin(), all.end(), [&](const State& state) {
              return key < keys.size() && key_of(state) == keys[key];
            });
            if (it == all.end())
              reason = "what it chose for \"" + variant.graph.node(i).name + "\" is not offered any more";
            else
              variant.assignment.states[i] = int(it - all.begin());
          }
        };
        auto variant = plan->variant_of(cut.slice, cut.streams, cut.threads);
        choose(*variant, choices, cut.first);
        if (const int64_t images = plan->rest_of(*variant); images && reason.empty()) {
          variant->rest = plan->rest_for(images);
          choose(*variant->rest, choices_of_rests, rests);
          rests += end - cut.first;
        }
        variants.push_back(std::move(variant));
      }
    }
  }
  if (!reason.empty()) {
    require(replan, Code::unsupported, "plan file ", path, ": ", reason, "; expected to be compiled anew (replan)");
    return compile(plan->context_, plan->graph_, options);
  }
  plan->conversions_ = std::make_unique<Conversions>(*plan->context_, plan->context_->catalog());
  PackedConstants constants(*plan->context_);
  std::vector<std::unique_ptr<Variant>> parts;
  std::map<Maker, Layout> layouts;
  for (size_t p = 0; p < cuts.size(); ++p)
    parts.push_back(plan->part_of(*variants[p], cuts[p].first,
                                  p + 1 < cuts.size() ? cuts[p + 1].first : graph.nodes().size(), layouts, constants));
  plan->adopt(std::move(parts));
  return plan;
}

}  // namespace pl

// Plans on disk.
//
//   pylayout plan 2 <newline>
//   one record a line, fields separated by tabs, tabs, newlines and backslashes escaped:
//     environment  what the choices depend on (device, driver, providers, threads), as text
//     plan         device, threads, math
//     widened      a dtype that is held as f32; one record each
//     part         first node, slice, streams, threads of each: how the batch is cut from that node on (graph/chains.h)
//     choice       one for each node: the key of the way, or the descriptions that a view or a concat in place takes
//     rest         the same for the images left over by a part's slices, for each node of the parts that leave some
//     named        of a plan with named axes: the options that its programs follow
//     made_again   node, from: of such a plan, what the simplified graph makes again in the backward pass
//     further      what follows is another graph of such a plan, for further sizes
//     and those of graphs (graph/saved_graph.h)
//   data <tab> bytes <tab> checksum of the data
//   end <tab> checksum of everything above <newline>
// and then the data of the constants, dense and row-major, each at a multiple of 64 bytes from its beginning.
//
// The graph is the simplified one, as the choices know it.  Of a plan with named axes it is the one that was compiled,
// which may be bound to other sizes; it is simplified again when it is read.
//
// Nothing in the file is trusted: sizes are checked against the file's, and ops are made and checked as any other.
#include <algorithm>
#include <cerrno>
#include <system_error>

#include "core/files.h"
#include "graph/choices.h"
#include "graph/compiler.h"
#include "graph/saved_graph.h"
#include "graph/sizes.h"

namespace pl {
namespace {

constexpr std::string_view kPlanMagic = "pylayout plan 2\n";

constexpr Key<std::string> kLayout{"layout"}, kWithout{"without"};
constexpr Key<bool> kSimplify{"simplify"};
constexpr Key<int64_t> kMemoryLimit{"memory_limit"}, kProgramMemory{"program_memory"};

// Those that the programs of further sizes follow, as the text that PlanOptions::parse takes.
std::string options_text(const PlanOptions& options) {
  Attributes text;
  text.set(kLayout, options.layout);
  text.set(kSimplify, options.simplify);
  std::string without;
  const auto leave_out = [&](const std::string& name) { without += (without.empty() ? "" : ",") + name; };
  for (const std::string& pass : options.without) leave_out(pass);
  if (!options.widen) leave_out("widen");
  if (!options.strided_views) leave_out("strided_views");
  if (!options.in_place) leave_out("in_place");
  if (!without.empty()) text.set(kWithout, without);
  if (options.memory_limit) text.set(kMemoryLimit, int64_t(options.memory_limit));
  if (options.program_memory) text.set(kProgramMemory, int64_t(*options.program_memory));
  return text.str();
}

}  // namespace

std::string Plan::environment() const {
  std::string text = home_->fingerprint();
  for (Device* device : {home_, &context_->host()})
    for (Provider* provider : context_->providers_of(*device))
      text += "|" + provider->name() + " " + provider->version();
  return text + "|threads=" + std::to_string(threads_);
}

void Plan::save(const std::string& path) const {
  std::string header(kPlanMagic);
  header += record("environment", environment());
  header += record("plan", home_->name(), threads_, int(options_.math));
  GraphWriter writer(*context_);
  const auto state = [&](size_t kept) { return copy_of_state(kept); };
  std::lock_guard<std::mutex> turn(taking_turns_);
  if (sizes_) {
    header += record("named", options_text(options_));
    for (const MadeAgain& again : again_) header += record("made_again", again.node, again.from);
    bool further = false;
    for (const auto& source : sizes_->sources()) {
      if (further) header += record("further");
      header += writer.write(*source, state);
      further = true;
    }
  } else {
    for (DType dtype : widened_) header += record("widened", name_of(dtype));
    header += writer.write(snapshot(), state);
  }
  header += chosen().records();
  header += record("data", writer.data().size(), hex(checksum(writer.data())));
  const bool written = write_file_atomically(path, sealed(std::move(header)) + writer.data());
  require(written, Code::io, "plan: could not be written to ", path, ": ", std::generic_category().message(errno));
}

std::shared_ptr<Plan> Plan::load(std::shared_ptr<Context> context, const std::string& path, bool replan,
                                 const PlanOptions& options) {
  std::optional<std::string> bytes = read_file(path);
  require(bytes.has_value(), Code::io, "plan file ", path,
          ": could not be read: ", std::generic_category().message(errno));
  const RecordReader reader(kPlanMagic, "plan file " + path, std::move(*bytes));
  const auto& lines = reader.lines();
  const std::string_view data = reader.rest();

  const std::shared_ptr<Plan> plan = make();
  plan->context_ = std::move(context);
  plan->options_ = options;
  PlanChoices choices;
  std::string environment, device;
  Math math = Math::fp32;
  bool named = false;
  std::vector<Graph> graphs;
  GraphReader graph(reader, data, *plan->context_);
  for (const auto& line : lines) {
    if (line[0] != "data") continue;
    reader.expect_fields(line, 3);
    if (reader.integer(line[1], 0, INT64_MAX, "the size of the data") != int64_t(data.size()) ||
        line[2] != hex(checksum(data)))
      reader.refuse("is damaged: its data are not whole");
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
      math = Math(reader.integer(line[3], 0, int64_t(Math::bf16), "math"));
    } else if (kind == "widened") {
      reader.expect_fields(line, 2);
      plan->widened_.push_back(parse_dtype(line[1]));
    } else if (kind == "named") {
      reader.expect_fields(line, 2);
      plan->options_ = PlanOptions::parse(Attributes::parse(line[1]));
      named = true;
    } else if (kind == "made_again" && named) {
      reader.expect_fields(line, 3);
      const int64_t node = reader.integer(line[1], 0, INT32_MAX - 1, "a node");
      plan->again_.push_back({size_t(node), size_t(reader.integer(line[2], node + 1, INT32_MAX, "a node"))});
    } else if (kind == "further" && named) {
      graphs.push_back(graph.finish());
    } else if (kind != "data" && !graph.take(line) && !choices.take(reader, line)) {
      reader.refuse("there is no record \"", kind, "\"");
    }
  }
  graphs.push_back(graph.finish());
  if (named && graphs[0].axes().empty()) reader.refuse("has no named axes, expected one at least");
  plan->options_.progress = nullptr;
  plan->options_.math = math;

  // Whether the choices still hold.
  std::string reason;
  const auto devices = plan->context_->devices();
  const bool known = std::any_of(devices.begin(), devices.end(), [&](const auto& d) { return d->name() == device; });
  plan->graph_ = graphs[0];  // which keeps its states, should it have to be compiled anew
  plan->take_states();
  if (!known) {
    reason = "its device " + device + " is not here";
  } else {
    plan->home_ = &plan->context_->device(device);
    plan->begin(named);
    if (plan->environment() != environment)
      reason = "it was made for \"" + environment + "\", this is \"" + plan->environment() + "\"";
  }
  if (reason.empty() && (options.device != "auto" && options.device != device))
    reason = "it was made for the device " + device + ", " + options.device + " is asked for";
  if (reason.empty() && options.threads && options.threads != plan->threads_)
    reason = "it was made for " + std::to_string(plan->threads_) + " threads, " + std::to_string(options.threads) +
             " are asked for";
  if (reason.empty() && options.math != Math::fp32 && options.math != math)
    reason = "it was made for other arithmetic than is asked for (math)";
  if (reason.empty() && named) {
    for (size_t i = 1; i < graphs.size(); ++i) plan->sizes_->add(graphs[i]);
    plan->options_.device = device;
    plan->options_.threads = plan->threads_;
    Compiler(*plan, plan->options_).simplify_graph();
    for (const MadeAgain& again : plan->again_)
      if (again.from >= plan->graph_.nodes().size())
        reader.refuse("makes again what node ", again.from, " needs, of ", plan->graph_.nodes().size(), " nodes");
    if (!plan->again_.empty()) plan->graph_ = made_again(plan->graph_, plan->again_).graph;
  }
  // Of named axes the choices are of the simplified graph.
  if (reason.empty() || !named)
    if (const std::string problem = choices.misfit(plan->graph_); !problem.empty()) reader.refuse(problem);
  if (reason.empty()) reason = plan->take(choices);
  if (reason.empty()) {
    plan->place_states();
    plan->release_constants();
    return plan;
  }
  require(replan, Code::unsupported, "plan file ", path, ": ", reason, "; expected to be compiled anew (replan)");
  const std::shared_ptr<Plan> made = compile(plan->context_, graphs[0], options);
  for (size_t i = 1; i < graphs.size(); ++i) made->extend(graphs[i]);
  return made;
}

}  // namespace pl

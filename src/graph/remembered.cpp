// Choices of compilations, kept on disk: the next process that compiles the same graph for the same device takes them
// and measures nothing.
//
// One small file for each graph, plans/HASH in the cache directory, the hash being of everything that choices depend
// on: the simplified graph (names and the values of constants left out), the device with its driver, the providers'
// versions, threads, and the options that bind choices.
//
//   pylayout choices 2 <newline>
//     spent   seconds that were given for measuring (0: no limit), whether that was enough, how many compilations in a
//             row were disturbed; or instead
//     marked  how many compilations in a row rest on costs that were measured beside other programs
//     live    whether the contest in live runs (graph/live.h) came to its end
//     contestant  name, ms: a program that was timed
//     again   node, from: what is made again in the backward pass (graph/recompute.h)
//     part, choice   as in a saved plan (graph/choices.h), of the graph with that
//   end <tab> checksum
//
// A compilation that ran out of time is continued by one that is given more; one on a machine so busy that the clock
// said nothing is made anew, though not for ever.  One whose costs were measured beside other programs serves, and is
// made anew when the machine is quiet, once as a rule.  A contest that the end of its process cut short goes on in the
// next one, from what it had found; a compilation that is to measure takes nothing of it.  A file that is damaged, or
// whose choices are not offered any more, is as good as none.
#include <algorithm>
#include <charconv>

#include "core/files.h"
#include "core/paths.h"
#include "graph/choices.h"
#include "graph/compiler.h"
#include "graph/marked_costs.h"

namespace pl {
namespace {

constexpr std::string_view kChoicesMagic = "pylayout choices 2\n";
constexpr int kMostDisturbed = 3;  // compilations, before the choices of the last are taken as they are
constexpr int kMostMarked = 3;     // the same of those that rest on marked costs

std::optional<double> number(const std::string& text) {
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string described(const TensorDesc& desc) {
  return concat(name_of(desc.dtype), ' ', joined(desc.shape.vector()), ' ', desc.layout.generic_str());
}

std::string described(const Graph& graph) {
  std::string text;
  for (const GraphInput& input : graph.inputs())
    text += record("input", input.value, described(graph.value(input.value).desc), int(input.pinned));
  const std::vector<int32_t> uses = graph.use_counts();
  for (size_t i = 0; i < graph.values().size(); ++i)
    if (graph.values()[i].constant && uses[i]) text += record("constant", i, described(graph.values()[i].desc));
  for (const Node& node : graph.nodes()) {
    const std::vector<int64_t> inputs(node.inputs.begin(), node.inputs.end());
    text += record(node.schema->name, node.attributes.str(), joined(inputs), node.outputs[0]);
  }
  for (const GraphOutput& output : graph.outputs())
    text += record("output", output.value, output.layout ? output.layout->generic_str() : "any");
  return text;
}

}  // namespace

std::string Plan::memory_path() const {
  const std::string directory = context_->choices_directory();
  if (directory.empty()) return {};
  if (!memory_path_.empty()) return memory_path_;
  const Math math = std::max<Math>(options_.math, context_->options().math);
  std::string text = record(environment(), home_->name(), options_.layout, int(math), options_.strided_views,
                            options_.in_place, options_.memory_limit, options_.slice, options_.streams);
  for (const auto& [node, slice] : options_.chains) text += record(node, slice);
  text += described(graph_);
  return directory + "/" + hex(checksum(text, 1)) + hex(checksum(text, 2));
}

void Plan::remember(bool enough, bool disturbed) const {
  std::string spent =
      record("spent", options_.seconds.value_or(kDefaultSeconds), int(enough), disturbed ? disturbed_before_ + 1 : 0);
  const BodyRef own = body();
  const bool marked = std::any_of(own->parts.begin(), own->parts.end(),
                                  [&](const auto& part) { return rests_on_marked(*part->program, context_->costs()); });
  if (marked) spent += record("marked", marked_before_ + 1);
  write_memory(spent);
}

void Plan::remember_live(bool settled) const { write_memory(record("live", int(settled))); }

void Plan::write_memory(const std::string& spent) const {
  const std::string path = memory_path();
  if (path.empty() || !make_directories(context_->choices_directory())) return;
  std::string text(kChoicesMagic);
  text += spent;
  for (const TimedProgram& timed : timed_programs()) text += record("contestant", timed.name, timed.ms);
  for (const MadeAgain& again : again_) text += record("again", again.node, again.from);
  write_file_atomically(path, sealed(text + chosen().records()));  // not written: measured again next time
}

Plan::Recalled Plan::recall(bool measured) {
  const std::string path = memory_path();
  std::optional<std::string> bytes = path.empty() ? std::nullopt : read_file(path);
  if (!bytes) return Recalled::nothing;
  PlanChoices choices;
  std::vector<TimedProgram> timed;
  std::vector<MadeAgain> again;
  std::optional<Graph> without;  // what is made again
  bool enough = false;
  const auto nothing = [&] {
    if (without) graph_ = std::move(*without);
    again_.clear();
    return Recalled::nothing;
  };
  try {
    const RecordReader reader(kChoicesMagic, path, std::move(*bytes));
    for (const auto& line : reader.lines()) {
      if (line[0] == "spent") {
        reader.expect_fields(line, 4);
        disturbed_before_ = int(reader.integer(line[3], 0, INT32_MAX - 1, "compilations"));
        const std::optional<double> spent = number(line[1]);
        const double seconds = options_.seconds.value_or(kDefaultSeconds);
        const bool as_long = spent && (*spent == 0 || (seconds > 0 && *spent >= seconds));
        enough = disturbed_before_ ? disturbed_before_ >= kMostDisturbed : as_long || line[2] == "1";
      } else if (line[0] == "marked") {
        reader.expect_fields(line, 2);
        marked_before_ = int(reader.integer(line[1], 0, INT32_MAX - 1, "compilations"));
      } else if (line[0] == "live") {
        reader.expect_fields(line, 2);
        enough = line[1] == "1" && !measured;
      } else if (line[0] == "contestant") {
        reader.expect_fields(line, 3);
        timed.push_back({line[1], number(line[2]).value_or(0)});
      } else if (line[0] == "again") {
        reader.expect_fields(line, 3);
        const auto count = int64_t(graph_.nodes().size());
        const int64_t node = reader.integer(line[1], 0, count - 1, "a node");
        again.push_back({size_t(node), size_t(reader.integer(line[2], node + 1, count - 1, "a node"))});
      } else if (!choices.take(reader, line)) {
        return Recalled::nothing;
      }
    }
    if (marked_before_ > 0 && marked_before_ < kMostMarked)
      enough = enough && context_->catalog().was_disturbed(*home_, threads_, Load::Clock::now());
    if (!again.empty()) {
      RecomputedGraph made = made_again(graph_, again);
      without = std::exchange(graph_, std::move(made.graph));
      memory_path_ = path;
      again_ = std::move(again);
    }
    if ((measured && !enough) || !choices.misfit(graph_).empty() || !take(choices).empty()) return nothing();
  } catch (const Error& problem) {  // damaged, or a kernel that cannot be made any more
    if (problem.code() == Code::out_of_memory) throw;
    return nothing();
  }
  timed_ = std::move(timed);
  recalled_ = true;
  return enough ? Recalled::settled : Recalled::unsettled;
}

}  // namespace pl

// Making a plan: measuring, assigning, and the contest of programs by the clock.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dispatch/builders.h"
#include "graph/chains.h"
#include "graph/plan.h"

namespace pl {

// How a batch is cut, with everything chosen for one slice of it; or a part of that, for some of the nodes.
struct Plan::Variant {
  int64_t slice = 0;  // images at a time; 0: the graph as it is
  int streams = 1;    // slices at the same time
  int threads = 1;    // of each
  size_t first = 0;   // of a part: the number that its first node has in the whole graph
  Graph graph;        // of one slice
  std::vector<NodeStates> nodes;
  Assignment assignment;
  std::unique_ptr<ConversionCosts> costs;
  std::unique_ptr<Program> program;
  std::vector<double> node_ms;         // that each node took within the program, for the whole batch; empty: not known
  std::vector<Maker> inputs, outputs;  // as in CutGraph
  std::vector<int> results;
};

class Plan::Compiler {
 public:
  Compiler(Plan& plan, const PlanOptions& options);
  void compile();

 private:
  // A program in the contest.
  struct Contender {
    std::string name;
    Assignment assignment;
    std::unique_ptr<Program> program;
    std::vector<double> totals;                // of whole runs, ms
    std::vector<std::vector<double>> samples;  // by step
    double ms() const;                         // the lower quartile of totals
  };

  // A whole plan in the last contest: one variant, or parts of several.
  struct Candidate {
    std::string name;
    std::vector<std::unique_ptr<Variant>> parts;
    std::unique_ptr<Chains> chains;
    std::vector<double> totals;  // ms
    size_t bytes() const;        // of memory beside weights
  };

  void report(const char* stage, double fraction) const;
  double elapsed() const;
  double remaining() const;  // seconds of the budget
  Device& choose_home() const;
  std::vector<std::unique_ptr<Variant>> variants();
  void keep_within_memory(std::vector<Candidate>& list) const;
  std::string name_of(const Variant& variant) const;
  // Everything for one way of cutting the batch.
  void prepare(Variant& variant, double seconds);
  void measure_ops(Variant& variant, double seconds);
  // Has the kernels of an assignment's ops built on other threads meanwhile.
  void build_ahead(const Variant& variant, const Assignment& assignment);
  Assignment settle(Variant& variant, const std::vector<NodeStates>& nodes, bool measure);
  void contest(Variant& variant, double seconds);
  void add_contender(Variant& variant, std::vector<Contender>& list, const std::string& name, Assignment assignment);
  void run_rounds(Variant& variant, std::vector<Contender>& list, int rounds, double until);
  void learn(Variant& variant, const std::vector<Contender>& list);
  void note_times(Variant& variant, const Contender& winner) const;
  double run_once(Variant& variant, Program& program, std::vector<double>* step_ms);
  // Memory for the whole batch, for an input or output that this describes for a slice.
  void provide(std::vector<External>& list, size_t index, const TensorDesc& desc, int64_t slices, bool fill);
  // Chains: graph/compose.cpp.
  std::vector<Segment> given_segments(const std::vector<std::unique_ptr<Variant>>& list) const;
  std::vector<Segment> best_segments(const std::vector<std::unique_ptr<Variant>>& list) const;
  std::optional<Candidate> composed(const std::vector<std::unique_ptr<Variant>>& list,
                                    const std::vector<Segment>& segments);
  double run_candidate(Candidate& candidate);

  Plan& plan_;
  const PlanOptions& options_;
  Context& context_;
  PackedConstants constants_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::vector<BufferRef> data_;  // inputs and outputs for timing, of the whole batch
  std::vector<External> inputs_, outputs_;
  std::unique_ptr<Builders> builders_;  // of devices whose kernels are compiled as they are met
  // Times of a way within programs.
  struct Seen {
    double sum = 0;
    int count = 0;
  };
};

}  // namespace pl

// Making a plan: measuring, assigning, and the contest of programs by the clock.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/plan.h"

namespace pl {

// How a batch is cut, with everything chosen for one slice of it.
struct Plan::Variant {
  int64_t slice = 0;  // images at a time; 0: the graph as it is
  int streams = 1;    // slices at the same time
  int threads = 1;    // of each
  Graph graph;        // of one slice
  std::vector<NodeStates> nodes;
  Assignment assignment;
  std::unique_ptr<ConversionCosts> costs;
  std::unique_ptr<Program> program;
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

  void report(const char* stage, double fraction) const;
  double elapsed() const;
  double remaining() const;  // seconds of the budget
  Device& choose_home() const;
  std::vector<std::unique_ptr<Variant>> variants();
  void keep_within_memory(std::vector<std::unique_ptr<Variant>>& list) const;
  std::string name_of(const Variant& variant) const;
  int64_t slices_of(const Variant& variant) const;
  // Everything for one way of cutting the batch.
  void prepare(Variant& variant, double seconds);
  void measure_ops(Variant& variant, double seconds);
  Assignment settle(Variant& variant, const std::vector<NodeStates>& nodes, bool measure);
  void contest(Variant& variant, double seconds);
  void add_contender(Variant& variant, std::vector<Contender>& list, const std::string& name, Assignment assignment);
  void run_rounds(Variant& variant, std::vector<Contender>& list, int rounds, double until);
  void learn(Variant& variant, const std::vector<Contender>& list);
  double run_once(Variant& variant, Program& program, std::vector<double>* step_ms);
  void provide_data(const Program& program, int64_t slices);

  Plan& plan_;
  const PlanOptions& options_;
  Context& context_;
  PackedConstants constants_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::vector<BufferRef> data_;  // inputs and outputs for timing, of the whole batch
  std::vector<External> inputs_, outputs_;
  // Times of a way within programs.
  struct Seen {
    double sum = 0;
    int count = 0;
  };
};

// Runs a program that does one of `slices` parts of a batch, for all of them, `streams` at the same time.  The bytes
// are those of one part of each input and output.
void run_slices(Program& program, int64_t slices, int streams, const std::vector<External>& inputs,
                const std::vector<External>& outputs, const std::vector<size_t>& input_bytes,
                const std::vector<size_t>& output_bytes, std::vector<double>* step_ms);

}  // namespace pl

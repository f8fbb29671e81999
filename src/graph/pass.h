// Passes: rewrites of a graph that leave its results equal within stated bounds.
//
// A pass looks for one pattern, at its last op (the root), and turns the root into what replaces the pattern; what is
// no longer needed is removed by Graph::tidy().  Passes are run in the order of `standard_passes()`, the whole list
// again until nothing changes.  To add one: write graph/passes/<name>.cpp, declare it in passes/passes.h, and put it
// at its place in the list (order matters, so the list is written by hand); test it alone in tests/c/test_passes.cpp.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace pl {

class Context;
class Device;
class PackedConstants;

struct Pass {
  const char* name;  // "fuse_bias"
  const char* doc;   // what becomes what, and the bound on the change of results
  // Rewrites what it finds and returns how often; may leave redirections and insertions for tidy().
  std::function<int(Graph& graph, Context& context)> run;
};

const std::vector<Pass>& standard_passes();
// Those that come before all others on a device: of quantised tensors, before their constants are folded into floats,
// and what makes parts of an op that the device has no kernel for, which later ones fuse.
std::vector<Pass> first_passes(Device* device);  // null: for their names alone
// Those that a program goes through before gradients are taken of it: what is one op there has one gradient, which
// keeps and computes less than those of its parts, and no values of parameters are needed.
const std::vector<Pass>& training_passes();
// Further ones for a device, after the standard ones, by what its kernels read and lack; most for a GPU, where every op
// costs a launch.  Null: all of them, for their names alone.  `constants`: of the plan that the graph is for.
std::vector<Pass> device_passes(Device* device, PackedConstants* constants = nullptr);
// After all others: what they recognise is gone then.  Null: for their names alone.
std::vector<Pass> last_passes(Device* device);

struct PassReport {
  std::string name;
  int rewrites = 0;
};
// Runs the standard passes until none finds anything, tidying after each.  `without`: names of passes to leave out.
std::vector<PassReport> simplify(Graph& graph, Context& context, const std::vector<std::string>& without = {});
// The same with the passes of a list.
std::vector<PassReport> run_passes(const std::vector<Pass>& list, Graph& graph, Context& context,
                                   const std::vector<std::string>& without);
// One op for elementwise ops that follow each other; equal ops are done once.
void join_elements(Graph& graph, Context& context);
// Throws Error(invalid_argument) if there is none of this name in either list.
void check_pass(const std::string& name, const char* asked_by);

}  // namespace pl

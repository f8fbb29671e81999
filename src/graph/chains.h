// Chains: consecutive parts of a graph, each run for a whole batch before the next begins, in slices of its own size.
//
// The early layers of a network make large activations with small weights, the late ones small activations with large
// weights.  Slices of an image or two keep the activations of the former in the caches, slices of many images read the
// weights of the latter fewer times.  What one chain hands to another is kept for the whole batch.
//
// Images left over after the last round of equal slices are run by a program of their own, after the others.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/program.h"

namespace pl {

// Who makes a value, the same in a graph for any size of the batch: a node and which of its results; -1 and which input
// of the graph.
using Maker = std::pair<int, int>;

// Nodes [first, end) of a graph as a graph of their own.
struct CutGraph {
  Graph graph;
  std::vector<Maker> inputs;   // in the whole graph, of each input of `graph`
  std::vector<Maker> outputs;  // the same, of each output
  std::vector<int> results;    // which output of the whole graph each output is; -1: a value that later nodes use
};

// `layouts`: of the values made by nodes before `first`.  Values that later nodes use, and outputs of no declared
// layout, are given in whatever layout suits, or in that of `layouts`.
CutGraph cut_out(const Graph& graph, size_t first, size_t end, const std::map<Maker, Layout>& layouts);

// Of any value; of constants {-1, -1}.
Maker maker_of(const Graph& graph, ValueId value);

// By place p between nodes p - 1 and p: the values made by nodes before it and used by nodes behind it, where they are
// one to `most` and all depend on the graph's inputs; elsewhere nothing.
std::vector<std::vector<Maker>> values_across(const Graph& graph, size_t most);

// Nodes [first, end), run by one of several variants.
struct Chain {
  size_t variant = 0, first = 0, end = 0;
};

// Who runs which nodes so that all takes least: node_ms[v][n] is what variant v needs for node n, change_ms(from, to,
// p) what it costs to go on with another variant at node p.  `ms`: the least.
std::vector<Chain> cheapest_chains(const std::vector<std::vector<double>>& node_ms,
                                   const std::function<double(size_t from, size_t to, size_t place)>& change_ms,
                                   double& ms);

// Runs a program that does one of `slices` parts of a batch, for all of them, `streams` at the same time.  The bytes
// are those of one part of each input and output.
void run_slices(Program& program, int64_t slices, int streams, const std::vector<External>& inputs,
                const std::vector<External>& outputs, const std::vector<size_t>& input_bytes,
                const std::vector<size_t>& output_bytes, std::vector<double>* step_ms);

// Programs run one after another on a batch.  Any number of runs may go on at once.
class Chains {
 public:
  explicit Chains(Device& home) : home_(home) {}
  // How much of a batch a program does: `slices` times `images`, from image `from` on, `streams` slices at a time.
  struct Share {
    int64_t images = 0, slices = 1;
    int streams = 1;
    int64_t from = 0;
  };

  // Appends a chain, or the rest of one.  The program must outlive this; its inputs are inputs of the whole or made by
  // chains before.
  void add(Program& program, const Share& share, std::vector<Maker> inputs, std::vector<Maker> outputs,
           std::vector<int> results);
  // Places what lies between the chains; call once, after the last add().
  void finish();

  // `times` as of Program::run, where all is one program's (count() is 1): of a run in slices step_ms are those of one
  // slice of the first stream, nobody is asked, and no device's clock is read.
  bool run(const std::vector<External>& inputs, const std::vector<External>& outputs, const RunTimes& times = {});
  size_t count() const { return chains_.size(); }
  size_t bytes_between() const { return between_.bytes; }
  size_t least_between() const { return between_.lower_bound; }

 private:
  struct Chain {
    Program* program = nullptr;
    Share share;
    std::vector<Maker> inputs, outputs;
    std::vector<int> results;
    std::vector<size_t> input_bytes, output_bytes;  // of one slice
    // Where image share.from lies in what of each is there for the whole batch.
    size_t offset(size_t slice_bytes) const {
      return share.from ? slice_bytes / size_t(share.images) * size_t(share.from) : 0;
    }
    size_t end(size_t slice_bytes) const { return offset(slice_bytes) + slice_bytes * size_t(share.slices); }
  };
  struct Memory {
    size_t bytes = 0, lower_bound = 0;
  };

  Device& home_;
  std::vector<Chain> chains_;
  std::map<Maker, size_t> places_;  // offsets in the memory between
  Memory between_;
  std::mutex lock_;
  std::vector<BufferRef> free_;  // memory between that no run uses
};

}  // namespace pl

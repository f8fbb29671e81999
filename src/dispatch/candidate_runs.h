// CandidateRuns: every candidate of one call, to be run one by one on the same data, whichever would be chosen.
//
// For checks.  Inputs are put where a candidate wants them element by element, not by reorders, which are checked
// themselves.  What a candidate must write is poisoned before, as are its workspace and the bytes around every tensor;
// after its run the results are read element by element, and what it must not have done is found: see Run::damage.
#pragma once

#include <string>
#include <vector>

#include "core/tensor.h"
#include "dispatch/catalog.h"
#include "dispatch/context.h"

namespace pl {

struct CandidateOptions {
  // Whether the first input, the only output is a strided view: the part of a larger tensor with more channels
  // (dimension 1) in strided_layout.
  bool input_strided = false, output_strided = false;
  Layout strided_layout;
  // Also the points of tuning spaces that only a search tries.
  bool every_point = false;
  // On devices of the host's memory tensors lie an element behind a multiple of any alignment, as a caller's may.
  bool shifted = false;

  // input_strided=true strided_layout="NHWC"; throws Error(invalid_argument | layout).
  static CandidateOptions parse(const Attributes& attributes);
};

class CandidateRuns {
 public:
  // Throws what an op call would for wrong arguments; Error(unsupported) for strided views of an op that has none.
  CandidateRuns(Context& context, const Schema& schema, const CallAttributes& call,
                const std::vector<TensorRef>& inputs, const CandidateOptions& options);

  size_t size() const { return entry_->ways.size(); }
  // {"op", "device", "math", "candidates": [{"key", "provider", "implementation", "inputs", "outputs"}], "refusals"}.
  std::string json() const;

  struct Run {
    std::vector<TensorRef> outputs;   // plain, on `cpu`
    std::vector<std::string> damage;  // "output 0: wrote byte 12 behind its end"; empty: none
    bool prepared = false;            // false: there is no kernel; `damage` says why, and there are no outputs
    double ms = 0;                    // of the run alone
  };
  // Runs one candidate, by its place in the list.  What it throws while it runs is damage, too.
  Run run(size_t index);

 private:
  // A tensor in memory of its own, with poison around it.
  struct Placed {
    size_t input = 0;
    TensorDesc desc;
    BufferRef whole, buffer;  // buffer: what the kernel gets
    size_t first = 0;         // bytes before it
    std::vector<char> bytes;  // the whole as it was written
  };
  Placed reserve(const TensorDesc& desc, bool strided, int64_t channels_before, bool values) const;
  const Placed& placed_input(size_t input, const TensorDesc& desc);
  void write(Placed& placed) const;
  std::vector<char> read_back(const Placed& placed) const;
  bool is_strided_output(const TensorDesc& desc) const { return options_.output_strided && !desc.is_dense(); }
  void compute(const Candidate& candidate, std::vector<Buffer*>& in, const KernelArguments& arguments, Run& run) const;
  void take_output(size_t i, const Placed& result, Run& run) const;
  void check_input(size_t i, const TensorDesc& desc, Run& run);
  void check_workspace(const Placed& workspace, size_t size, Run& run) const;

  Context& context_;
  Device* device_ = nullptr;
  CandidateOptions options_;
  EntryRef entry_;
  std::vector<TensorRef> values_;  // the inputs, plain, on `cpu`
  std::vector<Placed> inputs_;     // by input and description, as they come
};

}  // namespace pl

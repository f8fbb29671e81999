// Provider: who runs ops on a device.  Dispatch and graph know this file, never a provider.
//
// A provider lists, for an op and a device, its candidates: each one way to run the op, with the layouts it
// takes and gives.  Where it has none it says so in words, and the words reach the user through query and
// explain.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/device.h"
#include "ops/op.h"

namespace pl {

// What a kernel works on.  Tensors are as the candidate described them: dense, or strided views of larger ones where
// that was asked for (Provider::takes_strided_views), at the offset in their TensorDesc.  Absent optional inputs are
// null.
struct KernelArguments {
  Buffer* const* inputs = nullptr;
  Buffer* const* outputs = nullptr;
  Buffer* workspace = nullptr;  // Candidate::workspace_bytes, null if that is zero
  // The caller has work of its own to go on with, so that handing the kernel over to a driver may be left to another
  // thread: eager calls, and plans that are told so (PlanOptions::submit_later).
  bool later = false;

  // The same call of another kernel that takes a part in it.
  KernelArguments with(Buffer* const* other_inputs, Buffer* const* other_outputs, Buffer* other_workspace) const {
    return {other_inputs, other_outputs, other_workspace, later};
  }
  KernelArguments with(Buffer* const* other_inputs, Buffer* const* other_outputs) const {
    return with(other_inputs, other_outputs, workspace);
  }
};

// A prepared op: runs any number of times, from any number of threads at once.
class Kernel {
 public:
  virtual ~Kernel() = default;
  // Starts the work on the candidate's device.  Every element of the outputs is written, padding as zero.
  virtual void run(const KernelArguments& arguments) = 0;
};

// A constant in a form that no layout describes: weights in the domain of a transform, a table made of them.  The
// kernel gets the packed bytes in place of the input.
struct Packing {
  int input = 0;     // of the op, with Role::constant
  std::string form;  // what the bytes are: "winograd_f4:avx512".  Packings of one provider with the same form are the
                     // same function of the input, so that candidates share what one of them packed
  size_t bytes = 0;  // of the packed form, the same for every value of the input
  // Packs `source`, which holds the input as Candidate::inputs states it; both lie on the candidate's device.  Starts
  // the work as Kernel::run does; called once for each storage version of the constant, from any thread.
  std::function<void(Buffer& source, Buffer& packed)> pack;
  // A kernel that does the same, of one input and one output, for what changes in every run; empty: there is none.
  std::function<std::unique_ptr<Kernel>()> prepare{};
};

// For Packing::pack: by a kernel of one input and one output, which is made when it is first wanted and kept, since
// eager training packs a weight anew in every step.  Thread-safe.
std::function<void(Buffer&, Buffer&)> packed_by(std::function<std::unique_ptr<Kernel>()> make);

// Where a candidate lies in the tuning space of its kernel family: a provider starts from some points of it, and the
// tuner (dispatch/tuner.h) looks for better ones.
struct TuningPoint {
  std::string family;  // "conv_fwd_tiled"; empty: the candidate has nothing to tune
  std::string shapes;  // the class of shapes that share tuned values: "f32 window rows=2^12 columns=2^6 terms=2^9"
  std::string values;  // of the tunables: "VECTOR=16 TILE_VECTORS=2"
  bool start = true;   // false: a point that only the tuner tries; used elsewhere once its time is known
};

struct Candidate {
  Candidate();
  ~Candidate();
  Candidate(const Candidate& other);
  Candidate(Candidate&& other) noexcept;
  Candidate& operator=(const Candidate& other);
  Candidate& operator=(Candidate&& other) noexcept;

  std::string provider;             // "onednn"
  std::string implementation;       // "brgconv:avx512_core", "conv_fwd_tiled[TILE_H=4]": unique with the layouts
  std::vector<TensorDesc> inputs;   // the layouts this candidate wants (absent inputs stay absent)
  std::vector<TensorDesc> outputs;  // the layouts it gives
  std::vector<Packing> packings;    // of constant inputs, at most one each; most candidates have none
  size_t workspace_bytes = 0;
  // Inputs, bit i for input i, in whose memory an output may be written, if the two are described alike: each element
  // is read before it is written.  Where there are several outputs, each in another input's.
  uint32_t in_place = 0;
  bool together = false;  // its kernel may run with others (providers/together.h)
  bool absorbs = false;   // its kernel may do the work of those before and behind it (Absorbs)
  // Where it may stand beside one of these that does its work.
  enum class Absorbed { never, before, behind } absorbed = Absorbed::never;
  bool ends_later = false;  // its last launch may run with those of others (EndsLater)
  bool reference = false;   // slow by design: admitted only when nothing else exists
  // A provider's own estimate relative to the device's rates: 1 means the roofline is reached, more that
  // caches serve it.  Used only until the candidate is measured.
  double efficiency = 0.5;
  // Arithmetic operations where it does other ones than the op's definition has (Winograd); 0: the op's.
  double flops = 0;
  double start_ms = 0;    // what a call takes beside the device's overhead
  double more_bytes = 0;  // what a call reads and writes beside its tensors: weights that it packs for itself
  // The same in milliseconds without what starting it takes, where a provider knows the device's units by their times;
  // 0: efficiency tells.
  double busy_ms = 0;
  TuningPoint tuning;
  std::function<std::unique_ptr<Kernel>()> prepare;

  // How this input is packed; null if it is handed over as `inputs` states it.
  const Packing* packing_of(int input) const;
  // Identifies the candidate among those of one op: provider/implementation/layouts.  Stable across processes.
  std::string key() const;
  // The same without strides: what candidates for other sizes have in common with it.
  std::string dense_key() const;
};

// The one candidate that is asked for, by its dense_key().
class Wanted {
 public:
  explicit Wanted(std::string key);
  const std::string& key() const { return key_; }
  const std::string& provider() const { return provider_; }
  const std::string& implementation() const { return implementation_; }
  // Whether it takes or gives a tensor in the layout of this description.
  bool takes(size_t input, const TensorDesc& desc) const;
  bool gives(size_t output, const TensorDesc& desc) const;

 private:
  std::string key_, provider_, implementation_;
  std::vector<std::string> inputs_, outputs_;  // layouts
};

// Packs the inputs that the candidate wants packed, anew: replaces them in `inputs`, and returns the buffers that now
// stand there.  For measurements and tests; programs keep packed constants with their tensors (Runner::packed).
std::vector<BufferRef> pack_inputs(Device& device, const Candidate& candidate, std::vector<Buffer*>& inputs);

struct Refusal {
  std::string provider;
  std::string reason;  // "conv: dilation in 1-D blocked layouts is not supported by oneDNN 3.2"
};

class CandidateList {
 public:
  CandidateList();
  ~CandidateList();
  CandidateList(CandidateList&& other) noexcept;
  CandidateList& operator=(CandidateList&& other) noexcept;

  void add(Candidate candidate);
  void refuse(std::string provider, std::string reason);
  std::vector<Candidate> candidates;
  std::vector<Refusal> refusals;
  // Asked for by the tuner: every point of the tuning spaces that the device can run, not only those to start from.
  bool whole_space = false;
  // If there is one, all others are dropped: a provider need not describe what takes time.
  std::optional<Wanted> wanted;
};

class Provider {
 public:
  virtual ~Provider() = default;
  virtual std::string name() const = 0;
  virtual std::string version() const = 0;  // part of the cost key; "3.2.0"
  virtual bool serves(const Device& device) const = 0;
  // Adds candidates or refusals.  May throw only for defects; "cannot" is a refusal.
  virtual void list(const Op& op, Device& device, CandidateList& out) = 0;
  // True if, for an op like this, it also lists candidates whose tensors are the strided views that the op's
  // descriptions state: parts of larger tensors, with their strides.  Others are not asked about such ops.
  virtual bool takes_strided_views(const Op& op) const {
    (void)op;
    return false;
  }
  // True if its candidates handle tensors with no elements; others are not asked about such ops.
  virtual bool handles_empty() const { return false; }
  // True if its kernels on `cpu` use the number of threads that core/threads.h sets; false if they bring their own.
  virtual bool follows_threads() const { return true; }
  // True if preparing a kernel compiles it, which takes longer than measuring many that need not be.
  virtual bool compiles() const { return false; }
  // Whether products of a half-precision dtype run by the device's instructions for it.  Where no provider's do, they
  // are converted to f32 and back, and take longer than those of f32.
  virtual bool multiplies(const Device& device, DType dtype) const {
    (void)device, (void)dtype;
    return false;
  }
  // Devices this provider brings (OpenCL's); `cpu` is the context's own.
  virtual std::vector<std::shared_ptr<Device>> devices() { return {}; }
  // A device over a host framework's own context and queue (OpenCL: cl_context and in-order cl_command_queue, both
  // retained); the same queue gives the same device again.  Null: this provider has no use for such.
  virtual std::shared_ptr<Device> lend(void* context, void* queue) {
    (void)context, (void)queue;
    return nullptr;
  }
  // Sentences for `pylayout devices`: what is loaded, what is missing and how to add it.
  virtual std::vector<std::string> notes() const { return {}; }
};

// Registration: a provider's factory, called once for each context.  Order of registration does not matter.
using ProviderFactory = std::function<std::unique_ptr<Provider>()>;
void register_provider(std::string name, ProviderFactory factory);
std::vector<std::string> provider_names();  // sorted
// In the order of their names, but for those in `without`.
std::vector<std::unique_ptr<Provider>> make_providers(const std::set<std::string>& without = {});

struct ProviderRegistration {
  ProviderRegistration(const char* name, ProviderFactory factory) { register_provider(name, std::move(factory)); }
};

// From names to functions of any type.
class FunctionTable {
 public:
  using Any = void (*)();
  bool add(const char* name, Any function);  // false: there is one of that name already, which stays
  Any find(const std::string& name) const;   // null: there is none

 private:
  std::map<std::string, Any> entries_;
};

// A provider's table from op kind to the function that lists candidates; the entries register themselves, one
// file each: providers/<provider>/<kind>.cpp.  `Tag` is the provider's class, so that tables do not mix.
template <class Tag, class List>
class OpTable {
 public:
  static OpTable& instance() {
    static OpTable table;
    return table;
  }
  bool add(const char* kind, List list) { return entries_.add(kind, reinterpret_cast<FunctionTable::Any>(list)); }
  // Null: there is none.
  List find(const std::string& kind) const { return reinterpret_cast<List>(entries_.find(kind)); }

 private:
  FunctionTable entries_;
};

// Layouts worth asking a provider about for an activation of this shape: plain, channels last, blocked by 16
// and by 8, and those that the given inputs have now; no duplicates.  Blocked ones only where the channel count
// makes sense (at least half a block).
std::vector<Layout> layouts_to_try(const Op& op, const TensorDesc& activation);

}  // namespace pl

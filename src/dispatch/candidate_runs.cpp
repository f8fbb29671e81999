#include "dispatch/candidate_runs.h"

#include <algorithm>
#include <cstring>

#include "core/clock.h"
#include "core/json.h"
#include "core/threads.h"
#include "dispatch/runner.h"

namespace pl {
namespace {

// Bytes behind every tensor that must stay as they are; also before it where memory has addresses.  A page, so that
// what follows it is aligned as pooled memory is.
constexpr size_t kGuard = 4096;
constexpr size_t kWorkspaceGuard = 1 << 20;  // oneDNN fills scratchpads with gaps
// Before inputs are written and outputs are computed: NaN as f32, f16 and bf16, -1 as an integer.
constexpr char kPoison = char(0xff);

// Where each element lies: an offset is a sum over the dimensions, with blocks too.
std::vector<std::vector<int64_t>> offset_tables(const TensorDesc& desc) {
  std::vector<std::vector<int64_t>> tables;
  Dims index = Dims::filled(desc.rank(), 0);
  for (int d = 0; d < desc.rank(); ++d) {
    std::vector<int64_t> table;
    for (int64_t i = 0; i < desc.shape[d]; ++i) {
      index[d] = i;
      table.push_back(desc.offset_of(index) - desc.offset);
    }
    index[d] = 0;
    tables.push_back(std::move(table));
  }
  return tables;
}

// Calls visit(offset in elements, number of the element in row-major order) for every element.
template <class Visit>
void for_elements(const TensorDesc& desc, const Visit& visit) {
  if (desc.elements() == 0) return;
  const auto tables = offset_tables(desc);
  const int last = desc.rank() - 1;
  Dims index = Dims::filled(desc.rank(), 0);
  for (int64_t number = 0;;) {
    int64_t base = desc.offset;
    for (int d = 0; d < last; ++d) base += tables[size_t(d)][size_t(index[d])];
    if (last < 0) {
      visit(base, number);
      return;
    }
    for (const int64_t offset : tables[size_t(last)]) visit(base + offset, number++);
    int d = last - 1;
    for (; d >= 0 && ++index[d] == desc.shape[d]; --d) index[d] = 0;
    if (d < 0) return;
  }
}

template <class Element>
void scatter(const TensorDesc& desc, const void* plain, void* storage) {
  const Element* from = static_cast<const Element*>(plain);
  Element* to = static_cast<Element*>(storage);
  for_elements(desc, [&](int64_t offset, int64_t number) { to[offset] = from[number]; });
}
template <class Element>
void gather(const TensorDesc& desc, const void* storage, void* plain) {
  const Element* from = static_cast<const Element*>(storage);
  Element* to = static_cast<Element*>(plain);
  for_elements(desc, [&](int64_t offset, int64_t number) { to[number] = from[offset]; });
}
// Calls one of them for elements of that size.
template <class Function>
void by_size(DType dtype, const Function& function) {
  switch (size_of(dtype)) {
    case 1: return function(uint8_t());
    case 2: return function(uint16_t());
    case 4: return function(uint32_t());
    default: return function(uint64_t());
  }
}

// The strided view of `desc` in a tensor with more channels; its offset is left to the buffer.
TensorDesc strided_view_of(const TensorDesc& desc, const Layout& family, int64_t before, int64_t after) {
  require(desc.rank() >= 2, Code::unsupported, "strided views are of tensors with channels, not of ", desc.str());
  const Layout layout = family.for_rank(desc.rank());
  require(desc.shape[1] % layout.block_of(1) == 0, Code::unsupported, "strided views in ", layout,
          " are of whole blocks, not of ", desc.shape[1], " channels");
  Dims sizes = desc.shape;
  sizes[1] += before + after;
  TensorDesc view = TensorDesc::dense(desc.dtype, sizes, layout);
  view.shape = desc.shape;
  return view;
}

// Channels of the larger tensor beside a strided view: whole blocks, or some that leave a strided view unaligned.
int64_t beside(const Layout& layout) { return layout.is_blocked() ? layout.block(0).size : 5; }

}  // namespace

CandidateOptions CandidateOptions::parse(const Attributes& attributes) {
  CandidateOptions options;
  for (const auto& [name, value] : attributes) {
    const std::string key(name.text());
    const bool* flag = std::get_if<bool>(&value);
    const std::string* text = std::get_if<std::string>(&value);
    if (key == "strided_layout") {
      require(text != nullptr, Code::invalid_argument, "candidates: strided_layout is ", to_text(value),
              ", expected a layout as text");
      options.strided_layout = Layout::parse(*text);
      continue;
    }
    bool* option = key == "input_strided"    ? &options.input_strided
                   : key == "output_strided" ? &options.output_strided
                   : key == "every_point"    ? &options.every_point
                   : key == "shifted"        ? &options.shifted
                                             : nullptr;
    require(option != nullptr, Code::invalid_argument, "candidates: there is no option \"", key,
            "\"; expected input_strided, output_strided, strided_layout, every_point or shifted");
    require(flag != nullptr, Code::invalid_argument, "candidates: ", key, " is ", to_text(value),
            ", expected true or false");
    *option = *flag;
  }
  require(options.strided_layout.rank() > 0 || !(options.input_strided || options.output_strided),
          Code::invalid_argument, "candidates: strided_layout is not given, expected the layout of the strided views");
  return options;
}

CandidateRuns::CandidateRuns(Context& context, const Schema& schema, const CallAttributes& call,
                             const std::vector<TensorRef>& inputs, const CandidateOptions& options)
    : context_(context), options_(options) {
  std::vector<TensorDesc> descs;
  for (const TensorRef& input : inputs) descs.push_back(input ? input->desc() : TensorDesc());
  const auto first = std::find_if(inputs.begin(), inputs.end(), [](const TensorRef& input) { return bool(input); });
  device_ = !call.policy.device.empty() ? &context.device(call.policy.device)
            : first != inputs.end()     ? &(*first)->device()
                                        : &context.host();
  Op op = make_op(schema, call.attributes, descs);
  Device& cpu = context.host();
  for (const TensorRef& input : inputs)
    values_.push_back(input ? context.runner().convert(input, cpu,
                                                       TensorDesc::dense(input->desc().dtype, input->desc().shape),
                                                       "activation", schema.name, false)
                            : nullptr);
  if (options.input_strided || options.output_strided) {
    require(device_->traits().host_addressable, Code::unsupported, schema.name, ": strided views on ", device_->name(),
            ", expected a device whose memory has addresses");
    require(!op.inputs.empty() && op.in(0).present && op.outputs.size() == 1, Code::unsupported, schema.name,
            ": strided views, expected an op with a first input and one output");
    const int64_t aside = beside(options.strided_layout);
    if (options.input_strided) op.inputs[0] = strided_view_of(op.in(0), options.strided_layout, aside, 2 * aside);
    if (options.output_strided) op.outputs[0] = strided_view_of(op.out(), options.strided_layout, 2 * aside, aside);
  }
  // A view computes nothing.
  if (schema.view) {
    entry_ = std::make_shared<Entry>();
    entry_->op = op;
    entry_->device = device_;
  } else {
    entry_ = context.catalog().unlisted(op, *device_, options.every_point);
  }
}

std::string CandidateRuns::json() const {
  Json json;
  const Schema& schema = *entry_->op.schema;
  json.object().field("op", schema.name).field("description", entry_->op.str()).field("device", device_->name());
  json.field("math", entry_->op.math == Math::fp32 || !schema.products ? "fp32" : "tf32");
  json.field("view", bool(schema.view));
  json.key("candidates").list();
  for (const Way& way : entry_->ways) {
    const Candidate& candidate = way.candidate;
    std::vector<std::string> inputs, outputs;
    for (size_t i = 0; i < candidate.inputs.size(); ++i) {
      const TensorDesc& desc = candidate.inputs[i];
      inputs.push_back(desc.present ? desc.layout.str(schema.is_weights(int(i))) : "-");
    }
    for (const Packing& packing : candidate.packings) inputs[size_t(packing.input)] = packing.form;
    for (const TensorDesc& desc : candidate.outputs) outputs.push_back(desc.layout.str());
    json.object()
        .field("key", way.key)
        .field("provider", candidate.provider)
        .field("implementation", candidate.implementation)
        .field("inputs", inputs)
        .field("outputs", outputs)
        .end();
  }
  json.end().key("refusals").list();
  for (const Refusal& refusal : context_.catalog().refusals(*entry_))
    json.object().field("provider", refusal.provider).field("reason", refusal.reason).end();
  json.end().end();
  return json.str();
}

// Memory for a tensor with poison around it.  A strided view has that many channels before it; all around it belongs to
// the larger tensor and must stay.
CandidateRuns::Placed CandidateRuns::reserve(const TensorDesc& desc, bool strided, int64_t channels_before,
                                             bool values) const {
  Placed placed;
  placed.desc = desc;
  const size_t shift = options_.shifted ? size_of(desc.dtype) : 0;
  const size_t guard = device_->traits().host_addressable ? kGuard + shift : 0;
  size_t bytes = desc.size_bytes(), before = guard;
  if (strided) {
    // The strided view begins at that channel of the first image, and the larger tensor ends after the last one.
    TensorDesc whole = desc;
    whole.shape[1] += 3 * beside(options_.strided_layout);
    Dims start = Dims::filled(desc.rank(), 0);
    start[1] = channels_before;
    before += size_t(whole.offset_of(start)) * size_of(desc.dtype);
    bytes = std::max(bytes, whole.size_bytes() - (before - guard));
  }
  placed.first = before;
  placed.bytes.assign(before + bytes + kGuard, kPoison);
  if (values && desc.has_padding()) std::memset(placed.bytes.data() + before, 0, desc.size_bytes());
  placed.whole = device_->allocate(placed.bytes.size());
  placed.buffer = before ? device_->part(placed.whole, before, bytes + kGuard) : placed.whole;
  return placed;
}

void CandidateRuns::write(Placed& placed) const {
  device_->write(*placed.whole, 0, placed.bytes.data(), placed.bytes.size());
}

std::vector<char> CandidateRuns::read_back(const Placed& placed) const {
  std::vector<char> bytes(placed.bytes.size());
  device_->read(*placed.whole, 0, bytes.data(), bytes.size());
  return bytes;
}

const CandidateRuns::Placed& CandidateRuns::placed_input(size_t input, const TensorDesc& desc) {
  for (const Placed& known : inputs_)
    if (known.input == input && known.desc == desc) return known;
  const bool strided = options_.input_strided && input == 0 && !desc.is_dense();
  Placed placed = reserve(desc, strided, beside(options_.strided_layout), true);
  placed.input = input;
  // A candidate may want another dtype, f32 for the statistics of a bf16 tensor; such a conversion is exact.
  Device& cpu = context_.host();
  const TensorDesc plain = TensorDesc::dense(desc.dtype, desc.shape);
  const TensorRef given = context_.runner().convert(values_[input], cpu, plain, "activation", "candidates", false);
  const void* values = given->buffer()->host();
  by_size(desc.dtype,
          [&](auto element) { scatter<decltype(element)>(desc, values, placed.bytes.data() + placed.first); });
  write(placed);
  inputs_.push_back(std::move(placed));
  return inputs_.back();
}

CandidateRuns::Run CandidateRuns::run(size_t index) {
  require(index < size(), Code::invalid_argument, "candidates: index is ", index, ", expected less than ", size());
  const Candidate& candidate = entry_->ways[index].candidate;
  std::vector<Buffer*> in, out;
  for (size_t i = 0; i < values_.size(); ++i) {
    const bool given = values_[i] && candidate.inputs[i].present;
    in.push_back(given ? placed_input(i, candidate.inputs[i]).buffer.get() : nullptr);
  }
  std::vector<Placed> results;
  for (const TensorDesc& desc : candidate.outputs) {
    results.push_back(reserve(desc, is_strided_output(desc), 2 * beside(options_.strided_layout), false));
    write(results.back());
    out.push_back(results.back().buffer.get());
  }
  Placed workspace;
  if (candidate.workspace_bytes) {
    workspace.whole = device_->allocate(candidate.workspace_bytes + kWorkspaceGuard);
    workspace.bytes.assign(candidate.workspace_bytes + kWorkspaceGuard, kPoison);
    write(workspace);
  }

  Run run;
  compute(candidate, in, {in.data(), out.data(), workspace.whole.get()}, run);
  if (!run.prepared || !run.damage.empty()) return run;
  for (size_t i = 0; i < results.size(); ++i) take_output(i, results[i], run);
  for (size_t i = 0; i < in.size(); ++i)
    if (in[i] && !candidate.packing_of(int(i))) check_input(i, candidate.inputs[i], run);
  if (workspace.whole) check_workspace(workspace, candidate.workspace_bytes, run);
  return run;
}

// Prepares the kernel and runs it; what is thrown is damage.
void CandidateRuns::compute(const Candidate& candidate, std::vector<Buffer*>& in, const KernelArguments& arguments,
                            Run& run) const {
  if (device_->traits().threads) use_threads(entry_->threads);
  std::unique_ptr<Kernel> kernel;
  std::vector<BufferRef> packed;
  try {
    kernel = candidate.prepare();
    packed = pack_inputs(*device_, candidate, in);
  } catch (const std::exception& error) {
    run.damage.push_back(error.what());
    return;
  }
  run.prepared = true;
  try {
    device_->synchronize();
    const double start = now_ms();
    kernel->run(arguments);
    device_->synchronize();
    run.ms = now_ms() - start;
  } catch (const std::exception& error) {
    run.damage.push_back(concat("it fails while it runs: ", error.what()));
  }
}

// The elements of a result, and what was written where none is.
void CandidateRuns::take_output(size_t i, const Placed& result, Run& run) const {
  const TensorDesc& desc = result.desc;
  const std::vector<char> bytes = read_back(result);
  const size_t unit = size_of(desc.dtype), extent = size_t(desc.extent());
  TensorRef values = Tensor::allocate(context_.host(), TensorDesc::dense(desc.dtype, desc.shape));
  by_size(desc.dtype, [&](auto element) {
    gather<decltype(element)>(desc, bytes.data() + result.first, values->buffer()->host());
  });
  run.outputs.push_back(std::move(values));
  // What is neither an element nor padding keeps its poison; padding is zero.
  const bool strided = is_strided_output(desc);
  std::vector<bool> written;
  if (strided || desc.has_padding()) {
    written.resize(extent);
    for_elements(desc, [&](int64_t offset, int64_t) { written[size_t(offset)] = true; });
  }
  const char expected = strided ? kPoison : 0;
  for (size_t e = 0; e < written.size(); ++e) {
    if (written[e]) continue;
    const char* at = bytes.data() + result.first + e * unit;
    if (std::all_of(at, at + unit, [&](char byte) { return byte == expected; })) continue;
    run.damage.push_back(concat("output ", i, ": ",
                                strided ? "wrote beside the strided view, element " : "padding, element ", e,
                                strided ? "" : ", is not zero"));
    break;
  }
  const size_t behind = result.first + extent * unit;
  for (size_t b = 0; b < bytes.size(); ++b) {
    if (b == result.first) b = behind;
    if (b >= bytes.size() || bytes[b] == kPoison) continue;
    run.damage.push_back(b < behind ? concat("output ", i, ": wrote ", result.first - b, " bytes before its start")
                                    : concat("output ", i, ": wrote byte ", b - behind, " behind its end"));
    break;
  }
}

// An input is as it was; one that is not is written anew for the next candidate.
void CandidateRuns::check_input(size_t i, const TensorDesc& desc, Run& run) {
  const auto placed = std::find_if(inputs_.begin(), inputs_.end(),
                                   [&](const Placed& known) { return known.input == i && known.desc == desc; });
  const std::vector<char> bytes = read_back(*placed);
  if (bytes == placed->bytes) return;
  const size_t at = size_t(std::mismatch(bytes.begin(), bytes.end(), placed->bytes.begin()).first - bytes.begin());
  run.damage.push_back(concat("input ", i, ": changed byte ", at, " of its memory"));
  write(*placed);
}

void CandidateRuns::check_workspace(const Placed& workspace, size_t size, Run& run) const {
  const std::vector<char> bytes = read_back(workspace);
  const auto guard = bytes.begin() + int64_t(size);
  const auto wrong = std::find_if(guard, bytes.end(), [](char byte) { return byte != kPoison; });
  if (wrong != bytes.end()) run.damage.push_back(concat("workspace: wrote byte ", wrong - guard, " behind its end"));
}

}  // namespace pl

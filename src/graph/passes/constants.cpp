#include "graph/passes/constants.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/elements.h"
#include "core/threads.h"
#include "dispatch/context.h"
#include "dispatch/cost_model.h"
#include "dispatch/runner.h"

namespace pl::passes {
namespace {

// The bytes of a tensor's storage, copied to the host where they lie elsewhere.
class HostBytes {
 public:
  explicit HostBytes(const Tensor& tensor) {
    if (tensor.device().traits().host_addressable) {
      data_ = static_cast<const char*>(tensor.buffer()->host());
    } else {
      copy_.resize(tensor.desc().size_bytes());
      if (!copy_.empty()) tensor.device().read(*tensor.buffer(), 0, copy_.data(), copy_.size());
      data_ = copy_.data();
    }
  }
  const char* data() const { return data_; }

 private:
  std::vector<char> copy_;
  const char* data_ = nullptr;
};

// Calls visit(position in row-major order, offset in elements) for each element.
template <class Visit>
void walk(const TensorDesc& desc, Visit&& visit) {
  const int64_t count = desc.elements();
  if (desc.is_dense() && desc.layout.is_plain()) {
    for (int64_t i = 0; i < count; ++i) visit(i, i);
    return;
  }
  Dims index = Dims::filled(desc.rank(), 0);
  for (int64_t i = 0; i < count; ++i) {
    visit(i, desc.offset_of(index));
    for (int d = desc.rank() - 1; d >= 0 && ++index[d] == desc.shape[d]; --d) index[d] = 0;
  }
}

// The least number that has all digits of its dtype.
double least_normal(DType dtype) {
  if (dtype == DType::f16) return 0x1p-14;
  return double(std::numeric_limits<float>::min());  // of bf16, too
}

}  // namespace

std::vector<double> numbers_of(const Tensor& tensor) {
  const HostBytes bytes(tensor);
  const DType dtype = tensor.desc().dtype;
  const size_t size = size_of(dtype);
  std::vector<double> numbers(size_t(tensor.desc().elements()));
  walk(tensor.desc(),
       [&](int64_t i, int64_t offset) { numbers[size_t(i)] = load(dtype, bytes.data() + size_t(offset) * size); });
  return numbers;
}

TensorRef tensor_of(Context& context, DType dtype, const Dims& shape, const std::vector<double>& values) {
  const TensorRef tensor = Tensor::allocate(context.host(), TensorDesc::dense(dtype, shape));
  char* data = static_cast<char*>(tensor->buffer()->host());
  const size_t size = size_of(dtype);
  require(values.size() == size_t(tensor->desc().elements()), Code::internal, "passes: ", values.size(),
          " values for a constant of shape ", shape);
  for (size_t i = 0; i < values.size(); ++i) store(dtype, data + i * size, values[i]);
  return tensor;
}

TensorRef plain_on_cpu(Context& context, const TensorRef& tensor) {
  const TensorDesc& desc = tensor->desc();
  if (&tensor->device() == &context.host() && desc.is_dense() && desc.layout.is_plain() && is_aligned(*tensor))
    return tensor;
  const HostBytes bytes(*tensor);
  const TensorRef result = Tensor::allocate(context.host(), TensorDesc::dense(desc.dtype, desc.shape));
  char* out = static_cast<char*>(result->buffer()->host());
  const size_t size = size_of(desc.dtype);
  walk(desc, [&](int64_t i, int64_t offset) {
    std::memcpy(out + size_t(i) * size, bytes.data() + size_t(offset) * size, size);
  });
  return result;
}

bool holds(DType dtype, double value) {
  char rounded[8];
  store(dtype, rounded, value);
  return !std::isfinite(value) || std::isfinite(load(dtype, rounded));
}

TensorRef scaled(Context& context, const Tensor& tensor, const std::function<double(int64_t, int64_t)>& factor) {
  const TensorDesc& desc = tensor.desc();
  const HostBytes bytes(tensor);
  const size_t size = size_of(desc.dtype);
  const TensorRef result = Tensor::allocate(context.host(), TensorDesc::dense(desc.dtype, desc.shape));
  char* out = static_cast<char*>(result->buffer()->host());
  const int64_t columns = desc.rank() > 1 ? desc.shape[1] : 1;
  int64_t inner = 1;
  for (int i = 2; i < desc.rank(); ++i) inner *= desc.shape[i];
  int64_t row = 0, column = 0, rest = 0;
  double current = desc.elements() ? factor(0, 0) : 0;
  const auto advance = [&] {  // to the factor of the next element
    if (rest++ < inner) return;
    rest = 1;
    if (++column == columns) column = 0, ++row;
    current = factor(row, column);
  };
  double largest_before = 0, largest = 0;
  bool finite = true;
  walk(desc, [&](int64_t i, int64_t offset) {
    advance();
    const double before = load(desc.dtype, bytes.data() + size_t(offset) * size), after = before * current;
    char* const to = out + size_t(i) * size;
    store(desc.dtype, to, after);
    finite = finite && std::isfinite(load(desc.dtype, to));
    largest_before = std::max(largest_before, std::fabs(before));
    largest = std::max(largest, std::fabs(after));
  });
  const double least = least_normal(desc.dtype);
  const bool lost = largest > 0 && largest < least && largest_before >= least;
  return finite && !lost ? result : nullptr;
}

std::optional<std::vector<double>> along_axis(const Rewriter& rewriter, ValueId id, const Dims& shape, int axis) {
  if (!rewriter.is_constant(id) || axis < 0 || axis >= shape.size()) return std::nullopt;
  const Dims& own = rewriter.shape(id);
  const int missing = shape.size() - own.size();
  for (int i = 0; i < own.size(); ++i) {
    const bool on_axis = i + missing == axis && own[i] == shape[axis];
    if (own[i] != 1 && !on_axis) return std::nullopt;
    if (i + missing < 0) return std::nullopt;
  }
  std::vector<double> values = numbers_of(rewriter.constant(id));
  if (values.size() == 1) values.resize(size_t(shape[axis]), values[0]);
  return values;
}

std::vector<TensorRef> computed(Context& context, const Op& op, const std::vector<TensorRef>& inputs) {
  std::vector<TensorRef> results;
  if (op.schema->view) {
    const auto views = op.schema->view(op);
    if (!views) return {};
    for (const TensorDesc& view : *views)
      results.push_back(plain_on_cpu(context, std::make_shared<Tensor>(view, inputs[0]->buffer())));
    return results;
  }
  Device& cpu = context.host();
  std::optional<Candidate> best;
  double least = std::numeric_limits<double>::infinity();
  for (Provider* provider : context.providers_of(cpu)) {
    if (op.has_empty_tensor() && !provider->handles_empty()) continue;
    CandidateList list;
    provider->list(op, cpu, list);
    for (Candidate& candidate : list.candidates) {
      const auto is_plain = [](const TensorDesc& desc) { return !desc.present || desc.layout.is_plain(); };
      if (!candidate.packings.empty()) continue;
      if (!std::all_of(candidate.inputs.begin(), candidate.inputs.end(), is_plain)) continue;
      if (!std::all_of(candidate.outputs.begin(), candidate.outputs.end(), is_plain)) continue;
      const double ms = estimate_ms(op, candidate, Rates()) * (candidate.reference ? 1000 : 1);
      if (ms >= least) continue;
      least = ms;
      best = std::move(candidate);
    }
  }
  if (!best) return {};
  std::vector<Buffer*> in, out;
  for (const TensorRef& input : inputs) in.push_back(input ? input->buffer().get() : nullptr);
  in.resize(op.inputs.size(), nullptr);
  for (const TensorDesc& desc : best->outputs) {
    results.push_back(Tensor::allocate(cpu, desc));
    out.push_back(results.back()->buffer().get());
  }
  const BufferRef workspace = best->workspace_bytes ? cpu.allocate(best->workspace_bytes) : nullptr;
  use_threads(context.options().threads);
  best->prepare()->run({in.data(), out.data(), workspace.get()});
  return results;
}

TensorRef evaluated(Rewriter& rewriter, Context& context, ValueId id, int depth, int64_t elements) {
  if (id == kNoValue || rewriter.desc(id).elements() > elements) return nullptr;
  if (rewriter.is_constant(id)) return plain_on_cpu(context, rewriter.graph().value(id).constant);
  const int index = rewriter.maker(id);
  if (index < 0 || depth == 0 || rewriter.node(size_t(index)).inputs.empty()) return nullptr;
  const Node& node = rewriter.node(size_t(index));
  std::vector<TensorRef> inputs;
  std::vector<TensorDesc> descs;
  for (ValueId input : rewriter.inputs(node)) {
    inputs.push_back(input == kNoValue ? nullptr : evaluated(rewriter, context, input, depth - 1, elements));
    if (input != kNoValue && !inputs.back()) return nullptr;
    descs.push_back(input == kNoValue ? TensorDesc() : inputs.back()->desc());
  }
  const std::vector<TensorRef> results = computed(context, make_op(*node.schema, node.attributes, descs), inputs);
  const int32_t output = rewriter.graph().value(id).output;
  return size_t(output) < results.size() ? results[size_t(output)] : nullptr;
}

}  // namespace pl::passes

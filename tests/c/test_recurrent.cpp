// lstm, gru and rnn: all candidates of all providers agree, in every output and every way to call them.  (The host's
// are tested against float64 by test_ops.py.)
#include <cmath>

#include "candidates.h"
#include "check.h"

using namespace pltest;

namespace {

std::shared_ptr<Device> device;
int onednn_candidates = 0;

std::vector<Values> run(const Op& op, const Candidate& candidate, const std::vector<Argument>& arguments) {
  std::vector<BufferRef> buffers;
  std::vector<Buffer*> in, out;
  for (size_t i = 0; i < arguments.size(); ++i) {
    in.push_back(nullptr);
    if (!arguments[i].desc.present) continue;
    buffers.push_back(place(*device, candidate.inputs[i], &arguments[i].values));
    in.back() = buffers.back().get();
  }
  for (const TensorDesc& desc : candidate.outputs) {
    buffers.push_back(place(*device, desc, nullptr));
    out.push_back(buffers.back().get());
  }
  BufferRef workspace;
  if (candidate.workspace_bytes) workspace = device->allocate(candidate.workspace_bytes);
  const auto packed = pack_inputs(*device, candidate, in);
  const auto kernel = candidate.prepare();
  for (int repetition = 0; repetition < 2; ++repetition) kernel->run({in.data(), out.data(), workspace.get()});
  std::vector<Values> results;
  for (size_t i = 0; i < out.size(); ++i) {
    const TensorDesc& desc = candidate.outputs[i];
    CHECK(desc.shape == op.out(int(i)).shape);
    Values values;
    const char* base = static_cast<const char*>(out[i]->host());
    for_each(desc.shape, [&](const Dims& index, size_t) {
      values.push_back(load(desc.dtype, base + size_t(desc.offset_of(index)) * size_of(desc.dtype)));
    });
    for (size_t k = 0; k < kGuard; ++k) CHECK(static_cast<unsigned char>(base[desc.size_bytes() + k]) == 0xa5);
    results.push_back(std::move(values));
  }
  return results;
}

void check(const std::string& name, const std::string& attributes, bool bias, bool states, bool batch_first, int gates,
           int64_t directions) {
  const int64_t steps = 7, batch = 3, features = 20, hidden = 37;
  const Dims state = batch_first ? Dims{batch, directions, hidden} : Dims{directions, batch, hidden};
  std::vector<Argument> arguments{
      random_argument(DType::f32, batch_first ? Dims{batch, steps, features} : Dims{steps, batch, features}, 1),
      random_argument(DType::f32, {directions, gates * hidden, features}, 2, -0.4, 0.4),
      random_argument(DType::f32, {directions, gates * hidden, hidden}, 3, -0.4, 0.4),
      bias ? random_argument(DType::f32, {directions, 2 * gates * hidden}, 4) : absent(),
      absent(),
      states ? random_argument(DType::f32, state, 5, -1, 1) : absent()};
  if (gates == 4) arguments.push_back(states ? random_argument(DType::f32, state, 6, -1, 1) : absent());
  std::vector<TensorDesc> inputs;
  for (const Argument& argument : arguments) inputs.push_back(argument.desc);
  const Op op = make_op(*find_schema(name), Attributes::parse(attributes), inputs);
  std::vector<Values> expected;
  for (const auto& provider : make_providers()) {  // host comes before onednn
    if (!provider->serves(*device)) continue;
    CandidateList list;
    provider->list(op, *device, list);
    for (const Candidate& candidate : list.candidates) {
      onednn_candidates += candidate.provider == "onednn";
      const auto results = run(op, candidate, arguments);
      if (expected.empty()) expected = results;
      for (size_t i = 0; i < results.size(); ++i)
        for (size_t k = 0; k < results[i].size(); ++k)
          if (!(std::fabs(results[i][k] - expected[i][k]) < 1e-5)) {
            std::printf("FAILED %s\n  %s: output %zu, element %zu is %g, expected %g\n", op.str().c_str(),
                        candidate.key().c_str(), i, k, results[i][k], expected[i][k]);
            check_count_failure();
            k = results[i].size();
          }
    }
  }
}

TEST("all") {
  device = make_cpu_device();
  for (const bool batch_first : {false, true})
    for (const char* direction : {"forward", "reverse", "bidirectional"})
      for (int given = 0; given < 4; ++given) {
        const int64_t directions = std::string(direction) == "bidirectional" ? 2 : 1;
        const std::string common = concat("direction=", direction, " batch_first=", batch_first ? "true" : "false");
        const bool bias = given & 1, states = given & 2;
        check("lstm", common, bias, states, batch_first, 4, directions);
        check("gru", common, bias, states, batch_first, 3, directions);
        check("gru", common + " linear_before_reset=true", bias, states, batch_first, 3, directions);
        check("rnn", common, bias, states, batch_first, 1, directions);
        check("rnn", common + " nonlinearity=relu", bias, states, batch_first, 1, directions);
      }
  std::printf("%d candidates of oneDNN\n", onednn_candidates);
  CHECK(onednn_candidates > 0);
}

}  // namespace

#include "graph/pass.h"

#include <algorithm>

#include "core/device.h"
#include "graph/passes/passes.h"

namespace pl {
namespace {

// The passes work on patterns of a few ops and each leaves fewer or cheaper ones, so a few rounds suffice; the limit
// guards against two passes that undo each other.
constexpr int kMostPassRounds = 16;

}  // namespace

const std::vector<Pass>& standard_passes() {
  // clang-format off
  static const std::vector<Pass> list = {
      passes::remove_identity(),  // first, so that what stands between the ops of other patterns is gone
      passes::fold_constants(),   // weights that are computed become constants
      passes::merge_equal(),      // what a pattern uses twice is one value
      passes::merge_views(),
      passes::join_parts(),
      passes::nest_concats(),
      passes::scatter_rows(),
      // Patterns of several ops, before their parts are folded into others.
      passes::recognise_channel_shuffle(),
      passes::fuse_interleave(),
      passes::recognise_activation(),
      passes::recognise_norm(),
      passes::recognise_rotary(),
      passes::move_merges(),  // what follows then reads heads where they lie
      passes::recognise_attention(),
      passes::recognise_scan(),
      passes::skip_repeats(),  // what is left of them, of which patterns tell heads and masks
      passes::fold_pad(),
      // Products and their neighbours.
      passes::move_views(),
      passes::split_linear(),
      passes::gather_rows(),      // once nothing moves any more between rolls and windows
      passes::fuse_bias(),        // gives the next two linear ops to fold into
      passes::move_concats(),     // gives what the next two fold, and what fuse_post_ops fuses
      passes::fold_batch_norm(),  // before an activation stands between
      passes::fold_scale(),
      passes::fuse_post_ops(),
  };
  // clang-format on
  return list;
}

std::vector<Pass> first_passes(Device* device) {
  return {passes::remove_identity(),   passes::unpack_weights(device),       passes::unsigned_integers(),
          passes::move_quantize(),     passes::quantize_products(device),    passes::scale_products(device),
          passes::fuse_addend(device), passes::expand_squeeze_excite(device)};
}

const std::vector<Pass>& training_passes() {
  static const std::vector<Pass> list = {
      passes::remove_identity(),      passes::fold_constants(),
      passes::merge_equal(),          passes::merge_views(),
      passes::nest_concats(),         passes::recognise_channel_shuffle(),
      passes::recognise_activation(), passes::recognise_norm(),
      passes::recognise_rotary(),     passes::move_merges(),
      passes::recognise_attention(),  passes::skip_repeats(),
      passes::fuse_parameters(),      passes::fuse_squeeze_excite(true),
      passes::move_views(),
  };
  return list;
}

std::vector<Pass> device_passes(Device* device, PackedConstants* constants) {
  std::vector<Pass> list{passes::join_linear(device, constants), passes::join_rotary(device),
                         passes::fuse_longer_post_ops(device)};
  if (!device || device->traits().gpu) {
    list.push_back(passes::expand_attention(device));
    list.push_back(passes::fuse_squeeze_excite(false));
    list.push_back(passes::fuse_norm_slope());
  }
  return list;
}

std::vector<Pass> last_passes(Device* device) { return {passes::fuse_pointwise(device)}; }

void check_pass(const std::string& name, const char* asked_by) {
  const auto named = [&](const Pass& pass) { return name == pass.name; };
  const std::vector<Pass> first = first_passes(nullptr), further = device_passes(nullptr), last = last_passes(nullptr);
  for (const std::vector<Pass>* list : {&first, &standard_passes(), &further, &last})
    if (std::any_of(list->begin(), list->end(), named)) return;
  fail(Code::invalid_argument, asked_by, ": there is no pass \"", name, "\"");
}

std::vector<PassReport> simplify(Graph& graph, Context& context, const std::vector<std::string>& without) {
  for (const std::string& name : without) check_pass(name, "simplify");
  return run_passes(standard_passes(), graph, context, without);
}

void join_elements(Graph& graph, Context& context) {
  run_passes({passes::merge_equal(), passes::fuse_pointwise(nullptr)}, graph, context, {});
}

std::vector<PassReport> run_passes(const std::vector<Pass>& list, Graph& graph, Context& context,
                                   const std::vector<std::string>& without) {
  std::vector<PassReport> reports;
  for (const Pass& pass : list) reports.push_back({pass.name, 0});
  graph.tidy();
  bool changed = true;
  for (int round = 0; changed && round < kMostPassRounds; ++round) {
    changed = false;
    for (size_t i = 0; i < list.size(); ++i) {
      if (std::find(without.begin(), without.end(), list[i].name) != without.end()) continue;
      const int rewrites = list[i].run(graph, context);
      if (rewrites == 0) continue;
      graph.tidy();
      reports[i].rewrites += rewrites;
      changed = true;
    }
  }
  return reports;
}

}  // namespace pl

// channel_shuffle: channels of several groups, taken in turns.
#include <algorithm>

#include "ops/gradient.h"

namespace pl {
namespace {

void infer_channel_shuffle(Op& op) {
  check_rank(op, 0, 2, kMaxRank);
  const int64_t groups = op.attributes[attr::groups], channels = op.in(0).shape[1];
  check(op, groups >= 1, Code::invalid_argument, "groups is ", groups, ", expected at least 1");
  check(op, channels % groups == 0, Code::shape, "x.c is ", channels, ", expected a multiple of ", groups, " (groups)");
  add_output(op);
}

Schema channel_shuffle() {
  Schema schema("channel_shuffle", "channel_shuffle",
                "Channels of several groups, taken from the groups in turns.\n\n"
                "y[n, j * groups + g, ...] = x[n, g * (c / groups) + j, ...]\n\n"
                "Returns the shape of x.  The same as a reshape to (n, groups, c / groups, ...), a transpose of "
                "dimensions 1 and 2 and a reshape back, but in any layout.\n\n"
                "Source: X. Zhang et al., ShuffleNet, arXiv 1707.01083; semantics of torch.channel_shuffle.");
  schema.tensor("x", "(n, c, ...), any dtype")
      .batched()
      .required(attr::groups, "divides c")
      .result(Result("y").like("x").shaped("x"));
  schema.infer = infer_channel_shuffle;
  // Shuffled back: groups and channels of a group change places.
  schema.gradient = [](Derivation& d) {
    const int64_t groups = d.op().attributes[attr::groups], channels = d.op().in(0).shape[1];
    d.give(0, d.make("channel_shuffle", Attributes{{attr::groups, std::max<int64_t>(1, channels / groups)}},
                     {d.gradient()}));
  };
  schema.flops = [](const Op&) { return 0.0; };
  return schema;
}

PL_REGISTER_OP(channel_shuffle);

}  // namespace
}  // namespace pl

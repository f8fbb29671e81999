// interleave: the channels of two tensors in turns, cut into parts: what joins the branches of ShuffleNet's units, and
// what takes the gradients apart again.
#include <algorithm>

#include "ops/gradient.h"

namespace pl {
namespace {

constexpr size_t kMostSections = 64;

void infer_interleave(Op& op) {
  check_rank(op, 0, 2, kMaxRank);
  const Dims& x = op.in(0).shape;
  check_shape(op, 1, x, "x.shape");
  int64_t channels;
  check(op, !__builtin_mul_overflow(x[1], int64_t(2), &channels), Code::shape, "the number of channels overflows");
  const int64_t groups = op.attributes[attr::groups];
  check(op, groups >= 1, Code::invalid_argument, "groups is ", groups, ", expected at least 1");
  check(op, channels % groups == 0, Code::shape, "twice x.c is ", channels, ", expected a multiple of ", groups,
        " (groups)");
  std::vector<int64_t> sections;
  if (op.attributes.is_none(attr::sections))
    sections = {channels};
  else
    sections = op.attributes[attr::sections];
  check(op, !sections.empty() && sections.size() <= kMostSections, Code::invalid_argument, "sections has ",
        sections.size(), " values, expected 1 to ", kMostSections);
  int64_t rest = channels;
  for (int64_t section : sections) {
    check(op, section >= 0 && section <= rest, Code::shape, "sections holds ", section, ", expected ",
          "sizes that add up to ", channels, " (twice x.c)");
    rest -= section;
  }
  check(op, rest == 0, Code::shape, "the sum of sections is ", channels - rest, ", expected ", channels,
        " (twice x.c)");
  op.attributes.set(attr::sections, sections);
  Dims output = x;
  for (int64_t section : sections) {
    output[1] = section;
    add_output(op, output);
  }
}

// The parts joined, brought out of turns, and halved: groups and channels of a group change places.  Where the parts are
// halves, as in most of ShuffleNet's units, that is one op of the same kind.
void derive_interleave(Derivation& d) {
  const Op& op = d.op();
  const int64_t channels = op.in(0).shape[1], groups = op.attributes[attr::groups];
  const int64_t back = std::max<int64_t>(1, 2 * channels / groups);
  const std::vector<int64_t> equal{channels, channels};
  std::vector<Derivation::Value> parts;
  for (size_t k = 0; k < op.outputs.size(); ++k) parts.push_back(d.gradient(int(k)));
  std::vector<Derivation::Value> halves;
  if (parts.size() == 2 && op.out(0).shape[1] == channels) {
    halves = d.add("interleave", Attributes{{attr::groups, back}, {attr::sections, equal}}, parts);
  } else {
    Derivation::Value whole = parts[0];
    if (parts.size() > 1) whole = d.make("concat", Attributes{{attr::dim, int64_t(1)}}, parts);
    whole = d.make("channel_shuffle", Attributes{{attr::groups, back}}, {whole});
    halves = d.add("split", Attributes{{attr::split_size_or_sections, equal}, {attr::dim, int64_t(1)}}, {whole});
  }
  for (int i = 0; i < 2; ++i) d.give_if_wanted(i, [&] { return halves[size_t(i)]; });
}

Schema interleave() {
  Schema schema("interleave", "interleave",
                "The channels of two tensors in turns, cut into parts.\n\n"
                "z[n, 2 * j, ...] = x[n, j, ...] and z[n, 2 * j + 1, ...] = y[n, j, ...]; the results are the parts of "
                "z, with the given numbers of channels.  With other groups than two the channels of both tensors, one "
                "after the other, are taken from as many groups in turns; c groups undo what two do.\n\n"
                "Returns a list of tensors (n, sections[k], ...).  The same as concat, channel_shuffle with these "
                "groups and split, in one pass.\n\n"
                "Source: N. Ma et al., ShuffleNet V2, arXiv 1807.11164, figure 3.");
  schema.tensor("x", "(n, c, ...), any dtype")
      .batched()
      .tensor("y", "the shape and dtype of x")
      .like("x")
      .batched()
      .attribute(attr::sections, None{}, "channels of each result, 2 * c together; None: one result")
      .attribute(attr::groups, int64_t(2), "of channels that are taken in turns, divides 2 * c")
      .result(Result("parts").like("x").repeated());
  schema.infer = infer_interleave;
  schema.gradient = derive_interleave;
  schema.several = true;
  schema.flops = [](const Op&) { return 0.0; };
  return schema;
}

PL_REGISTER_OP(interleave);

}  // namespace
}  // namespace pl

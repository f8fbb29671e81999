// rotary_embedding: positions as rotations of pairs of columns.
#include "ops/gradient.h"

namespace pl {
namespace {

void infer_rotary_embedding(Op& op) {
  check_rank(op, 0, 2, kMaxRank);
  const Dims& x = op.in(0).shape;
  const int rank = x.size();
  for (int i = 1; i < 3; ++i) {
    const TensorDesc& table = op.in(i);
    const std::string& name = op.schema->input_parameter(i).name;
    check(op, table.rank() >= 1 && table.rank() <= rank, Code::shape, name, " has rank ", table.rank(),
          ", expected 1 to ", rank, " (the rank of x)");
    for (int d = 0; d < table.rank() - 1; ++d)
      check(op, table.shape[d] == 1 || table.shape[d] == x[rank - table.rank() + d], Code::shape, name, " has shape ",
            table.shape, ", whose first sizes do not broadcast to those of x, which has shape ", x);
    const int64_t columns = table.shape[table.rank() - 1];
    check(op, columns % 2 == 0 && columns <= x[rank - 1], Code::shape, name, " has ", columns,
          " columns, expected an even number of at most ", x[rank - 1], " (those of x)");
  }
  const Dims &cosines = op.in(1).shape, &sines = op.in(2).shape;
  check(op, cosines[cosines.size() - 1] == sines[sines.size() - 1], Code::shape, "sin has ", sines[sines.size() - 1],
        " columns, expected ", cosines[cosines.size() - 1], " (those of cos)");
  add_output(op);
}

// By x a turn back, with the sines of each pair exchanged and negated; by the tables products with x, of which the
// columns of each pair change places for the sines.
void derive_rotary_embedding(Derivation& d) {
  const Op& op = d.op();
  const int last = op.in(0).rank() - 1;
  const int64_t columns = op.in(1).shape[op.in(1).rank() - 1];
  const bool interleaved = op.attributes[attr::interleaved];
  const auto part = [&](Derivation::Value value, int64_t first, int64_t end) {
    const int64_t dim = d.desc(value).rank() - 1;
    return d.make("slice",
                  Attributes{{attr::starts, std::vector<int64_t>{first}},
                             {attr::ends, std::vector<int64_t>{end}},
                             {attr::axes, std::vector<int64_t>{dim}}},
                  {value});
  };
  const auto negated = [&](Derivation::Value value) { return d.pointwise("y0 = -x0", {value}); };
  // `columns` columns with those of each pair exchanged, and those that come first then negated.
  const auto exchanged = [&](Derivation::Value value, bool negate) {
    const Dims shape = d.desc(value).shape;
    if (interleaved) {  // the columns of a pair lie in a dimension of their own
      Dims pairs = shape;
      pairs[shape.size() - 1] /= 2;
      pairs.push_back(2);
      value = d.reshaped(value, pairs);
    }
    const int64_t dim = d.desc(value).rank() - 1, end = d.desc(value).shape[int(dim)];
    const Derivation::Value first = part(value, end / 2, end);
    const Derivation::Value whole =
        d.make("concat", Attributes{{attr::dim, dim}}, {negate ? negated(first) : first, part(value, 0, end / 2)});
    return d.reshaped(whole, shape);
  };
  const Derivation::Value g = d.gradient(), x = d.input(0), sine = d.input(2);
  d.give_if_wanted(0, [&] {
    const Attributes same{{attr::interleaved, interleaved}};
    return d.make("rotary_embedding", same, {g, d.input(1), negated(exchanged(sine, false))});
  });
  const auto turned = [&](Derivation::Value value) {
    return op.in(0).shape[last] == columns ? value : part(value, 0, columns);
  };
  d.give_if_wanted(1, [&] { return d.summed_to(d.make("mul", {}, {turned(g), turned(x)}), op.in(1).shape); });
  d.give_if_wanted(2, [&] {
    return d.summed_to(d.make("mul", {}, {turned(g), exchanged(turned(x), true)}), op.in(2).shape);
  });
}

Schema rotary_embedding() {
  Schema schema("rotary_embedding", "rotary_embedding",
                "Rotary position embedding: pairs of columns turned by angles that depend on the position.\n\n"
                "y[..., i] = x[..., i] * cos[..., i] - x[..., i + r / 2] * sin[..., i]        for i < r / 2\n"
                "y[..., i] = x[..., i] * cos[..., i] + x[..., i - r / 2] * sin[..., i]        for r / 2 <= i < r\n"
                "y[..., i] = x[..., i]                                                        for r <= i < e\n\n"
                "with r the columns of cos and sin.  interleaved: a pair is two neighbours:\n\n"
                "y[..., i] = x[..., i] * cos[..., i] - x[..., i + 1] * sin[..., i]            for even i < r\n"
                "y[..., i] = x[..., i] * cos[..., i] + x[..., i - 1] * sin[..., i]            for odd i < r\n\n"
                "Returns the shape and dtype of x.\n\n"
                "Source: J. Su et al., arXiv 2104.09864 (interleaved), and GPT-NeoX (halves).");
  schema.tensor("x", "(..., l, e), most often queries or keys (n, heads, l, e); f32, f16 or bf16")
      .of(dtypes::floats)
      .batched()
      .tensor("cos", "broadcasts to (..., l, r), r even and at most e; the dtype of x")
      .like("x")
      .batched(Batch::broadcast)
      .tensor("sin", "the same, with as many columns")
      .like("x")
      .batched(Batch::broadcast)
      .attribute(attr::interleaved, false, "pairs are neighbours; else column i of each half is one of a pair")
      .result(Result("y").like("x").shaped("x"));
  schema.last_axes = 1;
  schema.infer = infer_rotary_embedding;
  schema.gradient = derive_rotary_embedding;
  schema.flops = [](const Op& op) { return 3.0 * double(op.in(0).elements()); };
  return schema;
}

PL_REGISTER_OP(rotary_embedding);

}  // namespace
}  // namespace pl

// lstm, gru and rnn: recurrent layers of one level, in one or both directions.
#include "ops/op.h"

namespace pl {
namespace {

enum Input { kX, kW, kR, kBias, kLengths, kInitialH, kInitialC, kPeephole };

void infer(Op& op) {
  const int64_t gates = op.attributes.integer("gates");
  const bool lstm = op.attributes.text("cell") == "lstm";
  check_rank(op, kX, 3, 3);
  check_float(op, kX);
  for (int i : {kW, kR}) {
    check_rank(op, i, 3, 3);
    check_same_dtype(op, i);
  }
  const Dims &x = op.in(kX).shape, &r = op.in(kR).shape;
  const bool batch_first = op.attributes.flag("batch_first");
  const int64_t steps = x[batch_first ? 1 : 0], batch = x[batch_first ? 0 : 1], features = x[2], hidden = r[2];
  const int64_t directions = op.attributes.text("direction") == "bidirectional" ? 2 : 1;
  check(op, features > 0, Code::shape, "x.shape is ", x, ", expected at least 1 as the last size");
  check(op, hidden > 0, Code::shape, "r.shape is ", r, ", expected at least 1 as the last size (hidden)");
  const int64_t rows = safe_product(op, "gates * hidden", {gates, hidden});
  check_shape(op, kR, {directions, rows, hidden}, "directions, gates * hidden, hidden");
  check_shape(op, kW, {directions, rows, features}, "directions, gates * hidden, last size of x");
  check_same_dtype(op, kBias);
  check_shape(op, kBias, {directions, 2 * rows}, "directions, 2 * gates * hidden");
  if (op.has(kLengths)) {
    check_dtype(op, kLengths, {DType::s32, DType::s64});
    check_shape(op, kLengths, {batch}, "x.batch");
  }
  const Dims state = batch_first ? Dims{batch, directions, hidden} : Dims{directions, batch, hidden};
  const char* why = batch_first ? "x.batch, directions, hidden" : "directions, x.batch, hidden";
  for (int i : {kInitialH, kInitialC}) {
    if (i == kInitialC && !lstm) continue;
    check_same_dtype(op, i);
    check_shape(op, i, state, why);
  }
  if (lstm) {
    check_same_dtype(op, kPeephole);
    check_shape(op, kPeephole, {directions, 3 * hidden}, "directions, 3 * hidden");
  }
  add_output(op, op.in(kX).dtype,
             batch_first ? Dims{batch, steps, directions, hidden} : Dims{steps, directions, batch, hidden});
  add_output(op, op.in(kX).dtype, state);
  if (lstm) add_output(op, op.in(kX).dtype, state);
}

// Two products for each step; the functions of gates are few against them.
double flops(const Op& op) {
  const Dims &x = op.in(kX).shape, &r = op.in(kR).shape;
  return 2.0 * double(x[0]) * double(x[1]) * double(r[0]) * double(r[1]) * double(x[2] + r[2]);
}

Schema recurrent(const char* name, int64_t gates, const char* title, const char* formula, const char* order,
                 const char* source) {
  Schema schema(
      name, "recurrent",
      concat(title, ".\n\n", formula,
             "\n\nsigma is the logistic function, * by element; rows of w and r are the gates' in the order ", order,
             "; wb and rb are the two halves of b.  A reverse direction begins with the last step.  Steps "
             "from sequence_lens on take no part and give zeros.\n\n"
             "Returns y (steps, directions, batch, hidden), the last state y_h (directions, batch, hidden)",
             gates == 4 ? " and y_c alike" : "",
             "; with batch_first (batch, steps, directions, hidden) and (batch, directions, hidden).\n\nSource: ",
             source));
  schema.constant("cell", std::string(name))
      .constant("gates", gates)
      .tensor("x", "(steps, batch, features), or (batch, steps, features) with batch_first; f32, f16 or bf16")
      .tensor("w", concat("(directions, ", gates, " * hidden, features): weights of x"), Role::constant)
      .tensor("r", concat("(directions, ", gates, " * hidden, hidden): weights of the state"), Role::constant)
      .optional("b", concat("(directions, 2 * ", gates, " * hidden): biases of x, then of the state"), Role::constant)
      .optional("sequence_lens", "(batch), s32 or s64: steps of each sequence, 0 to steps")
      .optional("initial_h", "the first state, in the shape of y_h; zeros without it");
  if (gates == 4)
    schema.optional("initial_c", "the first cell state, in the shape of y_c; zeros without it")
        .optional("p", "(directions, 3 * hidden): peepholes, weights of the cell state in gates i, o and f",
                  Role::constant);
  schema.attribute("direction", AttributeType::string, std::string("forward"), "which way the steps are gone through",
                   {"forward", "reverse", "bidirectional"});
  schema.attribute("batch_first", AttributeType::boolean, false, "the batch is the first dimension of x, y and states");
  schema.infer = infer;
  schema.integers = [](const Op& op, int input) -> std::pair<int64_t, int64_t> {
    if (input != kLengths) return {0, 0};
    const int64_t steps = op.in(kX).shape[op.attributes.flag("batch_first") ? 1 : 0];
    return {steps, steps};
  };
  schema.flops = flops;
  return schema;
}

Schema lstm() {
  return recurrent("lstm", 4, "Long short-term memory",
                   "i = sigma(wi x + ri h + wbi + rbi + pi * c), f = sigma(wf x + rf h + wbf + rbf + pf * c), "
                   "g = tanh(wc x + rc h + wbc + rbc), c = f * c + i * g, "
                   "o = sigma(wo x + ro h + wbo + rbo + po * c), h = o * tanh(c)",
                   "i, o, f, c",
                   "semantics of ONNX's LSTM; S. Hochreiter, J. Schmidhuber, Neural Computation 9, 1997.");
}
Schema gru() {
  Schema schema = recurrent("gru", 3, "Gated recurrent unit",
                            "z = sigma(wz x + rz h + wbz + rbz), r = sigma(wr x + rr h + wbr + rbr), "
                            "g = tanh(wh x + rh (r * h) + wbh + rbh), or with linear_before_reset "
                            "g = tanh(wh x + wbh + r * (rh h + rbh)), h = (1 - z) * g + z * h",
                            "z, r, h", "semantics of ONNX's GRU; K. Cho et al., arXiv 1406.1078.");
  return schema.attribute("linear_before_reset", AttributeType::boolean, false,
                          "the reset gate acts on the product with the state, as in torch");
}
Schema rnn() {
  Schema schema = recurrent("rnn", 1, "Simple recurrent layer", "h = f(w x + r h + wb + rb), f tanh or relu",
                            "of the one there is", "semantics of ONNX's RNN; J. Elman, Cognitive Science 14, 1990.");
  return schema.attribute("nonlinearity", AttributeType::string, std::string("tanh"), "the function f",
                          {"tanh", "relu"});
}

PL_REGISTER_OP(lstm);
PL_REGISTER_OP(gru);
PL_REGISTER_OP(rnn);

}  // namespace
}  // namespace pl

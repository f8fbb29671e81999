// lstm, gru and rnn: recurrent layers of one level, in one or both directions, and their gradients.
#include "ops/gradient.h"

namespace pl {
namespace {

enum Input { kX, kW, kR, kBias, kLengths, kInitialH, kInitialC, kPeephole };
constexpr int kY = 3, kGrad = 4;    // of a backward op, after x, w and r
constexpr int kMoreOfBackward = 2;  // by so much its inputs from b on come later

struct Shapes {
  Dims y, state, bias, peephole;
};

// Checks the inputs of a layer, of which those from b on are `more` places later.
Shapes checked_shapes(const Op& op, int more) {
  const int64_t gates = op.attributes[attr::gates];
  const bool lstm = op.attributes[attr::cell] == "lstm";
  const int bias = kBias + more, lengths = kLengths + more, initial_h = kInitialH + more;
  const int initial_c = kInitialC + more, peephole = kPeephole + more;
  check_rank(op, kX, 3, 3);
  for (int i : {kW, kR}) check_rank(op, i, 3, 3);
  const Dims &x = op.in(kX).shape, &r = op.in(kR).shape;
  const bool batch_first = op.attributes[attr::batch_first];
  const int64_t steps = x[batch_first ? 1 : 0], batch = x[batch_first ? 0 : 1], features = x[2], hidden = r[2];
  const int64_t directions = op.attributes[attr::direction] == "bidirectional" ? 2 : 1;
  check(op, features > 0, Code::shape, "x.shape is ", x, ", expected at least 1 as the last size");
  check(op, hidden > 0, Code::shape, "r.shape is ", r, ", expected at least 1 as the last size (hidden)");
  const int64_t rows = safe_product(op, "gates * hidden", {gates, hidden});
  check_shape(op, kR, {directions, rows, hidden}, "directions, gates * hidden, hidden");
  check_shape(op, kW, {directions, rows, features}, "directions, gates * hidden, last size of x");
  check_shape(op, bias, {directions, 2 * rows}, "directions, 2 * gates * hidden");
  check_shape(op, lengths, {batch}, "x.batch");
  const Dims state = batch_first ? Dims{batch, directions, hidden} : Dims{directions, batch, hidden};
  const char* why = batch_first ? "x.batch, directions, hidden" : "directions, x.batch, hidden";
  check_shape(op, initial_h, state, why);
  if (lstm) {
    check_shape(op, initial_c, state, why);
    check_shape(op, peephole, {directions, 3 * hidden}, "directions, 3 * hidden");
  }
  return {batch_first ? Dims{batch, steps, directions, hidden} : Dims{steps, directions, batch, hidden}, state,
          Dims{directions, 2 * rows}, Dims{directions, 3 * hidden}};
}

void infer_recurrent(Op& op) {
  const Shapes shapes = checked_shapes(op, 0);
  add_output(op, shapes.y);
  add_output(op, shapes.state);
  if (op.attributes[attr::cell] == "lstm") add_output(op, shapes.state);
}

// Two products for each step; the functions of gates are few against them.
double recurrent_flops(const Op& op) {
  const Dims &x = op.in(kX).shape, &r = op.in(kR).shape;
  return 2.0 * double(x[0]) * double(x[1]) * double(r[0]) * double(r[1]) * double(x[2] + r[2]);
}

// The gradient by every floating input, given or not.
void derive_recurrent(Derivation& d) {
  const Op& op = d.op();
  const bool lstm = op.attributes[attr::cell] == "lstm";
  std::vector<Derivation::Value> inputs{d.input(kX), d.input(kW), d.input(kR), d.output(), d.gradient()};
  for (int i = kBias; i <= (lstm ? kPeephole : kInitialH); ++i) inputs.push_back(d.input(i));
  inputs.push_back(d.gradient(1));
  if (lstm) inputs.push_back(d.gradient(2));
  Attributes attributes;
  for (const Parameter& parameter : op.schema->parameters)
    if (parameter.kind == Parameter::Kind::attribute) attributes.take(op.attributes, {parameter.attribute});
  const auto made = d.add(op.schema->name + "_backward", attributes, inputs);
  constexpr int of_result[] = {kX, kW, kR, kBias, kInitialH, kInitialC, kPeephole};
  for (size_t k = 0; k < made.size(); ++k) d.give_if_wanted(of_result[k], [&] { return made[k]; });
}

void infer_recurrent_backward(Op& op) {
  const Shapes shapes = checked_shapes(op, kMoreOfBackward);
  const bool lstm = op.attributes[attr::cell] == "lstm";
  for (int i : {kY, kGrad}) check_shape(op, i, shapes.y, "that of the layer's y");
  for (const char* name : {"grad_h", "grad_c"}) {
    const int i = op.schema->input_index(name);
    if (i < 0) continue;
    check_shape(op, i, shapes.state, "that of the layer's last state");
  }
  for (int k = 0; k < 3; ++k) add_output(op);
  add_output(op, shapes.bias);
  add_output(op, shapes.state);
  if (!lstm) return;
  add_output(op, shapes.state);
  add_output(op, shapes.peephole);
}

// The layer's products once more, and two for each of them.
double recurrent_backward_flops(const Op& op) { return 3 * recurrent_flops(op); }

std::pair<int64_t, int64_t> whole_lengths(const Op& op) {
  const int64_t steps = op.in(kX).shape[op.attributes[attr::batch_first] ? 1 : 0];
  return {steps, steps};
}

// x, w and r, the same in a layer and its gradients; then what else a layer may be given.
void add_weights(Schema& schema, int64_t gates) {
  schema.tensor("x", "(steps, batch, features), or (batch, steps, features) with batch_first; f32, f16 or bf16")
      .of(dtypes::floats)
      .tensor("w", concat("(directions, ", gates, " * hidden, features): weights of x"), Role::constant)
      .like("x")
      .tensor("r", concat("(directions, ", gates, " * hidden, hidden): weights of the state"), Role::constant)
      .like("x");
}
void add_options(Schema& schema, int64_t gates) {
  schema.optional("b", concat("(directions, 2 * ", gates, " * hidden): biases of x, then of the state"), Role::constant)
      .like("x")
      .optional("sequence_lens",
                "(batch), s32 or s64: steps of each sequence, 0 to steps; others are an error on the host, "
                "as if limited to these on an OpenCL device")
      .of(dtypes::indices)
      .optional("initial_h", "the first state, in the shape of y_h; zeros without it")
      .like("x");
  if (gates == 4)
    schema.optional("initial_c", "the first cell state, in the shape of y_c; zeros without it")
        .like("x")
        .optional("p", "(directions, 3 * hidden): peepholes, weights of the cell state in gates i, o and f",
                  Role::constant)
        .like("x");
}
void add_recurrent_attributes(Schema& schema) {
  const std::string& cell = schema.constants[attr::cell];
  schema.attribute(attr::direction, std::string("forward"), "which way the steps are gone through",
                   {"forward", "reverse", "bidirectional"});
  schema.attribute(attr::batch_first, false, "the batch is the first dimension of x, y and states");
  if (cell == "gru")
    schema.attribute(attr::linear_before_reset, false,
                     "the reset gate acts on the product with the state, as in torch");
  if (cell == "rnn") schema.attribute(attr::nonlinearity, std::string("tanh"), "the function f", {"tanh", "relu"});
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
  schema.constant(attr::cell, std::string(name)).constant(attr::gates, gates);
  add_weights(schema, gates);
  add_options(schema, gates);
  add_recurrent_attributes(schema);
  schema.result(Result("y").like("x")).result(Result("y_h").like("x"));
  if (gates == 4) schema.result(Result("y_c").like("x"));
  schema.infer = infer_recurrent;
  schema.integers = [](const Op& op, int input) {
    return input == kLengths ? whole_lengths(op) : std::pair<int64_t, int64_t>(0, 0);
  };
  schema.flops = recurrent_flops;
  schema.gradient = derive_recurrent;
  return schema;
}

Schema recurrent_backward(const char* name, int64_t gates) {
  const bool lstm = gates == 4;
  Schema schema(
      concat(name, "_backward"), "recurrent_backward",
      concat(
          "The gradients of ", name,
          ".\n\nGates are computed again from x and y, all steps at once; then the steps are gone through backwards."
          "\n\nReturns the gradients by x, w, r, b, initial_h",
          lstm ? ", initial_c and p" : "",
          ", of the shapes of these, whether they are given or not, in the dtype of x; sums are kept in at least f32."
          "\n\nSource: the derivative of the formula."));
  schema.constant(attr::cell, std::string(name)).constant(attr::gates, gates);
  add_weights(schema, gates);
  schema.tensor("y", concat("the first result of ", name))
      .like("x")
      .tensor("grad", "the shape of y: the gradient by y")
      .like("x");
  add_options(schema, gates);
  schema.optional("grad_h", "the gradient by y_h; zeros without it").like("x");
  if (lstm) schema.optional("grad_c", "the gradient by y_c; zeros without it").like("x");
  add_recurrent_attributes(schema);
  for (const char* input : {"x", "w", "r"}) schema.result(Result(concat("d", input)).like("x").shaped(input));
  schema.result(Result("db").like("x")).result(Result("dinitial_h").like("x"));
  if (lstm) schema.result(Result("dinitial_c").like("x")).result(Result("dp").like("x"));
  schema.infer = infer_recurrent_backward;
  schema.integers = [](const Op& op, int input) {
    return input == kLengths + kMoreOfBackward ? whole_lengths(op) : std::pair<int64_t, int64_t>(0, 0);
  };
  schema.flops = recurrent_backward_flops;
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
  return recurrent("gru", 3, "Gated recurrent unit",
                   "z = sigma(wz x + rz h + wbz + rbz), r = sigma(wr x + rr h + wbr + rbr), "
                   "g = tanh(wh x + rh (r * h) + wbh + rbh), or with linear_before_reset "
                   "g = tanh(wh x + wbh + r * (rh h + rbh)), h = (1 - z) * g + z * h",
                   "z, r, h", "semantics of ONNX's GRU; K. Cho et al., arXiv 1406.1078.");
}
Schema rnn() {
  return recurrent("rnn", 1, "Simple recurrent layer", "h = f(w x + r h + wb + rb), f tanh or relu",
                   "of the one there is", "semantics of ONNX's RNN; J. Elman, Cognitive Science 14, 1990.");
}

PL_REGISTER_OP(lstm);
PL_REGISTER_OP(gru);
PL_REGISTER_OP(rnn);
PL_REGISTER_OP([] { return recurrent_backward("lstm", 4); });
PL_REGISTER_OP([] { return recurrent_backward("gru", 3); });
PL_REGISTER_OP([] { return recurrent_backward("rnn", 1); });

}  // namespace
}  // namespace pl

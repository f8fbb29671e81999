// sgd_step, adam_step, adamw_step: what training does to a parameter.
#include "ops/op.h"

namespace pl {
namespace {

constexpr const char* kRate = "scalar, f32: the learning rate";
constexpr const char* kFactor =
    "scalar, f32: what grad is multiplied by first; where it is 0, all stays as it is, whatever grad holds; None: 1";

void check_decay(const Op& op) {
  check_finite(op, attr::weight_decay);
  const double decay = op.attributes[attr::weight_decay];
  check(op, decay >= 0, Code::invalid_argument, "weight_decay is ", decay, ", expected at least 0");
}

void check_scalar(const Op& op, int input) {
  check(op, op.in(input).elements() == 1, Code::shape, op.schema->input_parameter(input).name, " has shape ",
        op.in(input).shape, ", expected one element");
}

void check_factor(const Op& op, int input) {
  if (op.has(input)) check_scalar(op, input);
}

void check_alike(const Op& op, int input) { check_shape(op, input, op.in(0).shape, "weight.shape"); }

void infer_sgd(Op& op) {
  check_alike(op, 1);
  check_scalar(op, 2);
  check_alike(op, 3);
  check_factor(op, 4);
  check_decay(op);
  for (const Key<double>& key : {attr::momentum, attr::dampening}) check_finite(op, key);
  const double momentum = op.attributes[attr::momentum];
  check(op, momentum >= 0, Code::invalid_argument, "momentum is ", momentum, ", expected at least 0");
  check(op, momentum == 0 || op.has(3), Code::invalid_argument, "momentum is ", momentum,
        " and velocity is missing, expected a tensor of the shape of weight");
  check(op, !op.attributes[attr::nesterov] || (momentum > 0 && op.attributes[attr::dampening] == 0),
        Code::invalid_argument, "nesterov is true, expected a momentum above 0 and a dampening of 0");
  for (int k = 0; k < (op.has(3) ? 2 : 1); ++k) add_output(op);
}

Schema sgd_step() {
  Schema schema(
      "sgd_step", "optimizer_step",
      "A step of stochastic gradient descent, with momentum and weight decay.\n\n"
      "g = grad + weight_decay * weight; v = momentum * velocity + (1 - dampening) * g; "
      "w = weight - lr * (nesterov ? g + momentum * v : v), without velocity w = weight - lr * g\n\n"
      "Returns w, and v where velocity is given, in the shape and dtype of weight; computed in f32.  A velocity that "
      "begins with zeros is as in torch, but for dampening, which torch leaves out of the first step.\n\n"
      "Source: semantics of torch.optim.SGD; I. Sutskever et al., On the importance of initialization and "
      "momentum in deep learning, 2013.");
  schema.constant(attr::function, std::string("sgd"))
      .tensor("weight", "any shape; f32, f16 or bf16")
      .of(dtypes::floats)
      .tensor("grad", "the shape of weight, of any of these dtypes")
      .like_or("weight", dtypes::floats)
      .tensor("lr", kRate)
      .of({DType::f32})
      .optional("velocity", "the shape and dtype of weight")
      .like("weight")
      .optional("grad_scale", kFactor)
      .of({DType::f32})
      .attribute(attr::momentum, 0.0, "at least 0")
      .attribute(attr::dampening, 0.0, "share of the gradient that velocity does not take")
      .attribute(attr::nesterov, false, "look one step ahead")
      .attribute(attr::weight_decay, 0.0, "at least 0")
      .result(Result("w").like("weight").shaped("weight").updates("weight"))
      .result(Result("v").like("weight").shaped("weight").updates("velocity").with("velocity"));
  schema.infer = infer_sgd;
  schema.flops = [](const Op& op) { return 6.0 * double(op.in(0).elements()); };
  return schema;
}

void infer_adam(Op& op) {
  for (int i : {1, 3, 4}) check_alike(op, i);
  for (int i : {2, 5}) check_scalar(op, i);
  check_factor(op, 6);
  check_decay(op);
  check_finite(op, attr::eps);
  for (const Key<double>& key : {attr::beta1, attr::beta2}) {
    const double beta = op.attributes[key];
    check(op, beta >= 0 && beta < 1, Code::invalid_argument, key, " is ", beta, ", expected 0 to less than 1");
  }
  for (int k = 0; k < 3; ++k) add_output(op);
}

Schema adam_step(bool decoupled) {
  Schema schema(decoupled ? "adamw_step" : "adam_step", "optimizer_step",
                concat("A step of Adam", decoupled ? " with decoupled weight decay (AdamW)" : "", ".\n\n",
                       decoupled ? "g = grad" : "g = grad + weight_decay * weight",
                       "; m = beta1 * mean + (1 - beta1) * g; v = beta2 * square + (1 - beta2) * g * g; w = weight",
                       decoupled ? " * (1 - lr * weight_decay)" : "",
                       " - lr * m / (1 - beta1^step) / (sqrt(v / (1 - beta2^step)) + eps)\n\n"
                       "Returns w, m and v in the shape and dtype of weight; computed in f32.\n\n"
                       "Source: semantics of torch.optim.",
                       decoupled ? "AdamW; I. Loshchilov, F. Hutter, arXiv 1711.05101."
                                 : "Adam; D. Kingma, J. Ba, arXiv 1412.6980."));
  schema.constant(attr::function, std::string("adam"))
      .constant(attr::decoupled, decoupled)
      .tensor("weight", "any shape; f32, f16 or bf16")
      .of(dtypes::floats)
      .tensor("grad", "the shape of weight, of any of these dtypes")
      .like_or("weight", dtypes::floats)
      .tensor("lr", kRate)
      .of({DType::f32})
      .tensor("mean", "the shape and dtype of weight: of gradients so far, zeros at first")
      .like("weight")
      .tensor("square", "the same of their squares")
      .like("weight")
      .tensor("step", "scalar, f32: the number of this step, from 1 on")
      .of({DType::f32})
      .optional("grad_scale", kFactor)
      .of({DType::f32})
      .attribute(attr::beta1, 0.9, "0 to less than 1")
      .attribute(attr::beta2, 0.999, "0 to less than 1")
      .attribute(attr::eps, 1e-8, "added to the root")
      .attribute(attr::weight_decay, decoupled ? 0.01 : 0.0, "at least 0")
      .result(Result("w").like("weight").shaped("weight").updates("weight"))
      .result(Result("m").like("weight").shaped("weight").updates("mean"))
      .result(Result("v").like("weight").shaped("weight").updates("square"));
  schema.infer = infer_adam;
  schema.flops = [](const Op& op) { return 14.0 * double(op.in(0).elements()); };
  return schema;
}

PL_REGISTER_OP(sgd_step);
PL_REGISTER_OP([] { return adam_step(false); });
PL_REGISTER_OP([] { return adam_step(true); });

}  // namespace
}  // namespace pl

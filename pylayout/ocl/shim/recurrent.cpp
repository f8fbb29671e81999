// Cells of LSTM and GRU, which PyTorch calls as one op on devices: a kernel for each gate and each state.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sum.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "formula.h"
#include "shim.h"

namespace ocl {
namespace {

using at::Tensor;

bool given(const MaybeTensor& tensor) { return tensor && tensor->defined(); }

std::string sigmoid(const std::string& x) { return "sigmoid(" + x + ")"; }
std::string tanh(const std::string& x) { return "tanh(" + x + ")"; }

// The gates of a cell: parts of (batch, gates * hidden), biases repeated for each of the batch.
struct Gates {
  std::vector<Tensor> input, hidden, input_bias, hidden_bias;

  Gates(const Tensor& of_input, const Tensor& of_hidden, const MaybeTensor& bias, const MaybeTensor& other_bias,
        int64_t count)
      : input(of_input.chunk(count, 1)), hidden(of_hidden.chunk(count, 1)) {
    if (given(bias)) input_bias = bias->expand_as(of_input).chunk(count, 1);
    if (given(other_bias)) hidden_bias = other_bias->expand_as(of_input).chunk(count, 1);
  }
  std::string from_input(Formula& f, size_t gate) const {
    return f.x(input[gate]) + (input_bias.empty() ? "" : " + " + f.x(input_bias[gate]));
  }
  std::string from_hidden(Formula& f, size_t gate) const {
    return f.x(hidden[gate]) + (hidden_bias.empty() ? "" : " + " + f.x(hidden_bias[gate]));
  }
  std::string sum(Formula& f, size_t gate) const { return from_input(f, gate) + " + " + from_hidden(f, gate); }
};

Tensor plain_like(const Tensor& x) { return at::empty(x.sizes(), x.options()); }

std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx,
                                             const MaybeTensor& input_bias, const MaybeTensor& hidden_bias) {
  const c10::DeviceGuard guard(cx.device());
  const Gates gates(input_gates, hidden_gates, input_bias, hidden_bias, 4);
  const Tensor workspace = plain_like(input_gates), hy = plain_like(cx), cy = plain_like(cx);
  if (cx.numel() == 0) return {hy, cy, workspace};
  const std::vector<Tensor> kept = workspace.chunk(4, 1);  // input, forget, cell, output
  for (size_t gate = 0; gate < 4; ++gate) {
    Formula f;
    const std::string sum = gates.sum(f, gate);
    f.write(kept[gate], gate == 2 ? tanh(sum) : sigmoid(sum));
  }
  {
    Formula f;
    f.write(cy, f.x(kept[1]) + " * " + f.x(cx) + " + " + f.x(kept[0]) + " * " + f.x(kept[2]));
  }
  Formula f;
  f.write(hy, f.x(kept[3]) + " * " + tanh(f.x(cy)));
  return {hy, cy, workspace};
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const MaybeTensor& grad_hy, const MaybeTensor& grad_cy,
                                                      const Tensor& cx, const Tensor& cy, const Tensor& workspace,
                                                      bool has_bias) {
  if (!given(grad_hy) && !given(grad_cy)) return {};
  const c10::DeviceGuard guard(cx.device());
  const Tensor grad_gates = plain_like(workspace), grad_cx = plain_like(cx);
  if (cx.numel() > 0) {
    const std::vector<Tensor> kept = workspace.chunk(4, 1), made = grad_gates.chunk(4, 1);
    // The gradient of the new state of the cell.
    const auto of_cell = [&](Formula& f) {
      std::string text = given(grad_cy) ? f.x(*grad_cy) : "";
      if (given(grad_hy))
        text += (text.empty() ? "" : " + ") + f.x(*grad_hy) + " * " + f.x(kept[3]) + " * (1.0 - tanh(" + f.x(cy) +
                ") * tanh(" + f.x(cy) + "))";
      return "(" + text + ")";
    };
    const auto slope = [](const std::string& gate) { return gate + " * (1.0 - " + gate + ")"; };
    const Tensor* const factors[] = {&kept[2], &cx, &kept[0]};
    for (size_t gate = 0; gate < 3; ++gate) {
      Formula f;
      const std::string value = f.x(kept[gate]);
      f.write(made[gate], of_cell(f) + " * " + f.x(*factors[gate]) + " * " +
                              (gate == 2 ? "(1.0 - " + value + " * " + value + ")" : slope(value)));
    }
    if (given(grad_hy)) {
      Formula f;
      f.write(made[3], f.x(*grad_hy) + " * tanh(" + f.x(cy) + ") * " + slope(f.x(kept[3])));
    } else {
      Tensor(made[3]).zero_();
    }
    Formula f;
    f.write(grad_cx, of_cell(f) + " * " + f.x(kept[1]));
  }
  return {grad_gates, grad_cx, has_bias ? grad_gates.sum(0) : Tensor()};
}

std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hx,
                                    const MaybeTensor& input_bias, const MaybeTensor& hidden_bias) {
  const c10::DeviceGuard guard(hx.device());
  const Gates gates(input_gates, hidden_gates, input_bias, hidden_bias, 3);
  const Tensor workspace = at::empty({hx.size(0), 5 * hx.size(1)}, hx.options()), hy = plain_like(hx);
  if (hx.numel() == 0) return {hy, workspace};
  // reset, update, new, the state, what the new gate takes of the state
  const std::vector<Tensor> kept = workspace.chunk(5, 1);
  for (size_t gate = 0; gate < 2; ++gate) {
    Formula f;
    f.write(kept[gate], sigmoid(gates.sum(f, gate)));
  }
  Tensor(kept[3]).copy_(hx);
  {
    Formula f;
    f.write(kept[4], gates.from_hidden(f, 2));
  }
  {
    Formula f;
    const std::string sum = gates.from_input(f, 2);
    f.write(kept[2], tanh(sum + " + " + f.x(kept[0]) + " * " + f.x(kept[4])));
  }
  Formula f;
  f.write(hy, f.x(kept[2]) + " + " + f.x(kept[1]) + " * (" + f.x(hx) + " - " + f.x(kept[2]) + ")");
  return {hy, workspace};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& grad_hy, const Tensor& workspace,
                                                                     bool has_bias) {
  const c10::DeviceGuard guard(grad_hy.device());
  const Tensor of_input = at::empty({grad_hy.size(0), 3 * grad_hy.size(1)}, grad_hy.options());
  const Tensor of_hidden = plain_like(of_input), grad_hx = plain_like(grad_hy);
  if (grad_hy.numel() > 0) {
    const std::vector<Tensor> kept = workspace.chunk(5, 1), input = of_input.chunk(3, 1),
                              hidden = of_hidden.chunk(3, 1);
    const Tensor &reset = kept[0], &update = kept[1], &fresh = kept[2], &hx = kept[3], &from_hidden = kept[4];
    {
      Formula f;
      const std::string n = f.x(fresh);
      f.write(input[2], f.x(grad_hy) + " * (1.0 - " + f.x(update) + ") * (1.0 - " + n + " * " + n + ")");
    }
    {
      Formula f;
      const std::string r = f.x(reset);
      f.write(input[0], f.x(input[2]) + " * " + f.x(from_hidden) + " * (1.0 - " + r + ") * " + r);
    }
    {
      Formula f;
      const std::string z = f.x(update);
      f.write(input[1], f.x(grad_hy) + " * (" + f.x(hx) + " - " + f.x(fresh) + ") * (1.0 - " + z + ") * " + z);
    }
    {
      Formula f;
      f.write(hidden[2], f.x(input[2]) + " * " + f.x(reset));
    }
    of_hidden.narrow(1, 0, 2 * grad_hy.size(1)).copy_(of_input.narrow(1, 0, 2 * grad_hy.size(1)));
    Formula f;
    f.write(grad_hx, f.x(grad_hy) + " * " + f.x(update));
  }
  return {of_input, of_hidden, grad_hx, has_bias ? of_input.sum(0) : Tensor(), has_bias ? of_hidden.sum(0) : Tensor()};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_thnn_fused_lstm_cell", lstm_cell);
  m.impl("_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward);
  m.impl("_thnn_fused_gru_cell", gru_cell);
  m.impl("_thnn_fused_gru_cell_backward", gru_cell_backward);
}

}  // namespace ocl

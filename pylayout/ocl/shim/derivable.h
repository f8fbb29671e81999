// Gradients whose gradients are asked for (`create_graph=True`): those of PyTorch's own ops in the place of a program.
#pragma once

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

namespace ocl {

// The gradients of `function` of `given` by each of these; undefined for what derives nothing.
template <class Function>
torch::autograd::variable_list derivable_gradients(const torch::autograd::variable_list& given,
                                                   const at::Tensor& gradient, const Function& function) {
  // One of them may be made of another, or be it: of aliases, only the function's own use of each counts.
  torch::autograd::variable_list aliases, deriving;
  for (const at::Tensor& each : given) {
    const bool derives = each.defined() && each.requires_grad();
    aliases.push_back(derives ? each.view_as(each) : each);
    if (derives) deriving.push_back(aliases.back());
  }
  const at::Tensor y = function(aliases);
  const torch::autograd::variable_list found = torch::autograd::grad({y}, deriving, {gradient}, true, true, true);
  torch::autograd::variable_list made(given.size());
  for (size_t i = 0, next = 0; i < given.size(); ++i)
    if (given[i].defined() && given[i].requires_grad()) made[i] = found[next++];
  return made;
}

}  // namespace ocl

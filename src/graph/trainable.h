// An inference program as one that trains: weights become parameters, batch norms take the statistics of the batch.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace pl {

class Context;

// Which constants become parameters: what whoever made the graph knows of one.
enum class Trained {
  by_use,   // nothing: a weight where ops call it so, and where it is added to, multiplied by or looked up in
  always,   // a parameter
  never,    // a table, or a number of the formula
  by_role,  // made of weights or of tables, nobody knows: a weight where only weights are
  given,    // something that the model brings along: a weight wherever data meet it
};

// What becomes a parameter, named as it is.  `kinds`: by value, by_use beyond its end.
//
// A constant of a floating dtype, or what ops make of it before data come in (the same matrix turned, a table cut, a
// direction times a length), is a weight where an op takes it beside data:
// - as Role::constant: any but never.
// - as an operand of a matrix product: any, but by_role only if nothing but its shape has changed.
// - in sums, products and quotients: by_use and given; by_role only where it is one number for each index of one axis.
// - in look-ups: by_use and given.
// - elsewhere: given.
// One number is a weight as Role::constant, and as the bias of a matrix product.  A summand that holds infinities or
// numbers beyond 10,000 is a mask, and what is multiplied by numbers of the formula or by integers made floats is a
// table: positions by frequencies.
//
// Each such constant is one parameter however often it is used; its gradient is the sum of what all uses give.
//
// A batch_norm whose running statistics are constants becomes batch_norm_training, and those become states that follow
// the batch's by `momentum`.
//
// Attention, activations and norms that are spelled out become one op each, products with parameters linear ops, and
// views of rows move behind them (training_passes()), where no axis is named: passes know one size of each axis only.
Graph trainable(const Graph& graph, double momentum, const std::vector<Trained>& kinds, Context& context);

}  // namespace pl

// Batches: whether a graph treats the images of a batch independently, and the same graph for fewer of them.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/graph.h"

namespace pl {

// The size of axis 0 of every input and output, if each slice of the outputs along it follows from the same slice of
// the inputs alone (ops/rules.h, keeps_images_apart).  Nothing where an op mixes images or does not say.
std::optional<int64_t> batch_of(const Graph& graph);

// The graph for `batch` images; needs batch_of(graph).
Graph with_batch(const Graph& graph, int64_t batch);

}  // namespace pl

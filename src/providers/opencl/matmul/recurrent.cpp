// recurrent and recurrent_backward: lstm, gru and rnn, and their gradients (kernels/recurrent/).  What x adds to the
// gates is one product; then a work-group for a few sequences of a direction goes through the steps, or each step is a
// launch; the gradients of x and of the weights are products of all steps again.
#include <algorithm>

#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

enum Input { kX, kW, kR, kY, kGrad };  // the last two: of a backward op
enum Output { kOfX, kOfW, kOfR, kOfBias, kOfInitialH, kOfInitialC, kOfPeephole };
constexpr int64_t kMostItems = 256;
constexpr int64_t kMostSequences = 4;  // of a work-group: more sums than that would leave registers
constexpr int64_t kLeastStepUnits = 8, kMostStepUnits = 32;
constexpr int64_t kStepItems = 256, kStepTile = 8;  // of a work-group, and TILE, of recurrent/step.clh
constexpr int64_t kSumUnits = 32, kSumSlices = 8;   // of recurrent_sums
constexpr int64_t kMostSteps = 1024;                // a launch each
enum GivenInput { kBiases = 1, kLengths = 2, kFirstH = 4, kFirstC = 8, kPeepholes = 16, kGradH = 32, kGradC = 64 };

struct MatrixPlace {  // matrix_place of recurrent_product.cl
  cl_int offset = 0, each = 0, sum = 0, outer = 0, inner = 0;
};
struct LayerSizes {  // layer_sizes of layer.clh
  cl_int steps, batch, directions, given;
  cl_int gates_at, turned_at, cells_at, previous_at, reset_at, states_at;
};

struct Layer {
  bool backward, lstm, gru, batch_first;
  int64_t step_units;  // of a work-group that takes one step: TILE_UNITS of recurrent/step.clh; 0: it takes all steps
  int64_t gates, slots, steps, batch, features, hidden, directions;
  int bias, lengths, first_h, first_c, peephole, grad_h, grad_c;  // inputs, -1 where they are not given
  int group, sequences;                                           // work-items, and sequences, of a work-group
  LayerSizes sizes{};
  int64_t floats = 0;  // of the workspace
  int64_t largest = 0;
  int64_t compute_units;

  // `given_units`: a launch a step; 0: one for all.
  Layer(const Op& op, const OpenclDevice& device, int64_t given_units = 0)
      : backward(op.schema->kind == "recurrent_backward"),
        lstm(op.attributes[attr::cell] == "lstm"),
        gru(op.attributes[attr::cell] == "gru"),
        batch_first(op.attributes[attr::batch_first]),
        step_units(given_units),
        gates(op.attributes[attr::gates]),
        slots(lstm || gru ? 4 : 1),
        steps(op.in(kX).shape[batch_first ? 1 : 0]),
        batch(op.in(kX).shape[batch_first ? 0 : 1]),
        features(op.in(kX).shape[2]),
        hidden(op.in(kR).shape[2]),
        directions(op.in(kR).shape[0]) {
    const auto given = [&](const char* name, int bit) {
      const int i = op.schema->input_index(name);
      if (i < 0 || !op.has(i)) return -1;
      sizes.given |= bit;
      return i;
    };
    bias = given("b", kBiases);
    lengths = given("sequence_lens", GivenInput::kLengths);
    first_h = given("initial_h", kFirstH);
    first_c = given("initial_c", kFirstC);
    peephole = given("p", kPeepholes);
    grad_h = given("grad_h", kGradH);
    grad_c = given("grad_c", kGradC);
    group = 1;
    if (!device.capabilities().cpu)
      while (group < hidden &&
             group * 2 <= std::min<int64_t>(kMostItems, int64_t(device.capabilities().max_work_group)))
        group *= 2;
    // Each weight that a work-group reads counts for all of its sequences; but there are to be work-groups enough.
    sequences = 1;
    const Capabilities& can = device.capabilities();
    compute_units = int64_t(can.compute_units);
    while (!can.cpu && sequences * 2 <= kMostSequences && state_bytes(sequences * 2) <= can.local_memory &&
           directions * batch >= int64_t(sequences) * can.compute_units)
      sequences *= 2;
    constexpr int64_t kAligned = 8;  // the values of kStepTile sequences are read at once
    const auto take = [&](int64_t count) {
      const int64_t at = floats;
      floats += divided_up(count, kAligned) * kAligned;
      return cl_int(std::min(at, kNarrowLimit));
    };
    sizes.steps = cl_int(steps);
    sizes.batch = cl_int(batch);
    sizes.directions = cl_int(directions);
    sizes.gates_at = take(directions * rows() * slots * hidden);
    if (!backward || !by_steps()) sizes.turned_at = take(directions * gates * hidden * hidden);
    if (backward) {
      sizes.previous_at = take(directions * rows() * hidden);
      if (lstm) sizes.cells_at = take(directions * rows() * hidden);
      if (gru && !by_steps()) sizes.reset_at = take(directions * rows() * hidden);
    }
    if (by_steps()) sizes.states_at = take((backward ? 2 * gates + 1 : 3) * directions * hidden * padded_batch());
    largest = floats;
    for (const auto* list : {&op.inputs, &op.outputs})
      for (const TensorDesc& desc : *list)
        if (desc.present) largest = std::max(largest, desc.elements());
  }
  bool by_steps() const { return step_units > 0; }  // a launch each
  int64_t rows() const { return steps * batch; }
  int64_t padded_batch() const { return divided_up(batch, kStepTile) * kStepTile; }
  size_t state_bytes(int64_t count) const { return size_t(3 * hidden * count) * sizeof(float); }  // of local memory
  int64_t columns() const { return gates * hidden; }
  // Of a work-group of a GPU that goes through all steps: it reads the weights, as an H200's does.
  double own_step_ms() const {
    constexpr double kBytesPerMs = 35e6, kLeastMs = 0.005;
    return (kLeastMs + double(columns() * hidden) * sizeof(float) / kBytesPerMs) * (backward ? 2 : 1);
  }

  KernelSource source(const Op& op, const char* file) const {
    KernelSource made(file);
    made.define("CELL", lstm ? 0 : gru ? 1 : 2).define("UNITS", hidden).define("GROUP", group);
    made.define("X_DTYPE", name_of(op.in(kX).dtype)).define("BATCH_FIRST", int(batch_first));
    made.define("FIRST_REVERSED", int(op.attributes[attr::direction] == "reverse"));
    if (gru) made.define("RESET_AFTER", int(op.attributes[attr::linear_before_reset]));
    if (!lstm && !gru) made.define("RELU", int(op.attributes[attr::nonlinearity] == "relu"));
    if (lengths >= 0) made.define("LENGTHS_T", op.in(lengths).dtype == DType::s32 ? "int" : "long");
    return made;
  }
  bool reset_after(const Op& op) const { return gru && op.attributes[attr::linear_before_reset]; }
  // A work-group for units of a few sequences in one direction.
  Launch& over_units(Launch& launch, int64_t step) const {
    launch.raw(&sizes, sizeof sizes).scalar(cl_int(step));
    return launch
        .global({size_t(divided_up(hidden, step_units) * step_units),
                 size_t(divided_up(batch, kStepTile) * (kStepItems / step_units)), size_t(directions)})
        .local({size_t(step_units), size_t(kStepItems / step_units), 1});
  }
  // A work-item for each of so many numbers.
  Launch& over_numbers(Launch& launch, int64_t count) const {
    return launch.raw(&sizes, sizeof sizes).global({size_t(count)}).local({64});
  }
  // A work-group for so many sequences in one direction.
  Launch& over_sequences(Launch& launch, int64_t each) const {
    const int64_t groups = directions * divided_up(batch, each);
    return launch.raw(&sizes, sizeof sizes).global({size_t(groups * group)}).local({size_t(group)});
  }
};

// An input, or any where it is not given.
Launch& pass(Launch& launch, int input) { return launch.input(input < 0 ? kX : input); }

struct Factor {
  enum From { input, workspace } from;
  int index;
  DType dtype;
  MatrixPlace place;
};
struct Extent {
  int64_t rows, columns, terms, sums, count;
};

// `output`: -1 for the workspace.  `adds`: to what is there.
void add_layer_product(KernelList& kernel, int64_t compute_units, const Factor& a, const Factor& b, int output,
                       DType dtype, const MatrixPlace& of_output, const Extent& extent, bool adds = false) {
  // Of a wide tile each number that is read counts for more products; but there are to be work-groups enough.
  int64_t tile = 128;
  const auto groups = [&] { return divided_up(extent.rows, tile) * divided_up(extent.columns, tile) * extent.count; };
  while (tile > 32 && (groups() < compute_units || std::min(extent.rows, extent.columns) <= tile / 2)) tile /= 2;
  const int64_t items = std::min<int64_t>(16, tile / 4);
  KernelSource source("recurrent/recurrent_product.cl");
  source.define("A_DTYPE", name_of(a.dtype)).define("B_DTYPE", name_of(b.dtype)).define("DST_DTYPE", name_of(dtype));
  source.define("A_INNER", int(a.place.inner == 1)).define("B_INNER", int(b.place.inner == 1));
  source.define("TILE", tile).define("ITEMS", items).define("ADDS", int(adds));
  Launch& launch = kernel.add(source, "recurrent_product");
  for (const Factor* factor : {&a, &b})
    factor->from == Factor::input ? launch.input(factor->index) : launch.workspace();
  output < 0 ? launch.workspace() : launch.output(output);
  for (const MatrixPlace* place : {&a.place, &b.place, &of_output}) launch.raw(place, sizeof *place);
  for (int64_t size : {extent.rows, extent.columns, extent.terms, extent.sums}) launch.scalar(cl_int(size));
  const auto side = [&](int64_t size) { return size_t(divided_up(size, tile) * items); };
  launch.global({side(extent.columns), side(extent.rows), size_t(extent.count)})
      .local({size_t(items), size_t(items), 1});
}

MatrixPlace place(int64_t offset, int64_t each, int64_t sum, int64_t outer, int64_t inner) {
  return {cl_int(offset), cl_int(each), cl_int(sum), cl_int(outer), cl_int(inner)};
}

void add_each_step(KernelList& kernel, const Op& op, const Layer& layer) {
  KernelSource source = layer.source(op, "recurrent/recurrent_step.cl");
  source.define("TILE_UNITS", layer.step_units);
  const int last_c = layer.lstm ? 2 : 1;
  Launch& states = kernel.add(source, "recurrent_states").workspace();
  pass(pass(pass(states, layer.lengths), layer.first_h), layer.first_c).output(1).output(last_c);
  layer.over_numbers(states, layer.directions * layer.hidden * layer.padded_batch());
  for (int64_t s = 0; s < layer.steps; ++s) {
    Launch& step = kernel.add(source, "recurrent_step").workspace();
    pass(pass(pass(step, layer.bias), layer.lengths), layer.peephole).output(0).output(1).output(last_c);
    layer.over_units(step, s);
  }
}

// The gradients of gates, a launch a step: the values of gates are found before, without going through the steps.
void add_each_step_back(KernelList& kernel, const Op& op, const Layer& layer) {
  KernelSource source = layer.source(op, "recurrent/recurrent_step_back.cl");
  source.define("TILE_UNITS", layer.step_units);
  const LayerSizes& sizes = layer.sizes;
  const int64_t hidden = layer.hidden, rows = layer.rows(), row = layer.slots * hidden;
  Launch& previous = kernel.add(source, "recurrent_previous").workspace().input(kY);
  layer.over_numbers(pass(pass(previous, layer.lengths), layer.first_h), layer.directions * rows * hidden);
  // r h: of a GRU's third gate by itself.
  const auto add_product = [&](int64_t first, int64_t gates, int64_t slot, bool adds) {
    add_layer_product(
        kernel, layer.compute_units,
        {Factor::workspace, 0, DType::f32, place(sizes.previous_at, rows * hidden, 0, hidden, 1)},
        {Factor::input, kR, op.in(kR).dtype, place(first * hidden * hidden, layer.columns() * hidden, 0, hidden, 1)},
        -1, DType::f32, place(sizes.gates_at + slot * hidden, rows * row, 0, row, 1),
        {rows, gates * hidden, hidden, 1, layer.directions}, adds);
  };
  add_product(0, layer.gru ? 2 : layer.gates, 0, true);
  if (layer.gru) add_product(2, 1, 3, false);
  Launch& gates = kernel.add(source, "recurrent_gates").workspace();
  for (int input : {layer.bias, layer.lengths, layer.first_c, layer.peephole}) pass(gates, input);
  layer.over_numbers(gates, layer.directions * layer.batch * hidden);
  for (int64_t s = layer.steps - 1; s >= -1; --s) {
    Launch& step = kernel.add(source, "recurrent_step_back").workspace().input(kR).input(kGrad);
    for (int input : {layer.lengths, layer.first_c, layer.peephole, layer.grad_h, layer.grad_c}) pass(step, input);
    layer.over_units(step.output(kOfInitialH).output(layer.lstm ? kOfInitialC : kOfInitialH), s);
  }
}

// What both begin with: products with x, the steps; of a launch each, backward, with those backwards.
void add_steps(KernelList& kernel, const Op& op, const Layer& layer) {
  const DType dtype = op.in(kX).dtype;
  const int64_t columns = layer.columns(), features = layer.features, row = layer.slots * layer.hidden;
  add_layer_product(kernel, layer.compute_units, {Factor::input, kX, dtype, place(0, 0, 0, features, 1)},
                    {Factor::input, kW, dtype, place(0, columns * features, 0, features, 1)}, -1, DType::f32,
                    place(layer.sizes.gates_at, layer.rows() * row, 0, row, 1),
                    {layer.rows(), columns, features, 1, layer.directions});
  if (layer.by_steps() && layer.backward) return add_each_step_back(kernel, op, layer);
  KernelSource source = layer.source(op, "recurrent/recurrent_steps.cl");
  source.define("KEEP", int(layer.backward)).define("SEQUENCES", layer.sequences);
  Launch& turn = kernel.add(source, "recurrent_turn").input(kR).workspace();
  layer.over_numbers(turn, layer.directions * columns * layer.hidden);
  if (layer.by_steps()) return add_each_step(kernel, op, layer);
  Launch& steps = kernel.add(source, "recurrent_steps").workspace();
  for (int input : {layer.bias, layer.lengths, layer.first_h, layer.first_c, layer.peephole}) pass(steps, input);
  layer.backward ? steps.input(kY) : steps.output(0).output(1).output(layer.lstm ? 2 : 1);
  layer.over_sequences(steps, layer.sequences);
}

std::unique_ptr<Kernel> prepare_recurrent(OpenclDevice& device, const Op& op, const Layer& layer) {
  auto kernel = std::make_unique<KernelList>(device);
  add_steps(*kernel, op, layer);
  if (!layer.backward) return kernel;
  const LayerSizes& sizes = layer.sizes;
  const DType dtype = op.in(kX).dtype;
  const int64_t rows = layer.rows(), columns = layer.columns(), features = layer.features, hidden = layer.hidden;
  const int64_t row = layer.slots * hidden, count = layer.directions;
  const KernelSource source = layer.source(op, "recurrent/recurrent_steps_back.cl");
  if (!layer.by_steps()) {
    Launch& back = kernel->add(source, "recurrent_steps_back").workspace().input(kR).input(kGrad);
    for (int input : {layer.lengths, layer.first_c, layer.peephole, layer.grad_h, layer.grad_c}) pass(back, input);
    layer.over_sequences(back.output(kOfInitialH).output(layer.lstm ? kOfInitialC : kOfInitialH), 1);
  }
  Launch& sums = kernel->add(source, "recurrent_sums").workspace();
  pass(pass(sums, layer.lengths), layer.first_c).output(kOfBias).output(layer.lstm ? kOfPeephole : kOfBias);
  sums.raw(&sizes, sizeof sizes);
  const int64_t parts = 2 * layer.gates + (layer.lstm ? 3 : 0);
  sums.global({size_t(divided_up(hidden, kSumUnits) * kSumUnits), size_t(kSumSlices), size_t(count * parts)})
      .local({size_t(kSumUnits), size_t(kSumSlices), 1});
  // By x, of both directions; by the weights of x; by those of the state.
  add_layer_product(*kernel, layer.compute_units,
                    {Factor::workspace, 0, DType::f32, place(sizes.gates_at, 0, rows * row, row, 1)},
                    {Factor::input, kW, dtype, place(0, 0, columns * features, 1, features)}, kOfX, dtype,
                    place(0, 0, 0, features, 1), {rows, features, columns, count, 1});
  const auto by_column = [&](int64_t slot) {
    return Factor{Factor::workspace, 0, DType::f32, place(sizes.gates_at + slot * hidden, rows * row, 0, 1, row)};
  };
  add_layer_product(*kernel, layer.compute_units, by_column(0), {Factor::input, kX, dtype, place(0, 0, 0, 1, features)},
                    kOfW, dtype, place(0, columns * features, 0, features, 1), {columns, features, rows, 1, count});
  const auto by_state = [&](int64_t slot, int64_t at, int64_t first, int64_t gates) {
    add_layer_product(*kernel, layer.compute_units, by_column(slot),
                      {Factor::workspace, 0, DType::f32, place(at, rows * hidden, 0, 1, hidden)}, kOfR, dtype,
                      place(first * hidden * hidden, columns * hidden, 0, hidden, 1),
                      {gates * hidden, hidden, rows, 1, count});
  };
  if (!layer.gru) {
    by_state(0, sizes.previous_at, 0, layer.gates);
  } else {
    const bool after = layer.reset_after(op);
    by_state(0, sizes.previous_at, 0, 2);
    by_state(after ? 3 : 2, after ? sizes.previous_at : sizes.reset_at, 2, 1);
  }
  return kernel;
}

void add_recurrent(const Op& op, OpenclDevice& device, const Layer& layer, CandidateList& out) {
  Candidate candidate = make_candidate(
      op, op.schema->kind + (layer.by_steps() ? concat("_by_steps[units=", layer.step_units, "]") : std::string()));
  for (auto* tensors : {&candidate.inputs, &candidate.outputs})
    for (TensorDesc& desc : *tensors)
      if (desc.present) desc = desc.with_layout(Layout::plain(desc.rank()));
  candidate.workspace_bytes = size_t(layer.floats) * sizeof(float);
  // A work-group that goes through all steps reads the weights of the state from caches in each.
  candidate.efficiency = layer.by_steps() ? 0.2 : 0.03;
  const double step_ms = layer.by_steps() ? kLaunchMs : layer.own_step_ms();
  if (layer.by_steps() || !device.capabilities().cpu) candidate.start_ms = step_ms * double(layer.steps);
  candidate.prepare = [&device, op, layer] { return prepare_recurrent(device, op, layer); };
  out.add(std::move(candidate));
}

// A few work-groups for each compute unit, which wait for the weights in turns; of more, each would read less at once.
int64_t step_units_for(const Layer& layer) {
  const int64_t most = layer.compute_units * (layer.backward ? 4 : 2);
  const int64_t others = layer.directions * divided_up(layer.batch, kStepTile);
  int64_t units = kMostStepUnits;
  while (units > kLeastStepUnits && others * divided_up(layer.hidden, units / 2) <= most) units /= 2;
  return units;
}

void list_by_steps(const Op& op, OpenclDevice& device, CandidateList& out) {
  const Capabilities& can = device.capabilities();
  if (can.cpu || can.max_work_group < size_t(kStepItems)) return;
  const Layer any(op, device, kMostStepUnits);
  const auto bytes = size_t((any.backward ? 1 : any.gates) * kStepTile * kStepItems) * sizeof(float);
  if ((any.gru && !any.reset_after(op)) || any.steps == 0 || any.steps > kMostSteps) return;
  if (bytes > can.local_memory || any.largest > kNarrowLimit) return;
  const int64_t best = step_units_for(any);
  for (int64_t units = kLeastStepUnits; units <= kMostStepUnits; units *= 2)
    if (units == best || out.whole_space) add_recurrent(op, device, Layer(op, device, units), out);
}

void list_recurrent(const Op& op, OpenclDevice& device, CandidateList& out) {
  list_by_steps(op, device, out);
  const Layer layer(op, device);
  const size_t bytes = layer.state_bytes(1);
  if (bytes > device.capabilities().local_memory)
    return out.refuse("opencl",
                      concat(op.schema->name, ": the state's ", layer.hidden, " units take ", bytes,
                             " bytes of local memory, of which the device has ", device.capabilities().local_memory));
  if (layer.largest > kNarrowLimit)
    return out.refuse("opencl", op.schema->name + ": needs indices of more than 31 bits");
  add_recurrent(op, device, layer, out);
}

PL_OPENCL_OP("recurrent", list_recurrent);
PL_OPENCL_OP("recurrent_backward", list_recurrent);

}  // namespace
}  // namespace pl::opencl

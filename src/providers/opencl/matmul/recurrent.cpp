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
constexpr int64_t kMostSequences = 4;              // of a work-group: more sums than that would leave registers
constexpr int64_t kStepUnits = 32, kStepTile = 8;  // TILE_UNITS and TILE of recurrent_step.cl
constexpr int64_t kMostSteps = 1024;               // a launch each
constexpr int64_t kMostNumbers = (int64_t(1) << 31) - (1 << 20);  // that indices count
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
  bool by_steps;  // a launch each
  int64_t gates, slots, steps, batch, features, hidden, directions;
  int bias, lengths, first_h, first_c, peephole, grad_h, grad_c;  // inputs, -1 where they are not given
  int group, sequences;                                           // work-items, and sequences, of a work-group
  LayerSizes sizes{};
  int64_t floats = 0;  // of the workspace
  int64_t largest = 0;

  Layer(const Op& op, const OpenclDevice& device, bool given_by_steps = false)
      : backward(op.schema->kind == "recurrent_backward"),
        lstm(op.attributes[attr::cell] == "lstm"),
        gru(op.attributes[attr::cell] == "gru"),
        batch_first(op.attributes[attr::batch_first]),
        by_steps(given_by_steps),
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
    while (!can.cpu && sequences * 2 <= kMostSequences && state_bytes(sequences * 2) <= can.local_memory &&
           directions * batch >= int64_t(sequences) * can.compute_units)
      sequences *= 2;
    const auto take = [&](int64_t count) {
      const int64_t at = floats;
      floats += count;
      return cl_int(std::min(at, kMostNumbers));
    };
    sizes.steps = cl_int(steps);
    sizes.batch = cl_int(batch);
    sizes.directions = cl_int(directions);
    sizes.gates_at = take(directions * rows() * slots * hidden);
    sizes.turned_at = take(directions * gates * hidden * hidden);
    if (backward) {
      sizes.previous_at = take(directions * rows() * hidden);
      if (lstm) sizes.cells_at = take(directions * rows() * hidden);
      if (gru) sizes.reset_at = take(directions * rows() * hidden);
    }
    if (by_steps) sizes.states_at = take(3 * directions * hidden * padded_batch());
    largest = floats;
    for (const auto* list : {&op.inputs, &op.outputs})
      for (const TensorDesc& desc : *list)
        if (desc.present) largest = std::max(largest, desc.elements());
  }
  int64_t rows() const { return steps * batch; }
  int64_t padded_batch() const { return divided_up(batch, kStepTile) * kStepTile; }
  size_t state_bytes(int64_t count) const { return size_t(3 * hidden * count) * sizeof(float); }  // of local memory
  int64_t columns() const { return gates * hidden; }

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

// `output`: -1 for the workspace.
void add_layer_product(KernelList& kernel, const Factor& a, const Factor& b, int output, DType dtype,
                       const MatrixPlace& of_output, const Extent& extent) {
  constexpr int64_t kItems = 16;
  // Of a wide tile each number that is read counts for four products, of a narrow one for two.
  const int64_t tile = std::min(extent.rows, extent.columns) > 48 ? 64 : 32;
  KernelSource source("recurrent/recurrent_product.cl");
  source.define("A_DTYPE", name_of(a.dtype)).define("B_DTYPE", name_of(b.dtype)).define("DST_DTYPE", name_of(dtype));
  source.define("A_INNER", int(a.place.inner == 1)).define("B_INNER", int(b.place.inner == 1));
  source.define("TILE", tile).define("ITEMS", kItems);
  Launch& launch = kernel.add(source, "recurrent_product");
  for (const Factor* factor : {&a, &b})
    factor->from == Factor::input ? launch.input(factor->index) : launch.workspace();
  output < 0 ? launch.workspace() : launch.output(output);
  for (const MatrixPlace* place : {&a.place, &b.place, &of_output}) launch.raw(place, sizeof *place);
  for (int64_t size : {extent.rows, extent.columns, extent.terms, extent.sums}) launch.scalar(cl_int(size));
  const auto items = [&](int64_t size) { return size_t(divided_up(size, tile) * kItems); };
  launch.global({items(extent.columns), items(extent.rows), size_t(extent.count)})
      .local({size_t(kItems), size_t(kItems), 1});
}

MatrixPlace place(int64_t offset, int64_t each, int64_t sum, int64_t outer, int64_t inner) {
  return {cl_int(offset), cl_int(each), cl_int(sum), cl_int(outer), cl_int(inner)};
}

void add_each_step(KernelList& kernel, const Op& op, const Layer& layer) {
  const KernelSource source = layer.source(op, "recurrent/recurrent_step.cl");
  const int last_c = layer.lstm ? 2 : 1;
  Launch& states = kernel.add(source, "recurrent_states").workspace();
  pass(pass(pass(states, layer.lengths), layer.first_h), layer.first_c).output(1).output(last_c);
  states.raw(&layer.sizes, sizeof layer.sizes);
  states.global({size_t(layer.directions * layer.hidden * layer.padded_batch())}).local({64});
  for (int64_t s = 0; s < layer.steps; ++s) {
    Launch& step = kernel.add(source, "recurrent_step").workspace();
    pass(pass(pass(step, layer.bias), layer.lengths), layer.peephole).output(0).output(1).output(last_c);
    step.raw(&layer.sizes, sizeof layer.sizes).scalar(cl_int(s));
    step.global({size_t(divided_up(layer.hidden, kStepUnits) * kStepUnits), size_t(layer.padded_batch()),
                 size_t(layer.directions)})
        .local({size_t(kStepUnits), size_t(kStepTile), 1});
  }
}

// What both begin with: products with x, the weights of the state turned, the steps.
void add_steps(KernelList& kernel, const Op& op, const Layer& layer) {
  const DType dtype = op.in(kX).dtype;
  const int64_t columns = layer.columns(), features = layer.features, row = layer.slots * layer.hidden;
  add_layer_product(kernel, {Factor::input, kX, dtype, place(0, 0, 0, features, 1)},
                    {Factor::input, kW, dtype, place(0, columns * features, 0, features, 1)}, -1, DType::f32,
                    place(layer.sizes.gates_at, layer.rows() * row, 0, row, 1),
                    {layer.rows(), columns, features, 1, layer.directions});
  KernelSource source = layer.source(op, "recurrent/recurrent_steps.cl");
  source.define("KEEP", int(layer.backward)).define("SEQUENCES", layer.sequences);
  Launch& turn = kernel.add(source, "recurrent_turn").input(kR).workspace();
  turn.raw(&layer.sizes, sizeof layer.sizes);
  turn.global({size_t(layer.directions * columns * layer.hidden)}).local({64});
  if (layer.by_steps) return add_each_step(kernel, op, layer);
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
  KernelSource source = layer.source(op, "recurrent/recurrent_steps_back.cl");
  Launch& back = kernel->add(source, "recurrent_steps_back").workspace().input(kR).input(kGrad);
  for (int input : {layer.lengths, layer.first_c, layer.peephole, layer.grad_h, layer.grad_c}) pass(back, input);
  layer.over_sequences(back.output(kOfInitialH).output(layer.lstm ? kOfInitialC : kOfInitialH), 1);
  Launch& sums = kernel->add(source, "recurrent_sums").workspace();
  pass(pass(sums, layer.lengths), layer.first_c).output(kOfBias).output(layer.lstm ? kOfPeephole : kOfBias);
  sums.raw(&sizes, sizeof sizes);
  sums.global({size_t(count * (2 * layer.gates + (layer.lstm ? 3 : 0)) * hidden)}).local({64});
  // By x, of both directions; by the weights of x; by those of the state.
  add_layer_product(*kernel, {Factor::workspace, 0, DType::f32, place(sizes.gates_at, 0, rows * row, row, 1)},
                    {Factor::input, kW, dtype, place(0, 0, columns * features, 1, features)}, kOfX, dtype,
                    place(0, 0, 0, features, 1), {rows, features, columns, count, 1});
  const auto by_column = [&](int64_t slot) {
    return Factor{Factor::workspace, 0, DType::f32, place(sizes.gates_at + slot * hidden, rows * row, 0, 1, row)};
  };
  add_layer_product(*kernel, by_column(0), {Factor::input, kX, dtype, place(0, 0, 0, 1, features)}, kOfW, dtype,
                    place(0, columns * features, 0, features, 1), {columns, features, rows, 1, count});
  const auto by_state = [&](int64_t slot, int64_t at, int64_t first, int64_t gates) {
    add_layer_product(*kernel, by_column(slot),
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
  Candidate candidate = make_candidate(op, op.schema->kind + (layer.by_steps ? "_by_steps" : ""));
  for (auto* tensors : {&candidate.inputs, &candidate.outputs})
    for (TensorDesc& desc : *tensors)
      if (desc.present) desc = desc.with_layout(Layout::plain(desc.rank()));
  candidate.workspace_bytes = size_t(layer.floats) * sizeof(float);
  // A work-group that goes through all steps reads the weights of the state from caches in each; they are few.
  candidate.efficiency = layer.by_steps ? 0.2 : 0.03;
  if (layer.by_steps) candidate.start_ms = kLaunchMs * double(layer.steps);
  candidate.prepare = [&device, op, layer] { return prepare_recurrent(device, op, layer); };
  out.add(std::move(candidate));
}

void list_by_steps(const Op& op, OpenclDevice& device, CandidateList& out) {
  const Capabilities& can = device.capabilities();
  if (can.cpu || can.max_work_group < size_t(kStepUnits * kStepTile)) return;
  const Layer layer(op, device, true);
  const auto bytes = size_t(layer.gates * kStepTile * kStepTile * kStepUnits) * sizeof(float);
  if (layer.backward || (layer.gru && !layer.reset_after(op)) || layer.steps == 0 || layer.steps > kMostSteps) return;
  if (bytes <= can.local_memory && layer.largest <= kMostNumbers) add_recurrent(op, device, layer, out);
}

void list_recurrent(const Op& op, OpenclDevice& device, CandidateList& out) {
  list_by_steps(op, device, out);
  const Layer layer(op, device);
  const size_t bytes = layer.state_bytes(1);
  if (bytes > device.capabilities().local_memory)
    return out.refuse("opencl",
                      concat(op.schema->name, ": the state's ", layer.hidden, " units take ", bytes,
                             " bytes of local memory, of which the device has ", device.capabilities().local_memory));
  if (layer.largest > kMostNumbers)
    return out.refuse("opencl", op.schema->name + ": needs indices of more than 31 bits");
  add_recurrent(op, device, layer, out);
}

PL_OPENCL_OP("recurrent", list_recurrent);
PL_OPENCL_OP("recurrent_backward", list_recurrent);

}  // namespace
}  // namespace pl::opencl

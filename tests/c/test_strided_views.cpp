// Ops whose tensors are strided views of larger ones: the results of every way, with everything around the strided
// views poisoned, which must neither be read nor written.
#include <cmath>
#include <cstdio>
#include <cstring>

#include "dispatch/catalog.h"
#include "dispatch/dispatcher.h"
#include "graph_testing.h"
#include "providers/host/conv/conv_candidates.h"

using namespace pl;
using namespace pltest;

namespace {

// A tensor with so many more channels, in `layout`, and the strided view that begins `before` of them.
struct Strided {
  Strided(const Dims& shape, const Layout& layout, int64_t before, int64_t after) {
    Dims sizes = shape;
    sizes[1] += before + after;
    whole = TensorDesc::dense(DType::f32, sizes, layout);
    view = whole.with_layout(layout);
    view.shape = shape;
    Dims start = Dims::filled(shape.size(), 0);
    start[1] = before;
    first = size_t(whole.offset_of(start));
  }
  // Every step-th element along a dimension of a larger tensor; 0: one for all.
  static Strided apart(const Dims& shape, const Layout& layout, int dim, int64_t step) {
    Strided made(shape, layout, 0, 0);
    Dims sizes = shape;
    sizes[dim] = step ? step * shape[dim] : 1;
    made.whole = made.view = TensorDesc::dense(DType::f32, sizes, layout);
    made.view.shape = shape;
    made.view.strides[dim] *= step;
    return made;
  }
  TensorDesc whole, view;  // the view without its offset
  size_t first = 0;        // element
};

void each(const Dims& shape, const std::function<void(const Dims&, size_t)>& visit) {
  Dims index = Dims::filled(shape.size(), 0);
  for (int64_t i = 0; i < shape.product(); ++i) {
    visit(index, size_t(i));
    for (int d = shape.size() - 1; d >= 0 && ++index[d] == shape[d]; --d) index[d] = 0;
  }
}

float bits(uint32_t pattern) {
  float value;
  std::memcpy(&value, &pattern, 4);
  return value;
}
const uint32_t kPoison = 0x7fc0dead;  // a NaN

struct Placed {
  std::vector<float> memory;
  BufferRef whole, buffer;
};

// All poison but for the values, if there are any.
Placed place(Device& device, const TensorDesc& view, size_t first, size_t elements, const std::vector<double>* values) {
  Placed tensor;
  tensor.whole = device.allocate(elements * 4);
  float* base = static_cast<float*>(tensor.whole->host());
  for (size_t i = 0; i < elements; ++i) base[i] = bits(kPoison);
  if (values) {
    if (view.has_padding()) std::memset(base + first, 0, view.size_bytes());
    each(view.shape,
         [&](const Dims& index, size_t i) { base[first + size_t(view.offset_of(index))] = float((*values)[i]); });
  }
  tensor.buffer = device.part(tensor.whole, first * 4, (elements - first) * 4);
  return tensor;
}

int checked = 0;  // ways

// How many ways there are; each is checked.  `source`, `target`: as what strided view the first input, the result lies;
// null: as none.
int check(const char* name, const std::string& attributes, const std::vector<Dims>& shapes,
          const std::function<Strided(const Dims&)>& source_of, const std::function<Strided(const Dims&)>& target_of) {
  Device& cpu = context().device("cpu");
  const bool from = source_of != nullptr, to = target_of != nullptr;
  std::vector<TensorDesc> inputs;
  for (const Dims& shape : shapes) inputs.push_back(shape.size() ? TensorDesc::dense(DType::f32, shape) : TensorDesc());
  const Schema* schema = find_schema(name);
  Op op = make_op(*schema, Attributes::parse(attributes), inputs);
  const Layout plain = Layout::plain(shapes[0].size());
  const Strided source = from ? source_of(shapes[0]) : Strided(shapes[0], plain, 0, 0);
  const Strided target = to ? target_of(op.out().shape) : source;
  // What is expected, by the same op on dense tensors in NCHW.
  std::vector<TensorRef> dense;
  std::vector<std::vector<double>> values;
  for (size_t i = 0; i < shapes.size(); ++i) {
    dense.push_back(shapes[i].size() ? random_tensor(shapes[i], unsigned(i) + 1, i == 2 ? 0.5 : -1, 1) : nullptr);
    values.push_back(shapes[i].size() ? passes::numbers_of(*dense.back()) : std::vector<double>());
  }
  if (from) {  // elements that are one have one value
    std::vector<double> memory(size_t(source.whole.extent()));
    each(shapes[0], [&](const Dims& index, size_t i) { memory[size_t(source.view.offset_of(index))] = values[0][i]; });
    each(shapes[0], [&](const Dims& index, size_t i) {
      values[0][i] = memory[size_t(source.view.offset_of(index))];
      static_cast<float*>(dense[0]->buffer()->host())[i] = float(values[0][i]);
    });
  }
  Attributes call = Attributes::parse(attributes);
  call.set(call_option::layout, std::string("NCHW"));
  const auto expected = passes::numbers_of(*context().run(*schema, CallAttributes::parse(call), dense)[0]);
  if (from) op.inputs[0] = source.view;
  if (to) op.outputs[0] = target.view;
  const EntryRef entry = context().catalog().strided(op, cpu, 1);
  for (Way& way : entry->ways) {
    const Candidate& candidate = way.candidate;
    CHECK(!from || candidate.inputs[0] == source.view);
    CHECK(!to || candidate.outputs[0] == target.view);
    std::vector<Placed> tensors;
    std::vector<Buffer*> in, out;
    for (size_t i = 0; i < shapes.size(); ++i) {
      in.push_back(nullptr);
      if (!shapes[i].size()) continue;
      const TensorDesc& desc = candidate.inputs[i];
      tensors.push_back(i == 0 && from ? place(cpu, desc, source.first, size_t(source.whole.extent()), &values[i])
                                       : place(cpu, desc, 0, size_t(desc.extent()), &values[i]));
      in.back() = tensors.back().buffer.get();
    }
    const TensorDesc& desc = candidate.outputs[0];
    const size_t first = to ? target.first : 0, elements = size_t(to ? target.whole.extent() : desc.extent());
    Placed result = place(cpu, desc, first, elements, nullptr);
    out.push_back(result.buffer.get());
    const BufferRef workspace = cpu.allocate(std::max<size_t>(1, candidate.workspace_bytes));
    const auto packed = pack_inputs(cpu, candidate, in);
    candidate.prepare()->run({in.data(), out.data(), workspace.get()});
    const float* base = static_cast<const float*>(result.whole->host());
    std::vector<bool> written(elements, !to && desc.has_padding());
    each(desc.shape, [&](const Dims& index, size_t i) {
      const size_t at = first + size_t(desc.offset_of(index));
      written[at] = true;
      if (std::fabs(double(base[at]) - expected[i]) <= 2e-5 * (1 + std::fabs(expected[i]))) return;
      std::fprintf(stderr, "%s, %s: %g, expected %g\n", entry->text.c_str(), way.key.c_str(), double(base[at]),
                   expected[i]);
      end_test();
    });
    for (size_t i = 0; i < elements; ++i) {
      uint32_t pattern;
      std::memcpy(&pattern, base + i, 4);
      if (written[i] || pattern == kPoison) continue;
      std::fprintf(stderr, "%s, %s: wrote beside the strided view\n", entry->text.c_str(), way.key.c_str());
      end_test();
    }
  }
  checked += int(entry->ways.size());
  return int(entry->ways.size());
}

// Of tensors with more channels, in one layout.
int check(const char* name, const std::string& attributes, const std::vector<Dims>& shapes, const Layout& layout,
          bool from, bool to) {
  const int64_t aside = layout.is_blocked() ? layout.block(0).size : 5;
  const auto source = [&](const Dims& shape) { return Strided(shape, layout, aside, 2 * aside); };
  const auto target = [&](const Dims& shape) { return Strided(shape, layout, 2 * aside, aside); };
  return check(name, attributes, shapes, from ? source : std::function<Strided(const Dims&)>(),
               to ? target : std::function<Strided(const Dims&)>());
}

// All three ways to have strided views; each must be possible.
void check_all(const char* name, const std::string& attributes, const std::vector<Dims>& shapes,
               std::initializer_list<const char*> layouts = {"NHWC", "nChw16c"}) {
  for (const char* text : layouts)
    for (int which = 1; which < 4; ++which) {
      const int ways = check(name, attributes, shapes, Layout::parse(text), which & 1, which & 2);
      if (ways) continue;
      std::fprintf(stderr, "%s %s: no way in %s, strided views %d\n", name, attributes.c_str(), text, which);
      end_test();
    }
}

TEST("convolutions") {
  host::every_instruction_set() = true;
  const std::string blocked = concat("nChw", host::conv_kernels().width, "c");
  const auto layouts = [&](const char* name, const std::string& attributes, const std::vector<Dims>& shapes) {
    check_all(name, attributes, shapes, {"NHWC"});
    check_all(name, attributes, shapes, {blocked.c_str()});
  };
  for (int64_t n : {1, 3}) {
    if (n > 1) {  // a blocked strided view of one image is dense
      layouts("conv2d", "activation=\"relu\"", {{n, 32, 7, 9}, {48, 32, 1, 1}, {48}});
      layouts("conv2d", "stride=[2,2]", {{n, 32, 7, 9}, {16, 32, 1, 1}, {}});
      layouts("conv2d", "groups=32 padding=[1,1] activation=\"silu\"", {{n, 32, 7, 9}, {32, 1, 3, 3}, {32}});
      layouts("conv2d", "padding=[1,1] activation=\"relu\"", {{n, 32, 10, 7}, {32, 32, 3, 3}, {32}});
    }
    // Channels that fill no vector, planes of one row, one column, one pixel.
    check_all("conv2d", "activation=\"hardswish\"", {{n, 20, 5, 6}, {27, 20, 1, 1}, {27}}, {"NHWC"});
    check_all("conv2d", "", {{n, 20, 1, 6}, {24, 20, 1, 1}, {24}}, {"NHWC"});
    check_all("conv2d", "", {{n, 20, 6, 1}, {24, 20, 1, 1}, {24}}, {"NHWC"});
    check_all("conv2d", "groups=20 padding=[2,2]", {{n, 20, 6, 1}, {20, 1, 5, 5}, {20}}, {"NHWC"});
    check_all("conv2d", "padding=[1,1]", {{n, 19, 9, 5}, {21, 19, 3, 3}, {21}}, {"NHWC"});
  }
  check_all("conv2d", "", {{3, 20, 1, 1}, {24, 20, 1, 1}, {24}}, {"NHWC"});
  // One that reads a residual where it writes its result has none.
  const std::vector<Dims> shapes{{2, 32, 4, 4}, {32, 32, 1, 1}, {32}, {2, 32, 4, 4}};
  CHECK(check("conv2d", "", shapes, Layout::parse("NHWC"), false, true) == 0);
  CHECK(check("conv2d", "", shapes, Layout::parse("NHWC"), true, false) > 0);
  host::every_instruction_set() = false;
}

TEST("others") {
  for (int64_t n : {2, 3}) {
    check_all("batch_norm", "activation=\"relu\"", {{n, 32, 5, 3}, {32}, {32}, {32}, {32}});
    check_all("add", "", {{n, 32, 5, 3}, {n, 32, 5, 3}});
    check_all("mul", "", {{n, 32, 5, 3}, {n, 32, 1, 1}});
    check_all("tanh", "", {{n, 32, 5, 3}});
    check_all("pointwise", "expressions=\"y0 = tanh(x0) * x1\"", {{n, 32, 5, 3}, {n, 32, 5, 3}});
    check_all("max_pool2d", "kernel_size=[3,3] stride=[2,2] padding=[1,1]", {{n, 32, 7, 9}});
    check_all("avg_pool2d", "kernel_size=[3,3] stride=[1,1] padding=[1,1]", {{n, 32, 7, 9}});
  }
  // Heads of a joined product, each row of which lies beside those of other heads.
  const std::vector<Dims> heads{{2, 3, 41, 40}, {2, 3, 37, 40}};
  CHECK(check("matmul", "transpose_b=true", heads, Layout::parse("acbd"), true, false) > 0);
  // A kernel that goes by rows reads them in any layout, whatever it writes.
  CHECK(check("rotary_embedding", "", {{2, 3, 41, 40}, {41, 40}, {41, 40}}, Layout::parse("acbd"), true, false) > 0);
  CHECK(check("scaled_dot_product_attention", "", {heads[0], heads[1], heads[1]}, Layout::parse("acbd"), true, false) >
        0);
  CHECK(check("concat", "dim=3", {heads[0], {2, 3, 41, 8}}, Layout::parse("acbd"), true, false) > 0);
  CHECK(check("concat", "dim=1", {{2, 32, 5, 3}, {2, 16, 5, 3}}, Layout::parse("nChw16c"), true, false) > 0);
  // What goes by rows has no strided views.
  CHECK(check("softmax", "dim=1", {{2, 32, 5, 3}}, Layout::parse("NHWC"), true, false) == 0);
}

// Every other element along a dimension, and one element for all along it.
TEST("elements_apart") {
  host::every_instruction_set() = true;
  const Dims x{2, 32, 6, 8};
  const struct {
    const char *name, *attributes;
    std::vector<Dims> shapes;
  } cases[] = {{"conv2d", "padding=[1,1]", {x, {16, 32, 3, 3}, {16}}},
               {"conv2d", "", {x, {32, 32, 1, 1}, {}}},
               {"conv2d", "groups=32 padding=[1,1]", {x, {32, 1, 3, 3}, {32}}},
               {"batch_norm", "", {x, {32}, {32}, {32}, {32}}},
               {"max_pool2d", "kernel_size=[3,3] stride=[2,2] padding=[1,1]", {x}},
               {"avg_pool2d", "kernel_size=[2,2] stride=[2,2]", {x}},
               {"add", "", {x, x}},
               {"tanh", "", {x}},
               {"matmul", "transpose_b=true", {x, x}},
               {"rotary_embedding", "", {x, {6, 8}, {6, 8}}},
               {"scaled_dot_product_attention", "", {x, x, x}},
               {"concat", "dim=1", {x, x}}};
  int ways = 0;
  for (const auto& c : cases)
    for (const char* text : {"NCHW", "NHWC"})
      for (int dim = 0; dim < 4; ++dim)
        for (const int64_t step : {0, 2})
          ways += check(
              c.name, c.attributes, c.shapes,
              [&](const Dims& shape) { return Strided::apart(shape, Layout::parse(text), dim, step); }, nullptr);
  CHECK(ways > 200);
  host::every_instruction_set() = false;
}

// Reorders to and from strided views, and copies of strided views.
TEST("conversions") {
  Device& cpu = context().device("cpu");
  const Dims shape{2, 32, 3, 5};
  const Strided nhwc(shape, Layout::parse("NHWC"), 16, 16), blocked(shape, Layout::parse("nChw16c"), 16, 16);
  std::vector<double> values(size_t(shape.product()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = double(i);
  const auto run = [&](const EntryRef& entry, const Strided* from, const TensorDesc& source, const Strided& to) {
    REQUIRE(entry);
    REQUIRE(!entry->ways.empty());
    for (const Way& way : entry->ways) {
      const Placed x = from ? place(cpu, source, from->first, size_t(from->whole.extent()), &values)
                            : place(cpu, source, 0, size_t(source.extent()), &values);
      const Placed y = place(cpu, to.view, to.first, size_t(to.whole.extent()), nullptr);
      Buffer *in = x.buffer.get(), *out = y.buffer.get();
      const BufferRef workspace = cpu.allocate(std::max<size_t>(1, way.candidate.workspace_bytes));
      way.candidate.prepare()->run({&in, &out, workspace.get()});
      const float* base = static_cast<const float*>(y.whole->host());
      size_t poison = 0;
      for (int64_t i = 0; i < to.whole.extent(); ++i) poison += std::isnan(base[i]);
      CHECK(poison == size_t(to.whole.extent()) - values.size());
      each(shape, [&](const Dims& index, size_t i) {
        CHECK(double(base[to.first + size_t(to.view.offset_of(index))]) == values[i]);
      });
    }
  };
  Catalog& catalog = context().catalog();
  for (const Strided* to : {&nhwc, &blocked}) {
    for (const char* layout : {"NCHW", "NHWC", "nChw16c"}) {
      const TensorDesc dense = TensorDesc::dense(DType::f32, shape, Layout::parse(layout));
      run(catalog.reorder(dense, to->view, cpu, 1), nullptr, dense, *to);
    }
    run(catalog.copy(to->view, cpu, 1), to, to->view, *to);
  }
  run(catalog.reorder(nhwc.view, blocked.view, cpu, 1), &nhwc, nhwc.view, blocked);
}

}  // namespace

// embedding_bag: rows of a table joined as they are looked up; embedding_bag_rows: which row the largest elements are of.
#include <algorithm>

#include "ops/gradient.h"

namespace pl {
namespace {

constexpr const char* kRowsOfBags = "(n), the rows of all bags in turn; s64 or s32; negative counts from the end";
constexpr const char* kEndsOfBags =
    "(bags), s64 or s32: where the rows of each bag end, ascending, at most n; others are an error on the host";
constexpr const char* kPaddingRow = "a row that counts for nothing; -1: none";

enum BagInput { kBagIndex, kBagTable, kBagEnds, kBagScales };

std::pair<int64_t, int64_t> integers_of_bags(const Op& op, int input) {
  if (input == kBagIndex) return {0, std::max<int64_t>(0, op.in(kBagTable).shape[0] - 1)};
  return {0, input == kBagEnds ? op.in(kBagIndex).shape[0] : 0};
}

void infer_any_bags(Op& op) {
  check_rank(op, kBagIndex, 1, 1);
  check_rank(op, kBagTable, 2, 2);
  check_rank(op, kBagEnds, 1, 1);
  const Dims &index = op.in(kBagIndex).shape, &weight = op.in(kBagTable).shape;
  check(op, weight[0] > 0 || index[0] == 0, Code::shape, "weight.shape is ", weight, ", expected rows to look up");
  const int64_t padding = op.attributes[attr::padding_idx];
  check(op, padding >= -1 && padding < std::max<int64_t>(weight[0], 1), Code::invalid_argument, "padding_idx is ",
        padding, ", expected -1 to ", weight[0] - 1);
  add_output(op, {op.in(kBagEnds).shape[0], weight[1]});
}

void infer_bags(Op& op) {
  infer_any_bags(op);
  if (!op.has(kBagScales)) return;
  check(op, op.attributes[attr::mode] == "sum", Code::invalid_argument, "mode is ", op.attributes[attr::mode],
        ", expected sum with scales");
  check_shape(op, kBagScales, op.in(kBagIndex).shape, "that of index");
}

// What the gradients by all inputs need: the bag of each index, and how many rows each bag has.
struct Bags {
  using Value = Builder::Value;
  Derivation& d;
  const Op& op = d.op();
  const int64_t indices = op.in(kBagIndex).shape[0], bags = op.in(kBagEnds).shape[0];
  const DType dtype = op.in(kBagTable).dtype;

  Value cast(Value x, DType to) const {
    return d.make("cast", Attributes{{attr::dtype, std::string(name_of(to))}}, {x});
  }
  Value filled(int64_t number, const Dims& shape) const {
    Dims ones = shape;
    for (int i = 0; i < ones.size(); ++i) ones[i] = 1;
    return d.expanded(d.reshaped(d.integers({number}), ones), shape);
  }
  Value put(Value to, Value index, Value source) const {
    return d.make("scatter", Attributes{{attr::dim, int64_t(0)}, {attr::reduce, std::string("sum")}},
                  {to, index, source});
  }
  // As many ends lie at an index or before it; what is in no bag has the number of bags.
  Value of_indices() const {
    const Value ended = put(filled(0, {indices + 1}), d.input(kBagEnds), filled(1, {bags}));
    const Value counted = d.make("cumsum", Attributes{{attr::dim, int64_t(0)}}, {ended});
    return d.make("slice", Attributes{{attr::starts, Ints{0}}, {attr::ends, Ints{indices}}, {attr::axes, Ints{0}}},
                  {counted});
  }
  // (n, 1), 1 where the row is not padding; kNone where there is no such row.
  Value counting() const {
    const int64_t padding = op.attributes[attr::padding_idx];
    if (padding < 0) return Builder::kNone;
    const Value other = d.pointwise("y0 = where(x0 < 0, x0 + s0, x0) != s1", {cast(d.input(kBagIndex), DType::s64)},
                                    {double(op.in(kBagTable).shape[0]), double(padding)});
    return d.reshaped(cast(other, dtype), {indices, 1});
  }
  // (bags, 1)
  Value sizes(Value of_indices, Value counting) const {
    const Value each = counting < 0 ? cast(filled(1, {indices}), dtype) : d.reshaped(counting, {indices});
    const Value counted = put(cast(filled(0, {bags + 1}), dtype), of_indices, each);
    const Value inside = d.make(
        "slice", Attributes{{attr::starts, Ints{0}}, {attr::ends, Ints{bags}}, {attr::axes, Ints{0}}}, {counted});
    return d.reshaped(inside, {bags, 1});
  }
  Value rows(Value table, Value index) const {
    return d.make("index_select", Attributes{{attr::dim, int64_t(0)}}, {table, index});
  }
};

void derive_largest_of_bags(Derivation& d, const Bags& all) {
  const Op& op = d.op();
  d.give_if_wanted(kBagTable, [&] {
    const auto chosen = d.make("embedding_bag_rows", Attributes{{attr::padding_idx, op.attributes[attr::padding_idx]}},
                               {d.input(kBagIndex), d.input(kBagTable), d.input(kBagEnds)});
    const auto sizes = all.sizes(all.of_indices(), all.counting());
    const auto grad = d.pointwise("y0 = x1 > 0 ? x0 : 0", {d.gradient(), sizes});
    return all.put(all.cast(all.filled(0, op.in(kBagTable).shape), all.dtype), chosen, grad);
  });
}

void derive_bags(Derivation& d) {
  const Op& op = d.op();
  const Bags all{d};
  const std::string& mode = op.attributes[attr::mode];
  if (mode == "max") return derive_largest_of_bags(d, all);
  const auto bags = all.of_indices(), counting = all.counting();
  auto grad = d.gradient();
  if (mode == "mean") grad = d.pointwise("y0 = x0 / max(x1, 1)", {grad, all.sizes(bags, counting)});
  grad = d.make("pad", Attributes{{attr::pad, Ints{0, 0, 0, 1}}}, {grad});  // of what is in no bag
  auto rows = all.rows(grad, bags);
  if (counting >= 0) rows = d.pointwise("y0 = x0 * x1", {rows, counting});
  d.give_if_wanted(kBagTable, [&] {
    const auto scaled = op.has(kBagScales)
                            ? d.pointwise("y0 = x0 * x1", {rows, d.reshaped(d.input(kBagScales), {all.indices, 1})})
                            : rows;
    return d.make("index_select_backward", Attributes{{attr::dim, int64_t(0)}, {attr::size, op.in(kBagTable).shape[0]}},
                  {scaled, d.input(kBagIndex)});
  });
  d.give_if_wanted(kBagScales, [&] {
    const auto products = d.pointwise("y0 = x0 * x1", {rows, all.rows(d.input(kBagTable), d.input(kBagIndex))});
    return d.summed(products, {1}, false);
  });
}

double bag_flops(const Op& op) { return double(op.in(kBagIndex).shape[0]) * double(op.in(kBagTable).shape[1]); }

// The inputs of both ops.
Schema& with_bags(Schema& schema) {
  return schema.tensor("index", kRowsOfBags)
      .of(dtypes::indices)
      .tensor("weight", "(rows, features); f32, f16 or bf16", Role::constant)
      .of(dtypes::floats)
      .tensor("ends", kEndsOfBags)
      .of(dtypes::indices)
      .ascending();
}

Schema embedding_bag() {
  Schema schema("embedding_bag", "embedding_bag",
                "Rows of a table, chosen by index, joined by bags.\n\n"
                "y[b] = sum of weight[index[j]] for ends[b - 1] <= j < ends[b], where ends[-1] is 0; with scales, of "
                "scales[j] * weight[index[j]]; mean: divided by the number of rows; max: the largest of each column\n\n"
                "A bag without rows is zero.  Rows behind the last end are in no bag.  The largest is the first one, "
                "and what is larger than that: NaN counts where it comes first.\n\n"
                "Returns (bags, features) in the dtype of weight; sums are kept in f32.\n\n"
                "Source: semantics of torch.nn.functional.embedding_bag.");
  with_bags(schema)
      .optional("scales", "(n), a factor for each row, of sums")
      .like("weight")
      .attribute(attr::mode, std::string("mean"), "how rows are joined", {"sum", "mean", "max"})
      .attribute(attr::padding_idx, int64_t(-1), kPaddingRow)
      .result(Result("y").like("weight"));
  schema.infer = infer_bags;
  schema.gradient = derive_bags;
  schema.integers = integers_of_bags;
  schema.flops = bag_flops;
  return schema;
}

Schema embedding_bag_rows() {
  Schema schema(
      "embedding_bag_rows", "embedding_bag",
      "Which row of the table each of the largest elements of embedding_bag is of.\n\n"
      "weight[rows[b, c], c] = embedding_bag(index, weight, ends, mode=\"max\")[b, c]; of equal ones the first "
      "in the bag, 0 in a bag without rows\n\n"
      "Returns (bags, features), s64.\n\n"
      "Source: semantics of torch.nn.functional.embedding_bag.");
  with_bags(schema).attribute(attr::padding_idx, int64_t(-1), kPaddingRow).result(Result("rows").of(DType::s64));
  schema.infer = infer_any_bags;
  schema.integers = integers_of_bags;
  schema.flops = bag_flops;
  return schema;
}

PL_REGISTER_OP(embedding_bag);
PL_REGISTER_OP(embedding_bag_rows);

}  // namespace
}  // namespace pl

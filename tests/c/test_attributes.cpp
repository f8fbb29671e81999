// Attributes: typed reads, their text, equality and hash; names from elsewhere, made by several threads at once.
#include "core/attributes.h"

#include <atomic>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "ops/op.h"

using namespace pl;

namespace {

// A name that no op of the library has, and one that ops have with another type.
constexpr Key<int64_t> kAmount{"test_amount"};
constexpr Key<Floats> kGroups{"groups"};

std::string repeated(const std::string& text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) result += text;
  return result;
}

template <class T, class Value, class = void>
constexpr bool takes = false;
template <class T, class Value>
constexpr bool takes<
    T, Value,
    std::void_t<decltype(std::declval<Attributes&>().set(std::declval<const Key<T>&>(), std::declval<Value>()))>> =
    true;

// What a key is set to is of its type, None, or becomes one of it without loss.
static_assert(takes<int64_t, int> && takes<int64_t, int64_t> && takes<int64_t, None>);
static_assert(!takes<int64_t, double> && !takes<int64_t, bool> && !takes<int64_t, std::string> &&
              !takes<int64_t, Ints>);
static_assert(takes<double, double> && takes<double, int> && !takes<double, bool> && !takes<double, const char*>);
static_assert(takes<bool, bool> && !takes<bool, int> && !takes<bool, const char*>);
static_assert(takes<std::string, std::string> && takes<std::string, const char*> && !takes<std::string, int64_t>);
static_assert(takes<Ints, Ints> && takes<Ints, int64_t> && !takes<Ints, Floats> && !takes<Ints, std::string>);
static_assert(takes<Floats, Floats> && !takes<Floats, Ints>);
// What is read is of the key's type.
static_assert(std::is_same_v<decltype(std::declval<const Attributes&>()[attr::stride]), const Ints&>);
static_assert(std::is_same_v<decltype(std::declval<const Attributes&>()[attr::dim]), int64_t>);
static_assert(std::is_same_v<decltype(std::declval<const Attributes&>()[attr::activation]), const std::string&>);
static_assert(std::is_same_v<decltype(std::declval<const Attributes&>().find(attr::eps)), std::optional<double>>);
static_assert(attr::dim == attr::dim_ints && attr::dim != attr::dims);

template <class Function>
std::string message_of(Code code, Function function) {
  try {
    function();
  } catch (const Error& error) {
    CHECK(error.code() == code);
    return error.what();
  }
  return "";
}

Schema schema_with_amount() {
  Schema schema("test_with_amount", "test_with_amount", "y = x");
  schema.tensor("x", "any").attribute(kAmount, 3, "of its own").attribute(attr::dim_ints, None{}, "several");
  schema.constant(attr::function, "test");
  schema.infer = [](Op& op) { add_output(op, op.in(0).dtype, op.in(0).shape); };
  return schema;
}

}  // namespace

TEST("reads_are_typed") {
  const Attributes a = Attributes::parse(
      "stride=[2,3] alpha=0.25 beta=4 ceil_mode=true activation=relu eps=none groups=-7 scalars=[0.5,1.0]");
  CHECK(a[attr::stride] == (Ints{2, 3}));
  CHECK(a[attr::alpha] == 0.25);
  CHECK(a[attr::beta] == 4.0);  // an int of attributes as a user gave them
  CHECK(a[attr::ceil_mode]);
  CHECK(a[attr::activation] == "relu");
  CHECK(a[attr::groups] == -7);
  CHECK(a[attr::scalars] == (Floats{0.5, 1}));
  CHECK(a.is_none(attr::eps) && !a.is_none(attr::alpha));
  CHECK(!a.find(attr::eps) && !a.find(attr::dim));
  CHECK(a.find(attr::beta) == 4.0);
  CHECK(a.find(attr::activation) && *a.find(attr::activation) == "relu");
  CHECK(a.has(attr::eps) && !a.has(attr::dim));
}

TEST("a_read_of_what_is_not_there_is_a_defect") {
  const Attributes a = Attributes::parse("dim=[0,1] eps=none groups=2");
  CHECK(message_of(Code::internal, [&] { a[attr::stride]; }) == "attribute \"stride\" was not filled in");
  CHECK(message_of(Code::internal, [&] { a.is_none(attr::stride); }) == "attribute \"stride\" was not filled in");
  CHECK(message_of(Code::internal, [&] { a[attr::eps]; }) == "attribute \"eps\" is none, read as float");
  // Two keys of one name: which of them an op has its schema says.
  CHECK(a[attr::dim_ints] == (Ints{0, 1}));
  CHECK(message_of(Code::internal, [&] { a[attr::dim]; }) == "attribute \"dim\" is ints, read as int");
  CHECK(message_of(Code::internal, [&] { a.find(kGroups); }) == "attribute \"groups\" is int, read as floats");
}

TEST("text_is_sorted_by_name") {
  Attributes a;
  a.set(attr::stride, {2, 2});
  a.set(kAmount, 5);
  a.set(attr::dims, {1, 0});
  a.set(attr::dim0, 7);
  a.set(attr::activation, None{});
  a.set(attr::dim, -1);
  a.set_value(AttributeName::of("Zeta"), std::string("two words"));
  a.set_value(AttributeName::of("_b"), 0.5);
  a.set(attr::stride, 1);  // over what was there
  const std::string text = "Zeta=\"two words\" _b=0.5 activation=none dim=-1 dim0=7 dims=[1,0] stride=1 test_amount=5";
  CHECK(a.str() == text);
  CHECK(Attributes::parse(a.str()) == a);
  CHECK(Attributes::parse("test_amount=5  stride=1 dims=[1,0] dim0=7 dim=-1 activation=none _b=0.5 Zeta=\"two words\"")
            .str() == text);
  CHECK((Attributes{{attr::keepdim, true}, {attr::dim_ints, {0, 2}}, {attr::mode, "max"}}.str()) ==
        "dim=[0,2] keepdim=true mode=max");
}

// Whatever the order in which names come and go, they are those of a sorted map.
TEST("text_is_that_of_a_map") {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    Attributes a;
    std::map<std::string, int64_t> map;
    for (int step = 0; step < 30; ++step) {
      const std::string name = std::string(1 + random() % 3, char('a' + random() % 3)) + (random() % 2 ? "_" : "1");
      if (random() % 4) {
        a.set_value(AttributeName::of(name), int64_t(step));
        map[name] = step;
      } else {
        a.erase(AttributeName::of(name));
        map.erase(name);
      }
    }
    std::string text;
    for (const auto& [name, number] : map) text += (text.empty() ? "" : " ") + name + "=" + std::to_string(number);
    CHECK(a.str() == text);
    CHECK(a.empty() == map.empty());
  }
}

// Equal where the text is, and told apart by the hash where it is not.
TEST("equality_and_hash_are_those_of_the_text") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<Attributes> all(1);
  for (const char* text : {"a=1",     "a=1.0",   "a=true",  "a=[1]",    "a=[1.0]", "a=\"1\"", "a=none",  "a=[]",
                           "a=0.0",   "a=-0.0",  "a=[0.0]", "a=[-0.0]", "a=0",     "b=1",     "a=1 b=1", "a=1 b=2",
                           "a=2 b=1", "a=[1,2]", "a=[2,1]", "a=x",      "a=y",     "a=[nan]"})
    all.push_back(Attributes::parse(text));
  all.emplace_back().set(attr::value, nan);
  for (const Attributes& a : all)
    for (const Attributes& b : all) {
      CHECK((a == b) == (a.str() == b.str()));
      CHECK((a.hash() == b.hash()) == (a.str() == b.str()));
    }
  Attributes other;
  other.set(attr::value, -nan);
  CHECK(other == all.back() && other.hash() == all.back().hash());
  CHECK(Attributes::parse("b=1 a=2").hash() == Attributes::parse("a=2 b=1").hash());
}

TEST("attributes_are_taken_over") {
  const Attributes from = Attributes::parse("stride=[1,2] activation=relu eps=none");
  Attributes to = Attributes::parse("stride=3 groups=2 dim=1");
  to.take(from, {attr::stride, attr::groups, attr::eps});
  CHECK(to.str() == "dim=1 eps=none stride=[1,2]");
}

TEST("names_from_elsewhere") {
  std::string text = "stride";
  const AttributeName stride = AttributeName::of(text);
  text = "xxxxxx";  // a name holds text of its own
  CHECK(stride == attr::stride && stride.text() == "stride");
  CHECK(AttributeName::of("strides") != attr::stride);
  CHECK(AttributeName().empty() && AttributeName() != AttributeName::of("stride"));
  // Two texts with the same id.
  CHECK(AttributeName::of("8yn0iYCKYHlIj4-BwPqk").text() == "8yn0iYCKYHlIj4-BwPqk");
  CHECK(message_of(Code::invalid_argument, [] { AttributeName::of("GReLUrM4wMqfg9yzV3KQ"); }) ==
        "attributes: the name \"GReLUrM4wMqfg9yzV3KQ\" cannot be told from \"8yn0iYCKYHlIj4-BwPqk\", expected another "
        "one");
  CHECK(AttributeName::of("8yn0iYCKYHlIj4-BwPqk").text() == "8yn0iYCKYHlIj4-BwPqk");
  const TensorDesc x = TensorDesc::dense(DType::f32, {2, 3});
  const std::string message = message_of(
      Code::invalid_argument, [&] { make_op(*find_schema("softmax"), Attributes::parse("dim=1 nonsense=1"), {x}); });
  CHECK(message == "softmax: there is no parameter \"nonsense\"; expected one of dim");
}

TEST("names_are_made_by_threads_at_once") {
  constexpr int kThreads = 8, kNames = 400;
  std::vector<std::vector<const char*>> seen(kThreads, std::vector<const char*>(kNames));
  std::vector<std::thread> threads;
  std::atomic<int> ready{0}, wrong{0};
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      ++ready;
      while (ready < kThreads) std::this_thread::yield();
      for (int i = 0; i < kNames; ++i) {
        const int number = t % 2 ? i : kNames - 1 - i;  // half of them the other way round
        const std::string text = "made_at_once_" + std::to_string(number);
        const AttributeName name = AttributeName::of(text);
        if (name.text() != text) ++wrong;
        seen[size_t(t)][size_t(number)] = name.text().data();
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  for (int t = 1; t < kThreads; ++t) CHECK(seen[size_t(t)] == seen[0]);  // each text was kept once
  CHECK(std::set<const char*>(seen[0].begin(), seen[0].end()).size() == size_t(kNames));
}

TEST("schemas_declare_by_keys") {
  const Schema schema = schema_with_amount();
  CHECK(schema.parameters[1].name == "test_amount" && schema.parameters[1].type == AttributeType::integer);
  CHECK(schema.parameters[2].name == "dim" && schema.parameters[2].type == AttributeType::integers);
  CHECK(complete_attributes(schema, {}).str() == "dim=none function=test test_amount=3");
  const Attributes given = complete_attributes(schema, Attributes::parse("test_amount=9 dim=1"));
  CHECK(given[kAmount] == 9 && given[attr::dim_ints] == Ints{1});
  CHECK(message_of(Code::invalid_argument, [&] { complete_attributes(schema, Attributes::parse("dim=x")); }) ==
        "test_with_amount: dim is x (string), expected a value of type ints");
  // Of a value that is long, as of a tensor given for a list, the beginning; letters of several bytes stay whole.
  Attributes several;
  several.set_value(attr::dim_ints, std::vector<double>(768, 1.5));
  CHECK(message_of(Code::invalid_argument, [&] { complete_attributes(schema, several); }) ==
        "test_with_amount: dim is [" + repeated("1.5,", 24) + " ... (floats), expected a value of type ints");
  Attributes word;
  word.set_value(attr::dim_ints, repeated("\u00e9", 80));
  CHECK(message_of(Code::invalid_argument, [&] { complete_attributes(schema, word); }) ==
        "test_with_amount: dim is " + repeated("\u00e9", 50) + " ... (string), expected a value of type ints");
}

TEST("a_schema_has_a_name_once") {
  Schema twice = schema_with_amount();
  twice.attribute(attr::dim, 0, "the same name, of another type");
  CHECK(message_of(Code::internal, [&] { register_schema(twice); }) == "op test_with_amount: dim is declared twice");
  Schema constant = schema_with_amount();
  constant.constant(kAmount, 1);
  CHECK(message_of(Code::internal, [&] { register_schema(constant); }) ==
        "op test_with_amount: test_amount is declared twice");
  CHECK(find_schema("test_with_amount") == nullptr);
}

TEST("names_of_all_schemas_are_told_apart") {
  std::map<uint64_t, std::string> names;
  for (const Schema* schema : all_schemas()) {
    for (const Parameter& parameter : schema->parameters)
      if (parameter.kind == Parameter::Kind::attribute) {
        CHECK(parameter.attribute.text() == parameter.name);
        CHECK(names.emplace(parameter.attribute.id(), parameter.name).first->second == parameter.name);
      }
    for (const auto& [name, value] : schema->constants)
      CHECK(names.emplace(name.id(), name.text()).first->second == name.text());
  }
  CHECK(names.size() > 80);
}

// random_uniform, random_normal, ...: tensors of random numbers that depend on a seed and on nothing else.
#include <limits>

#include "ops/op.h"

namespace pl {
namespace {

const char* const kNumbers =
    "w[i] is word i mod 4 of Philox4x32-10 with counter c + i / 4 and key k, where k is the first element of seed, c "
    "the "
    "second (0 where there is none), and i numbers the elements in the order of their dimensions, so that layout, "
    "device and threads change nothing.  A call uses the counters from c on, one for every 4 elements.";
const char* const kSource = "Source: J. Salmon et al., Parallel random numbers: as easy as 1, 2, 3, 2011.";

void infer_random(Op& op) {
  check_seed(op, 0);
  const std::vector<int64_t>& wanted = op.attributes[attr::shape];
  check(op, wanted.size() <= size_t(kMaxRank), Code::invalid_argument, "shape has ", wanted.size(),
        " values, expected at most ", kMaxRank);
  Dims shape;
  for (size_t i = 0; i < wanted.size(); ++i) {
    check(op, wanted[i] >= 0, Code::invalid_argument, "shape[", i, "] is ", wanted[i], ", expected at least 0");
    shape.push_back(wanted[i]);
  }
  add_output(op, shape);
}

// Infers, and checks that one number is not less than another.
void infer_between(Op& op, const Key<double>& low, const Key<double>& high) {
  for (const Key<double>& key : {low, high}) check_finite(op, key);
  const double least = op.attributes[low], most = op.attributes[high];
  check(op, least <= most, Code::invalid_argument, high, " is ", most, ", expected at least ", least, " (", low, ")");
  infer_random(op);
}

Schema random(const char* name, const char* distribution, const std::string& title, const std::string& formula) {
  Schema schema(
      name, "random",
      concat(title, "\n\n", formula, "\n", kNumbers, "\n\nReturns the shape and dtype asked for.\n\n", kSource));
  schema.tensor("seed", "one or two elements, s64: the seed, and the first counter")
      .of({DType::s64})
      .required(attr::shape, "the shape of the result")
      .constant(attr::distribution, std::string(distribution));
  schema.repeats = true;
  schema.infer = infer_random;
  schema.flops = [](const Op& op) { return 30.0 * double(op.out().elements()); };
  return schema;
}

Schema& with_dtype(Schema& schema, DTypes allowed, const char* fallback) {
  return schema.attribute(attr::dtype, std::string(fallback), concat("dtype of the result: ", allowed.str()))
      .result(Result("y").named_by(attr::dtype, allowed));
}

Schema random_uniform() {
  Schema schema =
      random("random_uniform", "uniform", "Random numbers spread evenly over an interval.",
             "y[i] = low + (high - low) * u, rounded once, with u = floor(w[i] / 2^(32 - b)) / 2^b and b the "
             "bits of the dtype's significand: 24 of f32, 11 of f16, 8 of bf16; what rounding makes high "
             "becomes low.");
  schema.attribute(attr::low, 0.0, "the least value").attribute(attr::high, 1.0, "what values stay below");
  with_dtype(schema, dtypes::floats, "f32");
  schema.infer = [](Op& op) { infer_between(op, attr::low, attr::high); };
  return schema;
}

Schema random_normal() {
  Schema schema = random("random_normal", "normal", "Random numbers of the normal distribution.",
                         "y[i] = mean + std * z[i], where z[i] = r cos(t) and z[i + 1] = r sin(t) for even i, with "
                         "r = sqrt(-2 log(v[i])), t = 2 pi (v[i + 1] - 0.5) and v = (2 floor(w / 2^9) + 1) / 2^24.");
  schema.attribute(attr::mean, 0.0, "the mean").attribute(attr::std, 1.0, "the standard deviation, at least 0");
  with_dtype(schema, dtypes::floats, "f32");
  schema.infer = [](Op& op) {
    check_finite(op, attr::mean);
    check_finite(op, attr::std);
    const double deviation = op.attributes[attr::std];
    check(op, deviation >= 0, Code::invalid_argument, "std is ", deviation, ", expected at least 0");
    infer_random(op);
  };
  return schema;
}

Schema random_exponential() {
  Schema schema = random("random_exponential", "exponential", "Random numbers of the exponential distribution.",
                         "y[i] = -log(v[i]) / rate, with v = (2 floor(w / 2^9) + 1) / 2^24; greater than 0.");
  schema.attribute(attr::rate, 1.0, "the inverse of the mean, greater than 0");
  with_dtype(schema, dtypes::floats, "f32");
  schema.infer = [](Op& op) {
    check_finite(op, attr::rate);
    const double rate = op.attributes[attr::rate];
    check(op, rate > 0, Code::invalid_argument, "rate is ", rate, ", expected greater than 0");
    infer_random(op);
  };
  return schema;
}

Schema random_bernoulli() {
  Schema schema =
      random("random_bernoulli", "bernoulli", "Ones by chance, zeros otherwise.", "y[i] = w[i] < p * 2^32 ? 1 : 0");
  schema.attribute(attr::p, 0.5, "share of ones, 0 to 1");
  with_dtype(schema, dtypes::any, "f32");
  schema.infer = [](Op& op) {
    const double p = op.attributes[attr::p];
    check(op, p >= 0 && p <= 1, Code::invalid_argument, "p is ", p, ", expected 0 to 1");
    infer_random(op);
  };
  return schema;
}

Schema random_integers() {
  Schema schema = random(
      "random_integers", "integers", "Random integers of an interval, its ends included.",
      "y[i] = low + w[i] mod (high - low + 1).  Where the interval has more than 2^32 integers, an element takes two "
      "words, the low one first, and a call uses a counter for every 2 elements: element i has words 2 (i mod 2) and "
      "2 (i mod 2) + 1 of counter c + i / 2.");
  schema.required(attr::high_int, "the largest value").attribute(attr::low_int, int64_t(0), "the least value");
  with_dtype(schema, dtypes::any, "s64");
  schema.infer = [](Op& op) {
    const int64_t low = op.attributes[attr::low_int], high = op.attributes[attr::high_int];
    check(op, low <= high, Code::invalid_argument, "high is ", high, ", expected at least ", low, " (low)");
    infer_random(op);
  };
  return schema;
}

Schema random_permutation() {
  Schema schema(
      "random_permutation", "random_permutation",
      "The integers from 0 to n - 1, each once, in random order.\n\n"
      "y[i] = f(i), or f(f(i)), and so on: the first that is less than n, where f permutes the integers of 2 b bits, b "
      "the least number from 4 on with n <= 2^(2 b), by 12 rounds, each of which makes of an upper half l and a lower "
      "half r the halves r and l ^ (g mod 2^b), g word 0 of Philox4x32-10 with counter c + 2^64 r + 2^96 round and key "
      "k.  k is the first element of seed, c the second (0 where there is none).\n\n"
      "Returns n integers.\n\n"
      "Source: R. Mitchell et al., Bandwidth-optimal random shuffling for GPUs, 2022; J. Salmon et al., Parallel "
      "random "
      "numbers: as easy as 1, 2, 3, 2011.");
  schema.tensor("seed", "one or two elements, s64: the seed, and the first counter")
      .of({DType::s64})
      .required(attr::n, "how many integers, 0 to 2^31 - 1")
      .result(Result("y").of(DType::s64));
  schema.repeats = true;
  schema.infer = [](Op& op) {
    check_seed(op, 0);
    const int64_t n = op.attributes[attr::n], most = std::numeric_limits<int32_t>::max();
    check(op, n >= 0 && n <= most, Code::invalid_argument, "n is ", n, ", expected 0 to ", most);
    add_output(op, {n});
  };
  schema.flops = [](const Op& op) { return 500.0 * double(op.out().elements()); };
  return schema;
}

PL_REGISTER_OP(random_uniform);
PL_REGISTER_OP(random_normal);
PL_REGISTER_OP(random_exponential);
PL_REGISTER_OP(random_bernoulli);
PL_REGISTER_OP(random_integers);
PL_REGISTER_OP(random_permutation);

}  // namespace
}  // namespace pl

// random, random_dropout and random_permutation (kernels/random/).
#include "providers/opencl/pointwise/random.h"

#include <algorithm>
#include <cctype>

#include "ops/random_words.h"
#include "providers/opencl/addressing/places.h"
#include "providers/opencl/runtime/opencl_provider.h"

namespace pl::opencl {
namespace {

// The number of an element in the order of dimensions.
void define_number(KernelSource& source, const Addressing& dst) {
  std::string number = "(ulong)0";
  for (int dim = 0; dim < dst.rank; ++dim) number = concat("(", number, " * DST_DIM(", dim, ") + i##", dim, ")");
  source.define("NUMBER_OF(i)", number);
}

std::unique_ptr<Kernel> prepare_dropout(OpenclDevice& device, const Op& op, const Candidate& candidate) {
  const Addressing dst(candidate.outputs[0]);
  const double p = op.attributes[attr::p];
  const cl_ulong limit = words_below(p);
  const auto scale = cl_float(1 / (1 - p));
  auto kernel = std::make_unique<KernelList>(device);
  if (candidate.outputs[0].layout.is_plain()) {
    KernelSource source("random/random_dropout_four.cl");
    source.define("SRC_DTYPE", name_of(op.in(0).dtype)).define("DST_DTYPE", name_of(op.out().dtype));
    define_seed(source, op.in(1));
    const int64_t count = op.out().elements();
    source.wide_indices(count >= kNarrowLimit);
    kernel->add(source, "random_dropout_four")
        .input(0)
        .input(1)
        .output(0)
        .scalar(limit)
        .scalar(scale)
        .index(count)
        .global({size_t(std::max<int64_t>(1, (count + 3) / 4))});
    return kernel;
  }
  KernelSource source("random/random_dropout_direct.cl");
  source.tensor("SRC", candidate.inputs[0]).tensor("DST", dst);
  define_seed(source, op.in(1));
  define_number(source, dst);
  Launch& launch = kernel->add(source, "random_dropout_direct").input(0, "SRC").input(1).output(0, "DST");
  over_places(launch.scalar(limit).scalar(scale), dst);
  return kernel;
}

void list_dropout(const Op& op, OpenclDevice& device, CandidateList& out) {
  add_per_layout(op, "random_dropout_direct", out, [&](Candidate& candidate) {
    candidate.inputs[1] = op.in(1).with_layout(Layout::plain(op.in(1).rank()));
    candidate.efficiency = 0.3;
    if (candidate.outputs[0].layout.is_plain()) {
      candidate.implementation = "random_dropout_four";
      candidate.efficiency = 0.6;
    }
    candidate.prepare = [&device, op, candidate] { return prepare_dropout(device, op, candidate); };
    return true;
  });
}

// What the kernel `random_direct` is given for a distribution.
struct Parameters {
  std::string random;  // the macro
  int each = 4;        // elements for each counter
  cl_float a = 0, b = 0, c = 0;
  cl_long low = 0;
  cl_ulong count = 0;
};

Parameters parameters_of(const Op& op) {
  const Attributes& given = op.attributes;
  Parameters made;
  const std::string& distribution = given[attr::distribution];
  for (const char letter : distribution) made.random += char(std::toupper(letter));
  if (distribution == "uniform") {
    made.a = cl_float(given[attr::low]);
    made.b = cl_float(given[attr::high]);
    made.c = cl_float(given[attr::high] - given[attr::low]);
  } else if (distribution == "normal") {
    made.a = cl_float(given[attr::mean]);
    made.b = cl_float(given[attr::std]);
  } else if (distribution == "exponential") {
    made.a = cl_float(given[attr::rate]);
  } else if (distribution == "bernoulli") {
    made.count = words_below(given[attr::p]);
  } else {
    made.low = given[attr::low_int];
    made.count = cl_ulong(given[attr::high_int]) - cl_ulong(made.low) + 1;
    if (made.count == 0 || made.count > cl_ulong(1) << 32) {
      made.random = "WIDE";
      made.each = 2;
    }
  }
  return made;
}

std::unique_ptr<Kernel> prepare_random(OpenclDevice& device, const Op& op, const Candidate& candidate) {
  const Addressing dst(candidate.outputs[0]);
  const Parameters given = parameters_of(op);
  const DType dtype = op.out().dtype;
  const bool real = given.random == "UNIFORM" || given.random == "NORMAL" || given.random == "EXPONENTIAL";
  KernelSource source("random/random_direct.cl");
  source.tensor("DST", dst)
      .define("RANDOM", concat("RANDOM_", given.random))
      .define("EACH", given.each)
      .define("DIGITS", dtype == DType::f16    ? 11
                        : dtype == DType::bf16 ? 8
                                               : 24)
      .define("MADE", real ? "float" : "long");
  define_seed(source, op.in(0));
  define_number(source, dst);
  auto kernel = std::make_unique<KernelList>(device);
  Launch& launch = kernel->add(source, "random_direct").input(0).output(0, "DST");
  launch.scalar(given.a).scalar(given.b).scalar(given.c).scalar(given.low).scalar(given.count);
  over_places(launch, dst);
  return kernel;
}

void list_random(const Op& op, OpenclDevice& device, CandidateList& out) {
  for (const Layout& layout : layouts_to_try(op, op.out())) {
    Candidate candidate = make_candidate(op, "random_direct");
    candidate.inputs[0] = op.in(0).with_layout(Layout::plain(op.in(0).rank()));
    candidate.outputs[0] = op.out().with_layout(layout);
    candidate.efficiency = 0.3;
    candidate.prepare = [&device, op, candidate] { return prepare_random(device, op, candidate); };
    out.add(std::move(candidate));
  }
}

std::unique_ptr<Kernel> prepare_permutation(OpenclDevice& device, const Op& op) {
  const int64_t count = op.attributes[attr::n];
  cl_int bits = 4;
  while (count > int64_t(1) << (2 * bits)) ++bits;
  KernelSource source("random/random_permutation.cl");
  define_seed(source, op.in(0));
  auto kernel = std::make_unique<KernelList>(device);
  kernel->add(source, "random_permutation")
      .input(0)
      .output(0)
      .scalar(bits)
      .scalar(cl_uint(count))
      .global({size_t(std::max<int64_t>(1, count))});
  return kernel;
}

void list_permutation(const Op& op, OpenclDevice& device, CandidateList& out) {
  Candidate candidate = make_candidate(op, "random_permutation");
  candidate.inputs[0] = op.in(0).with_layout(Layout::plain(op.in(0).rank()));
  candidate.outputs[0] = op.out().with_layout(Layout::plain(1));
  candidate.efficiency = 0.3;
  candidate.prepare = [&device, op] { return prepare_permutation(device, op); };
  out.add(std::move(candidate));
}

PL_OPENCL_OP("random_dropout", list_dropout);
PL_OPENCL_OP("random", list_random);
PL_OPENCL_OP("random_permutation", list_permutation);

}  // namespace

void define_seed(KernelSource& source, const TensorDesc& seed) {
  if (seed.elements() > 1) source.define("PHILOX_FIRST(seed)", "((ulong)(seed)[1])");
}

}  // namespace pl::opencl

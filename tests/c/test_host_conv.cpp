// The host provider's own convolutions (conv_kernels.h): every candidate, of every instruction set that this processor
// has, against sums in double precision.
#include <sys/mman.h>
#include <unistd.h>

#include "candidates.h"
#include "core/threads.h"
#include "ops/post_ops.h"
#include "providers/host/conv/conv_candidates.h"

using namespace pl;
using namespace pltest;

namespace {

struct Case {
  Dims x, weight;
  std::string attributes;
  bool bias = true, residual = false;
  double reach = 2;  // of the bias
};

Values reference(const Op& op, const Values& x, const Values& weight, const Values& bias, const Values& residual) {
  const Dims xs = op.in(0).shape, ws = op.in(1).shape, ys = op.out().shape;
  const int spatial = xs.size() - 2;
  const auto window = [&](int from_last) {
    return from_last < spatial ? window_of(op, spatial - 1 - from_last) : Window{1, 1};
  };
  const Window columns = window(0), rows = window(1), planes = window(2);
  const int64_t groups = op.attributes[attr::groups], group_oc = ws[0] / groups, ic = ws[1];
  const PostOp function = sum_then_function(op)->function ? *sum_then_function(op)->function : PostOp();
  const std::string& activation = function.name;
  const double alpha = function.alpha(), beta = function.beta();
  Values result;
  for (int64_t n = 0; n < ys[0]; ++n)
    for (int64_t o = 0; o < ys[1]; ++o)
      for (int64_t place = 0; place < planes.out * rows.out * columns.out; ++place) {
        const int64_t od = place / (rows.out * columns.out), oh = place / columns.out % rows.out;
        const int64_t ow = place % columns.out;
        double sum = bias.empty() ? 0 : bias[size_t(o)];
        for (int64_t i = 0; i < ic; ++i)
          for (int64_t kd = 0; kd < planes.kernel; ++kd)
            for (int64_t kh = 0; kh < rows.kernel; ++kh)
              for (int64_t kw = 0; kw < columns.kernel; ++kw) {
                const int64_t d = od * planes.stride - planes.begin + kd * planes.dilation;
                const int64_t h = oh * rows.stride - rows.begin + kh * rows.dilation;
                const int64_t w = ow * columns.stride - columns.begin + kw * columns.dilation;
                if (d < 0 || h < 0 || w < 0 || d >= planes.in || h >= rows.in || w >= columns.in) continue;
                const int64_t c = o / group_oc * ic + i;
                sum += x[size_t((((n * xs[1] + c) * planes.in + d) * rows.in + h) * columns.in + w)] *
                       weight[size_t((((o * ic + i) * planes.kernel + kd) * rows.kernel + kh) * columns.kernel + kw)];
              }
        if (!residual.empty()) sum += residual[result.size()];
        if (activation == "relu") sum = std::max(sum, 0.0);
        if (activation == "relu6") sum = std::min(std::max(sum, 0.0), 6.0);
        if (activation == "clip") sum = std::min(std::max(sum, alpha), beta);
        if (activation == "leaky_relu") sum = sum > 0 ? sum : alpha * sum;
        if (activation == "hardswish") sum = sum * std::min(std::max(sum / 6 + 0.5, 0.0), 1.0);
        if (activation == "silu") sum = sum / (1 + std::exp(-sum));
        if (activation == "sigmoid") sum = 1 / (1 + std::exp(-sum));
        if (activation == "tanh") sum = std::tanh(sum);
        result.push_back(sum);
      }
  return result;
}

// Returns the number of candidates that are no reference.
int run(const Case& c) {
  static const auto cpu = make_cpu_device();
  static host::HostProvider provider;
  static unsigned seed = 1;
  const std::string name = concat("conv", c.x.size() - 2, "d");
  const Argument x = random_argument(DType::f32, c.x, ++seed), weight = random_argument(DType::f32, c.weight, ++seed);
  const Argument bias = c.bias ? random_argument(DType::f32, {c.weight[0]}, ++seed, -c.reach, c.reach) : absent();
  const Attributes attributes = Attributes::parse(c.attributes);
  const Op op = make_op(*find_schema(name), attributes, {x.desc, weight.desc, bias.desc});
  const Argument residual = c.residual ? random_argument(DType::f32, op.out().shape, ++seed) : absent();
  const Values expected = reference(op, x.values, weight.values, bias.values, residual.values);
  // Rounding adds up with the products of a sum.
  const double products = double(c.weight.product() / c.weight[0]);
  const Outcome outcome = check_candidates(provider, *cpu, name, c.attributes, {x, weight, bias, residual}, expected,
                                           {1e-5, 1e-4 * std::max(1.0, products / 500)});
  return outcome.candidates - outcome.references;
}

// Groups of several channels have vector code where an instruction permutes lanes, and a vector holds whole groups.
bool has_vector_code(const Case& c) {
  const host::ConvKernels& best = host::conv_kernels();
  const int64_t channels_of_group = c.weight[1], groups = c.x[1] / channels_of_group;
  return groups == 1 || channels_of_group == 1 || (best.groups && channels_of_group <= best.width);
}

void expect_some(const Case& c) {
  if (run(c) > 0 || !has_vector_code(c)) return;
  std::printf("FAILED %s: only the reference runs it\n", c.attributes.c_str());
  check_count_failure();
}

const char* const kActivations[] = {"",
                                    " activation=relu",
                                    " activation=relu6",
                                    " activation=hardswish",
                                    " activation=silu",
                                    " activation=sigmoid",
                                    " activation=tanh",
                                    " activation=clip activation_alpha=-0.5 activation_beta=1.5",
                                    " activation=leaky_relu activation_alpha=0.1"};

SETUP() {
  const host::ConvKernels* const* kernels = host::all_conv_kernels();
  for (; *kernels; ++kernels) std::printf("%s, width %d\n", (*kernels)->isa, (*kernels)->width);
  host::every_instruction_set() = true;
}

// sigmoid(0) is no zero: padded channels must not keep it.
TEST("activations") {
  for (int threads : {2, 1, 5}) {
    use_threads(threads);
    for (const char* activation : kActivations)
      for (bool residual : {false, true}) {
        expect_some({{2, 21, 5, 9}, {21, 1, 3, 3}, std::string("groups=21 padding=1") + activation, true, residual});
        expect_some({{2, 20, 5, 9}, {37, 20, 1, 1}, activation, true, residual});
        expect_some({{2, 5, 5, 9}, {37, 5, 3, 2}, std::string("padding=1") + activation, true, residual});
      }
  }
}

TEST("activations_of_large_values") {
  for (const char* activation : kActivations)
    for (double reach : {300.0, 3e38}) {
      expect_some({{1, 40, 5, 9}, {40, 1, 3, 3}, std::string("groups=40 padding=1") + activation, true, false, reach});
      expect_some({{1, 4, 5, 9}, {37, 4, 1, 1}, activation, true, false, reach});
    }
}

TEST("depthwise") {
  for (int threads : {2, 1, 5}) {
    use_threads(threads);
    for (int64_t c : {8, 13, 16, 24, 40})
      for (const char* geometry : {"padding=1", "stride=2 padding=1", "stride=[2,1] padding=[1,0,2,3]",
                                   "padding=2 dilation=2", "stride=3 padding=[0,2,1,0] dilation=[1,3]", ""})
        for (int64_t w : {7, 14, 17, 33})
          expect_some({{1, c, 6 + w % 4, w}, {c, 1, 3, 3}, concat("groups=", c, " ", geometry)});
    for (int64_t w : {7, 14, 30})
      for (const char* geometry : {"padding=2", "stride=2 padding=2", "stride=2 padding=[1,1,2,2]"})
        for (int64_t c : {16, 19}) expect_some({{2, c, w, w}, {c, 1, 5, 5}, concat("groups=", c, " ", geometry)});
    // Kernels that reach beyond the image on both sides, of even size, of one row; more padding than kernel.
    expect_some({{1, 16, 2, 1}, {16, 1, 5, 5}, "groups=16 padding=2"});
    expect_some({{1, 16, 3, 3}, {16, 1, 7, 7}, "groups=16 padding=3", false});
    expect_some({{3, 17, 9, 8}, {17, 1, 2, 4}, "groups=17 padding=[0,1,1,2]", false, true});
    expect_some({{1, 16, 4, 4}, {16, 1, 3, 3}, "groups=16 padding=5"});
    expect_some({{1, 12, 4, 4}, {12, 1, 1, 1}, "groups=12 stride=2 padding=1"});
    expect_some({{2, 18, 19}, {18, 1, 5}, "groups=18 padding=2 stride=2"});
    for (int64_t c : {16, 19, 40})
      for (const char* geometry : {"padding=1", "stride=[1,2,2] padding=1", "padding=2 dilation=[2,1,1] stride=[1,1,2]",
                                   "stride=[2,1,2] padding=[1,0,2,3,1,0]", ""})
        expect_some({{2, c, 5, 7, 18}, {c, 1, 3, 3, 3}, concat("groups=", c, " ", geometry), true, true});
    expect_some({{2, 24, 7, 3, 4}, {24, 1, 5, 1, 1}, "groups=24 padding=[2,0,0]"});
    expect_some({{1, 35, 1, 6, 1}, {35, 1, 3, 3, 3}, "groups=35 padding=1 activation=relu", true, true});
    expect_some({{2, 32, 41}, {32, 1, 3}, "groups=32 padding=1", true, true});
    expect_some({{5, 35, 21, 23}, {35, 1, 3, 3}, "groups=35 padding=1 activation=relu", true, true});
  }
}

TEST("grouped") {
  for (int threads : {2, 1, 5}) {
    use_threads(threads);
    for (int64_t group : {2, 4, 8})
      for (int64_t c : {16, 24, 48, 56})
        for (const char* geometry : {"padding=1", "stride=2 padding=1", "stride=[2,1] padding=[1,0,2,3]", ""})
          for (int64_t w : {3, 7, 16, 21})
            expect_some({{2, c, 5, w}, {c, group, 3, 3}, concat("groups=", c / group, " ", geometry)});
    for (int64_t w : {3, 7, 16, 21})  // a whole vector of 16
      for (const char* geometry : {"groups=3 padding=1 activation=relu", "groups=3 stride=2 padding=[1,0,2,3]"})
        expect_some({{2, 48, 5, w}, {48, 16, 3, 3}, geometry, true, true});
    expect_some({{1, 40, 9, 9}, {40, 8, 3, 3}, "groups=5 padding=1 activation=sigmoid", true, true});
    expect_some({{1, 16, 9, 9}, {16, 8, 5, 3}, "groups=2 padding=1 dilation=[2,1]", true, true});
    expect_some({{2, 24, 31}, {24, 4, 3}, "groups=6 padding=1 stride=2"});
    expect_some({{2, 24, 4, 5, 17}, {24, 4, 3, 3, 3}, "groups=6 padding=1 stride=[1,2,2]", true, true});
  }
}

TEST("pointwise") {
  for (int threads : {2, 1, 5}) {
    use_threads(threads);
    for (int64_t inputs : {4, 8, 16, 17, 24, 40, 70})
      for (int64_t outputs : {4, 8, 15, 16, 24, 33, 64, 80, 96, 112, 130})
        for (int64_t size : {1, 3, 7})
          expect_some({{1, inputs, size, size}, {outputs, inputs, 1, 1}, "activation=relu"});
    for (int64_t pixels = 1; pixels <= 40; ++pixels) expect_some({{1, 19, 1, pixels}, {67, 19, 1, 1}, "", true, true});
    expect_some({{2, 24, 9, 11}, {40, 24, 1, 1}, "stride=2", true, true});
    expect_some({{3, 13, 8, 7}, {30, 13, 1, 1}, "stride=[3,1] activation=relu6", false});
    expect_some({{2, 16, 8, 7}, {16, 16, 1, 1}, "stride=[1,2]", false, true});
    expect_some({{4, 33, 20, 21}, {70, 33, 1, 1}, "activation=relu", true, true});
    expect_some({{2, 300, 14, 14}, {48, 300, 1, 1}, "", true, false});
    expect_some({{1, 48, 60, 60}, {200, 48, 1, 1}, "", true, true});  // several blocks
    // Weights that no second-level cache holds beside x: channels in several steps, before or after the outputs.
    expect_some({{2, 260, 11, 13}, {530, 260, 1, 1}, "activation=silu", true, true});
    expect_some({{1, 1100, 9, 9}, {131, 1100, 1, 1}, "activation=relu", true, true});
    expect_some({{1, 1030, 1, 300}, {150, 1030, 1, 1}, "activation=tanh"});
    expect_some({{2, 18, 23}, {20, 18, 1}, "stride=2", true, true});
    expect_some({{2, 18, 23}, {20, 18, 1}, "", true, true});
  }
}

TEST("direct") {
  for (int threads : {2, 1, 5}) {
    use_threads(threads);
    // Channels that leave lanes, tiles of pixels that leave some, in every geometry.
    for (int64_t inputs : {1, 3, 20})
      for (int64_t outputs : {1, 3, 9, 33, 70})
        for (const char* geometry : {"padding=1", "stride=2 padding=1", "stride=[2,3] padding=[1,0,2,3]",
                                     "padding=2 dilation=2", "stride=[1,3] padding=[0,2,1,0] dilation=[1,2]", ""})
          expect_some({{2, inputs, 6, 19 - outputs % 4}, {outputs, inputs, 3, 3}, geometry});
    for (int64_t w = 1; w <= 36; ++w) expect_some({{1, 2, 2, w}, {18, 2, 3, 3}, "padding=1", true, true});
    // Vectors of columns: every number of them, and of channels of a tile.
    for (int64_t w = 1; w <= 150; w += w < 40 ? 1 : 9)
      expect_some({{1, 3, 2, w}, {w % 7 + 1, 3, 3, 3}, "padding=1 activation=relu", true, true});
    for (const char* activation : kActivations)
      expect_some({{2, 5, 5, 21}, {3, 5, 3, 3}, std::string("padding=1 stride=2") + activation, true, true});
    expect_some({{1, 1, 20, 33}, {64, 1, 5, 5}, "padding=2 activation=tanh"});
    expect_some({{1, 3, 30, 31}, {24, 3, 7, 7}, "stride=2 padding=3 activation=relu", false});
    expect_some({{1, 1, 24, 40}, {56, 1, 9, 9}, "padding=4", true, true});
    expect_some({{1, 3, 32, 32}, {20, 3, 16, 16}, "stride=16"});
    // Kernels that reach beyond the image on both sides, of even size, of one row; more padding than kernel.
    expect_some({{1, 18, 2, 1}, {17, 18, 5, 5}, "padding=2"});
    expect_some({{3, 17, 9, 8}, {17, 17, 2, 4}, "padding=[0,1,1,2]", false, true});
    expect_some({{1, 16, 4, 4}, {16, 16, 3, 3}, "padding=5"});
    expect_some({{1, 6, 4, 4}, {16, 6, 2, 2}, "stride=5 padding=3"});
    expect_some({{1, 5, 1, 90}, {7, 5, 1, 11}, "padding=[0,5]", true, true});
    expect_some({{1, 5, 90, 1}, {7, 5, 11, 1}, "padding=[5,0]", true, true});
    // Planes of more than a tile: several in rows, in columns, in vectors of channels.
    expect_some({{1, 160, 20, 70}, {9, 160, 3, 2}, "padding=1 activation=relu", true, true});
    expect_some({{2, 40, 9, 150}, {7, 40, 3, 3}, "padding=2 dilation=2", true, true});
    expect_some({{1, 300, 3, 3}, {70, 300, 2, 3}, "padding=1", true, true});
    // One dimension.
    expect_some({{2, 18, 23}, {20, 18, 5}, "stride=2 padding=3", true, true});
    expect_some({{1, 33, 700}, {33, 33, 7}, "padding=9 dilation=3 activation=leaky_relu activation_alpha=0.1", true});
    expect_some({{1, 32, 500}, {1, 32, 7}, "padding=3 activation=tanh"});
  }
}

// NaN goes through activations, as it does in the ops of their names.
TEST("nan") {
  for (const char* activation : kActivations) {
    for (const char* kind : {"pointwise", "depthwise", "direct"}) {
      const bool depthwise = kind == std::string("depthwise"), direct = kind == std::string("direct");
      Argument x = random_argument(DType::f32, {1, 16, 3, 3}, 5);
      const Argument weight = random_argument(DType::f32, {16, depthwise ? 1 : 16, direct ? 2 : 1, direct ? 2 : 1}, 6);
      x.values[4] = NAN;  // channel 0, pixel 4
      const auto cpu = make_cpu_device();
      // With a dilation that reaches beyond the image from all of its pixels, only one tap is inside.
      const std::string attributes = std::string(depthwise ? "groups=16"
                                                 : direct  ? "padding=[0,0,3,3] dilation=3"
                                                           : "") +
                                     activation;
      const Op op = make_op(*find_schema("conv2d"), Attributes::parse(attributes), {x.desc, weight.desc});
      Values expected = reference(op, x.values, weight.values, {}, {});
      for (size_t o = 0; o < 16; ++o)
        if (!depthwise || o == 0) expected[o * 9 + 4] = NAN;
      host::HostProvider provider;
      check_candidates(provider, *cpu, "conv2d", attributes, {x, weight}, expected, {1e-5, 1e-4});
    }
  }
}

// Memory of exactly so many bytes: nothing may be touched before it, or behind it.
BufferRef fenced(const std::shared_ptr<Device>& device, size_t bytes, bool behind) {
  const size_t page = size_t(sysconf(_SC_PAGESIZE)), inner = (bytes + page - 1) / page * page;
  char* map =
      static_cast<char*>(mmap(nullptr, inner + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (map == MAP_FAILED) std::abort();
  mprotect(map, page, PROT_NONE);
  mprotect(map + page + inner, page, PROT_NONE);
  auto block = std::make_unique<Block>();
  block->host = map + page + (behind ? inner - bytes : 0);
  block->bytes = bytes;
  return std::make_shared<Buffer>(device, std::move(block), [=] { munmap(map, inner + 2 * page); });
}

// An access outside the tensors ends the program.
TEST("bounds") {
  const auto cpu = make_cpu_device();
  host::HostProvider provider;
  const Case cases[] = {{{1, 21, 9, 9}, {21, 1, 3, 3}, "groups=21 padding=1"},
                        {{1, 32, 9, 9}, {32, 1, 5, 5}, "groups=32 padding=2 stride=2"},
                        {{1, 40, 9, 12}, {40, 1, 3, 3}, "groups=40 stride=2"},
                        {{2, 19, 7, 5}, {19, 1, 4, 4}, "groups=19 padding=[0,3,3,0] dilation=2"},
                        {{1, 24, 9, 21}, {24, 8, 3, 3}, "groups=3 padding=1"},
                        {{1, 28, 9, 8}, {28, 4, 3, 3}, "groups=7 padding=1 stride=2"},
                        {{1, 21, 7, 7}, {37, 21, 1, 1}, "activation=silu"},
                        {{1, 16, 7, 7}, {128, 16, 1, 1}, "activation=relu"},
                        {{2, 19, 7, 7}, {33, 19, 1, 1}, "stride=2 activation=tanh"},
                        {{1, 530, 7, 9}, {261, 530, 1, 1}, "activation=silu"},
                        {{2, 3, 9, 21}, {33, 3, 3, 3}, "stride=2 padding=1 activation=tanh"},
                        {{1, 19, 11, 7}, {9, 19, 3, 3}, "dilation=2"},
                        {{1, 16, 8, 40}, {64, 16, 5, 5}, "padding=2"},
                        {{1, 20, 9, 37}, {3, 20, 5, 5}, "padding=2 activation=silu"},
                        {{2, 2, 9, 70}, {1, 2, 3, 3}, "stride=2"}};
  for (const Case& c : cases) {
    const Op plain = make_op(*find_schema("conv2d"), Attributes::parse(c.attributes),
                             {TensorDesc::dense(DType::f32, c.x), TensorDesc::dense(DType::f32, c.weight)});
    std::vector<TensorDesc> descs = plain.inputs;
    descs.resize(2);
    descs.push_back(TensorDesc::dense(DType::f32, {c.weight[0]}));
    descs.push_back(plain.out());
    const Op op = make_op(*find_schema("conv2d"), Attributes::parse(c.attributes), descs);
    CandidateList list;
    host::list_depthwise(op, list);
    host::list_pointwise(op, list);
    host::list_direct(op, list);
    for (const Candidate& candidate : list.candidates)
      for (bool behind : {false, true}) {
        std::vector<BufferRef> buffers;
        std::vector<Buffer*> in;
        for (const TensorDesc& desc : candidate.inputs) {
          buffers.push_back(fenced(cpu, desc.size_bytes(), behind));
          in.push_back(buffers.back().get());
        }
        const BufferRef y = fenced(cpu, candidate.outputs[0].size_bytes(), behind);
        Buffer* out = y.get();
        BufferRef workspace;
        if (candidate.workspace_bytes) workspace = fenced(cpu, candidate.workspace_bytes, behind);
        candidate.prepare()->run({in.data(), &out, workspace.get()});
      }
    if (list.candidates.empty() && has_vector_code(c)) {
      std::printf("FAILED %s: no candidate\n", c.attributes.c_str());
      check_count_failure();
    }
  }
}

// Ops that are left to others, and none that is listed for both kernels.
TEST("refusals") {
  const Case left[] = {{{1, 16, 5, 5}, {32, 1, 3, 3}, "groups=16"},
                       {{1, 3, 5, 5}, {8, 3, 1, 1}, ""},
                       {{1, 16, 5, 5}, {16, 8, 1, 1}, "groups=2"},
                       {{1, 16, 5, 5}, {16, 16, 1, 1}, "padding=1"},
                       {{0, 16, 5, 5}, {16, 16, 1, 1}, ""}};
  for (const Case& c : left)
    if (run(c) != 0) {
      std::printf("FAILED %s: a fast candidate is listed\n", c.attributes.c_str());
      check_count_failure();
    }
}

}  // namespace

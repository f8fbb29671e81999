// What training adds, on OpenCL devices that say they are GPUs, so that work-items share rows, channels and sums: every
// candidate in every layout against the host provider in f32, in f32, f16 and bf16.
#include <map>
#include <set>
#include <string>

#include "opencl_testing.h"
#include "providers/opencl/conv/conv_common.h"
#include "providers/opencl/matrix_units/mma.h"

using namespace pl;
using namespace pl::opencl_testing;

namespace {

std::set<std::string> seen;  // implementations that ran

struct Case {
  const char* op;
  const char* attributes;
  std::vector<Dims> shapes;  // of the inputs that are floating numbers
  int indices = -1;          // the input that holds them, after which the others come; -1: none
  Dims indices_shape = {};
  int64_t size = 1;                // they are below it
  std::vector<int> positive = {};  // inputs that are variances, rates and squares
  std::vector<int> singles = {};   // inputs that are f32 whatever the others are
  double limit = 3;                // of inputs that may be negative
};

std::vector<Input> inputs_of(const Case& c, DType dtype) {
  std::vector<Input> inputs;
  for (size_t i = 0; i < c.shapes.size(); ++i) {
    if (int(inputs.size()) == c.indices) {
      inputs.push_back(random_input(DType::s64, c.indices_shape, 0, double(c.size) - 0.01));
    }
    const bool positive = std::find(c.positive.begin(), c.positive.end(), int(inputs.size())) != c.positive.end();
    const bool single = std::find(c.singles.begin(), c.singles.end(), int(inputs.size())) != c.singles.end();
    const bool exact = single || (positive && c.shapes[i].size() == 0);
    inputs.push_back(
        random_input(exact ? DType::f32 : dtype, c.shapes[i], positive ? 0.5 : -c.limit, positive ? 2 : c.limit));
  }
  if (c.indices == int(inputs.size()))
    inputs.push_back(random_input(DType::s64, c.indices_shape, 0, double(c.size) - 0.01));
  return inputs;
}

void run(const Case& c, const std::vector<DType>& dtypes = {DType::f32, DType::f16, DType::bf16},
         bool whole_space = false) {
  for (const DType dtype : dtypes) {
    const std::vector<Input> inputs = inputs_of(c, dtype);
    std::vector<Input> exact = inputs;  // the same values in f32
    for (Input& input : exact)
      if (is_floating(input.desc.dtype)) input.desc = TensorDesc::dense(DType::f32, input.desc.shape);
    std::vector<Values> wanted;
    run_all(c.op, c.attributes, exact,
            [&](const Op&, const std::vector<Values>& results, const std::string&) { wanted = results; });
    const double step = dtype == DType::f32 ? 2e-6 : dtype == DType::f16 ? 1e-3 : 8e-3;
    const int ran = run_all_opencl(
        c.op, c.attributes, inputs,
        [&](const Op&, const std::vector<Values>& results, const std::string& what) {
          for (size_t k = 0; k < results.size(); ++k) {
            double largest = 1;
            for (double value : wanted[k]) largest = std::max(largest, std::fabs(value));
            for (size_t i = 0; i < results[k].size(); ++i) {
              if (std::fabs(results[k][i] - wanted[k][i]) <= 4 * step * largest) continue;
              std::fprintf(stderr, "%s: result %zu, element %zu is %g, expected %g\n", what.c_str(), k, i,
                           results[k][i], wanted[k][i]);
              end_test();
            }
          }
        },
        whole_space,
        [&](const Candidate& candidate) {
          seen.insert(candidate.implementation);
          return true;
        });
    CHECK(ran >= 1);
  }
}

SETUP() {
  pretend_gpus();
  if (targets().empty()) SKIP("no OpenCL device here");
}

TEST("batch_norm") {
  seen.clear();
  for (const Dims& x : {Dims{3, 20, 9, 8}, Dims{2, 16, 5, 7}, Dims{300, 6}, Dims{5, 3, 129}, Dims{2, 33, 40, 40}}) {
    const Dims c{x[1]};
    run({"batch_norm_training", "eps=0.01", {x, c, c}});
    run({"batch_norm_backward", "eps=0.01", {x, x, c, c, c}, -1, {}, 1, {3}, {2, 3}});
    if (x[0] != 3 && x[0] != 2) continue;
    run({"batch_norm_training", "low=0.0 high=0.75", {x, c, c}});
    if (x[0] == 3 || x[1] == 33)
      run({"batch_norm_training", "post_ops=\"multiply(gate), tanh, add(residual), relu\"", {x, c, c, x, x}});
    const auto run_behind = [&](const char* function) {
      run({"batch_norm_backward", function, {x, x, c, c, c, c}, -1, {}, 1, {3}, {2, 3}});
    };
    run_behind("activation=silu");
    if (x[1] == 33) continue;  // of so many results one may lie within rounding of where these slopes jump
    for (const char* function : {"relu", "clip activation_alpha=0.0 activation_beta=0.75", "leaky_relu"})
      run_behind((std::string("activation=") + function).c_str());
  }
  CHECK(seen.count("batch_norm_training_whole") == 1 && seen.count("batch_norm_backward_whole") == 1);
}
TEST("squeeze_excite") {
  const auto check = [](const char* attributes, const Dims& x, int64_t squeezed, bool matrices = false) {
    const int64_t c = x[1];
    const auto shape = [&](int64_t rows, int64_t columns) {
      return matrices ? Dims{rows, columns} : Dims{rows, columns, 1, 1};
    };
    Case one{
        "squeeze_excite_backward", attributes, {x, x, shape(squeezed, c), Dims{squeezed}, shape(c, squeezed), Dims{c}}};
    one.limit = 0.5;
    run(one);
  };
  seen.clear();
  check("hidden=silu", {2, 12, 3, 5}, 5);
  check("hidden=hardswish gate=hardsigmoid", {3, 72, 7, 7}, 24, true);
  check("hidden=silu", {2, 20, 9}, 3);
  check("hidden=silu gate=hardsigmoid", {1, 8, 2, 3, 4}, 40);
  check("hidden=silu", {1, 2084, 1, 3}, 7);  // more quads than work-items
  check("hidden=silu", {2, 8, 33, 41}, 2);   // sums in parts
  CHECK(seen.count("squeeze_excite_backward") == 1);
}
TEST("norms") {
  seen.clear();
  run({"layer_norm_backward", "normalized_shape=[96]", {{7, 9, 96}, {7, 9, 96}, {96}}});
  run({"layer_norm_backward", "normalized_shape=[12]", {{301, 12}, {301, 12}}});
  run({"layer_norm_backward", "normalized_shape=[768]", {{501, 768}, {501, 768}, {768}}});  // parts of several rows
  run({"rms_norm_backward", "normalized_shape=[1028]", {{5, 1028}, {5, 1028}, {1028}}});
  CHECK(seen.count("layer_norm_backward_rows") == 1);
  run({"layer_norm_backward", "normalized_shape=[70]", {{9, 5, 70}, {9, 5, 70}, {70}}});
  run({"layer_norm_backward", "normalized_shape=[5,7]", {{600, 5, 7}, {600, 5, 7}}});
  run({"rms_norm_backward", "normalized_shape=[300]", {{4, 300}, {4, 300}, {300}}});
}
TEST("group_norms") {
  seen.clear();
  run({"group_norm_backward", "num_groups=3", {{3, 12, 9, 8}, {3, 12, 9, 8}, {12}}});
  run({"group_norm_backward", "num_groups=7", {{2, 21, 5, 7}, {2, 21, 5, 7}, {21}}},
      {DType::f32});  // blocks across groups
  run({"group_norm_backward", "num_groups=1", {{2, 40, 33}, {2, 40, 33}}}, {DType::f32});
  run({"group_norm_backward", "num_groups=6", {{1, 6, 4, 3, 5}, {1, 6, 4, 3, 5}, {6}}},
      {DType::f32});  // instance_norm's
  run({"group_norm_backward", "num_groups=2", {{5, 8}, {5, 8}, {8}}}, {DType::f32});
  run({"group_norm_backward", "num_groups=4", {{2, 32, 64, 65}, {2, 32, 64, 65}, {32}}},
      {DType::f32});  // sums in parts
  CHECK(seen.count("group_norm_backward") == 1);
}
TEST("cross_entropy") {
  for (const char* attributes : {"", "reduction=sum label_smoothing=0.1", "reduction=\"none\"", "ignore_index=3"}) {
    const Dims x{70, 40}, target{70};
    const bool none = std::string(attributes).find("none") != std::string::npos;
    run({"cross_entropy", attributes, {x}, 1, target, 40});
    run({"cross_entropy", attributes, {x, {40}}, 1, target, 40, {2}});
    run({"cross_entropy_backward", attributes, {x, none ? target : Dims{}, {40}}, 1, target, 40, {3}});
  }
  run({"cross_entropy", "", {{2, 17, 5, 3}}, 1, {2, 5, 3}, 17});
  run({"cross_entropy_backward", "", {{2, 17, 5, 3}, {}}, 1, {2, 5, 3}, 17, {}});
}
TEST("attention") {
  seen.clear();
  const char* const op = "scaled_dot_product_attention_backward";
  const auto heads = [&](const char* attributes, const Dims& q, const Dims& k, int64_t values, const Dims& mask = {}) {
    Dims v = k, grad = q;
    v[v.size() - 1] = grad[grad.size() - 1] = values;
    Case c{op, attributes, {q, k, v, grad}};
    if (mask.size()) c.shapes.push_back(mask);
    // Building programs takes most of the time.
    run(c, seen.empty() ? std::vector<DType>{DType::f32, DType::f16, DType::bf16} : std::vector<DType>{DType::f32});
  };
  heads("", {1, 2, 30, 16}, {1, 2, 23, 16}, 8);
  heads("scale=0.7", {2, 27, 12}, {2, 30, 12}, 19);  // rows are no whole pieces
  heads("is_causal=true softcap=1.5 scale=-0.5", {2, 30, 16}, {2, 23, 16}, 24);
  heads("enable_gqa=true", {2, 6, 33, 8}, {2, 2, 20, 8}, 8, {2, 1, 33, 1});
  heads("enable_gqa=true is_causal=true", {4, 20, 8}, {1, 40, 8}, 8);
  heads("", {2, 2, 3, 5, 7}, {2, 2, 3, 9, 7}, 1, {2, 1, 1, 1, 9});
  const auto ran = [](const char* name) {
    return std::any_of(seen.begin(), seen.end(), [&](const std::string& one) { return one.rfind(name, 0) == 0; });
  };
  CHECK(ran("attention_backward_mma"));
}
// Every kernel drops the same weights as the host: odd numbers of keys, heads that share keys, both kinds of seeds.
TEST("attention_dropout") {
  seen.clear();
  const auto drop = [&](const char* attributes, const Dims& q, const Dims& k, int64_t values, const Dims& mask,
                        const Dims& seed) {
    Dims v = k, y = q;
    v[v.size() - 1] = y[y.size() - 1] = values;
    run({"scaled_dot_product_attention", attributes, {q, k, v, mask}, 4, seed, 100000}, {DType::f32});
    run({"scaled_dot_product_attention_backward", attributes, {q, k, v, y, mask}, 5, seed, 100000}, {DType::f32});
  };
  drop("dropout_p=0.3", {1, 2, 30, 16}, {1, 2, 23, 16}, 8, {30, 23}, {2});
  drop("dropout_p=0.5 is_causal=true enable_gqa=true", {2, 4, 40, 8}, {2, 2, 40, 8}, 8, {1, 40}, {1});
  drop("dropout_p=0.1 softcap=1.5", {2, 2, 3, 20, 8}, {2, 2, 3, 34, 8}, 8, {2, 1, 1, 1, 34}, {2});
  const auto ran = [](const char* name) {
    return std::any_of(seen.begin(), seen.end(), [&](const std::string& one) { return one.rfind(name, 0) == 0; });
  };
  CHECK(ran("attention_mma") && ran("attention_backward_mma"));
}
// Scores beside a mask of -1e9 are rounded away: a query whose keys all have it counts them alike, as one of zeros does.
TEST("attention_hidden_keys") {
  std::vector<Input> zeros;
  for (const Dims& shape : {Dims{2, 33, 8}, Dims{2, 23, 8}, Dims{2, 23, 8}, Dims{2, 33, 8}, Dims{33, 23}})
    zeros.push_back(random_input(DType::f32, shape, -1, 1));
  std::fill_n(zeros[4].values.begin(), 2 * 23, 0.0);
  std::vector<Input> hidden = zeros;
  for (size_t head = 0; head < 2; ++head) std::fill_n(zeros[0].values.begin() + head * 33 * 8, 2 * 8, 0.0);
  std::map<std::string, std::vector<Values>> wanted;
  run_all_opencl(
      "scaled_dot_product_attention_backward", "", zeros,
      [&](const Op&, const std::vector<Values>& results, const std::string& what) { wanted[what] = results; });
  CHECK(!wanted.empty());
  for (double by : {-1e9, -3.4e38}) {
    std::fill_n(hidden[4].values.begin(), 2 * 23, by);
    run_all_opencl("scaled_dot_product_attention_backward", "", hidden,
                   [&](const Op&, const std::vector<Values>& results, const std::string& what) {
                     for (size_t k : {0, 2})  // by keys the queries themselves count
                       for (size_t i = 0; i < results[k].size(); ++i) {
                         if (std::fabs(results[k][i] - wanted[what][k][i]) < 1e-4) continue;
                         std::fprintf(stderr, "%s, %g: result %zu, element %zu is %g, expected %g\n", what.c_str(), by,
                                      k, i, results[k][i], wanted[what][k][i]);
                         end_test();
                       }
                   });
  }
}
TEST("recurrent") {
  const int64_t steps = 5, features = 7, hidden = 37;  // units that the work-items share unevenly
  const auto layer = [&](const std::string& name, int64_t gates, const std::string& attributes, int64_t batch) {
    const Dims x{steps, batch, features}, lengths{batch};
    const bool lstm = name == "lstm";
    const int64_t directions = attributes.find("bidirectional") != std::string::npos ? 2 : 1;
    const bool batch_first = attributes.find("batch_first") != std::string::npos;
    const Dims own = batch_first ? Dims{batch, steps, features} : x;
    const Dims w{directions, gates * hidden, features}, r{directions, gates * hidden, hidden};
    const Dims b{directions, 2 * gates * hidden}, p{directions, 3 * hidden};
    const Dims state = batch_first ? Dims{batch, directions, hidden} : Dims{directions, batch, hidden};
    const Dims y = batch_first ? Dims{batch, steps, directions, hidden} : Dims{steps, directions, batch, hidden};
    std::vector<Dims> forward{own, w, r, b, state}, backward{own, w, r, y, y, b, state};
    if (lstm) forward.insert(forward.end(), {state, p});
    if (lstm) backward.insert(backward.end(), {state, p, state});
    backward.push_back(state);
    const std::string of_gradients = name + "_backward";
    const std::vector<DType> dtypes{DType::f32, DType::f16, DType::bf16};
    run({name.c_str(), attributes.c_str(), forward, 4, lengths, steps + 1, {}, {}, 0.5}, dtypes, true);
    run({of_gradients.c_str(), attributes.c_str(), backward, 6, lengths, steps + 1, {}, {}, 0.5}, dtypes, true);
  };
  layer("lstm", 4, "direction=bidirectional", 3);
  layer("gru", 3, "direction=bidirectional batch_first=true", 3);
  layer("lstm", 4, "batch_first=true", 11);
  layer("gru", 3, "direction=reverse linear_before_reset=true", 9);
  layer("gru", 3, "direction=bidirectional linear_before_reset=true batch_first=true", 3);
  layer("rnn", 1, "", 17);
  layer("rnn", 1, "nonlinearity=relu batch_first=true", 3);
  for (const char* units : {"8", "16", "32"})
    for (const char* op : {"recurrent", "recurrent_backward"})
      CHECK(seen.count(concat(op, "_by_steps[units=", units, "]")));
}
TEST("resizes") {
  run({"interpolate_backward", "input_size=[9,10] mode=bilinear", {{2, 20, 18, 7}}});
  run({"interpolate_backward", "input_size=[9,10] mode=bilinear align_corners=true", {{2, 19, 5, 17}}});
  run({"interpolate_backward", "input_size=[9,10] scale_factor=[2.5,0.7]", {{2, 20, 22, 7}}});
  run({"interpolate_backward", "input_size=[1,40]", {{1, 3, 33, 1}}});
  run({"interpolate_backward", "input_size=[4,5,6] mode=trilinear", {{1, 5, 7, 3, 12}}});
}
// No sum depends on which work-group comes first.
TEST("same_bits") {
  const auto twice = [](const char* op, const char* attributes, const std::vector<Dims>& shapes) {
    std::vector<Input> inputs;
    for (const Dims& shape : shapes) inputs.push_back(random_input(DType::f32, shape, -1, 1));
    std::map<std::string, std::vector<Values>> first;
    for (int turn = 0; turn < 2; ++turn)
      run_all_opencl(op, attributes, inputs,
                     [&](const Op&, const std::vector<Values>& results, const std::string& what) {
                       if (turn == 0) first[what] = results;
                       if (first[what] == results) return;
                       std::fprintf(stderr, "%s: another run gave other bits\n", what.c_str());
                       end_test();
                     });
    CHECK(!first.empty());
  };
  twice("scaled_dot_product_attention_backward", "", {{2, 6, 30, 8}, {2, 6, 23, 8}, {2, 6, 23, 8}, {2, 6, 30, 8}});
  twice("interpolate_backward", "input_size=[9,10] mode=bilinear", {{2, 20, 18, 7}});
  twice("lstm_backward", "", {{5, 3, 7}, {1, 148, 7}, {1, 148, 37}, {5, 1, 3, 37}, {5, 1, 3, 37}});
}
TEST("look_ups") {
  run({"index_select_backward", "dim=0 size=9", {{150, 70}}, 1, {150}, 9});
  run({"index_select_backward", "dim=1 size=40", {{3, 60, 5}}, 1, {60}, 40});
  // Runs within a chunk of the sorted list, over two and over many of them; slices that are pieces and that are not.
  run({"index_select_backward", "dim=2 size=7", {{2, 12, 70, 5}}, 1, {70}, 7});
  run({"index_select_backward", "dim=3 size=3", {{2, 8, 4, 100}}, 1, {100}, 3});
  run({"index_select_backward", "dim=1 size=2", {{3, 2100, 8}}, 1, {2100}, 2});
  run({"index_select_backward", "dim=0 size=300", {{700, 12}}, 1, {700}, 2});
  run({"index_select_backward", "dim=0 size=5000", {{20, 30, 16}}, 1, {20, 30}, 5000});
  run({"gather_backward", "dim=1 size=40", {{3, 60, 5}}, 1, {3, 60, 5}, 40});
}
TEST("pools") {
  seen.clear();
  run({"max_pool2d_backward", "kernel_size=3 stride=2 padding=1", {{2, 20, 9, 8}, {2, 20, 5, 4}}});
  run({"max_pool2d_backward", "kernel_size=3 stride=1 padding=1", {{2, 48, 7, 9}, {2, 48, 7, 9}}});
  run({"max_pool2d_backward", "kernel_size=2", {{3, 18, 8, 6}, {3, 18, 4, 3}}});
  run({"max_pool2d_backward", "kernel_size=[3,2] stride=[3,1] ceil_mode=true", {{1, 5, 8, 7}, {1, 5, 3, 6}}});
  run({"max_pool2d_backward", "kernel_size=3 stride=2 padding=1 dilation=2", {{2, 16, 13, 12}, {2, 16, 6, 5}}});
  run({"max_pool2d_backward", "kernel_size=2 stride=3", {{2, 8, 11, 11}, {2, 8, 4, 4}}});
  run({"max_pool1d_backward", "kernel_size=3 stride=2 padding=1", {{2, 20, 17}, {2, 20, 9}}});
  CHECK(seen.count("pool_backward_pieces") == 1);
  run({"avg_pool2d_backward", "kernel_size=3 stride=2 padding=1 input_size=[9,8]", {{2, 20, 5, 4}}});
  run({"adaptive_avg_pool2d_backward", "input_size=[9,8]", {{2, 20, 4, 3}}});
  run({"adaptive_max_pool2d_backward", "", {{2, 20, 9, 8}, {2, 20, 4, 3}}});
}
TEST("convolutions_by_weights") {
  more_lists() = {opencl::list_conv_backward_weights_mma};
  seen.clear();
  // 16 bytes are 4 or 8 images; 6 leave pieces that are not whole.
  run({"conv2d_backward_weights", "kernel_size=3 padding=1", {{8, 20, 9, 8}, {8, 40, 9, 8}}});
  run({"conv2d_backward_weights", "kernel_size=3 padding=1 stride=2", {{6, 5, 9, 8}, {6, 33, 5, 4}}});
  run({"conv2d_backward_weights",
       "kernel_size=[7,5] stride=2 padding=3 dilation=[1,2]",
       {{2, 3, 20, 19}, {2, 34, 10, 9}}});
  more_lists() = {};
  run({"conv2d_backward_weights", "kernel_size=3 padding=1 groups=2", {{3, 8, 9, 8}, {3, 12, 9, 8}}});
  run({"conv2d_backward_weights", "kernel_size=3 padding=1 groups=20", {{3, 20, 9, 8}, {3, 20, 9, 8}}});
  run({"conv2d_backward_weights", "kernel_size=7 padding=3 stride=2 groups=32", {{2, 32, 12, 9}, {2, 32, 6, 5}}});
  // Depthwise: rows of grad in pieces, of one position and of some; windows that share columns and that do not.
  const auto depthwise = [](const char* attributes, int64_t channels, const Dims& in, const Dims& out) {
    run({"conv2d_backward_weights", attributes, {{2, channels, in[0], in[1]}, {2, channels, out[0], out[1]}}});
  };
  depthwise("kernel_size=3 padding=1 groups=24", 24, {6, 70}, {6, 70});
  depthwise("kernel_size=5 padding=2 stride=2 groups=18", 18, {9, 75}, {5, 38});
  depthwise("kernel_size=7 padding=3 groups=16", 16, {7, 7}, {7, 7});
  depthwise("kernel_size=3 padding=2 dilation=2 groups=8", 8, {9, 40}, {9, 40});
  depthwise("kernel_size=2 stride=3 groups=33", 33, {8, 11}, {3, 4});
  depthwise("kernel_size=[1,4] stride=[1,3] groups=144", 144, {5, 40}, {5, 13});
  run({"conv1d_backward_weights", "kernel_size=3 padding=1 groups=20", {{3, 20, 45}, {3, 20, 45}}});
  run({"conv3d_backward_weights", "kernel_size=2 stride=2", {{2, 6, 4, 4, 6}, {2, 5, 2, 2, 3}}});
  size_t products = 0;
  for (const std::string& name : seen) products += name.rfind("conv_fwd_mma", 0) == 0 ? 1 : 0;
  CHECK(products >= 3);
}
TEST("convolutions_by_weights_channels_last") {
  more_lists() = {opencl::list_conv_backward_weights_turned};
  seen.clear();
  // Fewer positions than a step has terms, several parts, windows that leave positions out, tiles that are not full.
  run({"conv2d_backward_weights", "kernel_size=1", {{2, 16, 2, 3}, {2, 8, 2, 3}}});
  run({"conv2d_backward_weights", "kernel_size=1", {{5, 72, 17, 9}, {5, 136, 17, 9}}});
  run({"conv2d_backward_weights", "kernel_size=1 stride=2", {{2, 24, 9, 8}, {2, 40, 5, 4}}});
  run({"conv2d_backward_weights", "kernel_size=3 padding=1", {{7, 40, 9, 8}, {7, 24, 9, 8}}});
  run({"conv2d_backward_weights",
       "kernel_size=[3,2] padding=[2,0] stride=2 dilation=[1,3]",
       {{3, 16, 9, 30}, {3, 64, 6, 14}}});
  run({"conv1d_backward_weights", "kernel_size=5 padding=2", {{3, 16, 50}, {3, 32, 50}}});
  // Groups that share a tile, the last tile with fewer; unlike numbers of rows and columns; a group of several tiles.
  run({"conv2d_backward_weights", "kernel_size=3 padding=1 groups=32", {{3, 128, 5, 4}, {3, 128, 5, 4}}});
  run({"conv2d_backward_weights", "kernel_size=3 padding=1 stride=2 groups=6", {{3, 48, 9, 8}, {3, 96, 5, 4}}});
  run({"conv2d_backward_weights", "kernel_size=1 groups=10", {{3, 120, 5, 4}, {3, 40, 5, 4}}});
  run({"conv2d_backward_weights", "kernel_size=1 groups=2", {{2, 144, 6, 5}, {2, 272, 6, 5}}});
  // Channels that pieces of 16 bytes do not divide: 8 bytes do, 4, in f16 fewer; two columns or one at a time.
  run({"conv2d_backward_weights", "kernel_size=1", {{3, 58, 5, 4}, {3, 44, 5, 4}}});
  run({"conv2d_backward_weights", "kernel_size=3 padding=1", {{2, 26, 5, 4}, {2, 74, 5, 4}}});
  run({"conv2d_backward_weights", "kernel_size=3 padding=1 groups=3", {{2, 18, 5, 4}, {2, 30, 5, 4}}});
  run({"conv2d_backward_weights", "kernel_size=1", {{2, 33, 5, 4}, {2, 7, 5, 4}}});
  opencl::wgmma_tiles_in_plain = true;
  run({"conv2d_backward_weights", "kernel_size=1", {{5, 152, 17, 9}, {5, 136, 17, 9}}}, {DType::f16});
  run({"conv2d_backward_weights", "kernel_size=3 padding=1 groups=2", {{2, 136, 6, 5}, {2, 264, 6, 5}}}, {DType::bf16});
  opencl::wgmma_tiles_in_plain = false;
  more_lists() = {};
  const auto ran = [](const char* part) {
    return std::any_of(seen.begin(), seen.end(), [&](const std::string& name) {
      return name.rfind("conv_backward_weights_mma", 0) == 0 && name.find(part) != std::string::npos;
    });
  };
  CHECK(ran("[64x64") && ran("parts=") && ran("bytes=8") && ran("bytes=4") && ran("wgmma"));
}
TEST("convolutions_by_input") {
  seen.clear();
  more_lists() = {opencl::list_conv_transpose_mma};
  run({"conv_transpose2d", "padding=1 activation=relu", {{2, 20, 9, 8}, {20, 36, 3, 3}, {36}}});
  run({"conv_transpose2d", "padding=[1,0] groups=4", {{2, 24, 9, 8}, {24, 8, 3, 2}}});
  run({"conv_transpose1d", "", {{2, 10, 12}, {10, 24, 1}}});
  CHECK(testing::prepared_packings >= 3);
  run({"conv_transpose2d", "padding=1 stride=2 output_padding=[1,0]", {{2, 16, 5, 4}, {16, 33, 3, 3}}});
  run({"conv_transpose2d", "stride=[3,2] padding=[0,1] activation=relu", {{2, 12, 5, 4}, {12, 4, 2, 4}, {4}}});
  // Phases of equal sizes, by one launch: windows that begin elsewhere, and of one tap; one output position each.
  const auto together = [] {
    return std::count_if(seen.begin(), seen.end(),
                         [](const std::string& name) { return name.rfind("conv_transpose_together", 0) == 0; });
  };
  run({"conv_transpose2d", "stride=2 padding=1 activation=relu", {{2, 20, 5, 4}, {20, 35, 4, 4}, {35}}}, {DType::f32});
  run({"conv_transpose2d", "stride=4", {{1, 16, 1, 1}, {16, 24, 4, 4}, {24}}}, {DType::f16});
  run({"conv_transpose3d", "stride=2", {{2, 16, 2, 3, 2}, {16, 24, 2, 2, 2}}}, {DType::bf16});
  CHECK(together() >= 3);
  more_lists() = {};
  run({"conv_transpose2d", "stride=2 output_padding=1", {{2, 8, 5, 4}, {8, 12, 1, 1}, {12}}});
  run({"conv_transpose2d", "padding=3 dilation=[1,2]", {{1, 6, 9, 8}, {6, 8, 5, 3}}});
  run({"conv_transpose2d", "stride=2 padding=1 groups=2", {{2, 16, 5, 4}, {16, 10, 4, 4}}});
  run({"conv_transpose1d", "stride=4 padding=2", {{2, 16, 9}, {16, 10, 7}}});
  run({"conv_transpose2d", "padding=1 groups=20 activation=relu", {{2, 20, 9, 8}, {20, 1, 3, 3}, {20}}});
  size_t products = 0, tiles = 0;
  for (const std::string& name : seen) {
    products += name.find("conv_fwd_mma") != std::string::npos ? 1 : 0;
    tiles += name.find("conv_fwd_local") != std::string::npos ? 1 : 0;
  }
  CHECK(products >= 4);
  CHECK(tiles >= 2);
  CHECK(std::any_of(seen.begin(), seen.end(),
                    [](const std::string& name) { return name.rfind("conv_transpose_turned", 0) == 0; }));
}
// Three dimensions: as a convolution by grad, as products of tensors as they lie (fewer planes than a step's terms
// reach into, windows beyond the first and the last plane), by input.
TEST("convolutions_over_planes") {
  seen.clear();
  const std::vector<DType> two{DType::f32, DType::f16};
  const auto ran = [](const char* prefix) {
    return std::any_of(seen.begin(), seen.end(), [&](const std::string& name) { return name.rfind(prefix, 0) == 0; });
  };
  more_lists() = {opencl::list_conv_backward_weights_mma};
  run({"conv3d_backward_weights",
       "kernel_size=[2,3,2] stride=[2,1,1] padding=[1,1,0] dilation=[1,2,1]",
       {{3, 5, 5, 6, 7}, {3, 34, 3, 4, 6}}},
      {DType::f32});
  CHECK(ran("conv_fwd_mma"));
  more_lists() = {opencl::list_conv_backward_weights_turned};
  run({"conv3d_backward_weights", "kernel_size=3 padding=1", {{3, 16, 3, 2, 4}, {3, 24, 3, 2, 4}}}, two);
  run({"conv3d_backward_weights",
       "kernel_size=[2,1,3] stride=[2,1,2] padding=[1,0,2] dilation=[3,1,1] groups=2",
       {{2, 16, 6, 3, 9}, {2, 32, 3, 3, 6}}},
      two);
  run({"conv3d_backward_weights", "kernel_size=1", {{2, 10, 3, 4, 5}, {2, 36, 3, 4, 5}}}, two);
  run({"conv3d_backward_weights", "kernel_size=[3,1,1] padding=[1,0,0]", {{2, 8, 9, 3, 5}, {2, 16, 9, 3, 5}}}, two);
  CHECK(ran("conv_backward_weights_mma"));
  more_lists() = {opencl::list_conv_transpose_mma};
  run({"conv_transpose3d", "padding=[1,0,1] groups=2", {{2, 16, 3, 4, 5}, {16, 8, 3, 2, 3}}}, two);
  CHECK(testing::prepared_packings >= 1);
  CHECK(ran("conv_transpose_phases"));
  more_lists() = {};
}
TEST("convolutions_by_input_of_single_channels") {
  seen.clear();
  run({"conv_transpose2d", "stride=2 padding=1 output_padding=1 groups=16", {{2, 16, 5, 4}, {16, 1, 3, 3}}});
  run({"conv_transpose2d",
       "stride=[3,1] padding=2 dilation=[1,2] groups=6 activation=relu",
       {{3, 6, 5, 7}, {6, 1, 5, 3}, {6}}});
  run({"conv_transpose2d", "stride=2 groups=33", {{1, 33, 7, 5}, {33, 1, 1, 2}}});
  run({"conv_transpose1d", "stride=4 padding=1 groups=136", {{2, 136, 9}, {136, 1, 3}, {136}}});
  run({"conv_transpose2d", "stride=2 padding=2 output_padding=1 groups=144", {{2, 144, 28, 28}, {144, 1, 5, 5}}});
  CHECK(seen.count("conv_transpose_depthwise") == 1);
}
TEST("winograd_of_computed_weights") {
  seen.clear();
  opencl::wgmma_tiles_in_plain = true;
  const auto run_winograd = [](const char* op, const Dims& x, const Dims& w, const char* attributes) {
    const std::vector<Input> inputs{random_input(DType::f32, x), random_input(DType::f32, w)};
    std::vector<Values> wanted;
    run_all(op, attributes, inputs,
            [&](const Op&, const std::vector<Values>& results, const std::string&) { wanted = results; });
    run_all_opencl(
        op, attributes, inputs,
        [&](const Op&, const std::vector<Values>& results, const std::string& what) {
          for (size_t i = 0; i < wanted[0].size(); ++i) {
            if (std::fabs(results[0][i] - wanted[0][i]) < 2e-3) continue;
            std::fprintf(stderr, "%s: element %zu is %g, expected %g\n", what.c_str(), i, results[0][i], wanted[0][i]);
            end_test();
          }
        },
        false,
        [](const Candidate& candidate) {
          if (candidate.implementation.rfind("conv_fwd_winograd", 0) != 0) return false;
          return candidate.packings.empty() ? seen.insert(candidate.implementation).second : true;
        });
  };
  run_winograd("conv2d", {2, 32, 9, 11}, {36, 32, 3, 3}, "padding=1");
  CHECK(seen.size() >= 2);  // one of each tile
  run_winograd("conv_transpose2d", {2, 32, 9, 11}, {32, 36, 3, 3}, "padding=1");
  run_winograd("conv_transpose2d", {1, 36, 6, 5}, {36, 32, 3, 3}, "padding=[0,2,1,0]");
  opencl::wgmma_tiles_in_plain = false;
  CHECK(seen.size() >= 4);
}
TEST("scatters") {
  for (const char* reduce : {"", "sum", "prod", "amax"}) {
    const std::string along = std::string("dim=1") + (*reduce ? " reduce=" : "") + reduce;
    const Case images{"scatter", along.c_str(), {{2, 19, 3, 5}, {2, 40, 2, 5}}, 1, {1, 40, 2, 5}, 19, {}, {}, 1};
    if (std::string(reduce) == "sum")
      run(images);
    else
      run(images, {DType::f32});
  }
  run({"scatter_nd", "reduce=sum", {{5, 6, 33}, {2, 7, 33}}, 1, {2, 7, 2}, 5, {}, {}, 1});
  // Lists that are merged.
  run({"scatter", "dim=0 reduce=sum", {{9, 20}, {4100, 20}}, 1, {4100, 1}, 9, {}, {}, 0.1}, {DType::f32});
}
TEST("sorts") {
  run({"topk", "k=5 dim=1", {{2, 19, 3, 5}}});
  run({"topk", "k=7 largest=false", {{37, 9}}});
  run({"topk", "k=4100", {{2, 4100}}}, {DType::f32});  // longer than tiles
}
TEST("grids") {
  const std::vector<DType> exact{DType::f32};
  run({"grid_sample", "", {{2, 19, 5, 6}, {2, 7, 4, 2}}, -1, {}, 1, {}, {1}, 1.3});
  run({"grid_sample_backward", "", {{2, 19, 7, 4}, {2, 19, 5, 6}, {2, 7, 4, 2}}, -1, {}, 1, {}, {2}, 1.3});
  const char* how = "mode=bicubic padding_mode=reflection";
  run({"grid_sample", how, {{2, 19, 5, 6}, {2, 7, 4, 2}}, -1, {}, 1, {}, {1}, 1.3}, exact);
  run({"grid_sample_backward", how, {{2, 19, 7, 4}, {2, 19, 5, 6}, {2, 7, 4, 2}}, -1, {}, 1, {}, {2}, 1.3}, exact);
  run({"grid_sample_backward", "", {{2, 3, 4, 3, 5}, {2, 3, 3, 4, 2}, {2, 4, 3, 5, 3}}, -1, {}, 1, {}, {2}, 1.3},
      exact);
}
TEST("scans") {
  const auto scan = [](int64_t n, int64_t d, int64_t t, int64_t states) {
    run({"selective_scan_backward",
         "",
         {{n, d, t}, {n, d, t}, {d, states}, {n, t, states}, {n, t, states}, {n, d, t}},
         -1,
         {},
         1,
         {},
         {},
         0.7});
  };
  scan(2, 21, 6, 5);
  scan(1, 3, 1, 1);
}
TEST("steps") {
  const Dims w{5, 20, 3, 3}, one{};
  run({"sgd_step", "weight_decay=0.1", {w, w, one}, -1, {}, 1, {2}});
  run({"sgd_step", "momentum=0.9 nesterov=true", {w, w, one, w}, -1, {}, 1, {2}});
  run({"adam_step", "weight_decay=0.1", {w, w, one, w, w, one}, -1, {}, 1, {2, 4, 5}});
  run({"adamw_step", "", {w, w, one, w, w, one}, -1, {}, 1, {2, 4, 5}});
}

}  // namespace

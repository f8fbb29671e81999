// Known faults of oneDNN that are asked for by the names of implementations: few processors have AMX, and threads have
// to meet for some wrong results.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "ops/op.h"
#include "providers/known_faults.h"
#include "providers/onednn/faults.h"

namespace pltest::by_name {

using namespace pl;

// The fault for which an implementation of an op is refused, "": none.
inline std::string fault_by_name(const char* op, const char* attributes, DType dtype, const std::vector<Dims>& shapes,
                                 const char* implementation) {
  std::vector<TensorDesc> inputs;
  const Schema& schema = *find_schema(op);
  const bool quantized = schema.kind == "quantized_conv";
  for (const Dims& shape : shapes)
    inputs.push_back(TensorDesc::dense(quantized ? (inputs.empty() ? DType::u8 : DType::s8) : dtype, shape));
  const Op asked = make_op(schema, Attributes::parse(attributes), std::move(inputs));
  const KnownFault* fault = onednn::fault_of(asked, implementation, false);
  return fault ? fault->id : "";
}

inline std::string fault_of_weights(const char* attributes, const Dims& x, const Dims& y, const char* implementation) {
  const std::string op = "conv" + std::to_string(x.size() - 2) + "d_backward_weights";
  return fault_by_name(op.c_str(), attributes, DType::bf16, {x, y}, implementation);
}

inline void check_few_channels_amx() {
  const char *amx = "brgconv_bwd_w:avx512_core_amx", *kernel = "kernel_size=3 padding=1";
  const auto fault = [&](int64_t in, int64_t out, const char* implementation) {
    return fault_of_weights(kernel, {1, in, 6, 6}, {1, out, 6, 6}, implementation);
  };
  CHECK(fault(4, 48, amx) == "onednn-few-channels-amx");
  CHECK(fault(2304, 4, amx) == "onednn-few-channels-amx");
  CHECK(fault(32, 4096, amx) == "onednn-few-channels-amx");
  CHECK(fault(4, 48, "jit:avx512_core_amx").empty());
  CHECK(fault(63, 48, "jit:avx512_core_amx") == "onednn-odd-channels-bf16");
  CHECK(fault(64, 48, amx).empty());
  CHECK(fault(48, 4096, amx).empty());
}

inline void check_tails_of_weights() {
  const char *jit = "jit_bf16:avx512_core_bf16", *amx = "jit:avx512_core_amx", *id = "onednn-tails-of-weights-bf16";
  const auto fault = [&](int64_t in, int64_t out, const char* implementation) {
    return fault_of_weights("kernel_size=3 padding=1", {1, in, 6, 6}, {1, out, 6, 6}, implementation);
  };
  CHECK(fault(20, 12, jit) == id);
  CHECK(fault(20, 16, jit) == id);
  CHECK(fault(12, 12, jit).empty());
  CHECK(fault_of_weights("kernel_size=3 groups=2", {1, 2, 6, 6}, {1, 32, 4, 4}, jit) == id);
  CHECK(fault_of_weights("kernel_size=3 groups=2", {1, 32, 6, 6}, {1, 32, 4, 4}, jit).empty());
  CHECK(fault(32, 12, jit).empty());
  CHECK(fault(40, 48, amx) == id);
  CHECK(fault(72, 416, amx) == id);
  CHECK(fault(56, 48, amx).empty());
  CHECK(fault(8, 48, amx).empty());
  CHECK(fault(48, 48, amx).empty());
}

inline void check_shallow_input() {
  for (const char* implementation : {"jit_bf16:avx512_core_bf16", "jit:avx512_core_amx"}) {
    const auto fault = [&](int64_t depth, const char* attributes) {
      return fault_of_weights(attributes, {1, 32, depth, 6, 6}, {1, 32, depth, 6, 6}, implementation);
    };
    CHECK(fault(2, "kernel_size=3 padding=1") == "onednn-shallow-input");
    CHECK(fault(3, "kernel_size=3 padding=1").empty());
    CHECK(fault(5, "kernel_size=3 padding=2 dilation=2").empty());
    CHECK(fault(4, "kernel_size=3 padding=2 dilation=2") == "onednn-shallow-input");
  }
}

inline void check_dilated_idle_taps() {
  const char* amx = "brgconv:avx512_core_amx";
  const auto fault = [&](const char* attributes, const Dims& x) {
    return fault_by_name("conv2d", attributes, DType::bf16, {x, {128, 64, 2, 2}}, amx);
  };
  CHECK(fault("dilation=3 padding=2 stride=2", {1, 64, 1, 2}) == "onednn-dilated-idle-taps");
  CHECK(fault("dilation=3 padding=2", {1, 64, 9, 9}).empty());
  CHECK(fault("padding=1 stride=2", {1, 64, 1, 1}).empty());
  const std::string transposed = std::string("brg_conv:avx512_core_amx+") + amx;
  CHECK(fault_by_name("conv_transpose2d", "dilation=3 padding=1", DType::bf16, {{4, 64, 1, 1}, {64, 128, 2, 2}},
                      transposed.c_str()) == "onednn-dilated-idle-taps");
  CHECK(
      fault_by_name("conv_transpose2d", "dilation=3", DType::bf16, {{4, 64, 1, 1}, {64, 128, 2, 2}}, transposed.c_str())
          .empty());
}

inline void check_one_pixel() {
  const auto fault = [](int64_t size, const char* implementation) {
    return fault_by_name("conv_transpose2d", "", DType::bf16, {{2, 64, size, 1}, {64, 128, 4, 4}}, implementation);
  };
  CHECK(fault(1, "conv:any+jit:avx512_core_amx") == "onednn-one-pixel-amx");
  CHECK(fault(1, "conv:any+brg_fwd:avx512_core_amx+brgconv:avx512_core_amx") == "onednn-one-pixel-amx");
  CHECK(fault(1, "conv:any+brgconv_strided:avx512_core_amx").empty());
  CHECK(fault(1, "conv:any+jit_bf16:avx512_core_bf16").empty());
  CHECK(fault(2, "conv:any+jit:avx512_core_amx").empty());
}

inline void check_patches() {
  const auto fault = [](int64_t channels, const char* attributes) {
    return fault_by_name("conv2d", attributes, DType::bf16, {{3, channels, 4, 4}, {64, channels, 2, 2}},
                         "brgconv:avx512_core_amx");
  };
  CHECK(fault(48, "stride=2") == "onednn-patches-amx");
  CHECK(fault(48, "").empty());
  CHECK(fault(96, "stride=2").empty());
}

inline void check_channels_of_volumes() {
  const auto fault = [](int64_t in, int64_t out, const char* implementation) {
    return fault_by_name("conv_transpose3d", "", DType::bf16, {{1, in, 4, 4, 4}, {in, out, 3, 3, 3}}, implementation);
  };
  for (const char* implementation : {"jit_deconvolution:avx512_core_amx", "conv:any+jit:avx512_core_amx"}) {
    CHECK(fault(10, 16, implementation) == "onednn-odd-channels-bf16");
    CHECK(fault(32, 20, implementation) == "onednn-odd-channels-bf16");
    CHECK(fault(32, 16, implementation).empty());
  }
  CHECK(fault(10, 16, "conv:any+jit_bf16:avx512_core_bf16").empty());
}

inline void check_one_channel() {
  const auto fault = [](int64_t in, int64_t out) {
    return fault_by_name("conv_transpose2d", "", DType::bf16, {{1, in, 88, 152}, {in, out, 7, 7}},
                         "conv:any+jit:avx512_core_amx");
  };
  CHECK(fault(1, 1) == "onednn-one-channel-amx");
  CHECK(fault(1, 2).empty());
  CHECK(fault(2, 1).empty());
}

inline void check_amx_1x1() {
  const auto fault = [](const char* implementation) {
    return fault_by_name("conv_integer", "", DType::u8, {{2, 320, 3, 6}, {64, 320, 1, 1}}, implementation);
  };
  CHECK(fault("int8:jit_1x1:avx512_core_amx") == "onednn-1x1-amx");
  CHECK(fault("int8:jit:avx512_core_amx").empty());
  CHECK(fault_by_name("conv2d", "", DType::bf16, {{1, 2304, 9, 3}, {64, 2304, 1, 1}}, "jit_1x1:avx512_core_amx") ==
        "onednn-1x1-amx");
}

inline void check_tails_1x1() {
  const auto fault = [](int64_t channels) {
    return fault_by_name("conv2d", "", DType::bf16, {{4, channels, 5, 6}, {513, channels, 1, 1}},
                         "jit_bf16_1x1:avx512_core_bf16");
  };
  CHECK(fault(33) == "onednn-1x1-tails-bf16");
  CHECK(fault(48).empty());
}

inline void check_even_depthwise() {
  const auto fault = [](int64_t height, int64_t width, int64_t channels) {
    return fault_by_name("conv_integer", channels == 1 ? "groups=16" : "", DType::u8,
                         {{1, 16, 12, 12}, {16, channels, height, width}}, "int8:jit_uni_int8:avx2_vnni");
  };
  CHECK(fault(3, 2, 1) == "onednn-even-depthwise-int8");
  CHECK(fault(2, 3, 1).empty());
  CHECK(fault(3, 2, 16).empty());
}

inline void check_shared_tails() {
  const auto fault = [](int64_t channels, const char* attributes) {
    return fault_by_name("conv_integer", attributes, DType::u8, {{1, channels, 6, 6}, {8, channels, 1, 1}},
                         "jit_uni_int8_1x1:avx2_vnni");
  };
  CHECK(fault(72, "stride=2") == "onednn-shared-tails-int8");
  CHECK(fault(80, "stride=2").empty());
  CHECK(fault(72, "").empty());
}

}  // namespace pltest::by_name

// The attributes of all ops, by name.
//
// Each is declared here once, whatever the number of ops that have it.  Where ops mean values of different types by one
// name, it has a key for each, and all but the usual one end in the type: `dim` of softmax is an int, `dim_ints` of sum
// a list, and the text of both is dim=...  Ops that are registered from elsewhere declare keys where they are.
#pragma once

#include <string>

#include "core/attributes.h"

namespace pl::attr {

inline constexpr Key<std::string> activation{"activation"};
inline constexpr Key<double> activation_alpha{"activation_alpha"};
inline constexpr Key<double> activation_beta{"activation_beta"};
inline constexpr Key<bool> align_corners{"align_corners"};
inline constexpr Key<bool> aligned{"aligned"};
inline constexpr Key<double> alpha{"alpha"};
inline constexpr Key<std::string> approximate{"approximate"};
inline constexpr Key<std::string> arithmetic{"arithmetic"};
inline constexpr Key<Ints> axes{"axes"};
inline constexpr Key<int64_t> axis{"axis"};
inline constexpr Key<bool> batch_first{"batch_first"};
inline constexpr Key<Ints> begins{"begins"};
inline constexpr Key<double> beta{"beta"};
inline constexpr Key<double> beta1{"beta1"};
inline constexpr Key<double> beta2{"beta2"};
inline constexpr Key<int64_t> bits{"bits"};
inline constexpr Key<int64_t> block_size{"block_size"};
inline constexpr Key<std::string> boxes_are{"boxes_are"};
inline constexpr Key<bool> ceil_mode{"ceil_mode"};
inline constexpr Key<std::string> cell{"cell"};
inline constexpr Key<bool> centred{"centred"};
inline constexpr Key<bool> circular{"circular"};
inline constexpr Key<bool> count_include_pad{"count_include_pad"};
inline constexpr Key<double> dampening{"dampening"};
inline constexpr Key<bool> decoupled{"decoupled"};
inline constexpr Key<Ints> dilation{"dilation"};
inline constexpr Key<int64_t> dim{"dim"};
inline constexpr Key<int64_t> dim0{"dim0"};
inline constexpr Key<int64_t> dim1{"dim1"};
inline constexpr Key<Ints> dim_ints{"dim"};
inline constexpr Key<Ints> dims{"dims"};
inline constexpr Key<std::string> direction{"direction"};
inline constexpr Key<std::string> distribution{"distribution"};
inline constexpr Key<double> dropout_p{"dropout_p"};
inline constexpr Key<std::string> dtype{"dtype"};
inline constexpr Key<bool> enable_gqa{"enable_gqa"};
inline constexpr Key<int64_t> end_dim{"end_dim"};
inline constexpr Key<Ints> ends{"ends"};
inline constexpr Key<double> eps{"eps"};
inline constexpr Key<std::string> expressions{"expressions"};
inline constexpr Key<std::string> forward{"forward"};
inline constexpr Key<std::string> function{"function"};
inline constexpr Key<std::string> gate{"gate"};
inline constexpr Key<int64_t> gates{"gates"};
inline constexpr Key<int64_t> groups{"groups"};
inline constexpr Key<std::string> hidden{"hidden"};
inline constexpr Key<double> high{"high"};
inline constexpr Key<int64_t> high_int{"high"};
inline constexpr Key<int64_t> hop{"hop"};
inline constexpr Key<int64_t> ignore_index{"ignore_index"};
inline constexpr Key<Ints> input_size{"input_size"};
inline constexpr Key<bool> interleaved{"interleaved"};
inline constexpr Key<bool> inverse{"inverse"};
inline constexpr Key<bool> inverted{"inverted"};
inline constexpr Key<double> iou_threshold{"iou_threshold"};
inline constexpr Key<bool> is_causal{"is_causal"};
inline constexpr Key<int64_t> k{"k"};
inline constexpr Key<double> k_float{"k"};
inline constexpr Key<bool> keepdim{"keepdim"};
inline constexpr Key<Ints> kernel_size{"kernel_size"};
inline constexpr Key<double> label_smoothing{"label_smoothing"};
inline constexpr Key<bool> largest{"largest"};
inline constexpr Key<bool> limited{"limited"};
inline constexpr Key<bool> linear_before_reset{"linear_before_reset"};
inline constexpr Key<bool> log{"log"};
inline constexpr Key<double> low{"low"};
inline constexpr Key<int64_t> low_int{"low"};
inline constexpr Key<double> max{"max"};
inline constexpr Key<int64_t> max_boxes{"max_boxes"};
inline constexpr Key<double> mean{"mean"};
inline constexpr Key<double> min{"min"};
inline constexpr Key<std::string> mode{"mode"};
inline constexpr Key<double> momentum{"momentum"};
inline constexpr Key<int64_t> n{"n"};
inline constexpr Key<double> negative_slope{"negative_slope"};
inline constexpr Key<bool> nesterov{"nesterov"};
inline constexpr Key<std::string> nonlinearity{"nonlinearity"};
inline constexpr Key<Ints> normalized_shape{"normalized_shape"};
inline constexpr Key<int64_t> num_groups{"num_groups"};
inline constexpr Key<Ints> output_padding{"output_padding"};
inline constexpr Key<Ints> output_size{"output_size"};
inline constexpr Key<double> p{"p"};
inline constexpr Key<Ints> pad{"pad"};
inline constexpr Key<Ints> padding{"padding"};
inline constexpr Key<int64_t> padding_idx{"padding_idx"};
inline constexpr Key<std::string> padding_mode{"padding_mode"};
inline constexpr Key<PostOps> post_ops{"post_ops"};
inline constexpr Key<double> rate{"rate"};
inline constexpr Key<std::string> reduce{"reduce"};
inline constexpr Key<std::string> reduction{"reduction"};
inline constexpr Key<std::string> reductions{"reductions"};
inline constexpr Key<bool> right{"right"};
inline constexpr Key<std::string> rounding_mode{"rounding_mode"};
inline constexpr Key<int64_t> sampling_ratio{"sampling_ratio"};
inline constexpr Key<Floats> scalars{"scalars"};
inline constexpr Key<double> scale{"scale"};
inline constexpr Key<Floats> scale_factor{"scale_factor"};
inline constexpr Key<Floats> scale_floats{"scale"};
inline constexpr Key<double> score_threshold{"score_threshold"};
inline constexpr Key<Ints> sections{"sections"};
inline constexpr Key<Ints> shape{"shape"};
inline constexpr Key<int64_t> size{"size"};
inline constexpr Key<Ints> size_ints{"size"};
inline constexpr Key<int64_t> skip{"skip"};
inline constexpr Key<double> softcap{"softcap"};
inline constexpr Key<bool> sorted{"sorted"};
inline constexpr Key<int64_t> spatial{"spatial"};
inline constexpr Key<double> spatial_scale{"spatial_scale"};
inline constexpr Key<Ints> split_size_or_sections{"split_size_or_sections"};
inline constexpr Key<int64_t> start_dim{"start_dim"};
inline constexpr Key<Ints> starts{"starts"};
inline constexpr Key<double> std{"std"};
inline constexpr Key<Ints> steps{"steps"};
inline constexpr Key<Ints> stride{"stride"};
inline constexpr Key<bool> swapped{"swapped"};
inline constexpr Key<std::string> target{"target"};
inline constexpr Key<double> threshold{"threshold"};
inline constexpr Key<bool> training{"training"};
inline constexpr Key<bool> transpose_a{"transpose_a"};
inline constexpr Key<bool> transpose_b{"transpose_b"};
inline constexpr Key<bool> transpose_weight{"transpose_weight"};
inline constexpr Key<double> value{"value"};
inline constexpr Key<double> weight_decay{"weight_decay"};
inline constexpr Key<Ints> windows{"windows"};

}  // namespace pl::attr

"""The tests of ONNX that are not for this library, each with the reason, and with what its error says.

test_node_backend.py runs them all the same: one that passes, or fails for another reason, is an error here.
"""

from dataclasses import dataclass

# The release of onnx whose tests these are.
LISTED_FOR = "1.23.2"


@dataclass(frozen=True)
class Exclusion:
    """Tests that fail for one reason; `error` is found in the message."""

    reason: str
    error: str
    names: str


EXCLUSIONS = [
    Exclusion(
        "The library has no such element type.",
        r"(dtype|float64|has element type|the result) .*(float64|u?int16|uint32|uint64|FLOAT8|FLOAT4|U?INT4|U?INT2)",
        """
        test_add_int16 test_add_uint16 test_add_uint32 test_add_uint64 test_ai_onnx_ml_tree_ensemble_single_tree
        test_attention_local_window_gqa_rank4_mask test_attention_local_window_gqa_rank4_mask_expanded
        test_bernoulli test_bernoulli_expanded test_bitcast_float64_to_int64 test_bitcast_uint16_to_int16
        test_bitcast_uint32_to_int32 test_bitshift_left_int16 test_bitshift_left_uint16 test_bitshift_left_uint32
        test_bitshift_left_uint64 test_bitshift_right_int16 test_bitshift_right_uint16 test_bitshift_right_uint32
        test_bitshift_right_uint64 test_bitwise_and_i16_3d test_bitwise_and_ui64_bcast_3v1d test_bitwise_not_3d
        test_bitwise_or_ui64_bcast_3v1d test_bitwise_xor_i16_3d test_bitwise_xor_ui64_bcast_3v1d
        test_cast_DOUBLE_to_FLOAT test_cast_DOUBLE_to_FLOAT16 test_cast_FLOAT16_to_DOUBLE
        test_cast_FLOAT16_to_FLOAT4E2M1 test_cast_FLOAT16_to_FLOAT8E4M3FN test_cast_FLOAT16_to_FLOAT8E4M3FNUZ
        test_cast_FLOAT16_to_FLOAT8E5M2 test_cast_FLOAT16_to_FLOAT8E5M2FNUZ test_cast_FLOAT16_to_INT2
        test_cast_FLOAT16_to_INT4 test_cast_FLOAT16_to_UINT2 test_cast_FLOAT16_to_UINT4
        test_cast_FLOAT4E2M1_to_FLOAT test_cast_FLOAT4E2M1_to_FLOAT16 test_cast_FLOAT8E4M3FNUZ_to_FLOAT
        test_cast_FLOAT8E4M3FNUZ_to_FLOAT16 test_cast_FLOAT8E4M3FN_to_FLOAT test_cast_FLOAT8E4M3FN_to_FLOAT16
        test_cast_FLOAT8E5M2FNUZ_to_FLOAT test_cast_FLOAT8E5M2FNUZ_to_FLOAT16 test_cast_FLOAT8E5M2_to_FLOAT
        test_cast_FLOAT8E5M2_to_FLOAT16 test_cast_FLOAT_to_DOUBLE test_cast_FLOAT_to_FLOAT4E2M1
        test_cast_FLOAT_to_FLOAT8E4M3FN test_cast_FLOAT_to_FLOAT8E4M3FNUZ test_cast_FLOAT_to_FLOAT8E5M2
        test_cast_FLOAT_to_FLOAT8E5M2FNUZ test_cast_FLOAT_to_INT2 test_cast_FLOAT_to_INT4 test_cast_FLOAT_to_UINT2
        test_cast_FLOAT_to_UINT4 test_cast_INT2_to_FLOAT test_cast_INT2_to_FLOAT16 test_cast_INT2_to_INT8
        test_cast_INT4_to_FLOAT test_cast_INT4_to_FLOAT16 test_cast_INT4_to_INT8 test_cast_UINT2_to_FLOAT
        test_cast_UINT2_to_FLOAT16 test_cast_UINT2_to_UINT8 test_cast_UINT4_to_FLOAT test_cast_UINT4_to_FLOAT16
        test_cast_UINT4_to_UINT8 test_cast_e8m0_FLOAT16_to_FLOAT8E8M0 test_cast_e8m0_FLOAT8E8M0_to_FLOAT
        test_cast_e8m0_FLOAT8E8M0_to_FLOAT16 test_cast_e8m0_FLOAT_to_FLOAT8E8M0
        test_cast_no_saturate_FLOAT16_to_FLOAT8E4M3FN test_cast_no_saturate_FLOAT16_to_FLOAT8E4M3FNUZ
        test_cast_no_saturate_FLOAT16_to_FLOAT8E5M2 test_cast_no_saturate_FLOAT16_to_FLOAT8E5M2FNUZ
        test_cast_no_saturate_FLOAT_to_FLOAT8E4M3FN test_cast_no_saturate_FLOAT_to_FLOAT8E4M3FNUZ
        test_cast_no_saturate_FLOAT_to_FLOAT8E5M2 test_cast_no_saturate_FLOAT_to_FLOAT8E5M2FNUZ
        test_castlike_DOUBLE_to_FLOAT test_castlike_DOUBLE_to_FLOAT16 test_castlike_DOUBLE_to_FLOAT16_expanded
        test_castlike_DOUBLE_to_FLOAT_expanded test_castlike_FLOAT16_to_DOUBLE
        test_castlike_FLOAT16_to_DOUBLE_expanded test_castlike_FLOAT16_to_FLOAT4E2M1
        test_castlike_FLOAT16_to_FLOAT4E2M1_expanded test_castlike_FLOAT16_to_FLOAT8E4M3FN
        test_castlike_FLOAT16_to_FLOAT8E4M3FNUZ test_castlike_FLOAT16_to_FLOAT8E4M3FNUZ_expanded
        test_castlike_FLOAT16_to_FLOAT8E4M3FN_expanded test_castlike_FLOAT16_to_FLOAT8E5M2
        test_castlike_FLOAT16_to_FLOAT8E5M2FNUZ test_castlike_FLOAT16_to_FLOAT8E5M2FNUZ_expanded
        test_castlike_FLOAT16_to_FLOAT8E5M2_expanded test_castlike_FLOAT16_to_INT2
        test_castlike_FLOAT16_to_INT2_expanded test_castlike_FLOAT16_to_INT4 test_castlike_FLOAT16_to_INT4_expanded
        test_castlike_FLOAT16_to_UINT2 test_castlike_FLOAT16_to_UINT2_expanded test_castlike_FLOAT16_to_UINT4
        test_castlike_FLOAT16_to_UINT4_expanded test_castlike_FLOAT4E2M1_to_FLOAT
        test_castlike_FLOAT4E2M1_to_FLOAT16 test_castlike_FLOAT4E2M1_to_FLOAT16_expanded
        test_castlike_FLOAT4E2M1_to_FLOAT_expanded test_castlike_FLOAT8E4M3FNUZ_to_FLOAT
        test_castlike_FLOAT8E4M3FNUZ_to_FLOAT16 test_castlike_FLOAT8E4M3FNUZ_to_FLOAT16_expanded
        test_castlike_FLOAT8E4M3FNUZ_to_FLOAT_expanded test_castlike_FLOAT8E4M3FN_to_FLOAT
        test_castlike_FLOAT8E4M3FN_to_FLOAT16 test_castlike_FLOAT8E4M3FN_to_FLOAT16_expanded
        test_castlike_FLOAT8E4M3FN_to_FLOAT_expanded test_castlike_FLOAT8E5M2FNUZ_to_FLOAT
        test_castlike_FLOAT8E5M2FNUZ_to_FLOAT16 test_castlike_FLOAT8E5M2FNUZ_to_FLOAT16_expanded
        test_castlike_FLOAT8E5M2FNUZ_to_FLOAT_expanded test_castlike_FLOAT8E5M2_to_FLOAT
        test_castlike_FLOAT8E5M2_to_FLOAT16 test_castlike_FLOAT8E5M2_to_FLOAT16_expanded
        test_castlike_FLOAT8E5M2_to_FLOAT_expanded test_castlike_FLOAT_to_DOUBLE
        test_castlike_FLOAT_to_DOUBLE_expanded test_castlike_FLOAT_to_FLOAT4E2M1
        test_castlike_FLOAT_to_FLOAT4E2M1_expanded test_castlike_FLOAT_to_FLOAT8E4M3FN
        test_castlike_FLOAT_to_FLOAT8E4M3FNUZ test_castlike_FLOAT_to_FLOAT8E4M3FNUZ_expanded
        test_castlike_FLOAT_to_FLOAT8E4M3FN_expanded test_castlike_FLOAT_to_FLOAT8E5M2
        test_castlike_FLOAT_to_FLOAT8E5M2FNUZ test_castlike_FLOAT_to_FLOAT8E5M2FNUZ_expanded
        test_castlike_FLOAT_to_FLOAT8E5M2_expanded test_castlike_FLOAT_to_INT2 test_castlike_FLOAT_to_INT2_expanded
        test_castlike_FLOAT_to_INT4 test_castlike_FLOAT_to_INT4_expanded test_castlike_FLOAT_to_UINT2
        test_castlike_FLOAT_to_UINT2_expanded test_castlike_FLOAT_to_UINT4 test_castlike_FLOAT_to_UINT4_expanded
        test_castlike_INT2_to_FLOAT test_castlike_INT2_to_FLOAT16 test_castlike_INT2_to_FLOAT16_expanded
        test_castlike_INT2_to_FLOAT_expanded test_castlike_INT2_to_INT8 test_castlike_INT2_to_INT8_expanded
        test_castlike_INT4_to_FLOAT test_castlike_INT4_to_FLOAT16 test_castlike_INT4_to_FLOAT16_expanded
        test_castlike_INT4_to_FLOAT_expanded test_castlike_INT4_to_INT8 test_castlike_INT4_to_INT8_expanded
        test_castlike_UINT2_to_FLOAT test_castlike_UINT2_to_FLOAT16 test_castlike_UINT2_to_FLOAT16_expanded
        test_castlike_UINT2_to_FLOAT_expanded test_castlike_UINT2_to_UINT8 test_castlike_UINT2_to_UINT8_expanded
        test_castlike_UINT4_to_FLOAT test_castlike_UINT4_to_FLOAT16 test_castlike_UINT4_to_FLOAT16_expanded
        test_castlike_UINT4_to_FLOAT_expanded test_castlike_UINT4_to_UINT8 test_castlike_UINT4_to_UINT8_expanded
        test_castlike_no_saturate_FLOAT16_to_FLOAT8E4M3FN test_castlike_no_saturate_FLOAT16_to_FLOAT8E4M3FNUZ
        test_castlike_no_saturate_FLOAT16_to_FLOAT8E4M3FNUZ_expanded
        test_castlike_no_saturate_FLOAT16_to_FLOAT8E4M3FN_expanded test_castlike_no_saturate_FLOAT16_to_FLOAT8E5M2
        test_castlike_no_saturate_FLOAT16_to_FLOAT8E5M2FNUZ
        test_castlike_no_saturate_FLOAT16_to_FLOAT8E5M2FNUZ_expanded
        test_castlike_no_saturate_FLOAT16_to_FLOAT8E5M2_expanded test_castlike_no_saturate_FLOAT_to_FLOAT8E4M3FN
        test_castlike_no_saturate_FLOAT_to_FLOAT8E4M3FNUZ test_castlike_no_saturate_FLOAT_to_FLOAT8E4M3FNUZ_expanded
        test_castlike_no_saturate_FLOAT_to_FLOAT8E4M3FN_expanded test_castlike_no_saturate_FLOAT_to_FLOAT8E5M2
        test_castlike_no_saturate_FLOAT_to_FLOAT8E5M2FNUZ test_castlike_no_saturate_FLOAT_to_FLOAT8E5M2FNUZ_expanded
        test_castlike_no_saturate_FLOAT_to_FLOAT8E5M2_expanded test_cumprod_1d test_cumprod_1d_exclusive
        test_cumprod_1d_reverse test_cumprod_1d_reverse_exclusive test_cumprod_2d_axis_0 test_cumprod_2d_axis_1
        test_cumprod_2d_negative_axis test_cumsum_1d test_cumsum_1d_exclusive test_cumsum_1d_reverse
        test_cumsum_1d_reverse_exclusive test_cumsum_2d_axis_0 test_cumsum_2d_axis_1 test_cumsum_2d_negative_axis
        test_dequantizelinear_e4m3fn test_dequantizelinear_e4m3fn_float16 test_dequantizelinear_e4m3fn_zero_point
        test_dequantizelinear_e5m2 test_dequantizelinear_float4e2m1 test_dequantizelinear_int16
        test_dequantizelinear_int2 test_dequantizelinear_int4 test_dequantizelinear_uint16
        test_dequantizelinear_uint2 test_dequantizelinear_uint4 test_div_int16 test_div_uint16 test_div_uint32
        test_div_uint64 test_einsum_batch_diagonal test_einsum_batch_matmul test_einsum_inner_prod
        test_einsum_scalar test_einsum_sum test_einsum_transpose test_equal_int16 test_equal_uint16
        test_equal_uint32 test_equal_uint64 test_eyelike_with_dtype test_flexattention_double
        test_flexattention_double_expanded_ver26 test_greater_equal_int16 test_greater_equal_int16_expanded
        test_greater_equal_uint16 test_greater_equal_uint16_expanded test_greater_equal_uint32
        test_greater_equal_uint32_expanded test_greater_equal_uint64 test_greater_equal_uint64_expanded
        test_greater_int16 test_greater_uint16 test_greater_uint32 test_greater_uint64 test_less_equal_int16
        test_less_equal_int16_expanded test_less_equal_uint16 test_less_equal_uint16_expanded test_less_equal_uint32
        test_less_equal_uint32_expanded test_less_equal_uint64 test_less_equal_uint64_expanded test_less_int16
        test_less_uint16 test_less_uint32 test_less_uint64 test_max_float64 test_max_int16 test_max_uint16
        test_max_uint32 test_max_uint64 test_min_float64 test_min_int16 test_min_uint16 test_min_uint32
        test_min_uint64 test_mod_float64_mixed_sign_fmod_0 test_mod_float_edge_cases_fmod_0_float64
        test_mod_mixed_sign_float64 test_mod_mixed_sign_int16 test_mod_uint16 test_mod_uint32 test_mod_uint64
        test_mul_int16 test_mul_uint16 test_mul_uint32 test_mul_uint64 test_pow_types_float32_uint32
        test_pow_types_float32_uint64 test_quantizelinear_blocked_symmetric test_quantizelinear_e4m3fn
        test_quantizelinear_e5m2 test_quantizelinear_float4e2m1 test_quantizelinear_int16 test_quantizelinear_int2
        test_quantizelinear_int4 test_quantizelinear_uint16 test_quantizelinear_uint2 test_quantizelinear_uint4
        test_reduce_log_sum_exp_default_axes_keepdims_example
        test_reduce_log_sum_exp_default_axes_keepdims_example_expanded
        test_reduce_log_sum_exp_default_axes_keepdims_random
        test_reduce_log_sum_exp_default_axes_keepdims_random_expanded
        test_reduce_log_sum_exp_do_not_keepdims_example test_reduce_log_sum_exp_do_not_keepdims_example_expanded
        test_reduce_log_sum_exp_do_not_keepdims_random test_reduce_log_sum_exp_do_not_keepdims_random_expanded
        test_reduce_log_sum_exp_empty_set_expanded test_reduce_log_sum_exp_keepdims_example
        test_reduce_log_sum_exp_keepdims_example_expanded test_reduce_log_sum_exp_keepdims_random
        test_reduce_log_sum_exp_keepdims_random_expanded test_reduce_log_sum_exp_negative_axes_keepdims_example
        test_reduce_log_sum_exp_negative_axes_keepdims_example_expanded
        test_reduce_log_sum_exp_negative_axes_keepdims_random
        test_reduce_log_sum_exp_negative_axes_keepdims_random_expanded test_sub_int16 test_sub_uint16
        test_sub_uint32 test_sub_uint64 test_top_k_uint64
        """,
    ),
    Exclusion(
        "Strings are no numbers.",
        r"has element type STRING",
        """
        test_ai_onnx_ml_label_encoder_string_int test_ai_onnx_ml_label_encoder_string_int_no_default
        test_ai_onnx_ml_label_encoder_tensor_mapping test_ai_onnx_ml_label_encoder_tensor_value_only_mapping
        test_equal_string test_equal_string_broadcast test_regex_full_match_basic test_regex_full_match_email_domain
        test_regex_full_match_empty test_string_concat test_string_concat_broadcasting
        test_string_concat_empty_string test_string_concat_utf8 test_string_concat_zero_dimensional
        test_string_split_basic test_string_split_consecutive_delimiters test_string_split_empty_string_delimiter
        test_string_split_empty_tensor test_string_split_maxsplit test_string_split_no_delimiter
        test_strnormalizer_export_monday_casesensintive_lower
        test_strnormalizer_export_monday_casesensintive_nochangecase
        test_strnormalizer_export_monday_casesensintive_upper test_strnormalizer_export_monday_empty_output
        test_strnormalizer_export_monday_insensintive_upper_twodim test_strnormalizer_nostopwords_nochangecase
        """,
    ),
    Exclusion(
        "A value is a sequence or an optional, which a graph has not.",
        r"is of (sequence|optional)_type",
        """
        test_identity_opt test_identity_sequence test_loop13_seq test_loop16_seq_none
        test_optional_get_element_optional_sequence test_optional_get_element_optional_tensor
        test_optional_get_element_sequence test_optional_has_element_empty_optional_input
        test_optional_has_element_optional_input test_optional_has_element_tensor_input test_sequence_insert_at_back
        test_sequence_insert_at_front test_sequence_map_add_1_sequence_1_tensor
        test_sequence_map_add_1_sequence_1_tensor_expanded test_sequence_map_add_2_sequences
        test_sequence_map_add_2_sequences_expanded test_sequence_map_extract_shapes
        test_sequence_map_extract_shapes_expanded test_sequence_map_identity_1_sequence
        test_sequence_map_identity_1_sequence_1_tensor test_sequence_map_identity_1_sequence_1_tensor_expanded
        test_sequence_map_identity_1_sequence_expanded test_sequence_map_identity_2_sequences
        test_sequence_map_identity_2_sequences_expanded
        """,
    ),
    Exclusion(
        "The op is not supported: of training, random numbers, image files, text, signals, detection or rare.",
        r"pylayout has not this op",
        """
        test_adagrad test_adagrad_multiple test_adam test_adam_multiple test_ai_onnx_ml_array_feature_extractor
        test_ai_onnx_ml_binarizer test_ai_onnx_ml_tree_ensemble_set_membership test_basic_deform_conv_with_padding
        test_basic_deform_conv_without_padding test_bernoulli_double test_bernoulli_double_expanded
        test_bernoulli_seed test_bernoulli_seed_expanded test_bitcast_2d_float32_to_int32 test_bitcast_bool_to_uint8
        test_bitcast_float32_to_int32 test_bitcast_int32_to_float32 test_bitcast_int64_to_float64
        test_bitcast_int8_to_uint8 test_bitcast_scalar_float32_to_int32 test_bitshift_left_int32
        test_bitshift_left_int32_negative_shift test_bitshift_left_int32_overflow
        test_bitshift_left_int32_shift_ge_width test_bitshift_left_int64 test_bitshift_left_int8
        test_bitshift_left_int8_negative_shift test_bitshift_left_int8_overflow
        test_bitshift_left_int8_shift_ge_width test_bitshift_left_uint8 test_bitshift_right_int32
        test_bitshift_right_int32_negative_input test_bitshift_right_int32_negative_shift
        test_bitshift_right_int32_shift_ge_width test_bitshift_right_int64 test_bitshift_right_int8
        test_bitshift_right_int8_negative_input test_bitshift_right_int8_negative_shift
        test_bitshift_right_int8_shift_ge_width test_bitshift_right_uint8 test_bitwise_and_i32_2d
        test_bitwise_and_ui8_bcast_4v3d test_bitwise_not_2d test_bitwise_not_4d test_bitwise_or_i16_4d
        test_bitwise_or_i32_2d test_bitwise_or_ui8_bcast_4v3d test_bitwise_xor_i32_2d
        test_bitwise_xor_ui8_bcast_4v3d test_col2im test_col2im_5d test_col2im_dilations test_col2im_pads
        test_col2im_strides test_cumprod_1d_int32_exclusive test_cumprod_2d_int32 test_deform_conv_with_mask_bias
        test_deform_conv_with_multiple_offset_groups test_det_2d test_det_nd test_dft test_dft_axis
        test_dft_axis_opset19 test_dft_inverse test_dft_inverse_opset19 test_dft_irfft test_dft_irfft_opset19
        test_dft_opset19 test_dft_rfft test_dft_rfft_opset19 test_gridsample test_gridsample_aligncorners_true
        test_gridsample_bicubic test_gridsample_bicubic_align_corners_0_additional_1
        test_gridsample_bicubic_align_corners_1_additional_1 test_gridsample_bilinear
        test_gridsample_bilinear_align_corners_0_additional_1 test_gridsample_bilinear_align_corners_1_additional_1
        test_gridsample_border_padding test_gridsample_nearest test_gridsample_nearest_align_corners_0_additional_1
        test_gridsample_nearest_align_corners_1_additional_1 test_gridsample_reflection_padding
        test_gridsample_volumetric_bilinear_align_corners_0 test_gridsample_volumetric_bilinear_align_corners_1
        test_gridsample_volumetric_nearest_align_corners_0 test_gridsample_volumetric_nearest_align_corners_1
        test_gridsample_zeros_padding test_if_opt test_if_seq test_image_decoder_decode_bmp_rgb
        test_image_decoder_decode_jpeg2k_rgb test_image_decoder_decode_jpeg_bgr
        test_image_decoder_decode_jpeg_grayscale test_image_decoder_decode_jpeg_rgb
        test_image_decoder_decode_png_rgb test_image_decoder_decode_pnm_rgb test_image_decoder_decode_tiff_rgb
        test_image_decoder_decode_webp_rgb test_maxunpool_export_with_output_shape
        test_maxunpool_export_without_output_shape test_melweightmatrix test_momentum test_momentum_multiple
        test_nesterov_momentum test_nonmaxsuppression_center_point_box_format
        test_nonmaxsuppression_flipped_coordinates test_nonmaxsuppression_identical_boxes
        test_nonmaxsuppression_iou_threshold_boundary test_nonmaxsuppression_limit_output_size
        test_nonmaxsuppression_single_box test_nonmaxsuppression_suppress_by_IOU
        test_nonmaxsuppression_suppress_by_IOU_and_scores test_nonmaxsuppression_two_batches
        test_nonmaxsuppression_two_classes test_optional_get_element_tensor
        test_optional_has_element_empty_no_input_name_optional_input
        test_optional_has_element_empty_no_input_name_tensor_input
        test_optional_has_element_empty_no_input_optional_input
        test_optional_has_element_empty_no_input_tensor_input test_roialign_aligned_false test_roialign_aligned_true
        test_roialign_mode_max test_scan_sum test_split_to_sequence_1
        test_split_to_sequence_2 test_split_to_sequence_nokeepdims test_stft
        test_stft_with_window test_tensorscatter test_tensorscatter_3d test_tensorscatter_circular
        test_tfidfvectorizer_tf_batch_onlybigrams_skip0 test_tfidfvectorizer_tf_batch_onlybigrams_skip5
        test_tfidfvectorizer_tf_batch_uniandbigrams_skip5 test_tfidfvectorizer_tf_only_bigrams_skip0
        test_tfidfvectorizer_tf_onlybigrams_levelempty test_tfidfvectorizer_tf_onlybigrams_skip5
        test_tfidfvectorizer_tf_uniandbigrams_skip5 test_unique_bfloat16_sorted_without_axis test_unique_length_1
        test_unique_not_sorted_without_axis
        test_unique_sorted_with_axis test_unique_sorted_with_axis_3d test_unique_sorted_with_negative_axis
        test_unique_sorted_without_axis
        """,
    ),
    Exclusion(
        "Random numbers.",
        r"training_mode is",
        """
        test_training_dropout test_training_dropout_default test_training_dropout_default_mask
        test_training_dropout_mask
        """,
    ),
    Exclusion(
        "Scattering with a reduction is not supported.",
        r"attribute reduction is given",
        """
        test_scatter_elements_with_duplicate_indices test_scatter_elements_with_reduction_max
        test_scatter_elements_with_reduction_min test_scatter_elements_with_reduction_mul test_scatternd_add
        test_scatternd_max test_scatternd_max_with_element_indices test_scatternd_min
        test_scatternd_min_with_element_indices test_scatternd_multiply
        """,
    ),
    Exclusion(
        "The indices of a maximum are not computed by pools.",
        r"output 1 \(Indices\) is used",
        """
        test_maxpool_with_argmax_2d_precomputed_pads test_maxpool_with_argmax_2d_precomputed_strides
        """,
    ),
    Exclusion(
        "The test is of an opset before 7.",
        r"the model is of opset 1, expected",
        """
        test_not_2d test_not_3d test_not_4d
        """,
    ),
    Exclusion(
        "Half precision: the reference rounds after each step, where an attention that is computed as one op does not.",
        r"Not equal to tolerance",
        """
        test_attention_4d_causal_fp16 test_attention_4d_causal_fp16_expanded
        """,
    ),
]

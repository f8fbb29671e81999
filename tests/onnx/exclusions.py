"""The tests of ONNX that are not for this library, each with the reason, and with what its error says.

test_node_backend.py runs them all the same: one that passes, or fails for another reason, is an error here.
"""

from dataclasses import dataclass

# The release of onnx whose tests these are, and how many it has.
LISTED_FOR = "1.23.2"
TESTS = 1884


@dataclass(frozen=True)
class Exclusion:
    """Tests that fail for one reason; `error` is found in the message.

    `by_processor`: on some processors, by their roundings; on others they pass.
    """

    reason: str
    error: str
    names: str
    by_processor: bool = False


EXCLUSIONS = [
    Exclusion(
        "The library has no such element type.",
        r"(?i)(dtype|float64|has element type|the result) .*(float64|u?int16|uint32|uint64|float[48]|u?int[24])",
        """
        test_ai_onnx_ml_tree_ensemble_single_tree test_attention_local_window_gqa_rank4_mask test_bernoulli
        test_bernoulli_expanded test_cast_e8m0_FLOAT16_to_FLOAT8E8M0 test_cast_e8m0_FLOAT_to_FLOAT8E8M0
        test_eyelike_with_dtype test_reduce_log_sum_exp_default_axes_keepdims_example
        test_reduce_log_sum_exp_default_axes_keepdims_random test_reduce_log_sum_exp_do_not_keepdims_example
        test_reduce_log_sum_exp_do_not_keepdims_random test_reduce_log_sum_exp_keepdims_example
        test_reduce_log_sum_exp_keepdims_random test_reduce_log_sum_exp_negative_axes_keepdims_example
        test_reduce_log_sum_exp_negative_axes_keepdims_random
        """,
    ),
    Exclusion(
        "Strings are no numbers.",
        r"has element type STRING",
        """
        test_equal_string test_equal_string_broadcast
        test_ai_onnx_ml_label_encoder_string_int test_ai_onnx_ml_label_encoder_string_int_no_default
        test_ai_onnx_ml_label_encoder_tensor_mapping test_ai_onnx_ml_label_encoder_tensor_value_only_mapping
        test_regex_full_match_basic test_regex_full_match_email_domain test_regex_full_match_empty
        test_string_concat test_string_concat_broadcasting test_string_concat_empty_string
        test_string_concat_utf8 test_string_concat_zero_dimensional test_string_split_basic
        test_string_split_consecutive_delimiters test_string_split_empty_string_delimiter
        test_string_split_empty_tensor test_string_split_maxsplit test_string_split_no_delimiter
        test_strnormalizer_export_monday_casesensintive_lower
        test_strnormalizer_export_monday_casesensintive_nochangecase
        test_strnormalizer_export_monday_casesensintive_upper test_strnormalizer_export_monday_empty_output
        test_strnormalizer_export_monday_insensintive_upper_twodim test_strnormalizer_nostopwords_nochangecase
        """,
    ),
    Exclusion(
        "The test is of an older meaning of the op.",
        r"Scan of opset 8",
        """
        test_scan_sum
        """,
    ),
    Exclusion(
        "The op is not supported: of training, image files, text, detection or rare.",
        r"pylayout has not this op",
        """
        test_adagrad test_adagrad_multiple test_adam test_adam_multiple test_ai_onnx_ml_array_feature_extractor
        test_ai_onnx_ml_binarizer test_ai_onnx_ml_tree_ensemble_set_membership test_image_decoder_decode_bmp_rgb
        test_image_decoder_decode_jpeg2k_rgb test_image_decoder_decode_jpeg_bgr
        test_image_decoder_decode_jpeg_grayscale test_image_decoder_decode_jpeg_rgb
        test_image_decoder_decode_png_rgb test_image_decoder_decode_pnm_rgb test_image_decoder_decode_tiff_rgb
        test_image_decoder_decode_webp_rgb test_momentum test_momentum_multiple test_nesterov_momentum
        test_tfidfvectorizer_tf_batch_onlybigrams_skip0 test_tfidfvectorizer_tf_batch_onlybigrams_skip5
        test_tfidfvectorizer_tf_batch_uniandbigrams_skip5 test_tfidfvectorizer_tf_only_bigrams_skip0
        test_tfidfvectorizer_tf_onlybigrams_levelempty test_tfidfvectorizer_tf_onlybigrams_skip5
        test_tfidfvectorizer_tf_uniandbigrams_skip5
        """,
    ),
    Exclusion(
        "Random numbers, of another generator than the test's.",
        r"Not equal to tolerance|dtype is float64",
        """
        test_bernoulli_double test_bernoulli_double_expanded test_bernoulli_seed test_bernoulli_seed_expanded
        test_training_dropout test_training_dropout_default test_training_dropout_default_mask
        test_training_dropout_mask
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
        by_processor=True,
    ),
    Exclusion(
        "The reference's own roundings in f32: 2e-7 where the sum is 0, and is 0 here.",
        r"Not equal to tolerance",
        """
        test_dft_inverse test_dft_inverse_opset19
        """,
        by_processor=True,
    ),
    Exclusion(
        "A place between pixels is rounded as a part of the image's width: 2e-7 where the sum is 0.",
        r"Not equal to tolerance",
        """
        test_basic_deform_conv_with_padding
        """,
    ),
]

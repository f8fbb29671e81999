// Every pass; each is defined in the file of its name.
#pragma once

#include "graph/pass.h"

namespace pl::passes {

Pass expand_attention(Device* device);       // null: one that has no kernel for it
Pass expand_squeeze_excite(Device* device);  // null: for its name alone
Pass fold_batch_norm();
Pass fold_constants();
Pass fold_pad();
Pass fold_scale();
Pass fuse_addend(Device* device);  // null: for its name alone
Pass fuse_bias();
Pass fuse_interleave();
Pass fuse_longer_post_ops(Device* device);  // null: for its name alone
Pass fuse_norm_slope();
Pass fuse_parameters();
Pass fuse_pointwise(Device* device);  // null: for its name, and for a device without tables
Pass fuse_post_ops();
Pass fuse_squeeze_excite(bool trained);
Pass gather_rows();
// Null: for its name alone.  `constants`: of a plan, without which weights of named axes are joined where they adjoin.
Pass join_linear(Device* device, PackedConstants* constants);
Pass join_parts();
Pass join_rotary(Device* device);  // null: for its name alone
Pass merge_equal();
Pass merge_views();
Pass move_merges();
Pass move_quantize();
Pass move_views();
Pass nest_concats();
Pass move_concats();
Pass quantize_products(Device* device);  // null: for its name alone
Pass recognise_activation();
Pass recognise_attention();
Pass recognise_channel_shuffle();
Pass recognise_norm();
Pass recognise_rotary();
Pass recognise_scan();
Pass remove_identity();
Pass scale_products(Device* device);  // null: for its name alone
Pass scatter_rows();
Pass skip_repeats();
Pass split_linear();
Pass unpack_weights(Device* device);  // null: for its name alone
Pass unsigned_integers();

}  // namespace pl::passes

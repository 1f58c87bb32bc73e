// SPDX-License-Identifier: Apache-2.0
#include "aten/registered.h"

#include <set>

namespace neuronx::aten {

bool is_registered(std::string_view name) {
  // The TORCH_LIBRARY_IMPL blocks of this folder, and composites of core that
  // end in them and take a device.
  static const auto* names = new std::set<std::string_view>{
      "aten::empty.memory_format",
      "aten::empty_strided",
      "aten::new_empty_strided",
      "aten::as_strided",
      "aten::as_strided_copy",
      "aten::as_strided_scatter",
      "aten::view",
      "aten::_reshape_alias",
      "aten::unfold",
      "aten::view_as_real",
      "aten::view_as_complex",
      "aten::set_",
      "aten::set_.source_Storage",
      "aten::set_.source_Storage_storage_offset",
      "aten::set_.source_Tensor",
      "aten::resize_",
      "aten::_copy_from",
      "aten::_copy_from_and_resize",
      "aten::copy_",
      "aten::_to_copy",
      "aten::_local_scalar_dense",
      "aten::record_stream",
      "aten::equal",
      "aten::nonzero",
      "aten::nonzero.out",
      "aten::masked_select",
      "aten::masked_select.out",
      "aten::_unique",
      "aten::_unique2",
      "aten::unique_dim",
      "aten::unique_dim_consecutive",
      "aten::unique_consecutive",
      "aten::repeat_interleave.Tensor",
      "aten::bincount",
      "aten::native_batch_norm",
      "aten::_native_batch_norm_legit",
      "aten::_batch_norm_with_update",
      "aten::is_set_to",
      "aten::_fused_sdp_choice",
      "aten::_native_multi_head_attention",
      "aten::_transformer_encoder_layer_fwd",
      "aten::_nested_tensor_from_mask_left_aligned",
      "aten::_foreach_addcdiv.Tensor",
      "aten::_foreach_addcdiv_.Tensor",
      "aten::_foreach_addcmul.Tensor",
      "aten::_foreach_addcmul_.Tensor",
      "aten::rrelu_with_noise",
      "aten::rrelu_with_noise_",
      "aten::rrelu_with_noise.out",
      "aten::_has_compatible_shallow_copy_type",
  };
  return names->contains(name);
}

}  // namespace neuronx::aten

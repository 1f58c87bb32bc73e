// SPDX-License-Identifier: Apache-2.0
#include "aten/composites.h"

#include <set>

namespace neuronx::aten {

bool is_composite(std::string_view name) {
  static const auto* names = new std::set<std::string_view>{
      "aten::_to_copy",
      "aten::_unsafe_view",
      "aten::as_strided_copy",
      "aten::as_strided_scatter",
      "aten::copy_",
      "aten::is_set_to",
      "aten::new_empty_strided",
      "aten::rrelu_with_noise",
      "aten::rrelu_with_noise.out",
      "aten::rrelu_with_noise_",
      "aten::set_.source_Tensor",
  };
  return names->contains(name);
}

}  // namespace neuronx::aten

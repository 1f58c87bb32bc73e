// SPDX-License-Identifier: Apache-2.0
#include "runtime/call_site.h"

#include "common/call_site.h"
#include "common/env.h"

namespace neuronx::runtime {

bool call_sites_kept() {
  static const bool kept = env::flag("TORCH_NEURONX_DEBUG", false);
  return kept;
}

std::string queued_by() {
  const std::string site = call_site();
  return site.empty() ? "a thread without Python code, such as backward's"
                      : site;
}

}  // namespace neuronx::runtime

// SPDX-License-Identifier: Apache-2.0
// The line of Python that queued a piece of work, for the messages of failures
// that come later: see common/call_site.h.
#pragma once

#include <string>

namespace neuronx::runtime {

// TORCH_NEURONX_DEBUG is set: what is queued keeps its line.
bool call_sites_kept();

// "train.py:12", or why there is none.
std::string queued_by();

}  // namespace neuronx::runtime

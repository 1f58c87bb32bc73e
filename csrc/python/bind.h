// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

namespace neuronx::python {

// Program, Value, GraphBuilder, program(), lowered_ops() and the decompose
// callback.
void bind_programs(pybind11::module_& m);

}  // namespace neuronx::python

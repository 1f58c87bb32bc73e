// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

namespace neuronx::python {

// Program, program(), lowered_ops() and the decompose
// callback.
void bind_programs(pybind11::module_& m);
// Value, Number and GraphBuilder.
void bind_graph_builder(pybind11::module_& m);
void bind_graphs(pybind11::module_& m);

// The compile service and the compile cache.
void bind_service(pybind11::module_& m);

}  // namespace neuronx::python

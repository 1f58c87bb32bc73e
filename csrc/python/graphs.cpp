// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/autograd/python_variable.h>

#include "common/strides.h"
#include "graph/stages.h"
#include "python/bind.h"
#include "python/graph_builder.h"

namespace py = pybind11;

namespace neuronx::python {
namespace {

using graph::Argument;
using graph::Arguments;
using graph::Input;
using graph::Output;

Argument to_argument(PyObject* object) {
  if (THPVariable_Check(object)) {
    return THPVariable_Unpack(object);
  }
  if (PyBool_Check(object) || PyLong_Check(object)) {
    return static_cast<int64_t>(PyLong_AsLongLong(object));
  }
  if (PyFloat_Check(object)) {
    return PyFloat_AS_DOUBLE(object);
  }
  if (THPGenerator_Check(object)) {
    return THPGenerator_Unwrap(object);
  }
  return {};
}

PyObject* to_python(Argument&& argument) {
  if (auto* tensor = std::get_if<at::Tensor>(&argument)) {
    return THPVariable_Wrap(std::move(*tensor));
  }
  if (const auto* integer = std::get_if<int64_t>(&argument)) {
    return PyLong_FromLongLong(*integer);
  }
  Py_RETURN_NONE;
}

c10::ScalarType to_scalar_type(const py::handle& dtype) {
  return reinterpret_cast<THPDtype*>(dtype.ptr())->scalar_type;
}

using Dims = std::vector<int64_t>;

// ("tensor", dtype, sizes, strides), ("number", dtype), ("integer", value) or
// ("ignored",).
Input to_input(const py::tuple& spec) {
  const auto kind = spec[0].cast<std::string>();
  Input input{Input::Kind::Ignored};
  if (kind == "tensor") {
    input.kind = Input::Kind::Tensor;
    input.dtype = to_scalar_type(spec[1]);
    const auto sizes = spec[2].cast<Dims>(), strides = spec[3].cast<Dims>();
    input.sizes.assign(sizes.begin(), sizes.end());
    input.strides.assign(strides.begin(), strides.end());
    input.contiguous = is_contiguous(sizes, strides);
  } else if (kind == "number") {
    input.kind = Input::Kind::Number;
    input.dtype = to_scalar_type(spec[1]);
  } else if (kind == "integer") {
    input.kind = Input::Kind::Integer;
    input.value = spec[1].cast<int64_t>();
  }
  return input;
}

// ("new", dtype, sizes, strides), ("view", output, sizes, strides, offset),
// ("argument view", position, sizes, strides, offset), ("argument", position),
// ("integer", value) or ("none",).
Output to_output(const py::tuple& spec) {
  const auto kind = spec[0].cast<std::string>();
  Output output{Output::Kind::None};
  const auto layout = [&] {
    const auto sizes = spec[2].cast<Dims>(), strides = spec[3].cast<Dims>();
    output.sizes.assign(sizes.begin(), sizes.end());
    if (output.kind != Output::Kind::New || !is_contiguous(sizes, strides)) {
      output.strides.assign(strides.begin(), strides.end());
    }
    return extent(sizes, strides);
  };
  if (kind == "new") {
    output.kind = Output::Kind::New;
    output.dtype = to_scalar_type(spec[1]);
    output.bytes =
        static_cast<size_t>(layout()) * c10::elementSize(output.dtype);
  } else if (kind == "view" || kind == "argument view") {
    output.kind =
        kind == "view" ? Output::Kind::View : Output::Kind::ArgumentView;
    output.index = spec[1].cast<int32_t>();
    layout();
    output.offset = spec[4].cast<int64_t>();
  } else if (kind == "argument") {
    output.kind = Output::Kind::Argument;
    output.index = spec[1].cast<int32_t>();
  } else if (kind == "integer") {
    output.kind = Output::Kind::Integer;
    output.value = spec[1].cast<int64_t>();
  }
  return output;
}

void add(graph::Graph& self,
         const std::string& name,
         const std::vector<ir::Stage>& stages,
         int scalar_count,
         const std::vector<GraphBuilder::Draws>& draws,
         const std::vector<py::tuple>& inputs,
         const std::vector<py::tuple>& outputs,
         std::vector<int32_t> tensors,
         std::vector<int32_t> numbers,
         const std::vector<int32_t>& results,
         int device) {
  auto variant = std::make_unique<graph::Variant>();
  for (const auto& spec : inputs) {
    variant->inputs.push_back(to_input(spec));
  }
  for (const auto& spec : outputs) {
    variant->outputs.push_back(to_output(spec));
  }
  variant->tensors = std::move(tensors);
  variant->numbers = std::move(numbers);
  for (const auto& [generator, blocks, more] : draws) {
    variant->draws.push_back({generator, blocks, more});
  }
  variant->device = static_cast<c10::DeviceIndex>(device);
  py::gil_scoped_release release;
  graph::set_stages(*variant, name, stages, scalar_count, results);
  self.add(std::move(variant));
}

// The outputs, or None if no variant fits the arguments. The list gives its
// references up before the call is queued.
py::object call(const graph::Graph& self, const py::list& list) {
  Arguments arguments;
  const size_t size = list.size();
  arguments.reserve(size);
  for (size_t i = 0; i < size; ++i) {
    arguments.push_back(to_argument(PyList_GET_ITEM(list.ptr(), i)));
  }
  const graph::Variant* variant = self.find(arguments);
  if (variant == nullptr) {
    return py::none();
  }
  PyList_SetSlice(list.ptr(), 0, PyList_GET_SIZE(list.ptr()), nullptr);
  Arguments outputs;
  {
    py::gil_scoped_release release;
    outputs = graph::launch(*variant, std::move(arguments));
  }
  py::list result(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    PyList_SET_ITEM(result.ptr(), i, to_python(std::move(outputs[i])));
  }
  return result;
}

}  // namespace

void bind_graphs(py::module_& m) {
  py::class_<graph::Graph>(m, "Graph")
      .def(py::init<>())
      .def("add", &add)
      .def("__call__", &call)
      .def("__len__", &graph::Graph::size);
}

}  // namespace neuronx::python

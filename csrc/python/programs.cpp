// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/dispatch/Dispatcher.h>
#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include "compiler/neuronx_cc.h"
#include "eager/arguments.h"
#include "eager/call_builder.h"
#include "eager/decompose.h"
#include "eager/kernel.h"
#include "ir/hardware.h"
#include "ir/print.h"
#include "lowering/lowering.h"
#include "python/bind.h"

namespace py = pybind11;

namespace neuronx::python {
namespace {

// "aten::add.Tensor", "aten::relu" or "aten::relu.default".
c10::OperatorHandle find_op(std::string name) {
  if (name.ends_with(".default")) {
    name.resize(name.size() - 8);
  }
  std::string overload;
  if (const auto dot = name.find('.'); dot != std::string::npos) {
    overload = name.substr(dot + 1);
    name.resize(dot);
  }
  return c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(),
                                                        overload.c_str());
}

struct GraphBuilder {
  ir::Builder* builder;
  ir::Values operands;
  std::optional<ir::Values> results;

  int32_t parameter(size_t i) const { return operands.at(i).id; }

  std::vector<int32_t> call(
      const std::string& name,
      const py::list& arguments,
      const std::vector<std::pair<py::object, std::vector<int64_t>>>& types);

  void finish(const std::vector<int32_t>& ids) {
    results.emplace();
    for (int32_t id : ids) {
      results->push_back({id});
    }
  }
};

bool takes_tensor(const c10::Type& type) {
  if (type.kind() == c10::TypeKind::OptionalType) {
    return takes_tensor(*type.castRaw<c10::OptionalType>()->getElementType());
  }
  return type.kind() == c10::TypeKind::TensorType;
}

DType to_dtype(const py::handle& object) {
  const auto scalar = reinterpret_cast<THPDtype*>(object.ptr())->scalar_type;
  const auto dtype = eager::to_dtype(scalar);
  if (!dtype) {
    throw lowering::Unsupported(std::string(c10::toString(scalar)) +
                                " has no device representation");
  }
  return *dtype;
}

ir::Attribute to_attribute(const py::handle& object,
                           const c10::Type& type,
                           ir::Values& operands) {
  if (object.is_none()) {
    return {};
  }
  if (py::isinstance<ir::Value>(object)) {
    operands.push_back(object.cast<ir::Value>());
    return ir::Operand{static_cast<int32_t>(operands.size() - 1)};
  }
  const bool tensor = takes_tensor(type);
  if (py::isinstance<py::bool_>(object)) {
    const bool value = object.cast<bool>();
    if (tensor) {
      return ir::NumberTensor{DType::Bool, true, value};
    }
    return value;
  }
  if (py::isinstance<py::int_>(object)) {
    const auto value = object.cast<int64_t>();
    if (tensor) {
      return ir::NumberTensor{DType::Int64, true, value};
    }
    return value;
  }
  if (py::isinstance<py::float_>(object)) {
    const auto value = object.cast<double>();
    if (tensor) {
      return ir::NumberTensor{DType::Float64, true, value};
    }
    return value;
  }
  if (THPDtype_Check(object.ptr())) {
    return to_dtype(object);
  }
  if (py::isinstance<py::str>(object)) {
    return object.cast<std::string>();
  }
  if (py::isinstance<py::sequence>(object)) {
    const auto list = object.cast<py::sequence>();
    bool values = false, doubles = false;
    for (const auto& element : list) {
      values = values || py::isinstance<ir::Value>(element);
      doubles = doubles || py::isinstance<py::float_>(element);
    }
    if (values) {
      ir::OperandList indices;
      for (const auto& element : list) {
        if (element.is_none()) {
          indices.indices.push_back(-1);
          continue;
        }
        operands.push_back(element.cast<ir::Value>());
        indices.indices.push_back(static_cast<int32_t>(operands.size() - 1));
      }
      return indices;
    }
    if (doubles) {
      return list.cast<std::vector<double>>();
    }
    return list.cast<std::vector<int64_t>>();
  }
  throw lowering::Unsupported(
      "an argument of type " +
      py::str(py::type::of(object)).cast<std::string>() +
      " cannot be part of a program");
}

std::vector<int32_t> GraphBuilder::call(
    const std::string& name,
    const py::list& arguments,
    const std::vector<std::pair<py::object, std::vector<int64_t>>>& types) {
  const auto op = find_op(name);
  const auto& schema = op.schema();
  ir::Values inner;
  std::vector<ir::Attribute> attributes;
  for (size_t i = 0; i < arguments.size(); ++i) {
    attributes.push_back(to_attribute(
        arguments[i], *schema.arguments().at(i).real_type(), inner));
  }
  std::vector<ir::TensorType> results;
  for (const auto& [dtype, shape] : types) {
    if (dtype.is_none()) {
      results.push_back({DType::Bool, {0}});
    } else {
      results.push_back({to_dtype(dtype), shape});
    }
  }
  const auto values = lowering::call(
      *builder, eager::op_info(op).functional, inner, attributes, results);
  if (!values) {
    throw lowering::Unsupported(name + " has no lowering");
  }
  std::vector<int32_t> ids;
  for (ir::Value value : *values) {
    ids.push_back(value.id);
  }
  return ids;
}

py::object to_python(const c10::IValue& value) {
  if (value.isDevice()) {
    return py::none();
  }
  return torch::jit::toPyObject(value);
}

void set_decompose_callback(py::function callback) {
  auto* kept = new py::function(std::move(callback));  // leaked: outlives us
  eager::set_decompose_callback(
      [kept](ir::Builder& body,
             const std::string& functional,
             const torch::jit::Stack& arguments,
             const ir::Values& operands) -> std::optional<ir::Values> {
        py::gil_scoped_acquire acquire;
        GraphBuilder builder{&body, operands, std::nullopt};
        const auto op = find_op(functional);
        py::list positional;
        py::dict keywords;
        for (size_t i = 0; i < arguments.size(); ++i) {
          const auto& argument = op.schema().arguments()[i];
          py::object value = to_python(arguments[i]);
          // dtypes travel as integers in IValues.
          if (argument.real_type()->str().find("ScalarType") !=
                  std::string::npos &&
              arguments[i].isInt()) {
            value = py::reinterpret_borrow<py::object>(
                reinterpret_cast<PyObject*>(torch::getTHPDtype(
                    static_cast<c10::ScalarType>(arguments[i].toInt()))));
          }
          if (argument.kwarg_only()) {
            keywords[argument.name().c_str()] = value;
          } else {
            positional.append(value);
          }
        }
        const bool done =
            (*kept)(py::cast(&builder, py::return_value_policy::reference),
                    functional,
                    py::tuple(positional),
                    keywords)
                .cast<bool>();
        return done ? builder.results : std::nullopt;
      });
}

ir::Program program(const std::string& name,
                    const py::tuple& args,
                    const py::dict& kwargs) {
  const auto op = find_op(name);
  torch::jit::Stack stack = torch::jit::createStackForSchema(
      op.schema(),
      torch::jit::tuple_slice(args),
      py::reinterpret_borrow<py::kwargs>(kwargs),
      std::nullopt);
  py::gil_scoped_release release;
  return eager::trace(eager::op_info(op), stack);
}

py::list describe_types(const ir::Program& program,
                        const std::vector<ir::Value>& values) {
  py::list result;
  for (ir::Value value : values) {
    const auto& type = program.type(value);
    result.append(
        py::make_tuple(std::string(neuronx::name(type.dtype)), type.shape));
  }
  return result;
}

ir::hardware::Target hardware_target(const std::string& chip,
                                     bool native_int64,
                                     const std::string& custom_calls) {
  return {.chip = ir::hardware::chip(chip),
          .native_int64 = native_int64,
          .custom_calls = ir::hardware::parse_custom_calls(custom_calls)};
}

std::vector<std::string> violations(const ir::Program& program,
                                    const std::string& chip,
                                    bool native_int64) {
  std::vector<std::string> texts;
  for (const auto& violation : ir::hardware::violations(
           program, hardware_target(chip, native_int64, ""))) {
    texts.push_back(ir::hardware::to_string(violation));
  }
  return texts;
}

ir::Program legalized(const ir::Program& program,
                      const std::string& chip,
                      bool native_int64,
                      const std::string& custom_calls) {
  return ir::hardware::legalize(
      program, hardware_target(chip, native_int64, custom_calls));
}

py::list hardware_rules() {
  py::list result;
  for (const auto& rule : ir::hardware::rules()) {
    py::dict entry;
    entry["name"] = rule.name;
    entry["codes"] = rule.codes;
    entry["source"] = rule.source;
    entry["targets"] = rule.targets;
    entry["restriction"] = rule.restriction;
    entry["remedy"] = rule.remedy;
    entry["rewritten"] = rule.rewritten;
    result.append(entry);
  }
  return result;
}

py::bytes neff(const ir::Program& program, const std::string& name) {
  bool from_disk = false;
  std::string bytes;
  {
    py::gil_scoped_release release;
    bytes = compiler::neff(name, program, &from_disk);
  }
  return py::bytes(bytes);
}

}  // namespace

void bind_programs(py::module_& m) {
  py::register_exception<lowering::Unsupported>(
      m, "Unsupported", PyExc_RuntimeError);
  py::register_exception<eager::Refused>(
      m, "Refused", PyExc_NotImplementedError);
  py::register_exception<ir::hardware::Illegal>(
      m, "IllegalProgram", PyExc_RuntimeError);
  py::class_<ir::Value>(m, "Value")
      .def(py::init([](int32_t id) { return ir::Value{id}; }))
      .def_readonly("id", &ir::Value::id);
  py::class_<GraphBuilder>(m, "GraphBuilder")
      .def("parameter", &GraphBuilder::parameter)
      .def("call", &GraphBuilder::call)
      .def("finish", &GraphBuilder::finish);
  py::class_<ir::Program>(m, "Program")
      .def_property_readonly(
          "stablehlo",
          [](const ir::Program& p) { return ir::to_stablehlo(p); },
          "StableHLO text with composites expanded, as the compiler gets it.")
      .def_property_readonly(
          "text", [](const ir::Program& p) { return ir::to_string(p); })
      .def_property_readonly(
          "inputs",
          [](const ir::Program& p) { return describe_types(p, p.parameters); },
          "(dtype, shape) of each parameter.")
      .def_property_readonly(
          "outputs",
          [](const ir::Program& p) { return describe_types(p, p.results); },
          "(dtype, shape) of each result.")
      .def("violations",
           &violations,
           py::arg("target"),
           py::arg("native_int64") = true,
           "What the compiler would refuse on \"trn2\" or \"trn3\", a text "
           "each. See docs/hardware.md.")
      .def("legalized",
           &legalized,
           py::arg("target"),
           py::arg("native_int64") = true,
           py::arg("custom_calls") = "",
           "The program that the compiler gets, without composites. "
           "custom_calls: \"0\", \"1\" or names, as in "
           "TORCH_NEURONX_CUSTOM_CALLS. Raises IllegalProgram if it cannot be "
           "rewritten.")
      .def("neff",
           &neff,
           py::arg("name") = "program",
           "The compiled program, from the disk cache or the compiler.")
      .def("__repr__", [](const ir::Program& p) { return ir::to_string(p); });
  m.def("program", &program);
  m.attr("host_dtypes_reason") = eager::kHostDtypes;
  m.def("hardware_rules", &hardware_rules);
  m.def("lowered_ops", &lowering::lowered_names);
  m.def("set_decompose_callback", &set_decompose_callback);
}

}  // namespace neuronx::python

// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/dispatch/Dispatcher.h>
#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include "compiler/neff.h"
#include "eager/call_builder.h"
#include "eager/decompose.h"
#include "eager/kernel.h"
#include "ir/hardware.h"
#include "ir/passes.h"
#include "ir/print.h"
#include "ir/stages.h"
#include "lowering/lowering.h"
#include "python/bind.h"
#include "python/graph_builder.h"

namespace py = pybind11;

namespace neuronx::python {
namespace {

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
        GraphBuilder builder(body, operands);
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
        return done ? builder.results() : std::nullopt;
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

// The optimised program, and (pass, operations removed, program) of each pass.
py::tuple optimized(const ir::Program& program) {
  ir::Program result = program;
  py::list passes;
  ir::optimize(result, [&](const ir::Pass& pass, const ir::Program& after) {
    passes.append(py::make_tuple(pass.name, pass.changes, after));
  });
  return py::make_tuple(std::move(result), passes);
}

py::list hardware_passes(const ir::Program& program, const std::string& chip) {
  py::list passes;
  ir::hardware::legalize(
      program,
      hardware_target(chip, true, ""),
      nullptr,
      [&](const ir::Pass& pass, const ir::Program& after) {
        passes.append(py::make_tuple(pass.name, pass.changes, after));
      });
  return passes;
}

std::vector<ir::Stage> stages(const ir::Program& program,
                              const std::vector<bool>& dying,
                              size_t most) {
  py::gil_scoped_release release;
  return ir::split(program,
                   ir::choose_stages(program, dying, {.stages = most}));
}

py::bytes neff(const ir::Program& program, const std::string& name) {
  std::string bytes;
  {
    py::gil_scoped_release release;
    bytes = compiler::neff(name, program, compiler::default_target()).bytes;
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
  py::class_<ir::Program>(m, "Program")
      .def_property_readonly(
          "stablehlo",
          [](const ir::Program& p) { return ir::to_stablehlo(p); },
          "StableHLO text with composites expanded. The compiler gets it with "
          "the results that overwrite a parameter declared.")
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
      .def("optimized",
           &optimized,
           "What graphs of torch.compile become before they are compiled, and "
           "a (name, operations removed, program) for each pass.")
      .def("hardware_passes",
           &hardware_passes,
           py::arg("target"),
           "A (name, changes, program) for each pass on the way to "
           "legalized(target). Raises IllegalProgram.")
      .def("stages",
           &stages,
           py::arg("dying"),
           py::arg("most"),
           "The program as at most so many that run one after another, where "
           "that lowers the peak of memory. dying: for each parameter, whether "
           "nothing else holds its memory.")
      .def("neff",
           &neff,
           py::arg("name") = "program",
           "The compiled program, from the disk cache or the compiler.")
      .def("__repr__", [](const ir::Program& p) { return ir::to_string(p); });
  py::class_<ir::Stage>(m, "Stage")
      .def_readonly("program", &ir::Stage::program);
  m.def("program", &program);
  m.attr("host_dtypes_reason") = eager::kHostDtypes;
  m.def("hardware_rules", &hardware_rules);
  m.def("lowered_ops", &lowering::lowered_names);
  m.def("set_decompose_callback", &set_decompose_callback);
}

}  // namespace neuronx::python

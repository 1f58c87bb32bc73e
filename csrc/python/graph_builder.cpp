// SPDX-License-Identifier: Apache-2.0
#include "python/graph_builder.h"

#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <torch/csrc/Dtype.h>

#include <algorithm>
#include <stdexcept>

#include "eager/arguments.h"
#include "eager/draw.h"
#include "eager/op_info.h"
#include "lowering/lowering.h"
#include "python/bind.h"

namespace py = pybind11;

namespace neuronx::python {
namespace {

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

// A runtime scalar in the place of a tensor: a 0-dim tensor on the CPU.
struct Number {
  int32_t id;
  py::object dtype;
};

int32_t append(ir::Values& operands, ir::Value value) {
  operands.push_back(value);
  return static_cast<int32_t>(operands.size() - 1);
}

ir::Attribute list_attribute(const py::sequence& list, ir::Values& operands) {
  bool values = false, doubles = false;
  for (const auto& element : list) {
    values = values || py::isinstance<ir::Value>(element);
    doubles = doubles || py::isinstance<py::float_>(element);
  }
  if (values) {
    ir::OperandList indices;
    for (const auto& element : list) {
      indices.indices.push_back(
          element.is_none() ? -1 : append(operands, element.cast<ir::Value>()));
    }
    return indices;
  }
  if (doubles) {
    return list.cast<std::vector<double>>();
  }
  return list.cast<std::vector<int64_t>>();
}

template <typename T>
ir::Attribute number_attribute(T value, DType dtype, bool tensor) {
  if (tensor) {
    return ir::NumberTensor{dtype, true, value};
  }
  return value;
}

ir::Attribute to_attribute(const py::handle& object,
                           const c10::Type& type,
                           ir::Values& operands) {
  if (object.is_none()) {
    return {};
  }
  if (py::isinstance<ir::Value>(object)) {
    return ir::Operand{append(operands, object.cast<ir::Value>())};
  }
  const bool tensor = takes_tensor(type);
  if (py::isinstance<Number>(object)) {
    const auto& number = object.cast<const Number&>();
    const int32_t operand = append(operands, {number.id});
    if (!tensor) {
      return ir::Operand{operand};
    }
    const DType dtype = to_dtype(number.dtype);
    if (is_floating_point(dtype)) {
      return ir::NumberTensor{dtype, false, 0.0, operand};
    }
    return ir::NumberTensor{dtype, false, int64_t{0}, operand};
  }
  if (py::isinstance<py::bool_>(object)) {
    return number_attribute(object.cast<bool>(), DType::Bool, tensor);
  }
  if (py::isinstance<py::int_>(object)) {
    return number_attribute(object.cast<int64_t>(), DType::Int64, tensor);
  }
  if (py::isinstance<py::float_>(object)) {
    return number_attribute(object.cast<double>(), DType::Float64, tensor);
  }
  if (THPDtype_Check(object.ptr())) {
    return to_dtype(object);
  }
  if (py::isinstance<py::str>(object)) {
    return object.cast<std::string>();
  }
  if (py::isinstance<py::sequence>(object)) {
    return list_attribute(object.cast<py::sequence>(), operands);
  }
  throw lowering::Unsupported(
      "an argument of type " +
      py::str(py::type::of(object)).cast<std::string>() +
      " cannot be part of a program");
}

// A call taken apart.
struct Parts {
  ir::Values operands;
  std::vector<ir::Attribute> arguments;
  std::vector<ir::TensorType> types;
};

Parts take_apart(const c10::FunctionSchema& schema,
                 const py::list& arguments,
                 const GraphBuilder::Types& types) {
  Parts parts;
  for (size_t i = 0; i < arguments.size(); ++i) {
    parts.arguments.push_back(to_attribute(
        arguments[i], *schema.arguments().at(i).real_type(), parts.operands));
  }
  for (const auto& [dtype, shape] : types) {
    if (dtype.is_none()) {
      parts.types.push_back({DType::Bool, {0}});
    } else {
      parts.types.push_back({to_dtype(dtype), shape});
    }
  }
  return parts;
}

// Throws if the decomposition gives other results than the graph was captured
// with.
void check_types(const std::string& name,
                 const ir::Builder& body,
                 const ir::Values& results,
                 const std::vector<ir::TensorType>& captured) {
  if (results.size() != captured.size()) {
    throw lowering::Unsupported(
        name + " was captured with " + std::to_string(captured.size()) +
        " results; its decomposition gives " + std::to_string(results.size()));
  }
  for (size_t k = 0; k < results.size(); ++k) {
    const ir::TensorType type = body.type(results[k]);
    if (type != captured[k]) {
      throw lowering::Unsupported(
          "result " + std::to_string(k) + " of " + name + " was captured as " +
          ir::to_string(captured[k]) + "; its decomposition gives " +
          ir::to_string(type));
    }
  }
}

GraphBuilder::Ids to_ids(const ir::Values& values) {
  GraphBuilder::Ids ids;
  for (ir::Value value : values) {
    ids.push_back(value.id);
  }
  return ids;
}

}  // namespace

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

GraphBuilder::GraphBuilder(std::string name)
    : own_(std::in_place, std::move(name)), builder_(&*own_) {}

GraphBuilder::GraphBuilder(ir::Builder& body, ir::Values operands)
    : builder_(&body), operands_(std::move(operands)) {}

ir::Values GraphBuilder::values(const Ids& ids) const {
  ir::Values result;
  for (int32_t id : ids) {
    result.push_back({id});
  }
  return result;
}

int32_t GraphBuilder::tensor_parameter(const py::handle& dtype,
                                       ir::Shape shape) {
  tensors_.push_back(builder_->parameter({to_dtype(dtype), std::move(shape)}));
  return tensors_.back().id;
}

int32_t GraphBuilder::number_parameter(bool floating) {
  numbers_.push_back(
      builder_->parameter({floating ? DType::Float32 : DType::Int64, {}}));
  return numbers_.back().id;
}

int32_t GraphBuilder::constant(const py::handle& dtype,
                               ir::Shape shape,
                               const py::bytes& data) {
  return builder_
      ->constant(ir::TensorType{to_dtype(dtype), std::move(shape)},
                 std::string(data))
      .id;
}

std::pair<std::string, ir::Shape> GraphBuilder::type(int32_t id) const {
  const auto type = builder_->type({id});
  return {std::string(neuronx::name(type.dtype)), type.shape};
}

GraphBuilder::Ids GraphBuilder::call(const std::string& name,
                                     const py::list& arguments,
                                     const Types& types) {
  const auto op = find_op(name);
  const auto parts = take_apart(op.schema(), arguments, types);
  const auto results = lowering::call(*builder_,
                                      eager::op_info(op).functional,
                                      parts.operands,
                                      parts.arguments,
                                      parts.types);
  if (!results) {
    throw lowering::Unsupported(name + " has no lowering");
  }
  return to_ids(*results);
}

GraphBuilder::Ids GraphBuilder::composite(const std::string& name,
                                          const py::list& arguments,
                                          const Types& types,
                                          const Body& body) {
  auto parts = take_apart(find_op(name).schema(), arguments, types);
  ir::Builder inner(name);
  Ids parameters;
  for (ir::Value operand : parts.operands) {
    parameters.push_back(inner.parameter(builder_->type(operand)).id);
  }
  GraphBuilder part(inner, values(parameters));
  ir::Values results = values(body(part, parameters));
  for (size_t k = 0; k < results.size(); ++k) {
    if (!results[k]) {
      results[k] = inner.constant(parts.types.at(k), std::string{});
    }
  }
  check_types(name, inner, results, parts.types);
  std::string composite = name;
  composite.replace(composite.find("::"), 2, ".");
  return to_ids(builder_->composite(composite,
                                    parts.operands,
                                    std::move(parts.arguments),
                                    inner.finish(results)));
}

GraphBuilder::Source& GraphBuilder::source(int32_t generator) {
  const auto known = std::ranges::find(sources_, generator, &Source::generator);
  if (known != sources_.end()) {
    return *known;
  }
  if (!own_) {
    throw lowering::Unsupported(
        "random numbers of a generator of its own inside a branch or a loop");
  }
  const ir::TensorType type{DType::Int64, {}};
  const ir::Value seed = builder_->parameter(type);
  return sources_.emplace_back(
      Source{generator, seed, builder_->parameter(type)});
}

ir::Value GraphBuilder::next_offset(const Source& source) {
  if (source.blocks == 0) {
    return source.next;
  }
  return builder_->add(
      source.next,
      builder_->constant(DType::Int64, static_cast<int64_t>(source.blocks)));
}

std::pair<int32_t, int32_t> GraphBuilder::random_state() {
  const Source& from = source(-1);
  return {from.seed.id, next_offset(from).id};
}

void GraphBuilder::set_random_state(int32_t seed, int32_t offset) {
  sources_.push_back(Source{-1, {seed}, {offset}});
}

void GraphBuilder::skip_random_blocks(uint64_t blocks) {
  source(-1).blocks += blocks;
}

GraphBuilder::Ids GraphBuilder::draw(const std::string& name,
                                     const py::list& arguments,
                                     const Types& types,
                                     int32_t generator,
                                     int32_t blocks) {
  const auto* op = eager::find_random_op(name);
  if (op == nullptr) {
    throw lowering::Unsupported(name +
                                " draws random numbers and has no lowering");
  }
  const auto handle = find_op(name);
  const auto parts = take_apart(handle.schema(), arguments, types);
  const auto& first = handle.schema().arguments()[0];
  Source& from = source(generator);
  const ir::Value offset = next_offset(from);
  const auto drawn = eager::draw(*builder_,
                                 *op,
                                 takes_tensor(*first.type()) && !first.is_out(),
                                 parts.operands,
                                 parts.arguments,
                                 parts.types,
                                 from.seed,
                                 offset);
  if (!drawn) {
    throw lowering::Unsupported(name + " has no lowering");
  }
  if (blocks < 0) {
    from.blocks += drawn->blocks;
  } else {
    const auto number = std::ranges::find(numbers_, blocks, &ir::Value::id);
    if (number == numbers_.end()) {
      throw std::invalid_argument(
          "[" + name + "] expected a runtime scalar as its number of blocks");
    }
    from.numbers.push_back(static_cast<int32_t>(number - numbers_.begin()));
    from.next = builder_->add(from.next, {blocks});
  }
  return to_ids(drawn->results);
}

int32_t GraphBuilder::as_strided(int32_t extent,
                                 const ir::Shape& size,
                                 const ir::Shape& stride) {
  return builder_->as_strided({extent}, size, stride, 0).id;
}

int32_t GraphBuilder::as_strided_scatter(int32_t extent,
                                         int32_t value,
                                         const ir::Shape& stride) {
  return builder_->as_strided_scatter({extent}, {value}, stride, 0).id;
}

int32_t GraphBuilder::to_strided(int32_t value, const ir::Shape& stride) {
  return builder_->to_strided({value}, stride).id;
}

int32_t GraphBuilder::convert(int32_t value, const py::handle& dtype) {
  return builder_->convert({value}, to_dtype(dtype)).id;
}

int32_t GraphBuilder::reshape(int32_t value, const ir::Shape& shape) {
  return builder_->reshape({value}, shape).id;
}

int32_t GraphBuilder::dynamic_slice(int32_t value,
                                    const Ids& start,
                                    const ir::Shape& size) {
  return builder_->dynamic_slice({value}, values(start), size).id;
}

int32_t GraphBuilder::dynamic_update_slice(int32_t value,
                                           int32_t update,
                                           const Ids& start) {
  return builder_->dynamic_update_slice({value}, {update}, values(start)).id;
}

ir::Region GraphBuilder::region(const Body& body) {
  return [this, &body](ir::Builder& builder, const ir::Values& parameters) {
    GraphBuilder part(builder, parameters);
    return values(body(part, to_ids(parameters)));
  };
}

GraphBuilder::Ids GraphBuilder::conditional(int32_t index,
                                            const Ids& captures,
                                            const std::vector<Body>& branches) {
  std::vector<ir::Region> regions;
  for (const Body& branch : branches) {
    regions.push_back(region(branch));
  }
  return to_ids(builder_->conditional({index}, values(captures), regions));
}

GraphBuilder::Ids GraphBuilder::while_loop(const Ids& init,
                                           const Body& condition,
                                           const Body& body) {
  return to_ids(
      builder_->while_loop(values(init), region(condition), region(body)));
}

void GraphBuilder::finish(const Ids& ids) {
  results_ = values(ids);
}

ir::Program GraphBuilder::build(const Ids& results,
                                std::vector<int32_t> aliases) {
  ir::Program program = builder_->finish(values(results), std::move(aliases));
  program.parameters = tensors_;
  auto& parameters = program.parameters;
  parameters.insert(parameters.end(), numbers_.begin(), numbers_.end());
  for (const Source& source : sources_) {
    parameters.insert(parameters.end(), {source.seed, source.offset});
  }
  return program;
}

int GraphBuilder::scalar_count() const {
  return static_cast<int>(numbers_.size() + 2 * sources_.size());
}

std::vector<GraphBuilder::Draws> GraphBuilder::draws() const {
  std::vector<Draws> result;
  for (const Source& source : sources_) {
    result.emplace_back(source.generator, source.blocks, source.numbers);
  }
  return result;
}

void bind_graph_builder(py::module_& m) {
  m.def(
      "random_words",
      [](const std::string& name) {
        const auto* op = eager::find_random_op(name);
        return op == nullptr ? 0 : op->words;
      },
      "32-bit words that an operator draws for each element");
  py::class_<ir::Value>(m, "Value")
      .def(py::init([](int32_t id) { return ir::Value{id}; }))
      .def_readonly("id", &ir::Value::id);
  py::class_<Number>(m, "Number")
      .def(py::init([](int32_t id, py::object dtype) {
        return Number{id, std::move(dtype)};
      }));
  py::class_<GraphBuilder>(m, "GraphBuilder")
      .def(py::init<std::string>())
      .def("parameter", &GraphBuilder::parameter)
      .def("tensor_parameter", &GraphBuilder::tensor_parameter)
      .def("number_parameter", &GraphBuilder::number_parameter)
      .def("constant", &GraphBuilder::constant)
      .def("type", &GraphBuilder::type)
      .def("call", &GraphBuilder::call)
      .def("composite", &GraphBuilder::composite)
      .def("draw", &GraphBuilder::draw)
      .def("random_state", &GraphBuilder::random_state)
      .def("set_random_state", &GraphBuilder::set_random_state)
      .def("skip_random_blocks", &GraphBuilder::skip_random_blocks)
      .def("as_strided", &GraphBuilder::as_strided)
      .def("as_strided_scatter", &GraphBuilder::as_strided_scatter)
      .def("to_strided", &GraphBuilder::to_strided)
      .def("convert", &GraphBuilder::convert)
      .def("reshape", &GraphBuilder::reshape)
      .def("dynamic_slice", &GraphBuilder::dynamic_slice)
      .def("dynamic_update_slice", &GraphBuilder::dynamic_update_slice)
      .def("conditional", &GraphBuilder::conditional)
      .def("while_loop", &GraphBuilder::while_loop)
      .def("finish", &GraphBuilder::finish)
      .def("build", &GraphBuilder::build)
      .def_property_readonly("scalar_count", &GraphBuilder::scalar_count)
      .def_property_readonly("draws", &GraphBuilder::draws);
}

}  // namespace neuronx::python

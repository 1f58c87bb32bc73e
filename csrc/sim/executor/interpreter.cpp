// SPDX-License-Identifier: Apache-2.0
#include "sim/executor/interpreter.h"

#include <stdexcept>

#include "sim/executor/aten_call.h"
#include "sim/executor/body.h"
#include "sim/executor/native.h"

namespace neuronx::sim {
namespace {

const Instruction* find_instruction(const std::string& name) {
  static const auto* table = [] {
    auto* t = new std::unordered_map<std::string_view, const Instruction*>;
    for (auto family : {elementwise_instructions(),
                        shape_instructions(),
                        reduce_instructions(),
                        control_instructions(),
                        contraction_instructions(),
                        gather_instructions()})
      for (const Instruction& instruction : family)
        t->emplace(instruction.name, &instruction);
    return t;
  }();
  const auto entry = table->find(name);
  return entry == table->end() ? nullptr : entry->second;
}

template <typename T>
const T& get(const Evaluation& e, const char* key) {
  const ir::Attribute* value = e.op.attribute(key);
  if (const T* typed = value ? std::get_if<T>(value) : nullptr)
    return *typed;
  throw std::runtime_error("[" + e.op.name + "] lacks attribute " + key);
}

}  // namespace

int64_t Evaluation::integer(const char* key) const {
  return get<int64_t>(*this, key);
}

const ir::Shape& Evaluation::ints(const char* key) const {
  return get<ir::Shape>(*this, key);
}

const std::string& Evaluation::string(const char* key) const {
  return get<std::string>(*this, key);
}

Interpreter::Interpreter(bool decomposed) : decomposed_(decomposed) {}
Interpreter::~Interpreter() = default;

void Interpreter::check(const ir::Operation& op) const {
  if (op.is_composite()) {
    if (!decomposed_ && (find_native(op) || find_aten_op(op.name)))
      return;
    if (op.bodies.empty() || !op.bodies[0])
      throw std::runtime_error("[" + op.name +
                               "] neither ATen nor a body can run it");
  } else if (!find_instruction(op.name)) {
    throw std::runtime_error("[" + op.name +
                             "] is not an operation that the "
                             "simulator knows");
  }
  for (const auto& body : op.bodies)
    for (const ir::Operation& inner : body->operations)
      check(inner);
}

Body& Interpreter::branch(const ir::Program& region) {
  auto& body = branches_[&region];
  if (!body)
    body = std::make_unique<Body>(region, Body::Kind::Branch, decomposed_);
  return *body;
}

Body& Interpreter::step(const ir::Program& region) {
  auto& body = steps_[&region];
  if (!body)
    body = std::make_unique<Body>(region, Body::Kind::Step, decomposed_);
  return *body;
}

Tensors Interpreter::evaluate(const ir::Program& program,
                              const Tensors& arguments) {
  std::vector<size_t> last_use(program.types.size(), 0);
  for (size_t i = 0; i < program.operations.size(); ++i)
    for (ir::Value v : program.operations[i].operands)
      last_use[v.id] = i;
  for (ir::Value v : program.results)
    last_use[v.id] = program.operations.size();
  Tensors values(program.types.size());
  for (size_t i = 0; i < arguments.size(); ++i)
    values[program.parameters[i].id] = arguments[i];
  for (size_t i = 0; i < program.operations.size(); ++i) {
    const ir::Operation& op = program.operations[i];
    Tensors operands;
    for (ir::Value v : op.operands)
      operands.push_back(values[v.id]);
    std::vector<ir::TensorType> types;
    for (ir::Value v : op.results)
      types.push_back(program.type(v));
    Tensors results = operation(op, operands, types);
    for (size_t k = 0; k < op.results.size(); ++k)
      values[op.results[k].id] = std::move(results.at(k));
    for (ir::Value v : op.operands)
      if (last_use[v.id] == i)
        values[v.id].reset();
  }
  Tensors results;
  for (ir::Value v : program.results)
    results.push_back(values[v.id]);
  return results;
}

Tensors Interpreter::operation(const ir::Operation& op,
                               const Tensors& operands,
                               const std::vector<ir::TensorType>& types) {
  if (op.is_composite())
    return composite(op, operands);
  const Instruction* instruction = find_instruction(op.name);
  if (!instruction)
    throw std::runtime_error("[" + op.name + "] is unknown");
  return instruction->run({*this, op, operands, types});
}

Tensors Interpreter::composite(const ir::Operation& op,
                               const Tensors& operands) {
  if (!decomposed_) {
    if (const Native native = find_native(op))
      return native(op, operands);
    if (const AtenOp* aten = find_aten_op(op.name)) {
      auto& call = calls_[&op];
      if (!call) {
        std::vector<ir::TensorType> types;
        for (ir::Value v : op.bodies.at(0)->parameters)
          types.push_back(op.bodies[0]->type(v));
        call = std::make_unique<AtenCall>(*aten, op, types);
      }
      call->bind(Form::Functional, operands);
      return call->results();
    }
  }
  return evaluate(*op.bodies.at(0), operands);
}

}  // namespace neuronx::sim

// SPDX-License-Identifier: Apache-2.0
#include "ir/infer.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <unordered_map>

namespace neuronx::ir {
namespace {

const std::unordered_map<std::string_view, Rule>& rules() {
  static const auto* table = [] {
    auto* t = new std::unordered_map<std::string_view, Rule>;
    for (auto family : {elementwise_rules(),
                        shape_rules(),
                        region_rules(),
                        contraction_rules(),
                        composite_rules()})
      for (const Rule& rule : family)
        t->emplace(rule.name, rule);
    return t;
  }();
  return *table;
}

template <typename T>
const T& get(const Call& c, const char* key, const char* kind) {
  const Attribute* value = c.op.attribute(key);
  const T* typed = value ? std::get_if<T>(value) : nullptr;
  if (!typed)
    c.fail(fmt::format("expected {} attribute '{}'", kind, key));
  return *typed;
}

}  // namespace

Types call_body(const Call& c) {
  c.expect_bodies(1);
  const Program& body = *c.op.bodies[0];
  Types results;
  for (Value v : body.results)
    results.push_back(body.type(v));
  c.expect_body(0, c.operands, results);
  return results;
}

void Call::fail(const std::string& message) const {
  throw std::invalid_argument(fmt::format("[{}] {}", op.name, message));
}

void Call::expect_operands(size_t count) const {
  if (operands.size() != count)
    fail(fmt::format("expected {} operand{}, got {}",
                     count,
                     count == 1 ? "" : "s",
                     operands.size()));
}

void Call::expect_bodies(size_t count) const {
  if (op.bodies.size() != count)
    fail(fmt::format("expected {} bodies, got {}", count, op.bodies.size()));
  for (const auto& body : op.bodies)
    if (!body)
      fail("a body is missing");
}

const TensorType& Call::wanted(size_t i) const {
  if (i >= given.size())
    fail(fmt::format("expected a type for result {}", i));
  return given[i];
}

int64_t Call::integer(const char* key) const {
  return get<int64_t>(*this, key, "integer");
}

bool Call::flag(const char* key) const {
  return get<bool>(*this, key, "bool");
}

const std::string& Call::string(const char* key) const {
  return get<std::string>(*this, key, "string");
}

const Shape& Call::ints(const char* key) const {
  return get<Shape>(*this, key, "integer list");
}

const Shape& Call::ints(const char* key, size_t count, int64_t least) const {
  const Shape& values = ints(key);
  if (values.size() != count)
    fail(fmt::format(
        "expected {} entries in {}, got {}", count, key, to_string(values)));
  for (int64_t value : values)
    if (value < least)
      fail(fmt::format("expected {} to be at least {}, got {}",
                       key,
                       least,
                       to_string(values)));
  return values;
}

const Shape& Call::dimensions(const char* key, int64_t rank) const {
  const Shape& values = ints(key);
  std::vector<bool> seen(rank);
  for (int64_t d : values) {
    if (d < 0 || d >= rank)
      fail(fmt::format(
          "{} {} out of range for rank {}", key, to_string(values), rank));
    if (seen[d])
      fail(fmt::format("{} {} has a duplicate", key, to_string(values)));
    seen[d] = true;
  }
  return values;
}

int64_t Call::dimension(const char* key, int64_t rank) const {
  const int64_t d = integer(key);
  if (d < 0 || d >= rank)
    fail(fmt::format("{} {} out of range for rank {}", key, d, rank));
  return d;
}

void Call::expect_body(size_t i,
                       const Types& parameters,
                       const Types& results) const {
  const Program& body = *op.bodies[i];
  Types have, returned;
  for (Value v : body.parameters)
    have.push_back(body.type(v));
  for (Value v : body.results)
    returned.push_back(body.type(v));
  if (have != parameters)
    fail(fmt::format("expected body {} to take ({}), it takes ({})",
                     i,
                     to_string(parameters),
                     to_string(have)));
  if (returned != results)
    fail(fmt::format("expected body {} to return ({}), it returns ({})",
                     i,
                     to_string(results),
                     to_string(returned)));
}

std::string to_string(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::string to_string(const Types& types) {
  std::string text;
  for (const TensorType& type : types)
    text += (text.empty() ? "" : ", ") + to_string(type);
  return text;
}

void check_type(const TensorType& type, std::string_view where) {
  // As many as PyTorch's iterators take.
  if (type.shape.size() > 64)
    throw std::invalid_argument(fmt::format(
        "[{}] {} dimensions, expected at most 64", where, type.shape.size()));
  Wide bytes = Wide(itemsize(type.dtype));
  for (int64_t size : type.shape) {
    if (size < 0)
      throw std::invalid_argument(
          fmt::format("[{}] negative dimension in {}", where, to_string(type)));
    if (bytes <= INT64_MAX)
      bytes *= std::max<int64_t>(size, 1);
  }
  if (bytes > INT64_MAX)
    throw std::invalid_argument(
        fmt::format("[{}] {} is too large", where, to_string(type)));
}

Types infer(const Operation& op, const Types& operands, const Types& given) {
  const Call call{op, operands, given};
  const auto rule = rules().find(op.name);
  Types results;
  if (rule != rules().end()) {
    if (!rule->second.has_bodies)
      call.expect_bodies(0);
    results = rule->second.infer(call);
  } else if (op.is_composite() && !op.name.starts_with("neuronx.")) {
    results = call_body(call);
  } else {
    call.fail("unknown operation");
  }
  for (const TensorType& type : results)
    check_type(type, op.name);
  return results;
}

}  // namespace neuronx::ir

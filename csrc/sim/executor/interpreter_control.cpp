// SPDX-License-Identifier: Apache-2.0
// sort, while and case.
#include <ATen/ops/arange.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <optional>

#include "sim/executor/body.h"
#include "sim/executor/interpreter.h"

namespace neuronx::sim {
namespace {

// Rows of `x` at `order`, along the last dimension.
at::Tensor take(const at::Tensor& x, const at::Tensor& order) {
  return from_carrier(carrier(x).gather(-1, order), x.scalar_type());
}

// Descending, if the region is `a0 < b0` or `a0 > b0` of floating-point or
// signed keys.
std::optional<bool> simple_order(const ir::Program& less, const at::Tensor& x) {
  const auto type = x.scalar_type();
  const bool known = c10::isFloatingType(type)
                         ? !c10::isFloat8Type(type)
                         : c10::isSignedType(type) || type == at::kByte;
  if (!known || x.is_complex() || less.operations.size() != 1)
    return std::nullopt;
  const ir::Operation& op = less.operations[0];
  if (op.name != "stablehlo.compare" || op.results[0] != less.results[0])
    return std::nullopt;
  const ir::Value a = less.parameters[0], b = less.parameters[1];
  const auto& direction =
      std::get<std::string>(*op.attribute("comparison_direction"));
  if (direction != "LT" && direction != "GT")
    return std::nullopt;
  if (op.operands == std::vector{a, b})
    return direction == "GT";
  if (op.operands == std::vector{b, a})
    return direction == "LT";
  return std::nullopt;
}

// For every element, less(left, right), where both are tuples of tensors of
// one shape.
at::Tensor is_less(Interpreter& interpreter,
                   const ir::Program& less,
                   const Tensors& left,
                   const Tensors& right) {
  Tensors arguments;
  for (size_t i = 0; i < left.size(); ++i) {
    arguments.push_back(left[i]);
    arguments.push_back(right[i]);
  }
  return interpreter.evaluate(less, arguments)[0].expand_as(left[0]);
}

// Merge sort of all lines at once: at each level every element finds by
// bisection how many elements of the neighbouring run go before it.
at::Tensor merge_order(Interpreter& interpreter,
                       const ir::Program& less,
                       const Tensors& xs) {
  const auto shape = xs[0].sizes();
  const int64_t n = shape.back();
  const at::Tensor position = at::arange(n, at::kLong).expand(shape);
  at::Tensor order = position.contiguous();
  for (int64_t run = 1; run < n; run *= 2) {
    Tensors sorted;
    for (const at::Tensor& x : xs)
      sorted.push_back(take(x, order));
    const at::Tensor pair = position.div(2 * run, "floor").mul(2 * run);
    const at::Tensor middle = pair.add(run).clamp_max(n);
    const at::Tensor is_left = position.lt(middle);
    const at::Tensor begin = at::where(is_left, middle, pair);
    const at::Tensor end =
        at::where(is_left, pair.add(2 * run).clamp_max(n), middle);
    at::Tensor low = begin, high = end;
    for (int64_t width = run; width > 0; width /= 2) {
      const at::Tensor active = low.lt(high);
      const at::Tensor probe = low.add(high).div(2, "floor").clamp_max(n - 1);
      Tensors probed;
      for (const at::Tensor& x : sorted)
        probed.push_back(take(x, probe));
      // An element of the right run comes after its equals on the left.
      const at::Tensor before =
          at::where(is_left,
                    is_less(interpreter, less, probed, sorted),
                    is_less(interpreter, less, sorted, probed).logical_not());
      low = at::where(active.logical_and(before), probe.add(1), low);
      high = at::where(active.logical_and(before.logical_not()), probe, high);
    }
    const at::Tensor own = position.sub(at::where(is_left, pair, middle));
    const at::Tensor rank = pair.add(own).add(low.sub(begin));
    order = at::empty_like(order).scatter_(-1, rank, order);
  }
  return order;
}

Tensors sort(const Evaluation& e) {
  const int64_t dimension = e.integer("dimension");
  Tensors xs;
  for (const at::Tensor& x : e.operands)
    xs.push_back(from_carrier(carrier(x).movedim(dimension, -1).contiguous(),
                              x.scalar_type()));
  if (xs[0].numel() == 0)
    return e.operands;
  at::Tensor order;
  if (const auto descending = simple_order(e.body(), xs[0]))
    order = std::get<1>(at::sort(xs[0], true, -1, *descending));
  else
    order = merge_order(e.interpreter, e.body(), xs);
  Tensors results;
  for (const at::Tensor& x : xs)
    results.push_back(from_carrier(
        carrier(take(x, order)).movedim(-1, dimension), x.scalar_type()));
  return results;
}

Tensors while_loop(const Evaluation& e) {
  Body& condition = e.interpreter.branch(e.body(0));
  if (condition.takes(e.operands)) {
    Body& step = e.interpreter.step(e.body(1));
    Tensors state = step.state(e.operands);
    while (condition.run(state)[0].item().toBool())
      step.advance(state);
    return state;
  }
  Tensors state = e.operands;
  while (e.interpreter.evaluate(e.body(0), state)[0].item().toBool())
    state = e.interpreter.evaluate(e.body(1), state);
  return state;
}

Tensors conditional(const Evaluation& e) {
  const int64_t last = int64_t(e.op.bodies.size()) - 1;
  const int64_t index = e.in(0).item().toLong();
  const size_t branch = size_t(index < 0 || index > last ? last : index);
  const Tensors operands(e.operands.begin() + 1, e.operands.end());
  Body& body = e.interpreter.branch(e.body(branch));
  return body.takes(operands)
             ? body.run(operands)
             : e.interpreter.evaluate(e.body(branch), operands);
}

constexpr Instruction kInstructions[] = {
    {"stablehlo.sort", sort},
    {"stablehlo.while", while_loop},
    {"stablehlo.case", conditional},
};

}  // namespace

std::span<const Instruction> control_instructions() {
  return kInstructions;
}

}  // namespace neuronx::sim

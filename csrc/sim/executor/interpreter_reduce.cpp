// SPDX-License-Identifier: Apache-2.0
// reduce, reduce_window and select_and_scatter. Regions of rank-0 values are
// lifted: evaluated once on tensors that hold all elements.
#include <ATen/ops/all.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/any.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/prod.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <optional>

#include "sim/executor/interpreter.h"

namespace neuronx::sim {
namespace {

using ir::Shape;

at::Tensor expand(const at::Tensor& x, at::IntArrayRef shape) {
  if (x.sizes() == shape)
    return x;
  return from_carrier(carrier(x).expand(shape).contiguous(), x.scalar_type());
}

// Combines two tuples element by element.
Tensors combine(Interpreter& interpreter,
                const ir::Program& region,
                const Tensors& left,
                const Tensors& right) {
  const std::string_view name = combiner(region);
  if (name == "second")
    return right;
  if (!name.empty())
    return {apply_binary(name, left[0], right[0])};
  Tensors arguments = left;
  arguments.insert(arguments.end(), right.begin(), right.end());
  Tensors results = interpreter.evaluate(region, arguments);
  for (size_t i = 0; i < results.size(); ++i)
    results[i] = expand(results[i], left[i].sizes());
  return results;
}

// One ATen reduction of dimension 0, where ATen has it for the dtype.
std::optional<at::Tensor> reduce_at_once(std::string_view name,
                                         const at::Tensor& x) {
  const at::ScalarType type = x.scalar_type();
  const bool integer = c10::isIntegralType(type, false);
  if (type == at::kBool) {
    if (name == "add" || name == "or" || name == "maximum")
      return at::any(x, 0);
    if (name == "multiply" || name == "and" || name == "minimum")
      return at::all(x, 0);
    return std::nullopt;
  }
  if (type == at::kUInt64 || name == "and" || name == "or" || name == "xor")
    return std::nullopt;
  // 64-bit sums and products wrap to what smaller ones would be.
  const at::Tensor wide = integer ? convert_integer(x, at::kLong) : widen(x);
  at::Tensor result;
  if (name == "add")
    result = at::sum(wide, {0});
  else if (name == "multiply")
    result = at::prod(wide, 0);
  else if (name == "maximum" && !x.is_complex())
    result = at::amax(wide, {0});
  else if (name == "minimum" && !x.is_complex())
    result = at::amin(wide, {0});
  else
    return std::nullopt;
  return integer ? convert_integer(result, type) : result.to(type);
}

// Rows [begin, end) of every tensor, every `step`th.
Tensors rows(const Tensors& xs, int64_t begin, int64_t end, int64_t step) {
  Tensors result;
  for (const at::Tensor& x : xs)
    result.push_back(from_carrier(
        carrier(x).slice(0, begin, end, step).contiguous(), x.scalar_type()));
  return result;
}

Tensors concatenate(const Tensors& a, const Tensors& b) {
  Tensors result;
  for (size_t i = 0; i < a.size(); ++i)
    result.push_back(from_carrier(at::cat({carrier(a[i]), carrier(b[i])}),
                                  a[i].scalar_type()));
  return result;
}

// Moves `dimensions` to the front and merges them.
at::Tensor to_front(const at::Tensor& x, const Shape& dimensions) {
  Shape order = dimensions, kept;
  int64_t count = 1;
  for (int64_t d : dimensions)
    count *= x.size(d);
  for (int64_t d = 0; d < x.dim(); ++d)
    if (std::find(dimensions.begin(), dimensions.end(), d) ==
        dimensions.end()) {
      order.push_back(d);
      kept.push_back(x.size(d));
    }
  kept.insert(kept.begin(), count);
  return from_carrier(carrier(x).permute(order).reshape(kept), x.scalar_type());
}

Tensors reduce(const Evaluation& e) {
  const size_t n = e.operands.size() / 2;
  const Shape& dimensions = e.ints("dimensions");
  Tensors xs, inits;
  for (size_t i = 0; i < n; ++i) {
    xs.push_back(to_front(e.in(i), dimensions));
    inits.push_back(e.in(n + i));
  }
  return fold(e.interpreter, e.body(), xs, inits);
}

struct WindowView {
  Shape size, stride, dilation, low, high;
};

WindowView window(const Evaluation& e) {
  WindowView w{
      e.ints("window_dimensions"), e.ints("window_strides"), {}, {}, {}};
  w.dilation = e.op.attribute("window_dilations") ? e.ints("window_dilations")
                                                  : Shape(w.size.size(), 1);
  const Shape& padding = e.ints("padding");
  for (size_t d = 0; d < w.size.size(); ++d) {
    w.low.push_back(padding[2 * d]);
    w.high.push_back(padding[2 * d + 1]);
  }
  return w;
}

// The windows of padded `x`: [elements of the window, windows...].
at::Tensor windows(const at::Tensor& x,
                   const at::Tensor& value,
                   const WindowView& w,
                   const Shape& result) {
  const at::Tensor from =
      carrier(padded(x, value, w.low, w.high, Shape(w.size.size(), 0)));
  Shape size = w.size, stride;
  size.insert(size.end(), result.begin(), result.end());
  for (size_t d = 0; d < w.size.size(); ++d)
    stride.push_back(from.stride(int64_t(d)) * w.dilation[d]);
  for (size_t d = 0; d < w.size.size(); ++d)
    stride.push_back(from.stride(int64_t(d)) * w.stride[d]);
  Shape merged = result;
  int64_t count = 1;
  for (int64_t s : w.size)
    count *= s;
  merged.insert(merged.begin(), count);
  // Nothing to look at where there is no window.
  if (std::find(result.begin(), result.end(), 0) != result.end())
    return make_empty(DType::Bool, merged).to(x.scalar_type());
  return from_carrier(from.as_strided(size, stride).reshape(merged),
                      x.scalar_type());
}

Tensors reduce_window(const Evaluation& e) {
  const size_t n = e.operands.size() / 2;
  const WindowView w = window(e);
  Tensors xs, inits;
  for (size_t i = 0; i < n; ++i) {
    xs.push_back(windows(e.in(i), e.in(n + i), w, e.types[i].shape));
    inits.push_back(e.in(n + i));
  }
  return fold(e.interpreter, e.body(), xs, inits);
}

Tensors select_and_scatter(const Evaluation& e) {
  const WindowView w = window(e);
  const at::Tensor &x = e.in(0), &source = e.in(1), &init = e.in(2);
  const Shape shape = source.sizes().vec();
  const Shape whole = x.sizes().vec();
  const at::Tensor positions = at::arange(x.numel(), at::kLong).reshape(whole);
  const at::Tensor candidates = windows(x, init, w, shape);
  const at::Tensor indices =
      windows(positions, at::full({}, -1, at::kLong), w, shape);
  at::Tensor best = candidates[0], index = indices[0];
  for (int64_t i = 1; i < candidates.size(0); ++i) {
    const at::Tensor value = candidates[i], at = indices[i];
    const at::Tensor keep = expand(
        e.interpreter.evaluate(e.body(0), {best, value})[0], best.sizes());
    // Padding is never selected.
    const at::Tensor take =
        at.ge(0).logical_and(keep.logical_not().logical_or(index.lt(0)));
    best = from_carrier(at::where(take, carrier(value), carrier(best)),
                        best.scalar_type());
    index = at::where(take, at, index);
  }
  at::Tensor result = expand(init, whole);
  result = result.contiguous().clone().view({-1});
  const at::Tensor flat = index.reshape({-1}), inside = flat.ge(0);
  const at::Tensor to = flat.masked_select(inside);
  const at::Tensor values =
      from_carrier(carrier(source).reshape({-1}).masked_select(inside),
                   source.scalar_type());
  scatter_into(e.interpreter, e.body(1), result, to, values);
  return {from_carrier(carrier(result).view(whole), x.scalar_type())};
}

constexpr Instruction kInstructions[] = {
    {"stablehlo.reduce", reduce},
    {"stablehlo.reduce_window", reduce_window},
    {"stablehlo.select_and_scatter", select_and_scatter},
};

}  // namespace

std::string_view combiner(const ir::Program& region) {
  if (region.results.size() != 1 || region.parameters.size() != 2)
    return {};
  const ir::Value a = region.parameters[0], b = region.parameters[1];
  if (region.operations.empty())
    return region.results[0] == b ? "second" : "";
  if (region.operations.size() != 1)
    return {};
  static constexpr std::string_view kNames[] = {
      "add", "multiply", "maximum", "minimum", "and", "or", "xor"};
  const ir::Operation& op = region.operations[0];
  const bool both =
      op.operands == std::vector{a, b} || op.operands == std::vector{b, a};
  if (!both || op.results[0] != region.results[0] ||
      !op.name.starts_with("stablehlo."))
    return {};
  const std::string_view name = std::string_view(op.name).substr(10);
  const auto found = std::find(std::begin(kNames), std::end(kNames), name);
  return found == std::end(kNames) ? std::string_view() : *found;
}

Tensors fold(Interpreter& interpreter,
             const ir::Program& region,
             const Tensors& inputs,
             const Tensors& inits) {
  const auto inner = inputs[0].sizes().slice(1);
  Tensors start;
  for (const at::Tensor& init : inits)
    start.push_back(expand(init, inner));
  if (inputs[0].size(0) == 0 || inputs[0].numel() == 0)
    return start;
  if (const std::string_view name = combiner(region); !name.empty())
    if (auto result = reduce_at_once(name, inputs[0]))
      return combine(interpreter, region, start, {*result});
  // Neighbours are combined level by level, which keeps their order.
  Tensors xs = inputs;
  while (xs[0].size(0) > 1) {
    const int64_t count = xs[0].size(0), even = count / 2 * 2;
    Tensors next = combine(
        interpreter, region, rows(xs, 0, even, 2), rows(xs, 1, even, 2));
    if (even < count)
      next = concatenate(next, rows(xs, even, count, 1));
    xs = std::move(next);
  }
  Tensors last;
  for (const at::Tensor& x : xs)
    last.push_back(from_carrier(carrier(x).select(0, 0), x.scalar_type()));
  return combine(interpreter, region, start, last);
}

std::span<const Instruction> reduce_instructions() {
  return kInstructions;
}

}  // namespace neuronx::sim

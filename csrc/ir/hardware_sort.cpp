// SPDX-License-Identifier: Apache-2.0
// Sorting without sort: K. E. Batcher's bitonic network ("Sorting networks and
// their applications", 1968) in the form whose comparisons all point the same
// way, on whole tensors. Positions break ties, so that the order is total and
// the result stable.
#include <algorithm>
#include <bit>

#include "ir/hardware_rewrites.h"

namespace neuronx::ir::hardware {
namespace {

// Half `half` of dimension d, which has two elements.
Value side(Builder& b, Value x, int64_t d, int64_t half) {
  const Shape shape = b.shape(x);
  Shape start(shape.size(), 0), limit = shape;
  start[d] = half;
  limit[d] = half + 1;
  return b.slice(x, start, limit, Shape(shape.size(), 1));
}

class Network {
 public:
  Network(Builder& b, const Site& site)
      : b_(b),
        region_(*site.op.bodies[0]),
        dimension_(site.integer("dimension")),
        length_(site.in(0).shape[dimension_]),
        padded_(int64_t(std::bit_ceil(uint64_t(length_)))) {}

  Values sort(Values xs) {
    const Shape shape = b_.shape(xs[0]);
    for (Value& x : xs)
      x = pad(x);
    Shape positions = shape;
    positions[dimension_] = padded_;
    xs.push_back(b_.iota({DType::Int32, positions}, dimension_));
    for (int64_t size = 2; size <= padded_; size *= 2) {
      step(xs, size, true);
      for (int64_t block = size / 2; block >= 2; block /= 2)
        step(xs, block, false);
    }
    xs.pop_back();
    for (Value& x : xs)
      x = b_.slice(x, Shape(shape.size(), 0), shape, Shape(shape.size(), 1));
    return xs;
  }

 private:
  Value pad(Value x) {
    const Shape none(b_.rank(x), 0);
    Shape high = none;
    high[dimension_] = padded_ - length_;
    return b_.pad(x, b_.constant(b_.dtype(x), 0), none, high, none);
  }

  // Compares element i of each block of `size` with i + size / 2 or, if
  // `mirrored`, with the one at the same distance from the block's end.
  void step(Values& xs, int64_t size, bool mirrored) {
    const Shape shape = b_.shape(xs[0]);
    const int64_t d = dimension_;
    Shape blocks = shape;
    blocks[d] = padded_ / size;
    blocks.insert(blocks.begin() + d + 1, {2, size / 2});
    Values low, high;
    for (Value x : xs) {
      x = b_.reshape(x, blocks);
      low.push_back(side(b_, x, d + 1, 0));
      high.push_back(side(b_, x, d + 1, 1));
      if (mirrored)
        high.back() = reversed(high.back());
    }
    const Value keep = precedes(low, high);
    for (size_t i = 0; i < xs.size(); ++i) {
      const Value first = b_.select(keep, low[i], high[i]);
      Value second = b_.select(keep, high[i], low[i]);
      if (mirrored)
        second = reversed(second);
      xs[i] = b_.reshape(b_.concatenate({first, second}, d + 1), shape);
    }
  }

  Value reversed(Value x) { return b_.reverse(x, {dimension_ + 2}); }

  // a comes before c. The last values are the positions before the sort;
  // those from length_ on are padding and come last.
  Value precedes(const Values& a, const Values& c) {
    const Shape shape = b_.shape(a[0]);
    const auto less = [&](const Values& x, const Values& y) {
      Values arguments;
      for (size_t i = 0; i + 1 < x.size(); ++i)
        arguments.insert(arguments.end(), {x[i], y[i]});
      return lift(b_, region_, arguments, shape)[0];
    };
    const Value earlier = b_.compare(Compare::LT, a.back(), c.back());
    Value result = b_.logical_or(
        less(a, c), b_.logical_and(b_.logical_not(less(c, a)), earlier));
    if (padded_ == length_)
      return result;
    const Value end = b_.constant(DType::Int32, length_, shape);
    const Value a_in = b_.compare(Compare::LT, a.back(), end);
    const Value c_in = b_.compare(Compare::LT, c.back(), end);
    // Between two that are inside the order decides, else the one inside.
    return b_.select(
        b_.logical_and(a_in, c_in),
        result,
        b_.logical_or(a_in, b_.logical_and(b_.logical_not(c_in), earlier)));
  }

  Builder& b_;
  const Program& region_;
  int64_t dimension_, length_, padded_;
};

}  // namespace

Values rewrite_sort(Builder& b, const Site& site, const Values& operands) {
  const int64_t length = site.in(0).shape[site.integer("dimension")];
  if (length > INT32_MAX / 2)
    throw Inexpressible("its positions do not fit 32 bits");
  if (length <= 1 || site.in(0).numel() == 0)
    return operands;
  return Network(b, site).sort(operands);
}

}  // namespace neuronx::ir::hardware

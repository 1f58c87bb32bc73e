// SPDX-License-Identifier: Apache-2.0
// Fused scaled dot product attention. The scores of a block of queries exist
// at a time: a loop over blocks, full rows each, and in the backward the
// probabilities again from the saved log of their sums.
#include <cmath>
#include <numeric>

#include "lowering/math.h"

namespace neuronx::lowering {
namespace {

using ir::Builder;
using ir::Compare;
using ir::Reduce;

constexpr char kForward[] =
    "aten::_scaled_dot_product_fused_attention_overrideable";

// Scores per block, but never fewer rows than the 128 partitions of SBUF and
// the rows of the tensor engine.
constexpr int64_t kBlockScores = int64_t{1} << 20;
constexpr int64_t kBlockRows = 128;

// Query rows by [batch, key head, query head of that key head, position].
constexpr size_t kPosition = 3;

// What a call says, and its sizes.
struct Attention {
  Shape rows;  // batch, key heads, query heads per key head, queries
  int64_t keys, width, value_width;
  // By rows and keys, 1 where broadcast; empty without one.
  Shape bias = {};
  double scale, dropout;
  bool causal;
};

// A part of the rows: `start` int32[], and sizes. It is contiguous in
// row-major order.
struct Block {
  Values start;
  Shape size;
};

Shape append(Shape shape, std::initializer_list<int64_t> sizes) {
  shape.insert(shape.end(), sizes);
  return shape;
}

// `size` elements from `start` on of the leading dimensions; broadcast ones
// (of size 1) stay.
Value take(Builder& b, Value x, const Block& block) {
  const Shape shape = b.shape(x);
  const Value zero = b.constant(DType::Int32, 0);
  Shape size = shape;
  Values start(shape.size(), zero);
  for (size_t d = 0; d < block.size.size(); ++d) {
    if (shape[d] != 1) {
      size[d] = block.size[d];
      start[d] = block.start[d];
    }
  }
  return size == shape ? x : b.dynamic_slice(x, start, size);
}

Value put(Builder& b, Value x, Value update, const Block& block) {
  const Shape shape = b.shape(x);
  if (b.shape(update) == shape) {
    return update;
  }
  Values start(shape.size(), b.constant(DType::Int32, 0));
  for (size_t d = 0; d < block.size.size(); ++d) {
    if (shape[d] != 1) {
      start[d] = block.start[d];
    }
  }
  return b.dynamic_update_slice(x, update, start);
}

// The batches and key heads of a block.
Block heads(const Block& block) {
  return {{block.start[0], block.start[1]}, {block.size[0], block.size[1]}};
}

// Computes one block: reads `operands`, returns the new `results`.
using Step = std::function<Values(
    Builder& b, const Values& operands, const Values& results, const Block&)>;

// Blocks of `block` rows, [begin, begin + steps * block[level]) of dimension
// `level` and single rows of those before it.
Values loop(Builder& b,
            const Shape& rows,
            const Shape& block,
            size_t level,
            int64_t begin,
            int64_t steps,
            const Values& operands,
            const Values& results,
            const Step& step) {
  const auto number = [](Builder& b, int64_t n) {
    return b.constant(DType::Int32, n);
  };
  int64_t count = steps;
  for (size_t d = 0; d < level; ++d) {
    count *= rows[d];
  }
  if (count == 1) {
    Values start(rows.size(), number(b, 0));
    start[level] = number(b, begin);
    return step(b, operands, results, {start, block});
  }
  Values state{number(b, 0)};
  state.insert(state.end(), operands.begin(), operands.end());
  state.insert(state.end(), results.begin(), results.end());
  const auto first_result = 1 + static_cast<ptrdiff_t>(operands.size());
  const auto condition = [&](Builder& b, const Values& v) -> Values {
    return {b.compare(Compare::LT, v[0], number(b, count))};
  };
  const auto body = [&](Builder& b, const Values& v) -> Values {
    Values start(rows.size(), number(b, 0));
    Value rest = b.div(v[0], number(b, steps));
    start[level] = b.add(number(b, begin),
                         b.mul(b.binary("remainder", v[0], number(b, steps)),
                               number(b, block[level])));
    for (size_t d = level; d-- > 0;) {
      start[d] = b.binary("remainder", rest, number(b, rows[d]));
      rest = b.div(rest, number(b, rows[d]));
    }
    Values next(v.begin(), v.begin() + first_result);
    next[0] = b.add(v[0], number(b, 1));
    const Values done = step(b,
                             Values(next.begin() + 1, next.end()),
                             Values(v.begin() + first_result, v.end()),
                             {start, block});
    next.insert(next.end(), done.begin(), done.end());
    return next;
  };
  const Values last = b.while_loop(state, condition, body);
  return Values(last.begin() + first_result, last.end());
}

// All rows, block by block. The last block of a dimension may be smaller and
// has a loop of its own.
Values for_blocks(Builder& b,
                  const Attention& a,
                  const Values& operands,
                  Values results,
                  const Step& step) {
  int64_t left = std::max(kBlockScores / a.keys, kBlockRows);
  Shape block(a.rows.size(), 1);
  size_t level = 0;
  for (size_t d = a.rows.size(); d-- > 0;) {
    block[d] = std::clamp<int64_t>(left, 1, a.rows[d]);
    left /= a.rows[d];
    if (block[d] < a.rows[d]) {
      level = d;
      break;
    }
  }
  const int64_t steps = a.rows[level] / block[level];
  const int64_t tail = a.rows[level] % block[level];
  results = loop(b, a.rows, block, level, 0, steps, operands, results, step);
  if (tail > 0) {
    const int64_t begin = a.rows[level] - tail;
    block[level] = tail;
    results = loop(b, a.rows, block, level, begin, 1, operands, results, step);
  }
  return results;
}

// The product over `contract` of what belongs to one key head.
Value dot(Builder& b, Value x, Value y, Shape left, Shape right) {
  ir::DotDimensions dims;
  dims.lhs_batch = dims.rhs_batch = {0, 1};
  dims.lhs_contract = std::move(left);
  dims.rhs_contract = std::move(right);
  return b.dot_general(x, y, dims, opmath(b.dtype(x)));
}

Value wide(Builder& b, Value x) {
  return b.convert(x, opmath(b.dtype(x)));
}

// Whether dropout keeps each score. Scores are numbered row-major over all
// rows and keys: number i draws word i, whatever the block.
Value keep(Builder& b,
           const Attention& a,
           Value seed,
           Value offset,
           const Block& block) {
  const auto number = [&](int64_t n) { return b.constant(DType::Int64, n); };
  Value row = number(0);
  for (size_t d = 0; d < a.rows.size(); ++d) {
    row = b.add(b.mul(row, number(a.rows[d])),
                b.convert(block.start[d], DType::Int64));
  }
  const Value word = b.mul(row, number(a.keys));
  const Value first = b.add(offset, b.div(word, number(4)));
  const Shape shape = append(block.size, {a.keys});
  const int64_t n = count(shape, ir::Shape{0, 1, 2, 3, 4});
  Value words;
  if (a.keys % 4 == 0) {
    words = b.philox(seed, first, n);
  } else {
    words = b.dynamic_slice(b.philox(seed, first, n + 3),
                            {b.binary("remainder", word, number(4))},
                            {n});
  }
  const Value u = unit(b, b.reshape(words, shape));
  return b.compare(Compare::GE, u, fill_like(b, u, a.dropout));
}

// Scaled and masked, in opmath: [batch, key head, query head, query, key].
Value scores(Builder& b,
             const Attention& a,
             Value query,
             Value key,
             Value bias,
             const Block& block) {
  Value s = dot(b, query, key, {4}, {3});
  s = b.mul(s, fill_like(b, s, a.scale));
  const Shape shape = b.shape(s);
  if (a.causal) {
    const TensorType index{DType::Int32, shape};
    const Value row = b.add(b.iota(index, kPosition),
                            b.broadcast(block.start[kPosition], shape));
    const Value seen = b.compare(Compare::GE, row, b.iota(index, 4));
    s = b.select(seen, s, fill_like(b, s, -INFINITY));
  }
  if (bias && b.dtype(bias) == DType::Bool) {
    const Value seen = b.broadcast(take(b, bias, block), shape);
    s = b.select(seen, s, fill_like(b, s, -INFINITY));
  } else if (bias) {
    const Value part = b.convert(take(b, bias, block), b.dtype(s));
    s = b.add(s, b.broadcast(part, shape));
  }
  return s;
}

// Of the kept scores; dropping all leaves nothing to scale.
double keep_scale(const Attention& a) {
  return a.dropout == 1 ? 0 : 1 / (1 - a.dropout);
}

Value dropped(Builder& b, Value x, Value kept) {
  return kept ? b.select(kept, x, fill_like(b, x, 0)) : x;
}

// 3-D operands are one batch.
Shape with_batch(Shape shape) {
  if (shape.size() == 3) {
    shape.insert(shape.begin(), 1);
  }
  if (shape.size() != 4) {
    throw Unsupported("attention of operands that are not 3-D or 4-D");
  }
  return shape;
}

Attention describe(Op& op, int query, int bias, int causal, int scale) {
  const Shape q = with_batch(op.type(query).shape);
  const Shape k = with_batch(op.type(query + 1).shape);
  const Shape v = with_batch(op.type(query + 2).shape);
  if (k[1] == 0 || q[1] % k[1] != 0 || k[0] != q[0] || k[3] != q[3] ||
      v[0] != k[0] || v[1] != k[1] || v[2] != k[2]) {
    throw Unsupported("attention whose operands' sizes do not match");
  }
  Attention a{
      .rows = {q[0], k[1], q[1] / k[1], q[2]},
      .keys = k[2],
      .width = q[3],
      .value_width = v[3],
      .scale = op.has(scale) ? op.number(scale) : 1 / std::sqrt(double(q[3])),
      .dropout = 0,
      .causal = op.flag(causal)};
  if (op.has(bias)) {
    Shape m = op.type(bias).shape;
    if (m.size() > 4) {
      throw Unsupported("attention with a mask of more than 4 dimensions");
    }
    m.insert(m.begin(), 4 - m.size(), 1);
    const bool by_head = m[1] != 1;
    a.bias = {m[0], by_head ? k[1] : 1, by_head ? q[1] / k[1] : 1, m[2], m[3]};
  }
  return a;
}

// Operands in the order that both directions have: query, key, value and the
// bias, if any.
Values operands(Op& op, const Attention& a, int query, int bias) {
  auto& b = op.b;
  Values values{
      b.reshape(op.in(query), append(a.rows, {a.width})),
      b.reshape(op.in(query + 1), {a.rows[0], a.rows[1], a.keys, a.width}),
      b.reshape(op.in(query + 2),
                {a.rows[0], a.rows[1], a.keys, a.value_width})};
  if (!a.bias.empty()) {
    values.push_back(b.reshape(op.in(bias), a.bias));
  }
  return values;
}

// Output and log of the sum of exponentials; without a seed for dropout 0.
Values attention(Op& op, const Attention& a, Value seed, Value offset) {
  auto& b = op.b;
  Values inputs = operands(op, a, 0, 3);
  const bool has_bias = !a.bias.empty();
  if (seed) {
    inputs.push_back(seed);
    inputs.push_back(offset);
  }
  const DType dtype = op.result(0).dtype;
  const auto step = [&](Builder& b,
                        const Values& in,
                        const Values& results,
                        const Block& block) -> Values {
    const Block head = heads(block);
    const Value q = take(b, in[0], block), k = take(b, in[1], head);
    const Value s = scores(b, a, q, k, has_bias ? in[3] : Value{}, block);
    const Shape shape = b.shape(s);
    const Value top = b.reduce(s, Reduce::Max, {4});
    // A fully masked row is all -inf: its output is 0, as in CPU's kernel.
    const Value dead =
        b.compare(Compare::EQ, top, fill_like(b, top, -INFINITY));
    const Value safe = b.select(dead, fill_like(b, top, 0), top);
    const Value e = b.exp(b.sub(s, spread(b, safe, shape, {4})));
    const Value total = b.reduce(e, Reduce::Add, {4});
    const Value divisor = b.select(dead, fill_like(b, total, 1), total);
    Value kept;
    if (seed) {
      kept = keep(b, a, in[in.size() - 2], in.back(), block);
    }
    const Value sum =
        dot(b, dropped(b, e, kept), wide(b, take(b, in[2], head)), {4}, {2});
    const Value factor = b.div(fill_like(b, divisor, keep_scale(a)), divisor);
    const Value out = b.mul(sum, spread(b, factor, b.shape(sum), {4}));
    return {put(b, results[0], b.convert(out, dtype), block),
            put(b, results[1], b.add(safe, b.log(divisor)), block)};
  };
  const Values start{fill(b, dtype, append(a.rows, {a.value_width}), 0),
                     fill(b, opmath(dtype), a.rows, 0)};
  return for_blocks(b, a, inputs, start, step);
}

Values forward(Op& op) {
  // query, key, value, attn_bias, dropout, is_causal, debug, scale and, from
  // the eager layer, seed and offset.
  auto& b = op.b;
  Attention a = describe(op, 0, 3, 5, 7);
  a.dropout = op.number(4);
  const bool draws = op.argument_count() > 8;
  if (a.dropout != 0 && !draws) {
    throw Unsupported("attention with dropout without a seed");
  }
  const Value seed = draws ? op.in(8) : Value{};
  const Value offset = draws ? op.in(9) : Value{};
  const Values done = attention(op, a, seed, offset);
  Values results(op.result_count());
  for (int i = 2; i < op.result_count(); ++i) {
    results[i] = b.constant(op.result(i).dtype, 0, op.result(i).shape);
  }
  results[0] = b.reshape(done[0], op.result(0).shape);
  results[1] = b.reshape(done[1], op.result(1).shape);
  if (draws) {
    results[4] = seed;
    results[5] = offset;
  }
  return results;
}

// With dropout, the eager layer appends seed and offset. They are operands of
// the same composite.
Values forward_with_seed(Op& op) {
  Values inputs;
  std::vector<ir::Attribute> arguments;
  for (int i = 0; i < op.argument_count(); ++i) {
    arguments.push_back(op.argument(i));
    if (std::holds_alternative<ir::Operand>(arguments.back())) {
      arguments.back() = ir::Operand{static_cast<int32_t>(inputs.size())};
      inputs.push_back(op.in(i));
    }
  }
  std::vector<TensorType> types;
  for (int k = 0; k < op.result_count(); ++k) {
    types.push_back(op.result(k));
  }
  return *call(op.b, kForward, inputs, arguments, types);
}

Values backward(Op& op) {
  // grad_out, query, key, value, attn_bias, grad_input_mask, out, logsumexp,
  // cum_seq_q, cum_seq_k, max_q, max_k, dropout, is_causal, seed, offset,
  // scale
  auto& b = op.b;
  Attention a = describe(op, 1, 4, 13, 16);
  a.dropout = op.number(12);
  const DType dtype = op.type(1).dtype, opmath_type = opmath(dtype);
  const bool has_bias = !a.bias.empty();
  const auto needed = op.ints(5);
  const bool bias_grad = has_bias && needed.size() > 3 && needed[3] != 0;
  const Shape by_value = append(a.rows, {a.value_width});
  Values inputs = operands(op, a, 1, 4);
  const size_t first = inputs.size();
  inputs.push_back(b.reshape(op.in(0), by_value));
  inputs.push_back(b.reshape(op.in(6), by_value));
  inputs.push_back(b.reshape(op.in(7), a.rows));
  if (a.dropout != 0) {
    inputs.push_back(op.in(14));
    inputs.push_back(op.in(15));
  }
  const auto step = [&](Builder& b,
                        const Values& in,
                        const Values& results,
                        const Block& block) -> Values {
    const Block head = heads(block);
    const Value q = wide(b, take(b, in[0], block));
    const Value k = wide(b, take(b, in[1], head));
    const Value v = wide(b, take(b, in[2], head));
    const Value grad = wide(b, take(b, in[first], block));
    const Value out = wide(b, take(b, in[first + 1], block));
    const Value log_sum = take(b, in[first + 2], block);
    const Value s = scores(b, a, q, k, has_bias ? in[3] : Value{}, block);
    const Shape shape = b.shape(s);
    const Value p = b.exp(b.sub(s, spread(b, log_sum, shape, {4})));
    Value kept;
    Value scale_kept = grad;
    if (a.dropout != 0) {
      kept = keep(b, a, in[first + 3], in[first + 4], block);
      scale_kept = b.mul(grad, fill_like(b, grad, keep_scale(a)));
    }
    const Value grad_v =
        dot(b, dropped(b, p, kept), scale_kept, {2, 3}, {2, 3});
    const Value grad_p = dropped(b, dot(b, scale_kept, v, {4}, {3}), kept);
    const Value delta = b.reduce(b.mul(grad, out), Reduce::Add, {4});
    const Value grad_s = b.mul(p, b.sub(grad_p, spread(b, delta, shape, {4})));
    const Value scaled = b.mul(grad_s, fill_like(b, grad_s, a.scale));
    // Every block of queries adds to the gradients of keys and values.
    const auto add = [&](Value sum, Value part, const Block& to) {
      return put(b, sum, b.add(take(b, sum, to), part), to);
    };
    Values next{put(b,
                    results[0],
                    b.convert(dot(b, scaled, k, {4}, {2}), dtype),
                    block),
                add(results[1], dot(b, scaled, q, {2, 3}, {2, 3}), head),
                add(results[2], grad_v, head)};
    if (bias_grad) {
      // Summed over what the bias was broadcast along.
      Shape broadcast, size = shape;
      for (size_t d = 0; d < shape.size(); ++d) {
        if (a.bias[d] == 1 && shape[d] != 1) {
          broadcast.push_back(static_cast<int64_t>(d));
          size[d] = 1;
        }
      }
      const Value part =
          broadcast.empty() ? grad_s : b.reduce(grad_s, Reduce::Add, broadcast);
      next.push_back(add(results[3], b.reshape(part, size), block));
    }
    return next;
  };
  const Shape by_key{a.rows[0], a.rows[1], a.keys};
  Values start{fill(b, dtype, append(a.rows, {a.width}), 0),
               fill(b, opmath_type, append(by_key, {a.width}), 0),
               fill(b, opmath_type, append(by_key, {a.value_width}), 0)};
  if (bias_grad) {
    start.push_back(fill(b, opmath_type, a.bias, 0));
  }
  Values results = for_blocks(b, a, inputs, start, step);
  for (int i = 0; i < 3; ++i) {
    results[i] = b.reshape(results[i], op.type(1 + i).shape);
  }
  if (bias_grad) {
    results[3] = b.reshape(results[3], op.type(4).shape);
  } else if (has_bias) {
    // Not asked for, but described by PyTorch's meta function.
    results.push_back(fill(b, op.result(3).dtype, op.result(3).shape, 0));
  } else {
    results.push_back({});
  }
  return results;
}

const bool registered = [] {
  lower(kForward, &forward);
  lower("aten::_scaled_dot_product_fused_attention_overrideable_backward",
        &backward);
  lower("neuronx::attention", &forward_with_seed);
  return true;
}();

}  // namespace
}  // namespace neuronx::lowering

// SPDX-License-Identifier: Apache-2.0
// Integer arithmetic on engines that compute in float32: numbers are split
// into limbs of a few bits, such that every sum of limbs stays under 2^24,
// which float32 holds exactly.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "common/number.h"
#include "ir/hardware_rewrites.h"

namespace neuronx::ir::hardware {
namespace {

constexpr int64_t kExact = int64_t(1) << 24;

int64_t bits(DType dtype) {
  return 8 * int64_t(itemsize(dtype));
}

// The unsigned dtype that limbs of `dtype` are taken from: 32 bits or more.
DType word(DType dtype) {
  return itemsize(dtype) == 8 ? DType::UInt64 : DType::UInt32;
}

// x, sign-extended, as the bits of `word(to)`.
Value to_word(Builder& b, Value x, DType to) {
  const bool wide = word(to) == DType::UInt64;
  if (is_unsigned(b.dtype(x)) || b.dtype(x) == DType::Bool)
    return b.convert(x, word(to));
  return b.bitcast(b.convert(x, wide ? DType::Int64 : DType::Int32), word(to));
}

// The low bits of a word as `dtype`.
Value from_word(Builder& b, Value x, DType dtype) {
  if (itemsize(dtype) == itemsize(b.dtype(x)))
    return b.bitcast(x, dtype);
  return b.convert(x, dtype);
}

Value full(Builder& b, Value like, int64_t value) {
  return b.constant(b.dtype(like), value, b.shape(like));
}

// Bits [first, first + count) of a word.
Value limb(Builder& b, Value x, int64_t first, int64_t count) {
  if (first)
    x = b.binary("shift_right_logical", x, full(b, x, first));
  if (first + count < bits(b.dtype(x)))
    x = b.logical_and(x, full(b, x, (int64_t(1) << count) - 1));
  return x;
}

// sum + (x << shift)
Value add_shifted(Builder& b, Value sum, Value x, int64_t shift) {
  if (shift)
    x = b.binary("shift_left", x, full(b, x, shift));
  return sum ? b.add(sum, x) : x;
}

// Dot products. Operands become [batch, rows, chunks, depth]: the sum over one
// chunk stays under 2^24, chunks are added as integers.
struct Matrices {
  Value lhs, rhs;
  Shape result;
};
constexpr int64_t kDepth = 256;  // 255 * 255 * 256 < 2^24

Value as_chunks(Builder& b,
                Value x,
                const Shape& batch,
                const Shape& contract,
                Shape& free) {
  Shape order = batch;
  int64_t rows = 1, n = 1, k = 1;
  for (int64_t d = 0; d < b.rank(x); ++d)
    if (std::find(batch.begin(), batch.end(), d) == batch.end() &&
        std::find(contract.begin(), contract.end(), d) == contract.end()) {
      order.push_back(d);
      free.push_back(b.shape(x)[d]);
      rows *= free.back();
    }
  order.insert(order.end(), contract.begin(), contract.end());
  for (int64_t d : batch)
    n *= b.shape(x)[d];
  for (int64_t d : contract)
    k *= b.shape(x)[d];
  x = b.reshape(b.transpose(x, order), {n, rows, k});
  const int64_t depth = std::min(std::max<int64_t>(k, 1), kDepth);
  const int64_t chunks = std::max<int64_t>((k + depth - 1) / depth, 1);
  x = b.pad(x,
            b.constant(b.dtype(x), 0),
            {0, 0, 0},
            {0, 0, chunks * depth - k},
            {0, 0, 0});
  return b.reshape(x, {n, rows, chunks, depth});
}

Matrices as_matrices(Builder& b, const Site& site, const Values& operands) {
  const Shape& batch = site.ints("lhs_batching_dimensions");
  Matrices m;
  for (int64_t d : batch)
    m.result.push_back(site.in(0).shape[d]);
  m.lhs = as_chunks(
      b, operands[0], batch, site.ints("lhs_contracting_dimensions"), m.result);
  m.rhs = as_chunks(b,
                    operands[1],
                    site.ints("rhs_batching_dimensions"),
                    site.ints("rhs_contracting_dimensions"),
                    m.result);
  return m;
}

// [batch, chunks, rows, columns], exact.
Value float_dot(Builder& b, Value lhs, Value rhs) {
  return b.dot_general(b.convert(lhs, DType::Float32),
                       b.convert(rhs, DType::Float32),
                       {.lhs_batch = {0, 2},
                        .rhs_batch = {0, 2},
                        .lhs_contract = {3},
                        .rhs_contract = {3}},
                       DType::Float32);
}

// Scatters. At most `count` updates reach an element.
int64_t update_count(const Site& site) {
  const Shape& window = site.ints("update_window_dims");
  int64_t count = 1;
  for (int64_t d = 0; d < int64_t(site.in(2).shape.size()); ++d)
    if (std::find(window.begin(), window.end(), d) == window.end())
      count *= site.in(2).shape[d];
  return count;
}

// The site's scatter of float32, with another combiner.
Value float_scatter(Builder& b,
                    const Site& site,
                    Value x,
                    Value indices,
                    Value updates,
                    const char* combine) {
  Operation op = site.op;
  op.operands = {b.convert(x, DType::Float32),
                 indices,
                 b.convert(updates, DType::Float32)};
  op.results.clear();
  const TensorType element{DType::Float32, {}};
  op.bodies = {std::make_shared<const Program>(build_region(
      [&](Builder& r, const Values& v) -> Values {
        return {r.binary(combine, v[0], v[1])};
      },
      {element, element}))};
  return b.append(std::move(op))[0];
}

Value scatter_add(Builder& b, const Site& site, const Values& operands) {
  const DType dtype = site.out().dtype;
  const int64_t count = std::max<int64_t>(update_count(site), 1);
  int64_t width = 16;
  while (width > 0 && count > kExact / ((int64_t(1) << width) - 1))
    --width;
  if (width == 0)
    throw Inexpressible(fmt::format(
        "{} updates may reach one element, which float32 counts up to 2^24",
        count));
  const Value x = to_word(b, operands[0], dtype);
  const Value updates = to_word(b, operands[2], dtype);
  const Value zeros = b.constant(DType::Float32, 0, b.shape(x));
  Value sum = x;
  for (int64_t first = 0; first < bits(dtype); first += width) {
    const int64_t size = std::min(width, bits(dtype) - first);
    const Value part = float_scatter(
        b, site, zeros, operands[1], limb(b, updates, first, size), "add");
    sum = add_shifted(b, sum, b.convert(part, b.dtype(x)), first);
  }
  return from_word(b, sum, dtype);
}

// Values of up to 16 bits are exact in float32.
Value scatter_small(Builder& b,
                    const Site& site,
                    const Values& operands,
                    const char* combine) {
  const Value result =
      float_scatter(b, site, operands[0], operands[1], operands[2], combine);
  const DType dtype = site.out().dtype;
  if (dtype == DType::Bool)
    return b.compare(Compare::NE, result, full(b, result, 0));
  return b.convert(result, dtype);
}

// Bits in whose unsigned order x grows, or falls for the minimum.
Value order_key(Builder& b, Value x, bool minimum) {
  const DType dtype = b.dtype(x);
  Value key = to_word(b, x, dtype);
  if (!is_unsigned(dtype))
    key = b.binary("xor", key, full(b, key, int64_t(1) << (bits(dtype) - 1)));
  return minimum ? b.logical_not(key) : key;
}

// From the most significant 16 bits on: the maximum of a limb among those
// whose limbs so far are the maximum.
Value scatter_extreme(Builder& b,
                      const Site& site,
                      const Values& operands,
                      bool minimum) {
  const DType dtype = b.dtype(operands[0]);
  const Value x = order_key(b, operands[0], minimum);
  const Value updates = order_key(b, operands[2], minimum);
  GatherDimensions read{
      .offset = site.ints("update_window_dims"),
      .collapsed = site.ints("inserted_window_dims"),
      .start_index_map = site.ints("scatter_dims_to_operand_dims"),
      .index_vector = site.integer("index_vector_dim"),
      .slice_sizes = {}};
  for (size_t d = 0, w = 0; d < site.in(0).shape.size(); ++d) {
    const bool inserted =
        std::find(read.collapsed.begin(), read.collapsed.end(), d) !=
        read.collapsed.end();
    read.slice_sizes.push_back(inserted ? 1
                                        : site.in(2).shape[read.offset[w++]]);
  }
  Value x_leads, update_leads, result;
  for (int64_t first = bits(b.dtype(x)) - 16; first >= 0; first -= 16) {
    const auto candidate = [&](Value word, Value leads) {
      const Value part = b.convert(limb(b, word, first, 16), DType::Float32);
      return leads ? b.select(leads, part, full(b, part, -1)) : part;
    };
    const Value own = candidate(x, x_leads);
    const Value other = candidate(updates, update_leads);
    const Value top =
        float_scatter(b, site, own, operands[1], other, "maximum");
    result = add_shifted(b, result, b.convert(top, b.dtype(x)), first);
    x_leads = b.compare(Compare::EQ, own, top);
    update_leads =
        b.compare(Compare::EQ, other, b.gather(top, operands[1], read));
  }
  // The key's order is undone by the same steps in reverse.
  if (minimum)
    result = b.logical_not(result);
  if (!is_unsigned(dtype))
    result = b.binary(
        "xor", result, full(b, result, int64_t(1) << (bits(dtype) - 1)));
  return from_word(b, result, dtype);
}

// The exponent if it is the same non-negative constant everywhere.
std::optional<uint64_t> constant_exponent(const Site& site) {
  const Operation* op = site.defined_by[site.op.operands[1].id];
  while (op && (op->name == "stablehlo.broadcast_in_dim" ||
                op->name == "stablehlo.reshape"))
    op = site.defined_by[op->operands[0].id];
  if (!op || op->name != "stablehlo.constant" ||
      site.program.type(op->results[0]).numel() != 1)
    return std::nullopt;
  int64_t value;
  std::memcpy(&value, std::get<std::string>(*op->attribute("value")).data(), 8);
  if (value < 0 && site.out().dtype == DType::Int64)
    return std::nullopt;
  return uint64_t(value);
}

}  // namespace

Values rewrite_dot(Builder& b, const Site& site, const Values& operands) {
  const DType dtype = site.out().dtype;
  if (!is_integral(dtype))
    throw Inexpressible("its result is not an integer");
  const DType from = site.in(0).dtype;
  const Matrices m = as_matrices(b, site, operands);
  Value sum;
  if (itemsize(from) == 1) {
    sum = b.convert(float_dot(b, m.lhs, m.rhs), DType::Int32);
    sum = b.reduce(
        b.convert(sum,
                  word(dtype) == DType::UInt64 ? DType::Int64 : DType::Int32),
        Reduce::Add,
        {1});
    if (dtype == DType::Bool)
      sum = b.compare(Compare::NE, sum, full(b, sum, 0));
    return {b.reshape(b.convert(sum, dtype), m.result)};
  }
  const Value lhs = to_word(b, m.lhs, dtype), rhs = to_word(b, m.rhs, dtype);
  for (int64_t shift = 0; shift < bits(b.dtype(lhs)); shift += 8) {
    Value parts;
    for (int64_t i = 0; i <= shift; i += 8) {
      const Value part = b.convert(
          float_dot(b, limb(b, lhs, i, 8), limb(b, rhs, shift - i, 8)),
          b.dtype(lhs));
      parts = parts ? b.add(parts, part) : part;
    }
    sum = add_shifted(b, sum, parts, shift);
  }
  sum = b.reduce(sum, Reduce::Add, {1});
  return {b.reshape(from_word(b, sum, dtype), m.result)};
}

Values rewrite_scatter(Builder& b, const Site& site, const Values& operands) {
  const DType dtype = site.out().dtype;
  const auto combine = combiner(*site.op.bodies[0]);
  if (dtype == DType::Bool) {
    if (combine == "stablehlo.or" || combine == "stablehlo.maximum" ||
        combine == "stablehlo.add")
      return {scatter_small(b, site, operands, "maximum")};
    if (combine == "stablehlo.and" || combine == "stablehlo.minimum" ||
        combine == "stablehlo.multiply")
      return {scatter_small(b, site, operands, "minimum")};
  }
  if (combine == "stablehlo.add")
    return {scatter_add(b, site, operands)};
  if (combine == "stablehlo.maximum" || combine == "stablehlo.minimum") {
    const bool minimum = combine == "stablehlo.minimum";
    // The order of limbs of 64 bits would not survive that all is narrowed.
    if (itemsize(dtype) == 8 && !site.target.native_int64) {
      const DType half = is_unsigned(dtype) ? DType::UInt32 : DType::Int32;
      const Value result = scatter_extreme(b,
                                           site,
                                           {b.convert(operands[0], half),
                                            operands[1],
                                            b.convert(operands[2], half)},
                                           minimum);
      return {b.convert(result, dtype)};
    }
    return {
        itemsize(dtype) <= 2
            ? scatter_small(b, site, operands, minimum ? "minimum" : "maximum")
            : scatter_extreme(b, site, operands, minimum)};
  }
  throw Inexpressible(fmt::format(
      "its region combines with {}, not with add, maximum or minimum",
      combine ? *combine : "several operations"));
}

Values rewrite_power(Builder& b, const Site& site, const Values& operands) {
  const Value base = operands[0], exponent = operands[1];
  const DType dtype = site.out().dtype;
  const auto constant = constant_exponent(site);
  const int count = constant                 ? std::bit_width(*constant)
                    : dtype == DType::UInt64 ? 64
                                             : 63;
  const auto one = full(b, base, 1), zero = full(b, base, 0);
  // Square and multiply, from the lowest bit of the exponent on.
  Value result = one, square = base;
  for (int i = 0; i < count; ++i) {
    if (constant) {
      if (*constant >> i & 1)
        result = b.mul(result, square);
    } else {
      const Value bit = limb(b, exponent, i, 1);
      result = b.select(
          b.compare(Compare::NE, bit, zero), b.mul(result, square), result);
    }
    if (i + 1 < count)
      square = b.mul(square, square);
  }
  if (constant || dtype == DType::UInt64)
    return {result};
  // 1 and -1 have inverses among integers; all others give 0.
  const Value minus_one = full(b, base, -1);
  const Value odd = b.compare(Compare::NE, b.logical_and(exponent, one), zero);
  const Value inverse =
      b.select(b.compare(Compare::EQ, base, one),
               one,
               b.select(b.compare(Compare::EQ, base, minus_one),
                        b.select(odd, minus_one, one),
                        zero));
  return {b.select(b.compare(Compare::LT, exponent, zero), inverse, result)};
}

Values rewrite_shift(Builder& b, const Site& site, const Values& operands) {
  const DType dtype = site.out().dtype;
  if (itemsize(dtype) == 8) {
    // Not of the logical shift of not x, where x is negative.
    const Value x = b.bitcast(operands[0], DType::Int64);
    const Value count = b.bitcast(operands[1], DType::Int64);
    const Value negative = b.compare(Compare::LT, x, full(b, x, 0));
    const Value shifted = b.binary(
        "shift_right_logical", b.select(negative, b.logical_not(x), x), count);
    return {
        b.bitcast(b.select(negative, b.logical_not(shifted), shifted), dtype)};
  }
  // The sign is that of the top bit, also of an unsigned number; counts are
  // unsigned.
  const bool byte = itemsize(dtype) == 1;
  const DType with_sign = byte ? DType::Int8 : DType::Int16;
  const DType no_sign = byte ? DType::UInt8 : DType::UInt16;
  const Value x = b.convert(b.bitcast(operands[0], with_sign), DType::Int32);
  const Value count = b.convert(b.bitcast(operands[1], no_sign), DType::Int32);
  const Value shifted = b.binary("shift_right_arithmetic", x, count);
  return {b.bitcast(b.convert(shifted, with_sign), dtype)};
}

Values rewrite_constant(Builder& b, const Site& site, const Values&) {
  const auto& bytes = std::get<std::string>(*site.op.attribute("value"));
  std::string low, high;
  for (size_t i = 0; i < bytes.size(); i += 8) {
    low += bytes.substr(i, 4);
    high += bytes.substr(i + 4, 4);
  }
  const TensorType half{DType::UInt32, site.out().shape};
  const auto wide = [&](const std::string& words) {
    return b.convert(b.constant(half, words), DType::UInt64);
  };
  return {add_shifted(b, wide(low), wide(high), 32)};
}

}  // namespace neuronx::ir::hardware

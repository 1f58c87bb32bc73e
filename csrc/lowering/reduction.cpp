// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "lowering/math.h"

namespace neuronx::lowering {
namespace {

using ir::Compare;
using ir::Reduce;

Shape dims_of(Op& op, int i) {
  const Value x = op.in(0);
  return wrap_dims(i >= 0 && op.has(i) ? op.ints(i) : Shape{}, op.b.rank(x));
}

// Reduces in the precision ATen accumulates in; to the result's shape.
Values reduced(Op& op, Shape dims, Reduce kind, DType dtype) {
  const Value x = op.b.convert(op.in(0), dtype);
  return {op.b.reshape(op.b.reduce(x, kind, dims), op.result().shape)};
}

Values summed(Op& op, Shape dims) {
  return reduced(op, dims, Reduce::Add, opmath(op.result().dtype));
}

Values averaged(Op& op, Shape dims) {
  auto& b = op.b;
  const double n = static_cast<double>(count(b.shape(op.in(0)), dims));
  const Value total = summed(op, dims)[0];
  return {b.div(total, fill_like(b, total, n))};
}

Values extreme(Op& op, Shape dims, Reduce kind) {
  return reduced(op, dims, kind, op.result().dtype);
}

Values logical(Op& op, Shape dims, Reduce kind) {
  return {op.b.reshape(op.b.reduce(truth(op.b, op.in(0)), kind, dims),
                       op.result().shape)};
}

double correction(Op& op, int i) {
  return op.has(i) ? op.number(i) : 1;
}

// The index of the extreme along one dimension, the first of equals; NaN wins.
std::pair<Value, Value> arg_extreme(ir::Builder& b,
                                    Value x,
                                    int64_t dim,
                                    bool largest) {
  const Shape shape = b.shape(x);
  const DType dtype = b.dtype(x);
  const Value position = b.iota({DType::Int64, shape}, dim);
  Value first;
  if (is_floating_point(dtype)) {
    first = b.constant(dtype, largest ? -INFINITY : INFINITY);
  } else {
    first = b.reduce(b.reshape(x, {b.type(x).numel()}),
                     largest ? Reduce::Min : Reduce::Max,
                     {0});
  }
  const auto results = b.reduce(
      {x, position},
      {first, b.constant(DType::Int64, std::numeric_limits<int64_t>::max())},
      {dim},
      [&](ir::Builder& r, const ir::Values& v) -> ir::Values {
        const Value a = v[0], ai = v[1], c = v[2], ci = v[3];
        Value better = r.compare(largest ? Compare::GT : Compare::LT, a, c);
        Value equal = r.compare(Compare::EQ, a, c);
        if (is_floating_point(r.dtype(a))) {
          const Value a_nan = r.compare(Compare::NE, a, a);
          const Value c_nan = r.compare(Compare::NE, c, c);
          better = r.logical_or(r.logical_and(better, r.logical_not(c_nan)),
                                r.logical_and(a_nan, r.logical_not(c_nan)));
          equal = r.logical_or(equal, r.logical_and(a_nan, c_nan));
        }
        const Value first_of_equals =
            r.logical_and(equal, r.compare(Compare::LT, ai, ci));
        const Value take = r.logical_or(better, first_of_equals);
        return {r.select(take, a, c), r.select(take, ai, ci)};
      });
  return {results[0], results[1]};
}

Values arg_only(Op& op, bool largest) {
  auto& b = op.b;
  Value x = op.in(0);
  if (b.dtype(x) == DType::Bool) {
    x = b.convert(x, DType::Int32);
  }
  if (!op.has(1)) {
    x = b.reshape(x, {b.type(x).numel()});
  } else if (b.rank(x) == 0) {
    x = b.reshape(x, {1});
  }
  const int64_t dim = op.has(1) ? wrap(op.integer(1), b.rank(x)) : 0;
  return {b.reshape(arg_extreme(b, x, dim, largest).second, op.result().shape)};
}

Values with_index(Op& op, bool largest) {
  auto& b = op.b;
  Value x = op.in(0);
  const DType dtype = b.dtype(x);
  if (dtype == DType::Bool) {
    x = b.convert(x, DType::Int32);
  }
  if (b.rank(x) == 0) {
    x = b.reshape(x, {1});
  }
  const auto [value, index] =
      arg_extreme(b, x, wrap(op.integer(1), b.rank(x)), largest);
  return {b.reshape(b.convert(value, dtype), op.result(0).shape),
          b.reshape(index, op.result(1).shape)};
}

Values vector_norm(Op& op) {
  // self, ord, dim, keepdim, dtype
  auto& b = op.b;
  const DType dtype = opmath(op.result().dtype);
  const Value x = b.unary("abs", op.in(0, dtype));
  const auto dims = dims_of(op, 2);
  const double p = op.has(1) ? op.number(1) : 2;
  const auto shaped = [&](Value v) -> Values {
    return {b.reshape(v, op.result().shape)};
  };
  if (p == INFINITY || p == -INFINITY) {
    return shaped(b.reduce(x, p > 0 ? Reduce::Max : Reduce::Min, dims));
  }
  if (p == 0) {
    return shaped(b.reduce(b.convert(truth(b, x), dtype), Reduce::Add, dims));
  }
  if (p == 1) {
    return shaped(b.reduce(x, Reduce::Add, dims));
  }
  if (p == 2) {
    return shaped(b.sqrt(b.reduce(b.mul(x, x), Reduce::Add, dims)));
  }
  const Value powers = b.binary("power", x, fill_like(b, x, p));
  const Value total = b.reduce(powers, Reduce::Add, dims);
  return shaped(b.binary("power", total, fill_like(b, total, 1 / p)));
}

const bool registered = [] {
  lower("aten::sum", [](Op& op) { return summed(op, dims_of(op, -1)); });
  lower("aten::sum.dim_IntList",
        [](Op& op) { return summed(op, dims_of(op, 1)); });
  lower("aten::mean", [](Op& op) { return averaged(op, dims_of(op, -1)); });
  lower("aten::mean.dim", [](Op& op) { return averaged(op, dims_of(op, 1)); });
  lower("aten::prod", [](Op& op) {
    return reduced(op, dims_of(op, -1), Reduce::Mul, opmath(op.result().dtype));
  });
  lower("aten::prod.dim_int", [](Op& op) {
    return reduced(op, dims_of(op, 1), Reduce::Mul, opmath(op.result().dtype));
  });
  lower("aten::amax",
        [](Op& op) { return extreme(op, dims_of(op, 1), Reduce::Max); });
  lower("aten::amin",
        [](Op& op) { return extreme(op, dims_of(op, 1), Reduce::Min); });
  lower("aten::max",
        [](Op& op) { return extreme(op, dims_of(op, -1), Reduce::Max); });
  lower("aten::min",
        [](Op& op) { return extreme(op, dims_of(op, -1), Reduce::Min); });
  for (const auto& [base, kind] :
       {std::pair{"any", Reduce::Or}, {"all", Reduce::And}}) {
    const std::string name = std::string("aten::") + base;
    lower(name, [kind](Op& op) { return logical(op, dims_of(op, -1), kind); });
    for (const char* overload : {".dim", ".dims"}) {
      lower(name + overload,
            [kind](Op& op) { return logical(op, dims_of(op, 1), kind); });
    }
  }
  lower("aten::argmax", [](Op& op) { return arg_only(op, true); });
  lower("aten::argmin", [](Op& op) { return arg_only(op, false); });
  lower("aten::max.dim", [](Op& op) { return with_index(op, true); });
  lower("aten::min.dim", [](Op& op) { return with_index(op, false); });
  lower("aten::var.correction", [](Op& op) -> Values {
    const Value x = op.in(0, opmath(op.result().dtype));
    const auto m = moments(op.b, x, dims_of(op, 1), correction(op, 2));
    return {op.b.reshape(m.variance, op.result().shape)};
  });
  lower("aten::std.correction", [](Op& op) -> Values {
    const Value x = op.in(0, opmath(op.result().dtype));
    const auto m = moments(op.b, x, dims_of(op, 1), correction(op, 2));
    return {op.b.reshape(op.b.sqrt(m.variance), op.result().shape)};
  });
  lower("aten::var_mean.correction", [](Op& op) -> Values {
    const Value x = op.in(0, opmath(op.result().dtype));
    const auto m = moments(op.b, x, dims_of(op, 1), correction(op, 2));
    return {op.b.reshape(m.variance, op.result(0).shape),
            op.b.reshape(m.mean, op.result(1).shape)};
  });
  lower("aten::linalg_vector_norm", &vector_norm);
  return true;
}();

}  // namespace
}  // namespace neuronx::lowering

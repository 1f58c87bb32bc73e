// SPDX-License-Identifier: Apache-2.0
// Builder: appends operations to a Program and infers their result types.
// Every method checks its operands and throws std::invalid_argument with a
// message like "[stablehlo.add] expected equal types, got float32[2] and
// float32[3]".
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ir/program.h"

namespace neuronx::ir {

using Values = std::vector<Value>;
using Region = std::function<Values(class Builder&, const Values&)>;

enum class Compare { EQ, NE, LT, LE, GT, GE };
enum class Reduce { Add, Mul, Max, Min, And, Or };

struct DotDimensions {
  Shape lhs_batch = {}, rhs_batch = {}, lhs_contract = {}, rhs_contract = {};
};

// Window of reduce_window and select_and_scatter, one entry per dimension.
struct Window {
  Shape size = {}, stride = {}, dilation = {}, pad_low = {}, pad_high = {};
};

struct ConvolutionDimensions {
  Shape stride = {}, pad_low = {}, pad_high = {};
  Shape lhs_dilation = {}, rhs_dilation = {};
  int64_t groups = 1, batch_groups = 1;
  // Dimension numbers: batch, feature, spatial... of input and output;
  // output feature, input feature, spatial... of the kernel.
  Shape input = {}, kernel = {}, output = {};
};

// StableHLO's gather and scatter dimension numbers.
struct GatherDimensions {
  Shape offset = {}, collapsed = {}, start_index_map = {};
  int64_t index_vector = 0;
  Shape slice_sizes = {};
  bool sorted = false;
};
struct ScatterDimensions {
  Shape update_window = {}, inserted_window = {}, scatter_to_operand = {};
  int64_t index_vector = 0;
  bool sorted = false, unique = false;
};

class Builder {
 public:
  explicit Builder(std::string name = "main");

  Value parameter(TensorType type);
  // By value: a reference would not survive the next operation.
  TensorType type(Value v) const;
  Shape shape(Value v) const;
  DType dtype(Value v) const;
  int64_t rank(Value v) const;
  // The result of `as_strided`.
  bool is_strided(Value v) const;
  // Sets the results; `aliases` as in Program, empty for none.
  Program finish(const Values& results, std::vector<int32_t> aliases = {});

  // Constants. Numbers are rounded to `dtype` once, from double or int64.
  Value constant(DType dtype, double value, Shape shape = {});
  Value constant(DType dtype, int64_t value, Shape shape = {});
  Value constant(DType dtype, int value, Shape shape = {});
  Value constant(TensorType type, std::string bytes);  // row-major, dense
  Value iota(TensorType type, int64_t dimension);

  // Elementwise, operands of equal type.
  Value unary(const std::string& op, Value x);  // "exponential", "sine", ...
  Value binary(const std::string& op, Value a, Value b);  // "add", "power"...
  Value compare(Compare direction, Value a, Value b);
  Value select(Value predicate, Value on_true, Value on_false);
  Value clamp(Value low, Value x, Value high);
  Value convert(Value x, DType dtype);         // no-op if already
  Value bitcast(Value x, DType dtype);         // same item size
  Value erf(Value x);                          // chlo.erf and its like by name:
  Value chlo(const std::string& op, Value x);  // "erf_inv", "lgamma", ...
  Value chlo(const std::string& op, Value a, Value b);  // "zeta", ...
  Value is_finite(Value x);
  Value reduce_precision(Value x, int exponent_bits, int mantissa_bits);

  // Shorthands.
  Value add(Value a, Value b) { return binary("add", a, b); }
  Value sub(Value a, Value b) { return binary("subtract", a, b); }
  Value mul(Value a, Value b) { return binary("multiply", a, b); }
  Value div(Value a, Value b) { return binary("divide", a, b); }
  Value max(Value a, Value b) { return binary("maximum", a, b); }
  Value min(Value a, Value b) { return binary("minimum", a, b); }
  Value logical_and(Value a, Value b) { return binary("and", a, b); }
  Value logical_or(Value a, Value b) { return binary("or", a, b); }
  Value logical_not(Value a) { return unary("not", a); }
  Value neg(Value a) { return unary("negate", a); }
  Value exp(Value a) { return unary("exponential", a); }
  Value log(Value a) { return unary("log", a); }
  Value sqrt(Value a) { return unary("sqrt", a); }
  Value rsqrt(Value a) { return unary("rsqrt", a); }
  Value tanh(Value a) { return unary("tanh", a); }

  // Shapes. `broadcast` follows NumPy's rules; no-ops return their operand.
  Value broadcast(Value x, const Shape& shape);
  Value broadcast_in_dim(Value x, const Shape& shape, const Shape& dimensions);
  Value reshape(Value x, const Shape& shape);
  Value transpose(Value x, const Shape& permutation);
  Value slice(Value x,
              const Shape& start,
              const Shape& limit,
              const Shape& stride);
  Value dynamic_slice(Value x, const Values& start, const Shape& size);
  Value dynamic_update_slice(Value x, Value update, const Values& start);
  Value concatenate(const Values& xs, int64_t dimension);
  Value pad(Value x,
            Value value,
            const Shape& low,
            const Shape& high,
            const Shape& interior);
  Value reverse(Value x, const Shape& dimensions);

  // Reductions drop the reduced dimensions.
  Value reduce(Value x, Reduce kind, const Shape& dimensions);
  Value reduce(Value x, Value init, Reduce kind, const Shape& dimensions);
  // General form: `region` combines two tuples of rank-0 values.
  Values reduce(const Values& xs,
                const Values& inits,
                const Shape& dimensions,
                const Region& region);
  Value reduce_window(Value x, Value init, const Window& window, Reduce kind);
  Values reduce_window(const Values& xs,
                       const Values& inits,
                       const Window& window,
                       const Region& region);
  Value select_and_scatter(Value x,
                           Value source,
                           Value init,
                           const Window& window,
                           Compare select,
                           Reduce scatter);
  // `less` gets (a0, b0, a1, b1, ...) and returns one Bool.
  Values sort(const Values& xs,
              int64_t dimension,
              bool stable,
              const Region& less);

  // Contraction; the result is [batch, lhs free, rhs free] of `result`.
  Value dot_general(Value lhs,
                    Value rhs,
                    const DotDimensions& dimensions,
                    DType result);
  Value convolution(Value input,
                    Value kernel,
                    const ConvolutionDimensions& dimensions,
                    DType result);
  Value gather(Value x, Value indices, const GatherDimensions& dimensions);
  Value scatter(Value x,
                Value indices,
                Value updates,
                const ScatterDimensions& dimensions,
                const Region& combine);
  Values while_loop(const Values& init,
                    const Region& condition,
                    const Region& body);
  // Branch `index` (int32[]; out of range means the last), called with the
  // values that the branches use.
  Values conditional(Value index, const std::vector<Region>& branches);
  Values conditional(Value index,
                     const Values& captures,
                     const std::vector<Region>& branches);

  // Composites (see Operation). `body` has the operands as parameters.
  Values composite(const std::string& name,
                   const Values& operands,
                   std::vector<Attribute> arguments,
                   Program body);

  // A call of something that only the hardware's compiler knows.
  Values custom_call(const std::string& target,
                     const Values& operands,
                     std::vector<TensorType> results,
                     std::string backend_config = "");
  // Any operation, its operands values of this program, its results unset.
  // `types` are the requested result types where the operands do not decide.
  Values append(Operation operation, std::vector<TensorType> types = {});

  // Composites of ours, bodies included.
  // The strided view of the 1-D `extent`, element strides and offset.
  Value as_strided(Value extent,
                   const Shape& size,
                   const Shape& stride,
                   int64_t offset);
  // `extent` with `value` written at the view's elements.
  Value as_strided_scatter(Value extent,
                           Value value,
                           const Shape& stride,
                           int64_t offset);
  // `value` laid out in memory with `stride`, a dense permutation: 1-D.
  Value to_strided(Value value, const Shape& stride);
  // `index`, whose elements must lie in low..high-1: the simulator reports
  // others as hardware does for the gather or scatter that uses them.
  Value check_index(Value index, int64_t low, int64_t high);
  // uint32[n] of Philox 4x32-10 words 0..n-1: word i is component i % 4 of
  // the block whose counter is offset + i / 4 (64 bits, low words first;
  // subsequence words 0) and whose key is seed. seed and offset: int64[].
  Value philox(Value seed, Value offset, int64_t n);

 private:
  Program program_;
};

// Runs `region` on fresh rank-0 or given-type parameters.
Program build_region(const Region& region,
                     const std::vector<TensorType>& parameters,
                     const std::string& name = "region");

}  // namespace neuronx::ir

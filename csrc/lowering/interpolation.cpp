// SPDX-License-Identifier: Apache-2.0
// Resampling of the trailing dimensions: one matrix per dimension that holds
// the weights of ATen's UpSample.h, computed here. The gradient multiplies by
// the same matrices transposed.
#include <algorithm>
#include <cmath>
#include <optional>

#include "lowering/math.h"

namespace neuronx::lowering {
namespace {

using ir::Builder;
using ir::Compare;

// How one dimension changes.
struct Axis {
  int64_t in, out;
  bool align_corners;
  std::optional<double> factor;  // the caller's scale factor
};

// Output o is the sum over k of weight[k][o] * input[index[k][o]].
struct Taps {
  std::vector<std::vector<int64_t>> index;
  std::vector<std::vector<float>> weight;
  Taps(size_t taps, int64_t out)
      : index(taps, std::vector<int64_t>(out)),
        weight(taps, std::vector<float>(out)) {}
};

using Filter = Taps (*)(const Axis&);

// Input elements per output element.
float ratio(const Axis& a) {
  if (a.align_corners) {
    return a.out > 1 ? static_cast<float>(a.in - 1) / (a.out - 1) : 0;
  }
  return a.factor && *a.factor > 0 ? static_cast<float>(1.0 / *a.factor)
                                   : static_cast<float>(a.in) / a.out;
}

float source(const Axis& a, int64_t o) {
  return a.align_corners ? ratio(a) * o : ratio(a) * (o + 0.5f) - 0.5f;
}

Taps nearest(const Axis& a) {
  Taps taps(1, a.out);
  for (int64_t o = 0; o < a.out; ++o) {
    const int64_t i = a.out == a.in ? o
                      : a.out == 2 * a.in
                          ? o / 2
                          : static_cast<int64_t>(std::floor(o * ratio(a)));
    taps.index[0][o] = std::min(i, a.in - 1);
    taps.weight[0][o] = 1;
  }
  return taps;
}

Taps nearest_exact(const Axis& a) {
  Taps taps(1, a.out);
  for (int64_t o = 0; o < a.out; ++o) {
    const auto i = static_cast<int64_t>(
        std::floor(static_cast<float>((o + 0.5) * ratio(a))));
    taps.index[0][o] = std::min(i, a.in - 1);
    taps.weight[0][o] = 1;
  }
  return taps;
}

Taps linear(const Axis& a) {
  Taps taps(2, a.out);
  for (int64_t o = 0; o < a.out; ++o) {
    const float x =
        a.out == a.in ? static_cast<float>(o) : std::max(source(a, o), 0.0f);
    const auto i = std::min(static_cast<int64_t>(x), a.in - 1);
    const float fraction = std::clamp(x - static_cast<float>(i), 0.0f, 1.0f);
    taps.index[0][o] = i;
    taps.index[1][o] = std::min(i + 1, a.in - 1);
    taps.weight[0][o] = 1 - fraction;
    taps.weight[1][o] = fraction;
  }
  return taps;
}

// Keys' kernel at distance x < 2.
float cubic_kernel(float x, float a) {
  return x < 1 ? ((a + 2) * x - (a + 3)) * x * x + 1
               : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

Taps cubic(const Axis& a) {
  Taps taps(4, a.out);
  for (int64_t o = 0; o < a.out; ++o) {
    const float x = source(a, o);
    const auto i = std::min(static_cast<int64_t>(std::floor(x)), a.in - 1);
    const float fraction = std::clamp(x - static_cast<float>(i), 0.0f, 1.0f);
    for (int k = 0; k < 4; ++k) {
      taps.index[k][o] = std::clamp<int64_t>(i + k - 1, 0, a.in - 1);
      taps.weight[k][o] =
          cubic_kernel(std::abs(fraction - static_cast<float>(k - 1)), -0.75f);
    }
  }
  return taps;
}

float triangle(float x) {
  return std::max(1 - std::abs(x), 0.0f);
}

float smooth_cubic(float x) {
  return std::abs(x) < 2 ? cubic_kernel(std::abs(x), -0.5f) : 0;
}

float lanczos(float x) {
  const auto sinc = [](float y) {
    const float angle = y * static_cast<float>(M_PI);
    return y == 0 ? 1 : std::sin(angle) / angle;
  };
  return std::abs(x) < 3 ? sinc(x) * sinc(x / 3) : 0;
}

// The filter widened to the output's spacing when shrinking.
Taps antialias(const Axis& a, int radius, float (*filter)(float)) {
  const float scale = ratio(a);
  const float widening = std::max(scale, 1.0f);
  const float support = static_cast<float>(radius) * widening;
  const auto most = static_cast<int64_t>(std::ceil(support)) * 2 + 1;
  Taps taps(most, a.out);
  for (int64_t o = 0; o < a.out; ++o) {
    const auto centre = static_cast<float>(scale * (o + 0.5));
    const auto begin =
        std::max<int64_t>(static_cast<int64_t>(centre - support + 0.5), 0);
    const auto end =
        std::min(static_cast<int64_t>(centre + support + 0.5), a.in);
    const auto size = std::clamp<int64_t>(end - begin, 0, most);
    float total = 0;
    for (int64_t k = 0; k < size; ++k) {
      const auto x = static_cast<float>(
          (static_cast<float>(k + begin) - centre + 0.5) / widening);
      taps.index[k][o] = begin + k;
      taps.weight[k][o] = filter(x);
      total += taps.weight[k][o];
    }
    for (int64_t k = 0; k < size && total != 0; ++k) {
      taps.weight[k][o] /= total;
    }
  }
  return taps;
}

Taps linear_antialias(const Axis& a) {
  return antialias(a, 1, &triangle);
}
Taps cubic_antialias(const Axis& a) {
  return antialias(a, 2, &smooth_cubic);
}
Taps lanczos_antialias(const Axis& a) {
  return antialias(a, 3, &lanczos);
}

template <typename T>
Value vector(Builder& b, DType dtype, const std::vector<T>& values) {
  return b.constant(TensorType{dtype, {static_cast<int64_t>(values.size())}},
                    std::string(reinterpret_cast<const char*>(values.data()),
                                values.size() * sizeof(T)));
}

// The [out, in] matrix. Few taps are told as vectors of positions, for a
// constant of this size would have to be stored and read.
Value matrix(Builder& b, const Taps& taps, const Axis& a, DType dtype) {
  constexpr size_t kFew = 4;
  const Shape shape{a.out, a.in};
  if (taps.index.size() > kFew) {
    std::vector<float> dense(a.out * a.in);
    for (size_t k = 0; k < taps.index.size(); ++k) {
      for (int64_t o = 0; o < a.out; ++o) {
        dense[o * a.in + taps.index[k][o]] += taps.weight[k][o];
      }
    }
    return b.convert(b.reshape(vector(b, DType::Float32, dense), shape), dtype);
  }
  const Value column = b.iota({DType::Int64, shape}, 1);
  const Value zero = b.constant(dtype, 0, shape);
  Value sum;
  for (size_t k = 0; k < taps.index.size(); ++k) {
    const Value index = vector(b, DType::Int64, taps.index[k]);
    const Value weight =
        b.convert(vector(b, DType::Float32, taps.weight[k]), dtype);
    const Value tap = b.select(
        b.compare(Compare::EQ, column, b.broadcast_in_dim(index, shape, {0})),
        b.broadcast_in_dim(weight, shape, {0}),
        zero);
    sum = sum ? b.add(sum, tap) : tap;
  }
  return sum;
}

// Each input element gives out / in neighbouring outputs.
bool repeats(const Taps& taps, const Axis& a) {
  if (taps.index.size() != 1 || a.out % a.in != 0) {
    return false;
  }
  for (int64_t o = 0; o < a.out; ++o) {
    if (taps.index[0][o] != o / (a.out / a.in)) {
      return false;
    }
  }
  return true;
}

// x with dimension d cut in two: [a, b].
Shape split(Shape shape, int64_t d, int64_t first, int64_t second) {
  shape[d] = second;
  shape.insert(shape.begin() + d, first);
  return shape;
}

Value repeat(Builder& b, Value x, int64_t d, const Axis& a) {
  const Shape shape = b.shape(x);
  const Shape parts = split(shape, d, a.in, a.out / a.in);
  Shape dims = range(0, b.rank(x) + 1);
  dims.erase(dims.begin() + d + 1);
  Shape result = shape;
  result[d] = a.out;
  return b.reshape(b.broadcast_in_dim(x, parts, dims), result);
}

Value sum_repeats(Builder& b, Value x, int64_t d, const Axis& a) {
  const Shape parts = split(b.shape(x), d, a.in, a.out / a.in);
  return b.reduce(b.reshape(x, parts), ir::Reduce::Add, {d + 1});
}

// self, output_size, [align_corners], scales...
Values forward(Op& op, int64_t n, Filter filter, bool corners) {
  auto& b = op.b;
  const DType dtype = op.result().dtype;
  const int scales = corners ? 3 : 2;
  Value x = op.in(0);
  const int64_t lead = b.rank(x) - n;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t d = lead + i;
    const int at = scales + static_cast<int>(i);
    const Axis a{b.shape(x)[d],
                 op.result().shape[d],
                 corners && op.flag(2),
                 op.has(at) ? std::optional(op.number(at)) : std::nullopt};
    const Taps taps = filter(a);
    if (repeats(taps, a)) {
      x = repeat(b, x, d, a);
      continue;
    }
    // A product with zeros would spread what is not finite.
    if (taps.index.size() == 1 || !is_floating_point(dtype)) {
      throw Unsupported("values are selected, or rounded, as integers");
    }
    const DType wide = opmath(dtype);
    x = along(b, b.convert(x, wide), d, matrix(b, taps, a, wide), false);
  }
  return {x};
}

// grad, output_size, input_size, [align_corners], scales...
Values backward(Op& op, int64_t n, Filter filter, bool corners) {
  auto& b = op.b;
  const DType dtype = opmath(op.result().dtype);
  const int scales = corners ? 4 : 3;
  Value x = op.in(0, dtype);
  const int64_t lead = b.rank(x) - n;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t d = lead + i;
    const int at = scales + static_cast<int>(i);
    const Axis a{op.result().shape[d],
                 b.shape(x)[d],
                 corners && op.flag(3),
                 op.has(at) ? std::optional(op.number(at)) : std::nullopt};
    const Taps taps = filter(a);
    x = repeats(taps, a) ? sum_repeats(b, x, d, a)
                         : along(b, x, d, matrix(b, taps, a, dtype), true);
  }
  return {x};
}

struct Mode {
  const char* name;
  int64_t n;
  Filter filter;
  bool corners;  // takes align_corners
};

constexpr Mode kModes[] = {
    {"upsample_nearest1d", 1, &nearest, false},
    {"upsample_nearest2d", 2, &nearest, false},
    {"upsample_nearest3d", 3, &nearest, false},
    {"_upsample_nearest_exact1d", 1, &nearest_exact, false},
    {"_upsample_nearest_exact2d", 2, &nearest_exact, false},
    {"_upsample_nearest_exact3d", 3, &nearest_exact, false},
    {"upsample_linear1d", 1, &linear, true},
    {"upsample_bilinear2d", 2, &linear, true},
    {"upsample_trilinear3d", 3, &linear, true},
    {"upsample_bicubic2d", 2, &cubic, true},
    {"_upsample_bilinear2d_aa", 2, &linear_antialias, true},
    {"_upsample_bicubic2d_aa", 2, &cubic_antialias, true},
    {"_upsample_lanczos2d_aa", 2, &lanczos_antialias, true},
};

const bool registered = [] {
  for (const Mode& mode : kModes) {
    const std::string name = std::string("aten::") + mode.name;
    lower(name, [mode](Op& op) {
      return forward(op, mode.n, mode.filter, mode.corners);
    });
    lower(name + "_backward", [mode](Op& op) {
      return backward(op, mode.n, mode.filter, mode.corners);
    });
  }
  return true;
}();

}  // namespace
}  // namespace neuronx::lowering

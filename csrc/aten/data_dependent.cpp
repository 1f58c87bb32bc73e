// SPDX-License-Identifier: Apache-2.0
// Operators whose result size depends on the data. A bounded program gives a
// result of the largest possible size and a count; the count is read, and the
// result is cut to it.
#include <ATen/ExpandUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <algorithm>
#include <bit>

#include "aten/host_dtype.h"
#include "eager/kernel.h"

namespace neuronx::aten {
namespace {

using at::Tensor;

eager::OpInfo& info_of(const char* name, const char* overload) {
  return eager::op_info(
      c10::Dispatcher::singleton().findSchemaOrThrow(name, overload));
}

// One of the operators of this file, run by a program or on the host.
class Operator {
 public:
  explicit Operator(const char* name, const char* overload = "")
      : info_(info_of(name, overload)) {}

  void count() { info_.executed.fetch_add(1, std::memory_order_relaxed); }

  template <class... Arguments>
  torch::jit::Stack on_host(Arguments&&... arguments) {
    torch::jit::Stack stack{std::forward<Arguments>(arguments)...};
    eager::run_on_host(info_, &stack, eager::kHostDtypes);
    return stack;
  }

 private:
  eager::OpInfo& info_;
};

template <class... Arguments>
torch::jit::Stack bounded(const char* name, Arguments&&... arguments) {
  torch::jit::Stack stack{std::forward<Arguments>(arguments)...};
  eager::run(info_of(name, ""), &stack);
  return stack;
}

// The first n rows, in memory of their own.
Tensor cut(const Tensor& padded, int64_t n) {
  if (padded.size(0) == n) {
    return padded;
  }
  auto sizes = padded.sizes().vec();
  sizes[0] = n;
  auto result = at::empty(sizes, padded.options());
  return result.copy_(padded.narrow(0, 0, n));
}

Tensor integers(const Tensor& like, at::IntArrayRef sizes) {
  return at::empty(sizes, like.options().dtype(at::kLong));
}

// Sizes that are read from the data are rounded up, so that few programs
// serve all of them.
int64_t round_up(int64_t n) {
  return static_cast<int64_t>(
      std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(n, 1))));
}

Tensor find_nonzero(const Tensor& self) {
  static Operator op("aten::nonzero");
  const c10::DeviceGuard guard(self.device());
  if (computes_on_host(self.scalar_type())) {
    return op.on_host(self)[0].toTensor();
  }
  op.count();
  const int64_t rank = self.dim();
  if (self.numel() == 0) {
    return integers(self, {0, rank});
  }
  const auto results =
      bounded("neuronx_bounded::nonzero", rank == 0 ? self.reshape({1}) : self);
  const int64_t n = results[1].toTensor().item<int64_t>();
  if (rank == 0) {
    return integers(self, {n, 0});
  }
  // One coordinate after the other in memory, as on the CPU.
  const Tensor padded = results[0].toTensor();
  const Tensor coordinates = integers(self, {rank, n});
  for (int64_t d = 0; d < rank && n > 0; ++d) {
    coordinates.select(0, d).copy_(padded.select(0, d).narrow(0, 0, n));
  }
  return coordinates.t();
}

Tensor& give(Tensor& out, const Tensor& result) {
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

void check_out(const char* name,
               const Tensor& self,
               const Tensor& out,
               c10::ScalarType dtype) {
  TORCH_CHECK(out.device() == self.device(),
              "[aten::",
              name,
              "] expected out on ",
              self.device(),
              ", but it is on ",
              out.device());
  TORCH_CHECK(out.scalar_type() == dtype,
              "[aten::",
              name,
              "] expected out of dtype ",
              dtype,
              ", but it is ",
              out.scalar_type());
}

Tensor& nonzero_out(const Tensor& self, Tensor& out) {
  check_out("nonzero", self, out, at::kLong);
  return give(out, find_nonzero(self));
}

Tensor select_masked(const Tensor& self, const Tensor& mask) {
  static Operator op("aten::masked_select");
  TORCH_CHECK(
      mask.scalar_type() == at::kBool || mask.scalar_type() == at::kByte,
      "masked_select: expected BoolTensor for mask");
  TORCH_CHECK(
      self.device() == mask.device(),
      "[aten::masked_select] expected all tensors on one device, found ",
      self.device(),
      " and ",
      mask.device());
  const c10::DeviceGuard guard(self.device());
  if (computes_on_host(self.scalar_type())) {
    return op.on_host(self, mask)[0].toTensor();
  }
  op.count();
  const auto sizes = at::infer_size(self.sizes(), mask.sizes());
  const auto x = self.expand(sizes), chosen = mask.expand(sizes);
  if (x.numel() == 0) {
    return at::empty({0}, self.options());
  }
  const auto results = bounded("neuronx_bounded::masked_select", x, chosen);
  return cut(results[0].toTensor(), results[1].toTensor().item<int64_t>());
}

Tensor& masked_select_out(const Tensor& self, const Tensor& mask, Tensor& out) {
  check_out("masked_select", self, out, self.scalar_type());
  return give(out, select_masked(self, mask));
}

using Unique = std::tuple<Tensor, Tensor, Tensor>;

// Of the rows of x, [n] or [n, m], and the shape of the inverse.
Unique unique_rows(const Tensor& x,
                   bool sorted,
                   bool inverse,
                   bool counts,
                   at::IntArrayRef shape) {
  if (x.numel() == 0) {
    return {at::empty(x.sizes(), x.options()),
            integers(x, inverse ? shape : at::IntArrayRef{0}),
            integers(x, {0})};
  }
  const auto results = bounded("neuronx_bounded::unique", x, sorted);
  const int64_t n = results[3].toTensor().item<int64_t>();
  return {cut(results[0].toTensor(), n),
          inverse ? results[1].toTensor().view(shape) : integers(x, {0}),
          counts ? cut(results[2].toTensor(), n) : integers(x, {0})};
}

Unique unique2(const Tensor& self, bool sorted, bool inverse, bool counts) {
  static Operator op("aten::_unique2");
  const c10::DeviceGuard guard(self.device());
  if (computes_on_host(self.scalar_type())) {
    auto r = op.on_host(self, sorted, inverse, counts);
    return {r[0].toTensor(), r[1].toTensor(), r[2].toTensor()};
  }
  op.count();
  return unique_rows(
      self.reshape({self.numel()}), true, inverse, counts, self.sizes());
}

std::tuple<Tensor, Tensor> unique1(const Tensor& self,
                                   bool sorted,
                                   bool inverse) {
  auto [values, positions, counts] = unique2(self, sorted, inverse, false);
  return {values, positions};
}

// The slices along dim as rows [n, m].
Tensor as_rows(const Tensor& self, int64_t dim) {
  const int64_t n = self.size(dim);
  const auto front = self.movedim(dim, 0);
  return front.reshape({n, n == 0 ? 0 : front.numel() / n});
}

Unique unique_slices(
    const Tensor& self, int64_t dim, bool sorted, bool inverse, bool counts) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  const int64_t n = self.size(dim);
  if (self.numel() == 0) {
    TORCH_CHECK(n == 0 || self.sizes().equals(at::IntArrayRef{n}),
                "There are 0 sized dimensions, and they aren't selected, so "
                "unique cannot be applied");
    return {at::empty(self.sizes(), self.options()),
            integers(self, {0}),
            integers(self, {0})};
  }
  auto [rows, positions, sizes] =
      unique_rows(as_rows(self, dim), sorted, inverse, counts, {n});
  auto shape = self.movedim(dim, 0).sizes().vec();
  shape[0] = rows.size(0);
  return {rows.view(shape).movedim(0, dim), positions, sizes};
}

Unique unique_dim(
    const Tensor& self, int64_t dim, bool sorted, bool inverse, bool counts) {
  static Operator op("aten::unique_dim");
  const c10::DeviceGuard guard(self.device());
  if (computes_on_host(self.scalar_type())) {
    auto r = op.on_host(self, dim, sorted, inverse, counts);
    return {r[0].toTensor(), r[1].toTensor(), r[2].toTensor()};
  }
  op.count();
  return unique_slices(self, dim, true, inverse, counts);
}

Unique unique_dim_consecutive(const Tensor& self,
                              int64_t dim,
                              bool inverse,
                              bool counts) {
  static Operator op("aten::unique_dim_consecutive");
  const c10::DeviceGuard guard(self.device());
  if (computes_on_host(self.scalar_type())) {
    auto r = op.on_host(self, dim, inverse, counts);
    return {r[0].toTensor(), r[1].toTensor(), r[2].toTensor()};
  }
  op.count();
  return unique_slices(self, dim, false, inverse, counts);
}

Unique unique_consecutive(const Tensor& self,
                          bool inverse,
                          bool counts,
                          std::optional<int64_t> dim) {
  static Operator op("aten::unique_consecutive");
  const c10::DeviceGuard guard(self.device());
  if (computes_on_host(self.scalar_type())) {
    auto r = op.on_host(self, inverse, counts, dim);
    return {r[0].toTensor(), r[1].toTensor(), r[2].toTensor()};
  }
  op.count();
  if (dim && self.dim() > 0) {
    return unique_slices(self, *dim, false, inverse, counts);
  }
  return unique_rows(
      self.reshape({self.numel()}), false, inverse, counts, self.sizes());
}

Tensor repeat_interleave(const Tensor& repeats,
                         std::optional<c10::SymInt> output_size) {
  static Operator op("aten::repeat_interleave", "Tensor");
  const c10::DeviceGuard guard(repeats.device());
  TORCH_CHECK(repeats.dim() == 1,
              "repeat_interleave only accept 1D vector as repeat");
  TORCH_CHECK(
      repeats.scalar_type() == at::kLong || repeats.scalar_type() == at::kInt,
      "repeats has to be Long or Int tensor");
  op.count();
  if (repeats.size(0) == 0) {
    return at::empty_like(repeats);
  }
  int64_t size = 0;
  if (output_size) {
    size = output_size->guard_int(__FILE__, __LINE__);
  } else {
    TORCH_CHECK(repeats.min().item<int64_t>() >= 0,
                "repeats can not be negative");
    size = repeats.sum().item<int64_t>();
  }
  if (size == 0) {
    return at::empty({0}, repeats.options());
  }
  const auto rows =
      bounded("neuronx_bounded::repeat_interleave", repeats, round_up(size));
  return cut(rows[0].toTensor(), size).to(repeats.scalar_type());
}

Tensor bincount(const Tensor& self,
                const std::optional<Tensor>& weights,
                c10::SymInt minlength) {
  static Operator op("aten::bincount");
  const c10::DeviceGuard guard(self.device());
  const int64_t least = minlength.guard_int(__FILE__, __LINE__);
  const bool weighted = weights && weights->defined();
  if (computes_on_host(self.scalar_type()) ||
      (weighted && weights->scalar_type() != at::kFloat)) {
    return op.on_host(self, weights, least)[0].toTensor();
  }
  TORCH_CHECK(at::isIntegralType(self.scalar_type(), false),
              "\"bincount_cpu\" not implemented for '",
              c10::toString(self.scalar_type()),
              "'");
  TORCH_CHECK(least >= 0, "minlength should be >= 0");
  op.count();
  const auto options = self.options().dtype(weighted ? at::kFloat : at::kLong);
  if (self.dim() == 1 && self.numel() == 0) {
    return at::zeros({least}, options);
  }
  constexpr char kShape[] =
      "bincount only supports 1-d non-negative integral inputs.";
  TORCH_CHECK(self.dim() == 1, kShape);
  const auto [low, high] = self.aminmax();
  TORCH_CHECK(low.item<int64_t>() >= 0, kShape);
  TORCH_CHECK(
      !weighted || (weights->dim() == 1 && weights->size(0) == self.size(0)),
      "weights should be 1-d and have the same length as input");
  const int64_t size = std::max(high.item<int64_t>() + 1, least);
  const auto counts = bounded("neuronx_bounded::bincount",
                              self,
                              weighted ? c10::IValue(*weights) : c10::IValue(),
                              round_up(size));
  return cut(counts[0].toTensor(), size);
}

// The metadata of the bounded programs' results.
std::tuple<Tensor, Tensor> nonzero_meta(const Tensor& self) {
  return {integers(self, {self.dim(), self.numel()}), integers(self, {})};
}
std::tuple<Tensor, Tensor> masked_select_meta(const Tensor& self,
                                              const Tensor& mask) {
  return {at::empty({self.numel()}, self.options()), integers(self, {})};
}
std::tuple<Tensor, Tensor, Tensor, Tensor> unique_meta(const Tensor& self,
                                                       bool sorted) {
  const int64_t n = self.size(0);
  return {at::empty(self.sizes(), self.options()),
          integers(self, {n}),
          integers(self, {n}),
          integers(self, {})};
}
Tensor repeat_interleave_meta(const Tensor& repeats, int64_t size) {
  return integers(repeats, {size});
}
Tensor bincount_meta(const Tensor& self,
                     const std::optional<Tensor>& weights,
                     int64_t size) {
  const bool weighted = weights && weights->defined();
  return at::empty({size},
                   self.options().dtype(weighted ? at::kFloat : at::kLong));
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("nonzero", &find_nonzero);
  m.impl("nonzero.out", &nonzero_out);
  m.impl("masked_select", &select_masked);
  m.impl("masked_select.out", &masked_select_out);
  m.impl("_unique", &unique1);
  m.impl("_unique2", &unique2);
  m.impl("unique_dim", &unique_dim);
  m.impl("unique_dim_consecutive", &unique_dim_consecutive);
  m.impl("unique_consecutive", &unique_consecutive);
  m.impl("repeat_interleave.Tensor", &repeat_interleave);
  m.impl("bincount", &bincount);
}

// Results are as large as they can be and zero behind the real ones.
TORCH_LIBRARY(neuronx_bounded, m) {
  m.def("nonzero(Tensor self) -> (Tensor coordinates, Tensor count)");
  m.def(
      "masked_select(Tensor self, Tensor mask) -> (Tensor values, Tensor "
      "count)");
  m.def(
      "unique(Tensor self, bool sorted) -> (Tensor values, Tensor inverse, "
      "Tensor counts, Tensor count)");
  m.def("repeat_interleave(Tensor repeats, int size) -> Tensor");
  m.def("bincount(Tensor self, Tensor? weights, int size) -> Tensor");
}

TORCH_LIBRARY_IMPL(neuronx_bounded, Meta, m) {
  m.impl("nonzero", &nonzero_meta);
  m.impl("masked_select", &masked_select_meta);
  m.impl("unique", &unique_meta);
  m.impl("repeat_interleave", &repeat_interleave_meta);
  m.impl("bincount", &bincount_meta);
}

}  // namespace neuronx::aten

// SPDX-License-Identifier: Apache-2.0
// Factorisations that raise an error which depends on the data: a program
// cannot. They are others' programs and a look at the outcome.
#include <ATen/core/Tensor.h>
#include <ATen/ops/_linalg_check_errors.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_cholesky_ex.h>
#include <ATen/ops/linalg_solve_triangular.h>
#include <ATen/ops/matmul.h>
#include <torch/library.h>

namespace neuronx::aten {
namespace {

void expect_square(const at::Tensor& self, const char* name) {
  TORCH_CHECK(self.dim() >= 2,
              name,
              ": The input tensor must have at least 2 dimensions.");
  TORCH_CHECK(self.size(-1) == self.size(-2),
              name,
              ": A must be batches of square matrices, but they are ",
              self.size(-2),
              " by ",
              self.size(-1),
              " matrices");
}

at::Tensor cholesky(const at::Tensor& self, bool upper) {
  if (self.numel() == 0) {
    return at::empty_like(self, at::MemoryFormat::Contiguous);
  }
  expect_square(self, "cholesky");
  auto [factor, info] = at::linalg_cholesky_ex(self, upper);
  at::_linalg_check_errors(info, "cholesky", self.dim() == 2);
  return factor;
}

// A^-1 of A = L L^T, or of A = U^T U.
at::Tensor cholesky_inverse(const at::Tensor& self, bool upper) {
  expect_square(self, "cholesky_inverse");
  if (self.numel() == 0) {
    return at::empty_like(self);
  }
  // LAPACK's potri: the first zero on the diagonal, counted from one.
  const auto zeros = self.diagonal(0, -2, -1).eq(0).to(at::kInt);
  const auto [zero, first] = zeros.max(-1);
  const auto info = first.add(1).mul(zero).to(at::kInt);
  at::_linalg_check_errors(info, "cholesky_inverse", self.dim() == 2);
  const auto unit = at::eye(self.size(-1), self.options());
  const auto inverse = at::linalg_solve_triangular(self, unit, upper);
  const auto product = upper ? at::matmul(inverse, inverse.mT())
                             : at::matmul(inverse.mT(), inverse);
  return product.mT().contiguous().mT();  // column-major, as ATen's
}

at::Tensor& store(at::Tensor& out, const at::Tensor& value) {
  TORCH_CHECK(out.scalar_type() == value.scalar_type(),
              "expected out tensor to have dtype ",
              value.dtype(),
              ", but got ",
              out.dtype(),
              " instead");
  out.resize_(value.sizes());
  return out.copy_(value);
}

at::Tensor& cholesky_out(const at::Tensor& self, bool upper, at::Tensor& out) {
  return store(out, cholesky(self, upper));
}

at::Tensor& cholesky_inverse_out(const at::Tensor& self,
                                 bool upper,
                                 at::Tensor& out) {
  return store(out, cholesky_inverse(self, upper));
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("cholesky", &cholesky);
  m.impl("cholesky.out", &cholesky_out);
  m.impl("cholesky_inverse", &cholesky_inverse);
  m.impl("cholesky_inverse.out", &cholesky_inverse_out);
}

}  // namespace neuronx::aten

// SPDX-License-Identifier: Apache-2.0
// Copies in every direction, and reading one number.
#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/view_as_real.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "aten/host_dtype.h"
#include "eager/kernel.h"
#include "runtime/allocator.h"
#include "runtime/device.h"
#include "runtime/host_allocator.h"
#include "runtime/storage.h"
#include "runtime/stream.h"

namespace neuronx::aten {
namespace {

using runtime::kNeuron;

size_t dense_bytes(const at::Tensor& tensor) {
  return tensor.numel() * tensor.element_size();
}

void* address(const at::Tensor& tensor) {
  return tensor.mutable_data_ptr();
}

// Same elements in the same memory order, without gaps.
bool same_dense_layout(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         a.strides() == b.strides() &&
         a.unsafeGetTensorImpl()->is_non_overlapping_and_dense_or_false();
}

bool has_math_bits(const at::Tensor& tensor) {
  return tensor.is_conj() || tensor.is_neg();
}

// Programs move any dtype's bits as integers of its size.
at::Tensor as_integers(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case c10::ScalarType::ComplexDouble:
      return as_integers(at::view_as_real(tensor));
    case c10::ScalarType::Double:
    case c10::ScalarType::ComplexFloat:
    case c10::ScalarType::UInt64:
      return tensor.view(at::kLong);
    case c10::ScalarType::ComplexHalf:
    case c10::ScalarType::UInt32:
      return tensor.view(at::kInt);
    case c10::ScalarType::UInt16:
      return tensor.view(at::kShort);
    default:
      return tensor;
  }
}

void run_copy_program(const at::Tensor& dst, const at::Tensor& src) {
  static auto& info = eager::op_info(
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy_", ""));
  torch::jit::Stack stack{dst, src, false};
  eager::run(info, &stack);
}

void device_to_host(const at::Tensor& src,
                    const at::Tensor& dst,
                    bool non_blocking);
void host_to_device(const at::Tensor& src,
                    const at::Tensor& dst,
                    bool non_blocking);

// Converts dtypes that the device does not compute, and resolves conjugate and
// negative views: what dst's memory holds is the conjugate of its values.
void copy_via_host(const at::Tensor& dst, const at::Tensor& src) {
  at::Tensor host = at::empty(src.sizes(), src.options().device(at::kCPU));
  device_to_host(src, host, false);
  host = host.to(dst.scalar_type());
  at::Tensor memory = dst;
  if (memory.is_conj()) {
    memory = memory.conj();
    host = host.conj();
  }
  if (memory.is_neg()) {
    memory = memory._neg_view();
    host = host._neg_view();
  }
  host_to_device(host, memory, false);
}

void device_to_device(const at::Tensor& src, const at::Tensor& dst) {
  const auto from = src.device().index();
  const auto to = dst.device().index();
  if (has_math_bits(src) || has_math_bits(dst)) {
    copy_via_host(dst, src);
    return;
  }
  if (same_dense_layout(src, dst)) {
    if (address(src) != address(dst)) {
      runtime::copy_on_device(
          address(dst), to, address(src), from, dense_bytes(dst));
    }
    return;
  }
  if (from != to) {
    // Packed on its own device, moved, then laid out on the other.
    c10::DeviceGuard guard(src.device());
    const auto packed = src.contiguous();
    const auto moved =
        at::empty(packed.sizes(), packed.options().device(dst.device()));
    device_to_device(packed, moved);
    dst.copy_(moved);
    return;
  }
  if (src.scalar_type() == dst.scalar_type()) {
    run_copy_program(as_integers(dst), as_integers(src.expand(dst.sizes())));
  } else if (computes_on_host(src.scalar_type()) ||
             computes_on_host(dst.scalar_type())) {
    copy_via_host(dst, src);
  } else {
    run_copy_program(dst, src);
  }
}

bool is_async(const at::Tensor& host, bool non_blocking) {
  return non_blocking && runtime::is_pinned(host.const_data_ptr());
}

// The pinned block must not be reused before the stream has passed.
void keep_pinned(const at::Tensor& host, c10::DeviceIndex device) {
  const auto& data = host.storage().data_ptr();
  runtime::host_allocator().record_event(
      const_cast<void*>(host.const_data_ptr()),
      data.get_context(),
      runtime::current_stream(device));
}

void host_to_device(const at::Tensor& src,
                    const at::Tensor& dst,
                    bool non_blocking) {
  const auto index = dst.device().index();
  const bool dense =
      dst.unsafeGetTensorImpl()->is_non_overlapping_and_dense_or_false() &&
      !has_math_bits(dst);
  if (!dense) {
    const auto packed = at::empty(dst.sizes(), dst.options());
    host_to_device(src, packed, non_blocking);
    device_to_device(packed, dst);
    return;
  }
  const bool direct = same_dense_layout(src, dst) && !has_math_bits(src);
  at::Tensor host = src;
  if (!direct) {
    host = at::empty_strided(
        dst.sizes(), dst.strides(), dst.options().device(at::kCPU));
    host.copy_(src);
  }
  const bool pinned = direct && is_async(host, non_blocking);
  runtime::copy_to_device(
      address(dst), host.const_data_ptr(), dense_bytes(dst), index, pinned);
  if (pinned) {
    keep_pinned(host, index);
  }
}

void device_to_host(const at::Tensor& src,
                    const at::Tensor& dst,
                    bool non_blocking) {
  const auto index = src.device().index();
  if (has_math_bits(src)) {
    at::Tensor plain = src.is_conj() ? src.conj() : src;
    plain = plain.is_neg() ? plain._neg_view() : plain;
    auto host =
        at::empty(plain.sizes(), dst.options().dtype(plain.scalar_type()));
    device_to_host(plain, host, false);
    if (src.is_neg()) {
      host = host.neg();
    }
    dst.copy_(src.is_conj() ? host.conj() : host);
    return;
  }
  at::Tensor packed = src;
  if (!src.unsafeGetTensorImpl()->is_non_overlapping_and_dense_or_false()) {
    packed = at::empty(src.sizes(), src.options());
    device_to_device(src, packed);
  }
  if (same_dense_layout(packed, dst) && !has_math_bits(dst)) {
    const bool pinned = is_async(dst, non_blocking);
    runtime::copy_to_host(
        address(dst), address(packed), dense_bytes(dst), index, pinned);
    if (pinned) {
      keep_pinned(dst, index);
    }
    return;
  }
  const auto host = at::empty_strided(
      packed.sizes(), packed.strides(), packed.options().device(at::kCPU));
  runtime::copy_to_host(
      address(host), address(packed), dense_bytes(host), index, false);
  dst.copy_(host);
}

at::Tensor copy_from(const at::Tensor& self,
                     const at::Tensor& dst,
                     bool non_blocking) {
  if (dst.numel() == 0) {
    return dst;
  }
  const auto src = self.expand(dst.sizes());
  at::assert_no_internal_overlap(dst);
  if (self.device() == dst.device()) {
    at::assert_no_partial_overlap(dst, src);
  }
  if (self.device().type() == kNeuron && dst.device().type() == kNeuron) {
    device_to_device(src, dst);
  } else if (dst.device().type() == kNeuron) {
    TORCH_CHECK(self.is_cpu(),
                "[copy_] cannot copy from ",
                self.device(),
                " to ",
                dst.device());
    host_to_device(src, dst, non_blocking);
  } else {
    TORCH_CHECK(dst.is_cpu(),
                "[copy_] cannot copy from ",
                self.device(),
                " to ",
                dst.device());
    device_to_host(src, dst, non_blocking);
  }
  return dst;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  if (at::native::resize_output(dst, self.sizes()) &&
      self.is_non_overlapping_and_dense()) {
    // As the host's kernel laid it out.
    dst.unsafeGetTensorImpl()->set_sizes_and_strides(self.sizes(),
                                                     self.strides());
  }
  return copy_from(self, dst, false);
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  const auto host =
      at::empty({}, at::TensorOptions().dtype(self.scalar_type()));
  device_to_host(self.dim() == 0 ? self : self.reshape({}), host, false);
  return at::_local_scalar_dense(host);
}

bool equal(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(self.device() == other.device(),
              "Cannot compare two tensors on different devices. Got: ",
              self.device(),
              " and ",
              other.device());
  TORCH_CHECK(self.scalar_type() == other.scalar_type(),
              "Expected all tensors to have the same dtype, but got ",
              self.scalar_type(),
              " and ",
              other.scalar_type());
  if (self.sizes() != other.sizes()) {
    return false;
  }
  return self.numel() == 0 || at::eq(self, other).all().item<bool>();
}

void record_stream(at::Tensor& self, c10::Stream stream) {
  runtime::allocator().recordStream(self.storage().data_ptr(), stream);
}

constexpr const char* kSeeMathBits[] = {
    "_copy_from",
    "_copy_from_and_resize",
    "_to_cpu",
};

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("_local_scalar_dense", &local_scalar_dense);
  m.impl("equal", &equal);
  m.impl("record_stream", &record_stream);
}

// These see conjugate and negative views as they are: core's fallback would
// clone them, which copies, which would clone.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  for (const char* op : kSeeMathBits) {
    m.impl(op, torch::CppFunction::makeFallthrough());
  }
}
TORCH_LIBRARY_IMPL(aten, Negative, m) {
  for (const char* op : kSeeMathBits) {
    m.impl(op, torch::CppFunction::makeFallthrough());
  }
}

}  // namespace neuronx::aten

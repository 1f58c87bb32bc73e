// SPDX-License-Identifier: Apache-2.0
#include "runtime/generator.h"

#include <ATen/Utils.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <array>
#include <cstring>

#include "runtime/device.h"

namespace neuronx::runtime {
namespace {

constexpr int64_t kStateBytes = 16;

}  // namespace

Generator::Generator(c10::DeviceIndex device)
    : c10::GeneratorImpl(c10::Device(kNeuron, device),
                         c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

c10::DeviceType Generator::device_type() {
  return kNeuron;
}

void Generator::set_current_seed(uint64_t seed) {
  seed_ = seed;
  offset_ = 0;
}

void Generator::set_offset(uint64_t offset) {
  offset_ = offset;
}
uint64_t Generator::get_offset() const {
  return offset_;
}
uint64_t Generator::current_seed() const {
  return seed_;
}

uint64_t Generator::seed() {
  set_current_seed(c10::detail::getNonDeterministicRandom(false));
  return seed_;
}

c10::intrusive_ptr<c10::TensorImpl> Generator::get_state() const {
  auto state = at::empty({kStateBytes}, at::TensorOptions().dtype(at::kByte));
  auto* bytes = static_cast<char*>(state.data_ptr());
  std::memcpy(bytes, &seed_, 8);
  std::memcpy(bytes + 8, &offset_, 8);
  return state.getIntrusivePtr();
}

void Generator::set_state(const c10::TensorImpl& state) {
  at::detail::check_rng_state(state);
  TORCH_CHECK(state.numel() == kStateBytes,
              "RNG state is wrong size: expected 16 bytes (seed, offset), got ",
              state.numel());
  const auto* bytes = static_cast<const char*>(state.data());
  std::memcpy(&seed_, bytes, 8);
  std::memcpy(&offset_, bytes + 8, 8);
}

void Generator::graphsafe_set_state(
    const c10::intrusive_ptr<c10::GeneratorImpl>& state) {
  auto other = c10::dynamic_intrusive_pointer_cast<Generator>(state);
  TORCH_CHECK(other, "expected a neuron generator's state");
  seed_ = other->seed_;
  offset_ = other->offset_;
}

c10::intrusive_ptr<c10::GeneratorImpl> Generator::graphsafe_get_state() const {
  return c10::intrusive_ptr<c10::GeneratorImpl>::reclaim(clone_impl());
}

std::pair<uint64_t, uint64_t> Generator::reserve(uint64_t blocks) {
  std::lock_guard lock(mutex_);
  const uint64_t first = offset_;
  offset_ += blocks;
  return {seed_, first};
}

Generator* Generator::clone_impl() const {
  auto* copy = new Generator(device().index());
  copy->seed_ = seed_;
  copy->offset_ = offset_;
  return copy;
}

const at::Generator& default_generator(c10::DeviceIndex device) {
  static auto* generators = [] {
    auto* all = new std::array<at::Generator, kMaxDevices>;
    for (int i = 0; i < kMaxDevices; ++i) {
      (*all)[i] =
          at::make_generator<Generator>(static_cast<c10::DeviceIndex>(i));
    }
    return all;
  }();
  const auto index = device < 0 ? current_device() : device;
  TORCH_CHECK(
      index >= 0 && index < kMaxDevices, "invalid neuron device index ", index);
  return (*generators)[index];
}

at::Generator new_generator(c10::DeviceIndex device) {
  return at::make_generator<Generator>(device < 0 ? current_device() : device);
}

Generator& generator_or_default(const std::optional<at::Generator>& generator,
                                c10::DeviceIndex device) {
  if (!generator.has_value() || !generator->defined()) {
    return *default_generator(device).get<Generator>();
  }
  TORCH_CHECK(generator->device().type() == kNeuron,
              "Expected a 'neuron' device type for generator but found '",
              c10::DeviceTypeName(generator->device().type(), true),
              "'");
  return *generator->get<Generator>();
}

}  // namespace neuronx::runtime

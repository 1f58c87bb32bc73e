// SPDX-License-Identifier: Apache-2.0
// Generator: the seed and offset of the Philox 4x32-10 counter. One offset is
// one block of four 32-bit words.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

namespace neuronx::runtime {

class Generator final : public c10::GeneratorImpl {
 public:
  explicit Generator(c10::DeviceIndex device);

  void set_current_seed(uint64_t seed) override;
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;
  uint64_t current_seed() const override;
  uint64_t seed() override;
  // 16 bytes: seed, then offset.
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
  void graphsafe_set_state(
      const c10::intrusive_ptr<c10::GeneratorImpl>& state) override;
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override;

  // Reserves `blocks` and returns (seed, first offset). Takes mutex_.
  std::pair<uint64_t, uint64_t> reserve(uint64_t blocks);

  static c10::DeviceType device_type();

 private:
  Generator* clone_impl() const override;

  uint64_t seed_ = c10::default_rng_seed_val;
  uint64_t offset_ = 0;
};

const at::Generator& default_generator(c10::DeviceIndex device);
at::Generator new_generator(c10::DeviceIndex device);

// The given or the device's default generator; raises for another device's.
Generator& generator_or_default(const std::optional<at::Generator>& generator,
                                c10::DeviceIndex device);

}  // namespace neuronx::runtime

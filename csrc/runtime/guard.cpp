// SPDX-License-Identifier: Apache-2.0
// The device guard: how PyTorch switches devices and streams.
#include <c10/core/DeviceCapability.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "runtime/allocator.h"
#include "runtime/device.h"
#include "runtime/event.h"
#include "runtime/queue.h"
#include "runtime/stream.h"

namespace neuronx::runtime {
namespace {

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kNeuron; }

  c10::Device exchangeDevice(c10::Device device) const override {
    const auto previous = getDevice();
    setDevice(device);
    return previous;
  }
  c10::Device getDevice() const override {
    return c10::Device(kNeuron, current_device());
  }
  void setDevice(c10::Device device) const override {
    TORCH_INTERNAL_ASSERT(device.type() == kNeuron);
    if (device.has_index()) {
      set_device(device.index());
    }
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    unchecked_set_device(device.index());
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return device_count();
  }
  c10::DeviceCapability getDeviceCapability(c10::Device) const override {
    // The dtypes that device memory holds and converts; float64 and complex
    // compute on the host.
    c10::DeviceCapability capability;
    capability.capability_data.capability_bits =
        (1ULL << c10::kIndex_Byte) | (1ULL << c10::kIndex_Char) |
        (1ULL << c10::kIndex_Short) | (1ULL << c10::kIndex_Int) |
        (1ULL << c10::kIndex_Long) | (1ULL << c10::kIndex_Half) |
        (1ULL << c10::kIndex_Float) | (1ULL << c10::kIndex_Double) |
        (1ULL << c10::kIndex_ComplexFloat) |
        (1ULL << c10::kIndex_ComplexDouble) | (1ULL << c10::kIndex_Bool) |
        (1ULL << c10::kIndex_BFloat16);
    return capability;
  }

  c10::Stream getStream(c10::Device device) const override {
    return current_stream(device.index());
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return default_stream(device.index());
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device,
                                      bool high_priority) const override {
    return new_stream(device.index(), high_priority ? -1 : 0);
  }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    return new_stream(device.index(), priority);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return exchange_stream(stream);
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return &queue(stream);
  }
  bool queryStream(const c10::Stream& stream) const override {
    return query_stream(stream);
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    synchronize_stream(stream);
  }
  void synchronizeDevice(const c10::DeviceIndex index) const override {
    check_device_index(index < 0 ? current_device() : index);
    synchronize_device(index < 0 ? current_device() : index);
  }

  void record(void** event,
              const c10::Stream& stream,
              const c10::DeviceIndex device,
              const c10::EventFlag flag) const override {
    TORCH_CHECK(device == -1 || device == stream.device_index(),
                "Event device ",
                device,
                " does not match recording stream's "
                "device ",
                stream.device_index());
    if (*event == nullptr) {
      *event = new Event(stream.device_index(),
                         flag == c10::EventFlag::BACKEND_DEFAULT);
    }
    auto* recorded = static_cast<Event*>(*event);
    TORCH_CHECK(recorded->device() == stream.device_index(),
                "Event device ",
                recorded->device(),
                " does not match recording stream's device ",
                stream.device_index());
    recorded->record(stream);
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) {
      static_cast<Event*>(event)->block(stream);
    }
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || static_cast<Event*>(event)->query();
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) {
      static_cast<Event*>(event)->synchronize();
    }
  }
  void destroyEvent(void* event,
                    const c10::DeviceIndex) const noexcept override {
    delete static_cast<Event*>(event);
  }
  double elapsedTime(void* start,
                     void* end,
                     const c10::DeviceIndex) const override {
    TORCH_CHECK(start != nullptr && end != nullptr,
                "[elapsed_time] both events must be recorded before "
                "calculating elapsed time");
    return Event::elapsed_ms(*static_cast<Event*>(start),
                             *static_cast<Event*>(end));
  }

  void recordDataPtrOnStream(const c10::DataPtr& data,
                             const c10::Stream& stream) const override {
    allocator().recordStream(data, stream);
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

}  // namespace
}  // namespace neuronx::runtime

// SPDX-License-Identifier: Apache-2.0
// The asynchronous interface, third generation: three execution units per
// core, each with its own queues; nothing orders one unit after another.
#include <fmt/format.h>

#include <memory>

#include "sim/core.h"
#include "sim/exports.h"
#include "sim/fault.h"
#include "sim/model.h"

namespace neuronx {

using namespace sim;

namespace {

// Marks tensors as used by a request while it lives.
class InFlight {
 public:
  explicit InFlight(std::vector<nrt_tensor_t*> tensors)
      : tensors_(std::move(tensors)) {
    for (nrt_tensor_t* tensor : tensors_) {
      if (tensor != nullptr) {
        ++tensor->in_flight;
      }
    }
  }
  InFlight(const InFlight&) = delete;
  ~InFlight() {
    for (nrt_tensor_t* tensor : tensors_) {
      if (tensor != nullptr) {
        --tensor->in_flight;
      }
    }
  }

 private:
  std::vector<nrt_tensor_t*> tensors_;
};

Queue* find_queue(int64_t lnc, int unit, int number, const char* call) {
  Core* core = find_core(lnc, call);
  if (core == nullptr) {
    return nullptr;
  }
  if (unit < 0 || unit >= NRTA_XU_NUM || number < 0 ||
      number >= kQueuesOfUnit[unit]) {
    fail(NRT_INVALID,
         fmt::format("{}: there is no queue {} of execution unit {}",
                     call,
                     number,
                     unit));
    return nullptr;
  }
  return &core->queue(static_cast<nrta_xu_t>(unit), number);
}

// Null for a number of no queue.
Queue* queue_of(nrta_seq_t sequence) {
  const uint64_t core = sequence >> 56;
  const uint64_t position = (sequence >> 52) & 0xF;
  auto& cores = simulator().cores;
  if (core >= cores.size() || position >= cores[core]->queues.size()) {
    return nullptr;
  }
  return cores[core]->queues[position].get();
}

NRT_STATUS invalid_sequence(nrta_seq_t sequence) {
  return fail(NRT_INVALID,
              fmt::format("there is no sequence number {:#x}", sequence));
}

// Queues `work` on the tensor-op unit of core `lnc`.
template <typename Work>
NRT_STATUS push_transfer(int lnc,
                         int number,
                         std::vector<nrt_tensor_t*> tensors,
                         Work work,
                         NRT_STATUS* status,
                         nrta_seq_t* sequence,
                         const char* call) {
  if (const auto failure = running(call)) {
    return failure;
  }
  if (status == nullptr || sequence == nullptr) {
    return fail(NRT_INVALID, std::string(call) + ": a result is null");
  }
  Queue* queue = find_queue(lnc, NRTA_XU_TENSOR_OP, number, call);
  if (queue == nullptr) {
    return NRT_INVALID;
  }
  for (const nrt_tensor_t* tensor : tensors) {
    if (const auto failure = check_handle(tensor, call)) {
      return failure;
    }
    const Core* core = tensor->core();
    if (core != nullptr && core->index != lnc) {
      return fail(
          NRT_INVALID,
          fmt::format(
              "{}: the tensor is on core {}, not {}", call, core->index, lnc));
    }
  }
  return guarded([&] {
    auto used = std::make_shared<InFlight>(std::move(tensors));
    return queue->push([used, work] { return work(); }, status, sequence);
  });
}

}  // namespace

NRT_STATUS nrta_tensor_write(nrt_tensor_t* tensor,
                             const void* buffer,
                             uint64_t offset,
                             uint64_t size,
                             int lnc_idx,
                             int queue,
                             NRT_STATUS* status,
                             nrta_seq_t* sequence) {
  return push_transfer(
      lnc_idx,
      queue,
      {tensor},
      [=] { return nrt_tensor_write(tensor, buffer, offset, size); },
      status,
      sequence,
      __func__);
}

NRT_STATUS nrta_tensor_read(void* buffer,
                            nrt_tensor_t* tensor,
                            uint64_t offset,
                            uint64_t size,
                            int lnc_idx,
                            int queue,
                            NRT_STATUS* status,
                            nrta_seq_t* sequence) {
  return push_transfer(
      lnc_idx,
      queue,
      {tensor},
      [=] { return nrt_tensor_read(tensor, buffer, offset, size); },
      status,
      sequence,
      __func__);
}

NRT_STATUS nrta_tensor_copy(nrt_tensor_t* source,
                            uint64_t source_offset,
                            nrt_tensor_t* destination,
                            uint64_t destination_offset,
                            uint64_t size,
                            int lnc_idx,
                            int queue,
                            NRT_STATUS* status,
                            nrta_seq_t* sequence) {
  return push_transfer(
      lnc_idx,
      queue,
      {source, destination},
      [=] {
        return nrt_tensor_copy(
            source, source_offset, destination, destination_offset, size);
      },
      status,
      sequence,
      __func__);
}

NRT_STATUS nrta_execute_schedule(nrt_model_t* model,
                                 const nrt_tensor_set_t* inputs,
                                 nrt_tensor_set_t* outputs,
                                 int queue,
                                 NRT_STATUS* status,
                                 nrta_seq_t* sequence) {
  if (const auto failure = running(__func__)) {
    return failure;
  }
  TensorSet* in = as_set(inputs);
  TensorSet* out = as_set(outputs);
  if (const auto failure = check_handle(model, __func__)) {
    return failure;
  }
  for (const TensorSet* set : {in, out}) {
    if (const auto failure = check_handle(set, __func__)) {
      return failure;
    }
  }
  if (status == nullptr || sequence == nullptr) {
    return fail(NRT_INVALID, "nrta_execute_schedule: a result is null");
  }
  Core& core = *model->core;
  Queue* target = find_queue(core.index, NRTA_XU_COMPUTE, queue, __func__);
  if (target == nullptr) {
    return NRT_INVALID;
  }
  if (core.dead) {
    return fail(
        NRT_EXEC_UNIT_UNRECOVERABLE,
        fmt::format("core {} stopped; restart the runtime", core.index));
  }
  return guarded([&] {
    if (const auto failure = bind(*model, *in, *out)) {
      return failure;
    }
    // The sets may be patched for the next request before this one runs.
    struct Launch {
      std::vector<void*> inputs, outputs;
      std::vector<nrt_tensor_t*> written;
      InFlight read, write;
    };
    auto launch = std::shared_ptr<Launch>(new Launch{in->addresses,
                                                     out->addresses,
                                                     out->tensors,
                                                     InFlight(in->tensors),
                                                     InFlight(out->tensors)});
    return target->push(
        [launch, model] {
          return run(*model,
                     launch->inputs.data(),
                     launch->outputs.data(),
                     launch->written);
        },
        status,
        sequence);
  });
}

NRT_STATUS nrta_is_completed(nrta_seq_t sequence, bool* completed) {
  if (const auto status = running(__func__)) {
    return status;
  }
  if (completed == nullptr) {
    return fail(NRT_INVALID, "nrta_is_completed: the result is null");
  }
  Queue* queue = queue_of(sequence);
  if (queue == nullptr) {
    return invalid_sequence(sequence);
  }
  const auto state = queue->state(sequence);
  if (!state.issued) {
    return invalid_sequence(sequence);
  }
  *completed = state.completed;
  return NRT_SUCCESS;
}

NRT_STATUS nrta_get_sequence(uint32_t lnc,
                             nrta_xu_t xu,
                             int queue,
                             nrta_seq_t* last_completed) {
  if (const auto status = running(__func__)) {
    return status;
  }
  Queue* found = find_queue(lnc, xu, queue, __func__);
  if (found == nullptr || last_completed == nullptr) {
    return NRT_INVALID;
  }
  *last_completed = found->last_completed();
  return NRT_SUCCESS;
}

NRT_STATUS nrta_event_register_seq_id_completion(nrta_seq_t sequence, int fd) {
  if (const auto status = running(__func__)) {
    return status;
  }
  Queue* queue = queue_of(sequence);
  if (queue == nullptr || !queue->watch(sequence, fd)) {
    return invalid_sequence(sequence);
  }
  return NRT_SUCCESS;
}

NRT_STATUS nrta_event_register_xu_completion(int lnc,
                                             nrta_xu_t xu,
                                             int queue,
                                             int fd) {
  if (const auto status = running(__func__)) {
    return status;
  }
  Queue* found = find_queue(lnc, xu, queue, __func__);
  if (found == nullptr) {
    return NRT_INVALID;
  }
  found->watch_all(fd);
  return NRT_SUCCESS;
}

NRT_STATUS nrt_async_drain_queued_execs(int32_t vnc) {
  if (const auto status = running(__func__)) {
    return status;
  }
  Core* core = find_core(vnc, __func__);
  if (core == nullptr) {
    return NRT_INVALID;
  }
  core->queue(NRTA_XU_COMPUTE, 0).drain();
  return NRT_SUCCESS;
}

}  // namespace neuronx

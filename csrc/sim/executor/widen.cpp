// SPDX-License-Identifier: Apache-2.0
#include "sim/executor/widen.h"

#include <ATen/core/ivalue.h>
#include <ATen/cpu/Utils.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <stdexcept>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "sim/executor/flat_builder.h"

namespace neuronx::sim {
namespace {

// Products with a transposed matrix (a layer's weight) of up to so many rows
// read each weight once: faster than converting it.
constexpr int64_t kFewRows = 8;

bool has_all(std::initializer_list<const char*> names) {
  static const auto* found = new std::unordered_map<std::string, c10::IValue>(
      at::cpu::get_cpu_capabilities());
  return std::ranges::all_of(names, [](const char* name) {
    const auto entry = found->find(name);
    return entry != found->end() && entry->second.isBool() &&
           entry->second.toBool();
  });
}

// The conditions of oneDNN: mkldnn_bf16_device_check and
// mkldnn_fp16_device_check of ATen/native/mkldnn/Utils.h. Other architectures
// have kernels of their own.
bool is_slow(DType dtype) {
  static const bool x86 = has_all({"sse2"});
  static const bool bfloat16 =
      x86 && !has_all({"avx512_vl", "avx512_bw", "avx512_dq"});
  static const bool float16 =
      x86 && !has_all({"avx512_fp16"}) && !has_all({"amx_fp16"});
  return (dtype == DType::BFloat16 && bfloat16) ||
         (dtype == DType::Float16 && float16);
}

class Widener {
 public:
  explicit Widener(Flat& flat)
      : flat_(flat), build_(flat), producer_(flat.types.size(), -1) {}

  void run() {
    const auto before = std::exchange(flat_.ops, {});
    for (const FlatOp& op : before) {
      if (is_slow_contraction(op))
        add_widened(op);
      else
        append(op);
    }
  }

 private:
  const ir::TensorType& type(int32_t v) const { return flat_.types[v]; }

  const FlatOp* producer(int32_t v) const {
    const int32_t op = producer_[v];
    return op < 0 ? nullptr : &flat_.ops[op];
  }

  void append(FlatOp op) {
    producer_.resize(flat_.types.size(), -1);
    for (int32_t v : op.results)
      producer_[v] = static_cast<int32_t>(flat_.ops.size());
    flat_.ops.push_back(std::move(op));
  }

  // All elements of its operand, seen otherwise.
  bool is_view(const FlatOp& op) const {
    return op.operands.size() == 1 && op.results.size() == 1 &&
           ((op.aten && op.aten->view) ||
            op.op->name == "neuronx.as_strided") &&
           type(op.operands[0]).dtype == type(op.results[0]).dtype &&
           type(op.operands[0]).numel() == type(op.results[0]).numel();
  }

  bool is_slow_contraction(const FlatOp& op) const {
    std::string_view name = op.op->name;
    if (name.ends_with(".default"))
      name.remove_suffix(8);
    const bool convolves =
        name == "aten.convolution" || name == "aten.convolution_backward";
    const bool batched = name == "aten.bmm" || name == "aten.baddbmm";
    const bool plain = name == "aten.mm" || name == "aten.addmm";
    if (!op.aten || (!convolves && !batched && !plain) ||
        std::ranges::none_of(op.operands,
                             [&](int32_t v) { return is_slow(type(v).dtype); }))
      return false;
    if (!plain)
      return true;
    const size_t first = name == "aten.mm" ? 0 : 1;
    const auto matrix = [&](size_t i) {
      return op.operands[std::get<ir::Operand>(op.op->arguments[i]).index];
    };
    const int32_t left = matrix(first), right = matrix(first + 1);
    const FlatOp* from = producer(right);
    return type(left).shape[0] > kFewRows || !from || !is_view(*from);
  }

  // The value in float32; of a view, the view of the value in float32.
  int32_t wide(int32_t v) {
    if (!is_slow(type(v).dtype))
      return v;
    if (const auto known = wide_.find(v); known != wide_.end())
      return known->second;
    const int32_t result = build_.fresh(DType::Float32, type(v).shape);
    if (const FlatOp* from = producer(v); from && is_view(*from)) {
      const FlatOp view = *from;
      const int32_t operand = wide(view.operands[0]);
      append(build_.op(*view.op, {operand}, {result}, view.aten));
    } else {
      append(build_.convert(v, result));
    }
    return wide_[v] = result;
  }

  void add_widened(const FlatOp& op) {
    std::vector<int32_t> operands, results;
    for (int32_t v : op.operands)
      operands.push_back(wide(v));
    for (int32_t v : op.results)
      results.push_back(is_slow(type(v).dtype)
                            ? build_.fresh(DType::Float32, type(v).shape)
                            : v);
    append(build_.op(*op.op, std::move(operands), results, op.aten));
    for (size_t k = 0; k < results.size(); ++k)
      if (results[k] != op.results[k])
        append(build_.convert(results[k], op.results[k]));
  }

  Flat& flat_;
  FlatBuilder build_;
  std::vector<int32_t> producer_;  // by value, in flat_.ops
  std::map<int32_t, int32_t> wide_;
};

}  // namespace

void widen(Flat& flat) {
  Widener(flat).run();
}

}  // namespace neuronx::sim

// SPDX-License-Identifier: Apache-2.0
// What the boxed kernel knows of its operator before the first call.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "eager/cache.h"

namespace neuronx::eager {

// How an argument enters the key. Scalar kinds may become runtime inputs.
enum class ArgumentKind : uint8_t {
  Tensor,      // also optional
  TensorList,  // also of optionals
  Scalar,      // Number, float: keyed by kind, value aside
  ScalarList,  // Number[], float[]
  Integer,     // int, SymInt, ScalarType, Layout, MemoryFormat, bool
  IntegerList,
  String,
  Device,  // keyed by nothing: the operands decide
  Generator,
  Other,
};

struct ArgumentInfo {
  ArgumentKind kind;
  bool written;  // in-place or out
  bool out;      // out only
};

struct ReturnInfo {
  enum class Kind : uint8_t { Argument, Tensor, TensorList, Number } kind;
  // Argument: its position. TensorList: that of a list of the same length, or
  // -1 for all tensors that are left.
  int argument = -1;
};
// Of any operator of PyTorch 2.13 or 2.14.
inline constexpr size_t kMaxReturns = 16;

struct OpInfo {
  explicit OpInfo(const c10::OperatorHandle& handle);

  const c10::OperatorHandle handle;
  const std::string name;  // "aten::add_.Tensor"
  // The table's key, "aten::add.Tensor": the overload that returns new
  // tensors. Empty when there is none.
  std::string functional;
  std::vector<ArgumentInfo> arguments;
  std::vector<ReturnInfo> returns;
  bool writes = false;
  bool pointwise = false;
  bool data_dependent = false;
  bool random = false;
  // Over lists of tensors, element by element: foreach and fused operators.
  bool each = false;

  ExecutableCache cache;

  // Counts the keys that differ from earlier ones in scalar values only, by
  // the hash of what they share.
  int constant_variants(uint64_t structure);

  std::atomic<uint64_t> executed{0};
  std::atomic<uint64_t> fallen_back{0};

  // "aten::uniform_" draws numbers: see random.cpp.
  const struct RandomOp* draw = nullptr;

 private:
  std::mutex variants_mutex_;
  std::unordered_map<uint64_t, int> variants_;
};

// "aten::add.Tensor"; "aten::relu" for a default overload.
std::string full_name(const c10::OperatorName& name);

// The one OpInfo of an operator, made at first use; leaked.
OpInfo& op_info(const c10::OperatorHandle& handle);
// All made so far.
std::vector<OpInfo*> op_infos();

}  // namespace neuronx::eager

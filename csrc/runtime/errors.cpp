// SPDX-License-Identifier: Apache-2.0
#include "runtime/errors.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "compiler/executable.h"
#include "nrt/status.h"
#include "runtime/queue.h"

namespace neuronx::runtime {
namespace {

// Operators of which PyTorch reports indices out of range as RuntimeError.
constexpr std::string_view kPlainIndexErrors[] = {
    "aten::gather",
    "aten::scatter",
    "aten::index_add",
    "aten::max_unpool",
    "aten::multi_margin_loss",
    "aten::multilabel_margin_loss",
};

bool has_plain_index_errors(const Launch& launch) {
  if (launch.executable == nullptr) {
    return false;
  }
  const std::string_view name = launch.executable->name;
  return std::ranges::any_of(kPlainIndexErrors, [&](std::string_view op) {
    return name.starts_with(op);
  });
}

[[noreturn]] void translate(const std::string& prefix,
                            bool plain_index_errors = false) {
  try {
    throw;
  } catch (c10::Error& e) {
    e.add_context(prefix.substr(0, prefix.find_last_not_of(": ") + 1));
    throw;  // of its own type
  } catch (const nrt::OutOfMemory& e) {
    TORCH_CHECK_WITH(OutOfMemoryError, false, prefix, e.what());
  } catch (const nrt::IndexOutOfRange& e) {
    TORCH_CHECK(!plain_index_errors, prefix, e.what());
    TORCH_CHECK_INDEX(false, prefix, e.what());
  } catch (const std::exception& e) {
    TORCH_CHECK(false, prefix, e.what());
  }
}

}  // namespace

void rethrow_as_torch(const std::string& what) {
  translate(fmt::format("[{}] ", what));
}

std::exception_ptr describe_error(const Launch& launch) {
  std::string prefix;
  if (launch.executable != nullptr) {
    prefix = fmt::format(
        "[{}] on ({})", launch.executable->name, launch.executable->operands);
  } else {
    prefix = fmt::format("[{}]", launch.task_name ? launch.task_name : "task");
  }
  if (launch.site) {
    prefix += fmt::format(", queued by {}", *launch.site);
  }
  prefix += launch.executable || launch.site ? ": " : " ";
  try {
    translate(prefix, has_plain_index_errors(launch));
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace neuronx::runtime

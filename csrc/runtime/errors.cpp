// SPDX-License-Identifier: Apache-2.0
#include "runtime/errors.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include "compiler/executable.h"
#include "nrt/status.h"
#include "runtime/queue.h"

namespace neuronx::runtime {
namespace {

[[noreturn]] void translate(const std::string& prefix) {
  try {
    throw;
  } catch (c10::Error& e) {
    e.add_context(prefix.substr(0, prefix.find_last_not_of(": ") + 1));
    throw;  // of its own type
  } catch (const nrt::OutOfMemory& e) {
    TORCH_CHECK_WITH(OutOfMemoryError, false, prefix, e.what());
  } catch (const nrt::IndexOutOfRange& e) {
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
        "[{}] on ({}): ", launch.executable->name, launch.executable->operands);
  } else {
    prefix = fmt::format("[{}] ", launch.task_name ? launch.task_name : "task");
  }
  try {
    translate(prefix);
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace neuronx::runtime

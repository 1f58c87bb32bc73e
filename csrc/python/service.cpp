// SPDX-License-Identifier: Apache-2.0
// The compile service, its cache, and what it asks Python for.
#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "common/call_site.h"
#include "compiler/error_codes.h"
#include "compiler/neff.h"
#include "compiler/neff_cache.h"
#include "compiler/pool.h"
#include "compiler/progress.h"
#include "compiler/service.h"
#include "compiler/signature.h"
#include "compiler/wait.h"
#include "ir/serialize.h"
#include "python/bind.h"

namespace py = pybind11;
using ReleaseGil = py::call_guard<py::gil_scoped_release>;

namespace neuronx::python {
namespace {

// Leaked: the service outlives the interpreter's objects.
std::shared_ptr<py::function> keep(py::function function) {
  return {new py::function(std::move(function)), [](py::function*) {}};
}

py::dict cache_stats() {
  const auto stats = compiler::cache_stats();
  py::dict result;
  result["programs"] = stats.programs;
  result["memory_hits"] = stats.memory_hits;
  result["disk_hits"] = stats.disk_hits;
  result["compiled"] = stats.compiled;
  result["compile_seconds"] = stats.compile_seconds;
  return result;
}

py::bytes run_compiler(const std::string& text,
                       const std::string& target,
                       int lnc) {
  std::string neff;
  {
    py::gil_scoped_release release;
    const auto found = compiler::find_compiler({});
    if (!found) {
      throw compiler::CompileError(compiler::missing_compiler());
    }
    neff = compiler::run_compiler(*found, text, {target, lnc}).neff;
  }
  return neff;
}

py::dict compile_program(const ir::Program& program,
                         const std::string& name,
                         const std::string& target,
                         int lnc,
                         const std::vector<std::string>& kernels) {
  compiler::Neff neff;
  {
    py::gil_scoped_release release;
    neff = compiler::neff(name, program, {target, lnc}, kernels);
  }
  py::dict result;
  result["key"] = neff.key;
  result["version"] = neff.version;
  result["compiled"] = neff.compiled;
  result["seconds"] = neff.seconds;
  result["bytes"] = neff.bytes.size();
  return result;
}

// The Python error that is set, thrown so that torch's dispatcher and pybind
// hand it on.
[[noreturn]] void throw_python_error() {
  python_error error;
  error.persist();
  throw error;
}

void set_hlo_converter(py::function converter) {
  compiler::set_hlo_converter(
      [kept = keep(std::move(converter))](
          const std::string& text) -> std::optional<std::string> {
        py::gil_scoped_acquire acquire;
        try {
          const py::object hlo = (*kept)(text);
          if (hlo.is_none()) {
            return std::nullopt;
          }
          return hlo.cast<std::string>();
        } catch (py::error_already_set& error) {
          if (error.matches(PyExc_Exception)) {
            throw compiler::CompilerFailed(
                py::str(error.value()).cast<std::string>(), false, 0);
          }
          error.restore();
        }
        throw_python_error();  // an interrupt
      });
}

void set_call_site(py::function callback) {
  neuronx::set_call_site([kept = keep(std::move(callback))]() -> std::string {
    if (!Py_IsInitialized()) {
      return "";
    }
    py::gil_scoped_acquire acquire;
    return (*kept)().cast<std::string>();
  });
}

// Ctrl-C ends a compilation.
void check_signals() {
  if (PyErr_CheckSignals() != 0) {
    throw_python_error();
  }
}

// Without the GIL, which another thread that compiles may need; signals reach
// Python in the main thread only.
void interruptible_sleep(std::chrono::milliseconds time) {
  if (Py_IsInitialized() && PyGILState_Check()) {
    check_signals();
    py::gil_scoped_release release;
    std::this_thread::sleep_for(time);
    return;
  }
  if (Py_IsInitialized() && ::gettid() == ::getpid()) {
    py::gil_scoped_acquire acquire;
    check_signals();
  }
  std::this_thread::sleep_for(time);
}

void set_new_program_callback(const py::object& callback) {
  if (callback.is_none()) {
    compiler::set_new_program_callback({});
    return;
  }
  compiler::set_new_program_callback(
      [kept = keep(callback.cast<py::function>())](
          const compiler::NewProgram& program) {
        py::gil_scoped_acquire acquire;
        py::dict event;
        event["name"] = program.name;
        event["operands"] = program.operands;
        event["program"] = py::bytes(program.serialized);
        event["scalar_count"] = program.scalar_count;
        event["source"] = std::string(program.source);
        event["key"] = program.key;
        event["error"] = program.error;
        event["seconds"] = program.seconds;
        (*kept)(event);
      });
}

// Those that were launched since the epoch began.
py::list executables(const std::string& name, uint64_t epoch) {
  py::list result;
  for (const auto& executable : compiler::executables(name)) {
    if (executable->used() < epoch) {
      continue;
    }
    py::dict entry;
    entry["id"] = executable->id;
    entry["name"] = executable->name;
    entry["operands"] = executable->operands;
    entry["program"] = py::bytes(executable->serialized);
    entry["scalar_count"] = executable->scalar_inputs();
    result.append(entry);
  }
  return result;
}

py::list signature(const std::string& serialized, int scalar_count) {
  py::list result;
  for (const auto& field : compiler::signature(
           ir::deserialize(serialized.data(), serialized.size()),
           scalar_count)) {
    result.append(py::make_tuple(field.kind, field.where, field.value));
  }
  return result;
}

py::dict prune_cache(const std::string& directory,
                     int64_t bytes,
                     int64_t seconds,
                     int64_t failure_seconds) {
  compiler::NeffCache::Pruned pruned;
  {
    py::gil_scoped_release release;
    pruned =
        compiler::NeffCache(directory).prune(bytes, seconds, failure_seconds);
  }
  py::dict result;
  result["programs"] = pruned.programs;
  result["bytes"] = pruned.bytes;
  result["kept_programs"] = pruned.kept_programs;
  result["kept_bytes"] = pruned.kept_bytes;
  return result;
}

// False if a compiler is at work on it.
bool remove_cached(const std::string& directory,
                   const std::string& key,
                   const std::string& version) {
  const compiler::NeffCache cache(directory);
  const auto lock = cache.try_lock(key);
  if (lock) {
    cache.remove(key, version);
  }
  return lock.has_value();
}

py::list error_codes() {
  py::list result;
  for (const auto& code : compiler::error_codes()) {
    result.append(py::make_tuple(code.code, code.cause, code.remedy));
  }
  return result;
}

}  // namespace

void bind_service(py::module_& m) {
  m.def("cache_stats", &cache_stats);
  m.def("run_compiler",
        &run_compiler,
        py::arg("stablehlo"),
        py::arg("target"),
        py::arg("lnc"));
  m.def("compile_program",
        &compile_program,
        py::arg("program"),
        py::arg("name"),
        py::arg("target"),
        py::arg("lnc") = 2,
        py::arg("kernels") = std::vector<std::string>());
  m.def("program_to_bytes", [](const ir::Program& program) {
    return py::bytes(ir::serialize(program));
  });
  m.def("program_from_bytes", [](const std::string& bytes) {
    return ir::deserialize(bytes.data(), bytes.size());
  });
  m.def("signature", &signature);
  m.def("executables",
        &executables,
        py::arg("name") = "",
        py::arg("epoch") = uint64_t{0});
  m.def("next_epoch", &compiler::Executable::next_epoch);
  m.def("set_hlo_converter", &set_hlo_converter);
  m.def("set_call_site", &set_call_site);
  m.def("set_new_program_callback", &set_new_program_callback);
  m.def("cancel_compilations", &compiler::cancel);
  m.def("set_compile_progress", &compiler::progress::set_enabled);
  m.def("compile_jobs", &compiler::compile_jobs);
  m.def("cache_limit", &compiler::cache_limit);
  m.def("prune_cache", &prune_cache);
  m.def("remove_cached", &remove_cached, ReleaseGil());
  m.def("compiler_error_codes", &error_codes);
  m.def("explain_compiler_error",
        [](const std::string& output) { return compiler::explain(output); });
  compiler::set_sleep(&interruptible_sleep);
}

}  // namespace neuronx::python

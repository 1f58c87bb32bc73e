// SPDX-License-Identifier: Apache-2.0
// The bindings. Everything that can block releases the GIL.
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/utils/pybind.h>

#include "common/metrics.h"
#include "compiler/neuronx_cc.h"
#include "compiler/service.h"
#include "eager/kernel.h"
#include "python/bind.h"
#include "runtime/allocator.h"
#include "runtime/call_site.h"
#include "runtime/device.h"
#include "runtime/event.h"
#include "runtime/generator.h"
#include "runtime/queue.h"
#include "runtime/stream.h"
#include "torch_neuronx.h"

namespace py = pybind11;
namespace rt = neuronx::runtime;
using ReleaseGil = py::call_guard<py::gil_scoped_release>;

namespace {

c10::DeviceIndex index(int64_t device) {
  rt::check_device_index(device);
  return static_cast<c10::DeviceIndex>(device);
}

py::dict device_properties(int64_t device) {
  rt::DeviceProperties properties;
  {
    py::gil_scoped_release release;
    properties = rt::device_properties(index(device));
  }
  py::dict result;
  result["name"] = properties.name;
  result["total_memory"] = properties.total_memory;
  result["arch"] = properties.architecture;
  result["multi_processor_count"] = properties.physical_cores;
  result["logical_core_config"] = properties.physical_cores;
  result["simulated"] = properties.simulated;
  return result;
}

py::tuple pack(const c10::Stream& stream) {
  return py::make_tuple(stream.id(),
                        static_cast<int64_t>(stream.device_index()),
                        static_cast<int64_t>(stream.device_type()));
}

py::dict memory_snapshot() {
  py::list segments;
  for (const auto& segment : rt::segments()) {
    py::dict s;
    s["device"] = static_cast<int>(segment.device);
    s["address"] = segment.address;
    s["total_size"] = segment.total_size;
    s["allocated_size"] = segment.allocated_size;
    s["active_size"] = segment.active_size;
    s["requested_size"] = segment.requested_size;
    s["stream"] = reinterpret_cast<size_t>(segment.stream);
    s["segment_type"] = segment.is_large ? "large" : "small";
    s["segment_pool_id"] = py::make_tuple(0, 0);
    s["is_expandable"] = false;
    s["frames"] = py::list();
    py::list blocks;
    size_t address = segment.address;
    for (const auto& block : segment.blocks) {
      py::dict b;
      b["address"] = address;
      b["size"] = block.size;
      b["requested_size"] = block.requested_size;
      b["state"] = block.allocated ? "active_allocated"
                   : block.active  ? "active_pending_free"
                                   : "inactive";
      b["frames"] = py::list();
      blocks.append(b);
      address += block.size;
    }
    s["blocks"] = blocks;
    segments.append(s);
  }
  py::list traces;
  for (c10::DeviceIndex i = 0; i < rt::device_count(); ++i) {
    py::list trace;
    for (const auto& event : rt::history(i)) {
      py::dict e;
      e["action"] = event.action;
      e["addr"] = event.address;
      e["size"] = event.size;
      e["stream"] = event.stream;
      e["time_us"] = event.time_us;
      e["frames"] = py::list();
      trace.append(e);
    }
    traces.append(trace);
  }
  py::dict result;
  result["segments"] = segments;
  result["device_traces"] = traces;
  result["allocator_settings"] = py::dict();
  return result;
}

template <typename Count>
std::map<std::string, uint64_t> counts(Count count) {
  std::map<std::string, uint64_t> result;
  for (const auto* info : neuronx::eager::op_infos()) {
    if (const uint64_t n = count(*info)) {
      result[info->name] = n;
    }
  }
  return result;
}

void set_fallback_mode(const std::string& mode) {
  using neuronx::eager::FallbackMode;
  neuronx::eager::set_fallback_mode(mode == "error"    ? FallbackMode::Error
                                    : mode == "silent" ? FallbackMode::Silent
                                                       : FallbackMode::Warn);
}

void set_fallback_callback(py::function callback) {
  auto* kept = new py::function(std::move(callback));  // leaked: outlives us
  neuronx::eager::set_fallback_callback(
      [kept](const std::string& name, const std::string& reason) {
        py::gil_scoped_acquire acquire;
        (*kept)(name, reason);
      });
}

void set_call_site_callback(py::function callback) {
  auto* kept = new py::function(std::move(callback));  // leaked: outlives us
  rt::set_call_site_callback([kept] {
    py::gil_scoped_acquire acquire;
    return py::cast<std::string>((*kept)());
  });
}

void bind_devices(py::module_& m) {
  m.def("device_count", [] { return static_cast<int>(rt::device_count()); });
  m.def("is_available", [] { return rt::device_count() > 0; });
  m.def("init", &rt::initialize, ReleaseGil());
  m.def("is_initialized", &rt::initialized);
  m.def("current_device",
        [] { return static_cast<int>(rt::current_device()); });
  m.def("set_device", [](int64_t device) { rt::set_device(index(device)); });
  const auto exchange = [](int64_t device) {
    const int previous = rt::current_device();
    if (device >= 0) {
      rt::set_device(index(device));
    }
    return previous;
  };
  m.def("exchange_device", exchange);
  m.def("maybe_exchange_device", exchange);
  m.def(
      "synchronize",
      [](int64_t device) { rt::synchronize_device(index(device)); },
      ReleaseGil());
  m.def("device_properties", &device_properties);
  m.def("default_generator", [](int64_t device) {
    return py::reinterpret_steal<py::object>(THPGenerator_Wrap(
        rt::default_generator(static_cast<c10::DeviceIndex>(device))));
  });
}

void bind_streams(py::module_& m) {
  m.def("current_stream",
        [](int64_t device) { return pack(rt::current_stream(index(device))); });
  m.def("default_stream",
        [](int64_t device) { return pack(rt::default_stream(index(device))); });
  m.def("set_stream", [](int64_t id, int64_t device, int64_t type) {
    const c10::Stream stream(
        c10::Stream::UNSAFE,
        c10::Device(static_cast<c10::DeviceType>(type), index(device)),
        id);
    rt::set_device(stream.device_index());
    rt::exchange_stream(stream);
  });
  m.def("elapsed_time", [](uintptr_t start, uintptr_t end) {
    TORCH_CHECK(start != 0 && end != 0,
                "[elapsed_time] both events must be recorded before "
                "calculating elapsed time");
    return rt::Event::elapsed_ms(*reinterpret_cast<rt::Event*>(start),
                                 *reinterpret_cast<rt::Event*>(end));
  });
}

void bind_memory(py::module_& m) {
  m.def(
      "memory_info",
      [](int64_t device) { return rt::device_memory(index(device)); },
      ReleaseGil());
  m.def("empty_cache", [] { rt::allocator().emptyCache(); }, ReleaseGil());
  m.def("memory_snapshot", &memory_snapshot);
  m.def("record_memory_history",
        [](std::optional<std::string> enabled, size_t max_entries) {
          rt::record_history(enabled.has_value(), max_entries);
        });
}

void bind_observation(py::module_& m) {
  m.def("executed_ops", [] {
    return counts([](const auto& info) { return info.executed.load(); });
  });
  m.def("fallback_ops", [] {
    return counts([](const auto& info) { return info.fallen_back.load(); });
  });
  m.def("clear_op_tracking", [] {
    for (auto* info : neuronx::eager::op_infos()) {
      info->executed.store(0);
      info->fallen_back.store(0);
    }
  });
  m.def("functional_name", [](const std::string& name) {
    const size_t dot = name.find('.');
    const auto op = c10::Dispatcher::singleton().findSchema(
        {name.substr(0, dot),
         dot == std::string::npos ? "" : name.substr(dot + 1)});
    return op ? neuronx::eager::op_info(*op).functional : std::string();
  });
  m.def("metrics", &neuronx::metrics::snapshot);
  m.def("reset_metrics", &neuronx::metrics::reset);
  m.def("cache_stats", [] {
    const auto stats = neuronx::compiler::cache_stats();
    py::dict result;
    result["programs"] = stats.programs;
    result["memory_hits"] = stats.memory_hits;
    result["disk_hits"] = stats.disk_hits;
    result["compiled"] = stats.compiled;
    result["compile_seconds"] = stats.compile_seconds;
    return result;
  });
  m.def(
      "run_compiler",
      [](const std::string& text, const std::string& target, int lnc) {
        std::string neff;
        {
          py::gil_scoped_release release;
          neff = neuronx::compiler::run_compiler(text, target, lnc);
        }
        return py::bytes(neff);
      },
      py::arg("stablehlo"),
      py::arg("target"),
      py::arg("lnc"));
  m.def("set_fallback_mode", &set_fallback_mode);
  m.def("set_fallback_callback", &set_fallback_callback);
  m.def("set_call_site_callback", &set_call_site_callback);
}

}  // namespace

PYBIND11_MODULE(_C, m) {
  // Errors become the Python types that PyTorch's own functions raise.
  py::register_local_exception_translator([](std::exception_ptr error) {
    try {
      std::rethrow_exception(error);
    } catch (const c10::Error&) {
      torch::translate_exception_to_python(error);
    }
  });
  bind_devices(m);
  bind_streams(m);
  bind_memory(m);
  bind_observation(m);
  neuronx::python::bind_programs(m);
  torch_neuronx::initialize();
}

// SPDX-License-Identifier: Apache-2.0
// Dtypes that the hardware lacks: retyped where they are only moved, and
// 64-bit integers in 32 bits for compilers that have no others.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "common/number.h"
#include "ir/hardware_rewrites.h"

namespace neuronx::ir::hardware {
namespace {

// Operations that look at no element of those they move. An index or a
// predicate never has one of the dtypes in question.
constexpr std::string_view kMovers[] = {
    "stablehlo.broadcast_in_dim",
    "stablehlo.concatenate",
    "stablehlo.constant",
    "stablehlo.dynamic_slice",
    "stablehlo.dynamic_update_slice",
    "stablehlo.gather",
    "stablehlo.pad",
    "stablehlo.reshape",
    "stablehlo.reverse",
    "stablehlo.scatter",
    "stablehlo.select",
    "stablehlo.slice",
    "stablehlo.transpose",
};

bool only_moves(const Operation& op) {
  return std::find(std::begin(kMovers), std::end(kMovers), op.name) !=
             std::end(kMovers) &&
         (op.bodies.empty() || combiner(*op.bodies[0]) == "");
}

DType bits_of(DType dtype) {
  return itemsize(dtype) == 8 ? DType::UInt64 : DType::UInt8;
}

DType narrowed(DType dtype) {
  return dtype == DType::Int64    ? DType::Int32
         : dtype == DType::UInt64 ? DType::UInt32
                                  : dtype;
}

// Closed interval of the values, in 128 bits so that bounds of products of
// bounds do not overflow.
struct Range {
  Wide low, high;
};

Range whole(DType dtype) {
  if (dtype == DType::Bool)
    return {0, 1};
  const int bits = int(8 * itemsize(dtype));
  if (is_unsigned(dtype))
    return {0, (Wide(1) << bits) - 1};
  return {-(Wide(1) << (bits - 1)), (Wide(1) << (bits - 1)) - 1};
}

bool fits(const Range& range, DType dtype) {
  const Range all = whole(dtype);
  return range.low >= all.low && range.high <= all.high;
}

class Narrower {
 public:
  Narrower(const Target& target, Report& report)
      : target_(target), report_(report) {}

  // With `outside`, parameters and results keep their types.
  Program run(const Program& program, bool outside) {
    const Definitions defined_by = definitions(program);
    Builder b(program.name);
    Values values(program.types.size());
    Values parameters;
    ranges_.assign(program.types.size(), {});
    for (Value v : program.parameters) {
      const TensorType& type = program.type(v);
      if (outside) {
        parameters.push_back(b.parameter(type));
        note(program, v, known(type.dtype));
      } else {
        values[v.id] = b.parameter({narrowed(type.dtype), type.shape});
        ranges_[v.id] = known(narrowed(type.dtype));
      }
    }
    for (size_t i = 0; i < parameters.size(); ++i)
      values[program.parameters[i].id] =
          b.convert(parameters[i], narrowed(b.dtype(parameters[i])));
    for (const Operation& op : program.operations) {
      const Site site{program, defined_by, op, target_};
      check(site);
      const Values results = emit(b, site, values);
      for (size_t i = 0; i < results.size(); ++i) {
        values[op.results[i].id] = results[i];
        note(program, op.results[i], range(site, i));
      }
    }
    // A parameter that is a result keeps all its bits.
    for (size_t i = 0; outside && i < program.parameters.size(); ++i)
      values[program.parameters[i].id] = parameters[i];
    Values results;
    for (Value v : program.results)
      results.push_back(outside ? b.convert(values[v.id], program.type(v).dtype)
                                : values[v.id]);
    return b.finish(results, program.aliases);
  }

 private:
  static Range known(DType dtype) {
    return is_integral(dtype) ? whole(dtype) : Range{0, 0};
  }

  // Keeps the range of a value; counts it if 32 bits may not hold it.
  void note(const Program& program, Value v, Range range) {
    const DType dtype = program.type(v).dtype;
    const bool inside = !is_integral(dtype) || fits(range, narrowed(dtype));
    report_.narrowed += is_wide(dtype) && !inside;
    ranges_[v.id] = inside ? range : whole(narrowed(dtype));
  }

  [[noreturn]] void refuse(const Site& site,
                           const char* name,
                           const std::string& reason) {
    throw Illegal({&rule(name), site.op.name, site.types()}, reason);
  }

  // What cannot be right in 32 bits whatever the data.
  void check(const Site& site) {
    if (site.is("stablehlo.iota") && is_wide(site.out().dtype)) {
      const int64_t size = site.out().shape[site.integer("iota_dimension")];
      if (size > INT32_MAX)
        refuse(site, "int64-iota", fmt::format("it counts to {}", size - 1));
    }
    static constexpr std::pair<std::string_view, size_t> kIndexed[] = {
        {"stablehlo.gather", 1},
        {"stablehlo.scatter", 1},
        {"stablehlo.dynamic_slice", 1},
        {"stablehlo.dynamic_update_slice", 2},
    };
    for (const auto& [name, index] : kIndexed)
      if (site.is(name) && index < site.op.operands.size() &&
          is_wide(site.in(index).dtype))
        for (int64_t size : site.in(0).shape)
          if (size > INT32_MAX)
            refuse(site,
                   "int64-index",
                   fmt::format("a dimension has {} elements", size));
    const bool counts_bits = site.is("stablehlo.count_leading_zeros");
    const bool reads_bits = site.is("stablehlo.bitcast_convert") &&
                            itemsize(site.in(0).dtype) == 8 &&
                            (is_floating_point(site.in(0).dtype) ||
                             is_floating_point(site.out().dtype));
    if ((counts_bits && is_wide(site.in(0).dtype)) || reads_bits)
      refuse(site, "int64-width", "its result depends on all 64 bits");
  }

  Values emit(Builder& b, const Site& site, const Values& values) {
    Operation op = site.op;
    std::vector<TensorType> types;
    for (Value v : op.results) {
      const TensorType& type = site.program.type(v);
      types.push_back({narrowed(type.dtype), type.shape});
    }
    for (Value& v : op.operands)
      v = values[v.id];
    op.results.clear();
    if (op.name == "stablehlo.constant" && is_wide(site.out().dtype))
      return {b.constant(types[0], constant(site))};
    for (auto& body : op.bodies) {
      Narrower inner(target_, report_);
      body = std::make_shared<const Program>(inner.run(*body, false));
    }
    if ((op.name == "stablehlo.convert" ||
         op.name == "stablehlo.bitcast_convert") &&
        b.type(op.operands[0]) == types[0])
      return op.operands;
    return b.append(std::move(op), std::move(types));
  }

  std::string constant(const Site& site) {
    const DType dtype = site.out().dtype, to = narrowed(dtype);
    const auto& bytes = std::get<std::string>(*site.op.attribute("value"));
    std::string result;
    for (size_t i = 0; i < bytes.size(); i += 8) {
      const int64_t value = decode_int(dtype, bytes.data() + i);
      const Range exact{dtype == DType::UInt64 ? Wide(uint64_t(value)) : value,
                        dtype == DType::UInt64 ? Wide(uint64_t(value)) : value};
      if (fits(exact, to)) {
        result += encode(to, value);
        continue;
      }
      // Limits stay limits, where they are only compared with.
      const Range all = whole(dtype), least = whole(to);
      const bool lowest = exact.low == all.low, highest = exact.low == all.high;
      if (!(lowest || highest) || !only_compared(site, site.op.results[0]))
        refuse(
            site,
            "int64-constant",
            fmt::format("it holds {}",
                        dtype == DType::UInt64 ? std::to_string(uint64_t(value))
                                               : std::to_string(value)));
      result += encode(to, int64_t(lowest ? least.low : least.high));
    }
    return result;
  }

  static bool only_compared(const Site& site, Value v) {
    static constexpr std::string_view kComparing[] = {
        "stablehlo.reduce",
        "stablehlo.reduce_window",
        "stablehlo.maximum",
        "stablehlo.minimum",
        "stablehlo.clamp",
    };
    for (const Operation& op : site.program.operations) {
      if (std::find(op.operands.begin(), op.operands.end(), v) ==
          op.operands.end())
        continue;
      const bool passes = op.name == "stablehlo.broadcast_in_dim" ||
                          op.name == "stablehlo.reshape";
      if (passes ? !only_compared(site, op.results[0])
                 : std::find(std::begin(kComparing),
                             std::end(kComparing),
                             op.name) == std::end(kComparing))
        return false;
    }
    const auto& results = site.program.results;
    return std::find(results.begin(), results.end(), v) == results.end();
  }

  // The region returns one of its arguments.
  static bool only_selects(const Program& region) {
    static constexpr std::string_view kSelecting[] = {
        "stablehlo.maximum", "stablehlo.minimum", "stablehlo.select"};
    return std::none_of(
        region.operations.begin(), region.operations.end(), [&](auto& op) {
          return is_wide(region.type(op.results[0]).dtype) &&
                 std::find(std::begin(kSelecting),
                           std::end(kSelecting),
                           op.name) == std::end(kSelecting);
        });
  }

  // Bounds of result i from those of the operands.
  Range range(const Site& site, size_t i) {
    const DType dtype = site.out(i).dtype;
    const auto in = [&](size_t k) { return ranges_[site.op.operands[k].id]; };
    const auto joined = [&](size_t first) {
      Range r = in(first);
      for (size_t k = first + 1; k < site.op.operands.size(); ++k)
        r = {std::min(r.low, in(k).low), std::max(r.high, in(k).high)};
      return r;
    };
    if (!is_integral(dtype))
      return {0, 0};
    const std::string_view name =
        std::string_view(site.op.name).substr(site.op.name.find('.') + 1);
    if (name == "constant") {
      const auto& bytes = std::get<std::string>(*site.op.attribute("value"));
      Range r = whole(dtype);
      for (size_t k = 0; k < bytes.size(); k += itemsize(dtype)) {
        const Wide value = decode_int(dtype, bytes.data() + k);
        r = k ? Range{std::min(r.low, value), std::max(r.high, value)}
              : Range{value, value};
      }
      // A saturated limit (see `constant`) was replaced.
      return fits(r, narrowed(dtype)) ? r : whole(narrowed(dtype));
    }
    if (name == "iota")
      return {0, site.out().shape[site.integer("iota_dimension")] - 1};
    if (name == "add")
      return {in(0).low + in(1).low, in(0).high + in(1).high};
    if (name == "subtract")
      return {in(0).low - in(1).high, in(0).high - in(1).low};
    if (name == "multiply") {
      const std::array<Wide, 4> products{in(0).low * in(1).low,
                                         in(0).low * in(1).high,
                                         in(0).high * in(1).low,
                                         in(0).high * in(1).high};
      return {*std::min_element(products.begin(), products.end()),
              *std::max_element(products.begin(), products.end())};
    }
    if (name == "convert")
      return is_integral(site.in(0).dtype) && fits(in(0), dtype) ? in(0)
                                                                 : whole(dtype);
    if (name == "select")
      return joined(1);
    if (name == "maximum" || name == "minimum" || name == "concatenate" ||
        name == "pad" || name == "clamp")
      return joined(0);
    if ((name == "reduce" || name == "reduce_window" || name == "scatter" ||
         name == "select_and_scatter") &&
        only_selects(*site.op.bodies.back())) {
      Range r = in(i);
      for (size_t k = 0; k < site.op.operands.size(); ++k)
        if (site.in(k).dtype == dtype)
          r = {std::min(r.low, in(k).low), std::max(r.high, in(k).high)};
      return r;
    }
    if (name == "remainder" || name == "slice" || name == "transpose" ||
        name == "reverse" || name == "reshape" || name == "sort" ||
        name == "broadcast_in_dim" || name == "dynamic_slice" ||
        name == "gather")
      return in(name == "sort" ? i : 0);
    return whole(dtype);
  }

  const Target& target_;
  Report& report_;
  std::vector<Range> ranges_;  // by Value::id
};

}  // namespace

bool is_wide(DType dtype) {
  return dtype == DType::Int64 || dtype == DType::UInt64;
}

bool retype_moved(Program& program, DType from) {
  bool found = false;
  for (const TensorType& type : program.types)
    found |= type.dtype == from;
  const auto holds = [&](Value v) { return program.type(v).dtype == from; };
  for (const Operation& op : program.operations) {
    const bool touched =
        std::any_of(op.operands.begin(), op.operands.end(), holds) ||
        std::any_of(op.results.begin(), op.results.end(), holds);
    if (touched && !only_moves(op))
      return false;
  }
  if (!found)
    return false;
  for (Operation& op : program.operations)
    if (op.name == "stablehlo.scatter" && holds(op.operands[0])) {
      const TensorType element{bits_of(from), {}};
      op.bodies = {std::make_shared<const Program>(build_region(
          [](Builder&, const Values& v) -> Values { return {v[1]}; },
          {element, element}))};
    }
  for (TensorType& type : program.types)
    if (type.dtype == from)
      type.dtype = bits_of(from);
  return true;
}

Program narrow(const Program& program, const Target& target, Report& report) {
  return Narrower(target, report).run(program, true);
}

}  // namespace neuronx::ir::hardware

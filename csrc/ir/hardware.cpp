// SPDX-License-Identifier: Apache-2.0
#include "ir/hardware.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/hardware_rewrites.h"
#include "ir/passes.h"
#include "ir/verify.h"

namespace neuronx::ir::hardware {
namespace {

// A rewrite may leave what another rule rewrites (a sort of float64 keys, a
// wide constant); chains are short.
constexpr int kMaxRounds = 8;

bool applies(const Check& check, const Site& site) {
  return check.rule.targets.find(name(site.target.chip)) !=
             std::string_view::npos &&
         check.violated(site);
}

// Composites expanded, once per region.
class Flattener {
 public:
  Flattener(const Target& target, Report& report)
      : target_(target), report_(report) {}

  Program run(const Program& program) {
    Builder b(program.name);
    Values parameters;
    for (Value v : program.parameters)
      parameters.push_back(b.parameter(program.type(v)));
    const Values results = expand(b, program, parameters);
    return b.finish(results, program.aliases);
  }

 private:
  Values expand(Builder& b, const Program& program, const Values& parameters) {
    Values values(program.types.size());
    for (size_t i = 0; i < parameters.size(); ++i)
      values[program.parameters[i].id] = parameters[i];
    for (const Operation& op : program.operations) {
      Values operands;
      for (Value v : op.operands)
        operands.push_back(values[v.id]);
      const Values results = emit(b, program, op, operands);
      for (size_t i = 0; i < results.size(); ++i)
        values[op.results[i].id] = results[i];
    }
    Values results;
    for (Value v : program.results)
      results.push_back(values[v.id]);
    return results;
  }

  Values emit(Builder& b,
              const Program& program,
              const Operation& op,
              const Values& operands) {
    if (op.is_composite()) {
      if (auto called = custom_call(b, program, op, operands, target_)) {
        ++report_.custom_calls;
        // Results that the call does not have come from the body.
        if (std::find(called->begin(), called->end(), Value{}) !=
            called->end()) {
          const Values others = expand(b, *op.bodies[0], operands);
          for (size_t i = 0; i < others.size(); ++i)
            if (!(*called)[i])
              (*called)[i] = others[i];
        }
        return *called;
      }
      if (op.name == "neuronx.philox" && !target_.native_int64) {
        ++report_.rewrites;
        return {philox_32(
            b, operands[0], operands[1], program.type(op.results[0]).shape[0])};
      }
      return expand(b, *op.bodies[0], operands);
    }
    Operation copy = op;
    std::vector<TensorType> types;
    for (Value v : op.results)
      types.push_back(program.type(v));
    copy.operands = operands;
    copy.results.clear();
    for (auto& body : copy.bodies)
      body = std::make_shared<const Program>(run(*body));
    try {
      return b.append(std::move(copy), std::move(types));
    } catch (const std::invalid_argument&) {
      refuse(program, op);
      throw;
    }
  }

  // Operations that the IR does not know may be those of a rule.
  void refuse(const Program& program, const Operation& op) {
    const Definitions defined_by = definitions(program);
    const Site site{program, defined_by, op, target_};
    for (const Check& check : checks())
      if (applies(check, site))
        throw Illegal({&check.rule, op.name, site.types()}, "");
  }

  const Target& target_;
  Report& report_;
};

// "module" of Site.
Operation module_of(const Program& program) {
  return {.name = "module",
          .operands = program.results,
          .results = program.parameters};
}

void collect(const Program& program,
             const Target& target,
             bool whole,
             std::vector<Violation>& found) {
  const Definitions defined_by = definitions(program);
  const auto visit = [&](const Operation& op) {
    const Site site{program, defined_by, op, target};
    for (const Check& check : checks())
      if (applies(check, site))
        found.push_back({&check.rule, op.name, site.types()});
    for (const auto& body : op.bodies)
      collect(*body, target, false, found);
  };
  if (whole)
    visit(module_of(program));
  for (const Operation& op : program.operations)
    visit(op);
}

std::vector<Violation> collect(const Program& program, const Target& target) {
  std::vector<Violation> found;
  collect(program, target, true, found);
  return found;
}

// One round of rewrites over a flat program and its regions.
class Rewriter {
 public:
  Rewriter(const Target& target, Report& report)
      : target_(target), report_(report) {}

  Program run(const Program& program) {
    const Definitions defined_by = definitions(program);
    Builder b(program.name);
    Values values(program.types.size());
    for (Value v : program.parameters)
      values[v.id] = b.parameter(program.type(v));
    for (const Operation& op : program.operations) {
      const Site site{program, defined_by, op, target_};
      const Values results = emit(b, site, values);
      for (size_t i = 0; i < results.size(); ++i)
        values[op.results[i].id] = results[i];
    }
    Values results;
    for (Value v : program.results)
      results.push_back(values[v.id]);
    return b.finish(results, program.aliases);
  }

 private:
  Values emit(Builder& b, const Site& site, const Values& values) {
    Values operands;
    for (Value v : site.op.operands)
      operands.push_back(values[v.id]);
    for (const Check& check : checks()) {
      if (!check.rewrite || !applies(check, site))
        continue;
      ++report_.rewrites;
      try {
        return check.rewrite(b, site, operands);
      } catch (const Inexpressible& error) {
        throw Illegal({&check.rule, site.op.name, site.types()}, error.what());
      }
    }
    Operation copy = site.op;
    std::vector<TensorType> types;
    for (Value v : site.op.results)
      types.push_back(site.program.type(v));
    copy.operands = operands;
    copy.results.clear();
    for (auto& body : copy.bodies)
      body = std::make_shared<const Program>(run(*body));
    return b.append(std::move(copy), std::move(types));
  }

  const Target& target_;
  Report& report_;
};

std::string text(const Violation& v, std::string_view reason) {
  const bool stuck = v.rule->rewritten && !reason.empty();
  return fmt::format(
      "[{}, {}] {} ({}): the compiler does not take {}{}{}{}.{}{}{}",
      v.rule->name,
      v.rule->codes,
      v.operation,
      v.types,
      v.rule->restriction,
      stuck            ? ", and this one is not rewritten because "
      : reason.empty() ? ""
                       : ": ",
      reason,
      v.rule->targets == name(Chip::Trn2) ? " on trn2" : "",
      stuck ? "" : " ",
      stuck ? "" : v.rule->remedy,
      stuck ? "" : ".");
}

}  // namespace

Chip chip(std::string_view name) {
  if (name == "trn2")
    return Chip::Trn2;
  if (name == "trn3")
    return Chip::Trn3;
  throw std::invalid_argument(
      fmt::format("expected trn2 or trn3, got '{}'", name));
}

std::string_view name(Chip chip) {
  return chip == Chip::Trn2 ? "trn2" : "trn3";
}

Definitions definitions(const Program& program) {
  Definitions defined_by(program.types.size());
  for (const Operation& op : program.operations)
    for (Value v : op.results)
      defined_by[v.id] = &op;
  return defined_by;
}

std::string Site::types() const {
  Types operands, results;
  for (Value v : op.operands)
    operands.push_back(program.type(v));
  for (Value v : op.results)
    results.push_back(program.type(v));
  const bool whole = op.name == "module";
  return fmt::format("{} -> {}",
                     ir::to_string(whole ? results : operands),
                     ir::to_string(whole ? operands : results));
}

std::string to_string(const Violation& violation) {
  return text(violation, "");
}

Illegal::Illegal(const Violation& violation, const std::string& reason)
    : std::runtime_error(text(violation, reason)), rule(violation.rule) {}

std::span<const Rule> rules() {
  static const auto* list = [] {
    auto* rules = new std::vector<Rule>;
    for (const Check& check : checks())
      rules->push_back(check.rule);
    return rules;
  }();
  return *list;
}

const Rule& rule(std::string_view name) {
  const auto all = rules();
  const auto found = std::find_if(
      all.begin(), all.end(), [&](const Rule& r) { return r.name == name; });
  if (found == all.end())
    throw std::logic_error(fmt::format("no rule is named {}", name));
  return *found;
}

std::optional<std::string> combiner(const Program& region) {
  if (region.results.size() != 1 || region.parameters.size() != 2)
    return std::nullopt;
  if (region.results[0] == region.parameters[1])
    return "";
  if (region.operations.size() != 1)
    return std::nullopt;
  const Operation& op = region.operations[0];
  Values operands = op.operands;
  std::sort(operands.begin(), operands.end(), [](Value a, Value b) {
    return a.id < b.id;
  });
  if (operands != region.parameters || op.results != region.results)
    return std::nullopt;
  return op.name;
}

Values lift(Builder& b,
            const Program& region,
            const Values& arguments,
            const Shape& shape) {
  Values values(region.types.size());
  for (size_t i = 0; i < arguments.size(); ++i)
    values[region.parameters[i].id] = arguments[i];
  for (const Operation& op : region.operations) {
    Operation lifted = op;
    std::vector<TensorType> types;
    for (Value& v : lifted.operands)
      v = values[v.id];
    for (Value v : op.results) {
      const TensorType& type = region.type(v);
      if (!type.shape.empty() || !op.bodies.empty())
        throw Inexpressible(fmt::format(
            "its region has {}, which is not elementwise", op.name));
      types.push_back({type.dtype, shape});
    }
    lifted.results.clear();
    if (op.name == "stablehlo.constant") {
      const Value scalar =
          b.append(std::move(lifted), {region.type(op.results[0])})[0];
      values[op.results[0].id] = b.broadcast(scalar, shape);
      continue;
    }
    const Values results = b.append(std::move(lifted), std::move(types));
    for (size_t i = 0; i < results.size(); ++i)
      values[op.results[i].id] = results[i];
  }
  Values results;
  for (Value v : region.results)
    results.push_back(values[v.id]);
  return results;
}

std::vector<Violation> violations(const Program& program,
                                  const Target& target) {
  Target plain = target;
  plain.custom_calls.clear();
  Report unused;
  // What type inference does not know cannot be copied; it is listed as it is.
  const bool has_composites =
      std::any_of(program.operations.begin(),
                  program.operations.end(),
                  [](const Operation& op) { return op.is_composite(); });
  return collect(
      has_composites ? Flattener(plain, unused).run(program) : program, target);
}

Program legalize(const Program& program,
                 const Target& target,
                 Report* report,
                 const AfterPass& after) {
  Report unused;
  Report& counts = report ? *report : unused;
  Program legal = Flattener(target, counts).run(program);
  const auto tell = [&](const char* name, size_t changes) {
    if (after)
      after({name, changes}, legal);
  };
  tell("expand composites", dead_code_elimination(legal));
  // Before the rewrites: folding would undo those of constants.
  tell("fold constants", fold_constants(legal));
  tell("sink transposes", sink_transposes(legal));
  tell("common subexpressions", common_subexpression_elimination(legal));
  const int64_t expanded = counts.rewrites;
  for (const DType dtype :
       {DType::Float64, DType::Complex64, DType::Float8E4M3FN})
    if (target.native_int64 || itemsize(dtype) < 8)
      if (dtype != DType::Float8E4M3FN || target.chip == Chip::Trn2)
        counts.rewrites += retype_moved(legal, dtype);
  for (int round = 0; round < kMaxRounds; ++round) {
    const int64_t before = counts.rewrites;
    legal = Rewriter(target, counts).run(legal);
    if (counts.rewrites == before)
      break;
  }
  if (!target.native_int64)
    legal = narrow(legal, target, counts);
  dead_code_elimination(legal);
  verify(legal);
  tell("legalize", static_cast<size_t>(counts.rewrites - expanded));
  if (const auto found = collect(legal, target); !found.empty())
    throw Illegal(found[0], "");
  return legal;
}

}  // namespace neuronx::ir::hardware

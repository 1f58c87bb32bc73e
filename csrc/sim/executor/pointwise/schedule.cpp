// SPDX-License-Identifier: Apache-2.0
// Orders the instructions of a region into chains and gives them slots.
#include <algorithm>
#include <optional>

#include "sim/executor/pointwise/build.h"

namespace neuronx::sim::pointwise {
namespace {

// The opcode with its first two operands exchanged.
std::optional<Opcode> exchanged(Opcode opcode) {
  switch (opcode) {
    using enum Opcode;
    case Add:
    case Mul:
    case Maximum:
    case Minimum:
    case Eq:
    case Ne:
    case And:
    case Or:
      return opcode;
    case Sub:
      return SubFrom;
    case Div:
      return DivInto;
    case Lt:
      return Gt;
    case Le:
      return Ge;
    case Gt:
      return Lt;
    case Ge:
      return Le;
    case Where:
      return WhereThen;
    default:
      return std::nullopt;
  }
}

// The pair of two steps.
std::optional<Opcode> paired(Opcode first, Opcode second) {
#define X(add, sub, mul, relu, ...) \
  Opcode::add, Opcode::sub, Opcode::mul, Opcode::relu,
  static constexpr Opcode kPairs[] = {NEURONX_POINTWISE_PAIRS(X)};
#undef X
  const auto place = [](Opcode opcode) {
    switch (opcode) {
      case Opcode::Add:
        return 0;
      case Opcode::Sub:
        return 1;
      case Opcode::Mul:
        return 2;
      case Opcode::Relu:
        return 3;
      default:
        return 4;
    }
  };
  const int a = place(first), b = place(second);
  return a < 3 && b < 4 ? std::optional(kPairs[4 * a + b]) : std::nullopt;
}

}  // namespace

class Schedule {
 public:
  using Register = Builder::Register;

  Schedule(const Builder& builder, const std::vector<Output>& outputs)
      : b_(builder),
        outputs_(outputs),
        ready_(b_.registers_, false),
        number_(b_.registers_),
        users_(b_.registers_),
        uses_(b_.registers_, 0),
        last_(b_.registers_, -1),
        slot_(b_.registers_, -1) {}

  Region run() {
    order();
    assign();
    return std::move(region_);
  }

 private:
  using Virtual = Builder::Virtual;
  // An operator within a chain: `b` and `c` besides the value passed on.
  struct Member {
    Opcode opcode;
    Register result, b, c;
  };
  // A function, or a chain that starts with the value of `first`.
  struct Group {
    const Virtual* function = nullptr;
    Register first = -1;
    std::vector<Member> members;
    Register result() const {
      return function ? function->result : members.back().result;
    }
  };

  // The operator with `value` as what is passed on to it.
  static std::optional<Member> member(const Virtual& i, Register value) {
    if (is_function(i.opcode))
      return std::nullopt;
    if (i.a == value)
      return Member{i.opcode, i.result, i.b, i.c};
    if (i.opcode == Opcode::AddScaled) {
      if (i.b == value)
        return Member{Opcode::ScaleAdd, i.result, i.c, i.a};
      return Member{Opcode::ScaleAdd, i.result, i.b, i.a};
    }
    if (i.opcode == Opcode::Where && i.c == value && i.b != value)
      return Member{Opcode::WhereElse, i.result, i.a, i.b};
    if (i.b == value)
      if (const auto opcode = exchanged(i.opcode))
        return Member{*opcode, i.result, i.a, i.c};
    return std::nullopt;
  }

  bool is_ready(const Virtual& i) const {
    for (Register r : {i.a, i.b, i.c})
      if (r >= 0 && !ready_[r])
        return false;
    return true;
  }

  // Chains follow a value as far as it goes: the first of its users that has
  // its other operands.
  void order() {
    for (const auto& [value, r] : b_.numbers_)
      ready_[r] = true, number_[r] = value;
    for (const auto& read : b_.reads_)
      ready_[read.result] = true;
    const auto& all = b_.instructions_;
    for (size_t k = 0; k < all.size(); ++k)
      for (Register r : {all[k].a, all[k].b, all[k].c})
        if (r >= 0)
          users_[r].push_back(k);
    std::vector<bool> done(all.size(), false);
    for (size_t k = 0; k < all.size(); ++k) {
      if (done[k])
        continue;
      done[k] = true;
      Group& group = groups_.emplace_back();
      ready_[all[k].result] = true;
      if (is_function(all[k].opcode)) {
        group.function = &all[k];
        continue;
      }
      // A number is better as operand than as the value passed on.
      group.first = all[k].a;
      if (number_[all[k].a] && all[k].b >= 0 && member(all[k], all[k].b))
        group.first = all[k].b;
      group.members.push_back(*member(all[k], group.first));
      for (bool extended = true; extended;) {
        extended = false;
        const Register value = group.members.back().result;
        for (size_t user : users_[value]) {
          if (done[user] || !is_ready(all[user]))
            continue;
          const auto next = member(all[user], value);
          if (!next)
            continue;
          group.members.push_back(*next);
          ready_[next->result] = true;
          done[user] = extended = true;
          break;
        }
      }
    }
  }

  bool is_immediate(const Member& m) const {
    return m.b >= 0 && m.c < 0 && number_[m.b].has_value();
  }

  // Calls f for each register that the group reads from a slot.
  template <typename F>
  void each_read(const Group& group, F&& f) const {
    if (group.function) {
      f(group.function->a);
      if (group.function->b >= 0)
        f(group.function->b);
      return;
    }
    f(group.first);
    for (const Member& m : group.members) {
      if (m.b >= 0 && !is_immediate(m))
        f(m.b);
      if (m.c >= 0)
        f(m.c);
    }
  }

  int16_t take(Register r) {
    if (free_.empty()) {
      slot_[r] = code().slots++;
    } else {
      slot_[r] = free_.back();
      free_.pop_back();
    }
    return slot_[r];
  }
  // Gives back what is not needed after group k.
  void give_back(Register r, int32_t k) {
    if (last_[r] == k && slot_[r] >= 0) {
      free_.push_back(slot_[r]);
      last_[r] = kNever;
    }
  }
  Code& code() { return region_.code; }

  void assign() {
    const auto end = static_cast<int32_t>(groups_.size());
    std::vector<int32_t> first(b_.registers_, end);
    for (int32_t k = 0; k < end; ++k)
      each_read(groups_[k], [&](Register r) {
        last_[r] = k;
        first[r] = std::min(first[r], k);
        ++uses_[r];
      });
    for (const Output& output : outputs_) {
      const Register r = b_.values_.at(output.value);
      last_[r] = end;
      ++uses_[r];
    }
    for (const auto& [value, r] : b_.numbers_) {
      if (uses_[r] == 0)
        continue;
      code().constants.push_back({take(r), value});
      last_[r] = kNever;
    }
    auto reads = b_.reads_;
    std::stable_sort(
        reads.begin(), reads.end(), [&](const auto& a, const auto& b) {
          return first[a.result] < first[b.result];
        });
    auto read = reads.begin();
    const auto load_before = [&](int32_t k) {
      for (; read != reads.end() && first[read->result] <= k; ++read) {
        code().loads.push_back({read->operand,
                                take(read->result),
                                read->dtype,
                                {},
                                {},
                                k,
                                read->shift});
        region_.shapes.push_back(read->shape);
      }
    };
    for (int32_t k = 0; k < end; ++k) {
      load_before(k);
      const Group& group = groups_[k];
      if (group.function)
        add_function(*group.function, k);
      else
        add_chain(group, k);
    }
    load_before(end);
    for (size_t k = 0; k < outputs_.size(); ++k)
      code().stores.push_back({static_cast<int32_t>(k),
                               slot_[b_.values_.at(outputs_[k].value)],
                               outputs_[k].dtype,
                               outputs_[k].reduction});
  }

  void add_function(const Virtual& f, int32_t k) {
    Instruction i{f.opcode, 0, slot_[f.a], slot_[f.b < 0 ? f.a : f.b]};
    give_back(f.a, k);
    if (f.b >= 0)
      give_back(f.b, k);
    i.result = take(f.result);
    if (last_[f.result] < 0)
      free_.push_back(i.result);
    code().instructions.push_back(i);
  }

  void add_chain(const Group& group, int32_t k) {
    Instruction i{Opcode::Neg, 0, slot_[group.first], slot_[group.first]};
    // What a chain keeps has slots that none of its operands has.
    for (const Member& m : group.members) {
      Link link{m.opcode, is_immediate(m), -1, -1, -1, 0};
      if (link.is_number)
        link.number = *number_[m.b];
      else if (m.b >= 0)
        link.b = slot_[m.b];
      if (m.c >= 0)
        link.c = slot_[m.c];
      if (&m != &group.members.back() && uses_[m.result] > 0)
        link.keep = take(m.result);
      Link* before = i.links > 0 ? &code().links.back() : nullptr;
      const auto pair = before && before->keep < 0
                            ? paired(before->opcode, link.opcode)
                            : std::nullopt;
      if (pair) {
        before->opcode = *pair;
        before->c = link.b;
        before->second = link.number;
        before->keep = link.keep;
        continue;
      }
      code().links.push_back(link);
      ++i.links;
    }
    each_read(group, [&](Register r) { give_back(r, k); });
    i.result = take(group.result());
    if (last_[group.result()] < 0)
      free_.push_back(i.result);
    code().instructions.push_back(i);
  }

  static constexpr int32_t kNever = INT32_MAX;

  const Builder& b_;
  const std::vector<Output>& outputs_;
  std::vector<bool> ready_;
  std::vector<std::optional<float>> number_;
  std::vector<std::vector<size_t>> users_;  // of registers, by instruction
  std::vector<int32_t> uses_;               // how often read from a slot
  std::vector<int32_t> last_;               // the last group that reads it
  std::vector<int16_t> slot_, free_;
  std::vector<Group> groups_;
  Region region_;
};

Region Builder::finish(const std::vector<Output>& outputs,
                       int64_t numel,
                       int64_t columns) {
  Region region = Schedule(*this, outputs).run();
  region.code.numel = numel;
  region.code.columns = columns;
  return region;
}

}  // namespace neuronx::sim::pointwise

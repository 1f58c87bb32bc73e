// SPDX-License-Identifier: Apache-2.0
#include "sim/executor/plan.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "common/strides.h"
#include "sim/executor/arena.h"
#include "sim/executor/fusion.h"
#include "sim/executor/step.h"
#include "sim/executor/views.h"

namespace neuronx::sim {
namespace {

constexpr int32_t kNever = -1;
constexpr int32_t kEnd = std::numeric_limits<int32_t>::max();

// Equal but for the strides of dimensions of size 1.
bool same_layout(const Location& a, const Location& b) {
  if (a.buffer != b.buffer || a.offset != b.offset || a.dtype != b.dtype ||
      a.size != b.size)
    return false;
  for (size_t d = 0; d < a.size.size(); ++d)
    if (a.size[d] != 1 && a.stride[d] != b.stride[d])
      return false;
  return true;
}

// The operand that a copying operation copies, converting its dtype; -1 for
// all others.
int32_t copied_operand(const FlatOp& op) {
  static const std::map<std::string, size_t> kCopies{
      {"aten._to_copy", 0},
      {"aten.clone", 0},
      {"aten.copy", 1},
      {"aten.contiguous", 0},
      {"aten.lift_fresh_copy", 0},
      {"aten.lift_fresh", 0},
      {"aten.lift", 0},
      {"aten.alias_copy", 0},
      {"aten.detach_copy", 0},
      {"aten.to.dtype", 0},
      {"aten.to.dtype_layout", 0},
      {"aten.to.device", 0}};
  std::string name = op.op->name;
  if (name.ends_with(".default"))
    name.resize(name.size() - 8);
  const auto entry = kCopies.find(name);
  if (!op.aten || entry == kCopies.end() ||
      op.op->arguments.size() <= entry->second)
    return -1;
  const auto* operand =
      std::get_if<ir::Operand>(&op.op->arguments[entry->second]);
  return operand ? op.operands[operand->index] : -1;
}

class Planner {
 public:
  Planner(Plan& plan, const Flat& flat, Interpreter& interpreter)
      : plan_(plan),
        flat_(flat),
        interpreter_(interpreter),
        values_(flat.types.size()),
        elided_(flat.ops.size()) {}

  void run() {
    for (size_t i = 0; i < flat_.parameters.size(); ++i) {
      const int32_t v = flat_.parameters[i];
      values_[v].place =
          whole(buffer(Buffer::Kind::Input, flat_.types[v], int32_t(i)),
                flat_.types[v]);
    }
    find_views();
    find_results();
    find_reads();
    choose_targets();
    for (size_t i = 0; i < flat_.ops.size(); ++i)
      if (!elided_[i])
        emit(int32_t(i));
    copy_results();
    finish();
  }

 private:
  struct Info {
    // The value whose memory this one looks at; itself if it has its own.
    int32_t root = -1;
    // Relative to the root's memory, which is row-major; roots have none.
    Location relative;
    // Of a root: where it is, once known.
    std::optional<Location> place;
    int32_t producer = kNever;
    int uses = 0;
    int32_t last_read = kNever;  // of a root, through any view
  };
  struct Result {
    int32_t value;
    Location to;
    bool done = false;
  };

  const ir::TensorType& type(int32_t v) const { return flat_.types[v]; }
  Info& root(int32_t v) { return values_[values_[v].root]; }

  Location location(int32_t v) {
    const Info& info = values_[v];
    if (info.root == v)
      return *info.place;
    Location result = info.relative;
    const Location& base = *values_[info.root].place;
    result.buffer = base.buffer;
    result.offset += base.offset;
    return result;
  }

  int32_t buffer(Buffer::Kind kind,
                 const ir::TensorType& type,
                 int32_t number = -1) {
    plan_.buffers.push_back(
        {kind, type.bytes(), make_storage(type.bytes()), number});
    return int32_t(plan_.buffers.size() - 1);
  }

  void find_views() {
    for (int32_t v = 0; v < int32_t(values_.size()); ++v)
      values_[v].root = v;
    for (int32_t i = 0; i < int32_t(flat_.ops.size()); ++i) {
      const FlatOp& op = flat_.ops[i];
      for (int32_t v : op.operands)
        ++values_[v].uses;
      for (int32_t v : op.results)
        values_[v].producer = i;
      if (op.operands.empty() || op.results.empty())
        continue;
      const int32_t x = op.operands[0];
      const Location from =
          values_[x].root == x ? whole(0, type(x)) : values_[x].relative;
      const auto locations = view(op, from, flat_.types);
      if (!locations)
        continue;
      elided_[i] = true;
      for (size_t k = 0; k < op.results.size(); ++k) {
        values_[op.results[k]].root = values_[x].root;
        values_[op.results[k]].relative = (*locations)[k];
      }
    }
    for (int32_t v : flat_.results)
      ++values_[v].uses;
  }

  // Where results go, looking through the layout operations at the end.
  void find_results() {
    for (size_t k = 0; k < flat_.results.size(); ++k) {
      const int32_t v = flat_.results[k];
      const int32_t alias = flat_.aliases[k];
      const int32_t to =
          alias >= 0 ? values_[flat_.parameters[alias]].place->buffer
                     : buffer(Buffer::Kind::Output, type(v), int32_t(k));
      Result result{v, whole(to, type(v))};
      const Info& info = values_[v];
      if (info.root == v && info.producer != kNever && info.uses == 1)
        look_through(result, info.producer, alias);
      results_.push_back(std::move(result));
    }
  }

  void look_through(Result& result, int32_t producer, int32_t alias) {
    const FlatOp& op = flat_.ops[producer];
    const auto stride = [&] {
      return std::get<ir::Shape>(*op.op->attribute("stride"));
    };
    if (op.op->name == "neuronx.to_strided") {
      result.value = op.operands[0];
      result.to.size = type(result.value).shape;
      result.to.stride = stride();
      elided_[producer] = true;
    } else if (op.op->name == "neuronx.as_strided_scatter" && alias >= 0 &&
               op.operands[0] == flat_.parameters[alias]) {
      result.value = op.operands[1];
      result.to.size = type(result.value).shape;
      result.to.stride = stride();
      result.to.offset = std::get<int64_t>(*op.op->attribute("offset")) *
                         int64_t(itemsize(result.to.dtype));
      elided_[producer] = true;
    }
  }

  void find_reads() {
    for (int32_t i = 0; i < int32_t(flat_.ops.size()); ++i)
      if (!elided_[i])
        for (int32_t v : flat_.ops[i].operands)
          root(v).last_read = i;
  }

  // Lets operations write results where they belong, unless something still
  // reads what is there.
  void choose_targets() {
    for (size_t k = 0; k < results_.size(); ++k) {
      Result& result = results_[k];
      const Info& info = values_[result.value];
      Info& from = root(result.value);
      if (from.place || from.producer == kNever ||
          flat_.ops[from.producer].op->name == "stablehlo.constant")
        continue;
      const ir::TensorType& root_type = type(info.root);
      const bool itself = info.root == result.value;
      const bool reshaped = !itself && info.relative.is_contiguous() &&
                            info.relative.numel() == root_type.numel() &&
                            info.relative.dtype == root_type.dtype;
      const bool dense = result.to.is_contiguous();
      if (!(itself ? dense || from.uses == 1 : reshaped && dense))
        continue;
      if (is_read_after(result.to.buffer, from.producer, k))
        continue;
      Location to = result.to;
      if (!itself) {
        to = whole(to.buffer, root_type);
        to.offset = result.to.offset;
      }
      from.place = to;
      result.done = true;
    }
  }

  // Whether the content that `buffer` has before the run is needed after
  // operation `producer` or for results other than k.
  bool is_read_after(int32_t buffer, int32_t producer, size_t k) {
    const Buffer& b = plan_.buffers[buffer];
    if (b.kind != Buffer::Kind::Input)
      return false;
    const int32_t parameter = flat_.parameters[b.number];
    if (values_[parameter].last_read > producer)
      return true;
    for (size_t other = 0; other < results_.size(); ++other)
      if (other != k && values_[results_[other].value].root == parameter)
        return true;
    return false;
  }

  void touch(int32_t buffer) {
    Buffer& b = plan_.buffers[buffer];
    const int32_t step = int32_t(plan_.steps.size());
    if (b.first < 0)
      b.first = step;
    b.last = step;
  }

  at::Tensor shell(const Location& location) {
    touch(location.buffer);
    return make_shell(plan_.buffers[location.buffer].storage, location);
  }

  void emit_copy(const Location& to, const Location& from) {
    if (to.numel() == 0 || same_layout(to, from))
      return;
    at::Tensor source = shell(from);
    if (from.size != to.size)
      source = source.expand(to.size);
    plan_.steps.push_back([to = shell(to), source] { sim::copy(to, source); });
  }

  Location emit_staged(const Location& from) {
    const ir::TensorType type{from.dtype, from.size};
    const Location to = whole(buffer(Buffer::Kind::Arena, type), type);
    emit_copy(to, from);
    return to;
  }

  // The root's place, a new buffer if it has none yet.
  const Location& place(int32_t v, Buffer::Kind kind) {
    auto& place = values_[v].place;
    if (!place)
      place = whole(buffer(kind, type(v)), type(v));
    return *place;
  }

  Sink sink(int32_t v) {
    const Location& to = place(v, Buffer::Kind::Dynamic);
    Buffer& b = plan_.buffers[to.buffer];
    return {shell(to), b.kind == Buffer::Kind::Dynamic ? &b : nullptr};
  }

  void emit(int32_t i) {
    const FlatOp& op = flat_.ops[i];
    const std::string& name = op.op->name;
    if (op.fused)
      emit_fused(i);
    else if (name == "stablehlo.constant")
      emit_constant(op);
    else if (name == "neuronx.as_strided_scatter")
      emit_scatter(op);
    else if (name == "neuronx.to_strided")
      emit_to_strided(op);
    else if (const int32_t from = copied_operand(op); from >= 0)
      emit_copying(op, from);
    else if (op.aten)
      emit_aten(i);
    else if (op.writer)
      emit_writer(op);
    else
      emit_evaluation(op);
  }

  void emit_constant(const FlatOp& op) {
    const int32_t v = op.results[0];
    const auto& bytes = std::get<std::string>(*op.op->attribute("value"));
    Buffer& b = plan_.buffers[place(v, Buffer::Kind::Constant).buffer];
    b.held = make_empty(type(v));
    std::copy(bytes.begin(),
              bytes.end(),
              static_cast<char*>(b.held.mutable_data_ptr()));
    point(*b.storage, b.held.mutable_data_ptr());
  }

  void emit_scatter(const FlatOp& op) {
    const Location to = place(op.results[0], Buffer::Kind::Arena);
    const Location extent = location(op.operands[0]);
    Location value = location(op.operands[1]);
    if (overlaps(value, to))
      value = emit_staged(value);
    emit_copy(to, extent);
    Location part = to;
    part.size = value.size;
    part.stride = std::get<ir::Shape>(*op.op->attribute("stride"));
    part.offset += std::get<int64_t>(*op.op->attribute("offset")) *
                   int64_t(itemsize(part.dtype));
    emit_copy(part, value);
  }

  void emit_to_strided(const FlatOp& op) {
    Location to = place(op.results[0], Buffer::Kind::Arena);
    Location from = location(op.operands[0]);
    if (overlaps(from, to))
      from = emit_staged(from);
    to.size = from.size;
    to.stride = std::get<ir::Shape>(*op.op->attribute("stride"));
    emit_copy(to, from);
  }

  void emit_copying(const FlatOp& op, int32_t v) {
    const Location to = place(op.results[0], Buffer::Kind::Arena);
    Location from = location(v);
    if (overlaps(from, to) && !same_layout(from, to))
      from = emit_staged(from);
    emit_copy(to, from);
  }

  struct Clash {
    bool any = false;       // an operand overlaps the destination
    bool exact = true;      // all that do have its layout
    bool only_self = true;  // none but argument 0 does
  };
  Clash clash(const FlatOp& op, const std::vector<Location>& to) {
    Clash result;
    for (size_t k = 0; k < op.operands.size(); ++k) {
      const Location from = location(op.operands[k]);
      for (const Location& destination : to) {
        if (!overlaps(from, destination))
          continue;
        result.any = true;
        result.exact &= same_layout(from, destination);
        result.only_self &= int32_t(k) == op.call->self();
      }
    }
    return result;
  }

  // The call form that writes correctly to `to`.
  // ATen 2.13's out forms of these leave a strided result as it was.
  static bool writes_strided(const FlatOp& op) {
    return !op.op->name.starts_with("aten.gelu") &&
           !op.op->name.starts_with("aten.narrow_copy") &&
           !op.op->name.starts_with("aten.avg_pool3d");
  }

  static bool all_contiguous(const std::vector<Location>& places) {
    return std::all_of(places.begin(), places.end(), [](const Location& place) {
      return place.is_contiguous();
    });
  }

  // Lists that an operator writes: its results may lie on them, and on nothing
  // else that it reads or writes.
  bool fits_lists(const FlatOp& op,
                  const std::vector<int32_t>& written,
                  const std::vector<Location>& to) {
    if (written.size() != to.size())
      return false;
    std::vector<Location> others;
    for (size_t k = 0; k < op.operands.size(); ++k)
      if (std::ranges::find(written, int32_t(k)) == written.end())
        others.push_back(location(op.operands[k]));
    std::set<std::pair<int32_t, int64_t>> seen;
    for (size_t k = 0; k < to.size(); ++k) {
      if (!same_layout(location(op.operands[written[k]]), to[k]) ||
          !seen.emplace(to[k].buffer, to[k].offset).second)
        return false;
      for (const Location& other : others)
        if (overlaps(other, to[k]))
          return false;
    }
    return true;
  }

  // Lists whose results go elsewhere are copied there and changed there: that
  // costs a pass less than results of their own, and no fresh memory.
  bool fits_copies(const FlatOp& op,
                   const std::vector<int32_t>& written,
                   const std::vector<Location>& to) {
    if (written.size() != to.size() || clash(op, to).any)
      return false;
    for (size_t k = 0; k < to.size(); ++k)
      if (type(op.operands[written[k]]) != type(op.results[k]))
        return false;
    return true;
  }

  Form form(const FlatOp& op, const std::vector<Location>& to) {
    // An undefined result has no elements and an arbitrary dtype.
    for (const Location& destination : to)
      if (destination.numel() == 0)
        return Form::Functional;
    if (!op.aten->written.empty()) {
      const auto written = op.call->written();
      return fits_lists(op, written, to) || fits_copies(op, written, to)
                 ? Form::InPlace
                 : Form::Functional;
    }
    const Clash c = clash(op, to);
    const bool out = op.aten->out &&
                     op.results.size() == op.aten->tensor_returns.size() &&
                     (writes_strided(op) || all_contiguous(to));
    if (!c.any)
      return out ? Form::Out : Form::Functional;
    if (!c.exact)
      return Form::Functional;
    const int32_t self = op.call->self();
    const bool onto_self = self >= 0 && to.size() == 1 &&
                           same_layout(location(op.operands[self]), to[0]);
    if (op.aten->in_place && onto_self && (c.only_self || op.aten->pointwise))
      return Form::InPlace;
    return op.aten->pointwise && out ? Form::Out : Form::Functional;
  }

  // An operand of the result's type that nothing needs any more.
  std::optional<Location> reusable(int32_t i) {
    const FlatOp& op = flat_.ops[i];
    const int32_t result = op.results[0];
    for (int32_t v : op.operands) {
      const Info& info = values_[v];
      if (info.root != v || info.last_read != i || type(v) != type(result) ||
          is_result(v) || !info.place->is_contiguous())
        continue;
      const auto kind = plan_.buffers[info.place->buffer].kind;
      if ((kind == Buffer::Kind::Arena || kind == Buffer::Kind::Dynamic) &&
          form(op, {*info.place}) != Form::Functional)
        return info.place;
    }
    return std::nullopt;
  }

  bool is_result(int32_t v) const {
    return std::any_of(
        results_.begin(), results_.end(), [&](const Result& result) {
          return values_[result.value].root == v;
        });
  }

  void emit_aten(int32_t i) {
    const FlatOp& op = flat_.ops[i];
    if (op.results.size() == 1 && !values_[op.results[0]].place)
      values_[op.results[0]].place = reusable(i);
    const bool out =
        op.aten->out && op.results.size() == op.aten->tensor_returns.size();
    std::vector<Location> to;
    const bool into = out || !op.aten->written.empty();
    for (int32_t v : op.results)
      to.push_back(
          place(v, into ? Buffer::Kind::Arena : Buffer::Kind::Dynamic));
    AtenStep step{op.op->name, op.call, form(op, to), {}, {}};
    std::map<size_t, Location> moved;  // operands, to where results go
    if (step.form == Form::InPlace && !op.aten->written.empty()) {
      const auto written = op.call->written();
      for (size_t k = 0; k < written.size(); ++k) {
        emit_copy(to[k], location(op.operands[written[k]]));
        moved[written[k]] = to[k];
      }
    }
    plan_.pointwise =
        flat_.ops.size() == 1 && op.aten->pointwise && to[0].is_contiguous();
    for (size_t k = 0; k < op.operands.size(); ++k) {
      const auto elsewhere = moved.find(k);
      Location from = elsewhere == moved.end() ? location(op.operands[k])
                                               : elsewhere->second;
      plan_.pointwise &= from.is_contiguous();
      // A view that these strides do not allow has those of a dense operand.
      const bool dense =
          op.aten->view || op.op->name.starts_with("aten.native_group_norm");
      if (dense && !from.is_contiguous())
        from = emit_staged(from);
      step.operands.push_back(shell(from));
    }
    for (int32_t v : op.results)
      step.sinks.push_back(sink(v));
    step.bind();
    plan_.steps.push_back(std::move(step));
  }

  // Where the regions of an operation read and write.
  struct FusedPlaces {
    std::vector<size_t> last_read;  // of each operand, the stage
    std::vector<size_t> written;    // of each result, the stage
    std::vector<bool> dense;        // operands that have to be
    // Operands of which each number is read for the number in its place alone;
    // others are broadcast, or reduced.
    std::vector<bool> in_place;
    std::vector<Location> to, from;
    // Results with gaps are computed apart.
    std::vector<std::pair<Location, Location>> copies;
  };

  // An operand that a result of a region may lie over: each block of it is read
  // before it is written.
  std::optional<Location> reusable(int32_t i,
                                   int32_t result,
                                   const FusedPlaces& places) {
    const FlatOp& op = flat_.ops[i];
    for (size_t k = 0; k < op.operands.size(); ++k) {
      const int32_t v = op.operands[k];
      const Info& info = values_[v];
      if (!places.in_place[k] || info.root != v || info.last_read != i ||
          type(v) != type(result) || is_result(v) ||
          std::ranges::count(op.results, v) > 0 ||
          !info.place->is_contiguous() ||
          plan_.buffers[info.place->buffer].kind != Buffer::Kind::Arena)
        continue;
      if (std::ranges::none_of(places.to, [&](const Location& other) {
            return overlaps(other, *info.place);
          }))
        return info.place;
    }
    return std::nullopt;
  }

  void emit_fused(int32_t i) {
    const FlatOp& op = flat_.ops[i];
    const auto& stages = op.fused->stages;
    FusedPlaces places{std::vector<size_t>(op.operands.size()),
                       std::vector<size_t>(op.results.size()),
                       std::vector<bool>(op.operands.size()),
                       std::vector<bool>(op.operands.size(), true),
                       {},
                       {},
                       {}};
    for (size_t s = 0; s < stages.size(); ++s) {
      for (const auto& load : stages[s].code.loads) {
        places.last_read[load.operand] = s;
        if (load.shift > 0)
          places.dense[load.operand] = true;
        if (type(op.operands[load.operand]).numel() != stages[s].code.numel)
          places.in_place[load.operand] = false;
      }
      for (const auto& store : stages[s].code.stores)
        places.written[store.result] = s;
    }
    place_fused(i, places);
    FusedStep step{{op.fused->rows, op.fused->columns, {}}, {}, {}, {}, {}};
    for (const pointwise::Region& stage : stages) {
      pointwise::Code code = stage.code;
      for (size_t k = 0; k < code.loads.size(); ++k) {
        const Location& from = places.from[code.loads[k].operand];
        pointwise::set_layout(
            code.loads[k], from.size, from.stride, stage.shapes[k]);
      }
      step.stack.stages.push_back(std::move(code));
    }
    for (const Location& place : places.from)
      step.operands.push_back(shell(place));
    for (const Location& place : places.to)
      step.results.push_back(shell(place));
    plan_.steps.push_back(std::move(step));
    for (const auto& [destination, dense] : places.copies)
      emit_copy(destination, dense);
  }

  void place_fused(int32_t i, FusedPlaces& places) {
    const FlatOp& op = flat_.ops[i];
    const size_t last = op.fused->stages.size() - 1;
    for (size_t k = 0; k < op.results.size(); ++k) {
      const int32_t v = op.results[k];
      auto& place = values_[v].place;
      if (!place && places.written[k] == last)
        place = reusable(i, v, places);
      places.to.push_back(this->place(v, Buffer::Kind::Arena));
    }
    for (size_t k = 0; k < places.to.size(); ++k) {
      Location& to = places.to[k];
      if (to.is_contiguous())
        continue;
      const auto& type = this->type(op.results[k]);
      const Location dense = whole(buffer(Buffer::Kind::Arena, type), type);
      places.copies.emplace_back(std::exchange(to, dense), dense);
    }
    for (size_t k = 0; k < op.operands.size(); ++k) {
      const int32_t v = op.operands[k];
      const auto own = std::ranges::find(op.results, values_[v].root);
      if (own != op.results.end()) {
        // From one stage to a later one, as a view of the same order.
        const Location& to = places.to[own - op.results.begin()];
        Location from = whole(to.buffer, type(v));
        from.offset = to.offset;
        places.from.push_back(from);
        continue;
      }
      const Location from = location(v);
      const auto clashes = [&](size_t result) {
        const Location& to = places.to[result];
        return overlaps(from, to) &&
               !(places.in_place[k] && from.is_contiguous() &&
                 from.offset == to.offset && from.numel() == to.numel() &&
                 itemsize(from.dtype) == itemsize(to.dtype) &&
                 places.last_read[k] <= places.written[result]);
      };
      bool clash = places.dense[k] && !from.is_contiguous();
      for (size_t result = 0; result < places.to.size(); ++result)
        clash |= clashes(result);
      places.from.push_back(clash ? emit_staged(from) : from);
    }
  }

  void emit_writer(const FlatOp& op) {
    std::vector<Location> to;
    for (int32_t v : op.results)
      to.push_back(place(v, Buffer::Kind::Arena));
    Tensors operands, results;
    for (int32_t v : op.operands) {
      Location from = location(v);
      const bool clashes =
          std::ranges::any_of(to, [&](const Location& destination) {
            return overlaps(from, destination);
          });
      if (clashes || !from.is_contiguous())
        from = emit_staged(from);
      operands.push_back(shell(from));
    }
    std::vector<std::pair<Location, Location>> copies;
    for (const Location& destination : to) {
      Location written = destination;
      if (!destination.is_contiguous()) {
        const ir::TensorType type{destination.dtype, destination.size};
        written = whole(buffer(Buffer::Kind::Arena, type), type);
        copies.emplace_back(destination, written);
      }
      results.push_back(shell(written));
    }
    plan_.steps.push_back([op = op.op, writer = op.writer, operands, results] {
      writer(*op, operands, results);
    });
    for (const auto& [destination, written] : copies)
      emit_copy(destination, written);
  }

  void emit_evaluation(const FlatOp& op) {
    Tensors operands;
    for (int32_t v : op.operands)
      operands.push_back(shell(location(v)));
    std::vector<Sink> sinks;
    std::vector<ir::TensorType> types;
    for (int32_t v : op.results) {
      sinks.push_back(sink(v));
      types.push_back(type(v));
    }
    if (op.native) {
      plan_.steps.push_back([op = op.op, native = op.native, operands, sinks] {
        store(op->name, sinks, native(*op, operands), operands);
      });
      return;
    }
    plan_.steps.push_back(
        [op = op.op, &interpreter = interpreter_, operands, sinks, types] {
          store(op->name,
                sinks,
                interpreter.operation(*op, operands, types),
                operands);
        });
  }

  void copy_results() {
    std::vector<std::pair<Location, Location>> copies;
    for (const Result& result : results_)
      if (!result.done)
        copies.emplace_back(result.to, location(result.value));
    // A source that one of the copies overwrites is read first.
    for (auto& [to, from] : copies) {
      if (same_layout(to, from))
        continue;
      for (const auto& [other, unused] : copies)
        if (overlaps(other, from)) {
          from = emit_staged(from);
          break;
        }
    }
    for (const auto& [to, from] : copies)
      emit_copy(to, from);
  }

  // Releases what dynamic buffers hold after its last use.
  void finish() {
    std::map<int32_t, std::vector<Buffer*>> released;
    for (Buffer& b : plan_.buffers)
      if (b.kind == Buffer::Kind::Dynamic && b.last >= 0)
        released[b.last].push_back(&b);
    std::vector<std::function<void()>> steps;
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      steps.push_back(std::move(plan_.steps[i]));
      if (released.contains(int32_t(i)))
        steps.push_back([buffers = released[int32_t(i)]] {
          for (Buffer* b : buffers)
            b->held.reset();
        });
    }
    plan_.steps = std::move(steps);
    plan_.arena_bytes = layout_arena(plan_.buffers);
  }

  Plan& plan_;
  const Flat& flat_;
  Interpreter& interpreter_;
  std::vector<Info> values_;
  std::vector<bool> elided_;
  std::vector<Result> results_;
};

}  // namespace

void make_plan(Plan& plan, const Flat& flat, Interpreter& interpreter) {
  Planner(plan, flat, interpreter).run();
}

}  // namespace neuronx::sim

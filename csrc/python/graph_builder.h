// SPDX-License-Identifier: Apache-2.0
// GraphBuilder: a Program under construction, as Python sees it. Values are
// their ids.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <pybind11/pybind11.h>

#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ir/builder.h"

namespace neuronx::python {

// "aten::add.Tensor", "aten::relu" or "aten::relu.default".
c10::OperatorHandle find_op(std::string name);

class GraphBuilder {
 public:
  using Ids = std::vector<int32_t>;
  // (dtype, or None for an undefined tensor; shape) of each result.
  using Types = std::vector<std::pair<pybind11::object, std::vector<int64_t>>>;
  // Adds the contents of a region: gets its parameters, gives its results.
  using Body = std::function<Ids(GraphBuilder&, const Ids&)>;

  // Of a whole graph.
  explicit GraphBuilder(std::string name);
  // Of part of `body`, whose parameters for the tensors of a call are
  // `operands`.
  GraphBuilder(ir::Builder& body, ir::Values operands);

  int32_t parameter(size_t i) const { return operands_.at(i).id; }
  int32_t tensor_parameter(const pybind11::handle& dtype, ir::Shape shape);
  // A runtime scalar.
  int32_t number_parameter(bool floating);
  int32_t constant(const pybind11::handle& dtype,
                   ir::Shape shape,
                   const pybind11::bytes& data);
  std::pair<std::string, ir::Shape> type(int32_t id) const;

  // Adds the operator by its lowering. Throws lowering::Unsupported.
  Ids call(const std::string& name,
           const pybind11::list& arguments,
           const Types& types);
  // Adds the operator as a composite whose decomposition `body` gives.
  Ids composite(const std::string& name,
                const pybind11::list& arguments,
                const Types& types,
                const Body& body);
  // Adds an operator that draws random numbers. `name` is its name in the
  // table of random operators, as in "aten::uniform_"; `generator` is the
  // argument of the graph that draws, -1 for the device's own. `blocks` is a
  // runtime scalar that says how many Philox blocks the call uses up, -1: as
  // many as its elements need.
  Ids draw(const std::string& name,
           const pybind11::list& arguments,
           const Types& types,
           int32_t generator,
           int32_t blocks);
  // Seed and offset of what the device's own generator draws next, to hand to
  // a part; the part draws from these, and the blocks that it may use up are
  // skipped here.
  std::pair<int32_t, int32_t> random_state();
  void set_random_state(int32_t seed, int32_t offset);
  void skip_random_blocks(uint64_t blocks);

  int32_t as_strided(int32_t extent,
                     const ir::Shape& size,
                     const ir::Shape& stride);
  int32_t as_strided_scatter(int32_t extent,
                             int32_t value,
                             const ir::Shape& stride);
  int32_t to_strided(int32_t value, const ir::Shape& stride);
  int32_t convert(int32_t value, const pybind11::handle& dtype);
  int32_t reshape(int32_t value, const ir::Shape& shape);
  int32_t dynamic_slice(int32_t value, const Ids& start, const ir::Shape& size);
  int32_t dynamic_update_slice(int32_t value, int32_t update, const Ids& start);

  Ids conditional(int32_t index,
                  const Ids& captures,
                  const std::vector<Body>& branches);
  Ids while_loop(const Ids& init, const Body& condition, const Body& body);

  // The results of a part; -1: undefined.
  void finish(const Ids& ids);
  const std::optional<ir::Values>& results() const { return results_; }

  // The whole graph: its parameters in order of creation, scalars last.
  // `aliases` as in Program, counting tensor parameters.
  ir::Program build(const Ids& results, std::vector<int32_t> aliases);
  int scalar_count() const;
  // (generator, Philox blocks that a call uses up, scalars that say how many
  // more), in the order of their seeds and offsets among the scalars.
  using Draws = std::tuple<int32_t, uint64_t, std::vector<int32_t>>;
  std::vector<Draws> draws() const;

 private:
  ir::Region region(const Body& body);
  ir::Values values(const Ids& ids) const;

  struct Source {
    int32_t generator;
    ir::Value seed, offset;
    // Blocks behind `next` that are used up.
    uint64_t blocks = 0;
    ir::Value next = offset;
    std::vector<int32_t> numbers = {};  // that `next` has added to `offset`
  };
  Source& source(int32_t generator);
  ir::Value next_offset(const Source& source);

  std::optional<ir::Builder> own_;
  ir::Builder* builder_;
  ir::Values operands_;
  std::optional<ir::Values> results_;
  ir::Values tensors_, numbers_;
  std::vector<Source> sources_;
};

}  // namespace neuronx::python

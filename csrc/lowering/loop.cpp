// SPDX-License-Identifier: Apache-2.0
#include "lowering/loop.h"

namespace neuronx::lowering {

using ir::Builder;

Values loop(Builder& b,
            int64_t trips,
            const Values& state,
            const Values& fixed,
            const LoopBody& body) {
  if (trips == 0) {
    return state;
  }
  Values carried{b.constant(DType::Int32, 0)};
  carried.insert(carried.end(), state.begin(), state.end());
  carried.insert(carried.end(), fixed.begin(), fixed.end());
  const auto last = static_cast<std::ptrdiff_t>(state.size()) + 1;
  auto results = b.while_loop(
      carried,
      [trips](Builder& r, const Values& v) -> Values {
        return {
            r.compare(ir::Compare::LT, v[0], r.constant(DType::Int32, trips))};
      },
      [&](Builder& r, const Values& v) -> Values {
        const Values kept(v.begin() + last, v.end());
        Values next{r.add(v[0], r.constant(DType::Int32, 1))};
        for (Value x : body(r, v[0], {v.begin() + 1, v.begin() + last}, kept)) {
          next.push_back(x);
        }
        next.insert(next.end(), kept.begin(), kept.end());
        return next;
      });
  return {results.begin() + 1, results.begin() + last};
}

}  // namespace neuronx::lowering

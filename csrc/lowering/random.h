// SPDX-License-Identifier: Apache-2.0
// Bits of the operation's own stream as numbers of simple distributions.
#pragma once

#include "lowering/math.h"

namespace neuronx::lowering {

using ir::Builder;

// The first n words of the stream whose seed and offset are arguments 1 and
// 2: uint32[n], or uint32[n, per_element].
Value random_words(Op& op, int64_t n);
Value random_words(Op& op, int64_t n, int64_t per_element);

// uint32 words as float32: exponential in (0, inf) with rate 1, normal with
// mean 0 and variance 1. (unit in math.h: uniform in [0, 1).)
Value exponential(Builder& b, Value bits);
Value normal(Builder& b, Value first, Value second);

// Number or tensor argument i, float32 over the result's shape.
Value random_number(Op& op, int i, double fallback);

}  // namespace neuronx::lowering

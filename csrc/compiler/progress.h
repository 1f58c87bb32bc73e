// SPDX-License-Identifier: Apache-2.0
// One line on a terminal while programs compile. Nothing is written when
// stderr is no terminal; TORCH_NEURONX_PROGRESS=0 or 1 decides instead.
#pragma once

#include <string>

namespace neuronx::compiler::progress {

void set_enabled(bool enabled);

// A compilation, for the scope's life.
class Scope {
 public:
  explicit Scope(std::string label);
  ~Scope();
  // Counts towards the estimate of later ones.
  void finished();
  Scope(const Scope&) = delete;

 private:
  bool finished_ = false;
};

// Writes the line anew, at most twice a second and not in the first second.
void draw();

}  // namespace neuronx::compiler::progress

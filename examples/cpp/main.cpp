// SPDX-License-Identifier: Apache-2.0
// Trains a two-layer perceptron on device "neuron" and on the CPU, from the
// same numbers, and compares the losses.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <torch_neuronx.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

namespace {

constexpr int kSteps = 20;
constexpr double kRate = 0.05;

// The loss of each step.
std::vector<double> train(const at::Device& device) {
  const auto generator = at::detail::createCPUGenerator(/*seed=*/42);
  const auto random = [&](at::IntArrayRef size, double scale) {
    return at::randn(size, generator).mul(scale).to(device);
  };
  const auto x = random({64, 8}, 1);
  const auto y = x.square().mean(/*dim=*/1, /*keepdim=*/true);
  std::vector<at::Tensor> parameters = {random({8, 32}, 0.35),
                                        random({32}, 0.1),  // first layer
                                        random({32, 1}, 0.18),
                                        random({1}, 0.1)};  // second layer
  for (auto& parameter : parameters) {
    parameter.requires_grad_();
  }

  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    const auto hidden = at::relu(at::addmm(parameters[1], x, parameters[0]));
    const auto predicted = at::addmm(parameters[3], hidden, parameters[2]);
    const auto loss = at::mse_loss(predicted, y);
    loss.backward();
    losses.push_back(loss.item<double>());

    at::NoGradGuard no_grad;
    for (auto& parameter : parameters) {
      parameter.sub_(parameter.grad(), kRate);
      parameter.mutable_grad().reset();
    }
  }
  return losses;
}

}  // namespace

int main() {
  torch_neuronx::initialize();

  const auto neuron = train(at::Device("neuron"));
  const auto cpu = train(at::kCPU);
  double difference = 0;
  for (int step = 0; step < kSteps; ++step) {
    std::printf("step %2d   loss on neuron %.6f   on the CPU %.6f\n",
                step,
                neuron[step],
                cpu[step]);
    difference = std::max(difference, std::abs(neuron[step] - cpu[step]));
  }
  std::printf("largest difference %.1e\n", difference);
  const bool learned = neuron.back() < 0.5 * neuron.front();
  return learned && difference < 1e-5 ? 0 : 1;
}

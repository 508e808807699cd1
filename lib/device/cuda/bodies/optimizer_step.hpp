// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The code of a GPU thread in optimizer steps: the formulas of kernels/optimizer_step, with the same order of
// operations.

#pragma once

#include "device/cuda/bodies/packs.hpp"
#include "kernels/optimizer_step.hpp"

#include <cmath>

namespace lockstep::detail::cuda {

// Each class defines how many arrays a step writes and how many arrays it only reads. Its operator() computes one
// element of each written array. `outputs` contain the old values of these elements, unless `replaces` is true.

struct SgdStep {
  static constexpr int written = 1;
  static constexpr int read = 1;
  static constexpr bool replaces = false;
  float rate;

  LOCKSTEP_DEVICE void operator()(float (&outputs)[written], const float (&inputs)[read]) const {
    auto& [p] = outputs;
    const auto& [g] = inputs;
    p = p - rate * g;
  }
};

struct MomentumStep {
  static constexpr int written = 2;
  static constexpr int read = 1;
  static constexpr bool replaces = false;
  float rate;
  float momentum;

  LOCKSTEP_DEVICE void operator()(float (&outputs)[written], const float (&inputs)[read]) const {
    auto& [p, m] = outputs;
    const auto& [g] = inputs;
    m = momentum * m - rate * g;
    p = p + m;
  }
};

struct AdamMoments {
  static constexpr int written = 2;
  static constexpr int read = 1;
  static constexpr bool replaces = false;
  float beta_1;
  float beta_2;

  LOCKSTEP_DEVICE void operator()(float (&outputs)[written], const float (&inputs)[read]) const {
    auto& [m, v] = outputs;
    const auto& [g] = inputs;
    m = beta_1 * m + (1.0F - beta_1) * g;
    v = beta_2 * v + (1.0F - beta_2) * (g * g);
  }
};

struct AdamStep {
  static constexpr int written = 3;
  static constexpr int read = 1;
  static constexpr bool replaces = false;
  AdamFactors factors;

  LOCKSTEP_DEVICE void operator()(float (&outputs)[written], const float (&inputs)[read]) const {
    auto& [p, m, v] = outputs;
    float moments[]{m, v};
    AdamMoments{factors.beta_1, factors.beta_2}(moments, inputs);
    m = moments[0];
    v = moments[1];
    p = p - factors.rate * m / (std::sqrt(v) + factors.epsilon);
  }
};

struct LambDirection {
  static constexpr int written = 1;
  static constexpr int read = 3;
  static constexpr bool replaces = true;
  LambFactors factors;

  LOCKSTEP_DEVICE void operator()(float (&outputs)[written], const float (&inputs)[read]) const {
    const auto& [p, m, v] = inputs;
    const float mean = m / factors.correction_1;
    const float square = v / factors.correction_2;
    outputs[0] = mean / (std::sqrt(square) + factors.epsilon) + factors.weight_decay * p;
  }
};

/// The arguments of an optimizer step kernel. `optimizer_step_arguments` makes them.
template <class Step>
struct OptimizerStepArguments {
  Step step;
  Split split = {};
  float* outputs[Step::written] = {};
  const float* inputs[Step::read] = {};
};

inline constexpr int optimizer_step_lanes = 4;

/// The work of one thread in an optimizer step.
template <class Step, class Memory>
LOCKSTEP_DEVICE void optimizer_step(const OptimizerStepArguments<Step>& arguments, const Worker& worker) {
  using Floats = Pack<float, optimizer_step_lanes>;
  for_each_place<Memory, optimizer_step_lanes, 1>(arguments.split, worker, [&]<class Place>(const Place(&places)[1]) {
    const Place& place = places[0];
    Floats outputs[Step::written];
    Floats inputs[Step::read];
    if constexpr (!Step::replaces) {
      for (int a = 0; a < Step::written; ++a) outputs[a] = place.template load<float>(arguments.outputs[a]);
    }
    for (int a = 0; a < Step::read; ++a) inputs[a] = place.template load<float>(arguments.inputs[a]);
    for (int l = 0; l < optimizer_step_lanes; ++l) {
      float written[Step::written];
      float read[Step::read];
      for (int a = 0; a < Step::written; ++a) written[a] = outputs[a].at[l];
      for (int a = 0; a < Step::read; ++a) read[a] = inputs[a].at[l];
      arguments.step(written, read);
      for (int a = 0; a < Step::written; ++a) outputs[a].at[l] = written[a];
    }
    for (int a = 0; a < Step::written; ++a) place.store(outputs[a], arguments.outputs[a]);
  });
}

}  // namespace lockstep::detail::cuda

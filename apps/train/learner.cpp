// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "train/learner.hpp"

#include <cmath>
#include <numbers>
#include <utility>

namespace train {
namespace {

using Variables = std::vector<lockstep::MirroredVariable<float>>;

/// A uniform number in (0, 1], by counter: splitmix64.
double uniform(std::uint64_t key, std::uint64_t index) {
  std::uint64_t word = key + (index + 1) * 0x9e3779b97f4a7c15u;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9u;
  word = (word ^ (word >> 27)) * 0x94d049bb133111ebu;
  return static_cast<double>(((word ^ (word >> 31)) >> 11) + 1) * 0x1p-53;
}

/// Box and Muller (1958).
std::vector<float> normal_values(std::int64_t count, float stddev, std::uint64_t key) {
  std::vector<float> values(static_cast<std::size_t>(count));
  if (stddev == 0) return values;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double radius = std::sqrt(-2 * std::log(uniform(key, 2 * i)));
    values[i] = static_cast<float>(stddev * radius * std::cos(2 * std::numbers::pi * uniform(key, 2 * i + 1)));
  }
  return values;
}

}  // namespace

Learner::Learner(const ModelMaker& make_model, const lockstep::ReplicaContext& replica)
    : model_(make_model(replica.devices().front())),
      parameters_(model_->parameters().size()),
      loss_(lockstep::DType::f64, lockstep::Shape{}, lockstep::Device{}, replica.devices().front()) {
  const lockstep::Device device = replica.devices().front();
  const lockstep::Device place = model_->is_on_gpu() ? device : lockstep::Device{};
  for (const ParameterSpec& spec : model_->parameters()) {
    StagedArray& array =
        arrays_.emplace_back(lockstep::DType::f32, lockstep::Shape{spec.element_count()}, place, device);
    gradient_addresses_.push_back(static_cast<float*>(array.written()));
    gradients_.push_back(array.on_device());
  }
  contributions_.assign(gradients_.rbegin(), gradients_.rend());
  contributions_.push_back(loss_.on_device());
}

std::span<const float* const> Learner::addresses(const Variables& parameters) {
  parameter_addresses_.clear();
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    const lockstep::ConstTensorView array = parameters[k].view();
    parameter_addresses_.push_back(model_->is_on_gpu() ? static_cast<const float*>(array.data)
                                                       : parameters_[k].read(array));
  }
  return parameter_addresses_;
}

void Learner::differentiate(const Variables& parameters, const lockstep::Tensor& images, const lockstep::Tensor& labels,
                            std::int64_t global_batch, const GradientsReady& ready) {
  const float scale = 1.0f / static_cast<float>(global_batch);
  const auto computed = [&](std::size_t k) {
    arrays_[k].send();
    ready(arrays_.size() - 1 - k);
  };
  const double loss = model_->loss_and_gradients(addresses(parameters), static_cast<const float*>(images.data()),
                                                 static_cast<const std::uint8_t*>(labels.data()), images.shape()[0],
                                                 scale, gradient_addresses_, computed);
  *static_cast<double*>(loss_.written()) = loss / static_cast<double>(global_batch);
  loss_.send();
}

std::int64_t Learner::correct(const Variables& parameters, const lockstep::Tensor& images,
                              const lockstep::Tensor& labels) {
  return model_->correct(addresses(parameters), static_cast<const float*>(images.data()),
                         static_cast<const std::uint8_t*>(labels.data()), images.shape()[0]);
}

std::vector<std::vector<lockstep::TensorView>> contributions_of(const lockstep::PerReplica<Learner>& learners) {
  std::vector<std::vector<lockstep::TensorView>> lists;
  for (int i = 0; i < learners.size(); ++i) lists.push_back(learners.component(i).contributions());
  return lists;
}

Variables make_parameters(lockstep::Strategy& strategy, const Model& model, std::uint64_t seed) {
  Variables parameters;
  for (const ParameterSpec& spec : model.parameters()) {
    const std::uint64_t key = seed * 0xd1342543de82ef95u + parameters.size() * 0x2545f4914f6cdd1du;
    parameters.push_back(strategy.variable<float>(
        [&] { return normal_values(spec.element_count(), spec.initial_stddev, key); }, {.name = spec.name}));
  }
  return parameters;
}

std::unique_ptr<lockstep::Optimizer> make_optimizer(const Options& options, lockstep::Strategy& strategy,
                                                    const Variables& parameters) {
  if (options.optimizer == "adam") return std::make_unique<lockstep::Adam>(strategy, parameters);
  const float momentum = options.optimizer == "momentum" ? 0.9f : 0.0f;
  return std::make_unique<lockstep::Sgd>(strategy, parameters, lockstep::SgdOptions{.momentum = momentum});
}

}  // namespace train

// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/checkpoint/checkpoint.hpp>
#include <lockstep/training/sharded_optimizer.hpp>

#include "support/temporary_directory.hpp"
#include "unit/strategy/strategies.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <mutex>

namespace lockstep::test {
namespace {

using Parameters = std::vector<MirroredVariable<float>>;
using Step = std::function<void(ReplicaContext&, const std::vector<std::span<float>>&)>;

constexpr std::array<std::size_t, 5> sizes{37, 1, 1000, 3, 64};  // divisible by the number of replicas, or not
constexpr float learning_rate = 0.01F;

Parameters make_parameters(Strategy& strategy) {
  Parameters parameters;
  for (const std::size_t size : sizes) {
    std::vector<float> initial(size);
    for (std::size_t i = 0; i < size; ++i) initial[i] = std::cos(static_cast<float>(i + size));
    parameters.push_back(strategy.variable<float>(initial, {.name = "w" + std::to_string(size)}));
  }
  return parameters;
}

/// Steps `first` up to `last`, with gradients that depend on replica and step.
void train(Strategy& strategy, const Step& apply, int first, int last) {
  for (int step = first; step < last; ++step) {
    strategy.run([&](ReplicaContext& replica) {
      std::vector<std::vector<float>> gradients;
      std::vector<std::span<float>> spans;
      for (const std::size_t size : sizes) {
        auto& gradient = gradients.emplace_back(size);
        for (std::size_t i = 0; i < size; ++i)
          gradient[i] =
              std::sin(static_cast<float>(i) + static_cast<float>(replica.replica_id_in_sync_group() + 5 * step));
      }
      for (auto& gradient : gradients) spans.emplace_back(gradient);
      apply(replica, spans);
    });
  }
}

/// All elements of all parameters. Expects that all copies are equal.
std::vector<float> values_of(const Parameters& parameters) {
  std::vector<float> all;
  for (const auto& parameter : parameters) {
    const auto copies_here = copies(parameter);
    for (const auto& copy : copies_here) EXPECT_EQ(copy, copies_here.front());
    all.insert(all.end(), copies_here.front().begin(), copies_here.front().end());
  }
  return all;
}

/// Bytes of the copies on this rank.
std::size_t bytes_of(const std::vector<Variable>& variables) {
  std::size_t bytes = 0;
  for (const Variable& variable : variables) {
    if (variable.name() == "adam/steps") continue;
    for (int i = 0; i < variable.component_count(); ++i)
      bytes += static_cast<std::size_t>(variable.component(i).element_count()) * sizeof(float);
  }
  return bytes;
}

template <class Optimizer, class Options>
void expect_the_bits_of(const std::vector<int>& ranks, const Options& options, ReduceOp op) {
  on_workers(ranks, [&](Strategy& strategy) {
    const Parameters plain_parameters = make_parameters(strategy);
    const Parameters parameters = make_parameters(strategy);
    Optimizer plain(strategy, plain_parameters, options);
    ShardedOptimizer sharded(strategy, parameters, options);
    train(strategy, [&](auto& replica, const auto& g) { plain.apply_gradients(replica, g, learning_rate, op); }, 0, 5);
    train(
        strategy, [&](auto& replica, const auto& g) { sharded.apply_gradients(replica, g, learning_rate, op); }, 0, 5);
    const auto expected = values_of(plain_parameters);
    const auto found = values_of(parameters);
    ASSERT_EQ(expected.size(), found.size());
    EXPECT_EQ(std::memcmp(expected.data(), found.data(), expected.size() * sizeof(float)), 0);
    EXPECT_NE(found.front(), std::cos(37.0F));  // the steps have changed the parameters
    // each replica has 1/R of every slot, and at most R - 1 elements more of each parameter
    const auto replicas = static_cast<std::size_t>(strategy.num_replicas_in_sync());
    const std::size_t slots = sharded.state().size() / sizes.size();
    const auto local = static_cast<std::size_t>(strategy.communicator().local_replicas());
    EXPECT_LE(bytes_of(sharded.state()),
              bytes_of(plain.state()) / replicas + local * slots * sizes.size() * (replicas - 1) * sizeof(float));
    EXPECT_GE(bytes_of(sharded.state()), bytes_of(plain.state()) / replicas);
  });
}

TEST(ShardedOptimizer, gives_the_bits_of_the_unsharded_optimizer_with_a_share_of_its_state) {
  for (const std::vector<int>& ranks :
       {std::vector{1}, std::vector{1, 1}, std::vector{2, 1}, std::vector{1, 1, 1, 1}}) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean}) {
      expect_the_bits_of<Adam>(ranks, AdamOptions{}, op);
      expect_the_bits_of<Sgd>(ranks, SgdOptions{}, op);
      expect_the_bits_of<Sgd>(ranks, SgdOptions{.momentum = 0.9F}, op);
    }
  }
}

TEST(ShardedOptimizer, applies_gradients_that_are_reduced_already) {
  on_workers({2, 1}, [](Strategy& strategy) {
    const Parameters plain_parameters = make_parameters(strategy);
    const Parameters parameters = make_parameters(strategy);
    Adam plain(strategy, plain_parameters);
    ShardedOptimizer sharded(strategy, parameters, AdamOptions{});
    const Step apply_both = [&](ReplicaContext& replica, const std::vector<std::span<float>>& gradients) {
      replica.all_reduce(ReduceOp::mean, gradients);
      clip_by_global_norm(gradients, 1.5F);
      const std::vector<float> before(gradients[2].begin(), gradients[2].end());
      plain.apply(replica, gradients, learning_rate);
      sharded.apply(replica, gradients, learning_rate);
      EXPECT_TRUE(std::equal(before.begin(), before.end(), gradients[2].begin()));
    };
    train(strategy, apply_both, 0, 4);
    EXPECT_EQ(values_of(parameters), values_of(plain_parameters));
  });
}

TEST(ShardedOptimizer, divides_the_state_of_divisible_parameters_exactly) {
  for (const int ranks : {1, 2, 4}) {
    on_workers(std::vector<int>(static_cast<std::size_t>(ranks), 1), [ranks](Strategy& strategy) {
      const auto w = strategy.variable<float>(std::vector<float>(4096, 1), {.name = "w"});
      const Adam plain(strategy, {w});
      const ShardedOptimizer sharded(strategy, {w}, AdamOptions{});
      EXPECT_EQ(bytes_of(plain.state()), 2 * 4096 * sizeof(float));
      EXPECT_EQ(bytes_of(sharded.state()) * static_cast<std::size_t>(ranks), bytes_of(plain.state()));
    });
  }
}

TEST(ShardedOptimizer, continues_from_a_checkpoint_on_another_number_of_ranks) {
  const TemporaryDirectory directory;
  std::vector<float> expected;
  std::mutex mutex;
  const auto run = [&](const std::vector<int>& ranks, bool is_restart) {
    on_workers(ranks, [&](Strategy& strategy) {
      const Parameters parameters = make_parameters(strategy);
      ShardedOptimizer optimizer(strategy, parameters, AdamOptions{});
      const Step apply = [&](auto& replica, const auto& g) { optimizer.apply_gradients(replica, g, learning_rate); };
      Checkpoint checkpoint(strategy);
      checkpoint.track("model", parameters).track("optimizer", optimizer);
      if (is_restart) {
        checkpoint.restore(directory.path(), 3);
      } else {
        train(strategy, apply, 0, 3);
        checkpoint.save(directory.path(), 3);
      }
      train(strategy, apply, 3, 6);
      const auto found = values_of(parameters);
      const std::lock_guard lock(mutex);
      if (expected.empty()) expected = found;
      EXPECT_EQ(found, expected);
    });
  };
  run({2, 1}, false);
  run({1, 1, 1}, true);
  run({3}, true);
}

TEST(ShardedOptimizer, refuses_wrong_arguments_before_anything_is_written) {
  MirroredStrategy strategy = mirrored(2);
  const auto w = strategy.variable<float>(std::vector<float>(8, 1), {.name = "w"});
  expect_error(Code::invalid_argument, {"ShardedOptimizer: momentum is 1"},
               [&] { ShardedOptimizer(strategy, {w}, SgdOptions{.momentum = 1}); });
  expect_error(Code::invalid_argument, {"ShardedOptimizer: beta_1 is 2"},
               [&] { ShardedOptimizer(strategy, {w}, AdamOptions{.beta_1 = 2}); });
  ShardedOptimizer optimizer(strategy, {w}, SgdOptions{});
  const auto apply = [&](std::size_t elements, float rate) {
    strategy.run([&](ReplicaContext& replica) {
      std::vector<float> gradient(elements, 1);
      optimizer.apply_gradients(replica, {gradient}, rate);
    });
  };
  expect_error(Code::invalid_argument, {"ShardedOptimizer::apply_gradients: gradient 0 has 7 elements"},
               [&] { apply(7, 0.1F); });
  expect_error(Code::invalid_argument, {"learning_rate is inf"}, [&] { apply(8, INFINITY); });
  EXPECT_EQ(copies(w).front(), std::vector<float>(8, 1));
  apply(8, 0.5F);
  EXPECT_EQ(copies(w).front(), std::vector<float>(8, 0));
}

}  // namespace
}  // namespace lockstep::test

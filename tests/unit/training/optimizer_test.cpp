// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "unit/strategy/strategies.hpp"

#include "support/function_ref.hpp"

#include <cmath>
#include <functional>
#include <memory>

namespace lockstep::test {
namespace {

/// `steps` steps on one parameter vector that starts at 1, with gradient 1, 2, 3, ... times the step's number.
std::vector<float> train(
    Strategy& strategy, int steps,
    FunctionRef<std::unique_ptr<Optimizer>(Strategy&, std::vector<MirroredVariable<float>>)> make) {
  const auto parameter = strategy.variable<float>(std::vector<float>(37, 1.0F), {.name = "w"});
  const auto optimizer = make(strategy, {parameter});
  for (int step = 1; step <= steps; ++step) {
    strategy.run([&](ReplicaContext& replica) {
      std::vector<float> gradient(37);
      for (std::size_t i = 0; i < 37; ++i) gradient[i] = static_cast<float>(i + 1) * static_cast<float>(step);
      std::vector<std::span<float>> gradients{gradient};
      replica.all_reduce(ReduceOp::mean, gradients);
      optimizer->apply(replica, gradients, 0.01F);
    });
  }
  for (int i = 0; i < parameter.component_count(); ++i)
    EXPECT_EQ(copies(parameter)[static_cast<std::size_t>(i)], copies(parameter)[0]);
  return copies(parameter).front();
}

TEST(Sgd, goes_against_the_gradient) {
  MirroredStrategy strategy = mirrored(2);
  const auto w = train(strategy, 1, [](Strategy& s, auto parameters) { return std::make_unique<Sgd>(s, parameters); });
  for (std::size_t i = 0; i < 37; ++i) EXPECT_EQ(w[i], 1.0F - 0.01F * static_cast<float>(i + 1));
}

TEST(Sgd, with_momentum_keeps_a_share_of_its_movement) {
  MirroredStrategy strategy = mirrored(2);
  const auto w = train(strategy, 3, [](Strategy& s, auto parameters) {
    return std::make_unique<Sgd>(s, parameters, SgdOptions{.momentum = 0.9F});
  });
  for (std::size_t i = 0; i < 37; ++i) {
    float p = 1.0F;
    float m = 0.0F;
    for (int step = 1; step <= 3; ++step) {
      m = 0.9F * m - 0.01F * (static_cast<float>(i + 1) * static_cast<float>(step));
      p += m;
    }
    EXPECT_EQ(w[i], p);
  }
}

TEST(Adam, moves_by_about_the_learning_rate_whatever_the_gradients_size) {
  MirroredStrategy strategy = mirrored(2);
  const auto w = train(strategy, 1, [](Strategy& s, auto parameters) { return std::make_unique<Adam>(s, parameters); });
  for (const float x : w) EXPECT_NEAR(x, 0.99F, 1e-5F);
}

TEST(Adam, follows_its_formula) {
  MirroredStrategy strategy = mirrored(1);
  const auto w = train(strategy, 5, [](Strategy& s, auto parameters) { return std::make_unique<Adam>(s, parameters); });
  for (std::size_t i = 0; i < 37; ++i) {
    double p = 1, m = 0, v = 0;
    for (int t = 1; t <= 5; ++t) {
      const double g = static_cast<double>(i + 1) * t;
      m = 0.9 * m + 0.1 * g;
      v = 0.999 * v + 0.001 * g * g;
      p -= 0.01 * std::sqrt(1 - std::pow(0.999, t)) / (1 - std::pow(0.9, t)) * m / (std::sqrt(v) + 1e-7);
    }
    EXPECT_NEAR(w[i], p, 1e-5);
  }
}

TEST(Lamb, follows_its_formula_with_the_lengths_of_each_variable) {
  constexpr std::size_t count = 2500;  // several segments
  MirroredStrategy strategy = mirrored(2);
  std::vector<float> start(count);
  for (std::size_t i = 0; i < count; ++i) start[i] = 1.0F + static_cast<float>(i % 7);
  const std::vector<MirroredVariable<float>> parameters{strategy.variable<float>(start, {.name = "long"}),
                                                        strategy.variable<float>(0.0F, {.name = "zero"})};
  Lamb lamb(strategy, parameters, {.weight_decay = 0.1F});
  std::vector<double> p(start.begin(), start.end()), m(count), v(count);
  const auto gradient_of = [](std::size_t i, int t) {
    return static_cast<float>((i * 31) % 17) - 8.0F * static_cast<float>(t);
  };
  for (int t = 1; t <= 4; ++t) {
    strategy.run([&](ReplicaContext& replica) {
      std::vector<float> gradient(count);
      std::vector<float> other{1.0F};
      for (std::size_t i = 0; i < count; ++i) gradient[i] = gradient_of(i, t);
      lamb.apply(replica, std::vector<std::span<float>>{gradient, other}, 0.01F);
    });
    std::vector<double> d(count);
    double p_squares = 0, d_squares = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const double g = gradient_of(i, t);
      m[i] = 0.9 * m[i] + 0.1 * g;
      v[i] = 0.999 * v[i] + 0.001 * g * g;
      d[i] = m[i] / (1 - std::pow(0.9, t)) / (std::sqrt(v[i] / (1 - std::pow(0.999, t))) + 1e-6) + 0.1 * p[i];
      p_squares += p[i] * p[i];
      d_squares += d[i] * d[i];
    }
    const double ratio = std::sqrt(p_squares) / std::sqrt(d_squares);
    for (std::size_t i = 0; i < count; ++i) p[i] -= 0.01 * ratio * d[i];
  }
  for (std::size_t i = 0; i < count; ++i) ASSERT_NEAR(parameters[0].elements()[i], p[i], 1e-4 * std::abs(p[i])) << i;
}

TEST(Lamb, moves_every_variable_by_the_same_share_of_its_length) {
  MirroredStrategy strategy = mirrored(1);
  for (const float size : {1.0F, 1000.0F}) {
    const auto w = strategy.variable<float>(std::vector<float>(4, size));
    Lamb lamb(strategy, {w});
    strategy.run([&](ReplicaContext& replica) {
      std::vector<float> gradient(4, 1e-3F);
      lamb.apply(replica, std::vector<std::span<float>>{gradient}, 0.01F);
    });
    EXPECT_NEAR(w.elements()[0], 0.99F * size, 1e-5F * size);
  }
}

TEST(Lamb, moves_a_variable_of_length_0_by_the_learning_rate) {
  MirroredStrategy strategy = mirrored(1);
  const auto w = strategy.variable<float>(0.0F);
  Lamb lamb(strategy, {w});
  strategy.run([&](ReplicaContext& replica) {
    std::vector<float> gradient{5.0F};
    lamb.apply(replica, std::vector<std::span<float>>{gradient}, 0.01F);
  });
  EXPECT_NEAR(w.value(), -0.01F, 1e-6F);
}

/// A gradient whose sums depend on their order.
float rough(int replica, std::size_t i, int step) {
  return std::sin(static_cast<float>(17 * replica + 3 * step) + static_cast<float>(i)) *
         std::pow(10.0F, static_cast<float>((static_cast<std::size_t>(replica) * 7 + i) % 5));
}

using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(Strategy&, std::vector<MirroredVariable<float>>)>;

/// Four steps on two variables, with different gradients on the replicas.
std::vector<float> train_on_own_gradients(Strategy& strategy, const MakeOptimizer& make) {
  const std::vector<MirroredVariable<float>> parameters{
      strategy.variable<float>(std::vector<float>(2000, 1.0F), {.name = "v"}),
      strategy.variable<float>(std::vector<float>(37, 1.0F), {.name = "w"})};
  const auto optimizer = make(strategy, parameters);
  for (int step = 1; step <= 4; ++step) {
    strategy.run([&](ReplicaContext& replica) {
      std::vector<float> first(2000), second(37);
      const int id = replica.replica_id_in_sync_group();
      for (std::size_t i = 0; i < first.size(); ++i) first[i] = rough(id, i, step);
      for (std::size_t i = 0; i < second.size(); ++i) second[i] = rough(id, i + 5, step);
      optimizer->apply_gradients(replica, {first, second}, 0.01F);
    });
  }
  std::vector<float> result;
  for (const auto& parameter : parameters) {
    const auto all = copies(parameter);
    for (const auto& copy : all) EXPECT_EQ(copy, all.front());
    result.insert(result.end(), all.front().begin(), all.front().end());
  }
  return result;
}

TEST(Optimizer, gives_the_same_bits_for_every_layout) {
  const std::vector<MakeOptimizer> optimizers{
      [](Strategy& s, auto parameters) { return std::make_unique<Sgd>(s, parameters); },
      [](Strategy& s, auto parameters) { return std::make_unique<Sgd>(s, parameters, SgdOptions{.momentum = 0.9F}); },
      [](Strategy& s, auto parameters) { return std::make_unique<Adam>(s, parameters); },
      [](Strategy& s, auto parameters) {
        return std::make_unique<Lamb>(s, parameters, LambOptions{.weight_decay = 0.01F});
      }};
  for (const MakeOptimizer& make : optimizers) {
    MirroredStrategy strategy = mirrored(4);
    const auto expected = train_on_own_gradients(strategy, make);
    for (const std::vector<int>& layout : {std::vector<int>{1, 1, 1, 1}, {2, 2}, {1, 3}, {2, 1, 1}}) {
      on_workers(layout, [&](Strategy& workers) { EXPECT_EQ(train_on_own_gradients(workers, make), expected); });
    }
  }
}

TEST(Optimizer, refuses_gradients_before_they_are_reduced) {
  MirroredStrategy strategy = mirrored(2);
  const auto w = strategy.variable<float>(std::vector<float>(3), {.name = "w"});
  Sgd sgd(strategy, {w});
  std::vector<float> gradient(4, 1.0F);
  expect_error(Code::invalid_argument, {"4 elements", "\"w\" has 3"},
               [&] { strategy.run([&](ReplicaContext& replica) { sgd.apply_gradients(replica, {gradient}, 0.1F); }); });
  EXPECT_EQ(gradient, std::vector<float>(4, 1.0F));
}

TEST(Optimizer, names_the_line_of_the_call_if_ranks_differ) {
  on_workers({1, 1}, [](Strategy& strategy) {
    const auto w = strategy.variable<float>(std::vector<float>(3), {.name = "w"});
    Sgd sgd(strategy, {w});
    std::vector<float> gradient(3, 1.0F);
    const ReduceOp op = strategy.is_chief() ? ReduceOp::sum : ReduceOp::mean;
    constexpr int line = __LINE__;
    expect_error(Code::mismatch, {"training/optimizer_test.cpp:" + std::to_string(line + 2)}, [&] {
      strategy.run([&](ReplicaContext& replica) { sgd.apply_gradients(replica, {gradient}, 0.1F, op); });
    });
  });
}

TEST(Optimizer, refuses_options_and_gradients_that_do_not_fit) {
  MirroredStrategy strategy = mirrored(2);
  const auto w = strategy.variable<float>(std::vector<float>(3), {.name = "w"});
  expect_error(Code::invalid_argument, {"momentum", "1.5"}, [&] { Sgd sgd(strategy, {w}, {.momentum = 1.5F}); });
  expect_error(Code::invalid_argument, {"beta_1"}, [&] { Adam adam(strategy, {w}, {.beta_1 = 1.0F}); });
  expect_error(Code::invalid_argument, {"epsilon"}, [&] { Adam adam(strategy, {w}, {.epsilon = 0.0F}); });
  expect_error(Code::invalid_argument, {"Lamb", "beta_2 1"}, [&] { Lamb lamb(strategy, {w}, {.beta_2 = 1.0F}); });
  expect_error(Code::invalid_argument, {"Lamb", "epsilon is 0"}, [&] { Lamb lamb(strategy, {w}, {.epsilon = 0.0F}); });
  MirroredStrategy other = mirrored(2);
  for (const auto& make : std::vector<std::function<void()>>{
           [&] { Sgd sgd(other, {w}); }, [&] { Adam adam(other, {w}); }, [&] { Lamb lamb(other, {w}); }})
    expect_error(Code::invalid_argument, {": variable \"w\" of parameters was not created by strategy"}, make);
  const auto v = strategy.variable<float>(std::vector<float>(3), {.name = "v"});
  for (const auto& make : std::vector<std::function<void()>>{[&] { Sgd sgd(strategy, {w, v, w}); },
                                                             [&] { Adam adam(strategy, {w, v, w}); },
                                                             [&] { Lamb lamb(strategy, {w, v, w}); }})
    expect_error(Code::invalid_argument, {": variable \"w\" appears more than once in parameters"}, make);
  expect_error(Code::invalid_argument, {"weight_decay is -1"},
               [&] { Lamb lamb(strategy, {w}, {.weight_decay = -1.0F}); });
  Sgd sgd(strategy, {w});
  const auto apply = [&](std::size_t count, std::size_t elements, float learning_rate = 0.1F) {
    strategy.run([&](ReplicaContext& replica) {
      std::vector<float> gradient(elements);
      const std::vector<std::span<float>> gradients(count, gradient);
      sgd.apply(replica, gradients, learning_rate);
    });
  };
  expect_error(Code::invalid_argument, {"2 gradients for 1"}, [&] { apply(2, 3); });
  expect_error(Code::invalid_argument, {"4 elements", "\"w\" has 3"}, [&] { apply(1, 4); });
  expect_error(Code::invalid_argument, {"learning_rate is nan", "finite"}, [&] { apply(1, 3, std::nanf("")); });
}

TEST(CosineDecay, falls_from_its_start_to_its_end) {
  const CosineDecay rate({.initial = 0.2F, .steps = 100, .final_share = 0.1F});
  EXPECT_FLOAT_EQ(rate.at(0), 0.2F);
  EXPECT_FLOAT_EQ(rate.at(50), 0.11F);
  EXPECT_FLOAT_EQ(rate.at(100), 0.02F);
  EXPECT_FLOAT_EQ(rate.at(1000), 0.02F);
}

TEST(CosineDecay, warms_up_linearly) {
  const CosineDecay rate({.initial = 1.0F, .steps = 14, .warmup_steps = 4});
  EXPECT_FLOAT_EQ(rate.at(0), 0.25F);
  EXPECT_FLOAT_EQ(rate.at(3), 1.0F);
  EXPECT_FLOAT_EQ(rate.at(4), 1.0F);
  EXPECT_FLOAT_EQ(rate.at(9), 0.5F);
}

TEST(CosineDecay, refuses_options_out_of_range) {
  expect_error(Code::invalid_argument, {"steps is 0"}, [] { CosineDecay rate({.steps = 0}); });
  expect_error(Code::invalid_argument, {"warmup_steps 5"}, [] { CosineDecay rate({.steps = 5, .warmup_steps = 5}); });
  expect_error(Code::invalid_argument, {"final_share 2"}, [] { CosineDecay rate({.steps = 5, .final_share = 2.0F}); });
}

}  // namespace
}  // namespace lockstep::test

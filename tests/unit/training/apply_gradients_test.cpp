// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/training/apply_gradients.hpp>

#include "unit/strategy/strategies.hpp"

#include <cmath>

namespace lockstep::test {
namespace {

using Floats = std::vector<float>;

/// A gradient whose sums depend on their order.
Floats gradient_of(const ReplicaContext& replica, std::size_t count) {
  Floats gradient(count);
  for (std::size_t i = 0; i < count; ++i) {
    gradient[i] = std::sin(static_cast<float>(17 * replica.replica_id_in_sync_group()) + static_cast<float>(i)) *
                  std::pow(10.0F, static_cast<float>(i % 5));
  }
  return gradient;
}

void descend(const MirroredVariable<float>& variable, const Floats& gradient) {
  const std::span<float> own = variable.updatable_component();
  for (std::size_t i = 0; i < own.size(); ++i) own[i] -= 0.5F * gradient[i];
}

TEST(ApplyGradients, updates_every_copy_with_the_sum_over_all_replicas) {
  MirroredStrategy strategy = mirrored(2);
  const auto a = strategy.variable<float>(Floats{10, 10});
  const auto b = strategy.variable<float>(Floats{1});
  const auto step = [&](ReduceOp op) {
    strategy.run([&](ReplicaContext& replica) {
      const float x = static_cast<float>(replica.replica_id_in_sync_group() + 1);
      apply_gradients(replica, std::vector{std::pair(Floats{x, 2 * x}, a), std::pair(Floats{4 * x}, b)}, descend, op);
      EXPECT_EQ(a.elements()[0], op == ReduceOp::sum ? 8.5F : 7.75F);  // seen by the next statement
    });
  };
  step(ReduceOp::sum);
  EXPECT_EQ(copies(a), (std::vector<Floats>{{8.5F, 7}, {8.5F, 7}}));
  EXPECT_EQ(copies(b), (std::vector<Floats>{{-5}, {-5}}));
  step(ReduceOp::mean);
  EXPECT_EQ(copies(a)[1], (Floats{7.75F, 5.5F}));
}

TEST(ApplyGradients, takes_spans_and_tensors_with_plain_variables) {
  MirroredStrategy strategy = mirrored(2);
  const auto typed = strategy.variable<float>(Floats{1});
  const Variable plain = strategy.variable(Tensor::scalar(std::int64_t{5}));
  strategy.run([&](ReplicaContext& replica) {
    Floats gradient{static_cast<float>(replica.replica_id_in_sync_group())};
    apply_gradients(replica, std::vector{std::pair(std::span(gradient), typed)}, descend);
    apply_gradients(replica, std::vector{std::pair(Tensor::scalar(std::int64_t{2}), plain)},
                    [](const Variable& variable, const Tensor& sum) { variable.assign_add(sum); });
  });
  EXPECT_EQ(copies(typed), (std::vector<Floats>{{0.5F}, {0.5F}}));
  EXPECT_EQ(elements_of<std::int64_t>(plain.component(1)), (std::vector<std::int64_t>{9}));
}

TEST(ApplyGradients, gives_the_same_bits_for_every_layout_and_as_an_optimizer) {
  const auto train = [](Strategy& strategy) {
    const auto w = strategy.variable<float>(Floats(100, 1.0F));
    const auto v = strategy.variable<float>(Floats(100, 1.0F));
    Sgd sgd(strategy, {v});
    for (int step = 0; step < 3; ++step) {
      strategy.run([&](ReplicaContext& replica) {
        Floats gradient = gradient_of(replica, 100);
        apply_gradients(replica, std::vector{std::pair(gradient, w)}, descend);
        sgd.apply_gradients(replica, {gradient}, 0.5F);
      });
    }
    EXPECT_EQ(copies(w)[0], copies(v)[0]);
    for (const Floats& copy : copies(w)) EXPECT_EQ(copy, copies(w)[0]);
    return copies(w)[0];
  };
  MirroredStrategy strategy = mirrored(4);
  const Floats expected = train(strategy);
  for (const std::vector<int>& layout : {std::vector<int>{1, 1, 1, 1}, {2, 2}, {1, 3}})
    on_workers(layout, [&](Strategy& workers) { EXPECT_EQ(train(workers), expected); });
}

TEST(ApplyGradients, refuses_different_variables_and_shapes) {
  MirroredStrategy strategy = mirrored(2);
  const auto a = strategy.variable<float>(Floats{1});
  const auto b = strategy.variable<float>(Floats{1});
  expect_error(Code::invalid_argument, {"which variable is given", "local replica 1"}, [&] {
    strategy.run([&](ReplicaContext& replica) {
      apply_gradients(replica, std::vector{std::pair(Floats{1}, replica.local_replica() == 0 ? a : b)}, descend);
    });
  });
  expect_error(Code::invalid_argument, {"batch_reduce_to", "shape", "replica 1"}, [&] {
    strategy.run([&](ReplicaContext& replica) {
      const auto count = static_cast<std::size_t>(1 + replica.local_replica());
      apply_gradients(replica, std::vector{std::pair(Floats(count), a)}, descend);
    });
  });
  MirroredStrategy other = mirrored(2);
  expect_error(Code::invalid_argument, {"update"}, [&] {
    other.run(
        [&](ReplicaContext& replica) { apply_gradients(replica, std::vector{std::pair(Floats{1}, a)}, descend); });
  });
}

}  // namespace
}  // namespace lockstep::test

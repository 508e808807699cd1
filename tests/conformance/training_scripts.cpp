// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Random streams, and small complete trainings.

#include "conformance/devices.hpp"
#include "conformance/steps.hpp"
#include "conformance/tensor_math.hpp"

#include <lockstep/lockstep.hpp>

#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace lockstep::conformance {
namespace {

using P = PerReplica<Tensor>;
using Draw = std::vector<float>;

Draw draw(Generator& generator, std::size_t count) {
  Draw numbers(count);
  generator.uniform(std::span<float>(numbers));
  return numbers;
}

/// The random numbers of each local replica of `strategy`.
PerReplica<Draw> draws_of_replicas(Strategy& strategy, Generator& generator, std::size_t count) {
  return strategy.run([&] { return draw(generator, count); });
}

Generator made_in_scope(Strategy& strategy, std::uint64_t seed) {
  const Scope scope = strategy.scope();
  return Generator::from_seed(seed);
}

PerReplica<Draw> draws_in_a_new_strategy() {
  set_global_seed(5);
  MirroredStrategy strategy(devices_of_process(2));
  Generator generator = made_in_scope(strategy, 7);
  return draws_of_replicas(strategy, generator, 3);
}

void add_random_scripts(Scripts& scripts) {
  scripts["P105"] = [] {
    return Script{[](World& world) -> Json {
                    Generator generator = made_in_scope(world.strategy(), 1);
                    const auto draws = draws_of_replicas(world.strategy(), generator, 3);
                    return draws.component(0) != draws.component(1);
                  },
                  [](World& world) -> Json {
                    Generator shared = Generator::from_seed(1);
                    const auto draws = draws_of_replicas(world.strategy(), shared, 3);
                    Generator again = Generator::from_seed(1);
                    Draw stream = draw(again, 6);
                    const Draw second(stream.begin() + 3, stream.end());
                    stream.resize(3);
                    return draws.component(0) == stream && draws.component(1) == second;
                  }};
  };
  scripts["P267"] = [] {
    return Script{[](World& world) -> Json {
      Generator inside = made_in_scope(world.strategy(), 1);
      Generator outside = Generator::from_seed(1);
      return draws_of_replicas(world.strategy(), inside, 2).value() == draw(outside, 2);
    }};
  };
  scripts["P268"] = [] {
    return Script{[](World&) -> Json {
      const auto first = draws_in_a_new_strategy();
      const auto second = draws_in_a_new_strategy();
      return first.component(0) == second.component(0) && first.component(1) == second.component(1);
    }};
  };
}

/// Batches of `rows` numbers below `count`; the totals of the cases do not depend on their distribution to replicas.
DistributedDataset<Tensor> numbers(Strategy& strategy, std::int64_t count, std::int64_t rows) {
  return strategy.experimental_distribute_dataset(Dataset<Tensor>::range(count).batch(rows));
}

Tensor as_f32(const Tensor& value) {
  Tensor result(DType::f32, value.shape());
  return combined(result, value, [](Number, Number x) { return x; });
}

Json total_and_count(World& world) {
  Strategy& strategy = world.strategy();
  for (const P& batch : numbers(strategy, 10, 4)) {
    strategy.run(
        [&](const Tensor& x) {
          world.variable("s").assign_add(as_f32(sum_of(x)));
          world.variable("n").assign_add(Tensor::scalar(x.element_count()));
        },
        batch);
  }
  const Scope scope = strategy.scope();
  const Number total = number_in(world.variable("s").read());
  const Number count = number_in(world.variable("n").read());
  return {result_of(total), result_of(count), result_of(total / count)};
}

Json sum_of_squares(World& world) {
  Strategy& strategy = world.strategy();
  const Variable& v = world.variable("v");
  for (const P& batch : numbers(strategy, 10, 2)) {
    strategy.run([&](const Tensor& x) { v.assign_add(as_f32(sum_of(x * x))); }, batch);
  }
  return result_of(v.read());
}

Json two_updates(World& world) {
  for (int k = 0; k < 2; ++k) {
    world.strategy().run([&](ReplicaContext& replica) {
      const Tensor number = Tensor::scalar(static_cast<float>(replica.replica_id_in_sync_group() + 1));
      world.variable("w").assign_add(number);
      world.variable("b").assign_add(number);
      world.variable("t").assign_add(Tensor::scalar(1.0F));
    });
  }
  return {result_of(world.components("w")), result_of(world.components("b")), result_of(world.components("t"))};
}

/// One step of w x + b on the squared error, whose mean is over the global batch. [w, b]
SentenceStep gradient_descent(int replicas) {
  return [replicas](World& world) -> Json {
    MirroredStrategy strategy(devices_of_process(replicas));
    const Tensor x = world.operand_as<Tensor>("x");
    const Tensor y = world.operand_as<Tensor>("y");
    const auto rate = world.given()["learning_rate"].get<Number>();
    const auto w = strategy.variable<float>(world.given()["w"].get<float>(), {.aggregation = VariableAggregation::sum});
    const auto b = strategy.variable<float>(world.given()["b"].get<float>(), {.aggregation = VariableAggregation::sum});
    const std::int64_t rows = x.element_count();
    const auto dataset = strategy.experimental_distribute_dataset(
        Dataset<std::tuple<Tensor, Tensor>>::from_tensor_slices({x, y}).batch(rows));
    for (const auto& batch : dataset) {
      strategy.run(
          [&](const std::tuple<Tensor, Tensor>& mine) {
            const auto& [inputs, targets] = mine;
            const Tensor error =
                combined(inputs, targets, [&](Number xi, Number yi) { return w.value() * xi + b.value() - yi; });
            const auto scale = 2.0 / static_cast<Number>(rows);
            const Tensor w_gradient = sum_of(scale * (error * inputs));
            const Tensor b_gradient = sum_of(scale * error);
            w.assign_sub(rate * w_gradient);
            b.assign_sub(rate * b_gradient);
          },
          batch);
    }
    return {result_of(w.value()), result_of(b.value())};
  };
}

}  // namespace

void add_training_scripts(Scripts& scripts) {
  add_random_scripts(scripts);
  scripts["P103"] = [] { return Script{sum_of_squares}; };
  scripts["P104"] = [] { return Script{gradient_descent(2), gradient_descent(1)}; };
  scripts["P265"] = [] { return Script{total_and_count}; };
  scripts["P266"] = [] { return Script{two_updates}; };
}

}  // namespace lockstep::conformance

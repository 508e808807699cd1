// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Scripts about datasets.

#include "conformance/input_data.hpp"
#include "conformance/steps.hpp"
#include "conformance/tensor_math.hpp"

#include <lockstep/lockstep.hpp>

#include <stdexcept>

namespace lockstep::conformance {
namespace {

using P = PerReplica<Tensor>;

Dataset<Tensor> range(std::int64_t count, std::int64_t batch) { return Dataset<Tensor>::range(count).batch(batch); }

Tensor count_up(DType dtype, const Shape& shape) {
  Tensor tensor(dtype, shape);
  const auto elements = tensor.elements<std::int64_t>();
  for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<std::int64_t>(i);
  return tensor;
}

bool equal_tensors(const Tensor& a, const Tensor& b) { return result_of(a) == result_of(b); }

/// The results of `fn` for each step of a dataset.
template <class Fn>
Json per_step(World& world, const Dataset<Tensor>& dataset, const Fn& fn) {
  Json steps = Json::array();
  for (const P& batch : world.strategy().experimental_distribute_dataset(dataset))
    steps.push_back(result_of(fn(batch)));
  return steps;
}

void add_iteration_scripts(Scripts& scripts) {
  scripts["P79"] = [] {
    return Script{[](World& world) {
      return per_step(world, range(4, 2), [&](const P& batch) {
        return world.strategy().run([](const Tensor& x) { return 2 * x; }, batch);
      });
    }};
  };
  scripts["P94"] = [] {
    return Script{[](World& world) -> Json {
      auto iterator = world.strategy().experimental_distribute_dataset(range(4, 2)).iterate();
      world.strategy().run([&] { static_cast<void>(iterator.get_next()); });
      return "taken";
    }};
  };
  scripts["P246"] = [] {
    const auto exhausted = [](World& world) {
      auto iterator = world.strategy().experimental_distribute_dataset(range(4, 2)).iterate();
      while (iterator.get_next_as_optional().has_value()) {}
      return iterator;
    };
    return Script{[exhausted](World& world) { return result_of(exhausted(world).get_next()); },
                  [exhausted](World& world) { return result_of(exhausted(world).get_next_as_optional().has_value()); },
                  [](World& world) -> Json {
                    const auto distributed = world.strategy().experimental_distribute_dataset(range(4, 2));
                    auto a = distributed.iterate();
                    auto b = distributed.iterate();
                    return Json::array({result_of(a.get_next()), result_of(b.get_next())});
                  }};
  };
  scripts["P249"] = [] {
    return Script{[](World& world) {
                    return per_step(world, range(6, 4),
                                    [&](const P& batch) { return world.strategy().reduce(ReduceOp::mean, batch, 0); });
                  },
                  [](World& world) {
                    return per_step(world, range(6, 4), [&](const P& batch) {
                      const auto counts =
                          world.strategy().run([](const Tensor& x) { return x.element_count(); }, batch);
                      return world.strategy().reduce(ReduceOp::sum, counts);
                    });
                  }};
  };
}

void add_array_scripts(Scripts& scripts) {
  scripts["P96"] = [] {
    return Script{[](World& world) -> Json {
      const auto x = world.operand_as<Tensor>("x");
      const auto y = world.operand_as<Tensor>("y");
      int steps = 0;
      bool equal = true;
      const auto dataset = array_dataset(std::pair{x, y}).batch(6).repeat(2);
      for (const auto& [first, second] : world.strategy().experimental_distribute_dataset(dataset)) {
        ++steps;
        equal = equal && equal_tensors(first.value(), x) && equal_tensors(second.value(), y);
      }
      return Json::array({steps, equal});
    }};
  };
  scripts["P255"] = [] {
    return Script{
        [](World&) {
          const v1::MirroredStrategy strategy(std::vector<std::string>{"cpu:0", "cpu:1"});
          const std::vector<std::vector<std::int64_t>> arrays{{1, 2, 3}, {4, 5, 6}};
          Json elements = Json::array();
          for (const Tensor& element : strategy.experimental_make_numpy_dataset(arrays))
            elements.push_back(result_of(element));
          return elements;
        },
        [](World& world) {
          const Named arrays{count_up(DType::i64, Shape{4, 2}), count_up(DType::i64, Shape{4})};
          return named_result(
              world.strategy().experimental_distribute_dataset(array_dataset(arrays).batch(4)).iterate().get_next());
        },
        [](World&) -> Json {
          static_cast<void>(array_dataset(Named{Tensor(DType::i64, Shape{3}), Tensor(DType::i64, Shape{2})}));
          return "made";
        }};
  };
}

void add_input_option_scripts(Scripts& scripts) {
  scripts["P247"] = [] {
    return Script{[](World& world) -> Json {
      static_cast<void>(world.strategy().distribute_datasets_from_function(
          [](const InputContext&) -> Dataset<Tensor> { throw std::runtime_error("boom"); }));
      return "distributed";
    }};
  };
  scripts["P248"] = [] {
    const auto from_function = [](const InputOptions& options) {
      return [options](World& world) -> Json {
        static_cast<void>(world.strategy().distribute_datasets_from_function(
            [](const InputContext&) { return range(4, 2); }, options));
        return "distributed";
      };
    };
    constexpr auto per_replica = InputReplicationMode::per_replica;
    return Script{
        from_function({.experimental_place_dataset_on_device = true}),
        from_function({.experimental_replication_mode = per_replica, .experimental_place_dataset_on_device = true}),
        [](World& world) -> Json {
          static_cast<void>(world.strategy().experimental_distribute_dataset(
              range(4, 2), {.experimental_replication_mode = per_replica}));
          return "distributed";
        }};
  };
}

}  // namespace

void add_input_scripts(Scripts& scripts) {
  add_iteration_scripts(scripts);
  add_array_scripts(scripts);
  add_input_option_scripts(scripts);
}

}  // namespace lockstep::conformance

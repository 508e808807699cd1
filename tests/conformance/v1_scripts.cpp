// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The v1 strategies, and deprecated names.

#include "conformance/devices.hpp"
#include "conformance/steps.hpp"
#include "conformance/tensor_math.hpp"

#include <lockstep/lockstep.hpp>

#include <memory>
#include <optional>
#include <vector>

// deprecated names are tested here
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace lockstep::conformance {
namespace {

using P = PerReplica<Tensor>;
using Iterator = v1::InputIterator<Tensor>;

/// The strategy of a case, and the iterator that its steps share.
struct Program {
  Program() : strategy(devices_of_process(2)) {}
  v1::MirroredStrategy strategy;
  std::optional<Iterator> iterator;
};

Dataset<Tensor> numbers_in_batches(std::int64_t count, std::int64_t batch) {
  return Dataset<Tensor>::range(count).batch(batch);
}

Json two_inputs(Program& program) { return result_of(program.iterator->get_next()); }

/// `count` results of `next`, with errors in place of results if it throws.
template <class Next>
Json results(int count, const Next& next) {
  Json all = Json::array();
  for (int k = 0; k < count; ++k) all.push_back(outcome_of(next));
  return all;
}

void add_iterator_scripts(Scripts& scripts) {
  scripts["P98"] = [] {
    const auto program = std::make_shared<Program>();
    const auto run = [program] {
      return result_of(
          program->strategy.experimental_run([](const Tensor& x) { return x.clone(); }, *program->iterator));
    };
    return Script{[program, run](World&) {
                    program->iterator.emplace(program->strategy.make_dataset_iterator(numbers_in_batches(4, 2)));
                    return run();
                  },
                  [program, run](World&) {
                    program->iterator->initialize();
                    return run();
                  }};
  };
  scripts["P99"] = [] {
    return Script{[](World&) -> Json {
      Program program;
      program.iterator.emplace(program.strategy.make_input_fn_iterator(
          [](const InputContext&) { return numbers_in_batches(4, 2); }, InputReplicationMode::per_replica));
      return "made";
    }};
  };
  scripts["P256"] = [] {
    const auto program = std::make_shared<Program>();
    return Script{[program](World&) {
                    program->iterator.emplace(program->strategy.make_input_fn_iterator(
                        [](const InputContext&) { return numbers_in_batches(8, 2); }));
                    program->iterator->initialize();
                    return results(3, [&] { return program->strategy.experimental_run(sum_of, *program->iterator); });
                  },
                  [program](World&) {
                    return result_of(program->strategy.experimental_run(
                        [](ReplicaContext& replica) { return replica.replica_id_in_sync_group(); }));
                  }};
  };
  scripts["P257"] = [] {
    const auto program = std::make_shared<Program>();
    return Script{[program](World&) {
                    program->iterator.emplace(program->strategy.make_dataset_iterator(numbers_in_batches(6, 4)));
                    program->iterator->initialize();
                    Json all = Json::array();
                    for (;;) {
                      const Json next = outcome_of([&] { return two_inputs(*program); });
                      if (next.contains("$error") && next["$error"] == "out_of_range") return all;
                      all.push_back(next);
                    }
                  },
                  [program](World&) {
                    program->iterator->initialize();
                    return two_inputs(*program);
                  }};
  };
  scripts["P280"] = [] {
    return Script{[](World&) {
      Program program;
      program.iterator.emplace(
          program.strategy.make_input_fn_iterator([](const InputContext&) { return numbers_in_batches(5, 2); }));
      program.iterator->initialize();
      return results(3, [&] { return program.iterator->get_next(); });
    }};
  };
}

void add_method_scripts(Scripts& scripts) {
  scripts["P109"] = [] {
    return Script{[](World&) -> Json {
      const v1::MirroredStrategy strategy(std::vector<std::string>{"cpu:0"});
      const v1::Config before;
      v1::Config config = before;
      const v1::Config updated = strategy.update_config_proto(config);
      const bool is_unchanged = config == before && !(config == updated);
      config.isolate_session_state = !updated.isolate_session_state;
      // a later change of the input does not change the result
      return {updated.isolate_session_state != config.isolate_session_state, is_unchanged};
    }};
  };
  scripts["P258"] = [] {
    return Script{[](World& world) -> Json {
      Program program;
      const P x = world.operand_as<P>("x");
      return {result_of(program.strategy.reduce(ReduceOp::sum, x)),
              result_of(program.strategy.reduce(ReduceOp::mean, x, 0)),
              result_of(program.strategy.num_replicas_in_sync()),
              result_of(program.strategy.experimental_local_results(x))};
    }};
  };
  scripts["P259"] = [] {
    return Script{[](World&) -> Json {
      v1::OneDeviceStrategy strategy("cpu:0");
      Iterator iterator = strategy.make_dataset_iterator(numbers_in_batches(4, 2));
      iterator.initialize();
      const P list({Tensor::from(std::vector<float>{1, 2, 3})});
      return {result_of(strategy.run([](int x) { return 2 * x; }, 4)),
              result_of(strategy.reduce(ReduceOp::sum, list, 0)), result_of(iterator.get_next())};
    }};
  };
  scripts["P110"] = [] {
    return Script{[](World& world) {
                    return result_of(world.strategy().experimental_run_v2([](const Tensor& x) { return 2 * x; },
                                                                          world.operand_as<Tensor>("x")));
                  },
                  [](World& world) -> Json {
                    const auto dataset = world.strategy().experimental_distribute_datasets_from_function(
                        [](const InputContext&) { return numbers_in_batches(9, 2); });
                    Json steps = Json::array();
                    for (const P& step : dataset) steps.push_back(result_of(step));
                    return {{"steps", steps}};
                  }};
  };
}

}  // namespace

void add_v1_scripts(Scripts& scripts) {
  add_iterator_scripts(scripts);
  add_method_scripts(scripts);
}

}  // namespace lockstep::conformance

// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The statements of random programs that do not change the context, with their expected values.

#include "unit/strategy/random_program.hpp"

#include <array>
#include <numeric>
#include <utility>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace lockstep::test {
namespace {

/// Slices of a tensor with two rows: row 0 is `value`.
IndexedSlices first_row(float value) {
  return {Tensor::from(std::vector<float>{value}), Tensor::from(std::vector<std::int64_t>{0}), 2};
}

std::vector<int> numbers_below(int count) {
  std::vector<int> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

}  // namespace

void Program::cross_replica_call(Dice& dice, const Place& place) {
  switch (dice.roll(20)) {
    case 0: return call_queries();
    case 1:
    case 2:
    case 3: return call_values(dice, place);
    case 4:
    case 5: return call_reduce(dice);
    case 6:
    case 7: return call_gather(place);
    case 8:
    case 9: return call_batch_reduce();
    case 10:
    case 11:
    case 12: return make_variables(dice, place);
    case 13:
    case 14: return read_variables(place);
    case 15:
    case 16:
      if (!place.updating) write_variables(dice);  // an update writes only its own copy
      return;
    case 17:
    case 18: return call_datasets(dice, place);
    default: return call_v1(dice, place);
  }
}

void Program::call_queries() {
  count("Strategy::num_replicas_in_sync");
  count("Strategy::is_chief");
  count("Strategy::communicator");
  count("Strategy::cluster_resolver");
  expect(mine_.communicator().local_replicas() == mine_.num_replicas_in_sync() && mine_.is_chief() &&
             mine_.cluster_resolver() == nullptr,
         "what a strategy says of itself");
  count("Strategy::statistics");
  count("Strategy::describe");
  expect(mine_.statistics().runs >= 0 && mine_.describe().find("MirroredStrategy") != std::string::npos, "describe");
  count("Strategy::extended");
  count("StrategyExtended::worker_devices");
  count("StrategyExtended::parameter_devices");
  count("StrategyExtended::experimental_require_static_shapes");
  const StrategyExtended& extended = mine_.extended();
  expect(extended.worker_devices().size() == static_cast<std::size_t>(replicas()) &&
             extended.parameter_devices().size() == extended.worker_devices().size() &&
             !extended.experimental_require_static_shapes(),
         "what an extended strategy says of itself");
  count("Strategy::experimental_assign_to_logical_device");
  count("Strategy::experimental_split_to_logical_devices");
  count("Strategy::experimental_replicate_to_logical_devices");
  const std::vector<int> x{1, 2};
  expect(mine_.experimental_assign_to_logical_device(x, 0) == x &&
             mine_.experimental_split_to_logical_devices(x, {1}) == x &&
             mine_.experimental_replicate_to_logical_devices(x) == x,
         "logical devices");
}

void Program::call_values(Dice& dice, const Place& place) {
  count("Strategy::experimental_distribute_values_from_function");
  const bool throws = dice.roll(20) == 0;
  const auto ids = mine_.experimental_distribute_values_from_function([&](const ValueContext& context) {
    check(place, "a value function");
    if (throws && context.replica_id_in_sync_group + 1 == context.num_replicas_in_sync) {
      count("an exception in a value function");
      boom();
    }
    return context.replica_id_in_sync_group;
  });
  count("Strategy::experimental_local_results");
  expect(mine_.experimental_local_results(ids) == numbers_below(replicas()), "local results");
}

void Program::call_reduce(Dice& dice) {
  const int add = dice.roll(10);
  const auto ids = mine_.experimental_distribute_values_from_function(
      [&](const ValueContext& context) { return context.replica_id_in_sync_group + add; });
  const int sum = sum_of_ids() + replicas() * add;
  count("Strategy::reduce");
  expect(mine_.reduce(ReduceOp::sum, ids) == sum, "reduce");
  count("StrategyExtended::reduce_to");
  expect(mine_.extended().reduce_to(ReduceOp::sum, ids, marker_).value() == sum, "reduce_to");
  count("Strategy::reduce(axes)");
  const PerReplica<std::vector<int>> ones(replicas(), 0, [](int i) { return std::vector<int>(1U + (i == 0), 1); });
  expect(mine_.reduce(ReduceOp::sum, ones, 0) == replicas() + 1, "reduce along an axis");
  count("Strategy::reduce(variable)");
  expect(mine_.reduce(ReduceOp::sum, totals_).elements<int>()[0] == total_, "reduce of a variable on read");
}

void Program::call_gather(const Place& place) {
  const PerReplica<std::vector<int>> ids(replicas(), 0, [](int i) { return std::vector<int>{i}; });
  count("Strategy::gather");
  expect(mine_.gather(ids, 0) == numbers_below(replicas()), "gather");
  count("StrategyExtended::broadcast_to");
  const auto copies = mine_.extended().broadcast_to(std::vector<int>{1, 2}, ids);
  expect(copies.size() == replicas() && copies.component(0) == (std::vector<int>{1, 2}), "broadcast_to");
  check(place, "broadcast_to");
}

void Program::call_batch_reduce() {
  const PerReplica<Tensor> ones(replicas(), 0, [](int) { return Tensor::scalar(1); });
  const PerReplica<IndexedSlices> slices(replicas(), 0, [](int) { return first_row(1); });
  count("StrategyExtended::batch_reduce_to");
  const auto sums =
      mine_.extended().batch_reduce_to(ReduceOp::sum, std::vector{std::pair(ones, ones), std::pair(ones, ones)});
  for (const auto& sum : sums) expect(sum.value().elements<int>()[0] == replicas(), "batch_reduce_to");
  count("StrategyExtended::batch_reduce_to(ReducePair)");
  const auto mixed = mine_.extended().batch_reduce_to(
      "SUM", std::vector<ReducePair>{{slices, "cpu:0"}, {ones, marker_}, {totals_, "cpu:0"}});
  expect(std::get<Mirrored<IndexedSlices>>(mixed[0]).value().indices.element_count() == replicas() &&
             std::get<Mirrored<Tensor>>(mixed[1]).component(replicas() - 1).elements<int>()[0] == replicas() &&
             std::get<Mirrored<Tensor>>(mixed[2]).value().elements<int>()[0] == total_,
         "batch_reduce_to of values of different kinds");
}

void Program::make_variables(Dice& dice, const Place& place) {
  if (place.updating) return;
  const int number = dice.roll(100);
  count("Strategy::variable");
  count("Strategy::variable(tensor)");
  count("Strategy::sync_on_read_variable");
  const auto typed = mine_.variable<int>([&] {
    check(place, "an initializer");
    return number;
  });
  const Variable untyped = mine_.variable(Tensor::scalar(number), {.name = "w", .trainable = false});
  const auto on_read = mine_.sync_on_read_variable<int>(number, {.aggregation = VariableAggregation::sum});
  check(place, "the making of variables");
  count("Variable::name");
  count("Variable::component_name");
  count("Variable::component_count");
  expect(untyped.name() == "w" && untyped.component_name(0) == "w" && untyped.component_count() == replicas(),
         "the names of a variable");
  count("Variable::dtype");
  count("Variable::shape");
  count("Variable::element_count");
  expect(untyped.dtype() == DType::i32 && untyped.shape().rank() == 0 && untyped.element_count() == 1,
         "the elements of a variable");
  count("Variable::synchronization");
  count("Variable::aggregation");
  count("Variable::trainable");
  expect(on_read.synchronization() == VariableSynchronization::on_read && !untyped.trainable() &&
             on_read.aggregation() == VariableAggregation::sum,
         "the options of a variable");
  count("Variable::component");
  count("VariableComponent::container");
  count("StrategyExtended::value_container");
  count("StrategyExtended::variable_created_in_scope");
  const VariableComponent last = typed.component(replicas() - 1);
  expect(last.container() == typed && mine_.extended().value_container(last) == typed &&
             mine_.extended().variable_created_in_scope(typed),
         "the container of a component");
  count("Variable::operator==");
  count("Variable::hash");
  expect(!(untyped == typed) && typed.hash() == Variable(typed).hash(), "the identity of a variable");
  expect(typed.value() == number && on_read.value() == number * replicas(), "what a new variable holds");
  count("StrategyExtended::colocate_vars_with");
  if (place.strategy == nullptr) {
    refused([&] { const auto guard = mine_.extended().colocate_vars_with(typed); }, "scope", place);
  } else {
    const auto guard = mine_.extended().colocate_vars_with(typed);
    expect(mine_.variable<int>(1).component_count() == replicas(), "a variable beside another");
  }
}

void Program::read_variables(const Place& place) {
  count("Variable::read");
  count("Variable::read_to");
  count("Variable::view");
  count("Variable::value");
  count("Variable::values");
  count("Variable::elements");
  int number = -1;
  sums_.read_to({&number, DType::i32, Shape{}, {}});
  expect(sums_.read().elements<int>()[0] == number && sums_.value() == number && sums_.elements()[0] == number &&
             *static_cast<const int*>(sums_.view().data) == number && rows_.values().size() == 2,
         "ways to read a variable");
  if (!place.cross_replica || place.updating) return;
  expect(totals_.value() == total_, "the sum of a variable on read");
}

void Program::write_variables(Dice& dice) {
  const int number = dice.roll(100);
  count("Variable::assign");
  count("Variable::assign_add");
  count("Variable::assign_sub");
  value_.assign(number).assign_add(value_);
  expect(value_.value() == 2 * number, "assign_add");
  value_.assign_sub(number);
  expect(value_.value() == number, "assign_sub");
  const float before = rows_.elements()[0];
  count("Variable::scatter_add");
  count("Variable::scatter_sub");
  count("Variable::scatter_mul");
  count("Variable::scatter_div");
  rows_.scatter_add(first_row(3)).scatter_sub(first_row(1)).scatter_mul(first_row(2)).scatter_div(first_row(2));
  expect(rows_.elements()[0] == before + 2, "scatter_add");
  count("Variable::scatter_min");
  count("Variable::scatter_max");
  count("Variable::scatter_update");
  rows_.scatter_update(first_row(5)).scatter_min(first_row(2)).scatter_max(first_row(3));
  expect(rows_.elements()[0] == 3, "scatter_max");
}

void Program::call_datasets(Dice& dice, const Place& place) {
  const int steps = 1 + dice.roll(2);
  const auto total_of = [&](const auto& dataset) {
    std::int64_t total = 0;
    for (const PerReplica<Tensor>& batch : dataset) {
      check(place, "a step of a dataset");
      total += mine_.reduce(ReduceOp::sum, batch).template elements<std::int64_t>()[0];
    }
    return total;
  };
  const std::int64_t count_of_all = std::int64_t{steps} * replicas();
  const std::int64_t expected = count_of_all * (count_of_all - 1) / 2;
  const bool throws = dice.roll(5) == 0;
  const auto own_data = [&](const InputContext& context) {
    check(place, "a dataset function");
    if (throws) {
      count("an exception in a dataset function");
      boom();
    }
    return Dataset<Tensor>::range(std::int64_t{steps} * context.num_replicas_in_sync()).batch(1);
  };
  switch (dice.roll(4)) {
    case 0:
      count("Strategy::experimental_distribute_dataset");
      return expect(total_of(mine_.experimental_distribute_dataset(
                        Dataset<Tensor>::range(count_of_all).batch(replicas()))) == expected,
                    "a distributed dataset");
    case 1:
      count("Strategy::distribute_datasets_from_function");
      return expect(total_of(mine_.distribute_datasets_from_function(own_data)) == expected,
                    "a dataset from a function");
    case 2:
      count("Strategy::experimental_distribute_datasets_from_function");
      return expect(total_of(mine_.experimental_distribute_datasets_from_function(own_data)) == expected,
                    "a dataset from a function, by its older name");
    default:
      count("Strategy::experimental_make_numpy_dataset");
      count("v1::experimental_make_numpy_dataset");
      const std::vector<float> rows(3, 1.0F);
      const Strategy& base = mine_;
      expect(base.experimental_make_numpy_dataset(rows).cardinality().count() == 3 &&
                 mine_.experimental_make_numpy_dataset(rows).cardinality().count() == 3,
             "a dataset of an array");
  }
}

void Program::call_v1(Dice& dice, const Place& place) {
  count("v1::update_config_proto");
  expect(mine_.update_config_proto({}).isolate_session_state, "update_config_proto");
  const auto step = [&](ReplicaContext& replica, const Tensor& x) {
    check(Place::in_step(mine_, replica.replica_id_in_sync_group()), "the start of a v1 step");
    return static_cast<int>(x.elements<std::int64_t>()[0]);
  };
  const auto run_through = [&](auto iterator) {
    count("v1::InputIterator::initialize");
    iterator.initialize();
    count("v1::experimental_run(iterator)");
    const auto first = mine_.experimental_run(step, iterator);
    count("v1::InputIterator::get_next");
    const PerReplica<Tensor> second = iterator.get_next();
    check(place, "get_next");
    for (int i = 0; i < replicas(); ++i) {
      expect(first.component(i) == i && second.component(i).elements<std::int64_t>()[0] == replicas() + i,
             "the inputs of a v1 iterator");
    }
  };
  const std::int64_t elements = 2 * replicas();
  switch (dice.roll(3)) {
    case 0:
      count("v1::make_dataset_iterator");
      return run_through(mine_.make_dataset_iterator(Dataset<Tensor>::range(elements).batch(replicas())));
    case 1:
      count("v1::make_input_fn_iterator");
      return run_through(mine_.make_input_fn_iterator([&](const InputContext&) {
        check(place, "an input function");
        return Dataset<Tensor>::range(elements).batch(1);
      }));
    default:
      count("v1::experimental_run");
      mine_.experimental_run([&](ReplicaContext& replica) {
        check(Place::in_step(mine_, replica.replica_id_in_sync_group()), "a v1 step");
      });
  }
}

void Program::step_call(ReplicaContext& replica, Dice& dice) {
  const int id = replica.replica_id_in_sync_group();
  switch (dice.roll(9)) {
    case 0:
      count("ReplicaContext::replica_id_in_sync_group");
      count("ReplicaContext::num_replicas_in_sync");
      count("ReplicaContext::local_replica");
      count("ReplicaContext::devices");
      count("ReplicaContext::strategy");
      return expect(replica.num_replicas_in_sync() == replicas() && replica.local_replica() == id &&
                        replica.devices().size() == 1 && &replica.strategy() == &mine_,
                    "what a replica says of itself");
    case 1:
      count("ReplicaContext::all_reduce");
      return expect(replica.all_reduce(ReduceOp::sum, id) == sum_of_ids(), "all_reduce");
    case 2: {
      count("ReplicaContext::all_reduce(views)");
      std::array<int, 2> numbers{id, 1};
      const TensorView view = view_of(std::span<int>(numbers));
      replica.all_reduce(ReduceOp::sum, std::span<const TensorView>(&view, 1));
      return expect(numbers[0] == sum_of_ids() && numbers[1] == replicas(), "all_reduce of views");
    }
    case 3:
      count("ReplicaContext::all_gather");
      return expect(replica.all_gather(std::array{id}, 0) == numbers_below(replicas()), "all_gather");
    case 4: {
      count("ReplicaContext::broadcast");
      const int root = dice.roll(replicas());
      return expect(replica.broadcast(id, root) == root, "broadcast");
    }
    case 5: {
      count("a variable made in a step");
      const auto made = mine_.variable<int>(id + 1);
      return expect(made.value() == 1, "a variable made in a step");
    }
    case 6: return read_variables(Place::in_step(mine_, id));
    case 7: return scatter_in_step(dice);
    default: return write_in_step(replica, dice);
  }
}

void Program::write_in_step(ReplicaContext& replica, Dice& dice) {
  const int id = replica.replica_id_in_sync_group();
  count("Variable::assign_add of one on read");
  totals_.assign_add(1);
  ++total_;
  const int before = sums_.value();
  switch (dice.roll(3)) {
    case 0:
      count("Variable::assign in a step");
      sums_.assign(id);
      return expect(sums_.value() == sum_of_ids(), "assign in a step");
    case 1:
      count("Variable::assign_add in a step");
      sums_.assign_add(id);
      return expect(sums_.value() == before + sum_of_ids(), "assign_add in a step");
    default:
      count("Variable::assign_sub in a step");
      sums_.assign_sub(id);
      expect(sums_.value() == before - sum_of_ids(), "assign_sub in a step");
  }
}

void Program::scatter_in_step(Dice& dice) {
  if (dice.roll(2) == 0) {
    const float before = rows_.elements()[0];
    rows_.scatter_add(first_row(2)).scatter_sub(first_row(1)).scatter_mul(first_row(1)).scatter_div(first_row(1));
    return expect(rows_.elements()[0] == before + static_cast<float>(replicas()), "scatter_add in a step");
  }
  first_rows_.scatter_update(first_row(5)).scatter_min(first_row(2)).scatter_max(first_row(3));
  expect(first_rows_.elements()[0] == 3, "scatter_max in a step");
}

}  // namespace lockstep::test

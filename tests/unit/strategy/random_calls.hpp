// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The calls that random programs must make often: every public method of the strategy layer, and every way to end a
// scope or a step.

#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <string_view>

namespace lockstep::test {

inline constexpr auto call_names = std::to_array<std::string_view>({
    "Strategy::num_replicas_in_sync",
    "Strategy::is_chief",
    "Strategy::communicator",
    "Strategy::statistics",
    "Strategy::extended",
    "Strategy::cluster_resolver",
    "Strategy::scope",
    "Strategy::run",
    "Strategy::run(options)",
    "Strategy::experimental_run_v2",
    "Strategy::reduce",
    "Strategy::reduce(axes)",
    "Strategy::reduce(variable)",
    "Strategy::gather",
    "Strategy::describe",
    "Strategy::experimental_local_results",
    "Strategy::variable",
    "Strategy::variable(tensor)",
    "Strategy::sync_on_read_variable",
    "Strategy::experimental_distribute_dataset",
    "Strategy::distribute_datasets_from_function",
    "Strategy::experimental_distribute_datasets_from_function",
    "Strategy::experimental_distribute_values_from_function",
    "Strategy::experimental_make_numpy_dataset",
    "Strategy::experimental_assign_to_logical_device",
    "Strategy::experimental_split_to_logical_devices",
    "Strategy::experimental_replicate_to_logical_devices",

    "StrategyExtended::worker_devices",
    "StrategyExtended::parameter_devices",
    "StrategyExtended::reduce_to",
    "StrategyExtended::batch_reduce_to",
    "StrategyExtended::batch_reduce_to(ReducePair)",
    "StrategyExtended::broadcast_to",
    "StrategyExtended::update",
    "StrategyExtended::update(ungrouped)",
    "StrategyExtended::update_non_slot",
    "StrategyExtended::update_non_slot(ungrouped)",
    "StrategyExtended::non_slot_devices",
    "StrategyExtended::call_for_each_replica",
    "StrategyExtended::experimental_require_static_shapes",
    "StrategyExtended::colocate_vars_with",
    "StrategyExtended::value_container",
    "StrategyExtended::variable_created_in_scope",

    "ReplicaContext::replica_id_in_sync_group",
    "ReplicaContext::num_replicas_in_sync",
    "ReplicaContext::local_replica",
    "ReplicaContext::devices",
    "ReplicaContext::strategy",
    "ReplicaContext::all_reduce",
    "ReplicaContext::all_reduce(views)",
    "ReplicaContext::all_gather",
    "ReplicaContext::broadcast",
    "ReplicaContext::merge_call",
    "ReplicaContext::update",

    "Variable::name",
    "Variable::component_name",
    "Variable::dtype",
    "Variable::shape",
    "Variable::element_count",
    "Variable::synchronization",
    "Variable::aggregation",
    "Variable::trainable",
    "Variable::component_count",
    "Variable::component",
    "Variable::read",
    "Variable::read_to",
    "Variable::view",
    "Variable::updatable_component",
    "Variable::value",
    "Variable::values",
    "Variable::elements",
    "Variable::assign",
    "Variable::assign_add",
    "Variable::assign_sub",
    "Variable::assign in a step",
    "Variable::assign_add in a step",
    "Variable::assign_sub in a step",
    "Variable::assign_add of one on read",
    "Variable::scatter_add",
    "Variable::scatter_sub",
    "Variable::scatter_mul",
    "Variable::scatter_div",
    "Variable::scatter_min",
    "Variable::scatter_max",
    "Variable::scatter_update",
    "Variable::operator==",
    "Variable::hash",
    "VariableComponent::container",

    "v1::experimental_run",
    "v1::experimental_run(iterator)",
    "v1::make_dataset_iterator",
    "v1::make_input_fn_iterator",
    "v1::experimental_make_numpy_dataset",
    "v1::update_config_proto",
    "v1::InputIterator::initialize",
    "v1::InputIterator::get_next",

    "experimental_set_strategy",
    "a variable made in a step",
    "scopes that end out of order",
    "a scope that is closed inside of a step or an update",
    "a scope that is left open",
    "a scope that is refused",
    "a strategy that ends while it is current",
    "a run that is refused",
    "an update in a step",
    "a thread",
    "an exception",
    "an exception in a value function",
    "an exception in a dataset function",
    "a different number of meetings",
});

/// One of them, by its name.
struct Call {
  // NOLINTNEXTLINE(google-explicit-constructor): the name stands for the call
  consteval Call(const char* name)
      : index(static_cast<std::size_t>(std::find(call_names.begin(), call_names.end(), std::string_view(name)) -
                                       call_names.begin())) {
    if (index == call_names.size()) throw "no such call";
  }
  std::size_t index;
};

using CallCounts = std::array<std::atomic<int>, call_names.size()>;

}  // namespace lockstep::test

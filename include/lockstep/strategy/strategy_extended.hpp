// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The interface of a strategy for library code that handles distribution explicitly, under tf.distribute's names.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/collectives/communication_options.hpp>
#include <lockstep/collectives/detail/propagate.hpp>
#include <lockstep/context/replica_context.hpp>
#include <lockstep/core/device.hpp>
#include <lockstep/core/reduce_op.hpp>
#include <lockstep/core/reduce_op_argument.hpp>
#include <lockstep/strategy/destinations.hpp>
#include <lockstep/strategy/detail/leaf_list.hpp>
#include <lockstep/strategy/detail/leaves.hpp>
#include <lockstep/strategy/detail/update.hpp>
#include <lockstep/values/detail/local_replicas.hpp>
#include <lockstep/values/merge.hpp>
#include <lockstep/values/per_replica.hpp>
#include <lockstep/variables/variable.hpp>

#include <concepts>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep {

class ReplicaTeam;
class Strategy;

class StrategyExtended;

namespace detail {

/// Overload for detail::propagate; propagates to the ranks of the strategy. Local.
LOCKSTEP_API void propagate_current_exception(const StrategyExtended& extended, FoundBy found_by);

}  // namespace detail

/// Tag for the first argument of `update` and `update_non_slot`: the result has a list of the results of all copies, as
/// with tf.distribute's `group=False`.
struct Ungrouped {
  explicit Ungrouped() = default;
};
inline constexpr Ungrouped ungrouped{};

/// While a ColocateScope exists, new variables are on `devices()`. Created by `StrategyExtended::colocate_vars_with`.
/// All variables of a strategy are on all devices of the strategy in any case, so the scope has no effect. Not copyable
/// or movable.
class LOCKSTEP_API [[nodiscard]] ColocateScope {
 public:
  ColocateScope(const ColocateScope&) = delete;
  ColocateScope& operator=(const ColocateScope&) = delete;
  ~ColocateScope();

  /// The devices that were given, or the devices of the variable that was given.
  [[nodiscard]] std::span<const Device> devices() const noexcept;
  /// Throws Error(failed_precondition) if devices were given.
  [[deprecated("use devices()")]] [[nodiscard]] const Variable& variable() const;

 private:
  friend class StrategyExtended;
  ColocateScope(std::vector<Device> devices, std::optional<Variable> variable);

  std::vector<Device> devices_;
  std::optional<Variable> variable_;
};

/// Returned by `Strategy::extended()`; exists as long as the strategy. Methods must be called in cross-replica context,
/// unless their comments say otherwise; a step function enters this context by merge_call. Thread-safety: one thread at
/// a time.
class LOCKSTEP_API StrategyExtended {
 public:
  StrategyExtended(const StrategyExtended&) = delete;
  StrategyExtended& operator=(const StrategyExtended&) = delete;

  /// Devices of this rank's replicas. The copies of variables are on the same devices, so both functions return the
  /// same list. Local. Throws Error(failed_precondition) for the default strategy.
  [[nodiscard]] std::span<const Device> worker_devices() const;
  [[nodiscard]] std::span<const Device> parameter_devices() const;

  /// Returns the reduction of `value` over all replicas, with one copy on each device of `destinations`. Each leaf of
  /// `value` becomes a Mirrored value with the result that Strategy::reduce gives for the leaf. `destinations`
  /// is a Variable (which is not written), a PerReplica or Mirrored value, a Tensor, a Device, or the name of a device;
  /// see Destinations. Collective.
  ///
  /// A name may be that of the task of this rank, such as "/job:worker/replica:0/task:1/device:CPU:0" on rank 1. All
  /// ranks must pass the same destinations: CPUs with the same number, or GPUs (each rank has its own numbers), or
  /// values and variables.
  ///
  /// PerReplica<IndexedSlices> gives the rows of all replicas, concatenated in the order of replica ids; for a mean,
  /// the rows are divided by the number of replicas. Values other than PerReplica are treated as in Strategy::reduce:
  /// with several replicas, the mean of one value is the value itself, and a sum is an error. Memory: a Tensor for a
  /// GPU is in the memory of the GPU. For Tensors in host memory, the strategy keeps up to 16 MiB of freed memory and
  /// reuses it. Results of other types are in host memory.
  /// Failure: Error(invalid_argument) if components of this rank differ in dtype or shape, and for the name of a device
  /// of another task; Error(mismatch) if dtypes, shapes or destinations differ between ranks, unless every value is one
  /// value, which needs no communication; Error(unavailable) for a GPU that does not exist. If a device is out of
  /// memory, this rank throws std::bad_alloc, and the other ranks get Error(unavailable) with the text of this
  /// exception.
  template <class Tree>
  [[nodiscard]] auto reduce_to(const ReduceOpArgument& op, const Tree& value, const Destinations& destinations,
                               const CommunicationOptions& options = {}) {
    if constexpr (detail::can_be_reduced<Tree>())
      return share_lack_of_memory([&] { return reduce_tree_to(op, value, destinations, options); });
  }

  /// As reduce_to for every pair (value, destinations), in one collective. The results have the order of the pairs.
  /// Collective. If the values are PerReplica<Tensor>, they may have different dtypes. An empty list gives an empty
  /// list.
  template <class Value, class Destination>
  [[nodiscard]] auto batch_reduce_to(const ReduceOpArgument& op,
                                     const std::vector<std::pair<Value, Destination>>& value_destination_pairs,
                                     const CommunicationOptions& options = {}) {
    if constexpr (detail::can_be_reduced<Value>())
      return share_lack_of_memory([&] { return reduce_pairs_to(op, value_destination_pairs, options); });
  }

  /// As above, for a list that may have both dense and sparse values: `batch_reduce_to("SUM", pairs)` with a vector of
  /// ReducePair. Uses one collective for all dense values, and one for all sparse values.
  [[nodiscard]] std::vector<ReducedValue> batch_reduce_to(const ReduceOpArgument& op, std::span<const ReducePair> pairs,
                                                          const CommunicationOptions& options = {});
  [[nodiscard]] std::vector<ReducedValue> batch_reduce_to(const ReduceOpArgument& op,
                                                          const std::vector<ReducePair>& pairs,
                                                          const CommunicationOptions& options = {});

  /// Returns copies of the `value` of rank 0, one on each device of `destinations`. Collective. Throws Error(mismatch)
  /// if dtypes, shapes or destinations differ between ranks. If `value` is a number, returns this rank's `value`.
  template <class Value>
  [[nodiscard]] auto broadcast_to(const Value& value, const Destinations& destinations,
                                  const CommunicationOptions& options = {}) {
    check_cross_replica("broadcast_to");
    if constexpr (Element<Value>) {
      return value;
    } else if constexpr (detail::can_be_reduced<Value, detail::is_not_tensor>()) {
      return share_lack_of_memory([&] { return broadcast_tensor_to(value, destinations, options); });
    }
  }

  /// Calls `fn(variable, args...)` for every copy of `variable` on this rank, in update context, one copy after the
  /// other. Local; all ranks must make the same updates. A variable that was created outside every scope has one copy.
  /// In update context, calls on a variable read and write one copy only: for the page's
  /// `update(v, lambda v, a: v.assign(a), a)` write `update(v, [](auto& v, auto a) { v.assign(a); }, a)`.
  /// `updatable_component` gives the elements of this copy.
  /// Arguments: in place of a PerReplica or Mirrored leaf, `fn` gets the leaf's component for the replica of the copy.
  /// All other arguments are passed by reference; if `fn` reads a variable, it gets the copy of the same replica. In
  /// place of tf.distribute's arguments by name, pass an aggregate. Throws Error(invalid_argument) if a PerReplica
  /// argument does not have one component for each replica of this rank.
  /// Result: void if `fn` returns void. Otherwise the results of all copies are merged to one tree: each leaf T becomes
  /// Mirrored<T>, but a leaf that is a variable remains that variable.
  /// In replica context all replicas of this rank must call update, each with the arguments for its own copy. The calls
  /// then have the effect of one update inside a merge_call, with the `fn` of the first replica.
  /// Failure: Error(invalid_argument) for a variable of another strategy. If `fn` throws, earlier writes of `fn`
  /// remain.
  template <std::derived_from<Variable> VariableType, class F, class... Args>
  auto update(const VariableType& variable, F&& fn, Args&&... args) {
    detail::require_updater<F&, VariableType, Args...>();
    if constexpr (detail::is_updater<F&, VariableType, Args...>)
      return update_copies<detail::Grouping::grouped>(variable, fn, args...);
  }
  template <std::derived_from<Variable> VariableType, class F, class... Args>
    requires(!detail::is_updater<F&, VariableType, Args...> && detail::takes_component<F&, VariableType, Args...>)
  [[deprecated(
      "use update(variable, fn) with fn(variable, args...), which gets the variable instead of the elements of "
      "its copy; v.updatable_component() gives these elements")]] auto
  update(const VariableType& variable, F&& fn, Args&&... args) {
    auto updater = detail::updater_of_component<VariableType>(fn);
    return update_copies<detail::Grouping::grouped>(variable, updater, args...);
  }
  /// As above, but the result is a tree with std::vector leaves, which have one element per copy of this rank.
  template <std::derived_from<Variable> VariableType, class F, class... Args>
  auto update(Ungrouped, const VariableType& variable, F&& fn, Args&&... args) {
    detail::require_updater<F&, VariableType, Args...>();
    if constexpr (detail::is_updater<F&, VariableType, Args...>)
      return update_copies<detail::Grouping::ungrouped>(variable, fn, args...);
  }
  template <std::derived_from<Variable> VariableType, class F, class... Args>
    requires(!detail::is_updater<F&, VariableType, Args...> && detail::takes_component<F&, VariableType, Args...>)
  [[deprecated(
      "use update(ungrouped, variable, fn) with fn(variable, args...), which gets the variable instead of the "
      "elements of its copy; v.updatable_component() gives these elements")]] auto
  update(Ungrouped, const VariableType& variable, F&& fn, Args&&... args) {
    auto updater = detail::updater_of_component<VariableType>(fn);
    return update_copies<detail::Grouping::ungrouped>(variable, updater, args...);
  }

  /// Calls `fn(args...)` once for each of `devices`, in update context of the copies on the device. Arguments and
  /// result are as for `update`. Local; all ranks must make the same updates. `devices` is the result of
  /// non_slot_devices, or some elements of parameter_devices.
  /// Failure: Error(invalid_argument) for an empty list, and for a device that this rank's replicas do not have;
  /// Error(failed_precondition) in replica context.
  template <class F, class... Args>
  auto update_non_slot(std::span<const Device> devices, F&& fn, Args&&... args) {
    return update_on<detail::Grouping::grouped>(devices, fn, args...);
  }
  /// As above, but the result is a tree with std::vector leaves, which have one element per device.
  template <class F, class... Args>
  auto update_non_slot(Ungrouped, std::span<const Device> devices, F&& fn, Args&&... args) {
    return update_on<detail::Grouping::ungrouped>(devices, fn, args...);
  }

  /// Devices for state of an optimizer that does not belong to a single variable, such as a step count: all devices of
  /// this rank. Local. The default strategy keeps such state with the variables of `var_list`, so it throws
  /// Error(invalid_argument) if `var_list` is empty.
  [[nodiscard]] std::span<const Device> non_slot_devices(std::span<const Variable> var_list = {}) const;

  /// `Strategy::run` under the name that it has in tf.distribute's extended interface. The result has PerReplica leaves
  /// also for a OneDeviceStrategy.
  template <class F, class... Args>
  auto call_for_each_replica(F&& fn, Args&&... args);

  /// Whether the strategy needs shapes that never change, as on TPUs. Always false. Local.
  [[nodiscard]] bool experimental_require_static_shapes() const noexcept { return false; }

  /// While the result exists, new variables are on the devices of `variable`. Local. Variables of a strategy are on all
  /// devices of the strategy in any case; this function exists for code that was written for other strategies. Throws
  /// Error(failed_precondition) outside the scope or step of this strategy, and Error(invalid_argument) for a variable
  /// of another strategy.
  [[nodiscard]] ColocateScope colocate_vars_with(const Variable& variable) const;
  /// As above, for variables on `devices`, such as the result of non_slot_devices. Throws Error(failed_precondition)
  /// outside the scope or step of this strategy, and Error(invalid_argument) for an empty list and for a device that
  /// this rank's replicas do not have.
  [[nodiscard]] ColocateScope colocate_vars_with(std::span<const Device> devices) const;

  /// Returns the variable to which a component belongs, and any other value unchanged. Therefore `value` is always an
  /// element of `experimental_local_results(value_container(value))`. Local.
  [[nodiscard]] Variable value_container(const VariableComponent& value) const { return value.container(); }
  template <class T>
  [[nodiscard]] T value_container(const T& value) const {
    return value;
  }

  /// Whether this strategy created `variable`. The default strategy creates all variables outside of scopes. Local.
  [[nodiscard]] bool variable_created_in_scope(const Variable& variable) const;

 private:
  friend class Strategy;
  explicit StrategyExtended(Strategy& strategy) noexcept : strategy_(strategy) {}

  /// As Strategy::share_lack_of_memory.
  template <class Call>
  auto share_lack_of_memory(const Call& call) {
    return detail::propagate_lack_of_memory(*this, call);
  }
  template <class Tree>
  auto reduce_tree_to(const ReduceOpArgument& op, const Tree& value, const Destinations& destinations,
                      const CommunicationOptions& options) {
    LeafList leaves = begin_reduction("reduce_to", op);
    detail::add_structure(value, leaves);
    ComparedDestinations compared;
    const ResultPlaces places = places_at("reduce_to", destinations, compared);
    auto copies = detail::propagate(*this, [&] {
      return map_leaves(value, [&](const auto& leaf) { return detail::start_copies_of(leaf, places, leaves); });
    });
    run_reduction("reduce_to", leaves, compared, options);
    return map_leaves(copies, [&](auto& leaf) { return detail::mirrored_copies(leaf.value, places); });
  }
  template <class Value, class Destination>
  auto reduce_pairs_to(const ReduceOpArgument& op,
                       const std::vector<std::pair<Value, Destination>>& value_destination_pairs,
                       const CommunicationOptions& options) {
    LeafList leaves = begin_reduction("batch_reduce_to", op);
    detail::require_collective_of<Value>(leaves);
    leaves.add_argument(detail::structures_of<Value>(value_destination_pairs,
                                                     [](const auto& pair) -> const Value& { return pair.first; }));
    ComparedDestinations compared;
    std::vector<ResultPlaces> places;
    places.reserve(value_destination_pairs.size());
    for (const auto& pair : value_destination_pairs) {
      places.push_back(places_at("batch_reduce_to", pair.second, compared));
    }
    if constexpr (detail::is_per_replica_tensor<Value>) {
      return reduce_tensors(leaves, value_destination_pairs, places, compared, options);
    } else {
      const auto start = [&](std::size_t k) {
        return map_leaves(value_destination_pairs[k].first,
                          [&](const auto& leaf) { return detail::start_copies_of(leaf, places[k], leaves); });
      };
      std::vector<decltype(start(0))> copies;
      detail::propagate(*this, [&] {
        for (std::size_t k = 0; k < places.size(); ++k) copies.push_back(start(k));
      });
      run_reduction("batch_reduce_to", leaves, compared, options);
      const auto result = [&](std::size_t k) {
        return map_leaves(copies[k], [&](auto& leaf) { return detail::mirrored_copies(leaf.value, places[k]); });
      };
      std::vector<decltype(result(0))> results;
      for (std::size_t k = 0; k < places.size(); ++k) results.push_back(result(k));
      return results;
    }
  }
  template <class Value>
  auto broadcast_tensor_to(const Value& value, const Destinations& destinations, const CommunicationOptions& options) {
    using Result = detail::owning_t<Value>;
    std::vector<detail::Cell<Result>> cells;
    ComparedDestinations compared;
    const ResultPlaces places = places_at("broadcast_to", destinations, compared);
    const LeafList leaves = leaves_for("broadcast_to", ReduceOp::max);
    cells.reserve(static_cast<std::size_t>(places.size()));
    detail::propagate(*this, [&] {
      for (int i = 0; i < places.size(); ++i) cells.push_back({detail::result_for<Result>(value, leaves, places[i])});
    });
    std::vector<TensorView> outputs;
    for (auto& cell : cells) outputs.push_back(tensor_traits<Result>::view(cell.value));
    broadcast_views(tensor_traits<Value>::view(value), outputs, compared, options);
    return detail::mirrored_of<Result>(cells);
  }
  LeafList begin_reduction(std::string_view call, const ReduceOpArgument& op);
  /// Propagates to the ranks of the strategy, for detail::propagate.
  friend void detail::propagate_current_exception(const StrategyExtended& extended, detail::FoundBy found_by);
  void run_reduction(std::string_view call, const LeafList& leaves, const ComparedDestinations& compared,
                     const CommunicationOptions& options);
  /// batch_reduce_to of tensors, without an allocation for each tensor.
  template <class T, class Destination>
  std::vector<Mirrored<detail::owning_t<T>>> reduce_tensors(
      LeafList& leaves, const std::vector<std::pair<PerReplica<T>, Destination>>& pairs,
      const std::vector<ResultPlaces>& places, const ComparedDestinations& compared,
      const CommunicationOptions& options) {
    std::size_t components = 0;
    std::size_t copies = 0;
    for (std::size_t k = 0; k < pairs.size(); ++k) {
      components += static_cast<std::size_t>(pairs[k].first.size());
      copies += static_cast<std::size_t>(places[k].size());
    }
    leaves.reserve(pairs.size(), components, copies);
    detail::Copies<detail::owning_t<T>> cells;
    cells.reserve(copies);
    detail::propagate(*this, [&] {
      for (std::size_t k = 0; k < pairs.size(); ++k)
        detail::start_tensor_copies(pairs[k].first, places[k], leaves, cells);
    });
    run_reduction("batch_reduce_to", leaves, compared, options);
    std::vector<Mirrored<detail::owning_t<T>>> results;
    results.reserve(pairs.size());
    std::size_t next = 0;
    for (const ResultPlaces& wanted : places) {
      const auto count = static_cast<std::size_t>(wanted.size());
      results.push_back(detail::mirrored_of(std::span(cells).subspan(next, count)));
      next += count;
    }
    return results;
  }
  template <detail::Grouping grouping, class VariableType, class F, class... Args>
  auto update_copies(const VariableType& variable, F& fn, Args&... args) {
    using Parts = detail::ArgumentParts<Args...>;
    const auto update_all = [&](const auto& parts_of) {
      return detail::call_for_copies<grouping>(variable.component_count(), [&](int i) {
        const detail::UpdateScope context(strategy_, i);
        auto parts = parts_of(i);
        return detail::call_with_parts(fn, *parts, variable);
      });
    };
    using Result = decltype(update_all(std::declval<Parts* (*)(int)>()));
    ReplicaContext* const replica = replica_of_update(variable);
    check_arguments_of("update", replica, args...);
    if (replica == nullptr) {
      return update_all([&]([[maybe_unused]] int i) {
        return std::optional<Parts>(std::in_place, detail::argument_part(args, i)...);
      });
    }
    Parts mine(detail::argument_part(args, replica->local_replica())...);
    const auto merged = [&](Strategy&, const PerReplica<Parts*>& parts, const VariableType&) {
      const auto parts_of = [&](int i) { return parts.component(i); };
      if constexpr (std::is_void_v<Result>) {
        update_all(parts_of);
      } else {
        return detail::Whole<Result>{update_all(parts_of)};
      }
    };
    if constexpr (std::is_void_v<Result>) {
      replica->merge_call(merged, &mine, variable);
    } else {
      return std::move(replica->merge_call(merged, &mine, variable).value);
    }
  }
  template <detail::Grouping grouping, class F, class... Args>
  auto update_on(std::span<const Device> devices, F& fn, Args&... args) {
    static_assert(std::is_invocable_v<F&, decltype(detail::argument_part(args, 0))...>,
                  "update_non_slot: the function must be callable as fn(args...), where distributed arguments come as "
                  "one component");
    check_cross_replica("update_non_slot");
    const std::vector<int> copies = copies_on("update_non_slot", devices);
    check_arguments_of("update_non_slot", nullptr, args...);
    return detail::call_for_copies<grouping>(static_cast<int>(copies.size()), [&](int k) {
      [[maybe_unused]] const int i = copies[static_cast<std::size_t>(k)];
      const detail::UpdateScope context(strategy_, i);
      detail::ArgumentParts<Args...> parts(detail::argument_part(args, i)...);
      return detail::call_with_parts(fn, parts);
    });
  }
  /// Returns null in cross-replica context, and this thread's replica in replica context. Throws the errors of `update`
  /// for a wrong context and for a variable of another strategy.
  [[nodiscard]] ReplicaContext* replica_of_update(const Variable& variable) const;
  /// Throws Error(invalid_argument) for an argument that was made for other replicas than the replicas of this rank. In
  /// cross-replica context, the error is propagated to the other ranks; in replica context, `run` propagates the error.
  template <class... Args>
  void check_arguments_of(std::string_view call, const ReplicaContext* replica, const Args&... args) {
    const auto check = [&] { detail::check_arguments(call, own_replicas(), args...); };
    replica != nullptr ? check() : detail::propagate(*this, check);
  }
  /// Indices of the local copies on `devices`, in the order of `devices`. Throws Error(invalid_argument), whose text
  /// begins with `call`, for an empty list and for a device that this rank's replicas do not have.
  [[nodiscard]] std::vector<int> copies_on(std::string_view call, std::span<const Device> devices) const;
  void require_scope_of_colocation() const;
  void broadcast_views(ConstTensorView value, std::span<const TensorView> outputs, const ComparedDestinations& compared,
                       const CommunicationOptions& options);
  void check_cross_replica(std::string_view call) const;
  /// Devices of this rank on which `destinations` requests copies. If there are other ranks, adds the destinations to
  /// `compared`.
  [[nodiscard]] ResultPlaces places_at(std::string_view call, const Destinations& destinations,
                                       ComparedDestinations& compared);
  [[nodiscard]] ResultPlaces places_here(std::string_view call, const Destinations& destinations) const;
  /// An empty list of leaves, with the memory for results of this strategy.
  [[nodiscard]] LeafList leaves_for(std::string_view call, ReduceOp op) const;
  [[nodiscard]] detail::LocalReplicas own_replicas() const noexcept;

  Strategy& strategy_;
};

}  // namespace lockstep

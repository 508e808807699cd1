// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What distribution-aware library code needs of a strategy, under tf.distribute's names.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/collectives/communication_options.hpp>
#include <lockstep/core/device.hpp>
#include <lockstep/core/reduce_op.hpp>
#include <lockstep/core/reduce_op_argument.hpp>
#include <lockstep/strategy/destinations.hpp>
#include <lockstep/strategy/reduce_pair.hpp>
#include <lockstep/strategy/reduction.hpp>
#include <lockstep/values/merge.hpp>
#include <lockstep/values/per_replica.hpp>
#include <lockstep/variables/variable.hpp>

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep {

class ReplicaTeam;
class Strategy;

namespace detail {

/// Update context of copy `local` for its lifetime.
class LOCKSTEP_API UpdateScope {
 public:
  UpdateScope(Strategy& strategy, int local);
  UpdateScope(const UpdateScope&) = delete;
  UpdateScope& operator=(const UpdateScope&) = delete;
  ~UpdateScope();

 private:
  struct Saved;
  std::unique_ptr<Saved> saved_;
};

}  // namespace detail

/// Reached by `Strategy::extended()`; lives as long as the strategy.
/// All methods belong to cross-replica context: inside a step function go through merge_call. Thread-safety: one thread
/// at a time.
class LOCKSTEP_API StrategyExtended {
 public:
  StrategyExtended(const StrategyExtended&) = delete;
  StrategyExtended& operator=(const StrategyExtended&) = delete;

  /// Where replicas of this rank compute, and where copies of variables live: the same. Local.
  /// Throws Error(failed_precondition) for the default strategy.
  [[nodiscard]] std::span<const Device> worker_devices() const;
  [[nodiscard]] std::span<const Device> parameter_devices() const;

  /// The reduction of `value` over all replicas, with one copy on each device of `destinations`: a Variable (which is
  /// not written), a PerReplica or Mirrored value, or one Device or its name. Collective. PerReplica components of one
  /// dtype and shape, else Error(invalid_argument), between ranks Error(mismatch); of PerReplica<IndexedSlices> the
  /// rows of all replicas one after the other, which a mean divides by their number. A value that is no PerReplica
  /// counts as in Strategy::reduce: it has a mean, which is itself, but no sum.
  template <class Leaf>
  [[nodiscard]] auto reduce_to(const ReduceOpArgument& op, const Leaf& value, const Destinations& destinations,
                               const CommunicationOptions& options = {}) {
    const ReduceOp checked = begin_reduction("reduce_to", op);
    detail::ReductionList list;
    auto copies = detail::start_copies<detail::reduced_t<void, Leaf>>(
        value, checked, copies_at("reduce_to", destinations), sharing(), list);
    run_reduction("reduce_to", checked, list, options);
    return detail::mirrored_of(std::move(copies));
  }

  /// As reduce_to for every pair (value, destinations), as one collective; results in the same order. Collective.
  /// T = Tensor allows different dtypes in one list. An empty list gives an empty list.
  template <class T, class Destination>
  [[nodiscard]] std::vector<Mirrored<detail::owning_t<T>>> batch_reduce_to(
      const ReduceOpArgument& op, const std::vector<std::pair<PerReplica<T>, Destination>>& value_destination_pairs,
      const CommunicationOptions& options = {}) {
    using Result = detail::owning_t<T>;
    const ReduceOp checked = begin_reduction("batch_reduce_to", op);
    detail::ReductionList list;
    std::vector<std::vector<detail::Cell<Result>>> results;
    results.reserve(value_destination_pairs.size());
    for (const auto& [value, destination] : value_destination_pairs) {
      results.push_back(
          detail::start_copies<Result>(value, checked, copies_at("batch_reduce_to", destination), sharing(), list));
    }
    run_reduction("batch_reduce_to", checked, list, options);
    std::vector<Mirrored<Result>> mirrored;
    for (auto& cells : results) mirrored.push_back(detail::mirrored_of(std::move(cells)));
    return mirrored;
  }

  /// The same for values of different kinds, dense and sparse: `batch_reduce_to("SUM", pairs)` with a vector of
  /// ReducePair. Dense values are one collective, sparse ones another.
  [[nodiscard]] std::vector<ReducedValue> batch_reduce_to(const ReduceOpArgument& op, std::span<const ReducePair> pairs,
                                                          const CommunicationOptions& options = {});
  [[nodiscard]] std::vector<ReducedValue> batch_reduce_to(const ReduceOpArgument& op,
                                                          const std::vector<ReducePair>& pairs,
                                                          const CommunicationOptions& options = {}) {
    return batch_reduce_to(op, std::span<const ReducePair>(pairs), options);
  }

  /// `value` of the first rank on each device of `destinations`. Collective; all ranks give one dtype and shape, else
  /// Error(mismatch). A number passes through: it is returned as this rank gives it.
  template <class Value>
  [[nodiscard]] auto broadcast_to(const Value& value, const Destinations& destinations,
                                  const CommunicationOptions& options = {}) {
    check_cross_replica("broadcast_to");
    if constexpr (Element<Value>) {
      return value;
    } else {
      detail::require_reducible<Value>();
      using Result = detail::owning_t<Value>;
      std::vector<detail::Cell<Result>> cells;
      const int count = copies_at("broadcast_to", destinations);
      cells.reserve(static_cast<std::size_t>(count));
      for (int i = 0; i < count; ++i) cells.push_back({detail::owning_result<Result>(value, ReduceOp::max)});
      std::vector<TensorView> outputs;
      for (auto& cell : cells) outputs.push_back(tensor_traits<Result>::view(cell.value));
      broadcast_views(tensor_traits<Value>::view(value), outputs, options);
      return detail::mirrored_of(std::move(cells));
    }
  }

  /// `fn(component, args...)` on every copy of `variable` on this rank, in update context, one after the other. Local;
  /// all ranks do the same. `component` is a std::span<T> of a MirroredVariable<T>, a TensorView of a Variable.
  /// PerReplica and Mirrored leaves of `args` are sliced, variables read copy by copy, the rest is passed as it is.
  /// Returns nothing, or the results as Mirrored. Throws Error(invalid_argument) for a variable of another strategy; an
  /// exception of `fn` leaves the copies before it written.
  template <class VariableType, class F, class... Args>
  auto update(const VariableType& variable, F&& fn, Args&&... args) {
    check_update(variable);
    using Component = decltype(variable.updatable_component());
    using Result = std::invoke_result_t<F&, Component, decltype(detail::argument_part(args, 0))...>;
    const int count = variable.component_count();
    const auto call = [&](int i) -> decltype(auto) {
      const detail::UpdateScope context(strategy_, i);
      return std::invoke(fn, variable.updatable_component(), detail::argument_part(args, i)...);
    };
    if constexpr (std::is_void_v<Result>) {
      for (int i = 0; i < count; ++i) call(i);
    } else {
      std::vector<std::decay_t<Result>> results;
      for (int i = 0; i < count; ++i) results.push_back(call(i));
      return Mirrored<std::decay_t<Result>>(std::move(results));
    }
  }

  /// Whether `variable` was made by this strategy. Local.
  [[nodiscard]] bool variable_created_in_scope(const Variable& variable) const;

 private:
  friend class Strategy;
  explicit StrategyExtended(Strategy& strategy) noexcept : strategy_(strategy) {}

  ReduceOp begin_reduction(std::string_view call, const ReduceOpArgument& op);
  void run_reduction(std::string_view call, ReduceOp op, const detail::ReductionList& list,
                     const CommunicationOptions& options) {
    run_reduction(call, op, list.items(), list.sparse_inputs(), list.sparse_outputs(), options);
  }
  void run_reduction(std::string_view call, ReduceOp op, std::span<const Item> items,
                     std::span<const std::vector<const IndexedSlices*>> sparse_inputs,
                     std::span<const std::vector<IndexedSlices*>> sparse_outputs, const CommunicationOptions& options);
  void broadcast_views(ConstTensorView value, std::span<const TensorView> outputs, const CommunicationOptions& options);
  void check_cross_replica(std::string_view call) const;
  /// How many copies of a value `destinations` ask for on this rank.
  [[nodiscard]] int copies_at(std::string_view call, const Destinations& destinations);
  [[nodiscard]] detail::Sharing sharing() const noexcept;
  void check_update(const Variable& variable) const;
  [[nodiscard]] int local_replicas() const noexcept;

  Strategy& strategy_;
};

}  // namespace lockstep

// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What distribution-aware library code needs of a strategy, under tf.distribute's names.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/collectives/communication_options.hpp>
#include <lockstep/collectives/detail/propagate.hpp>
#include <lockstep/context/replica_context.hpp>
#include <lockstep/core/device.hpp>
#include <lockstep/core/reduce_op.hpp>
#include <lockstep/core/reduce_op_argument.hpp>
#include <lockstep/strategy/colocate_scope.hpp>
#include <lockstep/strategy/destinations.hpp>
#include <lockstep/strategy/reduce_pair.hpp>
#include <lockstep/strategy/reduction.hpp>
#include <lockstep/strategy/update.hpp>
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

class StrategyExtended;

namespace detail {

/// For propagate: to the ranks of the strategy. Local.
LOCKSTEP_API void propagate_current_exception(const StrategyExtended& extended, FoundBy found_by);

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
  /// counts as in Strategy::reduce: it has a mean, which is itself, but no sum. Results that are Tensors lie on the
  /// GPUs among the devices; in host memory they are made in memory that the strategy keeps for those to come, 16 MiB
  /// of it at most. Results of other types are in host memory. Throws Error(unavailable) for a GPU that is not here,
  /// and a std::bad_alloc where one is full; the other ranks then get Error(unavailable) with the text.
  template <class Leaf>
  [[nodiscard]] auto reduce_to(const ReduceOpArgument& op, const Leaf& value, const Destinations& destinations,
                               const CommunicationOptions& options = {}) {
    const ReduceOp checked = begin_reduction("reduce_to", op);
    using Result = detail::reduced_t<void, Leaf>;
    detail::ReductionList list(result_memory());
    const detail::ResultPlaces places = places_at("reduce_to", destinations);
    std::vector<detail::Cell<Result>> cells;
    cells.reserve(static_cast<std::size_t>(places.size()));
    detail::propagate(*this, [&] { detail::start_copies<Result>(value, checked, places, sharing(), list, cells); });
    run_reduction("reduce_to", checked, list, options);
    return detail::mirrored_of<Result>(cells);
  }

  /// As reduce_to for every pair (value, destinations), as one collective; results in the same order. Collective.
  /// T = Tensor allows different dtypes in one list. An empty list gives an empty list.
  template <class T, class Destination>
  [[nodiscard]] std::vector<Mirrored<detail::owning_t<T>>> batch_reduce_to(
      const ReduceOpArgument& op, const std::vector<std::pair<PerReplica<T>, Destination>>& value_destination_pairs,
      const CommunicationOptions& options = {}) {
    using Result = detail::owning_t<T>;
    const ReduceOp checked = begin_reduction("batch_reduce_to", op);
    std::vector<detail::ResultPlaces> places;
    places.reserve(value_destination_pairs.size());
    std::size_t components = 0;
    std::size_t results = 0;
    for (const auto& [value, destination] : value_destination_pairs) {
      places.push_back(places_at("batch_reduce_to", destination));
      components += static_cast<std::size_t>(value.size());
      results += static_cast<std::size_t>(places.back().size());
    }
    const detail::Sharing rules = sharing();
    detail::ReductionList list(result_memory());
    list.reserve(places.size(), components, results);
    std::vector<detail::Cell<Result>> cells;
    cells.reserve(results);
    detail::propagate(*this, [&] {
      for (std::size_t k = 0; k < places.size(); ++k)
        detail::start_copies<Result>(value_destination_pairs[k].first, checked, places[k], rules, list, cells);
    });
    run_reduction("batch_reduce_to", checked, list, options);
    std::vector<Mirrored<Result>> mirrored;
    mirrored.reserve(places.size());
    std::size_t next = 0;
    for (const detail::ResultPlaces& wanted : places) {
      const auto count = static_cast<std::size_t>(wanted.size());
      mirrored.push_back(detail::mirrored_of(std::span(cells).subspan(next, count)));
      next += count;
    }
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
      const detail::ResultPlaces places = places_at("broadcast_to", destinations);
      const detail::ReductionList list(result_memory());
      cells.reserve(static_cast<std::size_t>(places.size()));
      detail::propagate(*this, [&] {
        for (int i = 0; i < places.size(); ++i)
          cells.push_back({detail::room_for<Result>(value, ReduceOp::max, list, places[i])});
      });
      std::vector<TensorView> outputs;
      for (auto& cell : cells) outputs.push_back(tensor_traits<Result>::view(cell.value));
      broadcast_views(tensor_traits<Value>::view(value), outputs, options);
      return detail::mirrored_of<Result>(cells);
    }
  }

  /// `fn(component, args...)` on every copy of `variable` on this rank, in update context, one after the other. Local;
  /// all ranks do the same. `component` is a std::span<T> of a MirroredVariable<T>, a TensorView of a Variable.
  /// PerReplica and Mirrored leaves of `args` are sliced, variables read copy by copy, the rest is passed as it is, by
  /// reference; arguments by name are one aggregate argument. Returns nothing where `fn` does, else the results as a
  /// tree of Mirrored; a variable stays itself. A variable that was made outside every scope has one copy, and `fn` one
  /// call. In replica context all replicas of this rank call it, each with the arguments for its own copy: it is then
  /// this call inside a merge_call, with the `fn` of the first replica.
  /// Throws Error(invalid_argument) for a variable of another strategy; an exception of `fn` leaves the copies before
  /// it written.
  template <std::derived_from<Variable> VariableType, class F, class... Args>
  auto update(const VariableType& variable, F&& fn, Args&&... args) {
    detail::require_updater<F&, VariableType, Args...>();
    if constexpr (detail::is_updater<F&, VariableType, Args...>)
      return update_copies<detail::Grouping::grouped>(variable, fn, args...);
  }
  /// As above; the results come as a tree of std::vector, with one element per copy of this rank.
  template <std::derived_from<Variable> VariableType, class F, class... Args>
  auto update(Ungrouped, const VariableType& variable, F&& fn, Args&&... args) {
    detail::require_updater<F&, VariableType, Args...>();
    if constexpr (detail::is_updater<F&, VariableType, Args...>)
      return update_copies<detail::Grouping::ungrouped>(variable, fn, args...);
  }

  /// `fn(args...)` once for each of `devices`, in update context of the copies that live there; `args` and results are
  /// those of update. Local; all ranks do the same. `devices` are what non_slot_devices gave, or some of
  /// parameter_devices. Throws Error(invalid_argument) for no device and for one that is not the strategy's,
  /// Error(failed_precondition) in replica context.
  template <class F, class... Args>
  auto update_non_slot(std::span<const Device> devices, F&& fn, Args&&... args) {
    return update_on<detail::Grouping::grouped>(devices, fn, args...);
  }
  /// As above; the results come as a tree of std::vector, with one element per device.
  template <class F, class... Args>
  auto update_non_slot(Ungrouped, std::span<const Device> devices, F&& fn, Args&&... args) {
    return update_on<detail::Grouping::ungrouped>(devices, fn, args...);
  }

  /// Where an optimizer keeps what belongs to no variable in particular, such as a count of steps: all devices of this
  /// rank. Local. The default strategy has the place of the variables, so it throws Error(invalid_argument) without
  /// any.
  [[nodiscard]] std::span<const Device> non_slot_devices(std::span<const Variable> var_list = {}) const;

  /// `Strategy::run` under the name that it has for implementers.
  template <class F, class... Args>
  auto call_for_each_replica(F&& fn, Args&&... args);

  /// Whether the strategy needs shapes that never change, as TPUs do: it does not. Local.
  [[nodiscard]] bool experimental_require_static_shapes() const noexcept { return false; }

  /// Variables made until the guard's end lie on the devices of `variable`. Local. Only in the scope or step of this
  /// strategy, else Error(failed_precondition); `variable` was made by it, else Error(invalid_argument). Variables of a
  /// strategy lie on all of its devices, with and without the guard: it is there for code that is written for others.
  [[nodiscard]] ColocateScope colocate_vars_with(const Variable& variable) const;

  /// What a value belongs to: of a component of a variable that variable, of any other value the value itself, so that
  /// `value` always is among `experimental_local_results(value_container(value))`. Local.
  [[nodiscard]] Variable value_container(const VariableComponent& value) const { return value.container(); }
  template <class T>
  [[nodiscard]] T value_container(const T& value) const {
    return value;
  }

  /// Whether `variable` was made by this strategy; by the default strategy are those that were made outside every
  /// scope. Local.
  [[nodiscard]] bool variable_created_in_scope(const Variable& variable) const;

 private:
  friend class Strategy;
  explicit StrategyExtended(Strategy& strategy) noexcept : strategy_(strategy) {}

  ReduceOp begin_reduction(std::string_view call, const ReduceOpArgument& op);
  /// For detail::propagate: to the ranks of the strategy.
  friend void detail::propagate_current_exception(const StrategyExtended& extended, detail::FoundBy found_by);
  void run_reduction(std::string_view call, ReduceOp op, const detail::ReductionList& list,
                     const CommunicationOptions& options) {
    run_reduction(call, op, list.items(), list.sparse(), options);
  }
  template <detail::Grouping grouping, class VariableType, class F, class... Args>
  auto update_copies(const VariableType& variable, F& fn, Args&... args) {
    using Parts = detail::ArgumentParts<Args...>;
    const auto update_all = [&](const auto& parts_of) {
      return detail::call_for_copies<grouping>(variable.component_count(), [&](int i) {
        const detail::UpdateScope context(strategy_, i);
        auto parts = parts_of(i);
        return detail::call_with_parts(fn, *parts, variable.updatable_component());
      });
    };
    using Result = decltype(update_all(std::declval<Parts* (*)(int)>()));
    ReplicaContext* const replica = replica_of_update(variable);
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
    const std::vector<int> copies = copies_on(devices);
    return detail::call_for_copies<grouping>(static_cast<int>(copies.size()), [&](int k) {
      [[maybe_unused]] const int i = copies[static_cast<std::size_t>(k)];
      const detail::UpdateScope context(strategy_, i);
      detail::ArgumentParts<Args...> parts(detail::argument_part(args, i)...);
      return detail::call_with_parts(fn, parts);
    });
  }
  /// Null in cross-replica context, this thread's replica in replica context. Throws where update may not be called.
  [[nodiscard]] ReplicaContext* replica_of_update(const Variable& variable) const;
  /// The number of the local copies that live on `devices`.
  [[nodiscard]] std::vector<int> copies_on(std::span<const Device> devices) const;
  void run_reduction(std::string_view call, ReduceOp op, std::span<const Item> items, const SparseReductions& sparse,
                     const CommunicationOptions& options);
  void broadcast_views(ConstTensorView value, std::span<const TensorView> outputs, const CommunicationOptions& options);
  void check_cross_replica(std::string_view call) const;
  /// Where `destinations` ask for copies of a value on this rank.
  [[nodiscard]] detail::ResultPlaces places_at(std::string_view call, const Destinations& destinations);
  [[nodiscard]] detail::Sharing sharing() const noexcept;
  [[nodiscard]] const std::shared_ptr<MemoryResource>& result_memory() const noexcept;
  [[nodiscard]] int local_replicas() const noexcept;

  Strategy& strategy_;
};

}  // namespace lockstep

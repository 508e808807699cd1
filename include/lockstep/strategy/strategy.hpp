// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Where replicas run, and how one step is run on all of them. The strategies themselves are in the headers beside this
// one.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/collectives/communicator.hpp>
#include <lockstep/context/replica_context.hpp>
#include <lockstep/context/run_options.hpp>
#include <lockstep/context/statistics.hpp>
#include <lockstep/core/dtype.hpp>
#include <lockstep/core/reduce_op.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/input/distributed_dataset.hpp>
#include <lockstep/strategy/initial_value.hpp>
#include <lockstep/strategy/reduction.hpp>
#include <lockstep/strategy/scope.hpp>
#include <lockstep/strategy/strategy_extended.hpp>
#include <lockstep/values/merge.hpp>
#include <lockstep/values/reduced.hpp>
#include <lockstep/variables/typed_variable.hpp>
#include <lockstep/variables/variable.hpp>

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep {

/// The base of all strategies: made by their own classes, used through this one.
///
/// What says Collective is called by all ranks in the same order, in cross-replica context or outside every scope; in a
/// step function it throws Error(failed_precondition), and so does every call inside the scope of another strategy.
/// Pinned. Thread-safety: one thread at a time; under MPI_THREAD_FUNNELED the main one.
class LOCKSTEP_API Strategy {
 public:
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;
  virtual ~Strategy();

  /// Replicas of all ranks together. Local.
  [[nodiscard]] int num_replicas_in_sync() const noexcept;
  /// Whether this is rank 0, which prints and saves. Local.
  [[nodiscard]] bool is_chief() const noexcept;
  /// What the strategy's collectives go over. For collectives of one's own: same order on all ranks, outside of step
  /// functions.
  [[nodiscard]] const Communicator& communicator() const noexcept;
  /// Counters of this rank since the strategy was made. Local.
  [[nodiscard]] const StrategyStatistics& statistics() const noexcept;
  [[nodiscard]] StrategyExtended& extended() noexcept { return extended_; }

  /// Makes this strategy current on this thread. Local.
  /// Throws Error(failed_precondition) inside the scope of another strategy, and in a step function.
  Scope scope();

  /// Runs `fn(replica, args...)`, or `fn(args...)`, once on every local replica: the first on this thread, each further
  /// one on a thread of its own, all at the same time unless `options` says otherwise; `fn` must be safe for that.
  /// `args` are trees: PerReplica and Mirrored leaves are sliced, variables passed whole, all else is passed as it is,
  /// by reference. Returns a tree: each leaf T that the replicas return becomes PerReplica<T>, a variable stays itself,
  /// void stays void; nothing is merged because values are equal. Local by itself; a collective in `fn` makes it
  /// Collective. The first exception in time is thrown here with its type, when all local replicas have ended; the
  /// others end at their next meeting, and other ranks get Error(unavailable) with its text at their next collective.
  /// The strategy can be used again. Throws Error(failed_precondition) in a step function; inside merge_call it may be
  /// called.
  template <class F, class... Args>
    requires(!std::same_as<std::remove_cvref_t<F>, RunOptions>)
  auto run(F&& fn, Args&&... args) {
    return run(RunOptions{}, std::forward<F>(fn), std::forward<Args>(args)...);
  }
  template <class F, class... Args>
  auto run(const RunOptions& options, F&& fn, Args&&... args) {
    constexpr bool takes_replica =
        std::is_invocable_v<F&, ReplicaContext&, decltype(detail::argument_part(args, 0))...>;
    const auto call = [&](ReplicaContext& replica) -> decltype(auto) {
      const int local = replica.local_replica();
      if constexpr (takes_replica) {
        return std::invoke(fn, replica, detail::argument_part(args, local)...);
      } else {
        return std::invoke(fn, detail::argument_part(args, local)...);
      }
    };
    using Result = std::decay_t<std::invoke_result_t<decltype(call)&, ReplicaContext&>>;
    if constexpr (std::is_void_v<Result>) {
      auto task = [&](ReplicaContext& replica) { call(replica); };
      run_task(borrow(task), options);
    } else {
      std::vector<std::optional<Result>> results(static_cast<std::size_t>(local_replicas()));
      auto task = [&](ReplicaContext& replica) {
        results[static_cast<std::size_t>(replica.local_replica())].emplace(call(replica));
      };
      run_task(borrow(task), options);
      return detail::merge_trees<Result>(local_replicas(), first_replica(), [&results](int i) -> Result& {
        return *results[static_cast<std::size_t>(i)];
      });
    }
  }

  /// The reduction over all replicas of each PerReplica leaf of `value`, as one collective; the same on every rank.
  /// Collective. A float gives a float, a vector a vector, a Tensor a Tensor, a span a vector. The mean of integers is
  /// f64: a Tensor gives one, typed integers need the result named, `reduce<double>(ReduceOp::mean, ids)`. A value that
  /// is no PerReplica is one value: with one replica it is returned; with one replica on each rank it counts once per
  /// rank; otherwise, and for Mirrored values and variables, mean, min, max, band and bor return it, while sum,
  /// prod and bxor are Error(invalid_argument). So are components of different dtypes or shapes; between ranks they are
  /// Error(mismatch).
  template <class Result = void, class Tree>
  [[nodiscard]] auto reduce(ReduceOp op, const Tree& value) {
    check_reduce("reduce");
    detail::ItemList list;
    auto result = map_leaves(value, [&]<class Leaf>(const Leaf& leaf) -> detail::reduced_t<Result, Leaf> {
      return start_reduction<detail::reduced_t<Result, Leaf>>(leaf, op, list);
    });
    add_outputs(value, result, list);
    reduce_items("reduce", op, list.items());
    return result;
  }

  /// As above, also along `axis` of the components, which may have different extents there; negative axes count from
  /// the end. sum and mean only. The mean divides by the number of elements of all replicas: [5, 6] and [7] give 6.
  /// Collective. A vector gives its element, a Tensor a Tensor without the axis. Throws Error(invalid_argument) for an
  /// axis that does not exist.
  template <class Result = void, class Leaf>
  [[nodiscard]] auto reduce(ReduceOp op, const Leaf& value, int axis) {
    using Component = typename detail::component_type<Leaf>::type;
    static_assert(TensorLike<Component>, "only tensors can be reduced along an axis");
    check_reduce("reduce");
    std::vector<ConstTensorView> components;
    if constexpr (detail::is_distributed<Leaf>::value) {
      for (int i = 0; i < value.size(); ++i) components.push_back(tensor_traits<Component>::view(value.component(i)));
    } else {
      components.push_back(tensor_traits<Component>::view(value));
    }
    constexpr bool one_value = !std::same_as<Leaf, PerReplica<Component>>;
    const Tensor total =
        reduce_axis(op, one_value ? std::span(components).first(1) : std::span(components), axis, one_value);
    if constexpr (std::same_as<Component, Tensor>) {
      return total;
    } else {
      using Number =
          std::conditional_t<std::is_void_v<Result>, std::remove_const_t<typename Component::value_type>, Result>;
      return scalar_of<Number>(total, op);
    }
  }

  /// This rank's components of `value`, in replica order: of a PerReplica or Mirrored value its components, of a tree
  /// with such leaves one tree per replica, of a variable its components, of any other value that value. Local.
  template <class Tree>
  [[nodiscard]] auto experimental_local_results(const Tree& value) const {
    if constexpr (std::derived_from<Tree, Variable>) {
      std::vector<VariableComponent> components;
      for (int i = 0; i < value.component_count(); ++i) components.push_back(value.component(i));
      return components;
    } else {
      return detail::local_parts(value);
    }
  }

  /// A variable with one copy on each local device, equal on all ranks at first; see Variable for what it does.
  /// `initial` is a number, a vector, an array, a Tensor, or a function without arguments that returns one; the
  /// function is called once per rank, and what rank 0 got is sent to all. Collective. In a step function all replicas
  /// call it, in the same order, under the same canonical_name: they get one variable, whose value is that of the first
  /// replica; a function is called for it alone. Throws Error(invalid_argument) for elements other than T, for
  /// synchronization none, and for aggregation mean of integers; Error(mismatch) for shapes that differ between
  /// replicas or ranks, and for options that do; Error(failed_precondition) inside another strategy's scope, and for
  /// names that differ between replicas.
  ///
  /// Synchronized on write; Error(invalid_argument) for options that say on_read.
  template <Element T, class Initial>
  [[nodiscard]] MirroredVariable<T> variable(Initial&& initial, const VariableOptions& options = {}) {
    return MirroredVariable<T>(
        create_typed<T>(std::forward<Initial>(initial), options, VariableSynchronization::on_write));
  }
  /// Synchronized on read; Error(invalid_argument) for options that say on_write.
  template <Element T, class Initial>
  [[nodiscard]] SyncOnReadVariable<T> sync_on_read_variable(Initial&& initial, const VariableOptions& options = {}) {
    return SyncOnReadVariable<T>(
        create_typed<T>(std::forward<Initial>(initial), options, VariableSynchronization::on_read));
  }
  /// Either kind, as the options say, with the dtype of the tensor.
  [[nodiscard]] Variable variable(const Tensor& initial, const VariableOptions& options = {});
  template <std::invocable Make>
    requires std::same_as<std::invoke_result_t<Make&>, Tensor>
  [[nodiscard]] Variable variable(Make&& initial, const VariableOptions& options = {}) {
    return detail::with_initializer<float>(std::forward<Make>(initial), [&](const VariableInitializer& initializer) {
      return create_variable(initializer, options, std::nullopt);
    });
  }

  /// Gives replica r of R chunk r of each batch of `dataset`, whose batches are global: the same on every rank. See
  /// DistributedDataset and InputOptions. Local, and so is iterating; neither needs the strategy to live.
  template <ElementTree T>
  [[nodiscard]] DistributedDataset<T> experimental_distribute_dataset(const Dataset<T>& dataset,
                                                                      const InputOptions& options = {}) {
    check_cross_replica("experimental_distribute_dataset");
    return input::distribute(dataset, InputLayout{communicator().layout(), communicator().rank(), communicator()},
                             options);
  }

  /// Calls `fn(InputContext)` once, for this rank's own dataset of per-replica batches; each step gives every local
  /// replica the next element. See DistributedDataset. Collective whenever a pass begins.
  template <class Fn>
    requires std::invocable<Fn&, const InputContext&>
  [[nodiscard]] auto experimental_distribute_datasets_from_function(Fn&& fn, const InputOptions& options = {}) {
    check_cross_replica("experimental_distribute_datasets_from_function");
    return input::distribute_from_function(std::forward<Fn>(fn), communicator(), options);
  }

 protected:
  /// `team` is made by the library's own strategies.
  explicit Strategy(std::shared_ptr<ReplicaTeam> team);

 private:
  friend class Scope;
  friend class StrategyExtended;
  friend class detail::UpdateScope;
  friend struct StrategyAccess;  // the library's own makers

  template <class Task>
  static ReplicaTask borrow(Task& task) {
    return {&task, [](void* object, ReplicaContext& replica) { (*static_cast<Task*>(object))(replica); }};
  }
  void run_task(ReplicaTask task, const RunOptions& options);

  /// The result of one leaf, final or with room for the reduction that `list` gets.
  template <class Result, class Leaf>
  Result start_reduction(const Leaf& leaf, ReduceOp op, detail::ItemList& list) {
    if constexpr (stays_whole<Leaf>) {
      if (num_replicas_in_sync() > 1 && !detail::keeps_one_value(op)) detail::throw_no_sum_of_one_value(op, "variable");
      return leaf.read();
    } else {
      using Component = typename detail::component_type<Leaf>::type;
      detail::require_reducible<Component>();
      if constexpr (std::same_as<Leaf, PerReplica<Component>>) {
        list.add_inputs(leaf);
        return detail::owning_result<Result>(leaf.component(0), op);
      } else if constexpr (std::same_as<Leaf, Mirrored<Component>>) {
        if (num_replicas_in_sync() > 1 && !detail::keeps_one_value(op))
          detail::throw_no_sum_of_one_value(op, "mirrored value");
        return detail::owning_copy<Result>(leaf.value());
      } else {
        if (counts_once_per_rank()) {
          list.add_input(leaf);
          return detail::owning_result<Result>(leaf, op);
        }
        if (num_replicas_in_sync() > 1 && !detail::keeps_one_value(op))
          detail::throw_no_sum_of_one_value(op, "plain value");
        return detail::owning_copy<Result>(leaf);
      }
    }
  }
  /// Where the results of the leaves in `list` go: `result` has one leaf for each leaf of `value`.
  template <class Tree, class ResultTree>
  void add_outputs(const Tree& value, ResultTree& result, detail::ItemList& list) {
    std::vector<bool> reduced;
    for_each_leaf(value, [&]<class Leaf>(const Leaf&) {
      if constexpr (stays_whole<Leaf>) {
        reduced.push_back(false);
      } else {
        using Component = typename detail::component_type<Leaf>::type;
        reduced.push_back(std::same_as<Leaf, PerReplica<Component>> ||
                          (std::same_as<Leaf, Component> && counts_once_per_rank()));
      }
    });
    std::size_t k = 0;
    for_each_leaf(result, [&]<class Leaf>(Leaf& leaf) {
      if (reduced[k++]) list.add_outputs({tensor_traits<Leaf>::view(leaf)});
    });
  }
  void reduce_items(std::string_view call, ReduceOp op, std::span<const Item> items);
  [[nodiscard]] Tensor reduce_axis(ReduceOp op, std::span<const ConstTensorView> components, int axis, bool one_value);
  /// The one element of `value`, as T. Throws Error(invalid_argument) when its dtype is another.
  template <class T>
  [[nodiscard]] static T scalar_of(const Tensor& value, ReduceOp op) {
    check_result_type(value, dtype_of<T>, op);
    return value.elements<T>().front();
  }
  static void check_result_type(const Tensor& value, DType dtype, ReduceOp op);

  void check_reduce(std::string_view call) const { check_cross_replica(call); }
  void check_cross_replica(std::string_view call) const;
  [[nodiscard]] bool counts_once_per_rank() const noexcept;
  [[nodiscard]] int local_replicas() const noexcept;
  [[nodiscard]] int first_replica() const noexcept;
  template <Element T, class Initial>
  [[nodiscard]] Variable create_typed(Initial&& initial, const VariableOptions& options,
                                      VariableSynchronization synchronization) {
    return detail::with_initializer<T>(std::forward<Initial>(initial), [&](const VariableInitializer& initializer) {
      return create_variable(initializer, with_synchronization(options, synchronization), dtype_of<T>);
    });
  }
  /// `options` with that synchronization. Throws Error(invalid_argument) when they say the other one.
  [[nodiscard]] VariableOptions with_synchronization(VariableOptions options,
                                                     VariableSynchronization synchronization) const;
  /// Elements are `dtype`, if one is given.
  [[nodiscard]] Variable create_variable(const VariableInitializer& initial, const VariableOptions& options,
                                         std::optional<DType> dtype);

  std::shared_ptr<ReplicaTeam> team_;
  StrategyExtended extended_;
};

}  // namespace lockstep

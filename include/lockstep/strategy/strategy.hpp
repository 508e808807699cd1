// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Where replicas run, and how one step is run on all of them. The strategies themselves are in the headers beside this
// one.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/collectives/communication_options.hpp>
#include <lockstep/collectives/communicator.hpp>
#include <lockstep/context/replica_context.hpp>
#include <lockstep/context/run_options.hpp>
#include <lockstep/context/statistics.hpp>
#include <lockstep/core/axes.hpp>
#include <lockstep/core/reduce_op.hpp>
#include <lockstep/core/reduce_op_argument.hpp>
#include <lockstep/cross_device/cross_device_ops.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/input/distributed_dataset.hpp>
#include <lockstep/strategy/initial_value.hpp>
#include <lockstep/strategy/reduction.hpp>
#include <lockstep/strategy/scope.hpp>
#include <lockstep/strategy/strategy_extended.hpp>
#include <lockstep/values/merge.hpp>
#include <lockstep/values/reduced.hpp>
#include <lockstep/variables/variable.hpp>

#include <concepts>
#include <cstddef>
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
  /// Collective. A float gives a float, a vector a vector, a Tensor a Tensor, a span a vector, IndexedSlices the rows
  /// of all replicas one after the other. The mean of integers is f64: a Tensor gives one, typed integers need the
  /// result named, `reduce<double>("MEAN", ids)`. A value that is no PerReplica is one value: with one replica it is
  /// returned; with one replica on each rank it counts once per rank; otherwise, and for Mirrored values and variables,
  /// mean, min, max, band and bor return it, while sum, prod and bxor are Error(invalid_argument). So are components of
  /// different dtypes or shapes; between ranks they are Error(mismatch).
  template <class Result = void, class Tree>
  [[nodiscard]] auto reduce(const ReduceOpArgument& op, const Tree& value) {
    const ReduceOp checked = begin_reduction("reduce", op);
    const detail::Sharing sharing{num_replicas_in_sync(), counts_once_per_rank()};
    detail::ReductionList list;
    auto result = map_leaves(value, [&]<class Leaf>(const Leaf& leaf) -> detail::reduced_t<Result, Leaf> {
      return detail::start_reduction<detail::reduced_t<Result, Leaf>>(leaf, checked, sharing, list);
    });
    detail::add_outputs(value, result, sharing, list);
    run_reduction("reduce", checked, list.items(), list.sparse_inputs(), list.sparse_outputs(), {});
    return result;
  }
  template <class Result = void, class Tree>
  [[nodiscard]] auto reduce(const ReduceOpArgument& op, const Tree& value, std::nullopt_t) {
    return reduce<Result>(op, value);
  }

  /// As above, also along `axes` of the components, which may have different extents there: one axis, several, or none;
  /// negative ones count from the end. sum and mean only. The mean divides by the number of elements of all replicas:
  /// [5, 6] and [7] give 6. Collective: one for all leaves of `value`. A Tensor gives a Tensor without the axes, a
  /// vector its element; no axis (a list that is empty) goes with Tensors only, for vectors say std::nullopt. Throws
  /// Error(invalid_argument) for an axis that does not exist or is named twice, and what is wrong with
  /// `reduce(op, value)`.
  template <class Result = void, class Tree>
  [[nodiscard]] auto reduce(const ReduceOpArgument& op, const Tree& value, const Axes& axes) {
    if constexpr (detail::only_tensors<Tree>) {
      if (axes.empty()) return reduce(op, value);
    }
    const ReduceOp checked = begin_reduction("reduce", op);
    std::vector<std::vector<ConstTensorView>> leaves;
    std::vector<Tensor> read;  // of variables
    std::vector<bool> is_shared;
    const detail::Sharing sharing{num_replicas_in_sync(), counts_once_per_rank()};
    for_each_leaf(value, [&]<class Leaf>(const Leaf& leaf) {
      is_shared.push_back(!detail::is_reduced<Leaf>(sharing));
      leaves.push_back(detail::views_of_components(leaf, read));
    });
    const std::vector<Tensor> totals = reduce_axes(checked, leaves, is_shared, axes);
    std::size_t k = 0;
    return map_leaves(value,
                      [&]<class Leaf>(const Leaf&) { return detail::axis_result<Result, Leaf>(totals[k++], checked); });
  }

  /// The components of all replicas one after the other along `axis`, by replica id, for each PerReplica leaf of
  /// `value`, as one batch; the same on every rank. Extents may differ along `axis`, which counts from the end when it
  /// is negative. Of Tensors a Tensor, of vectors a vector. A value that is no PerReplica is given back as it is.
  /// Collective. Throws the same on all ranks: Error(invalid_argument) for an axis that a leaf has not, a scalar, other
  /// extents or dtypes that differ; Error(unimplemented) for IndexedSlices. In a step function use
  /// ReplicaContext::all_gather.
  template <class Tree>
  [[nodiscard]] auto gather(const Tree& value, int axis) {
    check_gather();
    std::vector<std::vector<ConstTensorView>> leaves;
    for_each_leaf(value, [&]<class Leaf>(const Leaf& leaf) {
      using Component = detail::component_t<Leaf>;
      if constexpr (detail::is_slices<Component>)
        detail::throw_sparse_not_gathered("gather");
      else if constexpr (detail::is_per_replica<Leaf>) {
        std::vector<Tensor> none;
        leaves.push_back(detail::views_of_components(leaf, none));
      }
    });
    const std::vector<Tensor> results = gather_views(leaves, axis);
    std::size_t k = 0;
    return map_leaves(value, [&]<class Leaf>(const Leaf& leaf) -> typename detail::gathered_value<Leaf>::type {
      if constexpr (stays_whole<Leaf>) {
        return leaf.read();
      } else if constexpr (detail::is_per_replica<Leaf>) {
        return detail::gathered_leaf<detail::component_t<Leaf>>(results[k++]);
      } else if constexpr (detail::is_mirrored<Leaf>) {
        return detail::owning_copy<typename detail::gathered_value<Leaf>::type>(leaf.value());
      } else {
        return detail::owning_copy<typename detail::gathered_value<Leaf>::type>(leaf);
      }
    });
  }

  /// Name, ranks and replicas, devices of this rank, what reduces and why: a few lines of text. Local.
  [[nodiscard]] std::string describe() const;

  /// This rank's components of `value`, in replica order: of a PerReplica or Mirrored value its components, of a tree
  /// with such leaves one tree per replica, of a variable its copies, of any other value that value. Local.
  template <class Tree>
  [[nodiscard]] auto experimental_local_results(const Tree& value) const {
    if constexpr (std::derived_from<Tree, Variable>) {
      std::vector<Tensor> copies;
      for (int i = 0; i < value.component_count(); ++i) copies.push_back(value.component(i));
      return copies;
    } else {
      return detail::local_parts(value);
    }
  }

  /// A variable with one copy on each local device, equal on all ranks. `initial` is a number, a vector, an array, a
  /// Tensor, or a function without arguments that returns one; it is called once per rank, and what rank 0 got is sent
  /// to all. Collective. In a step function all replicas call it: they get one variable, whose value is that of the
  /// first replica. Throws Error(invalid_argument) for elements other than T, aggregation mean of integers;
  /// Error(mismatch) for shapes that differ between ranks; Error(failed_precondition) inside another strategy's scope,
  /// and for names that differ between replicas.
  template <Element T, class Initial>
  [[nodiscard]] MirroredVariable<T> variable(Initial&& initial, const VariableOptions& options = {}) {
    return MirroredVariable<T>(create_variable(detail::initial_tensor<T>(std::forward<Initial>(initial)), options));
  }
  /// As above, with the dtype of the tensor.
  [[nodiscard]] Variable variable(const Tensor& initial, const VariableOptions& options = {});

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
  /// `team` is made by the library's own strategies. `ops` reduces; null: the default, which is chosen for the devices.
  explicit Strategy(std::shared_ptr<ReplicaTeam> team, std::shared_ptr<CrossDeviceOps> ops = nullptr,
                    const CommunicationOptions& options = {});

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

  /// Cross-replica context, and the op of `op`; a wrong one is told to the other ranks.
  ReduceOp begin_reduction(std::string_view call, const ReduceOpArgument& op);
  void run_reduction(std::string_view call, ReduceOp op, std::span<const Item> items,
                     std::span<const std::vector<const IndexedSlices*>> sparse_inputs,
                     std::span<const std::vector<IndexedSlices*>> sparse_outputs, const CommunicationOptions& options);
  [[nodiscard]] std::vector<Tensor> reduce_axes(ReduceOp op, std::span<const std::vector<ConstTensorView>> leaves,
                                                const std::vector<bool>& is_shared, const Axes& axes);
  void check_gather() const;
  [[nodiscard]] std::vector<Tensor> gather_views(std::span<const std::vector<ConstTensorView>> leaves, int axis);

  void check_cross_replica(std::string_view call) const;
  [[nodiscard]] bool counts_once_per_rank() const noexcept;
  [[nodiscard]] int local_replicas() const noexcept;
  [[nodiscard]] int first_replica() const noexcept;
  [[nodiscard]] Variable create_variable(const Tensor& initial, const VariableOptions& options);

  std::shared_ptr<ReplicaTeam> team_;
  std::shared_ptr<CrossDeviceOps> ops_;
  bool ops_are_given_ = false;  // by the user
  CommunicationOptions communication_options_;
  StrategyExtended extended_;
};

}  // namespace lockstep

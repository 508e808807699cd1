// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Where replicas run, and how one step is run on all of them. The strategies themselves are in the headers beside this
// one.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/cluster/cluster_resolver.hpp>
#include <lockstep/collectives/communication_options.hpp>
#include <lockstep/collectives/communicator.hpp>
#include <lockstep/collectives/detail/propagate.hpp>
#include <lockstep/context/context.hpp>
#include <lockstep/context/replica_context.hpp>
#include <lockstep/context/run_options.hpp>
#include <lockstep/context/statistics.hpp>
#include <lockstep/core/axes.hpp>
#include <lockstep/core/dtype.hpp>
#include <lockstep/core/reduce_op.hpp>
#include <lockstep/core/reduce_op_argument.hpp>
#include <lockstep/cross_device/cross_device_ops.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/input/array_dataset.hpp>
#include <lockstep/input/distributed_dataset.hpp>
#include <lockstep/strategy/initial_value.hpp>
#include <lockstep/strategy/logical_devices.hpp>
#include <lockstep/strategy/reduction.hpp>
#include <lockstep/strategy/replica_results.hpp>
#include <lockstep/strategy/scope.hpp>
#include <lockstep/strategy/strategy_extended.hpp>
#include <lockstep/strategy/value_context.hpp>
#include <lockstep/values/merge.hpp>
#include <lockstep/values/reduced.hpp>
#include <lockstep/variables/typed_variable.hpp>
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
  /// The ranks as tf.distribute's cluster of tasks, null for strategies of one process. Local; lives as long as the
  /// strategy.
  [[nodiscard]] const ClusterResolver* cluster_resolver() const noexcept { return do_cluster_resolver(); }

  /// Makes this strategy current on this thread. Local.
  /// Throws Error(failed_precondition) inside the scope of another strategy, and in a step function.
  Scope scope();

  /// Runs `fn(replica, args...)`, or `fn(args...)`, once on every local replica: the first on this thread, each further
  /// one on a thread of its own, all at the same time unless `options` says otherwise; `fn` must be safe for that.
  /// `args` are trees: PerReplica and Mirrored leaves are sliced, variables passed whole, all else is passed as it is,
  /// by reference; a tree that has to be sliced comes as a tree of the components (an opted-in aggregate as the tuple
  /// of its members), and where tf.distribute has arguments by name, give such an aggregate, or capture. A function
  /// that cannot take these arguments does not compile. Returns a tree: each leaf T that the replicas return becomes
  /// PerReplica<T>, a variable stays itself, void stays void; nothing is merged because values are equal. Local by
  /// itself; a collective in `fn` makes it Collective. The first exception in time is thrown here with its type, when
  /// all local replicas have ended; the others end at their next meeting, and other ranks get Error(unavailable) with
  /// its text at their next collective. The strategy can be used again. Throws Error(failed_precondition) in a step
  /// function; inside merge_call it may be called.
  template <class F, class... Args>
    requires(!std::same_as<std::remove_cvref_t<F>, RunOptions>)
  auto run(F&& fn, Args&&... args) {
    return run(RunOptions{}, std::forward<F>(fn), std::forward<Args>(args)...);
  }
  template <class F, class... Args>
  auto run(const RunOptions& options, F&& fn, Args&&... args) {
    constexpr bool takes_replica =
        std::is_invocable_v<F&, ReplicaContext&, decltype(detail::argument_part(args, 0))...>;
    constexpr bool takes_arguments = std::is_invocable_v<F&, decltype(detail::argument_part(args, 0))...>;
    static_assert(takes_replica || takes_arguments,
                  "run: the function must be callable as fn(ReplicaContext&, args...) or as fn(args...), with the args "
                  "of this call, one by one; PerReplica and Mirrored ones come as one component");
    if constexpr (takes_replica || takes_arguments) return run_on_replicas<takes_replica>(options, fn, args...);
  }

  /// The older name of run.
  template <class F, class... Args>
  auto experimental_run_v2(F&& fn, Args&&... args) {
    return run(RunOptions{}, std::forward<F>(fn), std::forward<Args>(args)...);
  }

  /// The reduction over all replicas of each PerReplica leaf of `value`, as one collective; the same on every rank.
  /// Collective. A float gives a float, a vector a vector, a Tensor a Tensor, a span a vector, IndexedSlices the rows
  /// of all replicas one after the other. The mean of integers is f64: a Tensor gives one, typed integers need the
  /// result named, `reduce<double>("MEAN", ids)`. A value that is no PerReplica is one value: with one replica it is
  /// returned; with one replica on each rank it counts once per rank; otherwise, and for Mirrored values and variables,
  /// mean, min, max, band and bor return it, while sum, prod and bxor are Error(invalid_argument). So are components of
  /// different dtypes or shapes; between ranks they are Error(mismatch). A variable of this strategy that is
  /// synchronized on read has a value on each replica: `op` joins these, whatever the variable's own aggregation.
  /// The result is in host memory, also of values on GPUs; StrategyExtended::reduce_to makes it on devices.
  template <class Result = void, class Tree>
  [[nodiscard]] auto reduce(const ReduceOpArgument& op, const Tree& value) {
    const ReduceOp checked = begin_reduction("reduce", op);
    const detail::Sharing sharing = extended_.sharing();
    detail::ReductionList list(result_memory_);
    auto result = detail::propagate(communicator(), [&] {
      return map_leaves(value, [&]<class Leaf>(const Leaf& leaf) -> detail::reduced_t<Result, Leaf> {
        return detail::start_reduction<detail::reduced_t<Result, Leaf>>(leaf, checked, sharing, list);
      });
    });
    detail::add_outputs(value, result, sharing, list);
    run_reduction("reduce", checked, list.items(), list.sparse(), {});
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
    const detail::Sharing sharing = extended_.sharing();
    for_each_leaf(value, [&]<class Leaf>(const Leaf& leaf) {
      is_shared.push_back(!detail::is_reduced(leaf, sharing));
      leaves.push_back(detail::views_of_components(leaf, sharing, read));
    });
    const std::vector<Tensor> totals = reduce_axes(checked, leaves, is_shared, axes);
    std::size_t k = 0;
    return map_leaves(value,
                      [&]<class Leaf>(const Leaf&) { return detail::axis_result<Result, Leaf>(totals[k++], checked); });
  }

  /// The components of all replicas one after the other along `axis`, by replica id, for each PerReplica leaf of
  /// `value`, as one batch; the same on every rank. Extents may differ along `axis`, which counts from the end when it
  /// is negative. Of Tensors a Tensor in host memory, of vectors a vector. A value that is no PerReplica is given back
  /// as it is. Collective. Throws the same on all ranks: Error(invalid_argument) for an axis that a leaf has not, a
  /// scalar, other extents or dtypes that differ; Error(unimplemented) for IndexedSlices. In a step function use
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
        leaves.push_back(detail::views_of_components(leaf, {}, none));
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

  /// Name, ranks and replicas, devices of this rank, what reduces and why, and which way values go: a few lines of
  /// text. Where GPUs were asked for and are missing, why. Local.
  [[nodiscard]] std::string describe() const;

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

  /// Gives replica r of R chunk r of each batch of `dataset`, whose batches are global: the same on every rank; or what
  /// another auto_shard_policy says. See DistributedDataset and InputOptions. Local, and by default so is iterating;
  /// neither needs the strategy to live. With one replica in all there is nothing to split, and elements that are no
  /// batches are given as they are. Throws Error(invalid_argument) for other datasets without batches, for options out
  /// of range, and where the policy does not go with the layout or the dataset; Error(unimplemented) for per_replica.
  template <ElementTree T>
  [[nodiscard]] DistributedDataset<T> experimental_distribute_dataset(const Dataset<T>& dataset,
                                                                      const InputOptions& options = {}) {
    check_cross_replica("experimental_distribute_dataset");
    return input::distribute(
        dataset,
        InputLayout{communicator().layout(), communicator().rank(), communicator(), devices_for_batches(options)},
        options);
  }

  /// Calls `fn(InputContext)` once, for this rank's own dataset of per-replica batches; each step gives every local
  /// replica the next element. Where the options say per_replica, `fn` is called once per replica, for its own dataset.
  /// See DistributedDataset. Collective whenever a pass begins. Throws what `fn` throws, Error(invalid_argument) for
  /// options out of range or that do not go together, Error(unimplemented) for per_replica in another strategy than
  /// MirroredStrategy.
  template <class Fn>
    requires std::invocable<Fn&, const InputContext&>
  [[nodiscard]] auto distribute_datasets_from_function(Fn&& fn, const InputOptions& options = {}) {
    check_cross_replica("distribute_datasets_from_function");
    check_replication_mode(options);
    return input::distribute_from_function(std::forward<Fn>(fn), communicator(), options, devices_for_batches(options));
  }
  /// The older name of distribute_datasets_from_function.
  template <class Fn>
    requires std::invocable<Fn&, const InputContext&>
  [[nodiscard]] auto experimental_distribute_datasets_from_function(Fn&& fn, const InputOptions& options = {}) {
    return distribute_datasets_from_function(std::forward<Fn>(fn), options);
  }

  /// One value for each local replica: what `fn(ValueContext)` returns for it, called in id order on this thread.
  /// Merged as run merges results: always a PerReplica, with one replica and where all values are equal too.
  /// (tf.distribute's OneDeviceStrategy and default strategy give the bare value, which is `value()` here: the type
  /// cannot depend on the strategy.) Local; in any context, inside or outside of scopes.
  template <std::invocable<const ValueContext&> Fn>
  [[nodiscard]] auto experimental_distribute_values_from_function(Fn&& fn) const {
    using Value = std::decay_t<std::invoke_result_t<Fn&, const ValueContext&>>;
    detail::ReplicaResults<Value> values(local_replicas());
    for (int i = 0; i < local_replicas(); ++i) {
      values[i].emplace(std::invoke(fn, ValueContext{first_replica() + i, num_replicas_in_sync()}));
    }
    return detail::merge_trees<Value>(local_replicas(), first_replica(),
                                      [&values](int i) -> Value& { return *values[i]; });
  }

  /// A dataset whose element i is row i of each array: see array_dataset. Local.
  template <class Arrays>
  [[deprecated("use array_dataset, or Dataset::from_tensor_slices")]] [[nodiscard]] auto
  experimental_make_numpy_dataset(const Arrays& numpy_input) const {
    return array_dataset(numpy_input);
  }

  /// Annotations for strategies whose replicas have several logical devices each; here each has one, so they return
  /// `tensor` as it is, having checked the rest. Local; in any context.
  /// Throws Error(invalid_argument) for a device other than 0.
  template <TensorLike T>
  [[nodiscard]] std::decay_t<T> experimental_assign_to_logical_device(T&& tensor, int logical_device_id) const {
    detail::check_logical_device(logical_device_id);
    return std::forward<T>(tensor);
  }
  /// Axis d would be cut into partition_dimensions[d] parts, one for each logical device. Throws
  /// Error(invalid_argument) unless there is one number for each axis, at least 1, that divides its extent, and their
  /// product is 1, the number of logical devices.
  template <TensorLike T>
  [[nodiscard]] std::decay_t<T> experimental_split_to_logical_devices(
      T&& tensor, const std::vector<int>& partition_dimensions) const {
    detail::check_logical_split(tensor_traits<std::remove_cvref_t<T>>::view(tensor).shape, partition_dimensions);
    return std::forward<T>(tensor);
  }
  template <TensorLike T>
  [[nodiscard]] std::decay_t<T> experimental_replicate_to_logical_devices(T&& tensor) const {
    return std::forward<T>(tensor);
  }

 protected:
  /// `team` is made by the library's own strategies. `ops` reduces; null: the default, which is chosen for the devices.
  explicit Strategy(std::shared_ptr<ReplicaTeam> team, std::shared_ptr<CrossDeviceOps> ops = nullptr,
                    const CommunicationOptions& options = {});
  [[nodiscard]] virtual const ClusterResolver* do_cluster_resolver() const noexcept { return nullptr; }
  /// Whether datasets from a function may have one pipeline for each replica.
  [[nodiscard]] virtual bool do_reads_per_replica() const noexcept { return false; }

 private:
  friend class Scope;
  friend void experimental_set_strategy(Strategy* strategy);
  friend class StrategyExtended;
  friend class detail::UpdateScope;
  friend struct StrategyAccess;  // the library's own makers

  template <class Task>
  static ReplicaTask borrow(Task& task) {
    return {&task, [](void* object, ReplicaContext& replica) { (*static_cast<Task*>(object))(replica); }};
  }
  template <bool takes_replica, class F, class... Args>
  auto run_on_replicas(const RunOptions& options, F& fn, Args&... args) {
    const auto call = [&](ReplicaContext& replica) -> decltype(auto) {
      const int local = replica.local_replica();
      replica.set_has_data((detail::has_rows(args, local) && ...));
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
      detail::ReplicaResults<Result> results(local_replicas());
      auto task = [&](ReplicaContext& replica) { results[replica.local_replica()].emplace(call(replica)); };
      run_task(borrow(task), options);
      return detail::merge_trees<Result>(local_replicas(), first_replica(),
                                         [&results](int i) -> Result& { return *results[i]; });
    }
  }
  void run_task(ReplicaTask task, const RunOptions& options);

  /// Cross-replica context, and the op of `op`; a wrong one is told to the other ranks.
  ReduceOp begin_reduction(std::string_view call, const ReduceOpArgument& op);
  void run_reduction(std::string_view call, ReduceOp op, std::span<const Item> items, const SparseReductions& sparse,
                     const CommunicationOptions& options);
  [[nodiscard]] std::vector<Tensor> reduce_axes(ReduceOp op, std::span<const std::vector<ConstTensorView>> leaves,
                                                const std::vector<bool>& is_shared, const Axes& axes);
  void check_gather() const;
  [[nodiscard]] std::vector<Tensor> gather_views(std::span<const std::vector<ConstTensorView>> leaves, int axis);

  void check_cross_replica(std::string_view call) const;
  void check_replication_mode(const InputOptions& options) const;
  /// Where batches are fetched to; none where they stay in host memory.
  [[nodiscard]] std::vector<Device> devices_for_batches(const InputOptions& options) const;
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
  std::shared_ptr<CrossDeviceOps> ops_;
  bool ops_are_given_ = false;  // by the user
  CommunicationOptions communication_options_;
  std::shared_ptr<MemoryResource> result_memory_;  // of reductions
  StrategyExtended extended_;
};

template <class F, class... Args>
auto StrategyExtended::call_for_each_replica(F&& fn, Args&&... args) {
  return strategy_.run(RunOptions{}, std::forward<F>(fn), std::forward<Args>(args)...);
}

}  // namespace lockstep

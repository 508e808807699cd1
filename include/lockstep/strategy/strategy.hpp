// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Strategy: which replicas there are, and how one step runs on all of them. Its classes are in the headers beside this
// one.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/cluster/cluster_resolver.hpp>
#include <lockstep/collectives/communication_options.hpp>
#include <lockstep/collectives/communicator.hpp>
#include <lockstep/collectives/detail/propagate.hpp>
#include <lockstep/context/replica_context.hpp>
#include <lockstep/context/run_options.hpp>
#include <lockstep/context/statistics.hpp>
#include <lockstep/core/axes.hpp>
#include <lockstep/core/dtype.hpp>
#include <lockstep/core/reduce_op.hpp>
#include <lockstep/core/reduce_op_argument.hpp>
#include <lockstep/core/shape.hpp>
#include <lockstep/cross_device/cross_device_ops.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/input/array_dataset.hpp>
#include <lockstep/input/distributed_dataset.hpp>
#include <lockstep/strategy/detail/initial_value.hpp>
#include <lockstep/strategy/detail/leaves.hpp>
#include <lockstep/strategy/detail/step_values.hpp>
#include <lockstep/strategy/scope.hpp>
#include <lockstep/strategy/strategy_extended.hpp>
#include <lockstep/values/detail/local_replicas.hpp>
#include <lockstep/values/detail/reduced.hpp>
#include <lockstep/values/merge.hpp>
#include <lockstep/variables/typed_variable.hpp>
#include <lockstep/variables/variable.hpp>

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep {

/// Argument of a function that makes a replica's value: the replica's id, and the number of replicas of all ranks.
struct ValueContext {
  int replica_id_in_sync_group = 0;
  int num_replicas_in_sync = 1;
};

namespace detail {

/// Throws Error(invalid_argument) unless `id` is 0, the only logical device of a replica.
LOCKSTEP_API void check_logical_device(int id);
/// Throws Error(invalid_argument) unless a tensor of that shape can be split so, and into one part.
LOCKSTEP_API void check_logical_split(const Shape& shape, std::span<const int> parts);

}  // namespace detail

/// Only the library can make one, so only the strategies of the library can construct a Strategy.
struct StrategyOfTheLibrary;

/// The base of all strategies. Only the library derives strategies from it; a program may derive a class from one of
/// these, such as MirroredStrategy, to add members of its own, and passes cross_device_ops to replace the reductions.
///
/// All ranks make the calls marked Collective in the same order, in cross-replica context or outside every scope. In a
/// step function these throw Error(failed_precondition), as does every call inside the scope of another strategy.
/// Pinned. Thread-safety: one thread at a time; with MPI_THREAD_FUNNELED the main thread.
class LOCKSTEP_API Strategy {
 public:
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;
  virtual ~Strategy();

  /// Number of replicas of all ranks. Local.
  [[nodiscard]] int num_replicas_in_sync() const noexcept;
  /// Whether this is rank 0, the rank that prints and saves. Local.
  [[nodiscard]] bool is_chief() const noexcept;
  /// The communicator of the strategy's collectives. A program may use it for its own, in the same order on all ranks
  /// and outside of step functions.
  [[nodiscard]] const Communicator& communicator() const noexcept;
  /// Counters of this rank since the construction of the strategy. Local.
  [[nodiscard]] const StrategyStatistics& statistics() const noexcept;
  [[nodiscard]] StrategyExtended& extended() noexcept { return extended_; }
  /// The ranks as a cluster of tasks in tf.distribute's terms, null for strategies of one process. Local; lives as long
  /// as the strategy.
  [[nodiscard]] const ClusterResolver* cluster_resolver() const noexcept { return do_cluster_resolver(); }

  /// Makes this strategy current on this thread. Local.
  /// Throws Error(failed_precondition) inside the scope of another strategy, and in a step function.
  Scope scope();

  /// Runs `fn(replica, args...)`, or `fn(args...)`, once on every local replica.
  /// Local by itself; a collective in `fn` makes it Collective.
  ///
  /// Threads: the first replica runs on this thread, every other one on a thread of its own, all at the same time
  /// unless `options` says otherwise; `fn` must be safe for that. Arguments are trees: PerReplica and Mirrored leaves
  /// are sliced, variables and all other leaves are passed by reference. A sliced tree is passed as a tree of the
  /// components, an opted-in aggregate as the tuple of its members. In place of tf.distribute's arguments by name, pass
  /// such an aggregate, or capture. A function that cannot take these arguments does not compile. A PerReplica argument
  /// has one component for each replica of this rank, a Mirrored one as many copies or one; otherwise this rank throws
  /// Error(invalid_argument), which names the argument and both numbers, as for an exception of `fn`. Result: a tree.
  /// Each leaf T that the replicas return becomes PerReplica<T>, also if all values are equal; a variable stays itself,
  /// void stays void. Failure: rethrows the first exception once all local replicas have returned; these end at their
  /// next collective. Other ranks get Error(unavailable) with its text at their next collective. The strategy remains
  /// usable. Throws Error(failed_precondition) in a step function, but not inside merge_call.
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

  /// Older name of run.
  template <class F, class... Args>
  auto experimental_run_v2(F&& fn, Args&&... args) {
    return run(RunOptions{}, std::forward<F>(fn), std::forward<Args>(args)...);
  }

  /// Returns the reduction over all replicas of each PerReplica leaf of `value`, in one collective; the same on every
  /// rank. Collective.
  ///
  /// Result: in host memory, also for values on GPUs; StrategyExtended::reduce_to puts it on devices. A float gives a
  /// float, a vector a vector, a Tensor a Tensor, a span a vector, IndexedSlices the rows of all replicas one after the
  /// other. The mean of integers is f64: a Tensor gives a Tensor of f64, for typed integers the caller names the type
  /// of the result, `reduce<double>("MEAN", ids)`. Other values than PerReplica are one value: with one replica it is
  /// returned, and with one replica on each rank a plain value counts once per rank. Otherwise, and for Mirrored values
  /// and variables, mean, min, max, band and bor return it, while sum, prod and bxor throw Error(invalid_argument). A
  /// variable of this strategy that is synchronized on read has a value on each replica: `op` reduces these, whatever
  /// the aggregation of the variable. Failure: components of different dtypes or shapes, and a PerReplica that was made
  /// for other replicas than those of this rank, are Error(invalid_argument); between ranks Error(mismatch).
  template <class Result = void, class Tree>
  [[nodiscard]] auto reduce(const ReduceOpArgument& op, const Tree& value, std::nullopt_t = std::nullopt,
                            std::source_location where = std::source_location::current()) {
    if constexpr (detail::can_be_reduced<Tree>()) return reduce_tree<Result>(op, value, where);
  }

  /// As above, also along `axes` of the components, which may have different extents there: one axis, several, or none;
  /// negative axes count from the end. Only sum and mean. The mean divides by the number of elements of all replicas:
  /// [5, 6] and [7] give 6. Collective, once for all leaves of `value`.
  /// Result: a Tensor gives a Tensor without the axes, a vector its element. An empty list of axes is for Tensors only;
  /// for vectors pass std::nullopt.
  /// Failure: as `reduce(op, value)`, and Error(invalid_argument) for an axis that does not exist or is named twice.
  template <class Result = void, class Tree>
  [[nodiscard]] auto reduce(const ReduceOpArgument& op, const Tree& value, const Axes& axes,
                            std::source_location where = std::source_location::current()) {
    if constexpr (detail::can_be_reduced<Tree>()) return reduce_tree_along<Result>(op, value, axes, where);
  }

  /// Returns the components of all replicas concatenated along `axis`, by replica id, for each PerReplica leaf of
  /// `value`, in one batch; the same on every rank. Collective. In a step function use ReplicaContext::all_gather.
  /// Extents may differ along `axis`, which counts from the end if it is negative. Tensors give a Tensor in host
  /// memory, vectors a vector. Other values than PerReplica are returned as they are: with one replica on each rank a
  /// plain value counts once, while `reduce` counts it once per rank (tf.distribute gathers it from each worker; here
  /// the type of a result cannot depend on the layout: make a PerReplica). Failure, the same on all ranks:
  /// Error(invalid_argument) for an axis that a leaf does not have, a scalar, other extents or dtypes that differ, and
  /// a PerReplica that was made for other replicas; Error(unimplemented) for IndexedSlices.
  template <class Tree>
  [[nodiscard]] auto gather(const Tree& value, int axis, std::source_location where = std::source_location::current()) {
    if constexpr (detail::can_be_reduced<Tree, detail::is_not_gatherable>()) return gather_tree(value, axis, where);
  }

  /// A few lines of text: name with the number by which errors tell strategies apart, ranks and replicas, devices of
  /// this rank, reducer and reason for it, data path. If GPUs were requested and are missing, the reason. Local.
  [[nodiscard]] std::string describe() const;

  /// This rank's components of `value`, in replica order: the components of a PerReplica or Mirrored value or of a
  /// variable, one tree per replica for a tree with such leaves, and any other value itself. In such a tree a variable
  /// becomes its component, and a value without components is in every tree. Local. Throws Error(invalid_argument) for
  /// a value that was made for other replicas than those of this rank.
  template <class Tree>
  [[nodiscard]] auto experimental_local_results(const Tree& value) const {
    return detail::local_results(value, own_replicas());
  }

  /// Makes a variable with one copy on each local device, equal on all ranks at first; see Variable. Collective.
  /// `initial` is a number, a vector, an array, a Tensor, or a function without arguments that returns one; the
  /// function is called once per rank, and the value of rank 0 is sent to all. In a step function all replicas call it,
  /// in the same order and with the same canonical_name. They get one variable, whose value is that of the first
  /// replica; if `initial` is a function, it is called for the first replica only. Failure: Error(invalid_argument) for
  /// elements other than T, synchronization none, aggregation mean of integers, and sum of bool; Error(mismatch) for
  /// shapes or options that differ between replicas or ranks; Error(failed_precondition) inside the scope of another
  /// strategy, and for names that differ between replicas.
  ///
  /// This one is synchronized on write; options with on_read are Error(invalid_argument).
  template <Element T, class Initial>
  [[nodiscard]] MirroredVariable<T> variable(Initial&& initial, const VariableOptions& options = {}) {
    return MirroredVariable<T>(
        create_typed<T>(std::forward<Initial>(initial), options, VariableSynchronization::on_write));
  }
  /// Synchronized on read; options with on_write are Error(invalid_argument).
  template <Element T, class Initial>
  [[nodiscard]] SyncOnReadVariable<T> sync_on_read_variable(Initial&& initial, const VariableOptions& options = {}) {
    return SyncOnReadVariable<T>(
        create_typed<T>(std::forward<Initial>(initial), options, VariableSynchronization::on_read));
  }
  /// A variable of the kind that the options name, with the dtype of the tensor.
  [[nodiscard]] Variable variable(const Tensor& initial, const VariableOptions& options = {});
  template <detail::MakesTensor Make>
  [[nodiscard]] Variable variable(Make&& initial, const VariableOptions& options = {}) {
    return detail::with_initializer<float>(std::forward<Make>(initial), [&](const VariableInitializer& initializer) {
      return create_variable(initializer, options, std::nullopt);
    });
  }

  /// Not a function: a variable of a number or a list needs its element type, as in `variable<float>(1.0F)`.
  template <class NoElementType = void, class Initial>
    requires(std::is_void_v<NoElementType> && !std::convertible_to<Initial &&, const Tensor&> &&
             !detail::MakesTensor<Initial>)
  Variable variable(Initial&&, const VariableOptions& = {}) {
    static_assert(detail::never<Initial>,
                  "variable: name the element type, as in strategy.variable<float>(1.0F), or pass a Tensor");
    return variable(Tensor());
  }

  /// Distributes `dataset`, whose batches are global, that is, the same on every rank: replica r of R gets slice r of
  /// each batch, or the data that another auto_shard_policy selects. See DistributedDataset and InputOptions. Local,
  /// and by default so is iterating; neither needs the strategy to live. With one replica in all, elements that are not
  /// batches are passed as they are. Failure: Error(invalid_argument) for other datasets without batches, for options
  /// out of range, and for a policy that does not fit the layout or the dataset; Error(unimplemented) for per_replica.
  template <ElementTree T>
  [[nodiscard]] DistributedDataset<T> experimental_distribute_dataset(const Dataset<T>& dataset,
                                                                      const InputOptions& options = {}) {
    check_cross_replica("experimental_distribute_dataset");
    return input::distribute(
        dataset,
        InputLayout{communicator().layout(), communicator().rank(), communicator(), devices_for_batches(options)},
        options);
  }

  /// Calls `fn(InputContext)` once, for this rank's own dataset of per-replica batches; in each step every local
  /// replica gets the next element. With per_replica in the options, `fn` is called once per replica, for the dataset
  /// of that replica. See DistributedDataset. Collective at the beginning of each pass. Failure: the exceptions of
  /// `fn`; Error(invalid_argument) for options out of range or that exclude each other; Error(unimplemented) for
  /// per_replica in a strategy other than MirroredStrategy.
  template <class Fn>
    requires std::invocable<Fn&, const InputContext&>
  [[nodiscard]] auto distribute_datasets_from_function(Fn&& fn, const InputOptions& options = {}) {
    check_cross_replica("distribute_datasets_from_function");
    check_replication_mode(options);
    return input::distribute_from_function(std::forward<Fn>(fn), communicator(), options, devices_for_batches(options));
  }
  /// Older name of distribute_datasets_from_function.
  template <class Fn>
    requires std::invocable<Fn&, const InputContext&>
  [[nodiscard]] auto experimental_distribute_datasets_from_function(Fn&& fn, const InputOptions& options = {}) {
    return distribute_datasets_from_function(std::forward<Fn>(fn), options);
  }

  /// One value for each local replica: the result of `fn(ValueContext)`, called in id order on this thread. Merged as
  /// run merges results: always a PerReplica, also with one replica, and if all values are equal. (tf.distribute's
  /// OneDeviceStrategy and default strategy return the bare value, which is `value()` here: the type cannot depend on
  /// the strategy.) Local; in any context, inside or outside of scopes.
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

  /// Annotations for strategies whose replicas have several logical devices each. A replica has one here, so they check
  /// the other arguments and return `tensor`. Local; in any context.
  /// Throws Error(invalid_argument) for a device other than 0.
  template <TensorLike T>
  [[nodiscard]] std::decay_t<T> experimental_assign_to_logical_device(T&& tensor, int logical_device_id) const {
    detail::check_logical_device(logical_device_id);
    return std::forward<T>(tensor);
  }
  /// Axis d would be split into partition_dimensions[d] parts, one for each logical device. Throws
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
  explicit Strategy(const StrategyOfTheLibrary& parts);
  [[nodiscard]] virtual const ClusterResolver* do_cluster_resolver() const noexcept { return nullptr; }
  /// Whether datasets from a function may have one pipeline for each replica.
  [[nodiscard]] virtual bool do_reads_per_replica() const noexcept { return false; }

 private:
  friend class Scope;
  friend void experimental_set_strategy(Strategy* strategy);
  friend class StrategyExtended;
  friend class detail::UpdateScope;
  friend struct StrategyAccess;  // for the library itself

  template <class Task>
  static ReplicaTask borrow(Task& task) {
    return {&task, [](void* object, ReplicaContext& replica) { (*static_cast<Task*>(object))(replica); }};
  }
  template <bool takes_replica, class F, class... Args>
  auto run_on_replicas(const RunOptions& options, F& fn, Args&... args) {
    const auto call = [&](ReplicaContext& replica) -> decltype(auto) {
      const int local = replica.local_replica();
      detail::check_arguments("run", own_replicas(), args...);  // here, so that the other ranks get the error of a step
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

  template <class Result, class Tree>
  auto reduce_tree(const ReduceOpArgument& op, const Tree& value, const std::source_location& where) {
    LeafList leaves = begin_reduction("reduce", op);
    auto result = detail::propagate(communicator(), [&] {
      return map_leaves(value, [&]<class Leaf>(const Leaf& leaf) {
        return detail::start_reduction<detail::reduced_t<Result, Leaf>>(leaf, leaves);
      });
    });
    detail::add_outputs(result, leaves);
    run_reduction("reduce", leaves, {.where = where});
    return result;
  }
  template <class Result, class Tree>
  auto reduce_tree_along(const ReduceOpArgument& op, const Tree& value, const Axes& axes,
                         const std::source_location& where) {
    if constexpr (detail::only_tensors<Tree>) {
      if (axes.empty()) return reduce_tree<void>(op, value, where);
    }
    LeafList leaves = begin_reduction("reduce", op);
    detail::propagate(communicator(),
                      [&] { for_each_leaf(value, [&](const auto& leaf) { detail::add_axis_leaf(leaf, leaves); }); });
    const std::vector<Tensor> totals = reduce_axes(leaves, axes, {.where = where});
    std::size_t k = 0;
    return map_leaves(
        value, [&]<class Leaf>(const Leaf&) { return detail::axis_result<Result, Leaf>(totals[k++], leaves.op()); });
  }
  template <class Tree>
  auto gather_tree(const Tree& value, int axis, const std::source_location& where) {
    LeafList leaves = begin_gather();
    detail::propagate(communicator(), [&] {
      for_each_leaf(value, [&]<class Leaf>(const Leaf& leaf) {
        if constexpr (detail::is_gathered<Leaf>) detail::add_components(leaf, leaves);
      });
    });
    const std::vector<Tensor> results = gather_leaves(leaves, axis, {.where = where});
    std::size_t k = 0;
    return map_leaves(value, [&]<class Leaf>(const Leaf& leaf) {
      if constexpr (detail::is_gathered<Leaf>) {
        return detail::gathered_leaf<detail::component_t<Leaf>>(results[k++]);
      } else {
        return detail::one_value(leaf);
      }
    });
  }

  /// Checks for cross-replica context, and begins a list with the op of `op`; errors are propagated to the other ranks.
  LeafList begin_reduction(std::string_view call, const ReduceOpArgument& op);
  void run_reduction(std::string_view call, const LeafList& leaves, const CommunicationOptions& options);
  [[nodiscard]] std::vector<Tensor> reduce_axes(const LeafList& leaves, const Axes& axes,
                                                const CommunicationOptions& options);
  /// Checks for cross-replica context, and begins a list.
  [[nodiscard]] LeafList begin_gather();
  [[nodiscard]] std::vector<Tensor> gather_leaves(const LeafList& leaves, int axis,
                                                  const CommunicationOptions& options);

  void check_cross_replica(std::string_view call) const;
  void check_replication_mode(const InputOptions& options) const;
  /// Devices to which batches are copied; empty if they stay in host memory.
  [[nodiscard]] std::vector<Device> devices_for_batches(const InputOptions& options) const;
  [[nodiscard]] bool counts_once_per_rank() const noexcept;
  [[nodiscard]] int local_replicas() const noexcept;
  [[nodiscard]] int first_replica() const noexcept;
  [[nodiscard]] detail::LocalReplicas own_replicas() const noexcept { return {local_replicas(), first_replica()}; }
  template <Element T, class Initial>
  [[nodiscard]] Variable create_typed(Initial&& initial, const VariableOptions& options,
                                      VariableSynchronization synchronization) {
    return detail::with_initializer<T>(std::forward<Initial>(initial), [&](const VariableInitializer& initializer) {
      return create_variable(initializer, with_synchronization(options, synchronization), dtype_of<T>);
    });
  }
  /// `options` with that synchronization. Throws Error(invalid_argument) if they name the other one.
  [[nodiscard]] VariableOptions with_synchronization(VariableOptions options,
                                                     VariableSynchronization synchronization) const;
  /// Elements have type `dtype`, if one is given.
  [[nodiscard]] Variable create_variable(const VariableInitializer& initial, const VariableOptions& options,
                                         std::optional<DType> dtype);

  std::shared_ptr<ReplicaTeam> team_;
  std::shared_ptr<CrossDeviceOps> ops_;
  bool ops_are_given_ = false;  // by the user
  CommunicationOptions communication_options_;
  std::shared_ptr<MemoryResource> result_memory_;  // memory of results of reductions
  StrategyExtended extended_;
};

template <class F, class... Args>
auto StrategyExtended::call_for_each_replica(F&& fn, Args&&... args) {
  return strategy_.run(RunOptions{}, std::forward<F>(fn), std::forward<Args>(args)...);
}

}  // namespace lockstep

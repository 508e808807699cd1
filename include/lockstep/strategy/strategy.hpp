// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Strategy: the base class of all strategies. A strategy has a set of replicas, and runs a step function on all of
// them. The derived classes are in the other headers of this folder.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/base/function.hpp>
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
#include <lockstep/device/nested_list.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/input/array_dataset.hpp>
#include <lockstep/input/distributed_dataset.hpp>
#include <lockstep/strategy/detail/initial_value.hpp>
#include <lockstep/strategy/detail/leaf_list.hpp>
#include <lockstep/strategy/detail/leaves.hpp>
#include <lockstep/strategy/detail/step_values.hpp>
#include <lockstep/strategy/scope.hpp>
#include <lockstep/strategy/strategy_extended.hpp>
#include <lockstep/values/detail/local_replicas.hpp>
#include <lockstep/values/detail/reduced.hpp>
#include <lockstep/values/detail/set_cpu.hpp>
#include <lockstep/values/merge.hpp>
#include <lockstep/variables/typed_variable.hpp>
#include <lockstep/variables/variable.hpp>

#include <concepts>
#include <cstddef>
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

/// Argument of a function that makes the value of one replica: the replica's id, and the number of all replicas.
struct ValueContext {
  int replica_id_in_sync_group = 0;
  int num_replicas_in_sync = 1;
};

namespace detail {

/// Throws Error(invalid_argument) unless `id` is 0, the only logical device of a replica.
LOCKSTEP_API void check_logical_device(int id);
/// Throws Error(invalid_argument) unless `parts` has one divisor of each extent of `shape`, with the product 1.
LOCKSTEP_API void check_logical_split(const Shape& shape, std::span<const int> parts);

}  // namespace detail

class OneDeviceStrategy;

/// Argument of Strategy's constructor. Defined only inside the library, so only the library can construct a Strategy.
struct StrategyOfTheLibrary;

/// The base of all strategies. A program cannot derive from Strategy directly, but may derive from a strategy of the
/// library, such as MirroredStrategy, to add members. To replace the reductions, pass cross_device_ops to
/// MirroredStrategy.
///
/// All ranks must make the calls marked Collective in the same order, in cross-replica context or outside every scope.
/// In a step function, or inside the scope of another strategy, a call marked Collective throws
/// Error(failed_precondition), unless its comment says otherwise. Not copyable or movable. Thread-safety: one thread at
/// a time; with MPI_THREAD_FUNNELED only the main thread.
class LOCKSTEP_API Strategy {
 public:
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;
  virtual ~Strategy();

  /// Number of replicas of all ranks. Local.
  [[nodiscard]] int num_replicas_in_sync() const noexcept;
  /// Whether this rank is rank 0, which by convention prints results and saves checkpoints. Local.
  [[nodiscard]] bool is_chief() const noexcept;
  /// The communicator of the strategy's collectives. A program may use the communicator for its own collectives, in the
  /// same order on all ranks and outside of step functions.
  [[nodiscard]] const Communicator& communicator() const noexcept;
  /// Counters of this rank since the construction of the strategy. Local.
  [[nodiscard]] const StrategyStatistics& statistics() const noexcept;
  [[nodiscard]] StrategyExtended& extended() noexcept { return extended_; }
  /// The ranks as a cluster of tasks, in tf.distribute's terms; null for strategies of one process. Local. The pointer
  /// is valid while the strategy exists.
  [[nodiscard]] const ClusterResolver* cluster_resolver() const noexcept { return do_cluster_resolver(); }

  /// Makes this strategy current on this thread while the result exists. Local.
  /// Throws Error(failed_precondition) inside the scope of another strategy, and in a step function.
  Scope scope();

  /// `run(fn, args...)` and `run(fn, args..., RunOptions{...})` call `fn(replica, args...)` or `fn(args...)` once on
  /// every local replica. The options are not an argument of `fn`. Local; Collective if `fn` calls a collective.
  ///
  /// Threads: the first replica runs on this thread, and every other replica on a separate thread. All replicas run at
  /// the same time unless the options say otherwise, so `fn` must be safe for concurrent calls.
  /// Arguments: each argument is a tree. In place of a PerReplica or Mirrored leaf, a replica gets its component of the
  /// leaf. A tree with PerReplica or Mirrored leaves is passed as a tree of the components and of copies of all other
  /// leaves; an aggregate with such leaves becomes the tuple of its members. All other arguments, including variables,
  /// are passed by reference. In place of tf.distribute's arguments by name, pass an aggregate, or capture the values.
  /// A function that cannot take these arguments does not compile. A PerReplica argument must have one component for
  /// each replica of this rank; a Mirrored argument must have the same number of copies, or one copy. If an argument
  /// breaks this rule, this rank throws Error(invalid_argument), which names the argument and both numbers; the other
  /// ranks get an error as if `fn` had thrown.
  /// Result: a tree. Each leaf T that the replicas return becomes PerReplica<T>, even if all values are equal; a leaf
  /// that is a variable remains that variable. An aggregate A with tree_members becomes PerReplica<A>, in which the
  /// members keep their names: `metrics.component(0).loss`. If `fn` returns void, run returns void. If a replica
  /// computes on a CPU, the tensors in host memory that it returns are on its device, such as cpu:1.
  /// Failure: if `fn` throws on a replica, the other local replicas end at their next collective. When all local
  /// replicas have ended, run rethrows the first exception. At their next collective, the other ranks get
  /// Error(unavailable) with the text of the exception. The strategy remains usable. Throws Error(failed_precondition)
  /// in a step function, but not inside merge_call.
  template <class F, class... Args>
    requires(!std::same_as<std::remove_cvref_t<F>, RunOptions>)
  auto run(F&& fn, Args&&... args) {
    return detail::with_run_options(
        [this, &fn](const RunOptions& options, auto&... rest) {
          return run_checked(detail::MergeOfResults{own_replicas()}, options, fn, rest...);
        },
        args...);
  }
  template <class F, class... Args>
  [[deprecated("use run(fn, args..., options)")]] auto run(const RunOptions& options, F&& fn, Args&&... args) {
    return run_checked(detail::MergeOfResults{own_replicas()}, options, fn, args...);
  }

  /// Older name of `run`.
  template <class F, class... Args>
    requires(!std::same_as<std::remove_cvref_t<F>, RunOptions>)
  auto experimental_run_v2(F&& fn, Args&&... args) {
    return run(std::forward<F>(fn), std::forward<Args>(args)...);
  }

  /// Reduces each PerReplica leaf of `value` over all replicas, all dense leaves in one collective. All ranks get the
  /// same result. Collective, also if `value` is a list without elements.
  ///
  /// Leaves: `value` is a PerReplica, or a tree of such values to any depth, such as a list of the losses of several
  /// models. The components may be trees, too. The result has the structure of `value`, and in it of the components:
  /// PerReplica<std::tuple<float, Tensor>> gives a std::tuple<float, Tensor>, and PerReplica<Metrics> of an aggregate
  /// with tree_members gives Metrics. The keys of maps and the lengths of lists must be equal on all ranks.
  /// Result: the result is in host memory, even for values on GPUs; StrategyExtended::reduce_to puts results on
  /// devices. A float gives a float, a vector or a span gives a vector, a Tensor gives a Tensor; IndexedSlices give the
  /// rows of all replicas, concatenated in the order of replica ids. The mean of integers is f64: a Tensor gives a
  /// Tensor of f64; for typed integers the caller names the type of the result, as in `reduce<double>("MEAN", ids)`.
  /// The named type, a number, a vector or Tensor, is the type of all leaves. A leaf is reduced in its own type; the
  /// result is then converted, and a vector has the elements of a Tensor in row-major order. The conversion throws
  /// Error(invalid_argument) unless the named type holds all its values.
  /// A value other than a PerReplica is one value. With one replica in all, this value is returned. With several ranks
  /// of one replica each, a plain value (neither a PerReplica nor a Mirrored nor a variable) counts once per rank. In
  /// all other cases, mean, min, max, band and bor return this value, while sum, prod and bxor throw
  /// Error(invalid_argument). Exception: a variable of this strategy that is synchronized on read has a value on each
  /// replica; `op` reduces these values, and the variable's aggregation has no effect.
  /// Failure: Error(invalid_argument) if components of this rank differ in dtype or shape, or if a PerReplica was made
  /// for other replicas than the replicas of this rank; Error(mismatch) if dtypes, shapes or structures differ between
  /// ranks.
  template <class Result = void, class Tree>
  [[nodiscard]] auto reduce(const ReduceOpArgument& op, const Tree& value, std::nullopt_t = std::nullopt,
                            std::source_location where = std::source_location::current()) {
    if constexpr (detail::can_be_result<Result, Tree>())
      return share_lack_of_memory([&] { return reduce_tree<Result>(op, value, where); });
  }

  /// As above, but also reduces along `axes` of the components: one axis, several axes or none; negative axes count
  /// from the end. The extents of the components along `axes` may differ. `op` must be sum or mean. The mean divides by
  /// the number of elements of all replicas: [5, 6] and [7] give 6. Collective, once for all leaves of `value`.
  /// Result: a Tensor gives a Tensor without the reduced axes, a vector gives a number. An empty list of axes is
  /// allowed for Tensors only; for vectors pass std::nullopt. IndexedSlices do not compile.
  /// Failure: as for `reduce(op, value)`; also Error(invalid_argument) if an axis does not exist or is named twice, and
  /// Error(mismatch) if the axes differ between ranks. The axes -1 and 1 of a matrix are equal.
  template <class Result = void, class Tree>
  [[nodiscard]] auto reduce(const ReduceOpArgument& op, const Tree& value, const Axes& axes,
                            std::source_location where = std::source_location::current()) {
    if constexpr (detail::can_be_reduced_along<Tree>() && detail::can_be_result<Result, Tree>())
      return share_lack_of_memory([&] { return reduce_tree_along<Result>(op, value, axes, where); });
  }

  /// Concatenates the components of all replicas along `axis`, in the order of replica ids, for each PerReplica leaf of
  /// `value`, and for each tensor of a component that is a tree, in one batch. The result is equal on all ranks.
  /// Collective. In a step function use ReplicaContext::all_gather. The extents along `axis` may differ. A negative
  /// `axis` counts from the end. Tensors give a Tensor in host memory, vectors give a vector. A value other than a
  /// PerReplica is not gathered: the result is the value itself (for a variable, the Tensor that `read` returns).
  /// Therefore a plain value counts once. (In `reduce`, it counts once per rank if each rank has one replica.)
  /// tf.distribute gathers a plain value from each worker, but in lockstep the type of a result cannot depend on the
  /// layout. To gather such values, make a PerReplica. Failure: Error(invalid_argument) if a leaf does not have `axis`,
  /// if a leaf is a scalar, or if dtypes or other extents differ; Error(unimplemented) for IndexedSlices. These errors
  /// are the same on all ranks. Error(invalid_argument) on this rank, and Error(unavailable) on the other ranks, if a
  /// PerReplica was made for other replicas than the replicas of this rank.
  template <class Tree>
  [[nodiscard]] auto gather(const Tree& value, int axis, std::source_location where = std::source_location::current()) {
    if constexpr (detail::can_be_reduced<Tree, detail::is_not_gatherable>())
      return share_lack_of_memory([&] { return gather_tree(value, axis, where); });
  }

  /// A few lines of text: the name of the strategy, with the number by which errors distinguish strategies; ranks and
  /// replicas; the devices of this rank; the reducer, which is the CrossDeviceOps, and the reason for its choice; the
  /// data path. If GPUs were requested but are not used, the text contains the reason. Local.
  [[nodiscard]] std::string describe() const;

  /// Returns this rank's components of `value`, in the order of replicas. For a PerReplica value, a Mirrored value or a
  /// variable, these are its components. For a tree with such leaves, the result has one tree per replica, in which
  /// each of these leaves is replaced by its component, and all other leaves are copied. Any other value is the only
  /// element of the result. Local. Throws Error(invalid_argument) if a value was made for other replicas than the
  /// replicas of this rank.
  template <class Tree>
  [[nodiscard]] auto experimental_local_results(const Tree& value) const {
    return detail::local_results(value, own_replicas());
  }

  /// Creates a variable with one copy on each local device; see Variable. The initial value is equal on all ranks.
  /// Collective. `initial` is a number, a vector, an array, a Tensor, the value of another variable, or a function
  /// without arguments that returns such a value. A function is called once per rank, and the value of rank 0 is sent
  /// to all ranks. In a step function all replicas must call `variable`, in the same order and with the same
  /// canonical_name; all replicas get the same variable. Its initial value is the value of the first replica; if
  /// `initial` is a function, only the function of the first replica is called. Failure: Error(invalid_argument) for
  /// elements of another type than T, for synchronization none, for the aggregation mean of integers, and for the sum
  /// of bool; Error(mismatch) if shapes or options differ between replicas or ranks; Error(failed_precondition) inside
  /// the scope of another strategy, and if names differ between replicas.
  ///
  /// The variable is synchronized on write. Throws Error(invalid_argument) if `options` select on_read.
  template <Element T, class Initial>
  [[nodiscard]] MirroredVariable<T> variable(Initial&& initial, const VariableOptions& options = {}) {
    return MirroredVariable<T>(
        create_typed<T>(std::forward<Initial>(initial), options, VariableSynchronization::on_write));
  }
  /// As above, but the variable is synchronized on read. Throws Error(invalid_argument) if `options` select on_write.
  template <Element T, class Initial>
  [[nodiscard]] SyncOnReadVariable<T> sync_on_read_variable(Initial&& initial, const VariableOptions& options = {}) {
    return SyncOnReadVariable<T>(
        create_typed<T>(std::forward<Initial>(initial), options, VariableSynchronization::on_read));
  }
  /// As above, from a list in braces: `variable<float>({{1, 2}, {3, 4}})` has shape [2, 2].
  template <Element T>
  [[nodiscard]] MirroredVariable<T> variable(const NestedList<T>& initial, const VariableOptions& options = {}) {
    return variable<T>(initial.tensor(), options);
  }
  template <Element T>
  [[nodiscard]] SyncOnReadVariable<T> sync_on_read_variable(const NestedList<T>& initial,
                                                            const VariableOptions& options = {}) {
    return sync_on_read_variable<T>(initial.tensor(), options);
  }
  /// As above, but `options` select the synchronization, and the variable has the dtype of the tensor.
  [[nodiscard]] Variable variable(const Tensor& initial, const VariableOptions& options = {});
  template <detail::MakesTensor Make>
  [[nodiscard]] Variable variable(Make&& initial, const VariableOptions& options = {}) {
    return share_lack_of_memory([&] {
      return detail::with_initializer<float>(std::forward<Make>(initial), [&](const VariableInitializer& initializer) {
        return create_variable(initializer, options, std::nullopt);
      });
    });
  }

  /// Does not compile; exists for the error message only. A variable of a number or a list needs its element type, as
  /// in `variable<float>(1.0F)`.
  template <class NoElementType = void, class Initial>
    requires(std::is_void_v<NoElementType> && !std::convertible_to<Initial &&, const Tensor&> &&
             !detail::MakesTensor<Initial>)
  Variable variable(Initial&&, const VariableOptions& = {}) {
    static_assert(detail::never<Initial>,
                  "variable: name the element type, as in strategy.variable<float>(1.0F), or pass a Tensor");
    return variable(Tensor());
  }

  /// Distributes `dataset`, whose batches are global, that is, equal on all ranks. Replica r of R gets chunk r of each
  /// batch (see SplitPolicy), or the data that another auto_shard_policy selects. See DistributedDataset and
  /// InputOptions. Local; by default, the iteration is Local, too. The result may outlive the strategy. If there is
  /// only one replica in all, elements that are not batches are passed unchanged. Failure: Error(invalid_argument) if
  /// there are several replicas and the dataset has no batches, for options out of range, and for a policy that does
  /// not fit the layout or the dataset; Error(unimplemented) for the replication mode per_replica.
  template <ElementTree T>
  [[nodiscard]] DistributedDataset<T> experimental_distribute_dataset(const Dataset<T>& dataset,
                                                                      const InputOptions& options = {}) {
    check_cross_replica("experimental_distribute_dataset");
    return input::distribute(
        dataset,
        InputLayout{communicator().layout(), communicator().rank(), communicator(), devices_for_batches(options)},
        options);
  }

  /// Calls `fn(InputContext)` once on this rank. `fn` returns a dataset of per-replica batches for this rank; in each
  /// step every local replica gets the next element. If `options` select the replication mode per_replica, `fn` is
  /// called once per replica, and returns the dataset of the replica. See DistributedDataset. The beginning of each
  /// pass is Collective. Failure: rethrows exceptions of `fn`; Error(invalid_argument) for options that are out of
  /// range or exclude each other; Error(unimplemented) for per_replica in a strategy other than MirroredStrategy.
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

  /// Returns one value for each local replica. Calls `fn(ValueContext)` for each replica on this thread, in the order
  /// of replica ids, and merges the results as `run` does: each leaf becomes a PerReplica, even with one replica, and
  /// even if all values are equal. (tf.distribute's OneDeviceStrategy and default strategy return the bare value. In
  /// lockstep the type of the result cannot depend on the strategy; `value()` gives the bare value.) Local. Allowed in
  /// any context.
  template <std::invocable<const ValueContext&> Fn>
  [[nodiscard]] auto experimental_distribute_values_from_function(Fn&& fn) const {
    using Value = std::decay_t<std::invoke_result_t<Fn&, const ValueContext&>>;
    detail::ReplicaResults<Value> values(local_replicas());
    for (int i = 0; i < local_replicas(); ++i) {
      values[i].emplace(detail::invoke(fn, ValueContext{first_replica() + i, num_replicas_in_sync()}));
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

  /// The next three functions are annotations for strategies whose replicas have several logical devices each. In
  /// lockstep, each replica has one logical device, so the functions check their other arguments and return `tensor`.
  /// Local. Allowed in any context. This function throws Error(invalid_argument) if `logical_device_id` is not 0.
  template <TensorLike T>
  [[nodiscard]] std::decay_t<T> experimental_assign_to_logical_device(T&& tensor, int logical_device_id) const {
    detail::check_logical_device(logical_device_id);
    return std::forward<T>(tensor);
  }
  /// partition_dimensions[d] is the number of parts into which axis d would be split. Throws Error(invalid_argument)
  /// unless there is one number for each axis, each number divides the extent of its axis, and the product of the
  /// numbers is 1, the number of logical devices.
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
  friend class OneDeviceStrategy;
  friend class StrategyExtended;
  friend class detail::UpdateScope;
  friend struct StrategyAccess;  // for the library itself

  template <class Task>
  static ReplicaTask borrow(Task& task) {
    return {&task, [](void* object, ReplicaContext& replica) { (*static_cast<Task*>(object))(replica); }};
  }
  template <class Merge, class F, class... Args>
  auto run_checked(const Merge& merge, const RunOptions& options, F& fn, Args&... args) {
    constexpr bool takes_replica =
        std::is_invocable_v<F&, ReplicaContext&, decltype(detail::argument_part(args, 0))...>;
    constexpr bool takes_arguments = std::is_invocable_v<F&, decltype(detail::argument_part(args, 0))...>;
    static_assert(takes_replica || takes_arguments,
                  "run: the function must be callable as fn(ReplicaContext&, args...) or as fn(args...), with the args "
                  "of this call, one by one; PerReplica and Mirrored ones come as one component");
    if constexpr (takes_replica || takes_arguments) return run_on_replicas<takes_replica>(merge, options, fn, args...);
  }
  template <bool takes_replica, class Merge, class F, class... Args>
  auto run_on_replicas([[maybe_unused]] const Merge& merge, const RunOptions& options, F& fn, Args&... args) {
    const auto call = [&](ReplicaContext& replica) -> decltype(auto) {
      const int local = replica.local_replica();
      detail::check_arguments("run", own_replicas(), args...);  // in the step, which propagates errors to other ranks
      replica.set_has_data((detail::has_rows(args, local) && ...));
      if constexpr (takes_replica) {
        return detail::invoke(fn, replica, detail::argument_part(args, local)...);
      } else {
        return detail::invoke(fn, detail::argument_part(args, local)...);
      }
    };
    using Result = std::decay_t<std::invoke_result_t<decltype(call)&, ReplicaContext&>>;
    if constexpr (std::is_void_v<Result>) {
      auto task = [&](ReplicaContext& replica) { call(replica); };
      run_task(borrow(task), options);
    } else {
      detail::ReplicaResults<Result> results(local_replicas());
      auto task = [&](ReplicaContext& replica) {
        Result& result = results[replica.local_replica()].emplace(call(replica));
        detail::set_cpu_of_leaves(result, replica.devices().front());
      };
      run_task(borrow(task), options);
      return merge(results);
    }
  }
  void run_task(ReplicaTask task, const RunOptions& options);

  /// Calls `call`, a collective call. If this rank has no memory for it, the other ranks, which wait for this rank,
  /// throw Error(unavailable).
  template <class Call>
  auto share_lack_of_memory(const Call& call) {
    return detail::propagate_lack_of_memory(communicator(), call);
  }

  template <class Result, class Tree>
  auto reduce_tree(const ReduceOpArgument& op, const Tree& value, const std::source_location& where) {
    LeafList leaves = begin_reduction("reduce", op);
    detail::add_structure(value, leaves);
    detail::add_result_type<Result>(leaves);
    auto cells = detail::propagate(communicator(), [&] {
      return map_leaves(value, [&](const auto& leaf) { return detail::start_results<Result>(leaf, leaves); });
    });
    detail::add_outputs(cells, leaves);
    run_reduction("reduce", leaves, {.where = where});
    return detail::propagate(communicator(), [&] {
      return map_leaves(cells, [&](auto& cell) { return detail::final_result(std::move(cell.value), leaves.op()); });
    });
  }
  template <class Result, class Tree>
  auto reduce_tree_along(const ReduceOpArgument& op, const Tree& value, const Axes& axes,
                         const std::source_location& where) {
    if constexpr (detail::only_tensors<Tree> && std::is_void_v<Result>) {
      if (axes.empty()) return reduce_tree<void>(op, value, where);
    }
    LeafList leaves = begin_reduction("reduce", op);
    detail::add_structure(value, leaves);
    detail::add_result_type<Result>(leaves);
    detail::propagate(communicator(),
                      [&] { for_each_leaf(value, [&](const auto& leaf) { detail::add_axis_leaf(leaf, leaves); }); });
    const std::vector<Tensor> totals = reduce_axes(leaves, axes, {.where = where});
    std::size_t k = 0;
    const auto total = [&]() -> const Tensor& { return totals[k++]; };
    return detail::propagate(communicator(), [&] {
      return map_leaves(value, [&](const auto& leaf) { return detail::axis_result<Result>(leaf, leaves.op(), total); });
    });
  }
  template <class Tree>
  auto gather_tree(const Tree& value, int axis, const std::source_location& where) {
    LeafList leaves = begin_gather();
    detail::add_structure(value, leaves);
    detail::propagate(communicator(), [&] {
      for_each_leaf(value, [&]<class Leaf>(const Leaf& leaf) {
        if constexpr (detail::is_gathered<Leaf>) detail::add_gathered_leaf(leaf, leaves);
      });
    });
    const std::vector<Tensor> results = gather_leaves(leaves, axis, {.where = where});
    std::size_t k = 0;
    return map_leaves(value, [&](const auto& leaf) {
      return detail::gather_result(leaf, [&]() -> const Tensor& { return results[k++]; });
    });
  }

  /// Returns an empty list for the operation of `op`. Throws Error(failed_precondition) unless in cross-replica
  /// context. Errors of `op` are propagated to the other ranks.
  LeafList begin_reduction(std::string_view call, const ReduceOpArgument& op);
  void run_reduction(std::string_view call, const LeafList& leaves, const CommunicationOptions& options);
  /// Adds the axes to the arguments of `leaves`.
  [[nodiscard]] std::vector<Tensor> reduce_axes(LeafList& leaves, const Axes& axes,
                                                const CommunicationOptions& options);
  /// Returns an empty list. Throws Error(failed_precondition) unless in cross-replica context.
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
    return share_lack_of_memory([&] {
      return detail::with_initializer<T>(std::forward<Initial>(initial), [&](const VariableInitializer& initializer) {
        return create_variable(initializer, with_synchronization(options, synchronization), dtype_of<T>);
      });
    });
  }
  /// `options` with `synchronization`. Throws Error(invalid_argument) if `options` select the opposite synchronization.
  [[nodiscard]] VariableOptions with_synchronization(VariableOptions options,
                                                     VariableSynchronization synchronization) const;
  /// If `dtype` is set, throws Error(invalid_argument) unless the elements of the initial value have this type.
  [[nodiscard]] Variable create_variable(const VariableInitializer& initial, const VariableOptions& options,
                                         std::optional<DType> dtype);

  std::shared_ptr<ReplicaTeam> team_;
  std::shared_ptr<CrossDeviceOps> ops_;
  bool ops_are_given_ = false;  // whether the user passed ops_
  CommunicationOptions communication_options_;
  std::shared_ptr<MemoryResource> result_memory_;  // memory for results of reductions
  StrategyExtended extended_;
};

template <class F, class... Args>
auto StrategyExtended::call_for_each_replica(F&& fn, Args&&... args) {
  return strategy_.run(std::forward<F>(fn), std::forward<Args>(args)...);
}

}  // namespace lockstep

// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The replica, as its step function sees it.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/base/function.hpp>
#include <lockstep/collectives/communication_options.hpp>
#include <lockstep/core/device.hpp>
#include <lockstep/core/reduce_op.hpp>
#include <lockstep/core/reduce_op_argument.hpp>
#include <lockstep/core/tensor_view.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/values/detail/local_replicas.hpp>
#include <lockstep/values/detail/reduced.hpp>
#include <lockstep/values/detail/set_cpu.hpp>
#include <lockstep/values/detail/structure.hpp>
#include <lockstep/values/indexed_slices.hpp>
#include <lockstep/values/merge.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

namespace lockstep {

class ReplicaContext;
class Step;
class Strategy;
struct StepAccess;

namespace detail {

/// The arguments of one replica in a merge_call, and the location where its part of the result is written.
struct MergePart {
  const std::type_info* type = nullptr;  // type of the arguments and the result; compared between replicas before use
  void* arguments = nullptr;
  void* result = nullptr;
};

/// A reference to a callable. The first local replica calls it once, with the MergeParts of all local replicas.
struct MergeFunction {
  void* object = nullptr;
  void (*call)(void* object, std::span<const MergePart> parts, Strategy& strategy) = nullptr;
};

/// The constructor saves the context of this thread, and the destructor restores it.
class LOCKSTEP_API SavedContext {
 public:
  SavedContext() noexcept;
  SavedContext(const SavedContext&) = delete;
  SavedContext& operator=(const SavedContext&) = delete;
  ~SavedContext();

 private:
  alignas(void*) std::array<std::byte, 6 * sizeof(void*)> bytes_;  // inline, because updates must not allocate
};

/// The constructor makes the GPU `device` the current CUDA device of this thread, and the destructor restores the
/// previous device. No effect if `device` is a CPU. Throws Error(unavailable) with CUDA's text on failure.
class LOCKSTEP_API CurrentGpu {
 public:
  explicit CurrentGpu(Device device);
  CurrentGpu(const CurrentGpu&) = delete;
  CurrentGpu& operator=(const CurrentGpu&) = delete;
  ~CurrentGpu();

 private:
  int before_ = -1;  // -1: the current device was not replaced
};

/// Puts this thread in update context, for the component of `replica` only. The destructor restores the former context.
class LOCKSTEP_API ReplicaUpdate {
 public:
  explicit ReplicaUpdate(const ReplicaContext& replica);

 private:
  SavedContext saved_;
};

}  // namespace detail

/// The replica that a step function computes. `run` creates the object and passes it to the step function; it is valid
/// until the step function returns.
///
/// All replicas of the strategy, on all ranks, must make the calls marked "All replicas" in the same order. In such a
/// call, the local replicas wait for each other; then the first local replica (the thread that called `run`) does the
/// work for this rank. If a replica omits a call, no replica hangs, and all replicas get an error. The error is
/// Error(failed_precondition) as soon as that replica returns from the step function or makes another kind of call. If
/// neither happens before the communicator's timeout, the error is Error(deadline_exceeded).
/// Thread-safety: only the thread of the replica. These calls throw Error(failed_precondition) outside of `run`, in the
/// step function of another replica ("mismatching ReplicaContext"), and in a step of another strategy ("mismatching
/// Strategy").
class LOCKSTEP_API ReplicaContext {
 public:
  ReplicaContext(const ReplicaContext&) = delete;
  ReplicaContext& operator=(const ReplicaContext&) = delete;

  /// The global id of this replica, 0 <= id < num_replicas_in_sync(). Local.
  [[nodiscard]] int replica_id_in_sync_group() const noexcept { return replica_; }
  [[nodiscard]] int num_replicas_in_sync() const noexcept { return replicas_; }
  /// The number of this replica among the replicas of its rank, from 0. Local.
  [[nodiscard]] int local_replica() const noexcept { return local_; }
  /// False if a dataset had no rows for this replica in this step: an argument of `run` has a PerReplica leaf, and no
  /// tensor in the leaf's component for this replica has rows. The replica must still make all collective calls. Local.
  [[nodiscard]] bool has_data() const noexcept { return has_data_; }
  /// The device of this replica. If it is a GPU, it is the current CUDA device of the thread during the step. Local.
  [[nodiscard]] std::span<const Device> devices() const noexcept { return {&device_, 1}; }
  /// The stream of this replica's GPU (a cudaStream_t); null on a CPU. The stream orders lockstep's operations on the
  /// tensors of this replica. So kernels that the program launches on this stream need no further synchronization with
  /// earlier and later collectives. The program must not destroy the stream. Local. Any thread. Throws
  /// Error(unavailable) if CUDA cannot create the stream.
  [[nodiscard]] void* stream() const;
  [[nodiscard]] Strategy& strategy() const;

  /// Reduces each leaf of `tree` over all replicas, and returns the tree of the results. All leaves are items of one
  /// collective. All replicas.
  ///
  /// Result:
  ///   - If all leaves refer to elements (std::span, TensorView), they are reduced in place, and `tree` itself is
  ///     returned. Then repeated steps allocate no memory.
  ///   - If the leaves own their elements, the results are new values of the same types. A Tensor on a GPU gives a
  ///     Tensor on the same GPU; a Tensor in host memory gives a Tensor on the replica's device if this is a CPU, and
  ///     otherwise a Tensor in host memory.
  ///   - The mean of integers has dtype f64. A Tensor leaf gives a Tensor of f64; a leaf with an integer type in C++
  ///     throws Error(invalid_argument).
  ///   - An IndexedSlices leaf gives the rows of all replicas, concatenated in the order of replica ids. A mean divides
  ///     the rows by the number of replicas. Other ops are not permitted.
  /// If a leaf is on GPUs on some replicas and in host memory on others, it is reduced in host memory. Members of
  /// `options` that do not have their defaults override the options of the strategy. If op, the number of leaves, a
  /// dtype or a shape differs between replicas, all replicas throw Error(mismatch), which names two replicas or
  /// ranks that differ.
  template <class Tree>
    requires(!std::convertible_to<Tree &&, std::span<const TensorView>>)
  decltype(auto) all_reduce(const ReduceOpArgument& op, Tree&& tree, const CommunicationOptions& options = {}) {
    if constexpr (detail::can_be_reduced<Tree, detail::is_not_tensor>()) {
      return all_reduce_tree(op, std::forward<Tree>(tree), options);
    }
  }

  /// As above, for a list of views, such as gradients. Reduces the elements in place and returns `views`.
  std::span<const TensorView> all_reduce(const ReduceOpArgument& op, std::span<const TensorView> views,
                                         const CommunicationOptions& options = {});

  /// Concatenates each leaf of `tree` over all replicas along `axis`, in the order of replica ids, and returns the tree
  /// of the results. All leaves are gathered in one batch. All replicas.
  /// A negative `axis` counts from the end. The extents along `axis` may differ between replicas; all other extents and
  /// the dtypes must be equal. A Tensor gives a Tensor on the device that all_reduce gives; a vector, array or span
  /// gives a vector. All replicas throw the same error: Error(invalid_argument) if a leaf is a scalar or does not have
  /// the axis, or if the other extents or the dtypes differ; Error(unimplemented) for IndexedSlices. Cost: with several
  /// ranks, an additional small all_gather of the shapes.
  template <class Tree>
  [[nodiscard]] auto all_gather(const Tree& tree, int axis, const CommunicationOptions& options = {}) {
    begin("all_gather", tree);
    for_each_leaf(tree, [this](const auto& leaf) { this->add_input(leaf); });
    if (has_sparse_inputs()) detail::throw_sparse_not_gathered("all_gather");
    const std::vector<Tensor> results = gather_views(axis, options);
    std::size_t k = 0;
    return map_leaves(tree, [&]<class Leaf>(const Leaf&) { return detail::gathered_leaf<Leaf>(results[k++]); });
  }

  /// Returns the values of replica `root` on every replica. As in all_reduce, the values are written in place if all
  /// leaves refer to elements. All replicas. If the root, the structure, a dtype or a shape differs between replicas,
  /// all replicas throw Error(mismatch). Throws Error(invalid_argument) if `root` is not the id of a replica.
  template <class Tree>
  decltype(auto) broadcast(Tree&& tree, int root = 0, std::source_location where = std::source_location::current()) {
    using Plain = std::remove_cvref_t<Tree>;
    begin("broadcast", tree);
    if constexpr (detail::refers_everywhere<Plain>) {
      add_leaves(tree, tree);
      broadcast_views(root, {.where = where});
      return static_cast<std::conditional_t<std::is_lvalue_reference_v<Tree>, Tree, Plain>>(tree);
    } else {
      static_assert(!detail::any_leaf<Plain, detail::is_sparse>::value, "broadcast: a leaf is IndexedSlices");
      Plain result =
          map_leaves(std::as_const(tree), [](const auto& leaf) { return detail::result_like(leaf, ReduceOp::max); });
      add_leaves(std::as_const(tree), result);
      broadcast_views(root, {.where = where});
      detail::set_cpu_of_leaves(result, device_);
      return result;
    }
  }

  /// Waits until all local replicas have called merge_call, and then calls `fn(strategy, merged...)` once, in
  /// cross-replica context. Returns to each replica its part of the result: for a PerReplica or Mirrored leaf, the
  /// component of the replica; for any other leaf, a copy. If the result has a PerReplica leaf that was made for other
  /// replicas than those of this rank, throws Error(invalid_argument).
  /// All replicas of this rank must make this call. The ranks are synchronized only if `fn` calls collectives. The
  /// arguments of the replicas are merged as `run` merges results: an int becomes PerReplica<int>, but a variable
  /// remains that variable. The `fn` that is called, with its captures, is that of the first local replica. An
  /// exception of `fn` ends the step on all local replicas.
  /// If the replicas of one rank make different numbers of merge_call calls, all of them throw
  /// Error(failed_precondition) at once. If ranks make different numbers, the next collective of the strategy, in a
  /// merge or elsewhere, throws Error(mismatch), which names both numbers. If the other ranks never make another
  /// collective, this rank's next collective throws Error(deadline_exceeded).
  template <class F, class... Args>
  auto merge_call(F&& fn, Args&&... args) {
    constexpr bool callable = std::is_invocable_v<F&, Strategy&, merged_t<std::decay_t<Args>>...>;
    static_assert(callable,
                  "merge_call: the function must be callable as fn(Strategy&, merged...), where the arguments of this "
                  "call come merged: an int as PerReplica<int>, a variable as itself");
    if constexpr (callable) return merge_arguments(fn, std::tuple<std::decay_t<Args>...>(std::forward<Args>(args)...));
  }

  /// Calls `fn(variable, args...)` in update context, in which calls on a variable read and write this replica's copy
  /// only: `v.assign(a)`, `v.value()`, and `v.updatable_component()`, which gives the elements. The other copies are
  /// not changed. Several replicas may call update at the same time. Local. The caller must ensure that all replicas
  /// make the same update with equal arguments, for example with the results of an all_reduce; otherwise the copies
  /// diverge. Collectives of this replica in `fn` throw Error(failed_precondition).
  template <class VariableType, class F, class... Args>
  auto update(const VariableType& variable, F&& fn, Args&&... args) {
    constexpr bool callable = std::is_invocable_v<F, const VariableType&, Args...>;
    static_assert(
        callable,
        "update: the function must be callable as fn(variable, args...), where variable is the const variable "
        "of this call");
    const detail::ReplicaUpdate context(*this);
    if constexpr (callable) return detail::invoke(std::forward<F>(fn), variable, std::forward<Args>(args)...);
  }
  template <class VariableType, class F, class... Args>
    requires(!std::is_invocable_v<F, const VariableType&, Args...> &&
             std::is_invocable_v<F, decltype(std::declval<const VariableType&>().updatable_component()), Args...>)
  [[deprecated(
      "use update(variable, fn) with fn(variable, args...), which gets the variable instead of the elements of "
      "its copy; v.updatable_component() gives these elements")]] auto
  update(const VariableType& variable, F&& fn, Args&&... args) {
    const detail::ReplicaUpdate context(*this);
    return detail::invoke(std::forward<F>(fn), variable.updatable_component(), std::forward<Args>(args)...);
  }

 private:
  friend class Step;
  friend class Strategy;
  friend struct StepAccess;  // for the library itself
  ReplicaContext(Step& step, int local);

  template <class Tree>
  decltype(auto) all_reduce_tree(const ReduceOpArgument& op, Tree&& tree, const CommunicationOptions& options) {
    using Plain = std::remove_cvref_t<Tree>;
    begin("all_reduce", tree);
    const ReduceOp checked = op.op("all_reduce");
    if constexpr (detail::refers_everywhere<Plain>) {
      add_leaves(tree, tree);
      all_reduce_views(checked, options);
      return static_cast<std::conditional_t<std::is_lvalue_reference_v<Tree>, Tree, Plain>>(tree);
    } else {
      Plain result =
          map_leaves(std::as_const(tree), [checked](const auto& leaf) { return detail::result_like(leaf, checked); });
      add_leaves(std::as_const(tree), result);
      detail::any_leaf<Plain, detail::is_sparse>::value ? all_reduce_mixed(checked, options)
                                                        : all_reduce_views(checked, options);
      detail::set_cpu_of_leaves(result, device_);
      return result;
    }
  }
  template <class F, class... Args>
  auto merge_arguments(F& fn, std::tuple<Args...> arguments) {
    using Arguments = std::tuple<Args...>;
    detail::set_cpu_of_leaves(arguments, device_);
    using Merged = std::invoke_result_t<F&, Strategy&, merged_t<Args>...>;
    if constexpr (std::is_void_v<Merged>) {
      auto call = [&](std::span<const detail::MergePart> parts, Strategy& strategy) {
        call_merged<Arguments>(fn, parts, strategy, std::index_sequence_for<Args...>{});
      };
      merge({&typeid(Arguments), &arguments, nullptr}, borrow(call));
    } else {
      using Part = decltype(local_part(std::declval<const Merged&>(), 0));
      std::optional<Part> part;
      auto call = [&](std::span<const detail::MergePart> parts, Strategy& strategy) {
        const Merged merged = call_merged<Arguments>(fn, parts, strategy, std::index_sequence_for<Args...>{});
        detail::check_replicas(merged, {static_cast<int>(parts.size()), replica_}, {"merge_call", "the result"});
        for (std::size_t i = 0; i < parts.size(); ++i) {
          static_cast<std::optional<Part>*>(parts[i].result)->emplace(local_part(merged, static_cast<int>(i)));
        }
      };
      merge({&typeid(std::pair<Arguments, Part>), &arguments, &part}, borrow(call));
      return std::move(*part);
    }
  }
  template <class Arguments, class F, std::size_t... k>
  decltype(auto) call_merged(F& fn, std::span<const detail::MergePart> parts, Strategy& strategy,
                             std::index_sequence<k...>) {
    return detail::invoke(
        fn, strategy,
        detail::merge_trees<std::tuple_element_t<k, Arguments>>(
            static_cast<int>(parts.size()), replica_, [&parts](int i) -> std::tuple_element_t<k, Arguments>& {
              return std::get<k>(*static_cast<Arguments*>(parts[static_cast<std::size_t>(i)].arguments));
            })...);
  }
  template <class Call>
  static detail::MergeFunction borrow(Call& call) {
    return {&call, [](void* object, std::span<const detail::MergePart> parts, Strategy& strategy) {
              (*static_cast<Call*>(object))(parts, strategy);
            }};
  }

  template <class Leaf>
  void add_input(const Leaf& leaf) {
    static_cast<void>(detail::can_be_reduced<Leaf, detail::is_not_tensor>());
    add_view(tensor_traits<Leaf>::view(leaf));
  }
  void add_input(const IndexedSlices& leaf);
  template <class Leaf>
  void add_output(Leaf& leaf) {
    add_output_view(tensor_traits<std::remove_const_t<Leaf>>::view(leaf));
  }
  void add_output(IndexedSlices& leaf);
  void add_view(const ConstTensorView& view);
  void add_output_view(const TensorView& view);
  template <class Tree, class ResultTree>
  void add_leaves(Tree& tree, ResultTree& result) {
    for_each_leaf(tree, [this](auto& leaf) { this->add_input(leaf); });
    for_each_leaf(result, [this](auto& leaf) { this->add_output(leaf); });
  }
  void set_has_data(bool has_data) noexcept { has_data_ = has_data; }
  [[nodiscard]] bool has_sparse_inputs() const noexcept;
  void begin(std::string_view call);  // checks the caller, clears the views of the previous call
  template <class Tree>
  void begin(std::string_view call, const Tree& tree) {
    begin(call);
    structure_ = detail::structure_of(tree);
  }
  // The next four functions read inputs_ and sparse_inputs_. All of them except gather_views write outputs_ and
  // sparse_outputs_.
  void all_reduce_views(ReduceOp op, const CommunicationOptions& options);
  void all_reduce_mixed(ReduceOp op, const CommunicationOptions& options);
  void broadcast_views(int root, const CommunicationOptions& options);
  std::vector<Tensor> gather_views(int axis, const CommunicationOptions& options);
  void merge(detail::MergePart part, detail::MergeFunction function);

  Step& step_;
  int local_;
  int replica_;
  int replicas_;
  Device device_;
  bool has_data_ = true;
  // kept between calls, so that repeated steps allocate no memory
  std::vector<ConstTensorView> inputs_;
  std::vector<TensorView> outputs_;
  std::vector<const IndexedSlices*> sparse_inputs_;
  std::vector<IndexedSlices*> sparse_outputs_;
  std::string structure_;  // of the tree of the call; see detail::structure_of
};

}  // namespace lockstep

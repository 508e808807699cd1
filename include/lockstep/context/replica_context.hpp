// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The interface of a replica to its step function.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/collectives/communication_options.hpp>
#include <lockstep/core/device.hpp>
#include <lockstep/core/reduce_op.hpp>
#include <lockstep/core/reduce_op_argument.hpp>
#include <lockstep/core/tensor_view.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/values/detail/local_replicas.hpp>
#include <lockstep/values/detail/reduced.hpp>
#include <lockstep/values/indexed_slices.hpp>
#include <lockstep/values/merge.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <functional>
#include <optional>
#include <source_location>
#include <span>
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

/// One replica's side of a merge_call: its arguments, and the place of its part of the result.
struct MergePart {
  const std::type_info* type = nullptr;  // type of arguments and result, compared before they are used
  void* arguments = nullptr;
  void* result = nullptr;
};

/// A borrowed callable, run once by the first local replica with the parts of all.
struct MergeFunction {
  void* object = nullptr;
  void (*call)(void* object, std::span<const MergePart> parts, Strategy& strategy) = nullptr;
};

/// Saves this thread's context and restores it in its destructor.
class LOCKSTEP_API SavedContext {
 public:
  SavedContext() noexcept;
  SavedContext(const SavedContext&) = delete;
  SavedContext& operator=(const SavedContext&) = delete;
  ~SavedContext();

 private:
  alignas(void*) std::array<std::byte, 6 * sizeof(void*)> bytes_;  // no allocation: updates are frequent
};

/// Makes the GPU `device` this thread's current CUDA device, and restores the previous one in its destructor. No effect
/// for a CPU. Throws Error(unavailable) with CUDA's text on failure.
class LOCKSTEP_API CurrentGpu {
 public:
  explicit CurrentGpu(Device device);
  CurrentGpu(const CurrentGpu&) = delete;
  CurrentGpu& operator=(const CurrentGpu&) = delete;
  ~CurrentGpu();

 private:
  int before_ = -1;  // none was replaced
};

/// Sets the update context of one replica's own component for its lifetime.
class LOCKSTEP_API ReplicaUpdate {
 public:
  explicit ReplicaUpdate(const ReplicaContext& replica);

 private:
  SavedContext saved_;
};

}  // namespace detail

/// The replica that a step function computes. `run` makes it and passes it to the function; valid until the function
/// returns.
///
/// Every replica of the strategy, on all ranks, makes the calls marked "All replicas" in the same order: the local
/// replicas meet, and the first of them (the thread that called `run`) does the work for this rank. If a replica misses
/// a call, all get an error and none hangs: Error(failed_precondition) as soon as that replica returns from the step or
/// makes another kind of call, Error(deadline_exceeded) after the communicator's deadline.
/// Thread-safety: only the replica's own thread. Elsewhere these calls throw Error(failed_precondition): outside `run`,
/// in another replica ("mismatching ReplicaContext"), in another strategy ("mismatching Strategy").
class LOCKSTEP_API ReplicaContext {
 public:
  ReplicaContext(const ReplicaContext&) = delete;
  ReplicaContext& operator=(const ReplicaContext&) = delete;

  /// The global id, 0 <= id < num_replicas_in_sync(). Local.
  [[nodiscard]] int replica_id_in_sync_group() const noexcept { return replica_; }
  [[nodiscard]] int num_replicas_in_sync() const noexcept { return replicas_; }
  /// The replica's number on this rank, from 0. Local.
  [[nodiscard]] int local_replica() const noexcept { return local_; }
  /// False if a dataset had no rows for this replica in this step: one of the arguments of `run` is a PerReplica value
  /// whose component here consists of tensors without rows. The replica must still make all collective calls. Local.
  [[nodiscard]] bool has_data() const noexcept { return has_data_; }
  /// The device of this replica. In a step a GPU is the thread's current CUDA device. Local.
  [[nodiscard]] std::span<const Device> devices() const noexcept { return {&device_, 1}; }
  /// The stream of this replica's GPU, a cudaStream_t; null on a CPU. lockstep's operations on the replica's tensors
  /// are ordered with it, so kernels that are launched on it need no further synchronization with collectives before
  /// and after them. Must not be destroyed. Local. Any thread. Throws Error(unavailable) if CUDA cannot create it.
  [[nodiscard]] void* stream() const;
  [[nodiscard]] Strategy& strategy() const;

  /// Returns the reduction over all replicas of each leaf of `tree`; the leaves are the items of one collective. All
  /// replicas.
  ///
  /// Result: leaves that own their elements give new values of the same type, a Tensor on a GPU one on that GPU. If all
  /// leaves refer to elements (std::span, TensorView), they are reduced in place and `tree` itself is returned; then a
  /// steady step allocates nothing. The mean of integers is f64: a Tensor leaf gives a Tensor of f64, typed integer
  /// leaves throw Error(invalid_argument). IndexedSlices leaves give the rows of all replicas one after the other, by
  /// id; a mean divides them by the number of replicas. Only sum and mean. A leaf that is on GPUs on some replicas and
  /// in host memory on others is reduced in host memory. Fields of `options` that are not the default override those of
  /// the strategy. Failure: another op, number of leaves, dtype or shape on one replica is Error(mismatch) on all,
  /// which names two.
  template <class Tree>
    requires(!std::convertible_to<Tree &&, std::span<const TensorView>>)
  decltype(auto) all_reduce(const ReduceOpArgument& op, Tree&& tree, const CommunicationOptions& options = {}) {
    if constexpr (detail::can_be_reduced<Tree, detail::is_not_tensor>()) {
      return all_reduce_tree(op, std::forward<Tree>(tree), options);
    }
  }

  /// As above, in place, for a list of views, such as gradients.
  std::span<const TensorView> all_reduce(const ReduceOpArgument& op, std::span<const TensorView> views,
                                         const CommunicationOptions& options = {});

  /// Returns the components of all replicas concatenated along `axis`, by replica id, for each leaf of `tree`, in one
  /// batch. All replicas.
  /// Extents may differ along `axis`, which counts from the end if it is negative; all else of shapes and dtypes is
  /// equal. A Tensor gives a Tensor, on the GPU of this replica's own one; a vector, array or span gives a vector.
  /// Failure, the same on all replicas: Error(invalid_argument) for an axis that a leaf does not have, a scalar, other
  /// extents or dtypes that differ; Error(unimplemented) for IndexedSlices.
  /// Cost: with several ranks one more small all_gather, of the shapes.
  template <class Tree>
  [[nodiscard]] auto all_gather(const Tree& tree, int axis, const CommunicationOptions& options = {}) {
    begin("all_gather");
    for_each_leaf(tree, [this](const auto& leaf) { this->add_input(leaf); });
    if (!sparse_inputs_.empty()) detail::throw_sparse_not_gathered("all_gather");
    const std::vector<Tensor> results = gather_views(axis, options);
    std::size_t k = 0;
    return map_leaves(tree, [&]<class Leaf>(const Leaf&) { return detail::gathered_leaf<Leaf>(results[k++]); });
  }

  /// Returns the values of replica `root` on every replica; as in all_reduce, in place if all leaves refer to elements.
  /// All replicas; a root, structure, dtype or shape that differs is Error(mismatch) on all. Throws
  /// Error(invalid_argument) for a root that is not the id of a replica.
  template <class Tree>
  decltype(auto) broadcast(Tree&& tree, int root = 0, std::source_location where = std::source_location::current()) {
    using Plain = std::remove_cvref_t<Tree>;
    begin("broadcast");
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
      return result;
    }
  }

  /// Calls `fn(strategy, merged...)` once, in cross-replica context, when all local replicas have called this, and
  /// gives each replica its part of the result: the component of a PerReplica or Mirrored leaf, a copy of any other. A
  /// PerReplica that was made for other replicas than those of this rank is Error(invalid_argument).
  /// All replicas of this rank must call it; ranks are synchronized only if `fn` does so. Arguments are merged as `run`
  /// merges results: an int becomes PerReplica<int>, a variable stays a variable. `fn` and its captures are those of
  /// the first local replica. An exception of `fn` ends the step on all local replicas. If replicas of one rank make
  /// different numbers of calls, all throw Error(failed_precondition) at once; if ranks do, the next collective of the
  /// strategy, in a merge or anywhere else, throws Error(mismatch) that names both numbers, or Error(deadline_exceeded)
  /// if the others never make one.
  template <class F, class... Args>
  auto merge_call(F&& fn, Args&&... args) {
    constexpr bool callable = std::is_invocable_v<F&, Strategy&, merged_t<std::decay_t<Args>>...>;
    static_assert(callable,
                  "merge_call: the function must be callable as fn(Strategy&, merged...), where the arguments of this "
                  "call come merged: an int as PerReplica<int>, a variable as itself");
    if constexpr (callable) return merge_arguments(fn, std::tuple<std::decay_t<Args>...>(std::forward<Args>(args)...));
  }

  /// `fn(component, args...)` on this replica's copy of `variable` only, in update context; replicas do it at the same
  /// time. Local. The caller promises that all replicas do the same with equal arguments, as after an all_reduce;
  /// otherwise the copies diverge. `component` is a std::span<T> of a MirroredVariable<T>, a TensorView of a Variable;
  /// for a copy on a GPU only the latter, since a span is of host memory. Collectives are refused inside.
  template <class VariableType, class F, class... Args>
  auto update(const VariableType& variable, F&& fn, Args&&... args) {
    const detail::ReplicaUpdate context(*this);
    return std::invoke(std::forward<F>(fn), variable.updatable_component(), std::forward<Args>(args)...);
  }

 private:
  friend class Step;
  friend class Strategy;
  friend struct StepAccess;  // for the library itself
  ReplicaContext(Step& step, int local);

  template <class Tree>
  decltype(auto) all_reduce_tree(const ReduceOpArgument& op, Tree&& tree, const CommunicationOptions& options) {
    using Plain = std::remove_cvref_t<Tree>;
    begin("all_reduce");
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
      return result;
    }
  }
  template <class F, class... Args>
  auto merge_arguments(F& fn, std::tuple<Args...> arguments) {
    using Arguments = std::tuple<Args...>;
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
    return std::invoke(
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
    inputs_.push_back(tensor_traits<Leaf>::view(leaf));
  }
  void add_input(const IndexedSlices& leaf) { sparse_inputs_.push_back(&leaf); }
  template <class Leaf>
  void add_output(Leaf& leaf) {
    outputs_.push_back(tensor_traits<std::remove_const_t<Leaf>>::view(leaf));
  }
  void add_output(IndexedSlices& leaf) { sparse_outputs_.push_back(&leaf); }
  template <class Tree, class ResultTree>
  void add_leaves(Tree& tree, ResultTree& result) {
    for_each_leaf(tree, [this](auto& leaf) { this->add_input(leaf); });
    for_each_leaf(result, [this](auto& leaf) { this->add_output(leaf); });
  }
  void set_has_data(bool has_data) noexcept { has_data_ = has_data; }
  void begin(std::string_view call);  // checks the caller, forgets the views of the previous call
  // of inputs_ and sparse_inputs_, to outputs_ and sparse_outputs_
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
  // reused by later calls, so that a steady step allocates nothing
  std::vector<ConstTensorView> inputs_;
  std::vector<TensorView> outputs_;
  std::vector<const IndexedSlices*> sparse_inputs_;
  std::vector<IndexedSlices*> sparse_outputs_;
};

}  // namespace lockstep

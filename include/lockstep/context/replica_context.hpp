// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// One replica, seen from inside its step function.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/collectives/communication_options.hpp>
#include <lockstep/core/device.hpp>
#include <lockstep/core/reduce_op.hpp>
#include <lockstep/core/reduce_op_argument.hpp>
#include <lockstep/core/tensor_view.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/values/indexed_slices.hpp>
#include <lockstep/values/merge.hpp>
#include <lockstep/values/reduced.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <functional>
#include <optional>
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

/// What one replica brings to a merge_call: its arguments, and where its part of the result goes.
struct MergePart {
  const std::type_info* type = nullptr;  // of arguments and result, compared before they are used
  void* arguments = nullptr;
  void* result = nullptr;
};

/// A borrowed callable, run once by the first local replica with the parts of all.
struct MergeFunction {
  void* object = nullptr;
  void (*call)(void* object, std::span<const MergePart> parts, Strategy& strategy) = nullptr;
};

/// Keeps this thread's context and restores it when it ends.
class LOCKSTEP_API SavedContext {
 public:
  SavedContext() noexcept;
  SavedContext(const SavedContext&) = delete;
  SavedContext& operator=(const SavedContext&) = delete;
  ~SavedContext();

 private:
  alignas(void*) std::array<std::byte, 6 * sizeof(void*)> bytes_;  // without memory of its own: updates are many
};

/// Makes the GPU `device` this thread's current one, as CUDA understands it, and at its end the one that was before.
/// Nothing for a CPU. Throws Error(unavailable) with CUDA's words where that fails.
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

/// The replica that a step function computes. `run` makes it and hands it to the function; valid until the function
/// returns.
///
/// What says "All replicas" must be called by every replica of the strategy, on all ranks, in the same order: the local
/// replicas meet, the first of them (the caller's thread of `run`) does the work for this rank. A replica that does not
/// come makes an error on all, never a hang: Error(failed_precondition) as soon as it returns from the step or makes
/// another kind of call, Error(deadline_exceeded) after the communicator's deadline. Thread-safety: only the replica's
/// own thread. Elsewhere every method that meets throws Error(failed_precondition): outside `run`, from another replica
/// ("mismatching ReplicaContext"), from another strategy ("mismatching Strategy").
class LOCKSTEP_API ReplicaContext {
 public:
  ReplicaContext(const ReplicaContext&) = delete;
  ReplicaContext& operator=(const ReplicaContext&) = delete;

  /// The global id, 0 <= id < num_replicas_in_sync(). Local.
  [[nodiscard]] int replica_id_in_sync_group() const noexcept { return replica_; }
  [[nodiscard]] int num_replicas_in_sync() const noexcept { return replicas_; }
  /// The replica's number on this rank, from 0. Local.
  [[nodiscard]] int local_replica() const noexcept { return local_; }
  /// False where a dataset had no rows for this replica in this step: among the arguments of `run` is a PerReplica
  /// value whose component here consists of tensors, and none of them has a row. Its collectives are still to be
  /// called. Local.
  [[nodiscard]] bool has_data() const noexcept { return has_data_; }
  /// Where this replica computes. In a step a GPU is the thread's current one for CUDA. Local.
  [[nodiscard]] std::span<const Device> devices() const noexcept { return {&device_, 1}; }
  /// The stream of this replica's GPU, a cudaStream_t; null on a CPU. All that lockstep does with the replica's tensors
  /// is in order with it, so kernels that are launched on it need no other order: they see what collectives before them
  /// wrote, and collectives after them see what they write. Not to be destroyed. Local. Any thread. Throws
  /// Error(unavailable) when CUDA cannot make it.
  [[nodiscard]] void* stream() const;
  [[nodiscard]] Strategy& strategy() const;

  /// The reduction over all replicas of each leaf of `tree`; the leaves are the items of one collective. All replicas.
  /// Leaves that own their elements give new values of the same type, a Tensor on a GPU one on that GPU. Where all
  /// leaves refer to elements (std::span, TensorView) they are reduced in place and `tree` itself is returned; nothing
  /// is allocated in a steady step. All replicas give the same op, number of leaves, dtypes and shapes, else
  /// Error(mismatch) on all of them that names two. The mean of integers is f64: a Tensor leaf gives one, typed integer
  /// leaves throw Error(invalid_argument). IndexedSlices leaves may stand among the others: they give the rows of all
  /// replicas one after the other, by id, which a mean divides by their number; sum and mean only. A leaf that lies on
  /// GPUs for some replicas and in host memory for others is reduced in host memory. `options` are those of the
  /// strategy but where they differ from the defaults.
  template <class Tree>
    requires(!std::convertible_to<Tree &&, std::span<const TensorView>>)
  decltype(auto) all_reduce(const ReduceOpArgument& op, Tree&& tree, const CommunicationOptions& options = {}) {
    using Plain = std::remove_cvref_t<Tree>;
    begin("all_reduce");
    const ReduceOp checked = op.op("all_reduce");
    if constexpr (detail::refers_everywhere<Plain>) {
      for_each_leaf(tree, [this]<class Leaf>(Leaf& leaf) { this->add_views(leaf, leaf); });
      all_reduce_views(checked, options);
      return static_cast<std::conditional_t<std::is_lvalue_reference_v<Tree>, Tree, Plain>>(tree);
    } else {
      Plain result = map_leaves(std::as_const(tree), [checked]<class Leaf>(const Leaf& leaf) {
        if constexpr (detail::is_sparse<Leaf>::value) {
          return IndexedSlices(leaf);  // replaced
        } else {
          detail::require_reducible<Leaf>();
          return detail::result_like(leaf, checked);
        }
      });
      for_each_leaf(std::as_const(tree), [this]<class Leaf>(const Leaf& leaf) { this->add_input(leaf); });
      for_each_leaf(result, [this]<class Leaf>(Leaf& leaf) { this->add_output(leaf); });
      if constexpr (detail::any_leaf<Plain, detail::is_sparse>::value) {
        all_reduce_mixed(checked, options);
      } else {
        all_reduce_views(checked, options);
      }
      return result;
    }
  }

  /// As above, in place, for views that are already a list: the path of gradients.
  std::span<const TensorView> all_reduce(const ReduceOpArgument& op, std::span<const TensorView> views,
                                         const CommunicationOptions& options = {});

  /// The components of all replicas one after the other along `axis`, by replica id, for each leaf of `tree`, as one
  /// batch. All replicas. Extents may differ along `axis`, which counts from the end when it is negative; else shapes
  /// and dtypes are equal. Of a Tensor a Tensor, on the GPU where the replica's own lies on one; of a vector, array or
  /// span a vector. Throws the same on all replicas: Error(invalid_argument) for an axis that a leaf has not, a scalar,
  /// other extents or dtypes that differ; Error(unimplemented) for IndexedSlices. Cost: with several ranks one small
  /// all_gather more, of the shapes.
  template <class Tree>
  [[nodiscard]] auto all_gather(const Tree& tree, int axis, const CommunicationOptions& options = {}) {
    begin("all_gather");
    for_each_leaf(tree, [this]<class Leaf>(const Leaf& leaf) {
      if constexpr (detail::is_sparse<Leaf>::value) {
        detail::throw_sparse_not_gathered("all_gather");
      } else {
        detail::require_reducible<Leaf>();
        this->add_input(leaf);
      }
    });
    const std::vector<Tensor> results = gather_views(axis, options);
    std::size_t k = 0;
    return map_leaves(tree, [&]<class Leaf>(const Leaf&) { return detail::gathered_leaf<Leaf>(results[k++]); });
  }

  /// The values that replica `root` gives, on every replica; leaves as in all_reduce: in place where they all refer to
  /// elements. All replicas, with the same root, structure, dtypes and shapes, else Error(mismatch) on all. Throws
  /// Error(invalid_argument) for a root that is no replica.
  template <class Tree>
  decltype(auto) broadcast(Tree&& tree, int root = 0) {
    using Plain = std::remove_cvref_t<Tree>;
    begin("broadcast");
    if constexpr (detail::refers_everywhere<Plain>) {
      for_each_leaf(tree, [this]<class Leaf>(Leaf& leaf) { this->add_views(leaf, leaf); });
      broadcast_views(root);
      return static_cast<std::conditional_t<std::is_lvalue_reference_v<Tree>, Tree, Plain>>(tree);
    } else {
      Plain result = map_leaves(std::as_const(tree), []<class Leaf>(const Leaf& leaf) {
        detail::require_reducible<Leaf>();
        return detail::result_like(leaf, ReduceOp::max);
      });
      for_each_leaf(std::as_const(tree), [this]<class Leaf>(const Leaf& leaf) { this->add_input(leaf); });
      for_each_leaf(result, [this]<class Leaf>(Leaf& leaf) { this->add_output(leaf); });
      broadcast_views(root);
      return result;
    }
  }

  /// Calls `fn(strategy, merged...)` once, in cross-replica context, when all local replicas have come, and gives each
  /// replica its part of the result: the component of a PerReplica or Mirrored leaf, a copy of any other. All replicas
  /// (of this rank; ranks meet only if `fn` lets them). Arguments are merged as `run` merges results: an int becomes
  /// PerReplica<int>, a variable stays. `fn` and its captures are those of the first local replica. An exception of
  /// `fn` ends the step on all local replicas. Where replicas of one rank make a different number of calls, all get
  /// Error(failed_precondition) at once; where ranks do, the next collective of the strategy, in a merge or anywhere
  /// else, is Error(mismatch) that names both numbers, or where the others never come to one Error(deadline_exceeded).
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
  friend struct StepAccess;  // the library's own access, lib/context
  ReplicaContext(Step& step, int local);

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
    if constexpr (detail::is_sparse<Leaf>::value) {
      sparse_inputs_.push_back(&leaf);
    } else {
      inputs_.push_back(tensor_traits<Leaf>::view(leaf));
    }
  }
  template <class Leaf>
  void add_output(Leaf& leaf) {
    if constexpr (detail::is_sparse<Leaf>::value) {
      sparse_outputs_.push_back(&leaf);
    } else {
      outputs_.push_back(tensor_traits<std::remove_const_t<Leaf>>::view(leaf));
    }
  }
  template <class Leaf>
  void add_views(Leaf& input, Leaf& output) {
    add_output(output);
    inputs_.push_back(tensor_traits<std::remove_const_t<Leaf>>::view(input));
  }
  void set_has_data(bool has_data) noexcept { has_data_ = has_data; }
  void begin(std::string_view call);  // checks the caller, forgets the views of the previous call
  // of inputs_ and sparse_inputs_, to outputs_ and sparse_outputs_
  void all_reduce_views(ReduceOp op, const CommunicationOptions& options);
  void all_reduce_mixed(ReduceOp op, const CommunicationOptions& options);
  void broadcast_views(int root);
  std::vector<Tensor> gather_views(int axis, const CommunicationOptions& options);
  void merge(detail::MergePart part, detail::MergeFunction function);

  Step& step_;
  int local_;
  int replica_;
  int replicas_;
  Device device_;
  bool has_data_ = true;
  // kept between calls, so that a steady step allocates nothing
  std::vector<ConstTensorView> inputs_;
  std::vector<TensorView> outputs_;
  std::vector<const IndexedSlices*> sparse_inputs_;
  std::vector<IndexedSlices*> sparse_outputs_;
};

}  // namespace lockstep

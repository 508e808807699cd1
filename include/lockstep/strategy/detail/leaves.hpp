// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Templates for reductions and gathers in cross-replica context, which determine the kind, the components and the
// result type of each leaf. The other functions are in lib/strategy; they do not depend on the C++ types of leaves.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/collectives/item.hpp>
#include <lockstep/core/device.hpp>
#include <lockstep/core/reduce_op.hpp>
#include <lockstep/device/memory_resource.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/values/detail/local_replicas.hpp>
#include <lockstep/values/detail/reduced.hpp>
#include <lockstep/values/indexed_slices.hpp>
#include <lockstep/values/per_replica.hpp>
#include <lockstep/variables/variable.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep {

class StrategyExtended;

enum class LeafKind : std::uint8_t { per_replica, mirrored, variable, plain };

/// The facts that determine how values other than PerReplica are reduced.
struct Sharing {
  std::string_view call;                       ///< name of the call, for errors
  int replicas = 1;                            ///< number of replicas of the strategy
  detail::LocalReplicas local = {};            ///< replicas of this rank
  bool once_per_rank = false;                  ///< whether a plain value is the value of its rank's only replica
  const StrategyExtended* strategy = nullptr;  ///< an on_read variable of this strategy has a value per replica
};

/// Devices of the copies of a result: one device, a list of devices, or host memory.
class ResultPlaces {
 public:
  explicit ResultPlaces(int count, Device device = {}) noexcept : count_(count), device_(device) {}
  /// Refers to the list `devices`, which must outlive the object.
  explicit ResultPlaces(std::span<const Device> devices) noexcept
      : count_(static_cast<int>(devices.size())), devices_(devices) {}

  [[nodiscard]] int size() const noexcept { return count_; }
  /// The device of copy `copy`, if it is a GPU; Device{} for every CPU.
  [[nodiscard]] Device operator[](int copy) const noexcept {
    const Device device = devices_.empty() ? device_ : devices_[static_cast<std::size_t>(copy)];
    return device.kind == DeviceKind::gpu ? device : Device{};
  }

 private:
  int count_;
  Device device_;
  std::span<const Device> devices_;
};

/// The leaves of one call, without their C++ types: dense components (tensors), sparse components (IndexedSlices), and
/// the results. Does not own the components and the results, which must exist and must not move until the call is
/// complete.
class LOCKSTEP_API LeafList {
 public:
  /// Tensors in host memory that are results are allocated from `memory`.
  LeafList(ReduceOp op, const Sharing& sharing, std::shared_ptr<MemoryResource> memory);
  [[nodiscard]] ReduceOp op() const noexcept { return op_; }
  /// Throws Error(invalid_argument) unless the value was made for the replicas of this rank.
  template <class T>
  void check_replicas(const PerReplica<T>& value) const {
    detail::check_replicas_of(value, sharing_.local, {sharing_.call, "value"});
  }
  /// Reserves memory for `leaves` dense leaves, which have `components` components and `results` results in total.
  void reserve(std::size_t leaves, std::size_t components, std::size_t results);

  /// Begins the next leaf. Returns whether the leaf is reduced over replicas. If not, the leaf is one value, and the
  /// result is this value. Throws Error(invalid_argument) if the leaf is one value for several replicas and the
  /// operation is sum, prod or bxor.
  bool begin(LeafKind kind, const Variable* variable = nullptr);
  template <class Component>
  void add_component(const Component& component) {
    if constexpr (std::same_as<Component, IndexedSlices>) {
      slices_.push_back(&component);
    } else {
      inputs_.push_back(tensor_traits<Component>::view(component));
    }
  }
  void end_components();
  /// Adds a leaf that is a variable, including its components. Returns the result of the leaf: the value of the
  /// variable, or memory for the reduction.
  [[nodiscard]] Tensor add_variable(const Variable& variable, Device place);
  /// Adds a leaf that is a variable, without a result. If the variable has a value on each replica, the components are
  /// its copies; otherwise the only component is the value of the variable.
  void add_value(const Variable& variable);
  /// As begin, for a reduction along axes, which also needs the components of a leaf that is one value. Does not throw.
  void begin_value(LeafKind kind);

  [[nodiscard]] std::size_t size() const noexcept { return is_reduced_.size(); }
  /// Whether leaf k is reduced over replicas.
  [[nodiscard]] bool is_reduced(std::size_t k) const noexcept { return is_reduced_[k] != 0; }
  /// Adds a result of the first reduced leaf that has no results yet. After the last result of the leaf, call
  /// end_outputs with the devices of the results.
  template <class Result>
  void add_output(Result& result) {
    if constexpr (std::same_as<Result, IndexedSlices>) {
      slices_outputs_.push_back(&result);
    } else {
      outputs_.push_back(tensor_traits<Result>::view(result));
    }
  }
  void end_outputs(const ResultPlaces& places);

  [[nodiscard]] Tensor uninitialized(DType dtype, const Shape& shape, Device place) const;
  /// An uninitialized Tensor at `place` for the reduction of values with the dtype and shape of `component`.
  [[nodiscard]] Tensor result_for(ConstTensorView component, Device place) const;
  /// Another Tensor at `place` for the result of the last leaf. If the leaf is reduced, the elements are unspecified;
  /// otherwise they are copied from `result`.
  [[nodiscard]] Tensor copy_of_result(const Tensor& result, Device place) const;

  /// The dense leaves with their results, as items that refer to the memory of this list.
  [[nodiscard]] std::vector<Item> items() const;
  [[nodiscard]] std::size_t dense_size() const noexcept { return input_ends_.size(); }
  [[nodiscard]] std::span<const ConstTensorView> components(std::size_t dense_leaf) const;
  [[nodiscard]] std::span<const std::vector<const IndexedSlices*>> sparse_inputs() const { return sparse_inputs_; }
  [[nodiscard]] std::span<const std::vector<IndexedSlices*>> sparse_outputs() const { return sparse_outputs_; }
  [[nodiscard]] std::span<const std::vector<Device>> sparse_places() const { return sparse_places_; }

 private:
  ReduceOp op_;
  Sharing sharing_;
  std::shared_ptr<MemoryResource> memory_;
  std::vector<std::uint8_t> is_reduced_;
  // the views of all leaves, one after the other, because a list per leaf would cost more than its contents
  std::vector<ConstTensorView> inputs_;
  std::vector<std::size_t> input_ends_;
  std::vector<TensorView> outputs_;
  std::vector<std::size_t> output_ends_;
  std::vector<const IndexedSlices*> slices_;    // components of the leaf that is being added
  std::vector<IndexedSlices*> slices_outputs_;  // results of the leaf that is being added
  std::vector<std::vector<const IndexedSlices*>> sparse_inputs_;
  std::vector<std::vector<IndexedSlices*>> sparse_outputs_;
  std::vector<std::vector<Device>> sparse_places_;
  std::vector<Tensor> values_;  // values of variables
};

namespace detail {

template <class T>
struct leaf_traits {
  static constexpr LeafKind kind = stays_whole<T> ? LeafKind::variable : LeafKind::plain;
  using component = T;
};
template <class T>
struct leaf_traits<PerReplica<T>> {
  static constexpr LeafKind kind = LeafKind::per_replica;
  using component = T;
};
template <class T>
struct leaf_traits<Mirrored<T>> {
  static constexpr LeafKind kind = LeafKind::mirrored;
  using component = T;
};
template <class Leaf>
using component_t = typename leaf_traits<Leaf>::component;
template <class Leaf>
inline constexpr bool has_slices = std::same_as<component_t<Leaf>, IndexedSlices>;

/// Type of the result of reducing a leaf: Result if the caller named a type, Tensor for a variable, otherwise the
/// owning type of the component.
template <class Result, class Leaf>
using reduced_t = std::conditional_t<
    !std::is_void_v<Result>, Result,
    typename std::conditional_t<stays_whole<Leaf>, std::type_identity<Tensor>, owning<component_t<Leaf>>>::type>;

/// The first component of a distributed value; any other leaf itself.
template <class Leaf>
const component_t<Leaf>& first_component(const Leaf& leaf) {
  if constexpr (is_distributed_values<Leaf>) {
    return leaf.component(0);
  } else {
    return leaf;  // NOLINT(bugprone-return-const-ref-from-parameter): a part of the value that the caller holds
  }
}

/// Adds the components of a leaf that is not a variable.
template <class Leaf>
void add_components(const Leaf& leaf, LeafList& leaves) {
  if constexpr (leaf_traits<Leaf>::kind == LeafKind::per_replica) {
    leaves.check_replicas(leaf);
    for (int i = 0; i < leaf.size(); ++i) leaves.add_component(leaf.component(i));
  } else {
    leaves.add_component(first_component(leaf));
  }
  leaves.end_components();
}

/// Returns `value` itself if it is at `place`, otherwise a copy at `place`. All CPUs are the same place.
[[nodiscard]] LOCKSTEP_API Tensor placed(const Tensor& value, Device place);
[[nodiscard]] LOCKSTEP_API IndexedSlices placed(const IndexedSlices& value, Device place);

/// A Result that a reduction of values like `component` overwrites. A Tensor is at `place`.
template <class Result, class Component>
Result result_for(const Component& component, const LeafList& leaves, [[maybe_unused]] Device place) {
  if constexpr (std::same_as<Result, IndexedSlices>) {
    return {};
  } else if constexpr (std::same_as<Result, Tensor>) {
    return leaves.result_for(tensor_traits<Component>::view(component), place);
  } else {
    return owning_result<Result>(component);
  }
}

/// Adds a leaf and returns its result. If the leaf is reduced, the result is memory for the reduction; otherwise it is
/// the final value. A Tensor is at `place`.
template <class Result, class Leaf>
Result start_reduction(const Leaf& leaf, LeafList& leaves, Device place = {}) {
  if constexpr (stays_whole<Leaf>) {
    return leaves.add_variable(leaf, place);
  } else {
    const auto& first = first_component(leaf);
    if (leaves.begin(leaf_traits<Leaf>::kind)) {
      add_components(leaf, leaves);
      return result_for<Result>(first, leaves, place);
    }
    if constexpr (std::same_as<Result, Tensor> || has_slices<Leaf>) {
      return placed(owning_copy<Result>(first), place);
    } else {
      return owning_copy<Result>(first);
    }
  }
}

/// Adds the leaves of `results` as the results of the leaves in `leaves`, in the same order.
template <class Tree>
void add_outputs(Tree& results, LeafList& leaves) {
  std::size_t k = 0;
  for_each_leaf(results, [&](auto& result) {
    if (!leaves.is_reduced(k++)) return;
    leaves.add_output(result);
    leaves.end_outputs(ResultPlaces(1));
  });
}

/// Adds a leaf to `leaves`, and one copy of its result for each of `places` to `cells`. `cells` must have the capacity
/// for these copies, because existing results must not move.
template <class Result, class Leaf>
void start_copies(const Leaf& leaf, const ResultPlaces& places, LeafList& leaves, std::vector<Cell<Result>>& cells) {
  const std::size_t first = cells.size();
  cells.push_back({start_reduction<Result>(leaf, leaves, places[0])});
  const bool reduced = leaves.is_reduced(leaves.size() - 1);
  if constexpr (std::same_as<Result, Tensor>) {
    if (!reduced) cells[first].value = cells[first].value.clone();  // results share no memory with values
    for (int i = 1; i < places.size(); ++i) cells.push_back({leaves.copy_of_result(cells[first].value, places[i])});
  } else {
    for (int i = 1; i < places.size(); ++i) cells.push_back({Result(cells[first].value)});
  }
  if (!reduced) return;
  for (std::size_t i = first; i < cells.size(); ++i) leaves.add_output(cells[i].value);
  leaves.end_outputs(places);
}

/// Moves the values of the cells to a Mirrored value.
template <class Result>
Mirrored<Result> mirrored_of(std::span<Cell<Result>> cells) {
  return Mirrored<Result>(static_cast<int>(cells.size()),
                          [cells](int i) { return Result(std::move(cells[static_cast<std::size_t>(i)].value)); });
}

/// Whether `Strategy::gather` gathers the components of a leaf, instead of returning the leaf itself. Also true for
/// IndexedSlices, for which gather throws.
template <class Leaf>
inline constexpr bool is_gathered = leaf_traits<Leaf>::kind == LeafKind::per_replica || has_slices<Leaf>;

/// Returns a leaf that is one value, as a result that owns its elements.
template <class Leaf>
reduced_t<void, Leaf> one_value(const Leaf& leaf) {
  if constexpr (stays_whole<Leaf>) {
    return leaf.read();
  } else {
    return owning_copy<reduced_t<void, Leaf>>(first_component(leaf));
  }
}

/// Adds a leaf of a reduction along axes.
template <class Leaf>
void add_axis_leaf(const Leaf& leaf, LeafList& leaves) {
  if constexpr (stays_whole<Leaf>) {
    leaves.add_value(leaf);
  } else {
    leaves.begin_value(leaf_traits<Leaf>::kind);
    add_components(leaf, leaves);
  }
}

template <class Leaf>
struct gives_no_tensor : std::bool_constant<!std::same_as<reduced_t<void, Leaf>, Tensor>> {};
/// Whether the reduction of every leaf of the tree is a Tensor, both along axes and without axes.
template <class Tree>
inline constexpr bool only_tensors = !any_leaf<Tree, gives_no_tensor>::value;

/// Throws Error(invalid_argument) unless `value` is a scalar of `dtype`.
LOCKSTEP_API void check_axis_result(const Tensor& value, DType dtype, ReduceOp op);

/// Converts `total`, the reduction of a leaf along axes, to the result of the leaf: `total` itself for a Tensor or a
/// variable, otherwise the only element of `total`.
template <class Result, class Leaf>
auto axis_result(const Tensor& total, ReduceOp op) {
  using Owning = reduced_t<void, Leaf>;
  if constexpr (std::same_as<Owning, Tensor>) {
    return total;
  } else {
    using Number = std::conditional_t<std::is_void_v<Result>, typename gathered_t<Owning>::value_type, Result>;
    check_axis_result(total, dtype_of<Number>, op);
    return Number(total.elements<Number>().front());
  }
}

}  // namespace detail
}  // namespace lockstep

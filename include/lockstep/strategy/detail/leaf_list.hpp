// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The leaves of one reduction or gather in cross-replica context, without their C++ types, and the devices of the
// results.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/collectives/item.hpp>
#include <lockstep/core/device.hpp>
#include <lockstep/core/dtype.hpp>
#include <lockstep/core/reduce_op.hpp>
#include <lockstep/core/shape.hpp>
#include <lockstep/core/tensor_traits.hpp>
#include <lockstep/core/tensor_view.hpp>
#include <lockstep/device/memory_resource.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/values/detail/local_replicas.hpp>
#include <lockstep/values/indexed_slices.hpp>
#include <lockstep/values/per_replica.hpp>
#include <lockstep/variables/variable.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
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

/// Devices of the copies of a result: one device, or a list of devices.
class LOCKSTEP_API ResultPlaces {
 public:
  explicit ResultPlaces(Device device) noexcept;
  /// Refers to the list `devices`, which must outlive the object and must not be empty.
  explicit ResultPlaces(std::span<const Device> devices) noexcept;
  explicit ResultPlaces(std::vector<Device> devices) noexcept;
  ResultPlaces(ResultPlaces&&) noexcept;
  ResultPlaces& operator=(ResultPlaces&&) noexcept;
  ~ResultPlaces();

  [[nodiscard]] int size() const noexcept { return devices_.empty() ? 1 : static_cast<int>(devices_.size()); }
  [[nodiscard]] Device operator[](int copy) const noexcept {
    return devices_.empty() ? device_ : devices_[static_cast<std::size_t>(copy)];
  }

 private:
  Device device_;
  std::vector<Device> own_;
  std::span<const Device> devices_;  // may refer to the elements of own_, which do not move with the object
};

/// The leaves of one call, without their C++ types: dense components (tensors), sparse components (IndexedSlices), and
/// the results. Does not own the components and the results, which must exist and must not move until the call is
/// complete.
class LOCKSTEP_API LeafList {
 public:
  /// Tensors in host memory that are results are allocated from `memory`.
  LeafList(ReduceOp op, const Sharing& sharing, std::shared_ptr<MemoryResource> memory);
  LeafList(LeafList&&) noexcept;
  ~LeafList();
  [[nodiscard]] ReduceOp op() const noexcept { return op_; }
  /// Throws Error(invalid_argument) unless the value was made for the replicas of this rank.
  template <class T>
  void check_replicas(const PerReplica<T>& value) const {
    detail::check_replicas_of(value, sharing_.local, {sharing_.call, "value"});
  }
  /// States that the call is Collective whatever the number of its leaves.
  void require_collective() noexcept { is_collective_ = true; }
  [[nodiscard]] bool is_collective() const noexcept { return is_collective_; }
  /// Whether a plain value is the value of its rank's only replica, so that plain values are reduced.
  [[nodiscard]] bool reduces_plain_values() const noexcept { return sharing_.once_per_rank; }
  /// Adds an argument of the call that must be equal on all ranks, as text, such as the structure of a tree (see
  /// structure_of). An empty text adds nothing.
  void add_argument(std::string_view text);
  /// The arguments, separated by commas.
  [[nodiscard]] const std::string& arguments() const noexcept { return arguments_; }
  /// Reserves memory for `leaves` dense leaves, which have `components` components and `results` results in total.
  void reserve(std::size_t leaves, std::size_t components, std::size_t results);

  /// Begins the next leaf. Returns whether the leaf is reduced over replicas. If not, the leaf is one value, and the
  /// result is this value. Throws Error(invalid_argument) if the leaf is one value for several replicas and the
  /// operation is sum, prod or bxor.
  bool begin(LeafKind kind, const Variable* variable = nullptr);
  template <class Component>
  void add_component(const Component& component) {
    if constexpr (std::same_as<Component, IndexedSlices>) {
      add_slices(component);
    } else {
      add_view(tensor_traits<Component>::view(component));
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

  [[nodiscard]] std::size_t size() const noexcept;
  /// Whether leaf k is reduced over replicas.
  [[nodiscard]] bool is_reduced(std::size_t k) const noexcept;
  /// Adds a result of the first reduced leaf that has no results yet. After the last result of the leaf, call
  /// end_outputs with the devices of the results.
  template <class Result>
  void add_output(Result& result) {
    if constexpr (std::same_as<Result, IndexedSlices>) {
      add_slices_output(result);
    } else {
      add_output_view(tensor_traits<Result>::view(result));
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
  [[nodiscard]] std::size_t dense_size() const noexcept;
  [[nodiscard]] std::span<const ConstTensorView> components(std::size_t dense_leaf) const;
  [[nodiscard]] std::span<const std::vector<const IndexedSlices*>> sparse_inputs() const;
  [[nodiscard]] std::span<const std::vector<IndexedSlices*>> sparse_outputs() const;
  [[nodiscard]] std::span<const std::vector<Device>> sparse_places() const;

 private:
  void add_view(const ConstTensorView& view);
  void add_slices(const IndexedSlices& slices);
  void add_output_view(const TensorView& view);
  void add_slices_output(IndexedSlices& slices);

  ReduceOp op_;
  Sharing sharing_;
  std::shared_ptr<MemoryResource> memory_;
  bool is_collective_ = false;
  std::string arguments_;
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

}  // namespace lockstep

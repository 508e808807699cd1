// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The typed edge of the reductions in cross-replica context: which leaf gives which result.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/collectives/communicator.hpp>
#include <lockstep/core/device.hpp>
#include <lockstep/core/reduce_op.hpp>
#include <lockstep/device/memory_resource.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/values/indexed_slices.hpp>
#include <lockstep/values/merge.hpp>
#include <lockstep/values/reduced.hpp>
#include <lockstep/variables/variable.hpp>

#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep {
class StrategyExtended;

/// The sparse values of one reduction: this rank's components of each, the places of its results, and the devices that
/// these are wanted on.
struct SparseReductions {
  std::span<const std::vector<const IndexedSlices*>> inputs;
  std::span<const std::vector<IndexedSlices*>> outputs;
  std::span<const std::vector<Device>> places;
};

}  // namespace lockstep

namespace lockstep::detail {

/// Throws Error(invalid_argument): `op` has no meaning for a value that is one value on all replicas.
[[noreturn]] LOCKSTEP_API void throw_no_sum_of_one_value(ReduceOp op, const char* kind);

/// mean, min, max, band and bor of a value that all replicas share is that value.
[[nodiscard]] constexpr bool keeps_one_value(ReduceOp op) noexcept {
  return op != ReduceOp::sum && op != ReduceOp::prod && op != ReduceOp::bxor;
}

template <class T>
struct component_type {
  using type = T;
};
template <class T>
struct component_type<PerReplica<T>> {
  using type = T;
};
template <class T>
struct component_type<Mirrored<T>> {
  using type = T;
};
template <class T>
using component_t = typename component_type<T>::type;

template <class T>
inline constexpr bool is_per_replica = std::same_as<T, PerReplica<component_t<T>>>;
template <class T>
inline constexpr bool is_mirrored = std::same_as<T, Mirrored<component_t<T>>>;
template <class T>
inline constexpr bool is_slices = std::same_as<T, IndexedSlices>;

/// What the reduction of a leaf gives: Result if the caller named one, a Tensor for a variable, else the component's
/// owning type.
template <class Result, class Leaf>
struct reduced {
  using type = std::conditional_t<std::is_void_v<Result>, owning_t<component_t<Leaf>>, Result>;
};
template <class Leaf>
  requires stays_whole<Leaf>
struct reduced<void, Leaf> {
  using type = Tensor;
};
template <class Result, class Leaf>
using reduced_t = typename reduced<Result, Leaf>::type;

/// How values that are no PerReplica count.
struct Sharing {
  int replicas = 1;                            ///< of the strategy
  bool once_per_rank = false;                  ///< a plain value is that of its rank, which has one replica
  const StrategyExtended* strategy = nullptr;  ///< whose variables have a copy per replica
};

/// Whether each replica has a value of its own in `variable`: one of that strategy that is synchronized on read.
[[nodiscard]] LOCKSTEP_API bool has_value_per_replica(const Variable& variable, const Sharing& sharing) noexcept;

/// Whether `leaf` is reduced over replicas, and not one value.
template <class Leaf>
[[nodiscard]] bool is_reduced([[maybe_unused]] const Leaf& leaf, [[maybe_unused]] const Sharing& sharing) noexcept {
  if constexpr (stays_whole<Leaf>) {
    return has_value_per_replica(leaf, sharing);
  } else if constexpr (is_mirrored<Leaf>) {
    return false;
  } else {
    return is_per_replica<Leaf> || sharing.once_per_rank;
  }
}

/// Where the copies of a result are made: on one device, on each of several, or in host memory.
class ResultPlaces {
 public:
  explicit ResultPlaces(int count, Device device = {}) noexcept : count_(count), device_(device) {}
  /// Of a list that lives longer.
  explicit ResultPlaces(std::span<const Device> devices) noexcept
      : count_(static_cast<int>(devices.size())), devices_(devices) {}

  [[nodiscard]] int size() const noexcept { return count_; }
  /// A GPU; or Device{}, whatever the number of a CPU.
  [[nodiscard]] Device operator[](int copy) const noexcept {
    const Device device = devices_.empty() ? device_ : devices_[static_cast<std::size_t>(copy)];
    return device.kind == DeviceKind::gpu ? device : Device{};
  }

 private:
  int count_;
  Device device_;
  std::span<const Device> devices_;
};

/// `tensor` itself where it lies in that place, else a copy there.
[[nodiscard]] LOCKSTEP_API Tensor placed(const Tensor& tensor, Device place);
/// A copy there.
[[nodiscard]] LOCKSTEP_API Tensor copied_to(const Tensor& tensor, Device place);

/// The values of one reduction, dense and sparse, and where their results go. Values must live, and results stay where
/// they are, until it is done.
class ReductionList {
 public:
  /// Tensors that are results in host memory come from `memory`.
  explicit ReductionList(std::shared_ptr<MemoryResource> memory) : memory_(std::move(memory)) {}
  [[nodiscard]] Tensor room(DType dtype, const Shape& shape, Device place) const {
    return Tensor::uninitialized(dtype, shape, place.kind == DeviceKind::cpu ? memory_ : nullptr, place);
  }
  /// Room for so many dense values, with so many components and results in all.
  void reserve(std::size_t values, std::size_t components, std::size_t results) {
    input_ends_.reserve(values);
    output_ends_.reserve(values);
    inputs_.reserve(components);
    outputs_.reserve(results);
  }

  template <class T>
  void add_inputs(const PerReplica<T>& value) {
    if constexpr (is_slices<T>) {
      auto& parts = sparse_inputs_.emplace_back();
      for (int i = 0; i < value.size(); ++i) parts.push_back(&value.component(i));
    } else {
      for (int i = 0; i < value.size(); ++i) inputs_.push_back(tensor_traits<T>::view(value.component(i)));
      input_ends_.push_back(inputs_.size());
    }
  }
  void add_copies(const Variable& variable) {
    for (int i = 0; i < variable.component_count(); ++i) inputs_.push_back(std::as_const(variable).component(i).view());
    input_ends_.push_back(inputs_.size());
  }
  template <class T>
  void add_input(const T& value) {
    if constexpr (is_slices<T>) {
      sparse_inputs_.push_back({&value});
    } else {
      inputs_.push_back(tensor_traits<T>::view(value));
      input_ends_.push_back(inputs_.size());
    }
  }
  /// All of `results` get the reduction of one value; in the order of the inputs, dense and sparse each.
  template <class Result>
  void add_outputs(std::span<Cell<Result>> results, const ResultPlaces& places) {
    if constexpr (is_slices<Result>) {
      auto& outputs = sparse_outputs_.emplace_back();
      auto& devices = sparse_places_.emplace_back();
      for (int i = 0; i < places.size(); ++i) {
        outputs.push_back(&results[static_cast<std::size_t>(i)].value);
        devices.push_back(places[i]);
      }
    } else {
      for (auto& result : results) outputs_.push_back(tensor_traits<Result>::view(result.value));
      output_ends_.push_back(outputs_.size());
    }
  }
  template <class Result>
  void add_output(Result& result) {
    if constexpr (is_slices<Result>) {
      sparse_outputs_.push_back({&result});
      sparse_places_.push_back({Device{}});
    } else {
      outputs_.push_back(tensor_traits<Result>::view(result));
      output_ends_.push_back(outputs_.size());
    }
  }
  /// They refer to this list.
  [[nodiscard]] std::vector<Item> items() const {
    std::vector<Item> result;
    result.reserve(input_ends_.size());
    std::size_t input = 0;
    std::size_t output = 0;
    for (std::size_t k = 0; k < input_ends_.size(); ++k) {
      result.push_back({std::span(inputs_).subspan(input, input_ends_[k] - input),
                        std::span(outputs_).subspan(output, output_ends_[k] - output)});
      input = input_ends_[k];
      output = output_ends_[k];
    }
    return result;
  }
  [[nodiscard]] SparseReductions sparse() const { return {sparse_inputs_, sparse_outputs_, sparse_places_}; }

 private:
  std::shared_ptr<MemoryResource> memory_;
  // of all values, one after the other: many small lists cost more than what is in them
  std::vector<ConstTensorView> inputs_;
  std::vector<std::size_t> input_ends_;
  std::vector<TensorView> outputs_;
  std::vector<std::size_t> output_ends_;
  std::vector<std::vector<const IndexedSlices*>> sparse_inputs_;
  std::vector<std::vector<IndexedSlices*>> sparse_outputs_;
  std::vector<std::vector<Device>> sparse_places_;
};

/// Room for the reduction of a leaf, which writes its elements; of a Tensor at `place`.
template <class Result, class Leaf>
Result room_for(const Leaf& leaf, ReduceOp op, const ReductionList& list, [[maybe_unused]] Device place) {
  if constexpr (is_slices<Result>) {
    return {};
  } else if constexpr (std::same_as<Result, Tensor>) {
    const ConstTensorView view = tensor_traits<Leaf>::view(leaf);
    return list.room(result_dtype(op, view.dtype), view.shape, place);
  } else {
    return owning_result<Result>(leaf, op);
  }
}

/// `leaf`, which is one value, as a Result: with elements of its own, or with those of a Tensor that lies at `place`.
template <class Result, class Leaf>
Result shared_result(const Leaf& leaf, [[maybe_unused]] Device place) {
  if constexpr (std::same_as<Result, Tensor>) {
    return placed(owning_copy<Tensor>(leaf), place);
  } else if constexpr (is_slices<Result>) {
    return {placed(leaf.values, place), placed(leaf.indices, place), leaf.rows};
  } else {
    return owning_copy<Result>(leaf);
  }
}

/// The result of one leaf, a Tensor at `place`: final, or with room for the reduction that `list` gets.
template <class Result, class Leaf>
Result start_reduction(const Leaf& leaf, ReduceOp op, const Sharing& sharing, ReductionList& list, Device place = {}) {
  const bool reduced = is_reduced(leaf, sharing);
  if (!reduced && sharing.replicas > 1 && !keeps_one_value(op)) {
    throw_no_sum_of_one_value(op, stays_whole<Leaf>   ? "variable"
                                  : is_mirrored<Leaf> ? "mirrored value"
                                                      : "plain value");
  }
  if constexpr (stays_whole<Leaf>) {
    if (!reduced) return placed(leaf.read(), place);
    list.add_copies(leaf);
    return room_for<Result>(static_cast<const Tensor&>(leaf.component(0)), op, list, place);
  } else {
    using Component = component_t<Leaf>;
    if constexpr (!is_slices<Component>) require_reducible<Component>();
    if constexpr (is_per_replica<Leaf>) {
      list.add_inputs(leaf);
      return room_for<Result>(leaf.component(0), op, list, place);
    } else if constexpr (is_mirrored<Leaf>) {
      return shared_result<Result>(leaf.value(), place);
    } else {
      if (!reduced) return shared_result<Result>(leaf, place);
      list.add_input(leaf);
      return room_for<Result>(leaf, op, list, place);
    }
  }
}

/// Where the results of the leaves in `list` go: `result` has one leaf for each leaf of `value`.
template <class Tree, class ResultTree>
void add_outputs(const Tree& value, ResultTree& result, const Sharing& sharing, ReductionList& list) {
  std::vector<bool> reduced;
  for_each_leaf(value, [&]<class Leaf>(const Leaf& leaf) { reduced.push_back(is_reduced(leaf, sharing)); });
  std::size_t k = 0;
  for_each_leaf(result, [&]<class Leaf>(Leaf& leaf) {
    if (reduced[k++]) list.add_output(leaf);
  });
}

/// Copies of the result of one leaf, one at each of `places`, as start_reduction; `list` knows where they are. They are
/// added to `cells`, which has room for them.
template <class Result, class Leaf>
void start_copies(const Leaf& leaf, ReduceOp op, const ResultPlaces& places, const Sharing& sharing,
                  ReductionList& list, std::vector<Cell<Result>>& cells) {
  const bool reduced = is_reduced(leaf, sharing);
  const std::size_t first = cells.size();
  cells.push_back({start_reduction<Result>(leaf, op, sharing, list, places[0])});
  if constexpr (std::same_as<Result, Tensor>) {
    if (!reduced) cells.back().value = cells.back().value.clone();  // results share no memory with values
  }
  for (int i = 1; i < places.size(); ++i) {
    const Result& like = cells[first].value;
    if constexpr (std::same_as<Result, Tensor>) {
      cells.push_back({reduced ? list.room(like.dtype(), like.shape(), places[i]) : copied_to(like, places[i])});
    } else {
      cells.push_back({Result(like)});
    }
  }
  if (reduced) list.add_outputs(std::span(cells).subspan(first), places);
}

/// What the cells hold, moved away.
template <class Result>
Mirrored<Result> mirrored_of(std::span<Cell<Result>> cells) {
  return Mirrored<Result>(static_cast<int>(cells.size()),
                          [cells](int i) { return Result(std::move(cells[static_cast<std::size_t>(i)].value)); });
}

/// What `Strategy::gather` makes of a leaf.
template <class Leaf>
struct gathered_value {
  using type = owning_t<component_t<Leaf>>;
};
template <class T>
struct gathered_value<PerReplica<T>> {
  using type = gathered_t<T>;
};
template <class Leaf>
  requires stays_whole<Leaf>
struct gathered_value<Leaf> {
  using type = Tensor;
};

/// The components of a leaf; a variable that has one value is read into `read`.
template <class Leaf>
std::vector<ConstTensorView> views_of_components(const Leaf& leaf, [[maybe_unused]] const Sharing& sharing,
                                                 [[maybe_unused]] std::vector<Tensor>& read) {
  std::vector<ConstTensorView> views;
  if constexpr (stays_whole<Leaf>) {
    if (has_value_per_replica(leaf, sharing)) {
      for (int i = 0; i < leaf.component_count(); ++i) views.push_back(std::as_const(leaf).component(i).view());
    } else {
      views.push_back(std::as_const(read.emplace_back(leaf.read())).view());
    }
  } else {
    using Component = component_t<Leaf>;
    require_reducible<Component>();
    if constexpr (is_per_replica<Leaf>) {
      for (int i = 0; i < leaf.size(); ++i) views.push_back(tensor_traits<Component>::view(leaf.component(i)));
    } else if constexpr (is_mirrored<Leaf>) {
      views.push_back(tensor_traits<Component>::view(leaf.value()));
    } else {
      views.push_back(tensor_traits<Component>::view(leaf));
    }
  }
  return views;
}

template <class Leaf>
struct gives_no_tensor : std::bool_constant<!std::same_as<reduced_t<void, Leaf>, Tensor>> {};
/// Whether a reduction gives a Tensor for every leaf, with axes and without.
template <class Tree>
inline constexpr bool only_tensors = !any_leaf<Tree, gives_no_tensor>::value;

/// Throws Error(invalid_argument) unless `value` is one element of `dtype`.
LOCKSTEP_API void check_axis_result(const Tensor& value, DType dtype, ReduceOp op);

/// What a reduction along axes makes of a leaf: a Tensor of a Tensor or a variable, else its one element.
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

}  // namespace lockstep::detail

// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The typed edge of the reductions in cross-replica context: which leaf gives which result.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/collectives/communicator.hpp>
#include <lockstep/core/reduce_op.hpp>
#include <lockstep/values/indexed_slices.hpp>
#include <lockstep/values/merge.hpp>
#include <lockstep/values/reduced.hpp>

#include <concepts>
#include <cstddef>
#include <deque>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

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
  int replicas = 1;            ///< of the strategy
  bool once_per_rank = false;  ///< a plain value is that of its rank, which has one replica
};

/// Whether `Leaf` is reduced over replicas, and not one value.
template <class Leaf>
[[nodiscard]] constexpr bool is_reduced(const Sharing& sharing) noexcept {
  if constexpr (stays_whole<Leaf> || is_mirrored<Leaf>) return false;
  return is_per_replica<Leaf> || sharing.once_per_rank;
}

/// The values of one reduction, dense and sparse, and where their results go. Values must live, and results stay where
/// they are, until it is done.
class ReductionList {
 public:
  template <class T>
  void add_inputs(const PerReplica<T>& value) {
    if constexpr (is_slices<T>) {
      auto& parts = sparse_inputs_.emplace_back();
      for (int i = 0; i < value.size(); ++i) parts.push_back(&value.component(i));
    } else {
      std::vector<ConstTensorView>& views = inputs_.emplace_back();
      for (int i = 0; i < value.size(); ++i) views.push_back(tensor_traits<T>::view(value.component(i)));
    }
  }
  template <class T>
  void add_input(const T& value) {
    if constexpr (is_slices<T>) {
      sparse_inputs_.push_back({&value});
    } else {
      inputs_.emplace_back().push_back(tensor_traits<T>::view(value));
    }
  }
  /// All of `results` get the reduction of one value; in the order of the inputs, dense and sparse each.
  template <class Result>
  void add_outputs(std::span<Result* const> results) {
    if constexpr (is_slices<Result>) {
      sparse_outputs_.emplace_back(results.begin(), results.end());
    } else {
      std::vector<TensorView>& views = outputs_.emplace_back();
      for (Result* result : results) views.push_back(tensor_traits<Result>::view(*result));
    }
  }
  [[nodiscard]] std::vector<Item> items() const {
    std::vector<Item> result;
    for (std::size_t k = 0; k < inputs_.size(); ++k) result.push_back({inputs_[k], outputs_[k]});
    return result;
  }
  [[nodiscard]] std::span<const std::vector<const IndexedSlices*>> sparse_inputs() const { return sparse_inputs_; }
  [[nodiscard]] std::span<const std::vector<IndexedSlices*>> sparse_outputs() const { return sparse_outputs_; }

 private:
  // deque: the views stay where they are
  std::deque<std::vector<ConstTensorView>> inputs_;
  std::deque<std::vector<TensorView>> outputs_;
  std::vector<std::vector<const IndexedSlices*>> sparse_inputs_;
  std::vector<std::vector<IndexedSlices*>> sparse_outputs_;
};

/// The result of one leaf: final, or with room for the reduction that `list` gets.
template <class Result, class Leaf>
Result start_reduction(const Leaf& leaf, ReduceOp op, const Sharing& sharing, ReductionList& list) {
  if constexpr (!stays_whole<Leaf>) {
    if constexpr (!is_slices<component_t<Leaf>>) require_reducible<component_t<Leaf>>();
  }
  if (!is_reduced<Leaf>(sharing)) {
    if (sharing.replicas > 1 && !keeps_one_value(op)) {
      throw_no_sum_of_one_value(op, stays_whole<Leaf>   ? "variable"
                                    : is_mirrored<Leaf> ? "mirrored value"
                                                        : "plain value");
    }
    if constexpr (stays_whole<Leaf>) {
      return leaf.read();
    } else if constexpr (is_mirrored<Leaf>) {
      return owning_copy<Result>(leaf.value());
    } else if constexpr (!is_per_replica<Leaf>) {
      return owning_copy<Result>(leaf);
    }
  }
  if constexpr (is_per_replica<Leaf>) {
    list.add_inputs(leaf);
    if constexpr (is_slices<Result>)
      return {};
    else
      return owning_result<Result>(leaf.component(0), op);
  } else if constexpr (!stays_whole<Leaf> && !is_mirrored<Leaf>) {
    list.add_input(leaf);
    if constexpr (is_slices<Result>)
      return {};
    else
      return owning_result<Result>(leaf, op);
  }
  __builtin_unreachable();
}

/// Where the results of the leaves in `list` go: `result` has one leaf for each leaf of `value`.
template <class Tree, class ResultTree>
void add_outputs(const Tree& value, ResultTree& result, const Sharing& sharing, ReductionList& list) {
  std::vector<bool> reduced;
  for_each_leaf(value, [&]<class Leaf>(const Leaf&) { reduced.push_back(is_reduced<Leaf>(sharing)); });
  std::size_t k = 0;
  for_each_leaf(result, [&]<class Leaf>(Leaf& leaf) {
    Leaf* const target = &leaf;
    if (reduced[k++]) list.add_outputs<Leaf>(std::span(&target, 1));
  });
}

/// `count` copies of the result of one leaf, as start_reduction, with their places in `list`.
template <class Result, class Leaf>
std::vector<Cell<Result>> start_copies(const Leaf& leaf, ReduceOp op, int count, const Sharing& sharing,
                                       ReductionList& list) {
  const bool reduced = is_reduced<Leaf>(sharing);
  std::vector<Cell<Result>> cells;
  cells.reserve(static_cast<std::size_t>(count));
  cells.push_back({start_reduction<Result>(leaf, op, sharing, list)});
  if constexpr (std::same_as<Result, Tensor>) {
    if (!reduced) cells.front().value = cells.front().value.clone();  // results share no memory with values
  }
  for (int i = 1; i < count; ++i) {
    if constexpr (std::same_as<Result, Tensor>) {
      const Tensor& first = cells.front().value;
      cells.push_back({reduced ? Tensor(first.dtype(), first.shape()) : first.clone()});
    } else {
      cells.push_back({Result(cells.front().value)});
    }
  }
  if (reduced) {
    std::vector<Result*> targets;
    for (auto& cell : cells) targets.push_back(&cell.value);
    list.add_outputs<Result>(targets);
  }
  return cells;
}

template <class Result>
Mirrored<Result> mirrored_of(std::vector<Cell<Result>>&& cells) {
  std::vector<Result> copies;
  for (auto& cell : cells) copies.push_back(std::move(cell.value));
  return Mirrored<Result>(std::move(copies));
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

/// The components of a leaf; those of a variable are read into `read`.
template <class Leaf>
std::vector<ConstTensorView> views_of_components(const Leaf& leaf, std::vector<Tensor>& read) {
  std::vector<ConstTensorView> views;
  if constexpr (stays_whole<Leaf>) {
    views.push_back(std::as_const(read.emplace_back(leaf.read())).view());
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

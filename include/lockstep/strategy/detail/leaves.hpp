// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Templates for reductions and gathers in cross-replica context, which determine the kind, the parts and the result
// type of each leaf, and fill a LeafList. The other functions are in lib/strategy; they do not depend on the C++ types
// of leaves.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/device.hpp>
#include <lockstep/core/dtype.hpp>
#include <lockstep/core/reduce_op.hpp>
#include <lockstep/core/shape.hpp>
#include <lockstep/core/tensor_traits.hpp>
#include <lockstep/core/tensor_view.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/strategy/detail/leaf_list.hpp>
#include <lockstep/values/detail/reduced.hpp>
#include <lockstep/values/detail/structure.hpp>
#include <lockstep/values/indexed_slices.hpp>
#include <lockstep/values/per_replica.hpp>
#include <lockstep/values/tree.hpp>
#include <lockstep/variables/typed_variable.hpp>

#include <concepts>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace lockstep::detail {

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

/// The kind of a part of a leaf: a variable is a variable also in a component.
template <class Leaf, class Part>
inline constexpr LeafKind part_kind = stays_whole<Part> ? LeafKind::variable : leaf_traits<Leaf>::kind;

/// Calls `fn.template operator()<Part>(get)` for each part of `leaf`, and returns the tree of the results, which has
/// the structure of a component. A part is a tensor, IndexedSlices or a variable; `get(i)` is its value in component i.
/// A component that is not a tree has one part, and so has a leaf without components.
template <class Leaf, class Fn>
auto map_parts(const Leaf& leaf, const Fn& fn) {
  if constexpr (is_distributed_values<Leaf>) {
    using Component = const component_t<Leaf>;
    const int count = leaf_traits<Leaf>::kind == LeafKind::per_replica ? leaf.size() : 1;
    return combine<Component>(count, [&leaf](int i) -> Component& { return leaf.component(i); }, fn);
  } else {
    // NOLINTNEXTLINE(bugprone-return-const-ref-from-parameter): a part of the value that the caller holds
    return fn.template operator()<Leaf>([&leaf](int) -> const Leaf& { return leaf; });
  }
}

/// Whether T is a PerReplica whose components are tensors or IndexedSlices.
template <class T>
inline constexpr bool is_per_replica_tensor = false;
template <class T>
inline constexpr bool is_per_replica_tensor<PerReplica<T>> = !is_not_tensor<T>::value;

/// Whether `Test<Part>::value` holds for a part of the leaf.
template <class Leaf, template <class> class Test>
inline constexpr bool any_part = any_leaf<component_t<Leaf>, Test>::value;
template <class Leaf>
inline constexpr bool has_slices = any_part<Leaf, is_sparse>;

/// Type of the result of reducing a part: Result if the caller named a type, Tensor for a variable, otherwise the
/// owning type.
template <class Result, class Part>
using reduced_t =
    std::conditional_t<!std::is_void_v<Result>, Result,
                       typename std::conditional_t<stays_whole<Part>, std::type_identity<Tensor>, owning<Part>>::type>;

/// Adds the values of a part that is not a variable: one for each local replica if the leaf is a PerReplica, else one.
template <class Leaf, class Get>
void add_components(const Leaf& leaf, const Get& get, LeafList& leaves) {
  int count = 1;
  if constexpr (leaf_traits<Leaf>::kind == LeafKind::per_replica) count = leaf.size();
  for (int i = 0; i < count; ++i) leaves.add_component(get(i));
  leaves.end_components();
}

/// Whether a leaf type is always reduced.
template <class Leaf>
struct leaf_is_reduced : std::bool_constant<leaf_traits<Leaf>::kind == LeafKind::per_replica> {};
template <Element T>
struct leaf_is_reduced<SyncOnReadVariable<T>> : std::true_type {};
template <class Leaf>
struct leaf_is_plain : std::bool_constant<leaf_traits<Leaf>::kind == LeafKind::plain> {};

/// Makes the call Collective if the type of the tree has leaves that are reduced, even if this tree has none of them.
template <class Tree>
void require_collective_of(LeafList& leaves) {
  const bool may_be_reduced =
      any_leaf<Tree, leaf_is_reduced>::value || (any_leaf<Tree, leaf_is_plain>::value && leaves.reduces_plain_values());
  if (may_be_reduced) leaves.require_collective();
}

/// Makes the ranks compare the structures of a tree.
template <class Tree>
void add_structure(const Tree& tree, LeafList& leaves) {
  require_collective_of<Tree>(leaves);
  leaves.add_argument(structure_of(tree));
}

/// Makes the ranks compare the type of the result, if the caller named a type.
template <class Result>
void add_result_type(LeafList& leaves) {
  if constexpr (!std::is_void_v<Result> && !std::same_as<Result, Tensor>)
    leaves.add_argument(std::string("result ") +
                        std::string(to_string(dtype_of<typename gathered_t<Result>::value_type>)));
}

/// Throws Error(invalid_argument) unless a PerReplica was made for the replicas of this rank.
template <class Leaf>
void check_leaf([[maybe_unused]] const Leaf& leaf, [[maybe_unused]] const LeafList& leaves) {
  if constexpr (leaf_traits<Leaf>::kind == LeafKind::per_replica) leaves.check_replicas(leaf);
}

/// Returns a tensor at `place` with the elements of `value`: `value` itself if it is there, or if both are CPUs, which
/// share the host memory; otherwise a copy.
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

/// Adds a part of `leaf` and returns its result. If the part is reduced, the result is memory for the reduction;
/// otherwise it is the final value. A Tensor is at `place`.
template <class Result, class Part, class Leaf, class Get>
Result start_reduction(const Leaf& leaf, const Get& get, LeafList& leaves, Device place = {}) {
  if constexpr (stays_whole<Part>) {
    return leaves.add_variable(get(0), place);
  } else {
    const Part& first = get(0);
    if (leaves.begin(part_kind<Leaf, Part>)) {
      add_components(leaf, get, leaves);
      return result_for<Result>(first, leaves, place);
    }
    if constexpr (std::same_as<Result, Tensor> || std::same_as<Part, IndexedSlices>) {
      return placed(owning_copy<Result>(first), place);
    } else {
      return owning_copy<Result>(first);
    }
  }
}

/// `total` with the element type `dtype`. Throws Error(invalid_argument) unless `total` has `shape`, and unless `dtype`
/// holds every value of the dtype of `total`, as f64 holds those of i32.
[[nodiscard]] LOCKSTEP_API Tensor converted_result(const Tensor& total, DType dtype, const Shape& shape, ReduceOp op);

/// The result of reducing one value that all replicas share: a copy of the value, in f64 for the mean of integers.
[[nodiscard]] LOCKSTEP_API Tensor total_of_one(ConstTensorView value, ReduceOp op);

/// The number or list `Result` with the elements of `total`. Throws Error(invalid_argument) if Result is a number and
/// `total` has axes, and if the elements of Result cannot hold every value of `total`'s dtype.
template <class Result>
Result result_of(const Tensor& total, ReduceOp op) {
  if constexpr (std::same_as<Result, Tensor>) {
    return total;
  } else {
    using T = typename gathered_t<Result>::value_type;
    const Tensor converted = converted_result(total, dtype_of<T>, Element<Result> ? Shape{} : total.shape(), op);
    const std::span<const T> elements = converted.elements<T>();
    if constexpr (Element<Result>) {
      return elements.front();
    } else {
      return Result(elements.begin(), elements.end());
    }
  }
}

/// The result of a reduction whose type the caller named. If the reduction has another element type than Result, it
/// writes `total`, which is converted afterwards.
template <class Result>
struct NamedResult {
  Result value{};
  std::optional<Tensor> total;
};

/// The result of a part while the reduction runs: memory of the type of the result or, if the caller named a type, a
/// NamedResult.
template <class Result, class Part>
using ResultCell = Cell<std::conditional_t<std::is_void_v<Result>, reduced_t<void, Part>, NamedResult<Result>>>;

/// Adds a leaf and returns the tree of the ResultCells of its parts.
template <class Result, class Leaf>
auto start_results(const Leaf& leaf, LeafList& leaves) {
  check_leaf(leaf, leaves);
  return map_parts(leaf, [&]<class Part, class Get>(const Get& get) {
    if constexpr (std::is_void_v<Result>) {
      return ResultCell<Result, Part>{start_reduction<reduced_t<void, Part>, Part>(leaf, get, leaves)};
    } else if constexpr (stays_whole<Part> || std::same_as<Result, Tensor>) {
      Tensor total = start_reduction<Tensor, Part>(leaf, get, leaves);
      if (!std::same_as<Result, Tensor> && !leaves.is_reduced(leaves.size() - 1))
        total = total_of_one(std::as_const(total).view(), leaves.op());
      return ResultCell<Result, Part>{{{}, std::move(total)}};
    } else {
      NamedResult<Result> result;
      const ConstTensorView first = tensor_traits<Part>::view(get(0));
      if (leaves.begin(part_kind<Leaf, Part>)) {
        add_components(leaf, get, leaves);
        result.value = owning_result<Result>(get(0));
        const ConstTensorView view = tensor_traits<Result>::view(result.value);
        if (view.dtype != result_dtype(leaves.op(), first.dtype) || view.shape != first.shape)
          result.total = leaves.result_for(first, {});
      } else {
        result.total = total_of_one(first, leaves.op());
      }
      return ResultCell<Result, Part>{std::move(result)};
    }
  });
}

template <class Result>
void add_output(Result& result, LeafList& leaves) {
  leaves.add_output(result);
}
template <class Result>
void add_output(NamedResult<Result>& result, LeafList& leaves) {
  if (result.total) {
    leaves.add_output(*result.total);
  } else {
    leaves.add_output(result.value);
  }
}

/// Adds the ResultCells of `cells` as the results of the parts in `leaves`, in the same order.
template <class Tree>
void add_outputs(Tree& cells, LeafList& leaves) {
  std::size_t k = 0;
  for_each_leaf(cells, [&](auto& cell) {
    if (!leaves.is_reduced(k++)) return;
    add_output(cell.value, leaves);
    leaves.end_outputs(ResultPlaces(Device{}));
  });
}

template <class Result>
Result final_result(Result result, ReduceOp /*op*/) {
  return result;
}
template <class Result>
Result final_result(NamedResult<Result> result, ReduceOp op) {
  return result.total ? result_of<Result>(*result.total, op) : std::move(result.value);
}

/// The copies of the result of a part, one for each of its places.
template <class Result>
using Copies = std::vector<Cell<Result>>;

/// Adds a part, and one copy of its result for each of `places` to `cells`. `cells` must have the capacity for these
/// copies, because existing results must not move.
template <class Result, class Part, class Leaf, class Get>
void start_copies(const Leaf& leaf, const Get& get, const ResultPlaces& places, LeafList& leaves,
                  Copies<Result>& cells) {
  const std::size_t first = cells.size();
  cells.push_back({start_reduction<Result, Part>(leaf, get, leaves, places[0])});
  const bool reduced = leaves.is_reduced(leaves.size() - 1);
  if constexpr (std::same_as<Result, Tensor>) {
    if (!reduced) cells[first].value = cells[first].value.clone();  // results share no memory with values
    for (int i = 1; i < places.size(); ++i) cells.push_back({leaves.copy_of_result(cells[first].value, places[i])});
  } else {
    for (int i = 1; i < places.size(); ++i) {
      cells.push_back({Result(cells[first].value)});
      if constexpr (std::same_as<Result, IndexedSlices>) cells.back().value = placed(cells.back().value, places[i]);
    }
  }
  if (!reduced) return;
  for (std::size_t i = first; i < cells.size(); ++i) leaves.add_output(cells[i].value);
  leaves.end_outputs(places);
}

/// As start_copies, for a leaf that has one part.
template <class Leaf, class Result>
void start_tensor_copies(const Leaf& leaf, const ResultPlaces& places, LeafList& leaves, Copies<Result>& cells) {
  check_leaf(leaf, leaves);
  map_parts(leaf, [&]<class Part, class Get>(const Get& get) {
    start_copies<Result, Part>(leaf, get, places, leaves, cells);
    return std::monostate();
  });
}

/// Adds a leaf, and returns the tree of its parts' copies as one cell.
template <class Leaf>
auto start_copies_of(const Leaf& leaf, const ResultPlaces& places, LeafList& leaves) {
  check_leaf(leaf, leaves);
  auto copies = map_parts(leaf, [&]<class Part, class Get>(const Get& get) {
    Copies<reduced_t<void, Part>> cells;
    cells.reserve(static_cast<std::size_t>(places.size()));
    start_copies<reduced_t<void, Part>, Part>(leaf, get, places, leaves, cells);
    return Cell<Copies<reduced_t<void, Part>>>{std::move(cells)};
  });
  return Cell<decltype(copies)>{std::move(copies)};
}

/// Moves the values of the cells to a Mirrored value.
template <class Result>
Mirrored<Result> mirrored_of(std::span<Cell<Result>> cells) {
  return Mirrored<Result>(static_cast<int>(cells.size()),
                          [cells](int i) { return Result(std::move(cells[static_cast<std::size_t>(i)].value)); });
}
/// Moves the copies of the parts of a leaf to a Mirrored value.
template <class Tree>
auto mirrored_copies(Tree& copies, const ResultPlaces& places) {
  const auto copy = [&copies](int i) {
    return map_leaves(copies, [i](auto& cell) { return std::move(cell.value[static_cast<std::size_t>(i)].value); });
  };
  return Mirrored<decltype(copy(0))>(places.size(), copy);
}

/// Whether `Strategy::gather` gathers the components of a leaf, instead of returning the leaf itself. Also true for
/// IndexedSlices, for which gather throws.
template <class Leaf>
inline constexpr bool is_gathered =
    leaf_traits<Leaf>::kind == LeafKind::per_replica || std::same_as<component_t<Leaf>, IndexedSlices>;

/// Returns a part that is one value, as a result that owns its elements.
template <class Part>
reduced_t<void, Part> one_value(const Part& part) {
  if constexpr (stays_whole<Part>) {
    return part.read();
  } else {
    return owning_copy<reduced_t<void, Part>>(part);
  }
}

/// Adds a leaf of a gather.
template <class Leaf>
void add_gathered_leaf(const Leaf& leaf, LeafList& leaves) {
  check_leaf(leaf, leaves);
  map_parts(leaf, [&]<class Part, class Get>(const Get& get) {
    if constexpr (!stays_whole<Part>) add_components(leaf, get, leaves);
    return std::monostate();
  });
}

/// The result of a leaf of a gather: the gathered parts, which `next()` returns one after the other, or the value of
/// the leaf.
template <class Leaf, class Next>
auto gather_result(const Leaf& leaf, const Next& next) {
  return map_parts(leaf, [&]<class Part, class Get>(const Get& get) {
    if constexpr (is_gathered<Leaf> && !stays_whole<Part>) {
      return gathered_leaf<Part>(next());
    } else {
      return one_value<Part>(get(0));
    }
  });
}

/// Adds a leaf of a reduction along axes.
template <class Leaf>
void add_axis_leaf(const Leaf& leaf, LeafList& leaves) {
  check_leaf(leaf, leaves);
  map_parts(leaf, [&]<class Part, class Get>(const Get& get) {
    if constexpr (stays_whole<Part>) {
      leaves.add_value(get(0));
    } else {
      leaves.begin_value(part_kind<Leaf, Part>);
      add_components(leaf, get, leaves);
    }
    return std::monostate();
  });
}

/// The result of the reduction of a leaf along axes: `total()` returns the reductions of the parts one after the other.
template <class Result, class Leaf, class Total>
auto axis_result(const Leaf& leaf, ReduceOp op, const Total& total) {
  return map_parts(leaf, [&]<class Part>(const auto&) {
    using Owning = reduced_t<void, Part>;
    if constexpr (!std::is_void_v<Result>) {
      return result_of<Result>(total(), op);
    } else if constexpr (std::same_as<Owning, Tensor>) {
      return Tensor(total());
    } else {
      return result_of<typename gathered_t<Owning>::value_type>(total(), op);
    }
  });
}

template <class Part>
struct part_gives_no_tensor : std::bool_constant<!std::same_as<reduced_t<void, Part>, Tensor>> {};
template <class Leaf>
struct gives_no_tensor : std::bool_constant<any_part<Leaf, part_gives_no_tensor>> {};
/// Whether the reduction of every leaf of the tree is a Tensor, both along axes and without axes.
template <class Tree>
inline constexpr bool only_tensors = !any_leaf<Tree, gives_no_tensor>::value;

template <class Leaf>
struct leaf_has_slices : std::bool_constant<has_slices<Leaf>> {};

template <class T>
inline constexpr bool is_vector = false;
template <Element T, class Allocator>
inline constexpr bool is_vector<std::vector<T, Allocator>> = true;

/// True if Result can be named as the type of the results of a reduction of `Tree`. If not, the program does not
/// compile, and the message gives the reason.
template <class Result, class Tree>
constexpr bool can_be_result() {
  constexpr bool is_type =
      std::is_void_v<Result> || Element<Result> || std::same_as<Result, Tensor> || is_vector<Result>;
  static_assert(is_type, "reduce: the type of the results must be a number, a std::vector of numbers, or Tensor");
  constexpr bool has_type = std::is_void_v<Result> || !any_leaf<Tree, leaf_has_slices>::value;
  static_assert(has_type, "reduce: the result of IndexedSlices has no other type; do not name a type");
  return is_type && has_type && can_be_reduced<Tree>();
}

/// True if every leaf of the tree can be reduced along axes. If not, the program does not compile, and the message
/// gives the reason.
template <class Tree>
constexpr bool can_be_reduced_along() {
  constexpr bool has_none = !any_leaf<Tree, leaf_has_slices>::value;
  static_assert(has_none,
                "reduce: IndexedSlices cannot be reduced along axes; pass std::nullopt as the axis, or reduce "
                "to_dense(value)");
  return has_none && can_be_reduced<Tree>();
}

}  // namespace lockstep::detail

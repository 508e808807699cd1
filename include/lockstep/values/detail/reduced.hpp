// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Leaves that are arguments of reductions, and the types of their results.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/reduce_op.hpp>
#include <lockstep/core/tensor_traits.hpp>
#include <lockstep/device/tensor.hpp>
#include <lockstep/values/indexed_slices.hpp>
#include <lockstep/values/per_replica.hpp>
#include <lockstep/values/tree.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

namespace lockstep {

namespace detail {

template <class T>
struct leaf_owns_elements : std::bool_constant<!refers_to_elements<T>> {};

/// Whether all leaves of the tree only refer to elements, so that a reduction can write to them in place.
template <class Tree>
inline constexpr bool refers_everywhere = !any_leaf<std::remove_cvref_t<Tree>, leaf_owns_elements>::value;

/// False, for a static_assert in a template that must not be instantiated.
template <class T>
inline constexpr bool never = false;

template <class Leaf>
struct component_of {
  using type = Leaf;
};
template <class T>
struct component_of<PerReplica<T>> {
  using type = T;
};
template <class T>
struct component_of<Mirrored<T>> {
  using type = T;
};

/// Whether a leaf is neither a tensor nor IndexedSlices.
template <class Leaf>
struct is_not_tensor : std::bool_constant<!TensorLike<Leaf> && !std::same_as<Leaf, IndexedSlices>> {};
/// The same of a leaf of cross-replica context: of its components, unless it is a variable.
template <class Leaf>
struct is_not_reducible
    : std::bool_constant<is_not_tensor<typename component_of<Leaf>::type>::value && !stays_whole<Leaf>> {};
/// The same of a leaf that has components; any other leaf is not gathered.
template <class Leaf>
struct is_not_gatherable : std::bool_constant<is_distributed_values<Leaf> && is_not_reducible<Leaf>::value> {};

/// Whether no leaf of the tree is `Refused`; if one is, the program does not compile, and the text says why.
template <class Tree, template <class> class Refused = is_not_reducible>
constexpr bool can_be_reduced() {
  constexpr bool result = !any_leaf<std::remove_cvref_t<Tree>, Refused>::value;
  static_assert(result,
                "only tensors can be reduced or gathered: arithmetic scalars, vectors, arrays and spans of them, "
                "Tensor, TensorView, types with a lockstep::tensor_traits specialisation, IndexedSlices, and trees of "
                "these; a struct becomes a tree of its members by a lockstep::tree_members specialisation");
  return result;
}

/// Returns a place for the result of reducing `leaf`: a copy of the leaf if it refers to elements, otherwise a new
/// value with unspecified contents.
template <class Leaf>
Leaf result_like(const Leaf& leaf, ReduceOp /*op*/) {
  return leaf;
}
inline Tensor result_like(const Tensor& leaf, ReduceOp op) {
  return Tensor(result_dtype(op, leaf.dtype()), leaf.shape(), nullptr, leaf.device());
}

/// Result type of a host reduction of a leaf; the result owns its elements.
template <class Leaf>
struct owning {
  using type = Leaf;
};
template <class T>
struct owning<std::span<T>> {
  using type = std::vector<std::remove_const_t<T>>;
};
template <>
struct owning<TensorView> {
  using type = Tensor;
};
template <class Leaf>
using owning_t = typename owning<Leaf>::type;

/// Type of gathered components of type Leaf: a vector for lists of elements, else a Tensor.
template <class Leaf>
struct gathered {
  using type = Tensor;
};
template <Element T>
struct gathered<T> {
  using type = std::vector<T>;
};
template <Element T, class Allocator>
struct gathered<std::vector<T, Allocator>> {
  using type = std::vector<T>;
};
template <Element T, std::size_t n>
struct gathered<std::array<T, n>> {
  using type = std::vector<T>;
};
template <Element T>
struct gathered<std::span<T>> {
  using type = std::vector<std::remove_const_t<T>>;
};
template <class Leaf>
using gathered_t = typename gathered<Leaf>::type;

/// Converts `tensor` to gathered_t<Leaf>; a vector needs a tensor with one axis.
template <class Leaf>
gathered_t<Leaf> gathered_leaf(const Tensor& tensor) {
  using Result = gathered_t<Leaf>;
  if constexpr (std::same_as<Result, Tensor>) {
    return tensor;
  } else {
    const auto elements = tensor.elements<typename Result::value_type>();
    return Result(elements.begin(), elements.end());
  }
}

/// Throws Error(unimplemented): IndexedSlices cannot be gathered.
[[noreturn]] LOCKSTEP_API void throw_sparse_not_gathered(const char* call);

/// Whether Leaf is IndexedSlices (sparse) and not a tensor.
template <class Leaf>
struct is_sparse : std::bool_constant<std::same_as<Leaf, IndexedSlices>> {};

/// A copy of `leaf` if Result is Leaf; otherwise a new Result with as many elements and unspecified contents. Result is
/// not Tensor.
template <class Result, class Leaf>
Result owning_result(const Leaf& leaf) {
  if constexpr (std::same_as<Result, Leaf>) {
    return leaf;
  } else if constexpr (Element<Result>) {
    return Result{};
  } else {
    const ConstTensorView view = tensor_traits<Leaf>::view(leaf);
    return Result(static_cast<std::size_t>(view.element_count()));
  }
}

/// `leaf` as a Result, with elements of its own.
template <class Result, class Leaf>
Result owning_copy(const Leaf& leaf) {
  if constexpr (std::constructible_from<Result, const Leaf&>) {
    return Result(leaf);
  } else if constexpr (std::same_as<Result, Tensor>) {
    Tensor result(leaf.dtype, leaf.shape);
    result.copy_from(leaf);
    return result;
  } else {
    return Result(leaf.begin(), leaf.end());
  }
}

}  // namespace detail
}  // namespace lockstep

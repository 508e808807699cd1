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

/// Whether no leaf of the tree owns its elements, so that a reduction can write the results to these elements.
template <class Tree>
inline constexpr bool refers_everywhere = !any_leaf<std::remove_cvref_t<Tree>, leaf_owns_elements>::value;

/// Always false. For a static_assert that must fail if its template is instantiated.
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
template <class Part>
struct is_not_reducible_part : std::bool_constant<is_not_tensor<Part>::value && !stays_whole<Part>> {};
/// Whether a leaf in cross-replica context cannot be reduced: it, or a leaf of its components, is neither a tensor nor
/// IndexedSlices nor a variable.
template <class Leaf>
struct is_not_reducible : any_leaf<typename component_of<Leaf>::type, is_not_reducible_part> {};
/// Whether a leaf has components that cannot be reduced. gather returns a leaf without components unchanged, so such a
/// leaf may have any type.
template <class Leaf>
struct is_not_gatherable : std::bool_constant<is_distributed_values<Leaf> && is_not_reducible<Leaf>::value> {};

/// True if `Refused` holds for no leaf of the tree. If not, the program does not compile, and the message gives the
/// reason.
template <class Tree, template <class> class Refused = is_not_reducible>
constexpr bool can_be_reduced() {
  constexpr bool result = !any_leaf<std::remove_cvref_t<Tree>, Refused>::value;
  static_assert(result,
                "only tensors can be reduced or gathered: arithmetic scalars, vectors, arrays and spans of them, "
                "Tensor, TensorView, types with a lockstep::tensor_traits specialisation, IndexedSlices, and trees of "
                "these; a struct becomes a tree of its members by a lockstep::tree_members specialisation");
  return result;
}

/// Returns an object for the result of reducing `leaf`. If `leaf` does not own its elements, the object refers to the
/// same elements; otherwise the object has new elements, which the reduction overwrites.
template <class Leaf>
Leaf result_like(const Leaf& leaf, ReduceOp /*op*/) {
  return leaf;
}
inline Tensor result_like(const Tensor& leaf, ReduceOp op) {
  return Tensor(result_dtype(op, leaf.dtype()), leaf.shape(), nullptr, leaf.device());
}

/// Type of the result of reducing a leaf; the result owns its elements.
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

/// Type of the gathered components of type Leaf: a vector for numbers and lists of elements, otherwise a Tensor.
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

/// Converts `tensor` to gathered_t<Leaf>. If the result is a vector, `tensor` must have one axis.
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

/// Returns a copy of `leaf` if Result is Leaf. If Result is another type, returns a new Result with as many elements as
/// `leaf` and unspecified contents. Result must not be Tensor.
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

/// Converts `leaf` to a Result, which owns its elements.
template <class Result, class Leaf>
Result owning_copy(const Leaf& leaf) {
  if constexpr (std::constructible_from<Result, const Leaf&>) {
    return Result(leaf);
  } else if constexpr (std::same_as<Result, Tensor>) {
    const ConstTensorView view = tensor_traits<Leaf>::view(leaf);
    Tensor result(view.dtype, view.shape);
    result.copy_from(view);
    return result;
  } else {
    return Result(leaf.begin(), leaf.end());
  }
}

}  // namespace detail
}  // namespace lockstep

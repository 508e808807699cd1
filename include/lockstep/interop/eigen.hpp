// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Collectives on matrices and vectors of Eigen, without a copy. Optional: the only public header that includes headers
// of Eigen, 3.4 or newer.
//
//   Eigen::MatrixXd gram = a.transpose() * a;
//   communicator.all_reduce(lockstep::view_of(gram), lockstep::ReduceOp::sum);

#pragma once

#include <lockstep/base/error.hpp>
#include <lockstep/core/dtype.hpp>
#include <lockstep/core/shape.hpp>
#include <lockstep/core/tensor_view.hpp>

#include <Eigen/Core>

#include <cstdint>
#include <string>
#include <type_traits>

namespace lockstep {

namespace detail::eigen {

/// Declared for HasElements only.
template <class Derived>
void accept(const Eigen::DenseBase<Derived>& matrix);

/// An object of Eigen whose elements are in memory: Matrix, Array, Map, Ref, Block, Transpose. Not an expression that
/// computes its elements, such as `a + b`.
template <class M>
concept HasElements = requires(const M& matrix) {
  accept(matrix);
  matrix.data();
  matrix.outerStride();
  requires(M::Flags & Eigen::DirectAccessBit) != 0;
  requires Element<typename M::Scalar>;
};

/// Whether the object owns its elements.
template <class M>
inline constexpr bool is_owner = std::is_base_of_v<Eigen::PlainObjectBase<M>, M>;

/// The extents of the object in row-major order.
template <class M>
[[nodiscard]] Shape shape_of(const M& matrix) {
  if constexpr (M::IsVectorAtCompileTime) {
    return Shape{static_cast<std::int64_t>(matrix.size())};
  } else {
    return Shape{static_cast<std::int64_t>(matrix.outerSize()), static_cast<std::int64_t>(matrix.innerSize())};
  }
}

/// Throws unless the elements are contiguous.
template <class M>
void require_contiguous(const M& matrix) {
  const bool inner = matrix.innerSize() <= 1 || matrix.innerStride() == 1;
  const bool outer = matrix.outerSize() <= 1 || matrix.outerStride() == matrix.innerSize();
  if (matrix.size() == 0 || (inner && (M::IsVectorAtCompileTime || outer))) return;
  std::string strides = std::to_string(matrix.innerStride());
  if (!M::IsVectorAtCompileTime) strides += " and " + std::to_string(matrix.outerStride());
  throw Error(Code::invalid_argument, "view_of: the matrix has " + std::to_string(matrix.rows()) + " x " +
                                          std::to_string(matrix.cols()) + " elements with strides " + strides +
                                          ", which are not contiguous; copy them to a matrix of their own first");
}

}  // namespace detail::eigen

/// A view of the elements of `matrix`, an object of Eigen whose elements are in memory (Matrix, Array, Map, Ref, Block,
/// ...), which must outlive every use of the view. The elements can be written if those of `matrix` can. A vector has
/// shape [size], and a row-major matrix [rows, cols]. A column-major matrix, Eigen's default, has shape [cols, rows]:
/// its memory is that of its transpose in row-major order. So all_gather appends the columns of the ranks' matrices.
/// Reductions, broadcasts and messages need the same storage order on all ranks, which the shapes of square matrices do
/// not show. Local. Throws Error(invalid_argument) if the elements are not contiguous, as in a row of a
/// column-major matrix. A temporary Matrix or Array, and an expression such as `a + b`, do not compile.
template <class M>
  requires(detail::eigen::HasElements<std::remove_cvref_t<M>> &&
           (std::is_lvalue_reference_v<M> || !detail::eigen::is_owner<std::remove_cvref_t<M>>))
[[nodiscard]] auto view_of(M&& matrix) {  // NOLINT(cppcoreguidelines-missing-std-forward): a Block may be a temporary
  using Object = std::remove_cvref_t<M>;
  constexpr bool can_write = (Object::Flags & Eigen::LvalueBit) != 0 && !std::is_const_v<std::remove_reference_t<M>>;
  using View = std::conditional_t<can_write, TensorView, ConstTensorView>;
  detail::eigen::require_contiguous(matrix);
  return View{matrix.data(), dtype_of<typename Object::Scalar>, detail::eigen::shape_of(matrix), Device{}};
}

}  // namespace lockstep

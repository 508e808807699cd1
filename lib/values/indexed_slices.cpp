// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/values/indexed_slices.hpp>

#include "base/check.hpp"
#include "base/phrases.hpp"
#include "core/visit_dtype.hpp"
#include "core/with_extent.hpp"
#include "device/host/host_elements.hpp"
#include "kernels/arithmetic.hpp"
#include "values/sparse_update.hpp"

#include <lockstep/values/detail/reduced.hpp>

#include <concepts>
#include <cstddef>
#include <span>
#include <vector>

namespace lockstep {
namespace {

template <class T>
void add_rows(std::span<const T> values, std::span<const std::int64_t> indices, std::span<T> out) {
  using Sum = detail::sum_t<T>;
  if (indices.empty() || out.empty()) return;
  const std::size_t width = values.size() / indices.size();
  std::vector<Sum> sums(out.size());
  for (std::size_t k = 0; k < indices.size(); ++k) {
    const std::size_t row = static_cast<std::size_t>(indices[k]) * width;
    for (std::size_t i = 0; i < width; ++i)
      sums[row + i] = static_cast<Sum>(sums[row + i] + static_cast<Sum>(values[k * width + i]));
  }
  for (std::size_t i = 0; i < sums.size(); ++i) out[i] = detail::finish<T>(sums[i]);
}

}  // namespace

Shape IndexedSlices::dense_shape() const { return detail::with_extent(values.shape(), 0, rows); }

void IndexedSlices::validate(const char* call) const {
  if (indices.dtype() != DType::i64 || indices.shape().rank() != 1) {
    detail::throw_error(Code::invalid_argument,
                        "{}: the indices of the IndexedSlices are {}{}; they must be i64 with one axis", call,
                        to_string(indices.dtype()), to_string(indices.shape()));
  }
  if (values.shape().rank() == 0 || values.shape()[0] != indices.element_count()) {
    detail::throw_error(
        Code::invalid_argument,
        "{}: the IndexedSlices have {} indices, but values of shape {}; there must be one row for each index", call,
        indices.element_count(), to_string(values.shape()));
  }
  const detail::HostElements here(indices.view());
  for (const std::int64_t index : here.elements<std::int64_t>()) {
    if (index < 0 || index >= rows) {
      detail::throw_error(Code::invalid_argument,
                          "{}: index {} of the IndexedSlices is out of range for a tensor with {}", call, index,
                          detail::counted(rows, "row"));
    }
  }
}

Tensor to_dense(const IndexedSlices& slices) {
  slices.validate("to_dense");
  if (slices.values.dtype() == DType::boolean) {
    detail::throw_error(Code::invalid_argument, "to_dense: bool values cannot be added; convert them");
  }
  const Device place = slices.values.device();
  Tensor dense(slices.values.dtype(), slices.dense_shape(), nullptr, place);
  if (!detail::is_on_host(place)) {
    detail::apply_sparse_update(dense.view(), detail::ElementOp::add, slices, 1);
    return dense;
  }
  const detail::HostElements values(slices.values.view());
  const detail::HostElements indices(slices.indices.view());
  detail::visit_dtype(slices.values.dtype(), [&]<class T>() {
    if constexpr (!std::same_as<T, bool>) {
      add_rows<T>(values.elements<T>(), indices.elements<std::int64_t>(), dense.elements<T>());
    }
  });
  return dense;
}

namespace detail {

void throw_sparse_not_gathered(const char* call) {
  throw_error(Code::unimplemented,
              "{}: IndexedSlices cannot be gathered; gather to_dense(value), or all_reduce them: their sum "
              "is the rows of all replicas one after the other",
              call);
}

}  // namespace detail
}  // namespace lockstep

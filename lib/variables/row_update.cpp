// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "variables/row_update.hpp"

#include "base/check.hpp"
#include "core/visit_dtype.hpp"
#include "device/host/host_elements.hpp"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <limits>
#include <numeric>
#include <span>
#include <type_traits>
#include <vector>

namespace lockstep::detail {
namespace {

/// What rows of T are kept in while slices are applied to them.
template <class T>
using row_t = std::conditional_t<std::integral<T>, T, sum_t<T>>;

/// IEEE 754-2019 minimum and maximum: as ReduceOp::min and max.
template <class R>
R least(R a, R b) {
  if constexpr (std::floating_point<R>) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<R>::quiet_NaN();
    if (a == b) return std::signbit(a) ? a : b;
  }
  return b < a ? b : a;
}

template <class R>
R greatest(R a, R b) {
  if constexpr (std::floating_point<R>) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<R>::quiet_NaN();
    if (a == b) return std::signbit(a) ? b : a;
  }
  return a < b ? b : a;
}

/// Integers wrap: they are computed as unsigned numbers of 64 bits, and cut.
template <class R>
R combine(RowOp op, R row, R slice) {
  using Wide = std::conditional_t<std::integral<R>, std::uint64_t, R>;
  const auto a = static_cast<Wide>(row);
  const auto b = static_cast<Wide>(slice);
  switch (op) {
    case RowOp::add: return static_cast<R>(a + b);
    case RowOp::sub: return static_cast<R>(a - b);
    case RowOp::mul: return static_cast<R>(a * b);
    case RowOp::div:
      if constexpr (std::signed_integral<R>) {
        if (slice == R{-1}) return static_cast<R>(Wide{0} - a);  // the least number has no opposite
      }
      return static_cast<R>(row / slice);
    case RowOp::min: return least(row, slice);
    case RowOp::max: return greatest(row, slice);
    case RowOp::update: break;
  }
  return slice;
}

/// Places in `indices`, by row, and in their order within a row.
std::vector<std::size_t> by_row(std::span<const std::int64_t> indices) {
  std::vector<std::size_t> places(indices.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  std::sort(places.begin(), places.end(), [indices](std::size_t a, std::size_t b) {
    return indices[a] != indices[b] ? indices[a] < indices[b] : a < b;
  });
  return places;
}

template <class T>
void update_typed(const TensorView& target, RowOp op, std::span<const T> values, std::span<const std::int64_t> indices,
                  int divisor) {
  using Row = row_t<T>;
  if (values.empty()) return;
  const std::size_t width = values.size() / indices.size();
  T* const elements = static_cast<T*>(target.data);
  std::vector<Row> row(width);
  const std::vector<std::size_t> places = by_row(indices);
  for (std::size_t k = 0; k < places.size();) {
    const std::int64_t index = indices[places[k]];
    T* const out = elements + static_cast<std::size_t>(index) * width;
    std::transform(out, out + width, row.begin(), [](T element) { return static_cast<Row>(element); });
    for (; k < places.size() && indices[places[k]] == index; ++k) {
      const T* const slice = values.data() + places[k] * width;
      for (std::size_t i = 0; i < width; ++i) {
        row[i] = combine(op, row[i], static_cast<Row>(static_cast<Row>(slice[i]) / static_cast<Row>(divisor)));
      }
    }
    std::transform(row.begin(), row.end(), out, [](Row element) { return static_cast<T>(element); });
  }
}

/// bool has only update, and no arithmetic to write it in.
void update_flags(const TensorView& target, std::span<const bool> values, std::span<const std::int64_t> indices) {
  if (values.empty()) return;
  const std::size_t width = values.size() / indices.size();
  for (std::size_t k = 0; k < indices.size(); ++k) {
    std::copy_n(values.data() + k * width, width,
                static_cast<bool*>(target.data) + static_cast<std::size_t>(indices[k]) * width);
  }
}

}  // namespace

void update_rows(TensorView target, RowOp op, const IndexedSlices& slices, int divisor) {
  HostEdit edit(target);
  const HostElements values(slices.values.view());
  const HostElements indices(slices.indices.view());
  visit_dtype(target.dtype, [&]<class T>() {
    if constexpr (std::same_as<T, bool>) {
      LOCKSTEP_CHECK(op == RowOp::update);
      update_flags(edit.view(), values.elements<bool>(), indices.elements<std::int64_t>());
    } else {
      update_typed<T>(edit.view(), op, values.elements<T>(), indices.elements<std::int64_t>(), divisor);
    }
  });
  edit.finish();
}

bool has_integer_zero(ConstTensorView values) {
  const HostElements here(values);
  return visit_dtype(values.dtype, [&]<class T>() {
    if constexpr (std::integral<T> && !std::same_as<T, bool>) {
      const std::span<const T> elements = here.elements<T>();
      return std::find(elements.begin(), elements.end(), T{0}) != elements.end();
    } else {
      return false;
    }
  });
}

}  // namespace lockstep::detail

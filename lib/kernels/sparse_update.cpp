// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/sparse_update.hpp"

#include "base/check.hpp"
#include "core/visit_dtype.hpp"

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstring>

namespace lockstep::detail {
namespace {

template <class Row>
Row divided(Row slice, int divisor) {
  if constexpr (std::floating_point<Row>) return slice / static_cast<Row>(divisor);
  return slice;
}

template <ElementOp op, class T>
void step_rows(const SparseUpdate& update) {
  using Row = operand_t<T>;
  const auto width = static_cast<std::size_t>(update.width);
  std::vector<Row> row(width);
  for (auto step = update.steps.begin(); step != update.steps.end();) {
    const std::int64_t index = step->row;
    T* const out = static_cast<T*>(update.target) + index * update.width;
    std::transform(out, out + width, row.begin(), [](T element) { return static_cast<Row>(element); });
    for (; step != update.steps.end() && step->row == index; ++step) {
      const T* const slice = static_cast<const T*>(update.slices) + step->slice * update.width;
      for (std::size_t i = 0; i < width; ++i) {
        row[i] = combine_elements<op>(row[i], divided(static_cast<Row>(slice[i]), update.divisor));
      }
    }
    std::transform(row.begin(), row.end(), out, [](Row element) { return finish<T>(element); });
  }
}

template <class T>
void step_rows(const SparseUpdate& update) {
  switch (update.op) {
    case ElementOp::add: return step_rows<ElementOp::add, T>(update);
    case ElementOp::sub: return step_rows<ElementOp::sub, T>(update);
    case ElementOp::mul: return step_rows<ElementOp::mul, T>(update);
    case ElementOp::div: return step_rows<ElementOp::div, T>(update);
    case ElementOp::min: return step_rows<ElementOp::min, T>(update);
    case ElementOp::max: return step_rows<ElementOp::max, T>(update);
    case ElementOp::update: break;
  }
}

void copy_rows(const SparseUpdate& update) {
  const std::size_t bytes = static_cast<std::size_t>(update.width) * size_of(update.dtype);
  for (const RowStep& step : update.steps) {
    std::memcpy(static_cast<std::byte*>(update.target) + static_cast<std::size_t>(step.row) * bytes,
                static_cast<const std::byte*>(update.slices) + static_cast<std::size_t>(step.slice) * bytes, bytes);
  }
}

}  // namespace

std::vector<RowStep> steps_by_row(std::span<const std::int64_t> indices) {
  std::vector<RowStep> steps;
  steps.reserve(indices.size());
  for (const std::int64_t index : indices) steps.push_back({index, static_cast<std::int64_t>(steps.size())});
  std::sort(steps.begin(), steps.end(),
            [](const RowStep& a, const RowStep& b) { return a.row != b.row ? a.row < b.row : a.slice < b.slice; });
  return steps;
}

void apply_sparse_update(const SparseUpdate& update) {
  if (update.width == 0) return;
  if (update.op == ElementOp::update) return copy_rows(update);
  visit_dtype(update.dtype, [&]<class T>() {
    if constexpr (std::same_as<T, bool>) {
      LOCKSTEP_CHECK(update.op == ElementOp::update);
    } else {
      step_rows<T>(update);
    }
  });
}

}  // namespace lockstep::detail

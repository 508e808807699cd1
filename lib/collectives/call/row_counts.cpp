// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "collectives/call/row_counts.hpp"

#include "base/check.hpp"
#include "base/phrases.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

namespace lockstep::detail {

RowCounts::RowCounts(std::string_view argument, std::string_view each, std::span<const std::int64_t> counts,
                     std::size_t parts, std::size_t items)
    : counts_(counts), parts_(parts) {
  if (counts.size() != parts && counts.size() != parts * items) {
    throw_error(Code::invalid_argument, "{} has {}; pass {}, one for each {}{}", argument,
                counted(counts.size(), "entry", "entries"), parts, each,
                items <= 1 ? "" : fmt::format(", or {}, if the {} items differ", parts * items, items));
  }
  const auto negative = std::find_if(counts.begin(), counts.end(), [](std::int64_t count) { return count < 0; });
  if (negative != counts.end()) {
    throw_error(Code::invalid_argument, "{}[{}] is {}; a number of rows is at least 0", argument,
                negative - counts.begin(), *negative);
  }
}

PartBegins begins_of(std::string_view argument, std::span<const std::int64_t> rows) {
  PartBegins begins{0};
  begins.reserve(rows.size() + 1);
  for (const std::int64_t count : rows) {
    if (count > std::numeric_limits<std::int64_t>::max() - begins.back()) {
      throw_error(Code::invalid_argument, "{}: the sum of the rows is above 2^63 - 1", argument);
    }
    begins.push_back(begins.back() + count);
  }
  return begins;
}

PartBegins even_begins(int parts) {
  PartBegins begins(static_cast<std::size_t>(parts) + 1);
  std::iota(begins.begin(), begins.end(), 0);
  return begins;
}

Shape row_shape(const Shape& shape) { return Shape(shape.extents().subspan(1)); }

Shape with_rows(std::int64_t rows, const Shape& row) {
  std::array<std::int64_t, Shape::max_rank> extents{rows};
  std::copy(row.extents().begin(), row.extents().end(), extents.begin() + 1);
  return Shape(std::span(extents).first(static_cast<std::size_t>(row.rank()) + 1));
}

}  // namespace lockstep::detail

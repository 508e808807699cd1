// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The numbers of rows that a caller gives where replicas' parts differ in their first extent.

#pragma once

#include <lockstep/core/shape.hpp>

#include "collectives/call/host_item.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace lockstep::detail {

/// Numbers of rows: `parts` for all items together, or for each item, one after the other.
class RowCounts {
 public:
  /// Throws Error(invalid_argument) that names `argument` when there are too many or too few, or one is negative.
  RowCounts(std::string_view argument, std::span<const std::int64_t> counts, std::size_t parts, std::size_t items);
  /// Those of one item.
  [[nodiscard]] std::span<const std::int64_t> of_item(std::size_t item) const {
    return counts_.size() == parts_ ? counts_ : counts_.subspan(item * parts_, parts_);
  }

 private:
  std::span<const std::int64_t> counts_;
  std::size_t parts_;
};

/// Where parts of `rows` begin when they lie one after the other. Throws Error(invalid_argument) that names `argument`
/// when their sum is above 2^63 - 1.
[[nodiscard]] PartBegins begins_of(std::string_view argument, std::span<const std::int64_t> rows);
/// Where `parts` parts of one row each begin.
[[nodiscard]] PartBegins even_begins(int parts);

/// A shape without its first extent, and with another one. Rank 1 at least.
[[nodiscard]] Shape row_shape(const Shape& shape);
[[nodiscard]] Shape with_rows(std::int64_t rows, const Shape& row);

}  // namespace lockstep::detail

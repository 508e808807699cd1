// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The numbers of rows that a caller passes if the parts of the replicas may have different first extents.

#pragma once

#include <lockstep/core/shape.hpp>

#include "collectives/call/host_item.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace lockstep::detail {

/// Numbers of rows: either `parts` numbers, which apply to all items, or `parts` numbers for each item, one item after
/// the other.
class RowCounts {
 public:
  /// Throws Error(invalid_argument), which names `argument`, if `counts` has too many or too few numbers, or if a
  /// number is negative. `each` describes one part in the error text, such as "replica".
  RowCounts(std::string_view argument, std::string_view each, std::span<const std::int64_t> counts, std::size_t parts,
            std::size_t items);
  /// The numbers of one item.
  [[nodiscard]] std::span<const std::int64_t> of_item(std::size_t item) const {
    return counts_.size() == parts_ ? counts_ : counts_.subspan(item * parts_, parts_);
  }

 private:
  std::span<const std::int64_t> counts_;
  std::size_t parts_;
};

/// The first row of each part, and the end of the last part, if part i has `rows[i]` rows and the parts are stored one
/// after the other. Throws Error(invalid_argument), which names `argument`, if the sum of `rows` is above 2^63 - 1.
[[nodiscard]] PartBegins begins_of(std::string_view argument, std::span<const std::int64_t> rows);
/// The same for `parts` parts with one row each.
[[nodiscard]] PartBegins even_begins(int parts);

/// `shape`, which has at least one axis, without its first extent.
[[nodiscard]] Shape row_shape(const Shape& shape);
/// The shape of `rows` rows of shape `row`: first the extent `rows`, then the extents of `row`.
[[nodiscard]] Shape with_rows(std::int64_t rows, const Shape& row);

}  // namespace lockstep::detail

// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Rows that are contiguous in memory, usually in a mapped file, and are accessed only when they are read.

#pragma once

#include "input/row_source.hpp"

#include <lockstep/input/records.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace lockstep::input {

/// Dtype, shape and byte order of a row.
struct RowSpec {
  DType dtype = DType::u8;
  Shape row;
  bool is_swapped = false;  ///< byte order is not this machine's
};

/// Contiguous rows in memory.
struct RowBlock {
  std::shared_ptr<const void> owner;  ///< keeps the bytes alive
  const std::byte* first = nullptr;
  std::int64_t rows = 0;
  RowSpec kind;
};

/// A source of the rows of all blocks; block i belongs to file i. Throws Error(invalid_argument) if the rows of two
/// blocks differ in dtype or shape; the error text begins with `reader` and names the files.
[[nodiscard]] std::shared_ptr<const RowSource> mapped_rows(const char* reader, const FileList& files,
                                                           std::vector<RowBlock> blocks);
/// A dataset of all rows of `source`, in order.
[[nodiscard]] Pipeline pipeline_of(std::shared_ptr<const RowSource> source);

/// Converts elements to this machine's representation: its byte order, and 0 or 1 for bool.
void to_host(std::span<std::byte> elements, DType dtype, bool is_swapped) noexcept;

}  // namespace lockstep::input

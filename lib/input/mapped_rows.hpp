// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Rows that lie one after the other in memory, most often in a mapped file: touched only when they are read.

#pragma once

#include "input/row_source.hpp"

#include <lockstep/input/records.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace lockstep::input {

struct RowSpec {
  DType dtype = DType::u8;
  Shape row;
  bool is_swapped = false;  ///< elements are in the other byte order than this machine's
};

struct RowBlock {
  std::shared_ptr<const void> owner;  ///< of the bytes
  const std::byte* first = nullptr;
  std::int64_t rows = 0;
  RowSpec kind;
};

/// The rows of block i are those of file i. Throws Error(invalid_argument), naming the files and `reader`, when blocks
/// differ in dtype or shape of their rows.
[[nodiscard]] std::shared_ptr<const RowSource> mapped_rows(const char* reader, const FileList& files,
                                                           std::vector<RowBlock> blocks);
/// All rows of `source`, in their order.
[[nodiscard]] Pipeline pipeline_of(std::shared_ptr<const RowSource> source);

/// Makes elements what this machine takes them for: its byte order, and 0 or 1 for bool.
void to_host(std::span<std::byte> elements, DType dtype, bool is_swapped) noexcept;

}  // namespace lockstep::input

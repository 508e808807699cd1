// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Rows of tensors: what they look like, how they are cut out, gathered and stacked.

#pragma once

#include <lockstep/input/pipeline.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace lockstep::input {

/// `shape` behind another first extent `rows`; throws Error(invalid_argument) when that makes too many axes.
[[nodiscard]] Shape with_rows(std::int64_t rows, const Shape& shape);
/// `shape` without its first extent; there must be one.
[[nodiscard]] Shape without_rows(const Shape& shape);
/// `shape` with its first extent replaced by 0; [0] for a scalar.
[[nodiscard]] Shape emptied(const Shape& shape);

/// The first extent that all leaves share. Throws Error(invalid_argument) for a scalar, no leaf, or extents that
/// differ.
[[nodiscard]] std::int64_t common_rows(const Leaves& leaves);

/// Copies rows [first, first + count) of each of `leaves` to new tensors.
void copy_rows(const Leaves& leaves, std::int64_t first, std::int64_t count,
               const std::shared_ptr<MemoryResource>& memory, Leaves& result);

/// New tensors whose row i is row `rows[i]` of the leaf.
void gather_rows(const Leaves& leaves, std::span<const std::int64_t> rows,
                 const std::shared_ptr<MemoryResource>& memory, Leaves& result);

/// New tensors with the rows of all of `parts`, one part after the other; at least one part. Throws
/// Error(invalid_argument) when parts differ in number, dtype or inner shape of their tensors.
void join_rows(std::span<const Leaves> parts, const std::shared_ptr<MemoryResource>& memory, Leaves& result);

/// The same for rows of `bytes` bytes that follow each other in memory, to `target`.
void gather_bytes(const std::byte* source, std::span<const std::int64_t> rows, std::size_t bytes, std::byte* target);

/// Elements become the rows of a new one, one at a time. Memory for them grows with their number, not with what was
/// announced.
class RowStacker {
 public:
  explicit RowStacker(std::shared_ptr<MemoryResource> memory) noexcept : memory_(std::move(memory)) {}

  /// Begins a stack of at most `rows`.
  void start(std::int64_t rows);
  /// Throws Error(invalid_argument) when `element` differs from the first one in number, dtype or shape of its tensors.
  void add(const Leaves& element);
  [[nodiscard]] std::int64_t count() const noexcept { return count_; }
  /// What has been stacked; at least one row.
  void finish(Leaves& result);

 private:
  void reserve(std::int64_t rows);

  std::shared_ptr<MemoryResource> memory_;
  std::int64_t limit_ = 0;
  std::int64_t capacity_ = 64;  // of the last stack too: the next one will be as long
  std::int64_t count_ = 0;
  Leaves stacked_;
};

}  // namespace lockstep::input

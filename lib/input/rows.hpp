// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Rows of tensors: their shapes, and copying, gathering, joining and stacking them.

#pragma once

#include "input/node.hpp"

#include <lockstep/input/pipeline.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace lockstep::input {

/// `shape` with the extent `rows` prepended; throws Error(invalid_argument) if the result has too many axes.
[[nodiscard]] Shape with_rows(std::int64_t rows, const Shape& shape);
/// `shape` without its first extent. `shape` must have at least one axis.
[[nodiscard]] Shape without_rows(const Shape& shape);
/// `shape` with its first extent replaced by 0; [0] for a scalar.
[[nodiscard]] Shape emptied(const Shape& shape);

/// The common first extent of all leaves. Throws Error(invalid_argument) if there are no leaves, if a leaf is a scalar,
/// or if first extents differ; `call` is the prefix of the error text.
[[nodiscard]] std::int64_t common_rows(const Leaves& leaves, const char* call);
/// The same for an element that must be a batch.
[[nodiscard]] std::int64_t common_rows(const Leaves& leaves);
/// The same, but nullopt where common_rows throws.
[[nodiscard]] std::optional<std::int64_t> rows_in(const Leaves& leaves) noexcept;

/// The rows of an element before a function is applied to it.
struct RowsBefore {
  std::int64_t full = not_a_batch;  ///< see Cursor::full_rows
  std::optional<std::int64_t> count;
};

/// Determines Cursor::full_rows of the results of a map, in their order. The full batch of the source holds until a
/// result has another number of rows than the batch that the function got. From then on, a result with the same number
/// of rows could be so by chance, so this and all later results count as full batches of their own.
class RowsAfterMap {
 public:
  [[nodiscard]] std::int64_t next(const RowsBefore& before, const Leaves& result) noexcept;

 private:
  bool have_changed_ = false;
};

/// Copies rows [first, first + count) of each leaf to a new tensor.
void copy_rows(const Leaves& leaves, std::int64_t first, std::int64_t count,
               const std::shared_ptr<MemoryResource>& memory, Leaves& result);

/// Gathers rows of each leaf: row i of the new tensor is row `rows[i]` of the leaf.
void gather_rows(const Leaves& leaves, std::span<const std::int64_t> rows,
                 const std::shared_ptr<MemoryResource>& memory, Leaves& result);

/// Concatenates the rows of `parts`, which must have at least one part. Throws Error(invalid_argument) if parts differ
/// in number, dtype or inner shape of their tensors.
void join_rows(std::span<const Leaves> parts, const std::shared_ptr<MemoryResource>& memory, Leaves& result);

/// Copies the rows with the numbers `rows` to `target`, one after the other. `source` is a contiguous array of rows of
/// `bytes` bytes.
void gather_bytes(const std::byte* source, std::span<const std::int64_t> rows, std::size_t bytes, std::byte* target);

/// Stacks elements, one at a time, as the rows of a new element. Memory grows with the number of added elements, not
/// with the maximum given to `start`.
class RowStacker {
 public:
  explicit RowStacker(std::shared_ptr<MemoryResource> memory) noexcept : memory_(std::move(memory)) {}

  /// Starts a stack of at most `rows` elements.
  void start(std::int64_t rows);
  /// Throws Error(invalid_argument) if `element` differs from the first one in number, dtype or shape of its tensors.
  void add(const Leaves& element);
  [[nodiscard]] std::int64_t count() const noexcept { return count_; }
  /// Returns the stack, which must have at least one row.
  void finish(Leaves& result);

 private:
  void reserve(std::int64_t rows);

  std::shared_ptr<MemoryResource> memory_;
  std::int64_t limit_ = 0;
  std::int64_t capacity_ = 64;  // kept for the next stack, which usually has the same length
  std::int64_t count_ = 0;
  Leaves stacked_;
};

}  // namespace lockstep::input

// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Rows with random access, and the nodes that read them in some order: one by one, or as batches of which only the rows
// that are asked for are touched.

#pragma once

#include "input/node.hpp"
#include "input/row_order.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lockstep::input {

/// Immutable, shared between threads.
class RowSource {
 public:
  RowSource() = default;
  RowSource(const RowSource&) = delete;
  RowSource& operator=(const RowSource&) = delete;
  virtual ~RowSource();
  [[nodiscard]] virtual std::int64_t count() const = 0;
  /// New tensors whose row i is row `rows[i]` of the source; `rows` may be empty if the source is not.
  virtual void gather(std::span<const std::int64_t> rows, const std::shared_ptr<MemoryResource>& memory,
                      Leaves& result) const = 0;
  /// One row as an element.
  virtual void element(std::int64_t row, const std::shared_ptr<MemoryResource>& memory, Leaves& result) const = 0;
  /// The elements of `rows`, one by one.
  virtual void elements(std::span<const std::int64_t> rows, const std::shared_ptr<MemoryResource>& memory,
                        std::span<Leaves> results) const;
  /// The rows of `order`, one after the other, read ahead by threads of its own; null where one thread is enough.
  [[nodiscard]] virtual std::unique_ptr<Cursor> parallel(std::unique_ptr<OrderCursor>& /*order*/,
                                                         const std::shared_ptr<MemoryResource>& /*memory*/) const {
    return nullptr;
  }
  /// As of Node: the files that its rows are from, and only the rows of some of them.
  [[nodiscard]] virtual std::vector<std::string> files() const { return {}; }
  /// Null where there are no files to part.
  [[nodiscard]] virtual std::shared_ptr<const RowSource> of_files(const Part&) const { return nullptr; }
};

struct IndexedRows {
  std::shared_ptr<const RowSource> source;
  std::shared_ptr<const RowOrder> order;
};

[[nodiscard]] std::shared_ptr<const RowSource> slices_source(Leaves tensors);
/// With more than one thread, that many call `transform` at once.
[[nodiscard]] std::shared_ptr<const RowSource> mapped_source(std::shared_ptr<const RowSource> source,
                                                             Pipeline::Transform transform, int threads = 1);
/// Rows that have been read are kept.
[[nodiscard]] std::shared_ptr<const RowSource> cached_source(std::shared_ptr<const RowSource> source);
/// Row i is start + i * step, as an i64 scalar.
[[nodiscard]] std::shared_ptr<const RowSource> range_source(std::int64_t start, std::int64_t step, std::int64_t count);
/// Each row behind its number, an i64 scalar, the first of which is `start`.
[[nodiscard]] std::shared_ptr<const RowSource> enumerated_source(std::shared_ptr<const RowSource> source,
                                                                 std::int64_t start);

/// Elements are single rows.
[[nodiscard]] std::shared_ptr<const Node> indexed_node(IndexedRows rows);
/// Elements are batches of up to `rows_per_batch` rows.
[[nodiscard]] std::shared_ptr<const Node> indexed_batch_node(IndexedRows rows, std::int64_t rows_per_batch,
                                                             bool drop_remainder);

/// Number of batches.
[[nodiscard]] Cardinality batched(Cardinality rows, std::int64_t rows_per_batch, bool drop_remainder) noexcept;
/// Rows in these batches.
[[nodiscard]] Cardinality rows_in_batches(Cardinality rows, std::int64_t rows_per_batch, bool drop_remainder) noexcept;

}  // namespace lockstep::input

// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Sources of rows with random access, and nodes that read rows in a given order. A node returns single rows or batches;
// from a batch, only the requested rows are read.

#pragma once

#include "input/node.hpp"
#include "input/row_order.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lockstep::input {

/// A source of rows with random access. Immutable, shared between threads.
class RowSource {
 public:
  RowSource() = default;
  RowSource(const RowSource&) = delete;
  RowSource& operator=(const RowSource&) = delete;
  virtual ~RowSource();
  [[nodiscard]] virtual std::int64_t count() const = 0;
  /// Returns new tensors whose row i is row `rows[i]` of the source; `rows` may be empty if the source is not empty.
  virtual void gather(std::span<const std::int64_t> rows, const std::shared_ptr<MemoryResource>& memory,
                      Leaves& result) const = 0;
  /// Returns one row as an element.
  virtual void element(std::int64_t row, const std::shared_ptr<MemoryResource>& memory, Leaves& result) const = 0;
  /// Returns the rows `rows` as separate elements.
  virtual void elements(std::span<const std::int64_t> rows, const std::shared_ptr<MemoryResource>& memory,
                        std::span<Leaves> results) const;
  /// If the source uses several threads, moves `order` to a new cursor that reads ahead; otherwise returns null.
  [[nodiscard]] virtual std::unique_ptr<Cursor> parallel(std::unique_ptr<OrderCursor>& /*order*/,
                                                         const std::shared_ptr<MemoryResource>& /*memory*/) const {
    return nullptr;
  }
  /// The files that have the rows; see Node::files().
  [[nodiscard]] virtual std::vector<std::string> files() const { return {}; }
  /// The rows of a part of the files; null if the source does not consist of files.
  [[nodiscard]] virtual std::shared_ptr<const RowSource> of_files(const Part&) const { return nullptr; }
};

/// The rows of a source in an order.
struct IndexedRows {
  std::shared_ptr<const RowSource> source;
  std::shared_ptr<const RowOrder> order;
};

[[nodiscard]] std::shared_ptr<const RowSource> slices_source(Leaves tensors);
/// The rows of `source`, transformed; `threads` threads call `transform` concurrently.
[[nodiscard]] std::shared_ptr<const RowSource> mapped_source(std::shared_ptr<const RowSource> source,
                                                             Pipeline::Transform transform, int threads = 1);
/// The rows of `source`; a row is stored in memory when it is read for the first time.
[[nodiscard]] std::shared_ptr<const RowSource> cached_source(std::shared_ptr<const RowSource> source);
/// Row i is start + i * step, as an i64 scalar.
[[nodiscard]] std::shared_ptr<const RowSource> range_source(std::int64_t start, std::int64_t step, std::int64_t count);
/// The rows of `source`, each with an additional first tensor: its number, an i64 scalar that counts from `start`.
[[nodiscard]] std::shared_ptr<const RowSource> enumerated_source(std::shared_ptr<const RowSource> source,
                                                                 std::int64_t start);

/// A node whose elements are single rows.
[[nodiscard]] std::shared_ptr<const Node> indexed_node(IndexedRows rows);
/// A node whose elements are batches of up to `rows_per_batch` rows.
[[nodiscard]] std::shared_ptr<const Node> indexed_batch_node(IndexedRows rows, std::int64_t rows_per_batch,
                                                             bool drop_remainder);

/// Number of batches of a dataset with `rows` rows.
[[nodiscard]] Cardinality batches_of(Cardinality rows, std::int64_t rows_per_batch, bool drop_remainder) noexcept;
/// Number of rows in all batches of a dataset with `rows` rows.
[[nodiscard]] Cardinality rows_in_batches(Cardinality rows, std::int64_t rows_per_batch, bool drop_remainder) noexcept;

}  // namespace lockstep::input

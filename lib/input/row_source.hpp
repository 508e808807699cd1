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
[[nodiscard]] std::shared_ptr<const RowSource> mapped_source(std::shared_ptr<const RowSource> source,
                                                             Pipeline::Transform transform);

/// Elements are single rows.
[[nodiscard]] std::shared_ptr<const Node> indexed_node(IndexedRows rows);
/// Elements are batches of up to `rows_per_batch` rows.
[[nodiscard]] std::shared_ptr<const Node> indexed_batch_node(IndexedRows rows, std::int64_t rows_per_batch,
                                                             bool drop_remainder);

/// Number of batches.
[[nodiscard]] Cardinality batched(Cardinality rows, std::int64_t rows_per_batch, bool drop_remainder) noexcept;

}  // namespace lockstep::input

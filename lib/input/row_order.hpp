// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// In which order a pass visits the rows of a source: a sequence of row numbers, known without touching a row.

#pragma once

#include "input/node.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace lockstep::input {

class OrderCursor {
 public:
  OrderCursor() = default;
  OrderCursor(const OrderCursor&) = delete;
  OrderCursor& operator=(const OrderCursor&) = delete;
  virtual ~OrderCursor();
  /// Writes the next row numbers; how many: fewer than asked for only at the end.
  [[nodiscard]] virtual std::size_t next(std::span<std::int64_t> rows) = 0;
};

/// Immutable, shared between threads.
class RowOrder {
 public:
  RowOrder() = default;
  RowOrder(const RowOrder&) = delete;
  RowOrder& operator=(const RowOrder&) = delete;
  virtual ~RowOrder();
  [[nodiscard]] virtual std::unique_ptr<OrderCursor> open(std::uint64_t pass) const = 0;
  /// Known or infinite.
  [[nodiscard]] virtual Cardinality cardinality() const = 0;
  [[nodiscard]] virtual bool has_shard_hint() const { return false; }
  /// Whether it is 0, 1, ... to the end of the source.
  [[nodiscard]] virtual bool is_sequential() const { return false; }
  /// The same order of another number of rows, and with its shard hints replaced if `restriction` says by what.
  [[nodiscard]] virtual std::shared_ptr<const RowOrder> restricted(std::int64_t rows,
                                                                   const Restriction& restriction) const = 0;
};

/// 0, 1, ..., rows - 1.
[[nodiscard]] std::shared_ptr<const RowOrder> sequential_order(std::int64_t rows);
/// A permutation of a finite order.
[[nodiscard]] std::shared_ptr<const RowOrder> shuffled_order(std::shared_ptr<const RowOrder> order, std::uint64_t seed,
                                                             bool reshuffle_each_iteration);
[[nodiscard]] std::shared_ptr<const RowOrder> repeated_order(std::shared_ptr<const RowOrder> order, std::int64_t times);
/// Without the first `skip`, and at most `take` of the rest.
[[nodiscard]] std::shared_ptr<const RowOrder> sliced_order(std::shared_ptr<const RowOrder> order, std::int64_t skip,
                                                           std::int64_t take);
/// Every `part.count`-th from number `part.index` on; `part` may be a shard hint.
[[nodiscard]] std::shared_ptr<const RowOrder> sharded_order(std::shared_ptr<const RowOrder> order, const Part& part);
/// As pass 0, in every pass.
[[nodiscard]] std::shared_ptr<const RowOrder> frozen_order(std::shared_ptr<const RowOrder> order);

/// Arithmetic that nodes and orders share. `times` may be Pipeline::forever.
[[nodiscard]] Cardinality repeated(Cardinality once, std::int64_t times);
[[nodiscard]] Cardinality sliced(Cardinality all, std::int64_t skip, std::int64_t take);
[[nodiscard]] Cardinality sharded(Cardinality all, const Part& part);
/// The pass of repetition `k` within pass `pass`: one iteration of 5 repetitions counts as 5 iterations of one.
[[nodiscard]] std::uint64_t inner_pass(std::uint64_t pass, std::int64_t times, std::uint64_t k) noexcept;

}  // namespace lockstep::input

// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The order in which a pass visits the rows of a source: a sequence of row numbers, known without reading a row.

#pragma once

#include "input/node.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace lockstep::input {

/// Pseudo-random numbers that are equal on every rank, compiler and platform. The generator is SplitMix64 (Steele, Lea,
/// Flood 2014): a counter with a mixing function.
class RandomSequence {
 public:
  /// Each pair (seed, pass) gives a different sequence.
  RandomSequence(std::uint64_t seed, std::uint64_t pass) noexcept;

  [[nodiscard]] std::uint64_t next() noexcept;
  /// A uniformly distributed number below `bound`, which is at least 1 (Lemire 2019, with rejection).
  [[nodiscard]] std::uint64_t below(std::uint64_t bound) noexcept;

 private:
  std::uint64_t state_;
};

/// Permutes `values` uniformly at random (Fisher-Yates, from the end).
void permute(std::span<std::int64_t> values, RandomSequence& random) noexcept;

class OrderCursor {
 public:
  OrderCursor() = default;
  OrderCursor(const OrderCursor&) = delete;
  OrderCursor& operator=(const OrderCursor&) = delete;
  virtual ~OrderCursor();
  /// Writes the next row numbers to `rows`, and returns their number, which is less than `rows.size()` only at the end.
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
  /// Whether the order is 0, 1, ... to the end of the source.
  [[nodiscard]] virtual bool is_sequential() const { return false; }
  /// The same order for another number of rows. If `restriction.hinted` is set, it replaces shard hints.
  [[nodiscard]] virtual std::shared_ptr<const RowOrder> restricted(std::int64_t rows,
                                                                   const Restriction& restriction) const = 0;
};

/// 0, 1, ..., rows - 1.
[[nodiscard]] std::shared_ptr<const RowOrder> sequential_order(std::int64_t rows);
/// A random permutation of a finite order.
[[nodiscard]] std::shared_ptr<const RowOrder> shuffled_order(std::shared_ptr<const RowOrder> order, std::uint64_t seed,
                                                             bool reshuffle_each_iteration);
[[nodiscard]] std::shared_ptr<const RowOrder> repeated_order(std::shared_ptr<const RowOrder> order, std::int64_t times);
/// `order` without the first `skip` rows, and at most `take` of the rest.
[[nodiscard]] std::shared_ptr<const RowOrder> sliced_order(std::shared_ptr<const RowOrder> order, std::int64_t skip,
                                                           std::int64_t take);
/// Every `part.count`-th row from position `part.index` on. `part` may be a shard hint (`part.count` is shard_hint).
[[nodiscard]] std::shared_ptr<const RowOrder> sharded_order(std::shared_ptr<const RowOrder> order, const Part& part);
/// The order of pass 0, in every pass.
[[nodiscard]] std::shared_ptr<const RowOrder> frozen_order(std::shared_ptr<const RowOrder> order);

/// Cardinalities of transformations. `times` may be Pipeline::forever.
[[nodiscard]] Cardinality repeated(Cardinality once, std::int64_t times);
[[nodiscard]] Cardinality sliced(Cardinality all, std::int64_t skip, std::int64_t take);
[[nodiscard]] Cardinality sharded(Cardinality all, const Part& part);
/// The source's pass number in repetition `k` of pass `pass`. For example, one pass over a dataset that repeats its
/// source 5 times makes 5 passes over the source.
[[nodiscard]] std::uint64_t inner_pass(std::uint64_t pass, std::int64_t times, std::uint64_t k) noexcept;

}  // namespace lockstep::input

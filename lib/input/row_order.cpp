// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "input/row_order.hpp"

#include "base/check.hpp"
#include "input/stream_nodes.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

namespace lockstep::input {
namespace {

constexpr std::uint64_t golden = 0x9e3779b97f4a7c15U;

constexpr std::uint64_t mix(std::uint64_t value) noexcept {
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31U);
}

__extension__ using Wide = unsigned __int128;

class SequentialOrder final : public RowOrder {
 public:
  explicit SequentialOrder(std::int64_t rows) noexcept : rows_(rows) {}
  [[nodiscard]] Cardinality cardinality() const override { return Cardinality::known(rows_); }
  [[nodiscard]] bool is_sequential() const override { return true; }
  [[nodiscard]] std::unique_ptr<OrderCursor> open(std::uint64_t) const override {
    return std::make_unique<Counting>(rows_);
  }
  [[nodiscard]] std::shared_ptr<const RowOrder> restricted(std::int64_t rows, const Restriction&) const override {
    return sequential_order(rows);
  }

 private:
  class Counting final : public OrderCursor {
   public:
    explicit Counting(std::int64_t end) noexcept : end_(end) {}
    std::size_t next(std::span<std::int64_t> rows) override {
      const std::size_t count = std::min(rows.size(), static_cast<std::size_t>(end_ - at_));
      std::iota(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(count), at_);
      at_ += static_cast<std::int64_t>(count);
      return count;
    }

   private:
    std::int64_t at_ = 0;
    std::int64_t end_;
  };
  std::int64_t rows_;
};

class ShuffledOrder final : public RowOrder {
 public:
  ShuffledOrder(std::shared_ptr<const RowOrder> order, std::uint64_t seed, bool reshuffle)
      : order_(std::move(order)), seed_(seed), reshuffle_(reshuffle) {}
  [[nodiscard]] Cardinality cardinality() const override { return order_->cardinality(); }
  [[nodiscard]] std::unique_ptr<OrderCursor> open(std::uint64_t pass) const override {
    std::vector<std::int64_t> rows(static_cast<std::size_t>(order_->cardinality().count()));
    const std::size_t count = order_->open(pass)->next(rows);
    LOCKSTEP_CHECK(count == rows.size());
    RandomSequence random(seed_, reshuffle_ ? pass : 0);
    permute(rows, random);
    return std::make_unique<Listed>(std::move(rows));
  }
  [[nodiscard]] bool has_shard_hint() const override { return order_->has_shard_hint(); }
  [[nodiscard]] std::shared_ptr<const RowOrder> restricted(std::int64_t rows,
                                                           const Restriction& restriction) const override {
    return shuffled_order(order_->restricted(rows, restriction), seed_, reshuffle_);
  }

 private:
  class Listed final : public OrderCursor {
   public:
    explicit Listed(std::vector<std::int64_t> list) noexcept : list_(std::move(list)) {}
    std::size_t next(std::span<std::int64_t> rows) override {
      const std::size_t count = std::min(rows.size(), list_.size() - at_);
      std::copy_n(list_.begin() + static_cast<std::ptrdiff_t>(at_), count, rows.begin());
      at_ += count;
      return count;
    }

   private:
    std::vector<std::int64_t> list_;
    std::size_t at_ = 0;
  };
  std::shared_ptr<const RowOrder> order_;
  std::uint64_t seed_;
  bool reshuffle_;
};

class RepeatedOrder final : public RowOrder {
 public:
  RepeatedOrder(std::shared_ptr<const RowOrder> order, std::int64_t times) noexcept
      : order_(std::move(order)), times_(times) {}
  [[nodiscard]] Cardinality cardinality() const override { return repeated(order_->cardinality(), times_); }
  [[nodiscard]] std::unique_ptr<OrderCursor> open(std::uint64_t pass) const override {
    return std::make_unique<Repeating>(order_, times_, pass);
  }
  [[nodiscard]] bool has_shard_hint() const override { return order_->has_shard_hint(); }
  [[nodiscard]] std::shared_ptr<const RowOrder> restricted(std::int64_t rows,
                                                           const Restriction& restriction) const override {
    return repeated_order(order_->restricted(rows, restriction), times_);
  }

 private:
  class Repeating final : public OrderCursor {
   public:
    Repeating(std::shared_ptr<const RowOrder> order, std::int64_t times, std::uint64_t pass) noexcept
        : order_(std::move(order)), times_(times), pass_(pass) {}
    std::size_t next(std::span<std::int64_t> rows) override {
      std::size_t count = 0;
      while (count < rows.size()) {
        if (!cursor_ && !start()) break;
        const std::size_t more = cursor_->next(rows.subspan(count));
        empty_ = empty_ && more == 0;
        count += more;
        if (count < rows.size()) cursor_.reset();
      }
      return count;
    }

   private:
    bool start() {
      if (done_ != 0 && empty_) return false;  // the source is empty, so all repetitions are empty
      if (times_ != Pipeline::forever && done_ == static_cast<std::uint64_t>(times_)) return false;
      cursor_ = order_->open(inner_pass(pass_, times_, done_++));
      return true;
    }
    std::shared_ptr<const RowOrder> order_;
    std::int64_t times_;
    std::uint64_t pass_;
    std::uint64_t done_ = 0;
    bool empty_ = true;
    std::unique_ptr<OrderCursor> cursor_;
  };
  std::shared_ptr<const RowOrder> order_;
  std::int64_t times_;
};

class SlicedOrder final : public RowOrder {
 public:
  SlicedOrder(std::shared_ptr<const RowOrder> order, std::int64_t skip, std::int64_t take) noexcept
      : order_(std::move(order)), skip_(skip), take_(take) {}
  [[nodiscard]] Cardinality cardinality() const override { return sliced(order_->cardinality(), skip_, take_); }
  [[nodiscard]] std::unique_ptr<OrderCursor> open(std::uint64_t pass) const override {
    std::unique_ptr<OrderCursor> cursor = order_->open(pass);
    std::array<std::int64_t, 256> skipped{};
    for (auto left = static_cast<std::size_t>(skip_); left > 0;) {
      const std::size_t count = cursor->next(std::span(skipped).first(std::min(left, skipped.size())));
      if (count == 0) break;
      left -= count;
    }
    return std::make_unique<Taking>(std::move(cursor), take_);
  }
  [[nodiscard]] bool has_shard_hint() const override { return order_->has_shard_hint(); }
  [[nodiscard]] std::shared_ptr<const RowOrder> restricted(std::int64_t rows,
                                                           const Restriction& restriction) const override {
    return sliced_order(order_->restricted(rows, restriction), skip_, take_);
  }

 private:
  class Taking final : public OrderCursor {
   public:
    Taking(std::unique_ptr<OrderCursor> cursor, std::int64_t left) noexcept : cursor_(std::move(cursor)), left_(left) {}
    std::size_t next(std::span<std::int64_t> rows) override {
      const std::size_t count = cursor_->next(rows.first(std::min(rows.size(), static_cast<std::size_t>(left_))));
      left_ -= static_cast<std::int64_t>(count);
      return count;
    }

   private:
    std::unique_ptr<OrderCursor> cursor_;
    std::int64_t left_;
  };
  std::shared_ptr<const RowOrder> order_;
  std::int64_t skip_;
  std::int64_t take_;
};

class ShardedOrder final : public RowOrder {
 public:
  ShardedOrder(std::shared_ptr<const RowOrder> order, const Part& part) noexcept
      : order_(std::move(order)), part_(part) {}
  [[nodiscard]] Cardinality cardinality() const override { return sharded(order_->cardinality(), part_); }
  [[nodiscard]] std::unique_ptr<OrderCursor> open(std::uint64_t pass) const override {
    if (part_.count == shard_hint) throw_shard_hint();
    return std::make_unique<Striding>(order_->open(pass), part_);
  }
  [[nodiscard]] bool has_shard_hint() const override { return part_.count == shard_hint || order_->has_shard_hint(); }
  [[nodiscard]] std::shared_ptr<const RowOrder> restricted(std::int64_t rows,
                                                           const Restriction& restriction) const override {
    const bool is_told = part_.count == shard_hint && restriction.hinted;
    return sharded_order(order_->restricted(rows, restriction), is_told ? *restriction.hinted : part_);
  }

 private:
  class Striding final : public OrderCursor {
   public:
    Striding(std::unique_ptr<OrderCursor> cursor, const Part& part) noexcept
        : cursor_(std::move(cursor)), step_(part.count), skip_(part.index) {}
    std::size_t next(std::span<std::int64_t> rows) override {
      std::size_t count = 0;
      while (count < rows.size()) {
        if (at_ == seen_) {
          seen_ = cursor_->next(ahead_);
          at_ = 0;
          if (seen_ == 0) break;
        }
        const auto jump = std::min(static_cast<std::size_t>(skip_), seen_ - at_);
        at_ += jump;
        skip_ -= static_cast<std::int64_t>(jump);
        if (at_ == seen_) continue;
        rows[count++] = ahead_[at_++];
        skip_ = step_ - 1;
      }
      return count;
    }

   private:
    std::unique_ptr<OrderCursor> cursor_;
    std::int64_t step_;
    std::int64_t skip_;  // number of rows to skip before the next row of this shard
    std::array<std::int64_t, 256> ahead_{};
    std::size_t at_ = 0;
    std::size_t seen_ = 0;
  };
  std::shared_ptr<const RowOrder> order_;
  Part part_;
};

class FrozenOrder final : public RowOrder {
 public:
  explicit FrozenOrder(std::shared_ptr<const RowOrder> order) noexcept : order_(std::move(order)) {}
  [[nodiscard]] Cardinality cardinality() const override { return order_->cardinality(); }
  [[nodiscard]] std::unique_ptr<OrderCursor> open(std::uint64_t) const override { return order_->open(0); }
  [[nodiscard]] bool has_shard_hint() const override { return order_->has_shard_hint(); }
  [[nodiscard]] bool is_sequential() const override { return order_->is_sequential(); }
  [[nodiscard]] std::shared_ptr<const RowOrder> restricted(std::int64_t rows,
                                                           const Restriction& restriction) const override {
    return frozen_order(order_->restricted(rows, restriction));
  }

 private:
  std::shared_ptr<const RowOrder> order_;
};

}  // namespace

// Without the outer `mix`, the sequence of pass + 1 would be the sequence of `pass`, shifted by one number.
RandomSequence::RandomSequence(std::uint64_t seed, std::uint64_t pass) noexcept
    : state_(mix(mix(seed + golden) + (pass + 1) * golden)) {}

std::uint64_t RandomSequence::next() noexcept { return mix(state_ += golden); }

std::uint64_t RandomSequence::below(std::uint64_t bound) noexcept {
  Wide product = Wide{next()} * bound;
  if (static_cast<std::uint64_t>(product) < bound) {
    const std::uint64_t rejected = (0 - bound) % bound;
    while (static_cast<std::uint64_t>(product) < rejected) product = Wide{next()} * bound;
  }
  return static_cast<std::uint64_t>(product >> 64U);
}

void permute(std::span<std::int64_t> values, RandomSequence& random) noexcept {
  for (std::size_t left = values.size(); left > 1; --left) {
    std::swap(values[left - 1], values[static_cast<std::size_t>(random.below(left))]);
  }
}

OrderCursor::~OrderCursor() = default;
RowOrder::~RowOrder() = default;

std::shared_ptr<const RowOrder> sequential_order(std::int64_t rows) { return std::make_shared<SequentialOrder>(rows); }

std::shared_ptr<const RowOrder> shuffled_order(std::shared_ptr<const RowOrder> order, std::uint64_t seed,
                                               bool reshuffle_each_iteration) {
  return std::make_shared<ShuffledOrder>(std::move(order), seed, reshuffle_each_iteration);
}

std::shared_ptr<const RowOrder> repeated_order(std::shared_ptr<const RowOrder> order, std::int64_t times) {
  return std::make_shared<RepeatedOrder>(std::move(order), times);
}

std::shared_ptr<const RowOrder> sliced_order(std::shared_ptr<const RowOrder> order, std::int64_t skip,
                                             std::int64_t take) {
  return std::make_shared<SlicedOrder>(std::move(order), skip, take);
}

std::shared_ptr<const RowOrder> sharded_order(std::shared_ptr<const RowOrder> order, const Part& part) {
  return std::make_shared<ShardedOrder>(std::move(order), part);
}

std::shared_ptr<const RowOrder> frozen_order(std::shared_ptr<const RowOrder> order) {
  return std::make_shared<FrozenOrder>(std::move(order));
}

Cardinality repeated(Cardinality once, std::int64_t times) {
  if (times == 0 || (once.is_known() && once.count() == 0)) return Cardinality::known(0);
  if (times == Pipeline::forever) return once.is_unknown() ? once : Cardinality::infinite();
  if (!once.is_known()) return once;
  if (once.count() > std::numeric_limits<std::int64_t>::max() / times) {
    detail::throw_error(Code::invalid_argument, "repeat: {} elements repeated {} times are more than 2^63 - 1",
                        once.count(), times);
  }
  return Cardinality::known(once.count() * times);
}

Cardinality sliced(Cardinality all, std::int64_t skip, std::int64_t take) {
  if (take == 0) return Cardinality::known(0);
  if (all.is_known()) return Cardinality::known(std::min(std::max<std::int64_t>(all.count() - skip, 0), take));
  if (all.is_infinite() && take != std::numeric_limits<std::int64_t>::max()) return Cardinality::known(take);
  return all;
}

Cardinality sharded(Cardinality all, const Part& part) {
  if (!all.is_known()) return all;
  if (part.count == shard_hint) return Cardinality::unknown();
  const std::int64_t rest = std::max<std::int64_t>(all.count() - part.index, 0);
  return Cardinality::known(rest / part.count + (rest % part.count != 0 ? 1 : 0));
}

std::uint64_t inner_pass(std::uint64_t pass, std::int64_t times, std::uint64_t k) noexcept {
  return times == Pipeline::forever ? (pass << 32U) + k : pass * static_cast<std::uint64_t>(times) + k;
}

}  // namespace lockstep::input

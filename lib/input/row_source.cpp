// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "input/row_source.hpp"

#include "input/parallel.hpp"
#include "input/rows.hpp"
#include "input/stream_nodes.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace lockstep::input {
namespace {

class SlicesSource final : public RowSource {
 public:
  explicit SlicesSource(Leaves tensors)
      : tensors_(std::move(tensors)), count_(common_rows(tensors_, "from_tensor_slices")) {}
  [[nodiscard]] std::int64_t count() const override { return count_; }
  void gather(std::span<const std::int64_t> rows, const std::shared_ptr<MemoryResource>& memory,
              Leaves& result) const override {
    gather_rows(tensors_, rows, memory, result);
  }
  void element(std::int64_t row, const std::shared_ptr<MemoryResource>& memory, Leaves& result) const override {
    copy_rows(tensors_, row, 1, memory, result);
    for (Tensor& leaf : result) leaf = leaf.reshaped(without_rows(leaf.shape()));
  }

 private:
  Leaves tensors_;
  std::int64_t count_;
};

class MappedSource final : public RowSource, public std::enable_shared_from_this<MappedSource> {
 public:
  MappedSource(std::shared_ptr<const RowSource> source, Pipeline::Transform transform, int threads)
      : source_(std::move(source)), transform_(std::move(transform)), threads_(threads) {}
  [[nodiscard]] std::int64_t count() const override { return source_->count(); }
  void gather(std::span<const std::int64_t> rows, const std::shared_ptr<MemoryResource>& memory,
              Leaves& result) const override {
    if (rows.empty()) {
      Leaves mapped;
      element(0, memory, mapped);  // only the dtypes and shapes of `mapped` are used
      result.clear();
      for (const Tensor& leaf : mapped) result.emplace_back(leaf.dtype(), with_rows(0, leaf.shape()), memory);
      return;
    }
    RowStacker stacker(memory);
    stacker.start(static_cast<std::int64_t>(rows.size()));
    std::vector<Leaves> some(std::min(rows.size(), rows_at_once * static_cast<std::size_t>(threads_)));
    for (std::size_t at = 0; at < rows.size(); at += some.size()) {
      const auto part = rows.subspan(at, std::min(some.size(), rows.size() - at));
      elements(part, memory, some);
      for (std::size_t i = 0; i < part.size(); ++i) stacker.add(some[i]);
    }
    stacker.finish(result);
  }
  void element(std::int64_t row, const std::shared_ptr<MemoryResource>& memory, Leaves& result) const override {
    Leaves plain;
    source_->element(row, memory, plain);
    result = transform_(std::move(plain), memory);
  }
  void elements(std::span<const std::int64_t> rows, const std::shared_ptr<MemoryResource>& memory,
                std::span<Leaves> results) const override {
    if (threads_ > 1) {
      in_parallel(rows.size(), threads_, [&](std::size_t i) { element(rows[i], memory, results[i]); });
      return;
    }
    source_->elements(rows, memory, results);
    for (std::size_t i = 0; i < rows.size(); ++i) results[i] = transform_(std::move(results[i]), memory);
  }
  [[nodiscard]] std::unique_ptr<Cursor> parallel(std::unique_ptr<OrderCursor>& order,
                                                 const std::shared_ptr<MemoryResource>& memory) const override {
    if (threads_ > 1) {
      auto next = [self = shared_from_this(), rows = std::shared_ptr<OrderCursor>(std::move(order)),
                   memory]() -> std::optional<Job> {
        std::int64_t row = 0;
        if (rows->next(std::span(&row, 1)) == 0) return std::nullopt;
        return Job{[self, row, memory](Leaves& result) { self->element(row, memory, result); }};
      };
      return parallel_cursor(std::move(next), threads_, memory);
    }
    std::unique_ptr<Cursor> plain = source_->parallel(order, memory);
    return plain ? map_cursor(std::move(plain), transform_, memory) : nullptr;
  }
  [[nodiscard]] std::vector<std::string> files() const override { return source_->files(); }
  [[nodiscard]] std::shared_ptr<const RowSource> of_files(const Part& part) const override {
    std::shared_ptr<const RowSource> fewer = source_->of_files(part);
    return fewer ? mapped_source(std::move(fewer), transform_, threads_) : nullptr;
  }

 private:
  static constexpr std::size_t rows_at_once = 64;  // per thread; few enough for the processor's cache
  std::shared_ptr<const RowSource> source_;
  Pipeline::Transform transform_;
  int threads_;
};

/// The part of `rows` that `restriction` selects; nullopt if the source cannot be restricted to a part of its files.
std::optional<IndexedRows> restricted_rows(const IndexedRows& rows, const Restriction& restriction) {
  std::shared_ptr<const RowSource> source = rows.source;
  if (restriction.files) source = source->of_files(*restriction.files);
  if (!source) return std::nullopt;
  const std::int64_t count = source->count();
  return IndexedRows{std::move(source), rows.order->restricted(count, restriction)};
}

class IndexedCursor final : public Cursor {
 public:
  IndexedCursor(std::shared_ptr<const RowSource> source, std::unique_ptr<OrderCursor> order,
                std::shared_ptr<MemoryResource> memory) noexcept
      : source_(std::move(source)), order_(std::move(order)), memory_(std::move(memory)) {}
  bool advance() override { return order_->next(std::span(&row_, 1)) == 1; }
  void read(Leaves& element) override { source_->element(row_, memory_, element); }
  std::int64_t rows() override {
    Leaves element;
    read(element);
    return common_rows(element);
  }
  void read_rows(std::int64_t first, std::int64_t count, Leaves& element) override {
    Leaves whole;
    read(whole);
    copy_rows(whole, first, count, memory_, element);
  }

 private:
  std::shared_ptr<const RowSource> source_;
  std::unique_ptr<OrderCursor> order_;
  std::shared_ptr<MemoryResource> memory_;
  std::int64_t row_ = 0;
};

class IndexedNode final : public Node {
 public:
  explicit IndexedNode(IndexedRows rows) noexcept : rows_(std::move(rows)) {}
  [[nodiscard]] std::unique_ptr<Cursor> open(const PassOptions& options) const override {
    std::unique_ptr<OrderCursor> order = rows_.order->open(options.pass);
    if (std::unique_ptr<Cursor> ahead = rows_.source->parallel(order, options.memory)) return ahead;
    return std::make_unique<IndexedCursor>(rows_.source, std::move(order), options.memory);
  }
  [[nodiscard]] Cardinality cardinality() const override { return rows_.order->cardinality(); }
  [[nodiscard]] const IndexedRows* indexed() const noexcept override { return &rows_; }
  [[nodiscard]] std::vector<std::string> files() const override { return rows_.source->files(); }
  [[nodiscard]] bool has_shard_hint() const override { return rows_.order->has_shard_hint(); }
  [[nodiscard]] std::shared_ptr<const Node> restricted(const Restriction& restriction) const override {
    std::optional<IndexedRows> fewer = restricted_rows(rows_, restriction);
    return fewer ? indexed_node(std::move(*fewer)) : Node::restricted(restriction);
  }

 private:
  IndexedRows rows_;
};

class IndexedBatchCursor final : public Cursor {
 public:
  /// `buffered` is rows_per_batch, or less if the dataset has fewer rows.
  IndexedBatchCursor(const IndexedRows& rows, std::int64_t rows_per_batch, std::int64_t buffered, bool drop_remainder,
                     const PassOptions& options)
      : source_(rows.source),
        order_(rows.order->open(options.pass)),
        memory_(options.memory),
        full_rows_(rows_per_batch),
        rows_(static_cast<std::size_t>(buffered)),
        drop_remainder_(drop_remainder) {}
  bool advance() override {
    const std::size_t count = order_->next(rows_);
    if (count < rows_.size() && drop_remainder_) return false;
    rows_.resize(count);  // less than rows_per_batch only for the last batch
    return count > 0;
  }
  void read(Leaves& element) override { source_->gather(rows_, memory_, element); }
  std::int64_t rows() override { return static_cast<std::int64_t>(rows_.size()); }
  [[nodiscard]] std::int64_t full_rows() const override { return full_rows_; }
  void read_rows(std::int64_t first, std::int64_t count, Leaves& element) override {
    const auto part = std::span(rows_).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
    source_->gather(part, memory_, element);
  }

 private:
  std::shared_ptr<const RowSource> source_;
  std::unique_ptr<OrderCursor> order_;
  std::shared_ptr<MemoryResource> memory_;
  std::int64_t full_rows_;
  std::vector<std::int64_t> rows_;
  bool drop_remainder_;
};

class IndexedBatchNode final : public Node {
 public:
  IndexedBatchNode(IndexedRows rows, std::int64_t rows_per_batch, bool drop_remainder) noexcept
      : rows_(std::move(rows)), rows_per_batch_(rows_per_batch), drop_remainder_(drop_remainder) {}
  [[nodiscard]] std::unique_ptr<Cursor> open(const PassOptions& options) const override {
    // do not allocate a list of row numbers that is longer than the data
    const Cardinality all = rows_.order->cardinality();
    const std::int64_t largest =
        all.is_known() && !drop_remainder_ ? std::max<std::int64_t>(all.count(), 1) : rows_per_batch_;
    if (drop_remainder_ && all.is_known() && all.count() < rows_per_batch_)
      return std::make_unique<NoBatch>(options.memory);
    return std::make_unique<IndexedBatchCursor>(rows_, rows_per_batch_, std::min(rows_per_batch_, largest),
                                                drop_remainder_, options);
  }
  [[nodiscard]] Cardinality cardinality() const override {
    return batches_of(rows_.order->cardinality(), rows_per_batch_, drop_remainder_);
  }
  [[nodiscard]] Batched batched() const override { return Batched::yes; }
  [[nodiscard]] std::int64_t batch_size() const override { return rows_per_batch_; }
  [[nodiscard]] bool has_full_batches() const override { return drop_remainder_; }
  [[nodiscard]] Cardinality row_count() const override {
    return rows_in_batches(rows_.order->cardinality(), rows_per_batch_, drop_remainder_);
  }
  [[nodiscard]] bool reads_single_rows() const override { return true; }
  [[nodiscard]] std::vector<std::string> files() const override { return rows_.source->files(); }
  [[nodiscard]] bool has_shard_hint() const override { return rows_.order->has_shard_hint(); }
  [[nodiscard]] std::shared_ptr<const Node> restricted(const Restriction& restriction) const override {
    std::optional<IndexedRows> fewer = restricted_rows(rows_, restriction);
    return fewer ? indexed_batch_node(std::move(*fewer), rows_per_batch_, drop_remainder_)
                 : Node::restricted(restriction);
  }

 private:
  class NoBatch final : public WholeCursor {
   public:
    using WholeCursor::WholeCursor;
    bool advance() override { return false; }
  };
  IndexedRows rows_;
  std::int64_t rows_per_batch_;
  bool drop_remainder_;
};

}  // namespace

RowSource::~RowSource() = default;

void RowSource::elements(std::span<const std::int64_t> rows, const std::shared_ptr<MemoryResource>& memory,
                         std::span<Leaves> results) const {
  for (std::size_t i = 0; i < rows.size(); ++i) element(rows[i], memory, results[i]);
}

std::shared_ptr<const RowSource> slices_source(Leaves tensors) {
  return std::make_shared<SlicesSource>(std::move(tensors));
}

std::shared_ptr<const RowSource> mapped_source(std::shared_ptr<const RowSource> source, Pipeline::Transform transform,
                                               int threads) {
  return std::make_shared<MappedSource>(std::move(source), std::move(transform), threads);
}

std::shared_ptr<const Node> indexed_node(IndexedRows rows) { return std::make_shared<IndexedNode>(std::move(rows)); }

std::shared_ptr<const Node> indexed_batch_node(IndexedRows rows, std::int64_t rows_per_batch, bool drop_remainder) {
  return std::make_shared<IndexedBatchNode>(std::move(rows), rows_per_batch, drop_remainder);
}

Cardinality batches_of(Cardinality rows, std::int64_t rows_per_batch, bool drop_remainder) noexcept {
  if (!rows.is_known()) return rows;
  const bool partial = !drop_remainder && rows.count() % rows_per_batch != 0;
  return Cardinality::known(rows.count() / rows_per_batch + (partial ? 1 : 0));
}

Cardinality rows_in_batches(Cardinality rows, std::int64_t rows_per_batch, bool drop_remainder) noexcept {
  return rows.is_known() && drop_remainder ? Cardinality::known(rows.count() - rows.count() % rows_per_batch) : rows;
}

}  // namespace lockstep::input

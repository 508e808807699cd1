// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Nodes that select, split or number elements of a stream: filter, unbatch, shard, enumerate.

#include "base/check.hpp"
#include "input/row_order.hpp"
#include "input/rows.hpp"
#include "input/stream_nodes.hpp"

#include <utility>

namespace lockstep::input {
namespace {

class FilterCursor final : public WholeCursor {
 public:
  FilterCursor(std::unique_ptr<Cursor> source, Pipeline::Predicate keep, std::shared_ptr<MemoryResource> memory)
      : WholeCursor(std::move(memory)), source_(std::move(source)), keep_(std::move(keep)) {}
  bool advance() override {
    while (source_->advance()) {
      source_->read(present_);
      if (!keep_(present_)) continue;
      full_rows_ = source_->full_rows();
      return true;
    }
    return false;
  }

 private:
  std::unique_ptr<Cursor> source_;
  Pipeline::Predicate keep_;
};

class FilterNode final : public TransformNode {
 public:
  FilterNode(NodePointer source, Pipeline::Predicate keep) noexcept
      : TransformNode(std::move(source)), keep_(std::move(keep)) {}
  [[nodiscard]] std::unique_ptr<Cursor> open(const PassOptions& options) const override {
    return std::make_unique<FilterCursor>(source_->open(options), keep_, options.memory);
  }
  [[nodiscard]] Cardinality cardinality() const override {
    const Cardinality all = source_->cardinality();
    return all == Cardinality::known(0) ? all : Cardinality::unknown();
  }

 private:
  [[nodiscard]] NodePointer with_source(NodePointer source) const override {
    return filter_node(std::move(source), keep_);
  }
  Pipeline::Predicate keep_;
};

class UnbatchCursor final : public WholeCursor {
 public:
  UnbatchCursor(std::unique_ptr<Cursor> source, std::shared_ptr<MemoryResource> memory) noexcept
      : WholeCursor(std::move(memory)), source_(std::move(source)) {}
  bool advance() override {
    while (row_ == rows_of_batch_) {
      if (!source_->advance()) return false;
      source_->read(batch_);
      rows_of_batch_ = common_rows(batch_, "unbatch");
      row_ = 0;
    }
    copy_rows(batch_, row_++, 1, memory_, present_);
    for (Tensor& leaf : present_) leaf = leaf.reshaped(without_rows(leaf.shape()));
    return true;
  }

 private:
  std::unique_ptr<Cursor> source_;
  Leaves batch_;
  std::int64_t rows_of_batch_ = 0;
  std::int64_t row_ = 0;
};

class UnbatchNode final : public TransformNode {
 public:
  using TransformNode::TransformNode;
  [[nodiscard]] std::unique_ptr<Cursor> open(const PassOptions& options) const override {
    return std::make_unique<UnbatchCursor>(source_->open(options), options.memory);
  }
  [[nodiscard]] Cardinality cardinality() const override {
    const Cardinality batches = source_->cardinality();
    return batches == Cardinality::known(0) ? batches : Cardinality::unknown();
  }
  [[nodiscard]] Batched batched() const override { return Batched::no; }
  [[nodiscard]] std::int64_t batch_size() const override { return 0; }

 private:
  [[nodiscard]] NodePointer with_source(NodePointer source) const override { return unbatch_node(std::move(source)); }
};

class ShardCursor final : public ForwardingCursor {
 public:
  ShardCursor(std::unique_ptr<Cursor> source, const Part& part) noexcept
      : ForwardingCursor(std::move(source)), step_(part.count), skip_(part.index) {}
  bool advance() override {
    for (; skip_ > 0; --skip_) {
      if (!source_->advance()) return false;
    }
    skip_ = step_ - 1;
    return source_->advance();
  }

 private:
  std::int64_t step_;
  std::int64_t skip_;
};

class ShardNode final : public TransformNode {
 public:
  ShardNode(NodePointer source, const Part& part) noexcept : TransformNode(std::move(source)), part_(part) {}
  [[nodiscard]] std::unique_ptr<Cursor> open(const PassOptions& options) const override {
    if (part_.count == shard_hint) throw_shard_hint();
    return std::make_unique<ShardCursor>(source_->open(options), part_);
  }
  [[nodiscard]] Cardinality cardinality() const override { return sharded(source_->cardinality(), part_); }
  [[nodiscard]] bool has_shard_hint() const override { return part_.count == shard_hint || source_->has_shard_hint(); }
  [[nodiscard]] NodePointer restricted(const Restriction& restriction) const override {
    const bool is_told = part_.count == shard_hint && restriction.hinted;
    return shard_node(source_->restricted(restriction), is_told ? *restriction.hinted : part_);
  }

 private:
  [[nodiscard]] NodePointer with_source(NodePointer source) const override {
    return shard_node(std::move(source), part_);
  }
  Part part_;
};

class EnumerateCursor final : public WholeCursor {
 public:
  EnumerateCursor(std::unique_ptr<Cursor> source, std::int64_t start, std::shared_ptr<MemoryResource> memory) noexcept
      : WholeCursor(std::move(memory)), source_(std::move(source)), next_(start) {}
  bool advance() override {
    if (!source_->advance()) return false;
    Leaves element;
    source_->read(element);
    Tensor number = Tensor::uninitialized(DType::i64, Shape{}, memory_);
    number.elements<std::int64_t>().front() = next_++;
    present_.assign(1, number);
    present_.insert(present_.end(), element.begin(), element.end());
    return true;
  }

 private:
  std::unique_ptr<Cursor> source_;
  std::int64_t next_;
};

class EnumerateNode final : public TransformNode {
 public:
  EnumerateNode(NodePointer source, std::int64_t start) noexcept : TransformNode(std::move(source)), start_(start) {}
  [[nodiscard]] std::unique_ptr<Cursor> open(const PassOptions& options) const override {
    return std::make_unique<EnumerateCursor>(source_->open(options), start_, options.memory);
  }
  [[nodiscard]] Batched batched() const override { return Batched::no; }
  [[nodiscard]] std::int64_t batch_size() const override { return 0; }

 private:
  [[nodiscard]] NodePointer with_source(NodePointer source) const override {
    return enumerate_node(std::move(source), start_);
  }
  std::int64_t start_;
};

}  // namespace

NodePointer enumerate_node(NodePointer source, std::int64_t start) {
  return std::make_shared<EnumerateNode>(std::move(source), start);
}

NodePointer filter_node(NodePointer source, Pipeline::Predicate keep) {
  return std::make_shared<FilterNode>(std::move(source), std::move(keep));
}

NodePointer unbatch_node(NodePointer source) { return std::make_shared<UnbatchNode>(std::move(source)); }

NodePointer shard_node(NodePointer source, const Part& part) {
  return std::make_shared<ShardNode>(std::move(source), part);
}

void throw_shard_hint() {
  detail::throw_error(
      Code::failed_precondition,
      "shard(shard_hint, shard_hint): the dataset is read, but it has not been distributed with auto_shard_policy "
      "HINT; distribute it so, or pass numbers to shard");
}

}  // namespace lockstep::input

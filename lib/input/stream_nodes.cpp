// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "input/stream_nodes.hpp"

#include "base/check.hpp"
#include "input/row_order.hpp"
#include "input/row_source.hpp"
#include "input/rows.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace lockstep::input {
namespace {

class GeneratorCursor final : public WholeCursor {
 public:
  GeneratorCursor(Pipeline::Generator generate, std::shared_ptr<MemoryResource> memory)
      : WholeCursor(std::move(memory)), generate_(std::move(generate)) {
    full_rows_ = own_rows;
  }
  bool advance() override { return generate_(present_); }

 private:
  Pipeline::Generator generate_;
};

class GeneratorNode final : public Node {
 public:
  explicit GeneratorNode(Pipeline::MakeGenerator make) noexcept : make_(std::move(make)) {}
  [[nodiscard]] std::unique_ptr<Cursor> open(const PassOptions& options) const override {
    return std::make_unique<GeneratorCursor>(make_(), options.memory);
  }
  [[nodiscard]] Cardinality cardinality() const override { return Cardinality::unknown(); }
  [[nodiscard]] Batched batched() const override { return Batched::unknown; }
  [[nodiscard]] bool keeps_rows() const override { return false; }

 private:
  Pipeline::MakeGenerator make_;
};

class BatchCursor final : public WholeCursor {
 public:
  BatchCursor(std::unique_ptr<Cursor> source, std::int64_t rows, bool drop_remainder, const PassOptions& options)
      : WholeCursor(options.memory),
        source_(std::move(source)),
        stacker_(options.memory),
        batch_rows_(rows),
        drop_remainder_(drop_remainder) {
    full_rows_ = rows;
  }
  bool advance() override {
    Leaves element;
    stacker_.start(batch_rows_);
    while (!ended_ && stacker_.count() < batch_rows_) {
      ended_ = !source_->advance();
      if (ended_) break;
      source_->read(element);
      stacker_.add(element);
    }
    if (stacker_.count() == 0 || (stacker_.count() < batch_rows_ && drop_remainder_)) return false;
    stacker_.finish(present_);
    return true;
  }

 private:
  std::unique_ptr<Cursor> source_;
  RowStacker stacker_;
  std::int64_t batch_rows_;
  bool drop_remainder_;
  bool ended_ = false;
};

class BatchNode final : public TransformNode {
 public:
  BatchNode(NodePointer source, std::int64_t rows, bool drop_remainder) noexcept
      : TransformNode(std::move(source)), rows_(rows), drop_remainder_(drop_remainder) {}
  [[nodiscard]] std::unique_ptr<Cursor> open(const PassOptions& options) const override {
    return std::make_unique<BatchCursor>(source_->open(options), rows_, drop_remainder_, options);
  }
  [[nodiscard]] Cardinality cardinality() const override {
    return batches_of(source_->cardinality(), rows_, drop_remainder_);
  }
  [[nodiscard]] Batched batched() const override { return Batched::yes; }
  [[nodiscard]] std::int64_t batch_size() const override { return rows_; }
  [[nodiscard]] bool keeps_rows() const override { return true; }
  [[nodiscard]] bool has_full_batches() const override { return drop_remainder_; }
  [[nodiscard]] Cardinality row_count() const override {
    return rows_in_batches(source_->cardinality(), rows_, drop_remainder_);
  }

 private:
  [[nodiscard]] NodePointer with_source(NodePointer source) const override {
    return std::make_shared<BatchNode>(std::move(source), rows_, drop_remainder_);
  }
  std::int64_t rows_;
  bool drop_remainder_;
};

class RepeatCursor final : public ForwardingCursor {
 public:
  RepeatCursor(NodePointer node, std::int64_t times, PassOptions options) noexcept
      : ForwardingCursor(nullptr), node_(std::move(node)), times_(times), options_(std::move(options)) {}
  bool advance() override {
    for (;;) {
      if (source_ && source_->advance()) {
        empty_ = false;
        return true;
      }
      if (source_ && empty_) return false;  // the source is empty, so all repetitions are empty
      if (times_ != Pipeline::forever && done_ == static_cast<std::uint64_t>(times_)) return false;
      PassOptions inner = options_;
      inner.pass = inner_pass(options_.pass, times_, done_++);
      source_.reset();
      source_ = node_->open(inner);
    }
  }

 private:
  NodePointer node_;
  std::int64_t times_;
  PassOptions options_;
  std::uint64_t done_ = 0;
  bool empty_ = true;
};

class RepeatNode final : public TransformNode {
 public:
  RepeatNode(NodePointer source, std::int64_t times) noexcept : TransformNode(std::move(source)), times_(times) {}
  [[nodiscard]] std::unique_ptr<Cursor> open(const PassOptions& options) const override {
    return std::make_unique<RepeatCursor>(source_, times_, options);
  }
  [[nodiscard]] bool reads_single_rows() const override { return source_->reads_single_rows(); }
  [[nodiscard]] Cardinality cardinality() const override { return repeated(source_->cardinality(), times_); }

 private:
  [[nodiscard]] NodePointer with_source(NodePointer source) const override {
    return std::make_shared<RepeatNode>(std::move(source), times_);
  }
  std::int64_t times_;
};

class SliceCursor final : public ForwardingCursor {
 public:
  SliceCursor(std::unique_ptr<Cursor> source, std::int64_t skip, std::int64_t take) noexcept
      : ForwardingCursor(std::move(source)), skip_(skip), take_(take) {}
  bool advance() override {
    if (take_ == 0) return false;
    for (; skip_ > 0; --skip_) {
      if (!source_->advance()) return false;
    }
    --take_;
    return source_->advance();
  }

 private:
  std::int64_t skip_;
  std::int64_t take_;
};

class SliceNode final : public TransformNode {
 public:
  SliceNode(NodePointer source, std::int64_t skip, std::int64_t take) noexcept
      : TransformNode(std::move(source)), skip_(skip), take_(take) {}
  [[nodiscard]] std::unique_ptr<Cursor> open(const PassOptions& options) const override {
    return std::make_unique<SliceCursor>(source_->open(options), skip_, take_);
  }
  [[nodiscard]] bool reads_single_rows() const override { return source_->reads_single_rows(); }
  [[nodiscard]] Cardinality cardinality() const override { return sliced(source_->cardinality(), skip_, take_); }

 private:
  [[nodiscard]] NodePointer with_source(NodePointer source) const override {
    return std::make_shared<SliceNode>(std::move(source), skip_, take_);
  }
  std::int64_t skip_;
  std::int64_t take_;
};

class BufferedShuffleCursor final : public WholeCursor {
 public:
  BufferedShuffleCursor(std::unique_ptr<Cursor> source, std::size_t buffer_elements, RandomSequence random,
                        std::shared_ptr<MemoryResource> memory)
      : WholeCursor(std::move(memory)),
        source_(std::move(source)),
        buffer_elements_(buffer_elements),
        random_(random) {}
  bool advance() override {
    while (!ended_ && buffer_.size() < buffer_elements_) {
      ended_ = !source_->advance();
      if (ended_) break;
      BufferedElement& element = buffer_.emplace_back();
      source_->read(element.tensors);
      element.full_rows = source_->full_rows();
    }
    if (buffer_.empty()) return false;
    std::swap(buffer_[static_cast<std::size_t>(random_.below(buffer_.size()))], buffer_.back());
    set_present(std::move(buffer_.back()));
    buffer_.pop_back();
    return true;
  }

 private:
  std::unique_ptr<Cursor> source_;
  std::size_t buffer_elements_;
  RandomSequence random_;
  std::vector<BufferedElement> buffer_;
  bool ended_ = false;
};

class BufferedShuffleNode final : public TransformNode {
 public:
  BufferedShuffleNode(NodePointer source, std::uint64_t seed, const ShuffleOptions& options) noexcept
      : TransformNode(std::move(source)), seed_(seed), options_(options) {}
  [[nodiscard]] std::unique_ptr<Cursor> open(const PassOptions& options) const override {
    const RandomSequence random(seed_, options_.reshuffle_each_iteration ? options.pass : 0);
    return std::make_unique<BufferedShuffleCursor>(source_->open(options), options_.buffer_elements, random,
                                                   options.memory);
  }

 private:
  [[nodiscard]] NodePointer with_source(NodePointer source) const override {
    return std::make_shared<BufferedShuffleNode>(std::move(source), seed_, options_);
  }
  std::uint64_t seed_;
  ShuffleOptions options_;
};

}  // namespace

NodePointer generator_node(Pipeline::MakeGenerator make) { return std::make_shared<GeneratorNode>(std::move(make)); }

NodePointer batch_node(NodePointer source, std::int64_t rows, bool drop_remainder) {
  return std::make_shared<BatchNode>(std::move(source), rows, drop_remainder);
}

NodePointer repeat_node(NodePointer source, std::int64_t times) {
  return std::make_shared<RepeatNode>(std::move(source), times);
}

NodePointer slice_node(NodePointer source, std::int64_t skip, std::int64_t take) {
  return std::make_shared<SliceNode>(std::move(source), skip, take);
}

NodePointer buffered_shuffle_node(NodePointer source, std::uint64_t seed, const ShuffleOptions& options) {
  return std::make_shared<BufferedShuffleNode>(std::move(source), seed, options);
}

}  // namespace lockstep::input

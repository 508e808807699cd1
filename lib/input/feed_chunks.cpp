// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Replica r takes chunk r of each global batch. Every rank walks the same batches and reads its own rows of them.

#include "base/check.hpp"
#include "input/feed_implementation.hpp"
#include "input/recycling_memory.hpp"
#include "input/split.hpp"

#include <utility>

namespace lockstep::input {
namespace {

/// Runs `read`; when it throws, the peers are told.
template <class Read>
auto telling_peers(const InputLayout& layout, Read&& read) {
  try {
    return read();
  } catch (...) {
    if (layout.peers) tell_peers(*layout.peers, std::current_exception());
    throw;
  }
}

class ChunkFeed final : public Feed::Implementation {
 public:
  ChunkFeed(const Node& node, InputLayout layout, const InputOptions& options, ReadingPosition position)
      : layout_(std::move(layout)),
        split_(options.split),
        full_batch_(node.batch_size()),
        cursor_(node.open({position.pass, recycling_memory()})),
        passed_over_(position.step),
        queue_(options.prefetch_batches, [this](StepBatches& step) { return produce(step); }) {}

 private:
  bool do_next(StepBatches& batches) override {
    return telling_peers(layout_, [&] { return queue_.pop(batches); });
  }
  [[nodiscard]] std::chrono::steady_clock::duration waited() const noexcept override { return queue_.waited(); }

  bool produce(StepBatches& step) {
    for (; passed_over_ > 0; --passed_over_) {
      if (!cursor_->advance()) return false;
    }
    if (!cursor_->advance()) return false;
    const std::int64_t rows = cursor_->rows();
    const ReplicaLayout& replicas = layout_.replicas;
    step.resize(static_cast<std::size_t>(replicas.count(layout_.rank)));
    int replica = replicas.first(layout_.rank);
    for (Leaves& batch : step) {
      const RowRange chunk = chunk_of(split_, full_batch_, rows, replicas.replicas(), replica++);
      cursor_->read_rows(chunk.first, chunk.count, batch);
    }
    return true;
  }

  InputLayout layout_;
  SplitPolicy split_;
  std::int64_t full_batch_;
  std::unique_ptr<Cursor> cursor_;  // the queue's thread's
  std::uint64_t passed_over_;       // the queue's thread's: batches before the first one that is given
  StepQueue queue_;
};

class ChunkSource final : public FeedSource::Implementation {
 public:
  ChunkSource(std::shared_ptr<const Node> node, InputLayout layout, const InputOptions& options)
      : Implementation(layout.replicas.first(layout.rank), layout.replicas.count(layout.rank)),
        node_(std::move(node)),
        layout_(std::move(layout)),
        options_(options) {}

 private:
  [[nodiscard]] std::unique_ptr<Feed::Implementation> do_open(ReadingPosition position) override {
    return telling_peers(layout_, [&] { return std::make_unique<ChunkFeed>(*node_, layout_, options_, position); });
  }

  std::shared_ptr<const Node> node_;
  InputLayout layout_;
  InputOptions options_;
};

}  // namespace

FeedSource feed_chunks(const Pipeline& global, const InputLayout& layout, const InputOptions& options) {
  check_options(options);
  if (layout.rank < 0 || layout.rank >= layout.replicas.ranks()) {
    detail::throw_error(Code::invalid_argument, "distribute: there is no rank {} in the layout {}", layout.rank,
                        to_string(layout.replicas));
  }
  if (!global.batch_size()) {
    detail::throw_error(Code::invalid_argument,
                        "distribute: the dataset is not batched, so there is nothing to split among {} replicas; call "
                        "batch(global_batch_size) on it first",
                        layout.replicas.replicas());
  }
  return FeedSource(std::make_shared<ChunkSource>(node_to_read(global, options), layout, options));
}

}  // namespace lockstep::input

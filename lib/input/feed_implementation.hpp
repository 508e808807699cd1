// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "input/node.hpp"
#include "input/prefetch_queue.hpp"

#include <lockstep/collectives/detail/propagate.hpp>
#include <lockstep/input/feed.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

/// For detail::propagate: to the peers, if there are any.
inline void propagate_current_exception(const InputLayout& layout, detail::FoundBy found_by) {
  if (layout.peers) detail::propagate_current_exception(*layout.peers, found_by);
}

}  // namespace lockstep

namespace lockstep::input {

/// The batches of one step; `batches[i]` is local replica i's.
using StepBatches = std::vector<Leaves>;

/// Makes steps ahead on a thread, or, with depth 0, when they are asked for.
class StepQueue {
 public:
  using Produce = std::function<bool(StepBatches& step)>;
  StepQueue(int depth, Produce produce);

  /// False at the end, and ever after, also after it has thrown.
  [[nodiscard]] bool pop(StepBatches& step);
  /// Time that `pop` has kept its caller without data.
  [[nodiscard]] std::chrono::steady_clock::duration waited() const noexcept;

 private:
  Produce produce_;  // only without a thread; empty at the end
  std::chrono::steady_clock::duration waited_{};
  std::optional<PrefetchQueue<StepBatches>> queue_;
};

class Feed::Implementation {
 public:
  Implementation() = default;
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;
  virtual ~Implementation() = default;

  bool next(StepBatches& batches);
  [[nodiscard]] ReadingPosition position() const noexcept { return position_; }
  [[nodiscard]] double wait_seconds() const noexcept { return std::chrono::duration<double>(waited()).count(); }
  /// Where waiting is counted too.
  void count_at(std::shared_ptr<std::atomic<std::int64_t>> nanoseconds) noexcept {
    total_nanoseconds_ = std::move(nanoseconds);
  }
  /// Where it was opened.
  void start_at(ReadingPosition position) noexcept { position_ = position; }

 protected:
  virtual bool do_next(StepBatches& batches) = 0;
  [[nodiscard]] virtual std::chrono::steady_clock::duration waited() const noexcept = 0;

 private:
  std::shared_ptr<std::atomic<std::int64_t>> total_nanoseconds_;
  std::chrono::steady_clock::duration counted_{};
  ReadingPosition position_;
};

/// What a source says of itself.
using Describe = std::function<std::string()>;

class FeedSource::Implementation {
 public:
  Implementation(int first_replica, int local_replicas, Describe describe)
      : first_replica_(first_replica), local_replicas_(local_replicas), describe_(std::move(describe)) {}
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;
  virtual ~Implementation() = default;

  [[nodiscard]] Feed open_next() { return open({passes_.fetch_add(1, std::memory_order_relaxed), 0}); }
  [[nodiscard]] Feed open(ReadingPosition position) {
    std::unique_ptr<Feed::Implementation> feed = do_open(position);
    feed->count_at(total_nanoseconds_);
    feed->start_at(position);
    return Feed(std::move(feed));
  }
  [[nodiscard]] Feed resume(ReadingPosition position) {
    passes_.store(position.pass + 1, std::memory_order_relaxed);
    return open(position);
  }
  [[nodiscard]] std::vector<std::vector<TensorSpec>> element_spec() const { return do_element_spec(); }
  [[nodiscard]] std::string describe() const { return describe_(); }
  [[nodiscard]] int first_replica() const noexcept { return first_replica_; }
  [[nodiscard]] int local_replicas() const noexcept { return local_replicas_; }
  [[nodiscard]] double wait_seconds() const noexcept {
    return 1e-9 * static_cast<double>(total_nanoseconds_->load(std::memory_order_relaxed));
  }

 protected:
  [[nodiscard]] virtual std::unique_ptr<Feed::Implementation> do_open(ReadingPosition position) = 0;
  [[nodiscard]] virtual std::vector<std::vector<TensorSpec>> do_element_spec() const = 0;

 private:
  int first_replica_;
  int local_replicas_;
  Describe describe_;
  std::atomic<std::uint64_t> passes_ = 0;
  std::shared_ptr<std::atomic<std::int64_t>> total_nanoseconds_ = std::make_shared<std::atomic<std::int64_t>>(0);
};

/// Which chunks of a batch this rank's replicas take: local replica i number `first + i * stride`.
struct ChunkPlan {
  SplitPolicy split = SplitPolicy::fixed_chunks;
  int first = 0;
  int stride = 1;
};

/// Feeds the chunks that `plan` says of each batch of `node`, the same on all ranks; with one replica in all, also
/// elements that are no batches.
[[nodiscard]] FeedSource feed_chunks(std::shared_ptr<const Node> node, const ChunkPlan& plan, const InputLayout& layout,
                                     const InputOptions& options, Describe describe);
/// Feeds each local replica the next element of this rank's only node, or of its own. The layout has peers if it has
/// several ranks.
[[nodiscard]] FeedSource feed_streams(std::vector<std::shared_ptr<const Node>> nodes, std::size_t leaves,
                                      const InputLayout& layout, const InputOptions& options, Describe describe);

[[nodiscard]] std::string describe_dataset(const Node& dataset, const ReplicaLayout& layout, AutoShardPolicy policy,
                                           SplitPolicy split);
[[nodiscard]] std::string describe_function(const ReplicaLayout& layout, InputReplicationMode mode);

/// Throws Error(invalid_argument) for options out of range, and for such as do not go together.
void check_options(std::string_view call, const InputOptions& options);
/// How far a feed reads ahead.
[[nodiscard]] int steps_ahead(const InputOptions& options) noexcept;
/// What to read where the feed reads ahead itself: without prefetch at the end.
[[nodiscard]] std::shared_ptr<const Node> node_to_read(std::shared_ptr<const Node> node, const InputOptions& options);

/// The first element of pass 0. Throws Error(failed_precondition) where there is none.
[[nodiscard]] Leaves first_element(const Node& node);
/// With all extents.
[[nodiscard]] std::vector<TensorSpec> specs_of(const Leaves& element);

}  // namespace lockstep::input

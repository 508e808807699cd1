// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "input/node.hpp"
#include "input/prefetch_queue.hpp"

#include <lockstep/input/feed.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace lockstep::input {

/// The batches of one step; `batches[i]` is local replica i's. Fewer than replicas at the uneven end of a dataset from
/// a function.
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

class FeedSource::Implementation {
 public:
  Implementation(int first_replica, int local_replicas) noexcept
      : first_replica_(first_replica), local_replicas_(local_replicas) {}
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
  [[nodiscard]] int first_replica() const noexcept { return first_replica_; }
  [[nodiscard]] int local_replicas() const noexcept { return local_replicas_; }
  [[nodiscard]] double wait_seconds() const noexcept {
    return 1e-9 * static_cast<double>(total_nanoseconds_->load(std::memory_order_relaxed));
  }

 protected:
  [[nodiscard]] virtual std::unique_ptr<Feed::Implementation> do_open(ReadingPosition position) = 0;

 private:
  int first_replica_;
  int local_replicas_;
  std::atomic<std::uint64_t> passes_ = 0;
  std::shared_ptr<std::atomic<std::int64_t>> total_nanoseconds_ = std::make_shared<std::atomic<std::int64_t>>(0);
};

/// Throws Error(invalid_argument) for options out of range.
void check_options(const InputOptions& options);
/// What to read where the feed reads ahead itself: without prefetch at the end.
[[nodiscard]] std::shared_ptr<const Node> node_to_read(const Pipeline& pipeline, const InputOptions& options);

}  // namespace lockstep::input

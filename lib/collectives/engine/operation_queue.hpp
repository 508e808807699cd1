// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The operations of one communicator that are posted and not done, in the order that all ranks share.

#pragma once

#include "collectives/engine/operation.hpp"
#include "collectives/engine/recorder.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::detail {

/// Not thread-safe: the engine calls under its lock. Operations are numbered from zero in each epoch.
class OperationQueue {
 public:
  /// `name` is the communicator's. `recorder` must outlive the queue.
  OperationQueue(std::string name, Recorder& recorder) : name_(std::move(name)), recorder_(recorder) {
    operations_.reserve(16);
  }

  [[nodiscard]] bool is_empty() const noexcept { return operations_.empty(); }
  [[nodiscard]] Operation& head() noexcept { return *operations_.front(); }
  [[nodiscard]] const Operation& head() const noexcept { return *operations_.front(); }
  /// The number of the head, or of the next operation if there is none.
  [[nodiscard]] std::int64_t sequence() const noexcept { return sequence_; }

  /// Numbers and counts `operation` as posted in `epoch`, without putting it into the queue.
  void enter(Operation& operation, std::uint64_t epoch) noexcept {
    operation.enter(epoch, merges_);
    recorder_.post(operation, epoch, sequence_ + static_cast<std::int64_t>(operations_.size()));
  }
  /// Puts an operation that was entered at the end.
  void push(const std::shared_ptr<Operation>& operation) {
    operations_.push_back(operation);
    if (operation->is_agreed()) recorder_.agree(*operation, sequence_);
  }
  /// All ranks have arrived at the head and make the same call.
  void agree_on_head() noexcept {
    head().agree();
    recorder_.agree(head(), sequence_);
  }
  /// `operation` was entered and is done without having been in the queue.
  void count_one_done(Operation& operation) noexcept {
    recorder_.finish_at_once(operation);
    ++sequence_;
  }
  /// Ends the head and takes it out.
  void finish_head(SharedError error);
  /// Ends all operations posted in `epoch` or earlier with `error`, and takes them out.
  void fail_epoch(std::uint64_t epoch, const SharedError& error);
  /// A new epoch begins: its first operation has number zero.
  void restart_numbers() noexcept {
    completed_before_ += sequence_;
    sequence_ = 0;
  }

  /// Before the agreement on `operation`, the head or an operation that is to be done at once.
  void place(Operation& operation) const noexcept {
    operation.place_after(compares_positions_ ? completed_before_ : 0);
  }
  /// From now on the ranks do not compare how many operations they had completed before an epoch. Before the first
  /// operation.
  void ignore_positions() noexcept { compares_positions_ = false; }
  /// Number of operations that are done, in all epochs. All ranks have the same in one epoch, unless a failure has
  /// ended the epoch before when some of them had completed more than others.
  [[nodiscard]] std::int64_t completed() const noexcept { return completed_before_ + sequence_; }
  /// From here on that number counts from `completed`. The queue is empty.
  void continue_at(std::int64_t completed) noexcept { completed_before_ = completed - sequence_; }

  /// The replicas of this rank have met in a merge_call, in `run` of their strategy.
  void count_merge(std::uint64_t run) noexcept;
  /// The ranks compare the numbers of merge_call calls from here on.
  void restart_merge_count() noexcept { merges_ = {}; }

  /// Names `operation`, which is the head or would be: "operation #3 of world, all_reduce sum of f32 [3]".
  [[nodiscard]] std::string text_of(const Operation& operation) const;
  /// The context of an error of the head that `rank` has made; -1: no rank has.
  [[nodiscard]] ErrorContext context_of(int rank) const;
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  std::string name_;
  Recorder& recorder_;
  std::vector<std::shared_ptr<Operation>> operations_;  // short: a deque would allocate now and then for ever
  std::int64_t sequence_ = 0;
  std::int64_t completed_before_ = 0;  // operations of earlier epochs
  bool compares_positions_ = true;
  MergeCount merges_;
};

}  // namespace lockstep::detail

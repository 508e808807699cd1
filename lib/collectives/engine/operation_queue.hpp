// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The operations of one communicator that are posted and not done, in the order that all ranks share.

#pragma once

#include "collectives/engine/operation.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::detail {

/// Not thread-safe: the engine calls under its lock. Operations are numbered from zero in each epoch.
class OperationQueue {
 public:
  /// `name` is the communicator's.
  explicit OperationQueue(std::string name) : name_(std::move(name)) { operations_.reserve(16); }

  [[nodiscard]] bool is_empty() const noexcept { return operations_.empty(); }
  [[nodiscard]] Operation& head() noexcept { return *operations_.front(); }
  [[nodiscard]] const Operation& head() const noexcept { return *operations_.front(); }
  /// The number of the head, or of the next operation if there is none.
  [[nodiscard]] std::int64_t sequence() const noexcept { return sequence_; }

  /// Numbers and counts `operation` as posted in `epoch`, without putting it into the queue.
  void enter(Operation& operation, std::uint64_t epoch) const noexcept { operation.enter(epoch, merges_); }
  /// Puts an operation that was entered at the end.
  void push(const std::shared_ptr<Operation>& operation) { operations_.push_back(operation); }
  /// An operation that was entered is done without having been in the queue.
  void count_one_done() noexcept { ++sequence_; }
  /// Ends the head and takes it out.
  void finish_head(SharedError error);
  /// Ends all operations posted in `epoch` or earlier with `error`, and takes them out.
  void fail_epoch(std::uint64_t epoch, const SharedError& error);
  /// A new epoch begins: its first operation has number zero.
  void restart_numbers() noexcept { sequence_ = 0; }

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
  std::vector<std::shared_ptr<Operation>> operations_;  // short: a deque would allocate now and then for ever
  std::int64_t sequence_ = 0;
  MergeCount merges_;
};

}  // namespace lockstep::detail

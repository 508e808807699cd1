// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The operations of one communicator that are posted but not done. Their order is the same on all ranks.

#pragma once

#include "collectives/engine/operation.hpp"
#include "collectives/engine/recorder.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::detail {

/// Not thread-safe: called under the engine's lock. Operations are numbered from zero in each epoch.
class OperationQueue {
 public:
  /// `name` is the name of the communicator. `recorder` must outlive the queue.
  OperationQueue(std::string name, Recorder& recorder) : name_(std::move(name)), recorder_(recorder) {
    operations_.reserve(16);
  }

  [[nodiscard]] bool is_empty() const noexcept { return head_ == operations_.size(); }
  [[nodiscard]] Operation& head() noexcept { return *operations_[head_]; }
  [[nodiscard]] const Operation& head() const noexcept { return *operations_[head_]; }
  /// The number of the head or, if the queue is empty, of the next operation.
  [[nodiscard]] std::int64_t sequence() const noexcept { return sequence_; }

  /// Notes in `operation` and in the flight record that `operation` is posted in `epoch`, but does not append it.
  void enter(Operation& operation, std::uint64_t epoch) noexcept {
    operation.enter(epoch, merges_, arguments_);
    recorder_.post(operation, epoch, sequence_ + static_cast<std::int64_t>(operations_.size() - head_));
  }
  /// Appends `operation`, for which `enter` has been called.
  void push(const std::shared_ptr<Operation>& operation) {
    if (operations_.size() == operations_.capacity() && 2 * head_ >= operations_.size()) {
      operations_.erase(operations_.begin(), operations_.begin() + static_cast<std::ptrdiff_t>(head_));
      head_ = 0;
    }
    operations_.push_back(operation);
    if (operation->is_agreed()) recorder_.agree(*operation, sequence_);
  }
  /// All ranks have arrived at the head and make the same call.
  void agree_on_head() noexcept {
    head().agree();
    recorder_.agree(head(), sequence_);
  }
  /// Counts `operation` as done. `enter` has been called for it, but it was never in the queue.
  void count_one_done(Operation& operation) noexcept {
    recorder_.finish_at_once(operation);
    operation.notify_end(sequence_, operation.error().get());
    ++sequence_;
  }
  /// Ends the head with `error`, or with success if `error` is null, and removes it from the queue.
  void finish_head(const SharedError& error);
  /// Ends all operations that were posted in `epoch` or earlier with `error`, and removes them from the queue.
  void fail_epoch(std::uint64_t epoch, const SharedError& error);
  /// Ends all operations that were posted in `epoch` or earlier with `error`, of the head before them. They have no
  /// number in the epoch, but count as done, so that ranks which have refused different numbers of them notice it.
  void refuse(std::uint64_t epoch, const SharedError& error);
  /// As `refuse`, for an operation that has not been posted.
  void count_one_refused() noexcept {
    ++completed_before_;
    add_to_history(Event::refused);
  }
  /// Called when a new epoch begins: the first operation of the epoch has number zero.
  void restart_numbers() noexcept {
    add_to_history(Event::epoch_ended);
    completed_before_ += sequence_;
    sequence_ = 0;
  }

  /// Called before the agreement on `operation`: stores in `operation` which operations were done before the epoch.
  /// `operation` is the head, or is executed at once without the queue.
  void place(Operation& operation) const noexcept {
    if (compares_positions_) {
      operation.place_after(completed_before_, history_);
    } else {
      operation.place_after(0, 0);
    }
  }
  /// From now on the ranks do not compare which operations they had completed before an epoch. Called before the first
  /// operation.
  void ignore_positions() noexcept { compares_positions_ = false; }
  /// Number of operations that are done, in all epochs. When an epoch begins, this number is the same on all ranks,
  /// unless a failure has ended an earlier epoch when some ranks had completed more operations than others, or ranks
  /// have refused different numbers of operations after a mismatch.
  [[nodiscard]] std::int64_t completed() const noexcept { return completed_before_ + sequence_; }
  /// Sets the number of operations that are done to `completed`. The queue must be empty.
  void continue_at(std::int64_t completed) noexcept {
    completed_before_ = completed - sequence_;
    history_ = 0;
    add_to_history(Event::recovered);
  }

  /// Counts a merge_call in which the replicas of this rank have met, in run number `run` of their strategy.
  void count_merge(std::uint64_t run) noexcept;
  /// Operations that are entered from now on also have `arguments`. Returns the arguments that they had before.
  CallerArguments add_arguments(std::string_view arguments) noexcept {
    const CallerArguments before = arguments_;
    arguments_.add(arguments);
    return before;
  }
  void restore_arguments(const CallerArguments& arguments) noexcept { arguments_ = arguments; }
  /// Sets the count of merge_call calls to zero.
  void restart_merge_count() noexcept { merges_ = {}; }

  /// A text that names `operation`, which is the head or is executed at once without the queue: "operation #3 of world,
  /// all_reduce sum of f32 [3]".
  [[nodiscard]] std::string text_of(const Operation& operation) const;
  /// The context of an error of the head. `rank` is the rank that has caused the error; -1: no single rank has.
  [[nodiscard]] ErrorContext context_of(int rank) const;
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Number of operations for which there is memory.
  [[nodiscard]] std::size_t capacity() const noexcept { return operations_.capacity(); }

 private:
  enum class Event : std::uint8_t { epoch_ended = 1, refused, recovered };
  /// Adds an event that happens after `completed()` operations.
  void add_to_history(Event event) noexcept {
    constexpr std::uint64_t odd = 0x9e3779b97f4a7c15;
    history_ = (history_ ^ static_cast<std::uint64_t>(event)) * odd;
    history_ = (history_ ^ (history_ >> 29) ^ static_cast<std::uint64_t>(completed())) * odd;
  }
  /// Whether there is a head, and it was posted in `epoch` or earlier.
  [[nodiscard]] bool is_of(std::uint64_t epoch) const noexcept { return !is_empty() && head().epoch() <= epoch; }
  /// Removes the head, and ends it with `error` as operation `sequence`.
  void end_first(std::int64_t sequence, const SharedError& error);

  std::string name_;
  Recorder& recorder_;
  // a deque would allocate memory again and again
  std::vector<std::shared_ptr<Operation>> operations_;  // those before `head_` are null
  std::size_t head_ = 0;
  std::int64_t sequence_ = 0;
  std::int64_t completed_before_ = 0;  // number of operations that were done in earlier epochs, or refused
  // Hash of the events after which ranks may have completed different operations. Later events can make the numbers of
  // two ranks equal again, but not the hashes.
  std::uint64_t history_ = 0;
  bool compares_positions_ = true;
  MergeCount merges_;
  CallerArguments arguments_;
};

}  // namespace lockstep::detail

// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// An epoch is the time between two failures of a communicator. A failure ends the epoch on every rank, and each rank
// throws the failure once. Operations of different epochs never match. A mismatch is not such a failure: all ranks have
// it in the same operation.

#pragma once

#include "collectives/engine/agreement.hpp"
#include "collectives/engine/control_channel.hpp"
#include "collectives/engine/node_failures.hpp"
#include "collectives/engine/operation_queue.hpp"
#include "collectives/engine/propagation_mark.hpp"
#include "collectives/engine/watchdog.hpp"
#include "transport/transport.hpp"

#include <lockstep/collectives/detail/propagate.hpp>

#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <source_location>
#include <string>

namespace lockstep::detail {

/// The epochs of one rank: the number of the present epoch, the aborts of this rank that end this epoch and later ones,
/// and the failures that the other ranks know. Not thread-safe: called under the engine's lock.
class Epoch {
 public:
  /// All references must outlive this object. After `most` failures the communicator does not work any more: the
  /// numbers of operations, which other ranks compare, have no room for more epochs (see operation_tag).
  Epoch(Transport& transport, ControlChannel& control, Agreement& agreement, OperationQueue& queue, Watchdog& watchdog,
        std::uint64_t most = most_epochs)
      : transport_(transport),
        control_(control),
        agreement_(agreement),
        queue_(queue),
        watchdog_(watchdog),
        most_(most),
        node_failures_(transport.sharing_group()) {}

  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  /// The epoch of operations that are posted now: the present epoch plus the number of pending aborts of this rank,
  /// since each abort ends one epoch.
  [[nodiscard]] std::uint64_t number_of_next_post() const noexcept { return number_ + pending_.size(); }
  /// Whether operations can be posted as if nothing had failed.
  [[nodiscard]] bool is_sound() const noexcept { return unobserved_ == nullptr && pending_.empty() && !lost_; }
  /// The failure that ended operations of this rank and that no thread of this rank has thrown yet, or null.
  [[nodiscard]] const SharedError& unobserved() const noexcept { return unobserved_; }
  /// Whether the unobserved failure has ended an epoch. A mismatch has not: the ranks only disagree on one operation.
  [[nodiscard]] bool has_ended_unobserved() const noexcept { return has_ended_unobserved_; }
  /// The ranks disagree on one operation, and this rank has not thrown `error` yet.
  void set_unobserved_mismatch(const SharedError& error) noexcept {
    unobserved_ = error;
    has_ended_unobserved_ = false;
  }
  /// The last failure that another rank had outside of Communicator::recover and after which the communicator still
  /// works; null if there is none.
  [[nodiscard]] const SharedError& ended_before_recovery() const noexcept { return ended_before_recovery_; }
  /// The caller knows of the unobserved failure: operations that are posted from now on do not fail with it.
  void acknowledge() noexcept {
    unobserved_ = nullptr;
    queue_.restart_merge_count();
  }
  /// The failure in which a message or a rank was lost; empty if there is none. After such a failure the communicator
  /// does not work any more.
  [[nodiscard]] const std::optional<Failure>& lost() const noexcept { return lost_; }
  void lose(const Failure& failure) {
    if (!lost_) lost_ = failure;
  }

  /// The failure by which the other ranks have ended the epoch before operation `sequence`, or in it, according to
  /// their messages or to the memory of the node; empty if there is none.
  [[nodiscard]] std::optional<Failure> end_elsewhere(std::int64_t sequence) const;
  /// Ends the epoch on this rank alone: all its operations fail. If an abort of this rank was pending for the epoch,
  /// the abort and `failure` count as one failure, which the caller of `abort` knows. Returns the error of the
  /// operations.
  SharedError end(const Failure& failure);
  /// As `end`. Another rank has sent `failure`. If a rank of this node has published another one before, all ranks of
  /// the node throw that one.
  void end_by_other_rank(const Failure& failure);
  /// Ends the epoch on all ranks, with `failure`, or with the one that a rank of this node has published before.
  void end_everywhere(Failure failure);
  /// As Engine::abort. The other ranks throw an Error with `code`. This rank does not throw the failure, since the
  /// caller knows it.
  void abort(const std::string& text, const std::source_location& where, Code code = Code::unavailable);
  /// Called when the head of the queue is done: a pending abort of this rank takes effect.
  void end_if_aborted();

  /// Throws the error of `operation`. Unless the operation is a message between two ranks, the error is marked as known
  /// to all ranks.
  [[noreturn]] void throw_error_of(const Operation& operation);
  /// Called in an exception handler. Propagates the exception, unless the other ranks know it already, or find the
  /// failure by themselves according to `found_by`. `error` is the exception if it is an Error, else null; `text` is
  /// its text. `where`: the line of the call that failed. `may_send`: whether this thread may enter MPI.
  void propagate(Error* error, const std::string& text, const std::source_location& where, FoundBy found_by,
                 bool may_send);
  /// From now on, an exception that was propagated earlier counts as a new exception if it is thrown again.
  void forget_known();

 private:
  void send_abort(std::uint64_t epoch, const EpochEnd& end);
  [[nodiscard]] bool head_may_be_shared() const {
    return agreement_.is_shown() || (!queue_.is_empty() && queue_.head().is_agreed());
  }

  Transport& transport_;
  ControlChannel& control_;
  Agreement& agreement_;
  OperationQueue& queue_;
  Watchdog& watchdog_;
  const std::uint64_t most_;
  NodeFailures node_failures_;
  std::uint64_t number_ = 0;
  std::deque<Failure> pending_;  // aborts of this rank: one for the present epoch and for each epoch that follows
  SharedError unobserved_;
  bool has_ended_unobserved_ = true;
  SharedError ended_before_recovery_;
  std::optional<Failure> lost_;
  PropagationMark::Pointer mark_ = std::make_shared<int>();  // in every Error that all ranks know of
  std::exception_ptr known_foreign_;  // last propagated exception of another type, kept alive for comparison
};

}  // namespace lockstep::detail

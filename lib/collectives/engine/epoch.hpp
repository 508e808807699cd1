// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The time between two failures of a communicator. A failure ends the epoch on every rank, each rank throws it once,
// and operations of different epochs never meet.

#pragma once

#include "collectives/engine/agreement.hpp"
#include "collectives/engine/control_channel.hpp"
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

/// One rank's view of its epochs: the present one, the aborts of this rank that end it and later ones, and the failures
/// that the other ranks know. Not thread-safe: the engine calls under its lock.
class Epoch {
 public:
  /// All must outlive it.
  Epoch(Transport& transport, ControlChannel& control, Agreement& agreement, OperationQueue& queue, Watchdog& watchdog)
      : transport_(transport), control_(control), agreement_(agreement), queue_(queue), watchdog_(watchdog) {}

  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  /// The epoch of operations that are posted now: each pending abort of this rank ends one epoch before it.
  [[nodiscard]] std::uint64_t number_of_next_post() const noexcept { return number_ + pending_.size(); }
  /// Whether operations can be posted as if nothing had failed.
  [[nodiscard]] bool is_sound() const noexcept { return unobserved_ == nullptr && pending_.empty() && !lost_; }
  /// The failure that ended operations of this rank and that none of its threads has thrown yet; null if there is none.
  [[nodiscard]] const SharedError& unobserved() const noexcept { return unobserved_; }
  /// The last failure of another rank that was not in Communicator::recover and after which the communicator works.
  [[nodiscard]] const SharedError& ended_before_recovery() const noexcept { return ended_before_recovery_; }
  /// A thread of this rank knows it.
  void acknowledge() noexcept {
    unobserved_ = nullptr;
    queue_.restart_merge_count();
  }
  /// The failure in which a message or a rank was lost: the communicator does not work any more.
  [[nodiscard]] const std::optional<Failure>& lost() const noexcept { return lost_; }
  void lose(const Failure& failure) {
    if (!lost_) lost_ = failure;
  }

  /// Ends the epoch here: all its operations fail. If this rank had aborted it, the two failures are one, and the
  /// caller of `abort` knows. Returns the error of the operations.
  SharedError end(const Failure& failure);
  /// As `end`, with the failure that another rank has sent.
  void end_by_other_rank(const Failure& failure);
  /// Ends the epoch here and on the other ranks.
  void end_everywhere(Failure failure);
  /// Aborts for a caller that knows of the failure; see Engine::abort.
  /// The other ranks throw an Error with `code`.
  void abort(const std::string& text, const std::source_location& where, Code code = Code::unavailable);
  /// The head of the queue is done: an abort that waited for that takes effect.
  void end_if_aborted();

  /// Throws the error of `operation`, which all ranks know.
  [[noreturn]] void throw_error_of(const Operation& operation);
  /// The exception that is being handled, `error` if it is an Error, else null, is propagated unless the other ranks
  /// know it or find it themselves. `where` is the call that failed.
  void propagate(Error* error, const std::string& text, const std::source_location& where, FoundBy found_by,
                 bool may_send);
  /// Exceptions that are known now count as new if they are thrown once more.
  void forget_known();

 private:
  void send_abort(std::uint64_t epoch, std::int64_t sequence, const Failure& failure);
  [[nodiscard]] bool head_may_be_shared() const {
    return agreement_.is_shown() || (!queue_.is_empty() && queue_.head().is_agreed());
  }

  Transport& transport_;
  ControlChannel& control_;
  Agreement& agreement_;
  OperationQueue& queue_;
  Watchdog& watchdog_;
  std::uint64_t number_ = 0;
  std::deque<Failure> pending_;  // aborts of this rank: the first ends the present epoch, the second the next one, ...
  SharedError unobserved_;
  SharedError ended_before_recovery_;
  std::optional<Failure> lost_;
  PropagationMark::Pointer mark_ = std::make_shared<int>();  // in every Error that all ranks know
  std::exception_ptr known_foreign_;  // the last exception of another type that they know; kept, so it stays unique
};

}  // namespace lockstep::detail

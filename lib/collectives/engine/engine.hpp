// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Drives one communicator: the queue of operations, the watchdog of its head, and the epochs. A thread that waits for
// an operation drives; a progress thread exists only after the first asynchronous operation. lib/README.md draws the
// states.

#pragma once

#include "base/mutex.hpp"
#include "cluster/end_of_job.hpp"
#include "collectives/engine/agreement.hpp"
#include "collectives/engine/control_channel.hpp"
#include "collectives/engine/epoch.hpp"
#include "collectives/engine/family.hpp"
#include "collectives/engine/operation_queue.hpp"
#include "collectives/engine/pair_channel.hpp"
#include "collectives/engine/presence.hpp"
#include "collectives/engine/recorder.hpp"
#include "collectives/engine/watchdog.hpp"
#include "transport/transport.hpp"

#include <lockstep/collectives/detail/propagate.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <thread>
#include <utility>

namespace lockstep::detail {

/// Which threads drive what was posted.
enum class Progress : std::uint8_t { by_waiting, by_thread };

struct EngineOptions {
  std::chrono::milliseconds warn_after{30'000};
  std::chrono::milliseconds fail_after{300'000};
  std::chrono::milliseconds fail_after_total{0};  ///< zero: unlimited
  std::string name;
  int local_replicas = 1;  ///< threads of this rank that compute
  RecorderOptions recorder;
  std::shared_ptr<Family> family = std::make_shared<Family>();
};

/// Thread-safe.
class Engine final : private JobMember {
 public:
  Engine(std::unique_ptr<Transport> transport, EngineOptions options);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  /// Waits for all queued operations, bounded by the deadline of each. Then this rank has left: the operations of other
  /// ranks that wait for it fail.
  ~Engine() override;

  /// Posts and waits. If the queue is empty, the calling thread serves it at once.
  void run(const std::shared_ptr<Operation>& operation);
  /// Puts `operation` at the end of the queue. Throws Error(failed_precondition) on a thread that may not enter MPI.
  void post(const std::shared_ptr<Operation>& operation);
  /// Posts and lets the progress thread drive, if the transport allows one.
  void post_async(const std::shared_ptr<Operation>& operation);
  /// Starts a message between two ranks. A progress thread drives it only if the transport allows one.
  void post_pair(const std::shared_ptr<PairOperation>& operation, Progress progress);
  /// The next send or receive between `rank` and this rank will not take place: `rank` gets `text`.
  void refuse_pair(PairOperation::Role role, int rank, const std::string& text);
  /// Drives until `operation` is done, `until` at the latest; whether it is. Throws its error.
  bool wait(Operation& operation, std::optional<std::chrono::steady_clock::time_point> until = std::nullopt);
  /// Drives until `operation` is done, or the rest of it is enqueued on streams; returns whether it is done. Throws its
  /// error.
  [[nodiscard]] bool wait_for_streams(Operation& operation);
  /// Drives once; whether `operation` is done. Throws its error.
  bool test(Operation& operation);
  /// Drives until `operation` is done, however it ends, as long as an operation may take; whether it is. Its error is
  /// left to the thread that waits for it.
  [[nodiscard]] bool await_end(Operation& operation) noexcept;

  /// Aborts the epoch of the next operation, on all ranks, with `text`. Queued operations fail. An operation that
  /// other ranks may have entered with this one is still completed; then the abort takes effect. If a failure of
  /// another rank has ended operations of this rank, and none of its threads has thrown it yet, the two end the same
  /// epoch: the other ranks have that one, and the caller has this one.
  /// The text there names the line `where`, if it is not the library's.
  void abort(const std::string& text, const std::source_location& where);
  /// As propagate_current_exception of a communicator. `where` is the call that failed, if it is known.
  void propagate_current_exception(FoundBy found_by, const std::source_location& where = {});
  /// Exceptions that were propagated before count as new if they are thrown once more.
  void forget_propagated();

  /// The replicas of this rank have met in a merge_call, in `run` of their strategy: later operations carry the count.
  void count_merge(std::uint64_t run);

  /// Number of operations that are done on this rank.
  [[nodiscard]] std::int64_t completed();
  /// The caller knows of the failure that no thread of this rank has thrown yet, if there is one.
  void acknowledge_failure();
  /// Runs an operation of Communicator::recover. If it fails because another rank had failed before that came to its
  /// own recover, another one is run, for as long as the deadline.
  void run_recovery(const std::function<std::shared_ptr<Operation>()>& next_try);
  /// All ranks call it with one value: from here on their next operations are the same again.
  void continue_at(std::int64_t completed);

  /// Ranks that a failure has left at different operations need not recover: every sequence of operations that begins
  /// after a failure is complete in itself. Before the first operation.
  void ignore_positions();

  /// The epoch of an operation that is posted now.
  [[nodiscard]] std::uint64_t next_epoch();

  /// Takes the control messages that have arrived. Ranks that wait for this one are told where it waits. Does nothing
  /// if another thread is in here. Never waits.
  void answer(const WaitElsewhere& wait) noexcept;

  [[nodiscard]] Transport& transport() noexcept { return *transport_; }
  [[nodiscard]] const std::shared_ptr<Family>& family() const noexcept { return options_.family; }
  /// As Transport::begin_group. Local.
  [[nodiscard]] std::unique_ptr<NewGroup> begin_group();

 private:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] bool is_forked_copy() const noexcept;
  [[nodiscard]] bool this_thread_may_call() const;
  void require_caller(const Operation& operation) const;
  void run_progress(const std::stop_token& stop);

  [[nodiscard]] bool run_at_once(const std::shared_ptr<Operation>& operation);
  [[nodiscard]] bool is_aborted_by_message() LOCKSTEP_REQUIRES(mutex_);
  void enqueue(const std::shared_ptr<Operation>& operation) LOCKSTEP_REQUIRES(mutex_);
  void start_progress_thread() LOCKSTEP_REQUIRES(mutex_);
  void drive() LOCKSTEP_REQUIRES(mutex_);
  void drive_pairs() LOCKSTEP_REQUIRES(mutex_);
  void drive_head() LOCKSTEP_REQUIRES(mutex_);
  void conclude_agreement() LOCKSTEP_REQUIRES(mutex_);
  void finish_head(SharedError error) LOCKSTEP_REQUIRES(mutex_);
  /// The head has thrown `error` in `start` or `advance`.
  void stop_head(const std::exception& error) LOCKSTEP_REQUIRES(mutex_);
  [[nodiscard]] SharedError error_of(const Operation& head) const LOCKSTEP_REQUIRES(mutex_);
  [[nodiscard]] SharedError mismatch() const LOCKSTEP_REQUIRES(mutex_);

  /// The job is aborted: the other ranks get `text`.
  void on_abort(const std::string& text) noexcept override;
  /// MPI is about to be finalized: this end of the communicator is closed.
  void on_finalize() noexcept override;
  /// This rank does not take part any more.
  void depart() noexcept LOCKSTEP_REQUIRES(mutex_);
  void send_leave() noexcept LOCKSTEP_REQUIRES(mutex_);
  void end_by(Failure failure) LOCKSTEP_REQUIRES(mutex_);
  void end_for_ever(const std::string& text) noexcept LOCKSTEP_REQUIRES(mutex_);
  /// Locks mutex_, unless another thread or a caller of this one keeps it for long.
  [[nodiscard]] bool lock_in_time() noexcept
      LOCKSTEP_THREAD_ANNOTATION(try_acquire_capability(true, mutex_)) LOCKSTEP_NO_THREAD_SAFETY_ANALYSIS;  // a loop
  [[noreturn]] void throw_error_of(const Operation& operation) LOCKSTEP_REQUIRES(mutex_);

  void answer_locked(const WaitElsewhere& wait) noexcept LOCKSTEP_REQUIRES(mutex_);

  Mutex mutex_;
  std::unique_ptr<Transport> transport_;  // moves data and messages under mutex_ only
  EngineOptions options_;
  const int spins_;  // before a wait yields
  const bool any_thread_may_call_;
  const bool has_node_group_;
  const std::uint32_t fork_depth_;  // of the process that made this
  ControlChannel control_ LOCKSTEP_GUARDED_BY(mutex_);
  std::unique_ptr<Agreement> agreement_ LOCKSTEP_PT_GUARDED_BY(mutex_);
  Workspace workspace_ LOCKSTEP_GUARDED_BY(mutex_);
  Recorder recorder_ LOCKSTEP_GUARDED_BY(mutex_);
  PairChannel pairs_ LOCKSTEP_GUARDED_BY(mutex_);
  OperationQueue queue_ LOCKSTEP_GUARDED_BY(mutex_);
  Watchdog watchdog_ LOCKSTEP_GUARDED_BY(mutex_);
  Epoch epoch_ LOCKSTEP_GUARDED_BY(mutex_);
  Presence presence_ LOCKSTEP_GUARDED_BY(mutex_);
  const int exceptions_;  // number of exceptions in flight when this was made
  std::pair<std::uint64_t, std::int64_t> thrown_at_ LOCKSTEP_GUARDED_BY(mutex_){0, -1};  // epoch and sequence
  Clock::time_point family_answered_ LOCKSTEP_GUARDED_BY(mutex_){};
  std::atomic<bool> knows_failures_{false};  // whether epoch_ may know exceptions; changes under mutex_

  std::condition_variable_any work_;
  std::jthread progress_;  // started under mutex_
};

/// As of a communicator.
inline void propagate_current_exception(Engine& engine, FoundBy found_by) {
  engine.propagate_current_exception(found_by);
}

/// A call on an engine, as a target of propagate: the other ranks get the line of the call, too.
struct EngineCall {
  Engine& engine;
  const std::source_location& where;
};
inline void propagate_current_exception(const EngineCall& call, FoundBy found_by) {
  call.engine.propagate_current_exception(found_by, call.where);
}

}  // namespace lockstep::detail

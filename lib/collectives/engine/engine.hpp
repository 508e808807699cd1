// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The engine of one communicator: the queue of operations, the watchdog of the operation at the head of the queue, and
// the epochs. To *drive* the engine means to make progress on its operations without waiting. A thread that waits for
// an operation drives the engine again and again. A progress thread also drives it, but exists only after the first
// asynchronous operation. lib/README.md draws the states.

#pragma once

#include "base/mutex.hpp"
#include "cluster/end_of_job.hpp"
#include "collectives/engine/agreement.hpp"
#include "collectives/engine/control_channel.hpp"
#include "collectives/engine/epoch.hpp"
#include "collectives/engine/family.hpp"
#include "collectives/engine/leaving.hpp"
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
#include <list>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::detail {

/// The threads that must drive a message between two ranks: threads that wait for it, or the progress thread.
enum class Progress : std::uint8_t { by_waiting, by_thread };

struct EngineOptions {
  std::chrono::milliseconds warn_after{30'000};
  std::chrono::milliseconds fail_after{300'000};
  std::chrono::milliseconds fail_after_total{0};  ///< zero: unlimited
  std::string name;
  int local_replicas = 1;  ///< number of threads of this rank that compute
  RecorderOptions recorder;
  std::shared_ptr<Family> family = std::make_shared<Family>();
  std::string recovery_advice;                      ///< see CommunicatorOptions; empty: the default
  std::uint64_t most_epochs = detail::most_epochs;  ///< number of failures after which the communicator is lost
};

/// Thread-safe.
class Engine final : private JobMember {
 public:
  Engine(std::shared_ptr<Transport> transport, EngineOptions options);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  /// Waits for all queued operations and messages, for each at most until its deadline. Then this rank has departed:
  /// operations of other ranks that wait for this rank fail.
  ~Engine() override;
  /// Deletes `engine`, whose last owner is gone. On a thread that may not call MPI, nothing is deleted: the engine
  /// waits for its operations, and departs, in MPI_Finalize.
  static void end(Engine* engine) noexcept;

  /// Posts `operation` and waits for its end. If the queue is empty, the calling thread executes `operation` at once.
  /// Throws the error of `operation` if it has failed.
  void run(const std::shared_ptr<Operation>& operation);
  /// Puts `operation` at the end of the queue. Throws Error(failed_precondition) on a thread that may not enter MPI.
  void post(const std::shared_ptr<Operation>& operation);
  /// As `post`. If the transport permits calls of any thread, the progress thread (ProgressThread) drives `operation`.
  void post_async(const std::shared_ptr<Operation>& operation);
  /// Starts a send or receive between two ranks. Progress::by_thread starts the progress thread if the transport
  /// permits calls of any thread. Progress::by_waiting returns what `wait` needs; the other returns nothing.
  AwaitedMessage post_pair(std::shared_ptr<PairOperation> operation, Progress progress);
  /// This rank does not make its next send to `rank` or its next receive from `rank`, as `role` says: the matching call
  /// of `rank` fails with `text`.
  void refuse_pair(PairOperation::Role role, int rank, const std::string& text, const std::source_location& where);
  /// Throws Error(failed_precondition) if `operation` is not done and this thread may not call MPI.
  void require_waiter(const Operation& operation);
  /// Whether this thread may call MPI, or `operation` is done.
  [[nodiscard]] bool may_wait(const Operation& operation);
  /// Destroys `state`, which owns what `operation` uses, when `operation` is done, and logs an error of `operation`.
  /// For a thread that may not call MPI, and so cannot wait.
  void keep_until_done(std::shared_ptr<Operation> operation, std::shared_ptr<void> state);
  /// Drives until `operation` is done, at most until the time `until`. Returns whether `operation` is done. Throws the
  /// error of `operation` if it has failed.
  bool wait(Operation& operation, std::optional<std::chrono::steady_clock::time_point> until = std::nullopt);
  /// Drives until `operation`, a send or receive for which `post_pair` has returned `awaited`, is done. Throws its
  /// error if it has failed.
  void wait(Operation& operation, const AwaitedMessage& awaited);
  /// Drives until `operation` is done, or until all its remaining work is enqueued on CUDA streams. Returns whether
  /// `operation` is done. Throws the error of `operation` if it has failed.
  [[nodiscard]] bool wait_for_streams(Operation& operation);
  /// Drives once. Returns whether `operation` is done. Throws the error of `operation` if it has failed.
  bool test(Operation& operation);
  /// Calls `callback` once when `operation` is done, with its error, or null. A thread of this engine calls it without
  /// the engine's lock or, if this engine is destroyed first, the thread that runs the destructor. The error counts as
  /// thrown by a thread of this rank. `callback` is destroyed after the call; it must not own this engine. Throws
  /// Error(failed_precondition) if the transport does not permit calls of any thread.
  void when_done(const std::shared_ptr<Operation>& operation, std::function<void(const Error* error)> callback);
  /// Waits until `operation` is done, with or without an error, at most one second longer than the timeout of
  /// `operation`. Drives if this thread may enter MPI. Returns whether `operation` is done. Does not report the error
  /// of `operation`; the thread that calls `wait` gets it.
  [[nodiscard]] bool await_end(Operation& operation) noexcept;

  /// Aborts the epoch of the next operation on all ranks, with `text`. Queued operations fail. If other ranks may have
  /// entered the head of the queue together with this rank, the head is still completed before the abort takes effect.
  /// If a failure has already ended the epoch on this rank, and no thread of this rank has thrown that failure yet,
  /// nothing is sent: the other ranks throw the earlier failure, which ended the same epoch; this rank throws neither
  /// failure, since the caller knows its own. The error on the other ranks names the line `where`, unless the line is
  /// in the library.
  void abort(const std::string& text, const std::source_location& where);
  /// As detail::propagate_current_exception for a Communicator. `where`: the line of the failed call, if known.
  void propagate_current_exception(FoundBy found_by, const std::source_location& where = {});
  /// From now on, an exception that was propagated earlier counts as a new exception if it is thrown again.
  void forget_propagated();

  /// Counts a merge_call in which the replicas of this rank have met, in run number `run` of their strategy. The
  /// descriptors of later operations contain the count.
  void count_merge(std::uint64_t run);

  /// The descriptors of operations that are posted from now on also contain `arguments`. Returns the arguments that
  /// they contained before, for restore_arguments.
  CallerArguments add_arguments(std::string_view arguments);
  void restore_arguments(const CallerArguments& arguments);

  /// Number of operations that are done on this rank.
  [[nodiscard]] std::int64_t completed();
  /// Called by a thread that knows of the last failure. If no thread of this rank has thrown that failure yet,
  /// operations that are posted from now on do not fail with it.
  void acknowledge_failure();
  /// Runs the operation of Communicator::recover that `next_try` makes. If a failure that another rank had before its
  /// own call of recover ends the operation, calls `next_try` again and runs the new operation, until fail_after has
  /// passed since the call of this function.
  void run_recovery(const std::function<std::shared_ptr<Operation>()>& next_try);
  /// Sets the number of operations that are done. All ranks call this function with the same value, so that their next
  /// operations match again.
  void continue_at(std::int64_t completed);

  /// Makes recover unnecessary after a failure that leaves the ranks at different operations: on this communicator, no
  /// sequence of operations is continued after a failure. Called before the first operation.
  void ignore_positions();

  /// The epoch that an operation would have if it were posted now.
  [[nodiscard]] std::uint64_t next_epoch();

  /// Receives the control messages that have arrived. If no operation is queued, sends `wait`, the operation of another
  /// communicator in which this rank waits, to the ranks that wait for this rank. Does nothing if another thread holds
  /// the lock of this engine. Never waits.
  void answer(const WaitElsewhere& wait) noexcept;
  /// Whether operations or messages are not complete, or another thread holds the lock of this engine. Never waits.
  [[nodiscard]] bool has_work() noexcept;

  // ---- for the progress thread

  /// Whether there may be asynchronous operations that no thread drives. Never waits.
  [[nodiscard]] bool needs_thread() const noexcept;
  /// Drives once, unless another thread does.
  void drive_by_thread();

  [[nodiscard]] Transport& transport() noexcept { return *transport_; }
  [[nodiscard]] const std::shared_ptr<Family>& family() const noexcept { return options_.family; }
  /// As Transport::begin_group. Local.
  [[nodiscard]] std::unique_ptr<NewGroup> begin_group();

 private:
  using Clock = std::chrono::steady_clock;
  class MeasuredWait;
  class CountedWait;
  /// A callback of `when_done`.
  struct Continuation {
    std::shared_ptr<Operation> operation;
    std::function<void(const Error*)> callback;
    std::optional<Error> error = std::nullopt;  // of `operation`, when it is done; none if its allocation fails
  };

  /// An operation of `keep_until_done`.
  struct Kept {
    std::shared_ptr<Operation> operation;
    std::shared_ptr<void> state;
  };

  void finish_operations();
  void leave_to_main_thread() noexcept;
  void release_kept() LOCKSTEP_REQUIRES(mutex_);
  [[nodiscard]] bool is_forked_copy() const noexcept;
  [[nodiscard]] bool this_thread_may_call() const;
  void require_caller(const Operation& operation) const;
  void run_callbacks(std::condition_variable_any& are_due, const std::stop_token& stop);
  void wake_callbacks() noexcept LOCKSTEP_REQUIRES(mutex_);

  bool wait_since(std::uint64_t begin, Operation& operation, std::optional<Clock::time_point> until = std::nullopt,
                  AwaitedMessage awaited = {});
  [[nodiscard]] bool run_at_once(const std::shared_ptr<Operation>& operation);
  [[nodiscard]] bool await_message(const PairOperation& message, AwaitedMessage awaited);
  [[nodiscard]] bool completes_message(const PairOperation& message) LOCKSTEP_REQUIRES(mutex_);
  [[nodiscard]] bool await_collective(const Operation& operation);
  void drive_sometimes() LOCKSTEP_REQUIRES(mutex_);
  void receive_if_late() LOCKSTEP_REQUIRES(mutex_);
  [[nodiscard]] bool is_aborted() const LOCKSTEP_REQUIRES(mutex_);
  void enqueue(const std::shared_ptr<Operation>& operation) LOCKSTEP_REQUIRES(mutex_);
  void use_thread() LOCKSTEP_REQUIRES(mutex_);
  void wake_waiting_threads() LOCKSTEP_REQUIRES(mutex_);
  [[nodiscard]] bool waits_alone() LOCKSTEP_REQUIRES(mutex_);
  [[nodiscard]] bool waits_for_other_ranks() LOCKSTEP_REQUIRES(mutex_);
  [[nodiscard]] std::list<Continuation> take_continuations() noexcept LOCKSTEP_REQUIRES(mutex_);
  static void call(std::list<Continuation> continuations) noexcept;
  void drive() LOCKSTEP_REQUIRES(mutex_);
  void drive_pairs() LOCKSTEP_REQUIRES(mutex_);
  template <class Function>
  void make_progress_on_pairs(const Function& make_progress) LOCKSTEP_REQUIRES(mutex_);
  void drive_head() LOCKSTEP_REQUIRES(mutex_);
  void end_without_mpi() LOCKSTEP_REQUIRES(mutex_);
  [[nodiscard]] bool advance_head() LOCKSTEP_REQUIRES(mutex_);
  [[nodiscard]] bool conclude_agreement() LOCKSTEP_REQUIRES(mutex_);
  void finish_head(const SharedError& error) LOCKSTEP_REQUIRES(mutex_);
  /// Ends the epoch on all ranks, because progress on the head has thrown `error`. If an allocation fails in it, it
  /// does not throw, since the pending operation still uses the caller's memory: the next `drive` ends the epoch, with
  /// an error that says that memory was lacking.
  void stop_head(const std::exception& error) LOCKSTEP_REQUIRES(mutex_);
  [[nodiscard]] SharedError error_of(const Operation& head) const LOCKSTEP_REQUIRES(mutex_);
  [[nodiscard]] SharedError mismatch() const LOCKSTEP_REQUIRES(mutex_);

  /// Called when the job is about to be aborted: sends `text` to the other ranks.
  void on_abort(const std::string& text) noexcept override;
  /// Called when MPI is about to be finalized: closes this rank's end of the communicator.
  void on_finalize() noexcept override;
  /// Tells the other ranks that this rank takes part in no further operation.
  void depart(Departure how) noexcept LOCKSTEP_REQUIRES(mutex_);
  /// Ends the epoch if another rank has ended it. Returns whether one has.
  bool follow_others() LOCKSTEP_REQUIRES(mutex_);
  /// Tries to lock mutex_ for a bounded time. Another thread may hold mutex_ for long, or this thread may hold it
  /// already. Returns whether mutex_ is locked. Clang's thread-safety analysis cannot follow the loop inside.
  [[nodiscard]] bool lock_in_time() noexcept
      LOCKSTEP_THREAD_ANNOTATION(try_acquire_capability(true, mutex_)) LOCKSTEP_NO_THREAD_SAFETY_ANALYSIS;
  [[noreturn]] void throw_error_of(const Operation& operation) LOCKSTEP_REQUIRES(mutex_);

  void answer_locked(const WaitElsewhere& wait) noexcept LOCKSTEP_REQUIRES(mutex_);
  /// Called while a thread waits for the send or receive `operation`: answers, on all communicators of the family, the
  /// ranks that wait for this rank in a collective.
  void answer_in_message(const Operation& operation) noexcept LOCKSTEP_REQUIRES(mutex_);

  Mutex mutex_;
  std::shared_ptr<Transport> transport_;  // functions that move data or messages are called under mutex_
  EngineOptions options_;
  const int spins_;  // number of spins of a wait before it yields
  const bool any_thread_may_call_;
  const bool has_node_group_;
  const std::uint32_t fork_depth_;  // fork_depth() of the process that created this object
  ControlChannel control_ LOCKSTEP_GUARDED_BY(mutex_);
  std::unique_ptr<Agreement> agreement_ LOCKSTEP_PT_GUARDED_BY(mutex_);
  Workspace workspace_ LOCKSTEP_GUARDED_BY(mutex_);
  Recorder recorder_ LOCKSTEP_GUARDED_BY(mutex_);
  PairChannel pairs_ LOCKSTEP_GUARDED_BY(mutex_);
  const bool measures_;  // as Recorder::measures
  OperationQueue queue_ LOCKSTEP_GUARDED_BY(mutex_);
  Watchdog watchdog_ LOCKSTEP_GUARDED_BY(mutex_);
  Epoch epoch_ LOCKSTEP_GUARDED_BY(mutex_);
  Presence presence_ LOCKSTEP_GUARDED_BY(mutex_);
  Leaving leaving_ LOCKSTEP_GUARDED_BY(mutex_);
  const int exceptions_;  // number of exceptions in flight when this object was constructed
  // Epoch and sequence number when a thread of this rank last threw the error of an operation.
  std::pair<std::uint64_t, std::int64_t> thrown_at_ LOCKSTEP_GUARDED_BY(mutex_){0, -1};
  // The head has failed, and an allocation failed while its epoch was being ended.
  struct Untold {
    std::uint64_t epoch;
    Clock::time_point since;
    int tries;
  };
  std::optional<Untold> untold_ LOCKSTEP_GUARDED_BY(mutex_);
  Clock::time_point family_answered_ LOCKSTEP_GUARDED_BY(mutex_){};
  Clock::time_point last_at_once_ LOCKSTEP_GUARDED_BY(mutex_){};  ///< begin of the last operation of `run_at_once`
  std::atomic<bool> knows_failures_{false};  // whether an exception may count as propagated; written under mutex_

  // Number of operations that await_message and await_collective have completed without `drive`.
  unsigned waits_at_once_ LOCKSTEP_GUARDED_BY(mutex_) = 0;
  // Whether the progress thread must drive this engine when no thread waits. Written under mutex_.
  std::atomic<bool> is_busy_{false};
  std::atomic<int> waiting_callers_{0};                  // number of threads inside wait_since
  bool has_thread_ LOCKSTEP_GUARDED_BY(mutex_) = false;  // whether the progress thread knows this engine

  // by the time of when_done; a list, so that nothing is allocated when some are taken
  std::list<Continuation> continuations_ LOCKSTEP_GUARDED_BY(mutex_);
  bool is_callback_due_ LOCKSTEP_GUARDED_BY(mutex_) = false;  // an operation of continuations_ is done
  std::vector<Kept> kept_ LOCKSTEP_GUARDED_BY(mutex_);
  bool has_warned_of_thread_ LOCKSTEP_GUARDED_BY(mutex_) = false;
  bool is_left_ LOCKSTEP_GUARDED_BY(mutex_) = false;  // the last owner is gone, but MPI_Finalize must end this engine
  /// The thread that calls the callbacks. A child of fork, in which it does not run, cannot destroy what it waits for.
  struct Callbacks {
    std::condition_variable_any are_due;
    std::jthread thread;
  };
  std::unique_ptr<Callbacks> callbacks_;  // made under mutex_
};

/// For detail::propagate with an Engine as its target.
inline void propagate_current_exception(Engine& engine, FoundBy found_by) {
  engine.propagate_current_exception(found_by);
}

/// One call on an engine, as a target of detail::propagate. The error on the other ranks names the line of the call.
struct EngineCall {
  Engine& engine;
  const std::source_location& where;
};
inline void propagate_current_exception(const EngineCall& call, FoundBy found_by) {
  call.engine.propagate_current_exception(found_by, call.where);
}

}  // namespace lockstep::detail

// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// One totally ordered queue of operations per communicator. Whoever waits drives it; a progress thread exists only once
// something asynchronous was asked for.

#pragma once

#include "collectives/engine/agreement.hpp"
#include "collectives/engine/control_channel.hpp"
#include "collectives/engine/family.hpp"
#include "collectives/engine/operation.hpp"
#include "collectives/engine/pair_channel.hpp"
#include "transport/transport.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::detail {

/// Who drives what was posted.
enum class Progress : std::uint8_t { by_waiting, by_thread };

struct EngineOptions {
  std::chrono::milliseconds warn_after{30'000};
  std::chrono::milliseconds fail_after{300'000};
  std::string name;
  int local_replicas = 1;  ///< threads of this rank that compute
  std::shared_ptr<Family> family = std::make_shared<Family>();
};

/// Thread-safe. An epoch is a stretch without failures: a failure ends it on every rank, each rank hears of it once,
/// and operations count from zero again.
class Engine {
 public:
  Engine(std::unique_ptr<Transport> transport, EngineOptions options);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  /// Waits for what is queued, bounded by the deadline of each operation.
  ~Engine();

  /// Posts and waits. On a node with shared memory, an empty queue is served by the calling thread at once.
  void run(const std::shared_ptr<Operation>& operation);
  /// Puts `operation` at the end of the queue. Throws Error(failed_precondition) on a thread that may not enter MPI.
  void post(const std::shared_ptr<Operation>& operation);
  /// Posts and lets the progress thread drive, where the transport allows one.
  void post_async(const std::shared_ptr<Operation>& operation);
  /// Starts a message between two ranks. A progress thread drives it only where the transport allows one.
  void post_pair(const std::shared_ptr<PairOperation>& operation, Progress progress);
  /// Tells `rank` that the next message between the two will not be.
  void refuse_pair(PairOperation::Role role, int rank, const std::string& text);
  /// Drives until `operation` is done, `until` at the latest; whether it is. Throws its error.
  bool wait(Operation& operation, std::optional<std::chrono::steady_clock::time_point> until = std::nullopt);
  /// Drives until `operation` is done, or what is left of it is on streams; whether it is done. Throws its error.
  [[nodiscard]] bool wait_for_streams(Operation& operation);
  /// Drives once; whether `operation` is done. Throws its error.
  bool test(Operation& operation);
  /// Drives until `operation` is done, however it ends, as long as an operation may take; whether it is. What it throws
  /// is left to who waits for it.
  [[nodiscard]] bool await_end(Operation& operation) noexcept;
  /// Ends this rank's epoch: peers hear `text`, queued operations fail.
  void announce_failure(const std::string& text);

  /// The replicas of this rank have met in a merge_call, in `run` of their strategy: the operations to come say how
  /// often.
  void count_merge(std::uint64_t run);

  /// The epoch of what is posted now.
  [[nodiscard]] std::uint64_t next_epoch();

  /// Tells the peers that this rank is busy with `what`, elsewhere; unless another thread is in here. Never waits.
  void tell_whereabouts(const std::string& what) noexcept;

  [[nodiscard]] Transport& transport() noexcept { return *transport_; }
  [[nodiscard]] const std::shared_ptr<Family>& family() const noexcept { return options_.family; }
  /// As Transport::split, made in order with the queue. Collective.
  [[nodiscard]] std::unique_ptr<Transport> split_transport(std::span<const int> members);
  /// A group over the same ranks, made in order with the queue. Collective.
  [[nodiscard]] std::unique_ptr<Transport> duplicate_transport();

 private:
  using Clock = std::chrono::steady_clock;

  // All of these are called with mutex_ held.
  [[nodiscard]] bool run_at_once(const std::shared_ptr<Operation>& operation);
  void require_caller(const Operation& operation) const;
  [[nodiscard]] bool is_forked_copy() const noexcept;
  void drive();
  void drive_pairs();
  void start_progress_thread();
  void stop_head(const std::exception& error);
  void enqueue(const std::shared_ptr<Operation>& operation);
  void drive_head();
  void start_waiting();
  void finish_head(std::exception_ptr error);
  [[nodiscard]] std::exception_ptr error_of(const Operation& head) const;
  void conclude_agreement();
  void watch();
  void fail_epoch(const Failure& failure);
  void tell(std::int64_t sequence, const Failure& failure);
  void declare(const Failure& failure);
  [[nodiscard]] std::vector<int> missing_ranks() const;
  /// Those who have agreed to the head, but have not answered its roll call.
  [[nodiscard]] std::vector<int> silent_ranks() const;
  [[nodiscard]] std::string text_of(const Operation& head) const;
  [[nodiscard]] Failure late(const std::vector<int>& missing) const;
  /// Of the operation at the head.
  [[nodiscard]] std::chrono::milliseconds fail_after() const noexcept;
  [[nodiscard]] ErrorContext context_of(int rank) const;
  /// To the caller, whose ranks' common course begins anew.
  [[noreturn]] void throw_error_of(const Operation& operation);

  void run_progress(const std::stop_token& stop);

  std::mutex mutex_;
  std::unique_ptr<Transport> transport_;  // all below: guarded by mutex_
  EngineOptions options_;
  const int spins_;  // before a wait yields
  const bool any_thread_may_call_;
  const bool has_node_group_;
  const std::uint32_t fork_depth_;  // of the process that made this
  ControlChannel control_;
  std::unique_ptr<Agreement> agreement_;
  Workspace workspace_;
  PairChannel pairs_;
  std::vector<std::shared_ptr<Operation>> queue_;  // short: a deque would allocate now and then for ever
  std::uint64_t epoch_ = 0;
  std::int64_t sequence_ = 0;
  MergeCount merges_;
  std::optional<Failure> leaving_;  // announced here, takes effect when the head of the queue is done
  std::exception_ptr unobserved_;   // ended operations of this rank, but nobody has heard of it yet
  std::optional<Failure> lost_;     // set when a message was lost: nothing works any more
  // the head of the queue, since it was first driven
  std::optional<Clock::time_point> head_since_;
  Clock::time_point last_driven_;
  bool roll_called_ = false;
  bool warned_ = false;

  std::condition_variable_any work_;
  std::jthread progress_;
};

}  // namespace lockstep::detail

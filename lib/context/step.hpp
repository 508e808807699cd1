// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// One call of `run`: the local replicas, and their rendezvous.
//
// In a rendezvous every local replica publishes its call and raises its arrival number. The first replica (the leader)
// waits for all, closes the rendezvous, checks that the calls agree, does the work for the rank, and raises the release
// number. A replica that cannot continue aborts the step instead. An aborted step refuses all further rendezvous, so
// that every replica unwinds.

#pragma once

#include "base/mutex.hpp"
#include "context/replica_team.hpp"
#include "context/waiter.hpp"

#include <lockstep/base/error.hpp>
#include <lockstep/collectives/communication_options.hpp>
#include <lockstep/context/replica_context.hpp>

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace lockstep {

enum class CallKind : std::uint8_t {
  all_reduce,
  broadcast,
  all_gather,        ///< done by `function`
  all_reduce_mixed,  ///< dense and sparse values; done by `function`
  merge_call,
};

/// One replica's call in a rendezvous. Lives on that replica's stack until the rendezvous ends.
struct RendezvousCall {
  CallKind kind = CallKind::all_reduce;
  ReduceOp op = ReduceOp::sum;
  std::span<const ConstTensorView> inputs;
  std::span<const TensorView> outputs;
  detail::MergePart part;
  detail::MergeFunction function;
  const CommunicationOptions* options = nullptr;  ///< of an all_reduce; line of a broadcast; null: defaults
  int root = 0;                                   ///< root replica of a broadcast
  std::string_view variable = {};  ///< name of the variable that is written, or empty; equal on all replicas
};

/// The arguments of one replica's all_gather, for StrategyHooks::all_gather.
struct GatherPart {
  std::span<const ConstTensorView> inputs;
  int axis = 0;
  const CommunicationOptions& options;
  std::vector<Tensor>& results;
};

/// The arguments of one replica's all_reduce of dense and sparse values, for StrategyHooks::all_reduce_mixed.
struct MixedPart {
  ReduceOp op = ReduceOp::sum;
  std::span<const ConstTensorView> inputs;
  std::span<const TensorView> outputs;
  std::span<const IndexedSlices* const> sparse_inputs;
  std::span<IndexedSlices* const> sparse_outputs;
  const CommunicationOptions& options;
};

class Step {
 public:
  explicit Step(ReplicaTeam& team);
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  [[nodiscard]] ReplicaTeam& team() const noexcept { return team_; }
  [[nodiscard]] ReplicaContext& replica(int local) { return *replicas_[static_cast<std::size_t>(local)]; }

  /// Makes the step ready for a run; no replica is in it.
  void begin(Strategy* strategy, ReplicaTask task, RunMode mode);
  /// Runs one replica to its end on this thread; keeps its exception in the step.
  void run_replica(int local) noexcept;
  /// Waits until every replica has ended.
  void wait_for_all();
  /// The first exception in time, null if none.
  [[nodiscard]] std::exception_ptr failure() const;

  /// The rendezvous. Throws the error that ends it on all local replicas.
  void meet(int local, const RendezvousCall& call);

 private:
  /// One replica's side of a rendezvous, on its own cache lines.
  struct alignas(64) Slot {
    std::atomic<std::uint32_t> arrived{0};  // number of the rendezvous that the replica has reached
    std::atomic<bool> finished{false};      // the replica has returned from the step function
    std::uint32_t rendezvous = 0;           // the replica's own count
    const RendezvousCall* call = nullptr;   // published by `arrived`
  };
  enum class Status : int { open, closed, aborted };

  [[nodiscard]] Slot& slot(int local) noexcept { return slots_[static_cast<std::size_t>(local)]; }
  void lead(std::uint32_t rendezvous);
  void follow(int local, std::uint32_t rendezvous);
  /// A local replica that has ended without reaching the rendezvous, or -1.
  [[nodiscard]] int ended_before(std::uint32_t rendezvous) const noexcept;
  [[nodiscard]] int missing_from(std::uint32_t rendezvous) const noexcept;
  /// The leader's work in a closed rendezvous; the other replicas wait.
  void execute(std::uint32_t rendezvous);
  void release(std::uint32_t rendezvous) noexcept;
  /// Ends the step with the current exception.
  void end_by_leader() noexcept;
  void check_calls_agree();
  [[nodiscard]] Error returned_error(int ended, int waiting);
  [[nodiscard]] Error deadline_error(int missing, int waiting);
  /// Makes `items_`: leaf k of every replica; inputs of `count` replicas, beginning with local replica `first`.
  void gather_items(const RendezvousCall& call, std::size_t first, std::size_t count);
  void reduce(const RendezvousCall& call);
  void broadcast(const RendezvousCall& call);
  void merge(const RendezvousCall& call);

  void fail(int local, const std::exception_ptr& exception) noexcept;
  /// Ends the step with `error` unless it has ended already; waits for a closed rendezvous to open. Returns false if
  /// `only_if_open` and it is closed.
  bool abort(const Error& error, bool only_if_open) noexcept;
  [[noreturn]] void throw_abort_error();
  [[nodiscard]] bool aborted() const noexcept { return status_.load() == Status::aborted; }
  void wait_for_turn(int local);
  void pass_turn(int local) noexcept;

  ReplicaTeam& team_;
  std::vector<std::unique_ptr<ReplicaContext>> replicas_;
  std::unique_ptr<Slot[]> slots_;
  Strategy* strategy_ = nullptr;
  ReplicaTask task_{};
  RunMode mode_ = RunMode::concurrent;

  std::atomic<Status> status_{Status::open};
  std::atomic<std::uint32_t> released_{0};
  std::atomic<int> turn_{0};           // sequential mode: the replica that may run
  std::optional<Error> shared_error_;  // error of the last rendezvous; written by the leader before `released_`

  mutable detail::Mutex mutex_;
  std::exception_ptr failure_ LOCKSTEP_GUARDED_BY(mutex_);
  std::optional<Error> abort_error_ LOCKSTEP_GUARDED_BY(mutex_);

  // used by the leader, kept between rendezvous
  std::vector<ConstTensorView> gathered_inputs_;
  std::vector<TensorView> gathered_outputs_;
  std::vector<Item> items_;
  std::vector<detail::MergePart> parts_;
};

/// The library's own access to a replica's step.
struct StepAccess {
  [[nodiscard]] static Step& step(const ReplicaContext& replica) noexcept { return replica.step_; }
  [[nodiscard]] static ReplicaContext* make(Step& step, int local) { return new ReplicaContext(step, local); }
  /// Throws Error(failed_precondition) unless this thread is computing `replica`.
  static void check_use(const ReplicaContext& replica, std::string_view call);
};

}  // namespace lockstep

// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// One call of `run`: the local replicas and their rendezvous.
//
// In a rendezvous every local replica publishes its call and increments its arrival number. The first replica (the
// leader) waits for all local replicas, closes the rendezvous, checks that the calls agree, executes the call for the
// rank, and sets the release number. If a replica cannot continue, that replica aborts the step. An aborted step
// refuses all further rendezvous, so every replica leaves its step function by an exception.
//
// Cost in cache lines that another thread has written, since these are what a rendezvous of many threads waits for: the
// replicas form groups of `group_size`. The first replica of each group waits for its group, compares its calls and
// copies their arguments; the leader of the step does so for the first group, then reads one line and the copies of
// every other group. Release numbers go back in the same two levels. With P replicas, no thread reads the arrival or
// release of more than `group_size + P / group_size` others; up to `group_size` replicas are one group, in one level.

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
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

enum class CallKind : std::uint8_t {
  all_reduce,
  broadcast,
  all_gather,        ///< executed by `function`
  all_reduce_mixed,  ///< dense and sparse values; executed by `function`
  merge_call,
};

/// The call that the user made, for the texts of errors, if it is not the one that CallKind names.
struct UserCall {
  std::string_view call;
  std::string_view variable;  ///< name of its variable, or empty
};

/// The name of the collective of a write of a variable, which ranks compare: "assign to w".
[[nodiscard]] std::string name_of_write(const UserCall& write);

/// The call of one replica in a rendezvous. Stored on the stack of that replica until the rendezvous ends.
struct RendezvousCall {
  CallKind kind = CallKind::all_reduce;
  ReduceOp op = ReduceOp::sum;
  std::span<const ConstTensorView> inputs;
  std::span<const TensorView> outputs;
  detail::MergePart part;
  detail::MergeFunction function;
  const CommunicationOptions* options = nullptr;  ///< null: defaults; a broadcast uses only `where`
  int root = 0;                                   ///< root replica of a broadcast
  std::string_view structure = {};                ///< structure of the tree, or empty; see detail::structure_of
  std::string_view variable = {};  ///< name of the variable that is written, or empty; equal on all replicas
  UserCall user = {};              ///< empty if the user made the call that `kind` names
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

  /// Prepares the step for a run. No replica may be running in the step.
  void begin(Strategy* strategy, ReplicaTask task, RunMode mode);
  /// Runs one replica on this thread until it returns. Stores an exception of the replica in the step.
  void run_replica(int local) noexcept;
  /// Waits until every local replica has returned.
  void wait_for_all();
  /// The exception that was thrown first; null if there is none.
  [[nodiscard]] std::exception_ptr failure() const;

  /// The rendezvous of one replica with all local replicas. An error that ends the rendezvous is thrown on all of them.
  void meet(int local, const RendezvousCall& call);

 private:
  friend struct StepAccess;

  /// State of one replica in a rendezvous, on separate cache lines.
  struct alignas(64) Slot {
    std::atomic<std::uint32_t> arrived{0};  // number of the rendezvous that the replica has reached
    std::atomic<bool> finished{false};      // the replica has returned from the step function
    std::uint32_t rendezvous = 0;           // number of calls that the replica has made
    const RendezvousCall* call = nullptr;   // published by the store to `arrived`
    UserCall user;                          // of the next merge_call of the replica; only its thread uses it
    std::uint64_t lines = 0;                // cache lines of others that its thread has read; only its thread uses it
  };
  /// Consecutive local replicas. The arguments of a rendezvous: element [k * size + i] is leaf k of replica `first +
  /// i`.
  struct alignas(64) Group {
    std::atomic<std::uint32_t> gathered{0};  // number of the last rendezvous whose arguments the fields below hold
    std::atomic<bool> reads_calls{false};    // the leader of the group reads the calls of its members
    int first = 0;
    int size = 0;
    std::exception_ptr error;  // set if the calls differ, or could not be copied
    std::vector<ConstTensorView> inputs;
    std::vector<TensorView> outputs;
    std::vector<detail::MergePart> parts;
    alignas(64) std::atomic<std::uint32_t> released{0};  // for its members, except the leader of the group
  };
  enum class Status : int { open, closed, aborted };
  static constexpr int group_size = 8;

  [[nodiscard]] Slot& slot(int local) noexcept { return slots_[static_cast<std::size_t>(local)]; }
  [[nodiscard]] Group& group_of(int local) noexcept { return groups_[static_cast<std::size_t>(local / group_size)]; }
  [[nodiscard]] int groups() const noexcept { return (team_.local_replicas() + group_size - 1) / group_size; }
  /// Waits until the other members of the group of replica `local`, which is the first of its group, have reached the
  /// rendezvous. If `local` is the leader of the step, then also until all groups have gathered their arguments.
  void wait_for_others(int local, std::uint32_t rendezvous);
  /// Gathers the arguments of a group that is not the first one. Called by its leader, after wait_for_others.
  void gather_early(Group& group, std::uint32_t rendezvous);
  /// Copies the arguments of the members of `group`, whose calls must agree.
  void gather(Group& group);
  void lead(std::uint32_t rendezvous);
  void follow(int local, std::uint32_t rendezvous);
  /// A local replica that has returned without reaching the rendezvous; -1 if there is none.
  [[nodiscard]] int ended_before(std::uint32_t rendezvous) const noexcept;
  [[nodiscard]] int missing_from(std::uint32_t rendezvous) const noexcept;
  /// Executes the call in a closed rendezvous. Called by the leader; the other replicas wait.
  void execute(std::uint32_t rendezvous);
  void release(std::uint32_t rendezvous) noexcept;
  /// Aborts the step with the current exception. Called by the leader.
  void end_by_leader() noexcept;
  /// Throws Error if the call of replica `local` is not that of replica `expected`.
  void check_same_call(int expected, int local);
  /// Gathers the first group, checks that the calls of all groups agree, and unites their arguments in `arguments_`.
  void unite_groups();
  [[nodiscard]] Error returned_error(int ended, int waiting);
  [[nodiscard]] Error deadline_error(int missing, int waiting);
  /// Fills `items_`. Item k has leaf k of all local replicas as outputs. Its inputs are leaf k of `count` replicas,
  /// beginning with local replica `first`.
  void make_items(std::size_t first, std::size_t count);
  void reduce(const RendezvousCall& call);
  void broadcast(const RendezvousCall& call);
  void merge(const RendezvousCall& call);

  void fail(int local, const std::exception_ptr& exception) noexcept;
  /// Aborts the step with `error`, unless the step is already aborted, and returns true. If the rendezvous is closed,
  /// first waits until the leader opens it; but if `only_if_open` is true, does nothing and returns false.
  bool abort(const Error& error, bool only_if_open) noexcept;
  [[noreturn]] void throw_abort_error();
  [[nodiscard]] bool aborted() const noexcept { return aborted_.load(); }
  void wait_for_turn(int local);
  void pass_turn(int local) noexcept;

  ReplicaTeam& team_;
  std::vector<std::unique_ptr<ReplicaContext>> replicas_;
  std::unique_ptr<Slot[]> slots_;
  std::unique_ptr<Group[]> groups_;
  Strategy* strategy_ = nullptr;
  ReplicaTask task_{};
  RunMode mode_ = RunMode::concurrent;

  alignas(64) std::atomic<Status> status_{Status::open};
  alignas(64) std::atomic<std::uint32_t> released_{0};  // for the leaders of groups
  std::atomic<int> turn_{0};                            // sequential mode: the replica that may run
  // what every waiting thread reads again and again, and what changes only if something ends
  alignas(64) std::atomic<bool> aborted_{false};  // follows `status_`
  std::atomic<int> ended_{0};                     // number of replicas that have returned from the step function
  std::optional<Error> shared_error_;  // error of the last rendezvous; the leader writes it before it releases

  mutable detail::Mutex mutex_;
  std::exception_ptr failure_ LOCKSTEP_GUARDED_BY(mutex_);
  std::optional<Error> abort_error_ LOCKSTEP_GUARDED_BY(mutex_);

  // buffers of the leader, reused in every rendezvous
  Group united_;                // the arguments of all groups, if there are several
  Group* arguments_ = nullptr;  // of all local replicas
  std::vector<Item> items_;
};

/// Access of the library to the step of a replica.
struct StepAccess {
  [[nodiscard]] static Step& step(const ReplicaContext& replica) noexcept { return replica.step_; }
  [[nodiscard]] static ReplicaContext* make(Step& step, int local) { return new ReplicaContext(step, local); }
  /// Throws Error(failed_precondition) if this thread is not in the step function of `replica`. A replica of the
  /// default strategy may also be used outside of all strategies.
  static void check_use(const ReplicaContext& replica, std::string_view call);
  /// Makes check_use(replica, user.call). Errors of the next merge_call of `replica`, which this thread makes next,
  /// name the call `user`. Its texts must exist until that call returns.
  static void name_merge_call(const ReplicaContext& replica, const UserCall& user);
  /// Cache lines of other replicas that the thread of `replica` has read in the rendezvous of all steps, without those
  /// of the collectives themselves. Counted where they are read. Called by that thread.
  [[nodiscard]] static std::uint64_t lines_read(const ReplicaContext& replica) noexcept;
  /// The call that name_merge_call has given for this merge_call of `replica`; empty if there is none.
  [[nodiscard]] static UserCall take_name(const ReplicaContext& replica) noexcept;
};

}  // namespace lockstep

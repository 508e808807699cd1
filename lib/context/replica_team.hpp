// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The local replicas of one strategy: their devices, their threads and their communicator. A strategy, its variables
// and its replica contexts share one team.

#pragma once

#include "collectives/engine/parallel_loop.hpp"
#include "collectives/make_communicator.hpp"
#include "collectives/staged_items.hpp"
#include "context/thread_context.hpp"
#include "context/waiter.hpp"

#include <lockstep/base/error.hpp>
#include <lockstep/collectives/communication_options.hpp>
#include <lockstep/collectives/communicator.hpp>
#include <lockstep/collectives/detail/propagate.hpp>
#include <lockstep/context/replica_context.hpp>
#include <lockstep/context/run_options.hpp>
#include <lockstep/context/statistics.hpp>
#include <lockstep/core/device.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep {

/// A function that reduces items, called instead of the communicator's all_reduce.
using Reducer =
    std::function<void(Communicator&, std::span<const Item>, ReduceOp, const CommunicationOptions& of_this_call)>;

/// Functions of a strategy that replace or extend the collectives of its communicator.
struct StrategyHooks {
  enum class ReducerUse : std::uint8_t { calls_with_options, all_calls };
  /// A collective that the first local replica calls once, with the parts of all local replicas.
  using Collective = decltype(detail::MergeFunction::call);

  Reducer reducer = nullptr;
  ReducerUse reducer_use = ReducerUse::calls_with_options;  ///< calls that use `reducer`, not the communicator
  detail::DataPath path = detail::DataPath::as_placed;      ///< data path of the calls that use the communicator
  Collective all_gather = nullptr;                          ///< collective with parts of type GatherPart
  Collective all_reduce_mixed = nullptr;                    ///< collective with parts of type MixedPart
};

class ReplicaTeam {
 public:
  enum class Kind : std::uint8_t { mirrored, one_device, is_default };

  /// `devices[i]` is the device of local replica i. There must be one device per local replica of the communicator.
  ReplicaTeam(std::string name, Communicator communicator, std::vector<Device> devices, Kind kind = Kind::mirrored);
  ReplicaTeam(const ReplicaTeam&) = delete;
  ReplicaTeam& operator=(const ReplicaTeam&) = delete;
  ~ReplicaTeam();

  /// The team of the default strategy.
  [[nodiscard]] static std::shared_ptr<ReplicaTeam> make_default();

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// The name with a number that distinguishes the strategies of one class in this process: "MirroredStrategy #2".
  [[nodiscard]] const std::string& numbered_name() const noexcept { return numbered_name_; }
  /// The name for errors, with the devices: "MirroredStrategy #2 on cpu:0, cpu:1".
  [[nodiscard]] std::string title() const;
  [[nodiscard]] bool is_default() const noexcept { return kind_ == Kind::is_default; }
  /// Whether variables are plain: a plain variable has one copy, and every read and write is allowed. Depends on the
  /// kind of the strategy, not on the number of replicas: a program that is correct with one replica of a mirrored
  /// strategy must be correct with two.
  [[nodiscard]] bool has_plain_variables() const noexcept { return kind_ != Kind::mirrored; }
  [[nodiscard]] const Communicator& communicator() const noexcept { return communicator_; }
  [[nodiscard]] const std::vector<Device>& devices() const noexcept { return devices_; }
  /// Whether some replicas of the job compute on CPUs, and other replicas on GPUs.
  [[nodiscard]] bool devices_are_mixed() const noexcept { return devices_are_mixed_; }
  /// A remark about the choice of devices; may be empty.
  [[nodiscard]] const std::string& note_on_devices() const noexcept { return note_on_devices_; }
  [[nodiscard]] int local_replicas() const noexcept { return static_cast<int>(devices_.size()); }
  [[nodiscard]] int replicas() const noexcept { return replicas_; }
  [[nodiscard]] int first_replica_id() const noexcept { return first_replica_id_; }
  [[nodiscard]] const StrategyStatistics& statistics() const noexcept { return statistics_; }
  [[nodiscard]] Waiter& waiter() noexcept { return *waiter_; }
  /// Lets the threads of waiting replicas help with this rank's collectives.
  [[nodiscard]] detail::ParallelLoop& parallel_loop() noexcept { return *parallel_loop_; }
  [[nodiscard]] std::chrono::milliseconds fail_after() const noexcept { return fail_after_; }
  /// The first local replica of the steps that are not nested.
  [[nodiscard]] ReplicaContext& first_replica();

  /// Runs one step: calls `task` for every local replica. After all local replicas have returned, rethrows the
  /// exception that was thrown first.
  void run(Strategy* strategy, ReplicaTask task, RunMode mode);

  /// Logs a warning, once, if some of `options` have no effect.
  void warn_of_ignored(const RunOptions& options);

  /// Calls `call(communicator)` and measures the time. The strategy uses the communicator only through this function.
  /// All ranks make the same call and find the same errors, so these errors need not be propagated. Only std::bad_alloc
  /// (out of memory) is propagated.
  template <class Call>
  void collective(Call&& call) {
    const auto start = std::chrono::steady_clock::now();
    struct Count {
      StrategyStatistics& statistics;
      std::chrono::steady_clock::time_point start;
      ~Count() {
        ++statistics.collectives;
        statistics.collective_seconds +=
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      }
    } const count{statistics_, start};
    detail::propagate(communicator_, [&] { call(communicator_); }, detail::FoundBy::all_ranks);
  }
  /// After this call, an error that has already been propagated is propagated again if it is thrown again.
  void forget_propagated() { CommunicatorAccess::forget_propagated(communicator_); }
  /// Must be called before the first collective of a replica.
  void set_hooks(StrategyHooks hooks) { hooks_ = std::move(hooks); }
  [[nodiscard]] const StrategyHooks& hooks() const noexcept { return hooks_; }
  /// Sets facts about the devices of all ranks. Must be called before the team is used.
  void set_devices_of_all(bool are_mixed, std::string note) {
    devices_are_mixed_ = are_mixed;
    note_on_devices_ = std::move(note);
  }
  /// Reduces `items`, which the caller has checked, over all replicas. Collective.
  void reduce(std::span<const Item> items, ReduceOp op, std::string_view call, const CommunicationOptions& options) {
    collective([&](Communicator& communicator) {
      const bool for_all = hooks_.reducer_use == StrategyHooks::ReducerUse::all_calls;
      if (hooks_.reducer != nullptr && !items.empty() && (for_all || !options.is_default())) {
        hooks_.reducer(communicator, items, op, options);
        return;
      }
      detail::propagate(communicator, [&] {
        detail::with_staged(items, {.path = hooks_.path}, [&](std::span<const Item> staged) {
          communicator.all_reduce(staged, op, {.order = {}, .name = call, .where = options.where});
        });
      });
    });
  }
  /// Copies the one input of rank `root` to all outputs. Collective.
  void broadcast(std::span<const Item> items, int root, const ReduceOptions& options) {
    collective([&](Communicator& communicator) {
      detail::propagate(communicator, [&] {
        detail::with_staged(items, {hooks_.path, detail::DecidedBy::outputs, &communicator},
                            [&](std::span<const Item> staged) { communicator.broadcast(staged, root, options); });
      });
    });
  }
  /// Counts one merge_call of the local replicas. The next collective compares the counts of all ranks.
  void count_merge() {
    if (communicator_.size() > 1)
      CommunicatorAccess::count_merge(communicator_, static_cast<std::uint64_t>(statistics_.runs));
  }
  void add_rendezvous_seconds(double seconds) noexcept { statistics_.rendezvous_seconds += seconds; }

  /// Number of the last step that was published to the threads.
  [[nodiscard]] std::uint64_t published() const noexcept { return published_.load(); }
  /// Runs replica `local` in the last published step. Called once per step, on the thread of the replica.
  void run_published(int local);
  [[nodiscard]] bool has_published(int local) const noexcept {
    return published() != seen_[static_cast<std::size_t>(local)].count;
  }

 private:
  struct alignas(64) Seen {
    std::uint64_t count = 0;  // number of steps that the thread of this replica has begun; only that thread uses it
  };

  void start_threads();
  void stop_threads() noexcept;
  void run_step(Step& step, Strategy* strategy, ReplicaTask task, RunMode mode);
  void serve(int local);

  std::string name_;
  Communicator communicator_;
  std::vector<Device> devices_;
  Kind kind_;
  std::string numbered_name_;
  int replicas_;
  int first_replica_id_;
  std::chrono::milliseconds fail_after_;
  StrategyStatistics statistics_;
  bool has_warned_ = false;  // the warning about ignored options has been logged
  bool devices_are_mixed_;
  std::string note_on_devices_;
  StrategyHooks hooks_;

  // shared, because the communicator may outlive the team: the communicator holds the loop, and the loop holds the
  // waiter
  std::shared_ptr<Waiter> waiter_;
  std::shared_ptr<detail::ParallelLoop> parallel_loop_;
  std::unique_ptr<Step> step_;        // used by runs that are not nested
  std::atomic<bool> running_{false};  // a thread is in `run`
  Step* current_ = nullptr;           // step that the threads run; published by `published_`
  std::atomic<std::uint64_t> published_{0};
  std::atomic<bool> stopping_{false};
  std::vector<Seen> seen_;
  std::vector<std::thread> threads_;
};

}  // namespace lockstep

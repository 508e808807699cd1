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

/// Reduces items in place of the communicator's all_reduce.
using Reducer =
    std::function<void(Communicator&, std::span<const Item>, ReduceOp, const CommunicationOptions& of_this_call)>;

/// What the strategy of a team adds to its communicator.
struct StrategyHooks {
  enum class ReducerUse : std::uint8_t { calls_with_options, all_calls };
  /// Done once by the first local replica, with the parts of all.
  using Collective = decltype(detail::MergeFunction::call);

  Reducer reducer = nullptr;
  ReducerUse reducer_use = ReducerUse::calls_with_options;  ///< other calls go to the communicator
  detail::DataPath path = detail::DataPath::as_placed;      ///< of calls that go to the communicator
  Collective all_gather = nullptr;                          ///< of GatherPart
  Collective all_reduce_mixed = nullptr;                    ///< of MixedPart
};

class ReplicaTeam {
 public:
  enum class Kind : std::uint8_t { mirrored, one_device, is_default };

  /// `devices[i]` is the device of local replica i; as many as the communicator has local replicas.
  ReplicaTeam(std::string name, Communicator communicator, std::vector<Device> devices, Kind kind = Kind::mirrored);
  ReplicaTeam(const ReplicaTeam&) = delete;
  ReplicaTeam& operator=(const ReplicaTeam&) = delete;
  ~ReplicaTeam();

  /// The team of the default strategy.
  [[nodiscard]] static std::shared_ptr<ReplicaTeam> make_default();

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// The name and a number that counts the strategies of this process, which tells those of one class apart:
  /// "MirroredStrategy #2".
  [[nodiscard]] const std::string& numbered_name() const noexcept { return numbered_name_; }
  /// For errors: "MirroredStrategy #2 on cpu:0, cpu:1".
  [[nodiscard]] std::string title() const;
  [[nodiscard]] bool is_default() const noexcept { return kind_ == Kind::is_default; }
  /// Whether variables are plain: one copy, and every read and write is allowed. A matter of the kind of strategy, not
  /// of the number of replicas: a program that is right with one replica of a mirrored strategy is right with two.
  [[nodiscard]] bool has_plain_variables() const noexcept { return kind_ != Kind::mirrored; }
  [[nodiscard]] const Communicator& communicator() const noexcept { return communicator_; }
  [[nodiscard]] const std::vector<Device>& devices() const noexcept { return devices_; }
  /// Whether some replicas, of all ranks, compute on hosts and some on GPUs.
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
  /// The first replica in steps that are not nested.
  [[nodiscard]] ReplicaContext& first_replica();

  /// One step: `task` on every local replica. Rethrows the first exception once all replicas have returned.
  void run(Strategy* strategy, ReplicaTask task, RunMode mode);

  /// Logs a warning, once, if some of `options` have no effect.
  void warn_of_ignored(const RunOptions& options);

  /// Runs `call(communicator)` and times it: every use of the communicator by the strategy goes through here. All ranks
  /// make the same call and find the same errors, which are not propagated again by this rank's step; a lack of memory
  /// is.
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
  /// Failures that were propagated before count as new if they are thrown once more.
  void forget_propagated() { CommunicatorAccess::forget_propagated(communicator_); }
  /// Before the first collective of a replica.
  void set_hooks(StrategyHooks hooks) { hooks_ = std::move(hooks); }
  [[nodiscard]] const StrategyHooks& hooks() const noexcept { return hooks_; }
  /// Facts about devices that only all ranks together know. Before the team is used.
  void set_devices_of_all(bool are_mixed, std::string note) {
    devices_are_mixed_ = are_mixed;
    note_on_devices_ = std::move(note);
  }
  /// The reduction of `items`, which have been checked, over all replicas. Collective.
  void reduce(std::span<const Item> items, ReduceOp op, std::string_view call, const CommunicationOptions& options) {
    collective([&](Communicator& communicator) {
      const bool for_all = hooks_.reducer_use == StrategyHooks::ReducerUse::all_calls;
      if (hooks_.reducer != nullptr && (for_all || !options.is_default())) {
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
  /// Outputs get the one input that rank `root` gives. Only the line of `options` is used. Collective.
  void broadcast(std::span<const Item> items, int root, std::string_view call,
                 const CommunicationOptions& options = {}) {
    collective([&](Communicator& communicator) {
      detail::propagate(communicator, [&] {
        detail::with_staged(items, {hooks_.path, detail::DecidedBy::outputs, &communicator},
                            [&](std::span<const Item> staged) {
                              communicator.broadcast(staged, root, {.order = {}, .name = call, .where = options.where});
                            });
      });
    });
  }
  /// The local replicas meet in a merge_call: the next collective compares how often they did on each rank.
  void count_merge() {
    if (communicator_.size() > 1)
      CommunicatorAccess::count_merge(communicator_, static_cast<std::uint64_t>(statistics_.runs));
  }
  void add_rendezvous_seconds(double seconds) noexcept { statistics_.rendezvous_seconds += seconds; }

  /// Number of the last step that the threads got.
  [[nodiscard]] std::uint64_t published() const noexcept { return published_.load(); }
  /// On the thread of replica `local`: runs its part of the last step, which it has not run yet.
  void run_published(int local);
  [[nodiscard]] bool has_published(int local) const noexcept {
    return published() != seen_[static_cast<std::size_t>(local)].count;
  }

 private:
  struct alignas(64) Seen {
    std::uint64_t count = 0;  // number of steps that this replica's thread has begun; used by that thread only
  };

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
  bool has_warned_ = false;  // about ignored options
  bool devices_are_mixed_;
  std::string note_on_devices_;
  StrategyHooks hooks_;

  // shared: the communicator, which may live longer, holds the loop, and the loop holds the waiter
  std::shared_ptr<Waiter> waiter_;
  std::shared_ptr<detail::ParallelLoop> parallel_loop_;
  std::unique_ptr<Step> step_;        // used by runs that are not nested
  std::atomic<bool> running_{false};  // a thread is in `run`
  Step* current_ = nullptr;           // published by `published_`
  std::atomic<std::uint64_t> published_{0};
  std::atomic<bool> stopping_{false};
  std::vector<Seen> seen_;
  std::vector<std::thread> threads_;
};

}  // namespace lockstep

// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The local replicas of one strategy: their devices, their threads, and the communicator that speaks for them. A
// strategy, its variables and its replica contexts share one team.

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

/// What reduces items where that is not the communicator's all_reduce alone.
using Reducer =
    std::function<void(Communicator&, std::span<const Item>, ReduceOp, const CommunicationOptions& of_this_call)>;

class ReplicaTeam {
 public:
  enum class Kind : std::uint8_t { usual, is_default };

  /// `devices[i]` is where local replica i computes; as many as the communicator has local replicas.
  ReplicaTeam(std::string name, Communicator communicator, std::vector<Device> devices, Kind kind = Kind::usual);
  ReplicaTeam(const ReplicaTeam&) = delete;
  ReplicaTeam& operator=(const ReplicaTeam&) = delete;
  ~ReplicaTeam();

  /// The team of the default strategy.
  [[nodiscard]] static std::shared_ptr<ReplicaTeam> make_default();

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] bool is_default() const noexcept { return kind_ == Kind::is_default; }
  [[nodiscard]] const Communicator& communicator() const noexcept { return communicator_; }
  [[nodiscard]] const std::vector<Device>& devices() const noexcept { return devices_; }
  /// Whether some replicas, of all ranks, compute on hosts and some on GPUs.
  [[nodiscard]] bool devices_are_mixed() const noexcept { return devices_are_mixed_; }
  /// What there is to be said of the choice of devices; may be empty.
  [[nodiscard]] const std::string& note_on_devices() const noexcept { return note_on_devices_; }
  [[nodiscard]] int local_replicas() const noexcept { return static_cast<int>(devices_.size()); }
  [[nodiscard]] int replicas() const noexcept { return replicas_; }
  [[nodiscard]] int first_replica_id() const noexcept { return first_replica_id_; }
  [[nodiscard]] const StrategyStatistics& statistics() const noexcept { return statistics_; }
  [[nodiscard]] Waiter& waiter() noexcept { return *waiter_; }
  /// What this rank's collectives share with the threads of replicas that wait.
  [[nodiscard]] detail::ParallelLoop& parallel_loop() noexcept { return *parallel_loop_; }
  [[nodiscard]] std::chrono::milliseconds fail_after() const noexcept { return fail_after_; }
  /// The first replica's context of steps that are not nested.
  [[nodiscard]] ReplicaContext& first_replica();

  /// One step: `task` on every local replica. Throws the first exception in time, after all replicas have ended.
  void run(Strategy* strategy, ReplicaTask task, RunMode mode);

  /// Says in the log, the first time, that some of `options` have no effect.
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
  /// Everything that is reduced from now on goes to `reducer`; or what has options of its own only. What is not goes by
  /// `route`. Before the first reduction.
  void set_reducer(Reducer reducer, bool for_all, detail::Route route) {
    reducer_ = std::move(reducer);
    reducer_for_all_ = for_all;
    route_ = route;
  }
  /// What only all ranks together know of their devices. Before the team is used.
  void set_devices_of_all(bool are_mixed, std::string note) {
    devices_are_mixed_ = are_mixed;
    note_on_devices_ = std::move(note);
  }
  /// The reduction of `items`, which have been checked, over all replicas. Collective.
  void reduce(std::span<const Item> items, ReduceOp op, std::string_view call, const CommunicationOptions& options) {
    collective([&](Communicator& communicator) {
      if (reducer_ != nullptr && (reducer_for_all_ || !options.is_default())) {
        reducer_(communicator, items, op, options);
        return;
      }
      detail::propagate(communicator, [&] {
        detail::with_staged(items, {.route = route_}, [&](std::span<const Item> staged) {
          communicator.all_reduce(staged, op, {.order = {}, .name = call});
        });
      });
    });
  }
  /// Outputs get the one input that rank `root` gives. Collective.
  void broadcast(std::span<const Item> items, int root, std::string_view call) {
    collective([&](Communicator& communicator) {
      detail::propagate(communicator, [&] {
        detail::with_staged(
            items, {route_, detail::DecidedBy::outputs, &communicator},
            [&](std::span<const Item> staged) { communicator.broadcast(staged, root, {.order = {}, .name = call}); });
      });
    });
  }
  /// The local replicas meet in a merge_call: the next collective compares how often they did on each rank.
  void count_merge() {
    if (communicator_.size() > 1)
      CommunicatorAccess::count_merge(communicator_, static_cast<std::uint64_t>(statistics_.runs));
  }
  void add_meeting_seconds(double seconds) noexcept { statistics_.meeting_seconds += seconds; }

  /// Number of the last step that was handed to the threads.
  [[nodiscard]] std::uint64_t published() const noexcept { return published_.load(); }
  /// On the thread of replica `local`: runs its part of a step that was handed out and not yet run by it.
  void run_published(int local);
  [[nodiscard]] bool has_published(int local) const noexcept {
    return published() != seen_[static_cast<std::size_t>(local)].count;
  }

 private:
  struct alignas(64) Seen {
    std::uint64_t count = 0;  // of steps that this replica's thread has begun; its own
  };

  void run_step(Step& step, Strategy* strategy, ReplicaTask task, RunMode mode);
  void serve(int local);

  std::string name_;
  Communicator communicator_;
  std::vector<Device> devices_;
  Kind kind_;
  int replicas_;
  int first_replica_id_;
  std::chrono::milliseconds fail_after_;
  StrategyStatistics statistics_;
  bool has_warned_ = false;  // of options that are ignored
  bool devices_are_mixed_;
  std::string note_on_devices_;
  Reducer reducer_;
  bool reducer_for_all_ = false;
  detail::Route route_ = detail::Route::as_placed;

  // the communicator, which may live longer, has the loop, and the loop the waiter
  std::shared_ptr<Waiter> waiter_;
  std::shared_ptr<detail::ParallelLoop> parallel_loop_;
  std::unique_ptr<Step> step_;        // of runs that are not nested
  std::atomic<bool> running_{false};  // a thread is in `run`
  Step* current_ = nullptr;           // published by `published_`
  std::atomic<std::uint64_t> published_{0};
  std::atomic<bool> stopping_{false};
  std::vector<Seen> seen_;
  std::vector<std::thread> threads_;
};

}  // namespace lockstep

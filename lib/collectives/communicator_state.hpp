// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What a communicator holds, and how one call of it becomes an operation.

#pragma once

#include <lockstep/collectives/communicator.hpp>

#include "collectives/engine.hpp"
#include "collectives/host/schedule_book.hpp"
#include "collectives/plan_cache.hpp"
#include "collectives/request_state.hpp"
#include "collectives/shared_loop.hpp"
#include "collectives/split.hpp"
#include "collectives/validate.hpp"

#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace lockstep {

// hidden, though it is in a class that is exported
struct [[gnu::visibility("hidden")]] Communicator::State {
  using Call = detail::Call;

  CommunicatorOptions options;
  bool force_canonical_order = false;
  ReplicaLayout layout;
  int rank = 0;
  std::shared_ptr<detail::Engine> engine;
  std::shared_ptr<detail::ScheduleBook> schedules;
  mutable std::mutex mutex;
  std::shared_ptr<detail::SharedLoop> shared_loop;  // guarded by mutex
  detail::PlanCache cache;                          // guarded by mutex

  /// Makes the operation of one call. What this rank finds wrong is told to the others, then thrown.
  [[nodiscard]] std::shared_ptr<detail::Operation> operation(const Call& call, std::span<const Item> items,
                                                             const ReduceOptions& how) const;
  [[nodiscard]] std::shared_ptr<detail::Operation> make_operation(const Call& call, std::span<const Item> items,
                                                                  const ReduceOptions& how) const;
  [[nodiscard]] static bool reduces(const Call& call);
  [[nodiscard]] static bool copies(const Call& call);
  [[nodiscard]] std::shared_ptr<detail::SharedLoop> loop() const;
  [[nodiscard]] static bool moves_parts(const Call& call);
  void run(const Call& call, std::span<const Item> items, const ReduceOptions& how);
  [[nodiscard]] std::unique_ptr<Request::State> run_async(const Call& call, std::span<const Item> items,
                                                          const ReduceOptions& how);
  /// Starts one end of a message. What this rank finds wrong is told to the other, then thrown.
  [[nodiscard]] std::unique_ptr<Request::State> post_pair(const Call& call, std::span<const Item> items,
                                                          const ReduceOptions& how, detail::Progress progress);
  /// The ranks that come together with this one, in order. Collective.
  [[nodiscard]] std::vector<int> members_of_split(const detail::SplitClaim& claim);
  /// None: direct exchange, or the shared memory of the node.
  [[nodiscard]] std::shared_ptr<const detail::RankSchedule> schedule_of(
      const Call& call, const std::vector<detail::HostItem>& items) const;
  /// The operation that served the same call before, if it is free and has not failed; else a new one.
  [[nodiscard]] std::shared_ptr<detail::Operation> acquire(const Call& call, std::span<const Item> items,
                                                           const ReduceOptions& how);
  [[nodiscard]] std::shared_ptr<detail::Operation> acquire_for_any_time(const Call& call, std::span<const Item> items,
                                                                        const ReduceOptions& how);
  /// Any order is honoured where the backend can reduce every item; the canonical one is an instance of any.
  [[nodiscard]] Order order_of(const Call& call, const std::vector<detail::HostItem>& items,
                               const ReduceOptions& how) const;
};

}  // namespace lockstep

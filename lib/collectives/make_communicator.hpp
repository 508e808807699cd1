// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Makes a communicator from a transport, and gives the rest of the library access to its private parts.

#pragma once

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/collectives/schedule_model.hpp>

#include "collectives/engine/family.hpp"
#include "collectives/engine/parallel_loop.hpp"
#include "collectives/gpu/topology.hpp"
#include "collectives/host/schedule_cache.hpp"
#include "transport/transport.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

namespace detail {
struct Settings;
}

struct CommunicatorAccess {
  /// Makes a communicator over `transport`. `schedules` overrides the radices of the environment. If `layout` is not
  /// given, the ranks exchange their numbers of replicas, and the call is collective. `family` is the set of this
  /// rank's communicators that tell other ranks in which communicator this rank waits (see Family). Null: the set has
  /// only the new communicator.
  [[nodiscard]] static Communicator make(std::unique_ptr<detail::Transport> transport,
                                         const CommunicatorOptions& options,
                                         std::optional<ReplicaLayout> layout = std::nullopt,
                                         const detail::ScheduleOptions& schedules = {},
                                         std::shared_ptr<detail::Family> family = nullptr);
  /// The call that makes a communicator from a parent communicator.
  struct Creation {
    std::string_view name;       ///< name of the call
    std::source_location where;  ///< source line of the call
    /// Time limits of the creation. By default, the limits of the parent apply.
    std::optional<std::chrono::milliseconds> warn_after = {};
    std::optional<std::chrono::milliseconds> fail_after = {};
  };
  /// Makes a communicator over the ranks of `parent`, by operations of `parent`. Collective over `parent`.
  [[nodiscard]] static Communicator duplicate(const Communicator& parent, const CommunicatorOptions& options,
                                              const Creation& creation);
  /// Makes a communicator that only the library uses. Its timeout does not extend waits for GPUs. Local.
  [[nodiscard]] static Communicator make_internal(std::unique_ptr<detail::Transport> transport,
                                                  const CommunicatorOptions& options, const ReplicaLayout& layout,
                                                  std::shared_ptr<detail::Family> family = nullptr);
  /// From now on, large reductions of this rank run in `loop`, so that other threads may share their work. Local.
  static void share_loops(Communicator& communicator, std::shared_ptr<detail::ParallelLoop> loop);
  /// Number of replicas of the ranks that may run on exactly the processors of this rank, including its own. Local.
  [[nodiscard]] static int replicas_on_same_processors(const Communicator& communicator);
  [[nodiscard]] static detail::Engine& engine(const Communicator& communicator);
  /// For tests. `hooks` must outlive the communicator. Local; to be called before the first operation of the
  /// communicator.
  static void set_test_hooks(Communicator& communicator, const detail::TestHooks* hooks);
  /// Forgets which failures have been propagated: if such a failure is thrown again, it counts as a new failure. Local.
  static void forget_propagated(const Communicator& communicator);
  /// Counts a merge_call of the local replicas in run number `run` of their strategy. Local.
  static void count_merge(const Communicator& communicator, std::uint64_t run);
  /// The path of collectives between GPUs, with the reason for this path. `devices` has one GPU for each local replica.
  /// If the ranks have not negotiated the path yet, the call negotiates it, as the first call on GPUs does. Collective.
  /// Throws Error(unavailable) for a GPU that does not exist on this machine.
  [[nodiscard]] static detail::GpuDecision gpu_path(Communicator& communicator, std::span<const Device> devices);
  /// The result of the negotiation of the path between GPUs.
  struct NegotiatedGpus {
    detail::GpuDecision decision;
    std::vector<int> devices;  ///< indices of this rank's GPUs, by local replica
  };
  /// None before the negotiation. Local.
  [[nodiscard]] static std::optional<NegotiatedGpus> negotiated_gpus(const Communicator& communicator);
  /// See `selected_schedule`.
  [[nodiscard]] static std::string selection(const Communicator& communicator, std::int64_t bytes, BufferKind buffers);

 private:
  [[nodiscard]] static Communicator begin(const std::shared_ptr<detail::Transport>& transport,
                                          const CommunicatorOptions& options,
                                          const std::optional<ReplicaLayout>& layout, const detail::Settings& settings,
                                          std::shared_ptr<detail::Family> family);
  static void complete(Communicator& communicator, const CommunicatorOptions& options, bool has_layout,
                       const detail::ScheduleOptions& schedules, const detail::Settings& settings);
};

}  // namespace lockstep

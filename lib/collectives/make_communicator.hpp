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

struct CommunicatorAccess {
  /// `schedules` overrides the radices of the environment.
  /// By default the communicator is in a family of its own.
  /// Collective if `layout` is not given: the ranks then exchange their numbers of replicas.
  [[nodiscard]] static Communicator make(std::unique_ptr<detail::Transport> transport,
                                         const CommunicatorOptions& options,
                                         std::optional<ReplicaLayout> layout = std::nullopt,
                                         const detail::ScheduleOptions& schedules = {},
                                         std::shared_ptr<detail::Family> family = std::make_shared<detail::Family>());
  /// A communicator over the ranks of `parent`, made by its operations. Collective over `parent`.
  struct Creation {
    std::string_view name;       ///< of the call
    std::source_location where;  ///< of the call
    /// Limits of the creation; default: those of `parent`.
    std::optional<std::chrono::milliseconds> warn_after = {};
    std::optional<std::chrono::milliseconds> fail_after = {};
  };
  [[nodiscard]] static Communicator duplicate(const Communicator& parent, const CommunicatorOptions& options,
                                              const Creation& creation);
  /// A communicator for the library's own use, with one replica per rank. Its timeout does not count for the waits for
  /// GPUs. Local.
  [[nodiscard]] static Communicator make_internal(std::unique_ptr<detail::Transport> transport,
                                                  const CommunicatorOptions& options, const ReplicaLayout& layout);
  /// From now on large reductions of this rank run as loops whose work other threads may share. Local.
  static void share_loops(Communicator& communicator, std::shared_ptr<detail::ParallelLoop> loop);
  [[nodiscard]] static detail::Engine& engine(const Communicator& communicator);
  /// For tests. `hooks` must outlive the communicator. Local; to be called before its first operation.
  static void set_test_hooks(Communicator& communicator, const detail::TestHooks* hooks);
  /// A failure that was propagated before counts as new if it is thrown again. Local.
  static void forget_propagated(const Communicator& communicator);
  /// Counts a merge_call of the local replicas in run number `run` of their strategy. Local.
  static void count_merge(const Communicator& communicator, std::uint64_t run);
  /// The path of collectives between GPUs, with its reason. `devices` are the GPUs of the local replicas, one for each.
  /// Negotiates the path if the ranks have not done so yet, as the first call on GPUs does. Collective. Throws
  /// Error(unavailable) for a GPU that does not exist on this machine.
  [[nodiscard]] static detail::GpuDecision gpu_path(Communicator& communicator, std::span<const Device> devices);
  /// The negotiated path; none before the negotiation. Local.
  struct NegotiatedGpus {
    detail::GpuDecision decision;
    std::vector<int> devices;  ///< indices of this rank's GPUs, by local replica
  };
  [[nodiscard]] static std::optional<NegotiatedGpus> negotiated_gpus(const Communicator& communicator);
  /// See `selected_schedule`.
  [[nodiscard]] static std::string selection(const Communicator& communicator, std::int64_t bytes, BufferKind buffers);
};

}  // namespace lockstep

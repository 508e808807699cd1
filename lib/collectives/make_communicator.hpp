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

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
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

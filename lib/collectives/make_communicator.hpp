// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// How a transport becomes a communicator.

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
  /// `schedules` overrules what the environment says of radices.
  /// Without `family` the communicator is of no other.
  /// Without `layout` the ranks tell one another their numbers of replicas: collective then.
  [[nodiscard]] static Communicator make(std::unique_ptr<detail::Transport> transport,
                                         const CommunicatorOptions& options,
                                         std::optional<ReplicaLayout> layout = std::nullopt,
                                         const detail::ScheduleOptions& schedules = {},
                                         std::shared_ptr<detail::Family> family = std::make_shared<detail::Family>());
  /// From now on large reductions of this rank are loops that others may share. Local.
  static void share_loops(Communicator& communicator, std::shared_ptr<detail::ParallelLoop> loop);
  [[nodiscard]] static detail::Engine& engine(const Communicator& communicator);
  /// For tests; `hooks` outlive the communicator. Local: before its first operation.
  static void set_test_hooks(Communicator& communicator, const detail::TestHooks* hooks);
  /// Failures that were propagated before count as new if they are thrown once more. Local.
  static void forget_propagated(const Communicator& communicator);
  /// The local replicas have met in a merge_call, in `run` of their strategy. Local.
  static void count_merge(const Communicator& communicator, std::uint64_t run);
  /// How the ranks work on GPUs, the local replicas being on `devices`, which are GPUs, one for each; the path and
  /// why. Negotiates it if that has not been done, as the first call on GPUs does. Collective. Throws
  /// Error(unavailable) for a GPU that is not here.
  [[nodiscard]] static detail::GpuDecision gpu_path(Communicator& communicator, std::span<const Device> devices);
  /// The negotiated path; none before the negotiation. Local.
  struct NegotiatedGpus {
    detail::GpuDecision decision;
    std::vector<int> devices;  ///< the numbers of this rank's GPUs, by local replica
  };
  [[nodiscard]] static std::optional<NegotiatedGpus> negotiated_gpus(const Communicator& communicator);
  /// As `selected_schedule`.
  [[nodiscard]] static std::string selection(const Communicator& communicator, std::int64_t bytes, BufferKind buffers);
};

}  // namespace lockstep

// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Communicators whose ranks are threads of one process.

#include "base/check.hpp"
#include "cluster/settings.hpp"
#include "collectives/communicator_state.hpp"
#include "collectives/make_communicator.hpp"
#include "transport/loopback/loopback_transport.hpp"

namespace lockstep {

Communicator self_communicator(const CommunicatorOptions& options) {
  return thread_communicators(std::span(&options, 1)).front();
}

std::vector<Communicator> thread_communicators(std::span<const CommunicatorOptions> options) {
  if (options.empty()) detail::throw_error(Code::invalid_argument, "thread_communicators: the list of ranks is empty");
  std::vector<int> counts;
  const std::int32_t timeout_ms = detail::timeout_ms(options.front());
  for (const CommunicatorOptions& each : options) {
    const int rank = static_cast<int>(counts.size());
    detail::require_equal_timeouts("thread_communicators", {0, timeout_ms}, {rank, detail::timeout_ms(each)});
    counts.push_back(each.local_replicas);
  }
  const ReplicaLayout layout(counts);
  auto transports = detail::make_loopback_transports(layout.ranks(), detail::settings_from_environment().share_memory);
  std::vector<Communicator> communicators;
  for (std::size_t rank = 0; rank < options.size(); ++rank) {
    communicators.push_back(CommunicatorAccess::make(std::move(transports[rank]), options[rank], layout));
  }
  return communicators;
}

}  // namespace lockstep

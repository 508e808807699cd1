// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// How a transport becomes a communicator.

#pragma once

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/collectives/schedule_model.hpp>

#include "collectives/host/schedule_book.hpp"
#include "transport/transport.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace lockstep {

struct CommunicatorAccess {
  /// `schedules` overrules what the environment says of radices.
  /// Without `layout` the ranks tell one another their numbers of replicas: collective then.
  [[nodiscard]] static Communicator make(std::unique_ptr<detail::Transport> transport,
                                         const CommunicatorOptions& options,
                                         std::optional<ReplicaLayout> layout = std::nullopt,
                                         const detail::ScheduleOptions& schedules = {});
  /// As `selected_schedule`.
  [[nodiscard]] static std::string selection(const Communicator& communicator, std::int64_t bytes, BufferKind buffers);
};

}  // namespace lockstep

// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What an all_reduce does at which size, in words.

#pragma once

#include <lockstep/cluster/replica_layout.hpp>
#include <lockstep/collectives/schedule_model.hpp>

#include "collectives/host/schedule_cache.hpp"

#include <cstdint>
#include <string>

namespace lockstep::detail {

/// How the ranks of a group reach one another.
enum class Reach : std::uint8_t { shared_memory, messages };

/// What an all_reduce of `bytes` bytes per replica does, in the words of `selected_schedule`.
[[nodiscard]] std::string selection(const ReplicaLayout& layout, Reach reach, ScheduleCache& book, std::int64_t bytes,
                                    BufferKind buffers);

}  // namespace lockstep::detail

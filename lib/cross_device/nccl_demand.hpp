// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What there must be where NCCL is asked for, and nothing else will do.

#pragma once

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/core/device.hpp>

#include <span>
#include <string_view>

namespace lockstep {

/// Throws Error(unavailable), which begins with `who`, unless this process has GPUs and NCCL. Local.
void require_nccl_here(std::string_view who);

/// Throws Error(unavailable), which begins with `who`, where the ranks, whose local replicas are on the GPUs `devices`,
/// go through host memory, or some do that share a GPU; on all of them. Collective.
void require_nccl_between(Communicator& communicator, std::span<const Device> devices, std::string_view who);

/// Both, for values that must all lie on GPUs. Collective.
void require_nccl(Communicator& communicator, std::span<const Item> items, std::string_view who);

}  // namespace lockstep

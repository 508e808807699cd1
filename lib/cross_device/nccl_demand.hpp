// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Checks for calls that require NCCL.

#pragma once

#include <lockstep/collectives/communicator.hpp>
#include <lockstep/core/device.hpp>

#include <span>
#include <string_view>

namespace lockstep {

/// If this process has no GPUs or no NCCL, throws Error(unavailable) with a text that begins with `caller`. Local.
void require_nccl_here(std::string_view caller);

/// Throws Error(unavailable) on every rank if some ranks cannot exchange data by NCCL: because NCCL cannot be used, or
/// because ranks share a GPU. `devices` are the GPUs of this rank's replicas. The error text begins with `caller`.
/// Collective.
void require_nccl_between(Communicator& communicator, std::span<const Device> devices, std::string_view caller);

/// Makes both checks above. Also throws Error(unavailable) if a value is not on a GPU. Collective.
void require_nccl(Communicator& communicator, std::span<const Item> items, std::string_view caller);

}  // namespace lockstep

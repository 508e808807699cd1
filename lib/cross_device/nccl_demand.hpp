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

/// Throws Error(unavailable) unless this process has GPUs and NCCL; the text begins with `caller`. Local.
void require_nccl_here(std::string_view caller);

/// Throws Error(unavailable) on every rank if some ranks cannot exchange data by NCCL: because NCCL cannot be used, or
/// because ranks share a GPU. `devices` are the GPUs of this rank's replicas; the text begins with `caller`.
/// Collective.
void require_nccl_between(Communicator& communicator, std::span<const Device> devices, std::string_view caller);

/// Makes both checks for values that must all be on GPUs. Collective.
void require_nccl(Communicator& communicator, std::span<const Item> items, std::string_view caller);

}  // namespace lockstep

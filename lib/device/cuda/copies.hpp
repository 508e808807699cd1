// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Copies of which one end at least is a GPU.

#pragma once

#include <lockstep/core/device.hpp>

#include <cstddef>

namespace lockstep::detail::cuda {

/// What `lockstep::copy` says, for `bytes`, not 0, of which `source_device` or `target_device` is a GPU.
void copy_bytes(void* target, Device target_device, const void* source, Device source_device, std::size_t bytes);

/// Zeroes, in order with the stream of `device`, a GPU.
void zero_bytes(void* target, Device device, std::size_t bytes);

}  // namespace lockstep::detail::cuda

// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Copies of which one end at least is a GPU.

#pragma once

#include <lockstep/core/device.hpp>

#include "bindings/cuda/cuda.hpp"

#include <cstddef>

namespace lockstep::detail::cuda {

/// What `lockstep::copy` says, for `bytes`, not 0, of which `source_device` or `target_device` is a GPU.
void copy_bytes(void* target, Device target_device, const void* source, Device source_device, std::size_t bytes);

/// Starts a copy on `stream`, of the current device. Each end is memory of its GPU, or page-locked. Throws
/// Error(unavailable) when CUDA fails.
void start_copy(void* target, int target_gpu, const void* source, int source_gpu, std::size_t bytes, Stream stream);

/// Zeroes, in order with the stream of `device`, a GPU.
void zero_bytes(void* target, Device device, std::size_t bytes);

}  // namespace lockstep::detail::cuda

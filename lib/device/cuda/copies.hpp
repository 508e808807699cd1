// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Copies from or to a GPU.

#pragma once

#include <lockstep/core/device.hpp>

#include "bindings/cuda/cuda.hpp"

#include <cstddef>

namespace lockstep::detail::cuda {

/// Implements `lockstep::copy` for `bytes` > 0, if `source_device` or `target_device` is a GPU.
void copy_bytes(void* target, Device target_device, const void* source, Device source_device, std::size_t bytes);

/// Starts a copy on `stream`, a stream of the current device. Source and target are memory of their GPU, or pinned.
/// Throws Error(unavailable) if CUDA fails.
void start_copy(void* target, int target_gpu, const void* source, int source_gpu, std::size_t bytes, Stream stream);

/// Sets memory to zero, in order with the stream of `device`, a GPU.
void zero_bytes(void* target, Device device, std::size_t bytes);

}  // namespace lockstep::detail::cuda

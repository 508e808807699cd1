// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Stream-ordered memory of GPUs, and pinned host memory; copies from or to a GPU.

#pragma once

#include "bindings/cuda/cuda.hpp"

#include <lockstep/core/device.hpp>
#include <lockstep/device/memory_resource.hpp>

#include <cstddef>
#include <memory>
#include <string>

namespace lockstep::detail::cuda {

/// Allocates pinned host memory, which every device can access, by a call on `device`. Throws std::bad_alloc. CUDA may
/// wait for work on its devices when pinned memory is allocated or freed: do neither in the middle of a step.
[[nodiscard]] void* take_pinned(std::size_t bytes, int device);
void give_back_pinned(void* block, int device) noexcept;

/// Returns where `data` is, such as "in memory of gpu:1", if the GPU `device` cannot access it; otherwise an empty
/// string. Every GPU can access pinned and managed memory. A kernel that accesses other memory makes the device fail.
/// Called under a CurrentDevice. Throws Error(unavailable) if CUDA fails.
[[nodiscard]] std::string out_of_reach(const void* data, Device device);

/// A resource of stream-ordered device memory; `stream` is a stream of `device`.
[[nodiscard]] std::shared_ptr<MemoryResource> stream_memory(int device, Stream stream);

/// A resource of pinned memory, allocated by calls on `device`. Blocks have size classes, and up to `most_kept_bytes`
/// of freed blocks are kept for later requests.
[[nodiscard]] std::shared_ptr<MemoryResource> pinned_memory(int device, std::size_t most_kept_bytes);

/// Implements `lockstep::copy` for `bytes` > 0, if `source_device` or `target_device` is a GPU.
void copy_bytes(void* target, Device target_device, const void* source, Device source_device, std::size_t bytes);

/// Starts a copy on `stream`, a stream of the current device. The source is in memory of `source_gpu`, the target in
/// memory of `target_gpu`; each may be in pinned memory instead. Throws Error(unavailable) if CUDA fails.
void start_copy(void* target, int target_gpu, const void* source, int source_gpu, std::size_t bytes, Stream stream);

/// Sets memory to zero in stream order, on the stream of `device`, a GPU.
void zero_bytes(void* target, Device device, std::size_t bytes);

}  // namespace lockstep::detail::cuda

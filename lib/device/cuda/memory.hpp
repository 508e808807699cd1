// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Stream-ordered GPU memory, pinned host memory, and copies from or to a GPU.

#pragma once

#include "bindings/cuda/cuda.hpp"

#include <lockstep/core/device.hpp>
#include <lockstep/device/memory_resource.hpp>

#include <cstddef>
#include <memory>
#include <string>

namespace lockstep::detail::cuda {

/// Allocates pinned host memory by a call on `device`. Every device can access the memory. Throws std::bad_alloc. When
/// pinned memory is allocated or freed, CUDA may wait for pending work on the devices. So pinned memory must not be
/// allocated or freed in the middle of a step.
[[nodiscard]] void* take_pinned(std::size_t bytes, int device);
void give_back_pinned(void* block, int device) noexcept;

/// If the GPU `device` cannot access `data`, returns the location of `data`, such as "in memory of gpu:1"; otherwise
/// returns an empty string. Every GPU can access pinned and managed memory. A kernel that accesses memory out of reach
/// makes the device fail. Must be called while a CurrentDevice exists. Throws Error(unavailable) if CUDA fails.
[[nodiscard]] std::string out_of_reach(const void* data, Device device);

/// A resource of device memory, which is allocated and freed in order with `stream`, a stream of `device`.
[[nodiscard]] std::shared_ptr<MemoryResource> stream_memory(int device, Stream stream);

/// A resource of pinned memory, allocated by calls on `device`. Block sizes are rounded up to size classes. Up to
/// `most_kept_bytes` of freed blocks are kept for later requests.
[[nodiscard]] std::shared_ptr<MemoryResource> pinned_memory(int device, std::size_t most_kept_bytes);

/// Implements `lockstep::copy` for copies from or to a GPU. `bytes` must not be 0.
void copy_bytes(void* target, Device target_device, const void* source, Device source_device, std::size_t bytes);

/// Starts a copy on `stream`, a stream of the current device. The source is in memory of `source_gpu` or in pinned
/// memory; the target is in memory of `target_gpu` or in pinned memory. Throws Error(unavailable) if CUDA fails.
void start_copy(void* target, int target_gpu, const void* source, int source_gpu, std::size_t bytes, Stream stream);

/// Releases `owner`, which keeps memory alive, when the work that is now on the stream of the GPU `device` is complete:
/// at once, or in a later call of release_completed. In a child process of fork(), never releases it.
void release_after_work(Device device, std::shared_ptr<void> owner) noexcept;
/// Releases the owners given to release_after_work whose work is complete. Never waits.
void release_completed() noexcept;

/// Sets the memory at `target` to zero, in order with the stream of the GPU `device`.
void zero_bytes(void* target, Device device, std::size_t bytes);

}  // namespace lockstep::detail::cuda

// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory of GPUs, in order with streams, and memory of the host that GPUs reach by themselves.

#pragma once

#include <lockstep/core/device.hpp>
#include <lockstep/device/memory_resource.hpp>

#include "bindings/cuda/cuda.hpp"

#include <cstddef>
#include <memory>
#include <string>

namespace lockstep::detail::cuda {

/// Page-locked memory of the host, which every device reaches; it is asked for through `device`. Throws std::bad_alloc.
/// CUDA may wait for what runs on its devices before it gives some or takes it back: neither is for the middle of a
/// step.
[[nodiscard]] void* take_pinned(std::size_t bytes, int device);
void give_back_pinned(void* block, int device) noexcept;

/// What is at `data`, which is said to be on the GPU `device`, where that cannot be: "memory of gpu:1"; empty where it
/// can, also of page-locked and managed memory, which every GPU reaches. A kernel that touches what it does not reach
/// takes the device with it. Under a CurrentDevice. Throws Error(unavailable) when CUDA fails.
[[nodiscard]] std::string out_of_reach(const void* data, Device device);

/// Device memory in order with `stream`, the one of `device`.
[[nodiscard]] std::shared_ptr<MemoryResource> stream_memory(int device, Stream stream);

/// Page-locked memory, asked for through `device`, by classes of size, of which `most_kept_bytes` stay for the next who
/// asks.
[[nodiscard]] std::shared_ptr<MemoryResource> pinned_memory(int device, std::size_t most_kept_bytes);

}  // namespace lockstep::detail::cuda

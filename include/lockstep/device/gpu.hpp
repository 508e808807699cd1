// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// GPUs as places where tensors live. All of it is here in every build: without CUDA, or without a GPU, `gpu_count` is 0
// and what needs one throws Error(unavailable) that says what is missing.
//
// Every logical device (gpu:0, gpu:0#1, ...) has one stream, on which all that lockstep does for it is in order;
// interop/cuda.hpp gives it to kernels of one's own.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/device.hpp>
#include <lockstep/core/tensor_view.hpp>
#include <lockstep/device/memory_resource.hpp>

#include <memory>
#include <string>

namespace lockstep {

/// GPUs that this process can use: those that CUDA_VISIBLE_DEVICES leaves, as CUDA numbers them. 0 where there is none.
/// Local. Thread-safe. The first call looks for them.
[[nodiscard]] LOCKSTEP_API int gpu_count();

/// One line: "2 GPUs: NVIDIA H200, NVIDIA H200; CUDA 13.0, driver 13.0; NCCL 2.28.9", or why there is none: "no GPU:
/// built without CUDA", "no GPU: no CUDA driver", ... Local. Thread-safe.
[[nodiscard]] LOCKSTEP_API std::string gpu_status();

/// Memory of the GPU `device`, from its pool, in order with the device's stream: a block that is given back is used
/// again at once by what comes later on the same stream. One per logical device. `allocate` throws std::bad_alloc when
/// the device's memory is used up. Local. Thread-safe. Throws Error(unavailable) where the device is not here.
[[nodiscard]] LOCKSTEP_API std::shared_ptr<MemoryResource> gpu_memory_resource(Device device);

/// Page-locked host memory, from which copies to a GPU need no second copy; the heap where there is no GPU. Blocks are
/// kept for the next request of their size. Local. Thread-safe.
[[nodiscard]] LOCKSTEP_API std::shared_ptr<MemoryResource> pinned_memory_resource();

/// Copies all elements, between any two places; dtype and element count are equal, else Error(invalid_argument). In
/// order with the streams of the devices. On return `source` may be written again where it is host memory, and `target`
/// read where it is. Local. Thread-safe. Throws Error(unavailable) when CUDA fails.
LOCKSTEP_API void copy(TensorView target, ConstTensorView source);

/// Waits until all that is on the stream of `device` is done; nothing for a CPU. Local. Thread-safe. Throws
/// Error(unavailable) with CUDA's words when something there has failed.
LOCKSTEP_API void synchronize(Device device);

}  // namespace lockstep

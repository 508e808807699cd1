// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// GPUs as places where tensors live. All of it is here in every build: without CUDA, or without a GPU, `gpu_count` is 0
// and what needs one throws Error(unavailable) that says what is missing.
//
// Every logical device (gpu:0, gpu:0#1, ...) has one stream, on which all that lockstep does for it is in order: its
// tensors' memory comes and goes there, copies and reductions run there. interop/cuda.hpp gives it to kernels of one's
// own; what runs on another stream is put in order with it by `device_waits_for` and `stream_waits_for`.
//
// A thread that has used no GPU before has the one of its first call here as CUDA's current device afterwards; else the
// current device stays as it was.

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

/// One line: "2 GPUs: NVIDIA H200, NVIDIA H200; CUDA 13.0, driver 13.0; NCCL 2.28.9 of /usr/lib/libnccl.so.2", or why
/// there is none: "no GPU: built without CUDA", "no GPU: no CUDA driver; CUDA 13.0; NCCL 2.28.9 of ...". In a build
/// with CUDA it looks for NCCL. Local. Thread-safe.
[[nodiscard]] LOCKSTEP_API std::string gpu_status();

/// Memory of the GPU `device`, from its pool, in order with the device's stream: a block that is given back is used
/// again at once by what comes later on the same stream. One per logical device. `allocate` throws a std::bad_alloc
/// that names device and bytes when the device's memory is used up. Local. Thread-safe. Throws Error(unavailable) where
/// the device is not here.
[[nodiscard]] LOCKSTEP_API std::shared_ptr<MemoryResource> gpu_memory_resource(Device device);

/// Page-locked host memory, from and to which a GPU copies by itself; the heap where there is no GPU. Some blocks are
/// kept for the next request of about their size: what a kernel or copy of one's own works with must be kept until that
/// is done. `allocate` throws std::bad_alloc when the system locks no more pages. Local. Thread-safe.
[[nodiscard]] LOCKSTEP_API std::shared_ptr<MemoryResource> pinned_memory_resource();

/// Copies all elements, between any two places; dtype and element count are equal, and what is on a GPU by its view is
/// memory that this GPU reaches, else Error(invalid_argument), and nothing is written. In order with the streams of the
/// devices: after what is on both, and before what comes later on either. On return `source` may be written again where
/// it is host memory, and `target` read where it is; so a copy from a GPU, and one to it from page-locked memory, waits
/// for what is on the stream. Local. Thread-safe. Throws Error(unavailable) when CUDA fails, and
/// Error(deadline_exceeded) that names the device when it has not come to it within the deadline; `target` is
/// unspecified then. The deadline is the longest fail_after of the communicators that this process has, those of
/// strategies among them; 300 s where it has none.
LOCKSTEP_API void copy(TensorView target, ConstTensorView source);

/// Waits until all that is on the stream of `device` is done; nothing for a CPU. Local. Thread-safe. Throws
/// Error(unavailable) with CUDA's words when something there has failed, and Error(deadline_exceeded) as `copy` does.
LOCKSTEP_API void synchronize(Device device);

/// The stream of the GPU `device`, a cudaStream_t; it lives as long as the process. Local. Thread-safe. Throws
/// Error(unavailable) where the device is not here. interop/cuda.hpp has this and the next two with CUDA's types.
[[nodiscard]] LOCKSTEP_API void* stream_handle(Device device);

/// What lockstep does later for the GPU `device` waits for what is on `stream` now, a cudaStream_t of the same GPU.
/// Local. Thread-safe. Does not wait. Throws Error(unavailable) where the device is not here, or when CUDA fails.
LOCKSTEP_API void device_waits_for(Device device, void* stream);
/// What comes later on `stream` waits for what lockstep has put on the stream of the GPU `device`. As above.
LOCKSTEP_API void stream_waits_for(void* stream, Device device);

}  // namespace lockstep

// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// GPUs as devices for tensors. All of this exists in every build: without CUDA, or without a GPU, `gpu_count` returns
// 0, and functions that need a GPU throw Error(unavailable) that names the missing part.
//
// Every logical device (gpu:0, gpu:0#1, ...) has one stream, and everything that lockstep does for the device is
// ordered on it: memory of its tensors is allocated and freed there, copies and reductions run there. Programs launch
// their own kernels on that stream (see interop/cuda.hpp), or order another stream with it by `device_waits_for` and
// `stream_waits_for`.
//
// If a thread has not used any GPU before, its first call here sets CUDA's current device; otherwise the current device
// stays as it was.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/device.hpp>
#include <lockstep/core/tensor_view.hpp>
#include <lockstep/device/memory_resource.hpp>

#include <memory>
#include <string>

namespace lockstep {

/// Number of GPUs that this process can use: those in CUDA_VISIBLE_DEVICES, as CUDA numbers them. 0 if there are none.
/// Local. Thread-safe. The first call looks for them.
[[nodiscard]] LOCKSTEP_API int gpu_count();

/// One line: "2 GPUs: NVIDIA H200, NVIDIA H200; CUDA 13.0, driver 13.0; NCCL 2.28.9 of /usr/lib/libnccl.so.2", or the
/// reason why there are none: "no GPU: built without CUDA", "no GPU: no CUDA driver; CUDA 13.0; NCCL 2.28.9 of ...". In
/// a build with CUDA it looks for NCCL. Local. Thread-safe.
[[nodiscard]] LOCKSTEP_API std::string gpu_status();

/// Memory of the GPU `device`, from its pool, in order with the device's stream: a freed block is reused at once by
/// later work on the same stream. There is one resource per logical device. `allocate` throws a std::bad_alloc that
/// names the device and the number of bytes if the device is out of memory. Local. Thread-safe. Throws
/// Error(unavailable) if the device does not exist in this process.
[[nodiscard]] LOCKSTEP_API std::shared_ptr<MemoryResource> gpu_memory_resource(Device device);

/// Pinned host memory, which a GPU can copy from and to by itself; the heap if there is no GPU. Some freed blocks are
/// kept for the next request of about their size, so a program's own kernels and copies must be complete before their
/// memory is freed. `allocate` throws std::bad_alloc if the system cannot pin more memory. Local. Thread-safe.
[[nodiscard]] LOCKSTEP_API std::shared_ptr<MemoryResource> pinned_memory_resource();

/// Copies all elements between any two devices. Both views must have the same dtype and element count, and a view that
/// names a GPU must refer to memory that this GPU can access; otherwise throws Error(invalid_argument), and nothing is
/// written. The copy is in order with the streams of both devices: it runs after earlier work on either, and before
/// later work on either. On return, `source` may be overwritten if it is in host memory, and `target` may be read if it
/// is in host memory; so a copy from a GPU, and a copy to a GPU from pinned memory, waits for the stream. Local.
/// Thread-safe. Throws Error(unavailable) if CUDA fails, and Error(deadline_exceeded) that names the device if the
/// device has not reached the copy by the deadline; the contents of `target` are unspecified then. The deadline is the
/// longest fail_after of the communicators of this process, including those of strategies; 300 s if there are none.
LOCKSTEP_API void copy(TensorView target, ConstTensorView source);

/// Waits until all work on the stream of `device` is complete; does nothing for a CPU. Local. Thread-safe. Throws
/// Error(unavailable) with CUDA's error text if some of that work failed, and Error(deadline_exceeded) as `copy` does.
LOCKSTEP_API void synchronize(Device device);

/// The stream of the GPU `device`, a cudaStream_t; it is valid until the process ends. Local. Thread-safe. Throws
/// Error(unavailable) if the device does not exist in this process. interop/cuda.hpp has this function and the next two
/// with CUDA's types.
[[nodiscard]] LOCKSTEP_API void* stream_handle(Device device);

/// Makes later work of lockstep for the GPU `device` wait for the work that is on `stream` now, a cudaStream_t of the
/// same GPU. Returns at once. Local. Thread-safe. Throws Error(unavailable) if the device does not exist in this
/// process, or if CUDA fails.
LOCKSTEP_API void device_waits_for(Device device, void* stream);
/// Makes later work on `stream` wait for the work that lockstep has put on the stream of the GPU `device`. Otherwise as
/// `device_waits_for`.
LOCKSTEP_API void stream_waits_for(void* stream, Device device);

}  // namespace lockstep

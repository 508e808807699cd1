// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// GPUs as devices for tensors. All functions of this header exist in every build. Without CUDA, or without a GPU,
// `gpu_count` returns 0, and functions that need a GPU throw Error(unavailable) with the name of the missing component.
//
// Every logical device (gpu:0, gpu:0#1, ...) has one stream. All work of lockstep for the device is ordered on this
// stream: allocating and freeing the memory of tensors, copies, and reductions. A program launches its own kernels on
// the same stream (see interop/cuda.hpp), or orders a stream of its own before or after the device's stream, by
// `device_waits_for` and `stream_waits_for`.
//
// If a thread has not used any GPU before, its first call of these functions sets CUDA's current device of the thread.
// Otherwise the functions do not change the current device.

#pragma once

#include <lockstep/base/export.hpp>
#include <lockstep/core/device.hpp>
#include <lockstep/core/tensor_view.hpp>
#include <lockstep/device/memory_resource.hpp>

#include <memory>
#include <string>

namespace lockstep {

/// Number of GPUs that this process can use, which CUDA_VISIBLE_DEVICES may limit. GPU numbers are those of CUDA. A GPU
/// that lockstep cannot use (compute capability below 8.0, no memory pools), and those after it, are not counted;
/// gpu_status gives the reason. Returns 0 if there is no GPU. Local. Thread-safe. Cost: the first call searches for
/// GPUs.
[[nodiscard]] LOCKSTEP_API int gpu_count();

/// One line of text: "2 GPUs: NVIDIA H200, NVIDIA H200; CUDA 13.0, driver 13.0; NCCL 2.28.9 of /usr/lib/libnccl.so.2".
/// If there is no GPU, the text gives the reason: "no GPU: built without CUDA", "no GPU: no CUDA driver; CUDA 13.0;
/// NCCL 2.28.9 of ...". In a build with CUDA, the call searches for the NCCL library. Local. Thread-safe.
[[nodiscard]] LOCKSTEP_API std::string gpu_status();

/// Memory of the GPU `device`, from a memory pool. Allocating and freeing are ordered on the device's stream, so later
/// work on the stream can reuse a freed block at once. There is one resource per logical device. If the device is out
/// of memory, `allocate` throws a std::bad_alloc that names the device and the number of bytes. Local. Thread-safe.
/// Throws Error(unavailable) if the device does not exist in this process.
[[nodiscard]] LOCKSTEP_API std::shared_ptr<MemoryResource> gpu_memory_resource(Device device);

/// Pinned host memory, which a GPU can read and write without the CPU. If there is no GPU, returns the resource of the
/// heap. The resource keeps some freed blocks for later requests of about the same size, so a program's own kernels and
/// copies that use a block must be complete before the program frees the block. `allocate` throws std::bad_alloc if the
/// system cannot pin more memory. Local. Thread-safe.
[[nodiscard]] LOCKSTEP_API std::shared_ptr<MemoryResource> pinned_memory_resource();

/// Copies all elements of `source` to `target`, between any two devices. Both views must have the same dtype and
/// element count, and a view that names a GPU must refer to memory that the GPU can access. If the views break these
/// rules, throws Error(invalid_argument) and writes nothing. The copy is ordered on the streams of both devices: it
/// runs after all earlier work and before all later work on these streams. When the function returns, a `source` in
/// host memory may be overwritten, and a `target` in host memory may be read. Therefore a copy from a GPU to host
/// memory, and a copy from pinned memory to a GPU, waits for the stream. Local. Thread-safe. Throws Error(unavailable)
/// if CUDA fails. Throws Error(deadline_exceeded), which names the device, if the device has not reached the copy by
/// the deadline; the contents of `target` are then unspecified. The deadline is the longest fail_after of the
/// communicators of this process, including the communicators of strategies; 300 s if there are no communicators.
LOCKSTEP_API void copy(TensorView target, ConstTensorView source);

/// Waits until all work on the stream of `device` is complete; does nothing for a CPU. Local. Thread-safe. Throws
/// Error(unavailable) with CUDA's error text if work on the stream failed, and Error(deadline_exceeded) as `copy` does.
LOCKSTEP_API void synchronize(Device device);

/// The stream of the GPU `device`, a cudaStream_t, which is valid until the process ends. Local. Thread-safe. Throws
/// Error(unavailable) if the device does not exist in this process. interop/cuda.hpp declares this function and the
/// next two functions with CUDA's types.
[[nodiscard]] LOCKSTEP_API void* stream_handle(Device device);

/// Makes later work of lockstep for the GPU `device` wait for all work that is on `stream` now. `stream` is a
/// cudaStream_t of the same GPU. Returns at once. Local. Thread-safe. Throws Error(unavailable) if the device does not
/// exist in this process, or if CUDA fails, and Error(failed_precondition) if `stream` is being captured into a CUDA
/// graph.
LOCKSTEP_API void device_waits_for(Device device, void* stream);
/// Makes later work on `stream` wait for all work that is on the stream of the GPU `device` now. Errors and completion
/// as above.
LOCKSTEP_API void stream_waits_for(void* stream, Device device);

}  // namespace lockstep

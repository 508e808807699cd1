// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Use of lockstep with a program's own CUDA kernels. Optional: the only public header that includes CUDA's headers.
//
// The library contains its own CUDA runtime. The program's runtime works with the same devices, streams and memory.

#pragma once

#include <lockstep/device/gpu.hpp>

#include <cuda_runtime.h>

namespace lockstep {

/// The stream on which lockstep orders all its work for the GPU `device`. Without further synchronization, kernels that
/// are launched on this stream see the results of all earlier work on the stream. Do not destroy the stream. Local.
/// Thread-safe. Throws Error(unavailable) if the device does not exist in this process.
[[nodiscard]] inline cudaStream_t native_stream(Device device) {
  return static_cast<cudaStream_t>(stream_handle(device));
}

/// Makes later work of lockstep for the GPU `device` wait for all work that is on `stream` now; `stream` is a stream of
/// the same GPU. Returns at once. Local. Thread-safe. Throws Error(unavailable) if the device does not exist in this
/// process, or if CUDA fails.
inline void wait_for(Device device, cudaStream_t stream) { device_waits_for(device, stream); }

/// Makes later work on `stream` wait for all work that is on the stream of `device` now. Errors are as above.
inline void wait_for(cudaStream_t stream, Device device) { stream_waits_for(stream, device); }

}  // namespace lockstep

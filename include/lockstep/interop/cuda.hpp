// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Use of lockstep together with a program's own CUDA kernels. The only public header that includes CUDA's; optional.
//
// The library contains its own CUDA runtime. A program's runtime works with the same devices, streams and memory.

#pragma once

#include <lockstep/device/gpu.hpp>

#include <cuda_runtime.h>

namespace lockstep {

/// The stream on which lockstep orders everything that it does for the GPU `device`. Kernels that are launched on it
/// see the elements of tensors as earlier work left them, without further synchronization. Do not destroy it. Local.
/// Thread-safe. Throws Error(unavailable) if the device does not exist in this process.
[[nodiscard]] inline cudaStream_t native_stream(Device device) {
  return static_cast<cudaStream_t>(stream_handle(device));
}

/// Makes later work of lockstep for `device` wait for the work that is on `stream` now, a stream of the same GPU.
/// Returns at once. Local. Thread-safe. Throws Error(unavailable) if the device does not exist in this process, or if
/// CUDA fails.
inline void wait_for(Device device, cudaStream_t stream) { device_waits_for(device, stream); }

/// Makes later work on `stream` wait for the work that lockstep has put on the stream of `device`. Otherwise as above.
inline void wait_for(cudaStream_t stream, Device device) { stream_waits_for(stream, device); }

}  // namespace lockstep

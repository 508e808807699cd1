// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// lockstep beside kernels of the user's. The one public header that includes CUDA's; optional.
//
// The library has CUDA's runtime inside. A program's own works on the same devices, streams and memory.

#pragma once

#include <lockstep/device/gpu.hpp>

#include <cuda_runtime.h>

namespace lockstep {

/// The stream on which all that lockstep does for the GPU `device` is in order. Kernels that are launched on it see the
/// elements of tensors as those before left them, and need no other order. It must not be destroyed. Local.
/// Thread-safe. Throws Error(unavailable) where the device is not here.
[[nodiscard]] inline cudaStream_t native_stream(Device device) {
  return static_cast<cudaStream_t>(stream_handle(device));
}

/// What lockstep does later for `device` waits for what is on `stream` now, a stream of the same GPU. Returns at once.
/// Local. Thread-safe. Throws Error(unavailable) where the device is not here, or when CUDA fails.
inline void wait_for(Device device, cudaStream_t stream) { device_waits_for(device, stream); }

/// What comes later on `stream` waits for what lockstep has done for `device`. As above.
inline void wait_for(cudaStream_t stream, Device device) { stream_waits_for(stream, device); }

}  // namespace lockstep

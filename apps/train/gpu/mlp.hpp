// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "train/gpu/backend.hpp"
#include "train/model.hpp"

#include <lockstep/core/device.hpp>

#include <memory>

namespace train::gpu {

/// The mlp in the memory of a GPU. It differs from the contract of Model:
/// - All arrays reside in the memory of `device`; they are read and written in order with its stream.
/// - When `ready` is called, gradients are final on that stream, not yet for the host. For the first batch of a size
///   `ready` is called once all work is on the stream, since CUDA loads kernels at their first launch and may then wait
///   for the work on the GPU, which may be an exchange that waits for this replica.
/// - Equal bits need the same kind of GPU and the same version of cuBLAS, rather than of oneDNN.
/// - A batch has fewer than 2^31 rows.
/// Also throws std::runtime_error if CUDA or cuBLAS fails, and lockstep::Error like lockstep::copy. `backend` has
/// both tables.
[[nodiscard]] std::unique_ptr<Model> make_mlp(lockstep::Device device, const Backend& backend);

}  // namespace train::gpu

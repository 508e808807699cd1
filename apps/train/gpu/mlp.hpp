// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "train/gpu/backend.hpp"
#include "train/model.hpp"

#include <lockstep/core/device.hpp>

#include <memory>

namespace train::gpu {

/// The mlp in the memory of a GPU: as Model says, but
/// - all arrays lie in the memory of `device`; they are read and written in order with its stream;
/// - gradients are final on that stream, not yet for the host, when `ready` is called. At the first batch of a size it
///   is called when all is on the stream, since CUDA loads kernels at their first launch and may wait there for what
///   runs on the GPU: an exchange that waits for this very replica;
/// - equal bits need the same kind of GPU and version of cuBLAS, in place of oneDNN's;
/// - a batch has less than 2^31 rows.
/// Also throws std::runtime_error when CUDA or cuBLAS fails, and lockstep::Error as lockstep::copy does. `backend` has
/// both tables.
[[nodiscard]] std::unique_ptr<Model> make_mlp(lockstep::Device device, const Backend& backend);

}  // namespace train::gpu

// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// lockstep-train: trains an image classifier on all ranks of an mpirun.

#pragma once

#include "train/gpu/backend.hpp"

#include <functional>

namespace train {

/// Runs the program and returns its exit code. `open` opens the backend of models on GPUs; it is called only if there
/// are GPUs. Collective over the job that the launcher started.
[[nodiscard]] int run_lockstep_train(int argc, char** argv, const std::function<gpu::Backend()>& open);

}  // namespace train

// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// lockstep-train: trains an image classifier on all ranks of an mpirun.

#pragma once

#include "train/gpu/backend.hpp"

#include <functional>

namespace train {

/// The whole program; its exit code. `open` gives what models on GPUs compute with, and is called where there are some.
/// Collective over the job that the launcher started.
[[nodiscard]] int run_lockstep_train(int argc, char** argv, const std::function<gpu::Backend()>& open);

}  // namespace train

// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// lockstep-train: trains an image classifier on all ranks of an mpirun.

#pragma once

namespace train {

/// The whole program; its exit code. Collective over the job that the launcher started.
[[nodiscard]] int run_lockstep_train(int argc, char** argv);

}  // namespace train

// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// lockstep-perf: measures collectives, beside MPI's and NCCL's, and checks every result.

#pragma once

namespace perf {

/// Runs the program and returns its exit code. Collective over the job that the launcher started.
[[nodiscard]] int run_lockstep_perf(int argc, char** argv);

}  // namespace perf

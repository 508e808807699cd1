// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// lockstep-perf: how fast collectives are here, beside MPI's and NCCL's, with every result checked.

#pragma once

namespace perf {

/// The whole program; its exit code. Collective over the job that the launcher started.
[[nodiscard]] int run_lockstep_perf(int argc, char** argv);

}  // namespace perf

// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// MPI in this process, and the communicators of process groups.

#pragma once

#include "backend.hpp"

#include <lockstep/collectives/communicator.hpp>

#include <string>

namespace lockstep_torch {

/// The place of this process in the job.
struct Place {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  int nodes = 1;
};

/// Initializes MPI, unless this was done before. Collective over the job at the first call.
Place start();
/// The `text` of rank 0. Collective over the job.
[[nodiscard]] std::string text_of_rank_0(const std::string& text);
/// Finalizes MPI if `start` initialized it. Collective over the job.
void finish();

/// The communicator of a process group. Collective over the ranks of the group.
[[nodiscard]] lockstep::Communicator make_communicator(const BackendOptions& options);

}  // namespace lockstep_torch

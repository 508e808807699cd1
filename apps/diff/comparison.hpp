// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "diff/logs.hpp"

#include <string>

namespace diff {

struct Comparison {
  bool are_equal = false;
  std::string text;
};

/// Compares two runs, and finds the first operation in which they differ. Runs with different numbers of ranks are
/// compared by global replica id, in the communicators that have all ranks of the job. In each communicator, the k-th
/// operation of run `a` is compared with the k-th operation of run `b`. Throws InputError if the runs have no
/// communicator in common, or if a communicator has different numbers of replicas in the two runs.
[[nodiscard]] Comparison compare(const Run& a, const Run& b);

}  // namespace diff

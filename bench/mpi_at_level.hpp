// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// MPI as a program initialises it that asks for less than lockstep does.

#pragma once

#include "options.hpp"

#include <optional>

namespace perf {

/// Initialises MPI at `level`, where one is given, and finalises it then. lockstep's Environment, made after it and
/// gone before it, takes MPI as it finds it; without a level it initialises MPI itself. Pinned.
class MpiAtLevel {
 public:
  /// Collective over the job.
  MpiAtLevel(int& argc, char**& argv, std::optional<ThreadLevel> level);
  MpiAtLevel(const MpiAtLevel&) = delete;
  MpiAtLevel& operator=(const MpiAtLevel&) = delete;
  ~MpiAtLevel();

 private:
  bool has_initialized_;
};

}  // namespace perf

// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "mpi_at_level.hpp"

#include <mpi.h>

namespace perf {
namespace {

int number_of(ThreadLevel level) {
  switch (level) {
    case ThreadLevel::single: return MPI_THREAD_SINGLE;
    case ThreadLevel::funneled: return MPI_THREAD_FUNNELED;
    case ThreadLevel::serialized: return MPI_THREAD_SERIALIZED;
    case ThreadLevel::multiple: break;
  }
  return MPI_THREAD_MULTIPLE;
}

}  // namespace

MpiAtLevel::MpiAtLevel(int& argc, char**& argv, std::optional<ThreadLevel> level)
    : has_initialized_(level.has_value()) {
  int granted = MPI_THREAD_SINGLE;
  if (level) MPI_Init_thread(&argc, &argv, number_of(*level), &granted);
}

MpiAtLevel::~MpiAtLevel() {
  int is_finalized = 0;
  MPI_Finalized(&is_finalized);
  if (has_initialized_ && is_finalized == 0) MPI_Finalize();
}

}  // namespace perf

// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/creation.hpp"

#include <utility>

namespace perf {

void Creation::write(std::int64_t /*call*/) {
  rank_ = -1;
  size_ = -1;
}

std::int64_t Creation::count_wrong(std::int64_t /*call*/) const {
  return (rank_ == job_.rank ? 0 : 1) + (size_ == job_.ranks ? 0 : 1);
}

OurCreation::OurCreation(const Case& what, const Job& job, lockstep::Communicator parent)
    : Creation(what, job), parent_(std::move(parent)) {}

void OurCreation::run() {
  const auto made = is_split() ? parent_.split(0, job().rank, parent_.options())
                               : std::optional(parent_.duplicate(parent_.options()));
  if (!made) return;  // counted as wrong
  rank_ = made->rank();
  size_ = made->size();
}

void MpiCreation::run() {
  MPI_Comm made = MPI_COMM_NULL;
  if (is_split()) {
    MPI_Comm_split(parent_, 0, job().rank, &made);
  } else {
    MPI_Comm_dup(parent_, &made);
  }
  MPI_Comm_rank(made, &rank_);
  MPI_Comm_size(made, &size_);
  MPI_Comm_free(&made);
}

}  // namespace perf

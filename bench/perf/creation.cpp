// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include "bench/perf/creation.hpp"

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace perf {

void Creation::write(std::int64_t /*call*/) {
  rank_ = -1;
  size_ = -1;
  sum_ = -1;
}

std::int64_t Creation::count_wrong(std::int64_t /*call*/) const {
  const std::int64_t sum = std::int64_t{job_.replicas_per_rank} * job_.ranks * (job_.ranks - 1) / 2;
  return (rank_ == job_.rank ? 0 : 1) + (size_ == job_.ranks ? 0 : 1) + (!has_call() || sum_ == sum ? 0 : 1);
}

OurCreation::OurCreation(const Case& what, const Job& job, lockstep::Communicator parent)
    : Creation(what, job), parent_(std::move(parent)) {}

void OurCreation::run() {
  const auto made = is_split() ? parent_.split(0, job().rank, parent_.options())
                               : std::optional(parent_.duplicate(parent_.options()));
  if (!made) return;  // counted as wrong
  rank_ = made->rank();
  size_ = made->size();
  if (!has_call()) return;
  const std::int64_t own = rank_;
  const std::vector inputs(static_cast<std::size_t>(job().replicas_per_rank),
                           lockstep::view_of(std::span<const std::int64_t>(&own, 1)));
  const lockstep::TensorView output = lockstep::view_of(std::span(&sum_, 1));
  const lockstep::Item item{inputs, std::span(&output, 1)};
  made->all_reduce(std::span(&item, 1), lockstep::ReduceOp::sum);
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
  if (has_call()) {
    const std::int64_t own = std::int64_t{job().replicas_per_rank} * rank_;
    MPI_Allreduce(&own, &sum_, 1, MPI_INT64_T, MPI_SUM, made);
  }
  MPI_Comm_free(&made);
}

}  // namespace perf

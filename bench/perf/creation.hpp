// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The creation of a communicator, and its end, by lockstep and by MPI. A split puts all ranks into one group, in their
// order. A first call duplicates the communicator, and makes one all_reduce of an i64 on the new one.

#pragma once

#include "bench/perf/case.hpp"
#include "bench/perf/implementation.hpp"

#include <lockstep/collectives/communicator.hpp>

#include <mpi.h>

#include <cstdint>
#include <optional>

namespace perf {

/// Checks the rank and the size that each new communicator gave, and the sum that it computed.
class Creation : public Implementation {
 public:
  /// Local.
  Creation(const Case& what, const Job& job) : collective_(what.collective), job_(job) {}

  void write(std::int64_t call) final;
  [[nodiscard]] std::int64_t count_wrong(std::int64_t call) const final;
  void touch_outputs() const final {}
  [[nodiscard]] std::optional<double> posted_seconds() const final { return std::nullopt; }

 protected:
  [[nodiscard]] bool is_split() const noexcept { return collective_ == Collective::split; }
  [[nodiscard]] bool has_call() const noexcept { return collective_ == Collective::first_call; }
  [[nodiscard]] const Job& job() const noexcept { return job_; }

  int rank_ = -1;
  int size_ = -1;
  std::int64_t sum_ = -1;  ///< of the ranks

 private:
  Collective collective_;
  Job job_;
};

class OurCreation final : public Creation {
 public:
  /// Local.
  OurCreation(const Case& what, const Job& job, lockstep::Communicator parent);
  void run() override;

 private:
  lockstep::Communicator parent_;
};

class MpiCreation final : public Creation {
 public:
  /// Local.
  MpiCreation(const Case& what, const Job& job, MPI_Comm parent) : Creation(what, job), parent_(parent) {}
  void run() override;

 private:
  MPI_Comm parent_;
};

}  // namespace perf

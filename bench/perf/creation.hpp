// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The creation of a communicator, and its end, by lockstep and by MPI. A split puts all ranks into one group, in their
// order.

#pragma once

#include "bench/perf/case.hpp"
#include "bench/perf/implementation.hpp"

#include <lockstep/collectives/communicator.hpp>

#include <mpi.h>

#include <cstdint>
#include <optional>

namespace perf {

/// Checks the rank and the size that each new communicator gave.
class Creation : public Implementation {
 public:
  /// Local.
  Creation(const Case& what, const Job& job) : is_split_(what.collective == Collective::split), job_(job) {}

  void write(std::int64_t call) final;
  [[nodiscard]] std::int64_t count_wrong(std::int64_t call) const final;
  void touch_outputs() const final {}
  [[nodiscard]] std::optional<double> posted_seconds() const final { return std::nullopt; }

 protected:
  [[nodiscard]] bool is_split() const noexcept { return is_split_; }
  [[nodiscard]] const Job& job() const noexcept { return job_; }

  int rank_ = -1;
  int size_ = -1;

 private:
  bool is_split_;
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

// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// MPI as the peer of a comparison: its initialisation, its communicators, and the call that stands for one that MPI
// lacks.

#pragma once

#include "bench/perf/case.hpp"
#include "bench/perf/options.hpp"

#include <mpi.h>

#include <optional>
#include <string>

namespace perf {

/// Initialises MPI at `level`, if one is given, and then finalises it too. lockstep's Environment is constructed after
/// it and destroyed before it, and uses the initialised MPI; without a level it initialises MPI itself. Pinned.
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

/// A communicator of the benchmark, so that its messages and lockstep's never match. Pinned.
class OwnComm {
 public:
  /// Collective over `parent`.
  explicit OwnComm(MPI_Comm parent) { MPI_Comm_dup(parent, &comm_); }
  /// Takes ownership of a communicator that was made for this purpose.
  struct Take {
    MPI_Comm comm;
  };
  explicit OwnComm(Take made) : comm_(made.comm) {}
  OwnComm(const OwnComm&) = delete;
  OwnComm& operator=(const OwnComm&) = delete;
  ~OwnComm() { MPI_Comm_free(&comm_); }
  [[nodiscard]] MPI_Comm get() const noexcept { return comm_; }
  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

/// The call of MPI or NCCL that a case of lockstep is compared with.
struct PeerCall {
  Case what;  ///< f32 if MPI lacks the type; the sum, without the division, for the mean
  MPI_Datatype mpi_dtype = MPI_DATATYPE_NULL;
  MPI_Op mpi_op = MPI_OP_NULL;
  bool is_same = true;  ///< whether it computes the same as lockstep's call

  /// "f32 sum"; "f32" for a call that only moves data; empty for a call without data.
  [[nodiscard]] std::string name() const;
};

/// Local.
[[nodiscard]] PeerCall peer_call(const Case& what);
/// The same for NCCL, which has 16-bit floats. Its mean divides the inputs, which gives other results. Local.
[[nodiscard]] PeerCall nccl_peer_call(const Case& what);

}  // namespace perf

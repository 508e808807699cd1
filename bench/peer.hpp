// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The call that a program without lockstep makes: MPI_Allreduce.

#pragma once

#include "options.hpp"

#include <mpi.h>

#include <cstdint>
#include <string>

namespace perf {

/// A communicator of our own, so that none of our messages meets lockstep's. Pinned.
class OwnComm {
 public:
  /// Collective over `parent`.
  explicit OwnComm(MPI_Comm parent) { MPI_Comm_dup(parent, &comm_); }
  /// Takes a communicator that was made for this.
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

/// What MPI is asked for when lockstep is asked for (dtype, op).
struct PeerCall {
  lockstep::DType dtype;  ///< of the elements that MPI gets: f32 where MPI lacks the type
  lockstep::ReduceOp op;  ///< sum for the mean, which MPI lacks: without the division
  MPI_Datatype mpi_dtype;
  MPI_Op mpi_op;
  bool is_same;  ///< whether it is the very same call

  /// "f32 sum".
  [[nodiscard]] std::string name() const;
};

/// Local. `op` must take `dtype`.
[[nodiscard]] PeerCall peer_call(lockstep::DType dtype, lockstep::ReduceOp op);

}  // namespace perf

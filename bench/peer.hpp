// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// MPI beside ours: communicators of our own, and what MPI is asked for where it lacks a type or an op.

#pragma once

#include "case.hpp"

#include <mpi.h>

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

/// What MPI, or NCCL, is asked for when lockstep is asked for a case.
struct PeerCall {
  Case what;  ///< f32 where MPI lacks the type, sum for the mean, which MPI lacks: without the division
  MPI_Datatype mpi_dtype = MPI_DATATYPE_NULL;
  MPI_Op mpi_op = MPI_OP_NULL;
  bool is_same = true;  ///< whether it is the very same call

  /// "f32 sum"; of a call that only moves data "f32", of a barrier "".
  [[nodiscard]] std::string name() const;
};

/// Local.
[[nodiscard]] PeerCall peer_call(const Case& what);
/// The same of NCCL, which has 16-bit floats; its mean divides the inputs, which has other results. Local.
[[nodiscard]] PeerCall nccl_peer_call(const Case& what);

}  // namespace perf

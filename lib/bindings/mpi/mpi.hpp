// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// MPI's C interface, with errors as exceptions, and with handles that free themselves. One function per MPI call, no
// policy.

#pragma once

#include <lockstep/core/reduce_op.hpp>

#include <mpi.h>

#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::detail::mpi {

/// If `result` is not MPI_SUCCESS, throws Error(unavailable) with MPI's error text.
void check(int result, const char* call);

/// Whether MPI is initialised and not finalised.
[[nodiscard]] bool is_active();
[[nodiscard]] bool is_initialized();
[[nodiscard]] bool is_finalized();
/// The thread level that MPI has granted, MPI_THREAD_SINGLE ... MPI_THREAD_MULTIPLE. Throws if MPI is not active.
[[nodiscard]] int thread_level();
/// The name of a thread level: "single", "funneled", "serialized" or "multiple".
[[nodiscard]] std::string thread_level_name(int level);
/// Whether the granted thread level allows the calling thread to call MPI.
[[nodiscard]] bool this_thread_may_call();

/// Returns a lock that the caller holds during MPI calls. Below MPI_THREAD_MULTIPLE, only one thread at a time holds
/// the lock. At MPI_THREAD_MULTIPLE, the lock does nothing.
[[nodiscard]] std::unique_lock<std::mutex> serialize();

/// The blocking collectives of MPI that this library calls. lockstep::set_mpi_collectives replaces them.
struct Collectives {
  decltype(&MPI_Allreduce) allreduce = &MPI_Allreduce;
  decltype(&MPI_Bcast) bcast = &MPI_Bcast;
  decltype(&MPI_Allgather) allgather = &MPI_Allgather;
};
[[nodiscard]] Collectives& collectives() noexcept;

/// A communicator that this library has made. The destructor frees the communicator if MPI is still active. Move-only.
/// MPI returns errors of the communicator instead of aborting the program. Not thread-safe; the functions that call MPI
/// take the lock of `serialize`.
class Comm {
 public:
  Comm() = default;
  /// Adopts a handle that no other object frees.
  [[nodiscard]] static Comm adopt(MPI_Comm made);
  /// The ranks of `original` with the same `color`, ordered by `key`; empty if `color` is MPI_UNDEFINED. Collective
  /// over `original`; waits without a bound.
  [[nodiscard]] static Comm split_of(MPI_Comm original, int color, int key);
  Comm(Comm&& other) noexcept : handle_(other.release()) {}
  Comm& operator=(Comm&& other) noexcept;
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;
  ~Comm() { reset(); }

  [[nodiscard]] MPI_Comm get() const noexcept { return handle_; }
  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;
  /// Returns the handle without freeing it. The object is empty afterwards.
  MPI_Comm release() noexcept;

 private:
  void reset() noexcept;
  MPI_Comm handle_ = MPI_COMM_NULL;
};

/// The division of a communicator into groups of ranks that share memory.
struct Nodes {
  int count = 1;
  int ranks_here = 1;        ///< size of the calling rank's group
  std::vector<int> leaders;  ///< for each rank, the lowest rank of its group
};
/// Finds the nodes of `comm`. Collective. Waits without a bound, since MPI-3.1 has no nonblocking call that finds the
/// nodes. Holds the lock of `serialize` during the wait.
[[nodiscard]] Nodes find_nodes(MPI_Comm comm);

/// MPI's type for `dtype`; none for the 16-bit floating-point types, which MPI cannot add.
[[nodiscard]] std::optional<MPI_Datatype> datatype(DType dtype);
/// MPI's operation for `op`. For a mean, that is MPI_SUM: the caller must divide the sum.
[[nodiscard]] MPI_Op op(ReduceOp op);

/// The largest tag that MPI allows. The same on all ranks; at least 32767.
[[nodiscard]] int largest_tag();
/// For each rank of `comm`, its rank in `target`; MPI_UNDEFINED if it has none. Local.
[[nodiscard]] std::vector<int> ranks_in(MPI_Comm comm, MPI_Comm target);

/// The MPI library's version text, up to the first comma or the end of the line.
[[nodiscard]] std::string library_version();

}  // namespace lockstep::detail::mpi

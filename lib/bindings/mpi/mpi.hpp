// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// MPI's C interface, with errors as exceptions and handles that free themselves. One name per call, no policy.

#pragma once

#include <lockstep/core/reduce_op.hpp>

#include <mpi.h>

#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::detail::mpi {

/// Throws Error(unavailable) with MPI's error text if `result` is not MPI_SUCCESS.
void check(int result, const char* call);

/// Whether MPI is initialised and not finalised.
[[nodiscard]] bool is_active();
[[nodiscard]] bool is_initialized();
[[nodiscard]] bool is_finalized();
/// The granted level, MPI_THREAD_SINGLE ... MPI_THREAD_MULTIPLE. Throws if MPI is not active.
[[nodiscard]] int thread_level();
/// The name of a level: "single", "funneled", "serialized", "multiple".
[[nodiscard]] std::string thread_level_name(int level);
/// Whether the granted level allows the calling thread to call MPI.
[[nodiscard]] bool this_thread_may_call();

/// A lock to hold around MPI calls. Below MPI_THREAD_MULTIPLE it admits one thread at a time; at MPI_THREAD_MULTIPLE it
/// locks nothing.
[[nodiscard]] std::unique_lock<std::mutex> serialize();

/// A communicator that was made by this library, freed at the end if MPI is still active. Move-only. Errors are
/// returned instead of aborting the program. Not thread-safe; the functions that call MPI take the lock of `serialize`.
class Comm {
 public:
  Comm() = default;
  /// Adopts a handle that no other object frees.
  [[nodiscard]] static Comm adopt(MPI_Comm made);
  /// The ranks of `original` with the same `color`, ordered by `key`; empty for MPI_UNDEFINED. Collective over
  /// `original`; waits without a bound.
  [[nodiscard]] static Comm split_of(MPI_Comm original, int color, int key);
  Comm(Comm&& other) noexcept : handle_(other.release()) {}
  Comm& operator=(Comm&& other) noexcept;
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;
  ~Comm() { reset(); }

  [[nodiscard]] MPI_Comm get() const noexcept { return handle_; }
  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;
  /// Returns the handle without freeing it, and forgets it.
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
/// Finds the nodes of `comm`. Collective; waits without a bound, since MPI-3.1 has no nonblocking call for this, and
/// holds the lock of `serialize`.
[[nodiscard]] Nodes find_nodes(MPI_Comm comm);

/// MPI's type for `dtype`; none for the 16-bit floats, which MPI cannot add.
[[nodiscard]] std::optional<MPI_Datatype> datatype(DType dtype);
/// MPI's op for `op`; MPI_SUM for a mean, whose division the caller does.
[[nodiscard]] MPI_Op op(ReduceOp op);

/// The largest tag, the same on all ranks; at least 32767.
[[nodiscard]] int largest_tag();
/// For each rank of `comm`, its rank in `target`, or MPI_UNDEFINED. Local.
[[nodiscard]] std::vector<int> ranks_in(MPI_Comm comm, MPI_Comm target);

/// The first line of the MPI library's version text.
[[nodiscard]] std::string library_version();

}  // namespace lockstep::detail::mpi

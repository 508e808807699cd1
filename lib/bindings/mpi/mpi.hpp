// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// MPI's C interface with errors as exceptions and handles that free themselves. One name per call, no policy.

#pragma once

#include <lockstep/core/reduce_op.hpp>

#include <mpi.h>

#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::detail::mpi {

/// Throws Error(unavailable) with MPI's own words when `result` is not MPI_SUCCESS.
void check(int result, const char* call);

/// Between MPI_Init and MPI_Finalize.
[[nodiscard]] bool is_active();
[[nodiscard]] bool is_initialized();
[[nodiscard]] bool is_finalized();
/// MPI_THREAD_SINGLE ... MPI_THREAD_MULTIPLE. Throws when MPI is not active.
[[nodiscard]] int thread_level();
/// "single", "funneled", "serialized", "multiple".
[[nodiscard]] std::string thread_level_name(int level);
/// Whether the calling thread may enter MPI at the granted level.
[[nodiscard]] bool this_thread_may_call();

/// Held around calls below MPI_THREAD_MULTIPLE, where only one thread at a time may be inside MPI; free at
/// MPI_THREAD_MULTIPLE.
[[nodiscard]] std::unique_lock<std::mutex> serialize();

/// A duplicated communicator, freed at the end if MPI is still active. Move-only. Its errors return instead of
/// aborting.
class Comm {
 public:
  Comm() = default;
  /// Collective over `original`.
  [[nodiscard]] static Comm duplicate_of(MPI_Comm original);
  /// The ranks of `original` that name the same color, >= 0, in their order. Collective over `original`.
  [[nodiscard]] static Comm part_of(MPI_Comm original, int color);
  Comm(Comm&& other) noexcept : handle_(other.release()) {}
  Comm& operator=(Comm&& other) noexcept;
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;
  ~Comm() { reset(); }

  [[nodiscard]] MPI_Comm get() const noexcept { return handle_; }
  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;
  /// Gives the handle up without freeing it.
  MPI_Comm release() noexcept;

 private:
  void reset() noexcept;
  MPI_Comm handle_ = MPI_COMM_NULL;
};

/// Groups of ranks that share memory.
struct Nodes {
  int count = 1;
  int ranks_here = 1;        ///< in the calling rank's group
  std::vector<int> leaders;  ///< the lowest rank of each rank's group
};
/// How the ranks of `comm` fall into nodes. Collective.
[[nodiscard]] Nodes find_nodes(MPI_Comm comm);

/// MPI's type for `dtype`; none for the 16-bit floats, which MPI cannot add.
[[nodiscard]] std::optional<MPI_Datatype> datatype(DType dtype);
/// MPI's op; MPI_SUM for a mean, whose division is ours.
[[nodiscard]] MPI_Op op(ReduceOp op);

/// First line of the library's version text.
[[nodiscard]] std::string library_version();

}  // namespace lockstep::detail::mpi

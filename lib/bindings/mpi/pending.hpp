// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Nonblocking collectives of MPI, each with the memory to which MPI writes. MPI cannot cancel the request of a
// collective: if an object is destroyed before its call is complete, this memory is leaked.

#pragma once

#include "bindings/mpi/mpi.hpp"

#include <cstddef>
#include <memory>
#include <vector>

namespace lockstep::detail::mpi {

/// A call of MPI_Comm_idup. Not thread-safe. Each function takes the lock of `serialize`.
class PendingDuplicate {
 public:
  /// Collective over `original`; does not wait.
  explicit PendingDuplicate(MPI_Comm original);
  PendingDuplicate(const PendingDuplicate&) = delete;
  PendingDuplicate& operator=(const PendingDuplicate&) = delete;
  ~PendingDuplicate();

  /// Whether the call is complete.
  [[nodiscard]] bool test();
  /// Returns the duplicate. Called after the call is complete.
  [[nodiscard]] Comm take();

 private:
  struct Memory {
    MPI_Comm copy = MPI_COMM_NULL;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  std::unique_ptr<Memory> memory_;
};

/// A call of MPI_Iallgather, with the same number of bytes from each rank. Not thread-safe. Each function takes the
/// lock of `serialize`.
class PendingAllGather {
 public:
  /// Copies the `bytes` bytes at `own`. Collective over `comm`, which has `size` ranks; does not wait.
  PendingAllGather(MPI_Comm comm, int size, const void* own, std::size_t bytes);
  PendingAllGather(const PendingAllGather&) = delete;
  PendingAllGather& operator=(const PendingAllGather&) = delete;
  ~PendingAllGather();

  /// Whether the call is complete.
  [[nodiscard]] bool test();
  /// The bytes of all ranks, in rank order. Called after the call is complete.
  [[nodiscard]] const std::vector<std::byte>& all() const noexcept { return memory_->all; }

 private:
  struct Memory {
    std::vector<std::byte> own;
    std::vector<std::byte> all;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  std::unique_ptr<Memory> memory_;
};

}  // namespace lockstep::detail::mpi

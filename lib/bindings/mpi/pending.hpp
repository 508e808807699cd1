// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Nonblocking collectives of MPI, each with the memory to which MPI writes. MPI cannot cancel the request of a
// collective: if an object is destroyed before its call is complete, this memory is leaked.

#pragma once

#include "bindings/mpi/mpi.hpp"

#include <cstddef>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

namespace lockstep::detail::mpi {

/// Whether `request`, which may be MPI_REQUEST_NULL, is complete. Takes the lock of `serialize`.
[[nodiscard]] bool is_complete(MPI_Request& request);

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
  /// What all ranks have given, in rank order; each gave one T. Called after the call is complete.
  template <class T>
  [[nodiscard]] std::vector<T> all_as() const {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<T> all(memory_->all.size() / sizeof(T));
    std::memcpy(all.data(), memory_->all.data(), memory_->all.size());
    return all;
  }

 private:
  struct Memory {
    std::vector<std::byte> own;
    std::vector<std::byte> all;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  std::unique_ptr<Memory> memory_;
};

}  // namespace lockstep::detail::mpi

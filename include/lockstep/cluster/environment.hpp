// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Initializes and finalizes MPI for a program, and ends the job within a bounded time after a failure.

#pragma once

#include <lockstep/base/export.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace lockstep {

struct EnvironmentOptions {
  /// The NCCL library: a path, or a name for the dynamic loader. Default, empty: the library that the environment
  /// variable LOCKSTEP_NCCL names; else the one that is loaded in the process already, such as PyTorch's; else
  /// libnccl.so.2. It is opened when a GPU first needs it. If it cannot be opened, or is older than 2.18, collectives
  /// on GPUs go through host memory, and calls that require NCCL throw Error(unavailable). The warning and the error
  /// name the option, the file and the reason.
  std::string nccl_library = {};
  /// Time that the destructor waits for the other ranks to destroy theirs; then it aborts the job. Default: the second
  /// value of LOCKSTEP_TIMEOUT, 300 s. To be set by programs in which some ranks end long before others.
  std::optional<std::chrono::milliseconds> finalize_after = {};
};

/// Initializes MPI unless the program has done so, checks the launcher, and reads the LOCKSTEP_* environment variables.
/// If SIGXFSZ has its default handler, ignores it, so that a write beyond the limit on the size of files (ulimit -f)
/// fails with an error that names the file instead of ending the process.
///
/// Create one in `main`, before any strategy that spans ranks. Its destructor finalizes MPI if the constructor
/// initialized it. That is collective: it waits until all ranks destroy theirs, logs the missing ranks after the first
/// value of LOCKSTEP_TIMEOUT, and aborts the job with exit_code::unavailable after `finalize_after`, or after the
/// shortest deadline that has passed in a communicator (but not before 5 s); at once if the process of a missing rank
/// of the node has ended. When it is destroyed by an exception, it prints one line, waits 2 s so that other ranks can
/// print their messages, and aborts the job with exit_code::failure, because finalizing could hang before the text of
/// the exception is printed. An uncaught exception ends the job the same way, with its text printed once, and the other
/// ranks get Error(unavailable) with its text from the communicators that exist. In a child process after fork() the
/// destructor does nothing.
///
/// While it exists, SIGQUIT writes the flight record of this process (flight_record.hpp) and logs its path, and the
/// program goes on; not if the program handles, ignores or blocks SIGQUIT before, and not with LOCKSTEP_RECORDER=0. A
/// thread of the Environment does that; the signal is blocked on the thread that creates it, and on those that are made
/// by that thread later.
class LOCKSTEP_API Environment {
 public:
  /// Collective over the job. Requests MPI_THREAD_MULTIPLE. `argc` and `argv` are passed to MPI. MPI_Init has no
  /// timeout; the rest has that of LOCKSTEP_TIMEOUT: Error(deadline_exceeded) if a rank does not create its
  /// Environment, and an abort of the job with exit code 1 if a rank stops while MPI finds the nodes. Throws
  /// Error(failed_precondition) for a second Environment, after MPI_Finalize, if MPI sees one rank although the
  /// launcher started several (unless LOCKSTEP_ALLOW_SINGLETON=1), and for an `nccl_library` if NCCL has been opened
  /// already; Error(invalid_argument) for a malformed LOCKSTEP_* value. An error of one rank in an option or a variable
  /// is thrown by all ranks, and names that rank.
  Environment(int& argc, char**& argv, const EnvironmentOptions& options = {});
  explicit Environment(const EnvironmentOptions& options = {});
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment();

  /// Local.
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  /// The thread level that MPI provides: "single", "funneled", "serialized" or "multiple".
  [[nodiscard]] std::string thread_level() const;
  /// First line of the text of MPI_Get_library_version.
  [[nodiscard]] std::string mpi_version() const;
  /// The instruction set of the kernels that run on this processor, by Highway's name: "AVX3", "AVX2", "SSE4", "NEON",
  /// ...
  [[nodiscard]] std::string kernel_target() const;
  [[nodiscard]] bool initialized_mpi() const noexcept { return initialized_mpi_; }

  /// This rank's number among the ranks of its node, and the number of these. A node is the set of ranks that share
  /// memory according to MPI; variables of launchers are not used (under mpirun, Slurm's are those of mpirun's daemon).
  /// Local.
  [[nodiscard]] int local_rank() const noexcept;
  [[nodiscard]] int local_size() const noexcept;
  /// Number of nodes of the job. Local.
  [[nodiscard]] int nodes() const noexcept;
  /// Number of threads that this rank may use without taking a core from another rank: the cores that it may run on,
  /// divided by the ranks that may run on them; at least 1. Changes no binding. Reads the host with hwloc, which takes
  /// some milliseconds. Local.
  [[nodiscard]] int threads_per_rank() const;
  /// Some lines of text: ranks, nodes and launcher, the version of MPI and the instruction set of the kernels, cores
  /// and NUMA nodes of this rank, and advice if ranks share cores. Local.
  [[nodiscard]] std::string describe() const;

 private:
  struct Node;
  void start(int* argc, char*** argv, const EnvironmentOptions& options);

  int rank_ = 0;
  int size_ = 1;
  int exceptions_ = 0;
  std::uint32_t fork_depth_ = 0;
  bool initialized_mpi_ = false;
  std::shared_ptr<Node> node_;
};

}  // namespace lockstep

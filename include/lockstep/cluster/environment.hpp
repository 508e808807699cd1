// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Initializes and finalizes MPI for a program, and ends the job within a bounded time after a failure.

#pragma once

#include <lockstep/base/chrono.hpp>
#include <lockstep/base/export.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace lockstep {

struct EnvironmentOptions {
  /// The NCCL library: a path, or a file name that the dynamic loader searches for. Default: empty. Then the library is
  /// the one that the environment variable LOCKSTEP_NCCL names. If the variable is not set, the library is the NCCL
  /// that the process has already loaded (for example PyTorch's), or libnccl.so.2 if the process has not loaded NCCL.
  /// lockstep opens the library when it first needs NCCL for a GPU. If the library cannot be opened, or is older than
  /// 2.27.3, collectives on GPUs go through host memory, and calls that require NCCL throw Error(unavailable). The
  /// warning and the error name the option, the file and the reason.
  std::string nccl_library = {};
  /// Time for which the destructor waits until all other ranks have destroyed their Environments. After this time the
  /// destructor aborts the job. Default: the time after which operations fail (LOCKSTEP_TIMEOUT, 300 s by default). Set
  /// this option in programs in which some ranks end long before others.
  std::optional<std::chrono::milliseconds> finalize_after = {};
};

/// Initializes MPI unless the program has already initialized MPI, checks the launcher, and reads the LOCKSTEP_*
/// environment variables. If SIGXFSZ has its default action, the constructor makes the process ignore SIGXFSZ. Then a
/// write beyond the file size limit (ulimit -f) does not end the process; it fails with an error that names the file.
///
/// Create one Environment in `main`, before any strategy that spans ranks. In a child process after fork(), the
/// destructor does nothing.
///
/// If the constructor initialized MPI, the destructor finalizes MPI, which is collective. The destructor waits until
/// all ranks destroy their Environments. After the warning time of LOCKSTEP_TIMEOUT (30 s by default), it logs the
/// missing ranks. It aborts the job with exit_code::unavailable in these cases:
///   - A rank is missing for longer than `finalize_after`. If an operation of a communicator has timed out before on
///     this rank, the limit is the shortest timeout that has expired (but at least 5 s, and at most `finalize_after`).
///   - The process of a missing rank of this node has ended. Then the destructor aborts the job at once.
///
/// If an exception destroys the Environment during stack unwinding, the destructor logs one line and does not finalize
/// MPI, because finalizing could block before the text of the exception is printed. The job is aborted 2 s later with
/// exit_code::failure, so that other ranks can print their messages. An uncaught exception aborts the job 2 s later,
/// too. Its text is printed once, and the communicators of the other ranks throw Error(unavailable) with this text.
///
/// While the Environment exists, a thread of the Environment handles SIGQUIT: it writes the flight record of this
/// process (flight_record.hpp) and logs the path of the record; the program continues. For this purpose, SIGQUIT is
/// blocked on the thread that creates the Environment, and on all threads that this thread creates later. SIGQUIT is
/// left unchanged if LOCKSTEP_RECORDER is 0, or if the program already handles, ignores or blocks SIGQUIT.
class LOCKSTEP_API Environment {
 public:
  /// Collective over the job. Requests MPI_THREAD_MULTIPLE, and passes `argc` and `argv` to MPI. MPI_Init_thread has no
  /// timeout. The timeout of all later steps is that of LOCKSTEP_TIMEOUT. If a rank does not create its Environment in
  /// this time, the other ranks throw Error(deadline_exceeded). If a rank stops responding while MPI determines the
  /// nodes (MPI_Comm_split_type), the job is aborted with exit_code::unavailable.
  /// Throws Error(failed_precondition) if another Environment exists, if MPI has been finalized, if MPI has only one
  /// rank although the launcher started several (unless LOCKSTEP_ALLOW_SINGLETON=1), and if `nccl_library` is set
  /// although NCCL has already been opened. Throws Error(invalid_argument) if a LOCKSTEP_* variable is malformed. If an
  /// option or a variable is wrong on one rank only, all ranks throw the error, and its text names that rank.
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
  /// The first line of the text of MPI_Get_library_version.
  [[nodiscard]] std::string mpi_version() const;
  /// Instruction set of the kernels that run on this processor, by the name that Highway gives to it: "AVX3", "AVX2",
  /// "SSE4", "NEON", ...
  [[nodiscard]] std::string kernel_target() const;
  [[nodiscard]] bool initialized_mpi() const noexcept { return initialized_mpi_; }

  /// Number of this rank among the ranks of its node (from 0), and the number of ranks of this node. A node is the set
  /// of ranks that share memory according to MPI. The variables of launchers are not used, because under mpirun the
  /// variables of Slurm describe mpirun's daemon. Local.
  [[nodiscard]] int local_rank() const noexcept;
  [[nodiscard]] int local_size() const noexcept;
  /// Number of nodes of the job. Local.
  [[nodiscard]] int nodes() const noexcept;
  /// Number of threads that this rank may use without taking a core from another rank. This is the number of cores on
  /// which this rank may run, divided by the number of ranks that may run on these cores; at least 1. Does not change
  /// the binding of threads to cores. Reads the host with hwloc, which takes some milliseconds. Local.
  [[nodiscard]] int threads_per_rank() const;
  /// Some lines of text: ranks, nodes and launcher; the version of MPI and the instruction set of the kernels; the
  /// cores and NUMA nodes of this rank; advice if ranks share cores. Local.
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

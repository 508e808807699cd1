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
#include <source_location>
#include <string>

namespace lockstep {
namespace detail {
class RankState;
}

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
  /// Whether MPI stays initialized until this Environment is destroyed. Set this option to false in a library whose
  /// Environment may exist until MPI_Finalize, or longer, such as a static object. If this
  /// Environment initializes MPI, and none delays that, its destructor finalizes MPI. Environments of a process may
  /// differ in this option.
  bool delays_finalize = true;
};

/// The job, as this process sees it, while the object exists. The first Environment of a process initializes MPI unless
/// the program has already initialized MPI, checks the launcher, and reads the LOCKSTEP_* environment variables. If
/// SIGXFSZ has its default action, the constructor makes the process ignore SIGXFSZ. Then a write beyond the file size
/// limit (ulimit -f) does not end the process; it fails with an error that names the file.
///
/// Create an Environment in `main`, before any strategy that spans ranks. Libraries may create Environments of their
/// own, before or after: all of a process share one state and its options. If lockstep initialized MPI, the state ends
/// with the last Environment that has `delays_finalize`, otherwise with the last one. What is written about operations
/// (LOCKSTEP_METRICS, LOCKSTEP_TRACE, LOCKSTEP_HASH_LOG) ends with the state, or, if the program initialized MPI, in
/// MPI_Finalize. In a child process after fork(), the destructor does nothing.
///
/// If lockstep initialized MPI, the end of the state finalizes MPI, which is collective: the destructor waits until all
/// ranks destroy their Environments. After the warning time of LOCKSTEP_TIMEOUT (30 s by default), it logs the missing
/// ranks. It aborts the job with exit_code::unavailable in these cases:
///   - A rank is missing for longer than `finalize_after`. If an operation of a communicator has timed out before on
///     this rank, the limit is the shortest timeout that has expired (but at least 5 s, and at most `finalize_after`).
///   - The process of a missing rank of this node has ended. Then the destructor aborts the job at once.
///
/// If an exception destroys the last Environment with `delays_finalize` during stack unwinding, the destructor logs one
/// line and does not finalize MPI, because finalizing could block before the text of the exception is printed. The job
/// is aborted 2 s later with exit_code::failure, so that other ranks can print their messages. An uncaught exception
/// aborts the job 2 s later, too. Its text is printed once, and the communicators of the other ranks throw
/// Error(unavailable) with this text.
///
/// While the state exists, a thread of it handles SIGQUIT: it writes the flight record of this
/// process (flight_record.hpp) and logs the path of the record; the program continues. For this purpose, SIGQUIT is
/// blocked on the thread that creates the first Environment, and on all threads that this thread creates later. SIGQUIT
/// is left unchanged if LOCKSTEP_RECORDER is 0, or if the program already handles, ignores or blocks SIGQUIT.
class LOCKSTEP_API Environment {
 public:
  /// The first Environment of the process: collective over the job. Requests MPI_THREAD_MULTIPLE, and passes `argc` and
  /// `argv` to MPI. MPI_Init_thread has no timeout. The timeout of all later steps is that of LOCKSTEP_TIMEOUT. If a
  /// rank does not create its Environment in this time, the other ranks throw Error(deadline_exceeded). If a rank stops
  /// responding while MPI determines the nodes (MPI_Comm_split_type), the job is aborted with exit_code::unavailable.
  /// Throws Error(failed_precondition) if MPI has been finalized, if MPI has only one rank although the launcher
  /// started several (unless LOCKSTEP_ALLOW_SINGLETON=1), if `nccl_library` is set although NCCL has already been
  /// opened, and if the process has loaded several copies of lockstep; the text has their paths. Throws
  /// Error(invalid_argument) if a LOCKSTEP_* variable is malformed. If an option or a variable is wrong on one rank
  /// only, all ranks throw the error, and its text names that rank.
  /// A later Environment: local. An option that no earlier one set is taken from it. Throws Error(failed_precondition)
  /// if an earlier one set another value; the text names both places, which are `place`: pass it where the constructor
  /// is called by a function such as std::make_unique, whose line is in a standard header. Thread-safe.
  Environment(int& argc, char**& argv, const EnvironmentOptions& options = {},
              const std::source_location& place = std::source_location::current());
  explicit Environment(const EnvironmentOptions& options = {},
                       const std::source_location& place = std::source_location::current());
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment();

  /// Local.
  [[nodiscard]] int rank() const noexcept;
  [[nodiscard]] int size() const noexcept;
  /// The thread level that MPI provides: "single", "funneled", "serialized" or "multiple".
  [[nodiscard]] std::string thread_level() const;
  /// The first line of the text of MPI_Get_library_version.
  [[nodiscard]] std::string mpi_version() const;
  /// Instruction set of the kernels that run on this processor, by the name that Highway gives to it: "AVX3", "AVX2",
  /// "SSE4", "NEON", ...
  [[nodiscard]] std::string kernel_target() const;
  /// Whether an Environment of this process initialized MPI.
  [[nodiscard]] bool initialized_mpi() const noexcept;

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
  Environment(int* argc, char*** argv, const EnvironmentOptions& options, const std::source_location& place);

  std::shared_ptr<detail::RankState> state_;
  int exceptions_ = 0;  // being handled when this object was created
  std::uint32_t fork_depth_ = 0;
  bool delays_finalize_ = true;
  bool finalizes_ = false;  // the state may end with this object although there are others that do not delay it
};

}  // namespace lockstep

// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// The frame of a program: MPI up at the start, down at the end, and a bounded end when something went wrong in between.

#pragma once

#include <lockstep/base/export.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace lockstep {

struct EnvironmentOptions {
  /// The file to be opened as NCCL, as the loader finds it: a path, or a name that it looks for. Default, empty: what
  /// the variable LOCKSTEP_NCCL names; else what is in the process already, such as PyTorch's; else libnccl.so.2. It is
  /// opened when a GPU first needs it. One that does not open, or is older than 2.18, is as none: collectives on GPUs
  /// go through host memory, and whoever demands NCCL gets Error(unavailable); either text names option, file and why.
  std::string nccl_library = {};
};

/// Initialises MPI unless the program did, checks the launcher, reads LOCKSTEP_* variables.
///
/// Make one in `main`, before any strategy that spans ranks. Its destructor finalises MPI only if the constructor
/// initialised it. Destroyed by an exception, it prints one line, waits 2 s for the other ranks' messages and aborts
/// the job with exit code 1: finalising would hang before the exception's text is seen. An exception that nobody
/// catches ends the job the same way, with its text printed once. After fork() the child's copy does nothing.
class LOCKSTEP_API Environment {
 public:
  /// Collective over the job. Asks for MPI_THREAD_MULTIPLE. `argc` and `argv` are handed to MPI.
  /// Throws Error(failed_precondition) for a second Environment, after MPI_Finalize, and when MPI sees one rank though
  /// the launcher started several (LOCKSTEP_ALLOW_SINGLETON=1 overrules), and for an `nccl_library` when NCCL has been
  /// opened already; Error(invalid_argument) for a malformed LOCKSTEP_* value.
  Environment(int& argc, char**& argv, const EnvironmentOptions& options = {});
  explicit Environment(const EnvironmentOptions& options = {});
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment();

  /// Local.
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  /// "single", "funneled", "serialized" or "multiple": what MPI granted.
  [[nodiscard]] std::string thread_level() const;
  /// The MPI library's own words, first line.
  [[nodiscard]] std::string mpi_version() const;
  /// For which kind of processor the kernels are compiled that run on this one, as Highway calls it: "AVX3", "AVX2",
  /// "SSE4", "NEON", ...
  [[nodiscard]] std::string kernel_target() const;
  [[nodiscard]] bool initialized_mpi() const noexcept { return initialized_mpi_; }

  /// The ranks of this node, which are those that MPI says share memory. Launchers' variables are not believed: under
  /// mpirun, Slurm's are those of mpirun's daemon. Local.
  [[nodiscard]] int local_rank() const noexcept;
  [[nodiscard]] int local_size() const noexcept;
  /// Local.
  [[nodiscard]] int nodes() const noexcept;
  /// How many threads a rank may use without taking another's core: the cores that this rank may run on, divided by the
  /// ranks that may run there too; at least 1. Nothing is bound by it, and what the launcher has bound stays. Looks at
  /// the host with hwloc; some milliseconds. Local.
  [[nodiscard]] int threads_per_rank() const;
  /// Some lines, for people: ranks and nodes, who started them, MPI's and the kernels' version, cores and NUMA nodes of
  /// this rank, and, where ranks share cores, that they do and what to change. Local.
  [[nodiscard]] std::string describe() const;

 private:
  struct Node;  // this rank's
  void start(int* argc, char*** argv, const EnvironmentOptions& options);

  int rank_ = 0;
  int size_ = 1;
  int exceptions_ = 0;
  std::uint32_t fork_depth_ = 0;
  bool initialized_mpi_ = false;
  std::shared_ptr<const Node> node_;
};

}  // namespace lockstep

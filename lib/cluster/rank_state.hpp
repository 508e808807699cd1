// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// What lockstep keeps for this rank of the job while the process has an Environment.

#pragma once

#include <lockstep/cluster/environment.hpp>

#include "base/process.hpp"
#include "cluster/finalize.hpp"
#include "cluster/job.hpp"
#include "cluster/launcher.hpp"
#include "cluster/operation_files.hpp"
#include "cluster/quit_signal.hpp"
#include "cluster/topology.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::detail {

/// Opens this file for NCCL, at its first use. Throws Error(failed_precondition) if NCCL has already been loaded.
void set_nccl_library(const std::string& file);

/// What must be read or set before MPI sets environment variables, starts threads and binds them.
struct BeforeMpi {
  std::string launcher = launcher_of_this_process();
  ProcessorSet processors = allowed_processors();
  QuitSignal quit_signal;
};

/// Starts the job for this rank in the constructor, and ends it in `end`. All Environments of the process share one.
class RankState {
 public:
  /// MPI is initialized; `initialized_mpi`: by an Environment, so `end` finalizes it. Collective over the job. The
  /// errors are those of the constructor of Environment.
  RankState(std::unique_ptr<BeforeMpi> before, bool initialized_mpi, const EnvironmentOptions& options);
  RankState(const RankState&) = delete;
  RankState& operator=(const RankState&) = delete;
  ~RankState() = default;

  /// Called once, when no other state is being made. Collective if it finalizes MPI. `by_exception`: an exception
  /// destroys the last Environment; then the job is aborted in 2 s, and MPI is not finalized.
  void end(bool by_exception);

  void set_finalize_after(std::chrono::milliseconds time) noexcept { finalize_.fail_after = time; }

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  [[nodiscard]] bool initialized_mpi() const noexcept { return initialized_mpi_; }
  [[nodiscard]] const std::string& launcher() const noexcept { return before_->launcher; }
  /// Number of nodes of the job.
  [[nodiscard]] int nodes() const noexcept { return nodes_; }
  /// Number of this rank among the ranks of its node.
  [[nodiscard]] int local_rank() const noexcept { return local_rank_; }
  /// The processors of each rank of this node.
  [[nodiscard]] const std::vector<ProcessorSet>& processors() const noexcept { return processors_; }
  [[nodiscard]] Placement placement(const Topology& topology) const {
    return place(topology, processors_, static_cast<std::size_t>(local_rank_));
  }

 private:
  void start(const EnvironmentOptions& options);
  void end_job(bool by_exception);
  void find_node(Job& job);
  void watch_processes(Job& job, int leader, MPI_Comm here);

  std::unique_ptr<BeforeMpi> before_;
  bool initialized_mpi_;
  bool all_initialized_mpi_ = false;  // if false, the program finalizes MPI on some ranks, and they send no messages
  int rank_ = 0;
  int size_ = 1;
  int nodes_ = 1;
  int local_rank_ = 0;
  std::vector<ProcessorSet> processors_;                      // of each rank of this node
  std::vector<std::shared_ptr<const ProcessWatch>> watches_;  // by rank; null for ranks of other nodes
  FinalizeOptions finalize_{};
  std::shared_ptr<OperationFiles> files_;  // null if there are none
  std::string trace_directory_;            // of LOCKSTEP_TRACE
};

}  // namespace lockstep::detail

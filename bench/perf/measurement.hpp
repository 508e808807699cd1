// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Measures a case: chooses the implementations, interleaves them, and makes the row.

#pragma once

#include "bench/perf/buffers.hpp"
#include "bench/perf/interleaving.hpp"
#include "bench/perf/nccl_group.hpp"
#include "bench/perf/peer.hpp"
#include "bench/perf/run_plan.hpp"

#include <lockstep/collectives/communicator.hpp>

#include <memory>
#include <optional>
#include <vector>

namespace perf {

/// Runs cases and lists. Every rank makes the same calls.
class Measurement {
 public:
  /// Collective over the job. The buffers are as large as the largest case of `plan` needs. `gpu_copy_gbs` is the rate
  /// of a copy on the GPU, if all replicas are on one.
  Measurement(const Options& options, const Job& job, const RunPlan& plan, std::optional<double> gpu_copy_gbs);
  /// Collective. The row is complete on rank 0 only.
  [[nodiscard]] Row run(const Case& what);
  /// A row for each mode of lockstep's call, in the order of ListMode. Collective.
  [[nodiscard]] std::vector<Row> run(const ListCase& what);

 private:
  [[nodiscard]] std::unique_ptr<Implementation> our_implementation(const Case& what) const;
  /// Null without --compare.
  [[nodiscard]] std::unique_ptr<Implementation> peer_implementation(const PeerCall& peer) const;
  [[nodiscard]] std::unique_ptr<Implementation> mpi_implementation(const PeerCall& peer) const;
  [[nodiscard]] std::optional<double> floor_us(const Case& what) const;
  [[nodiscard]] double bus_factor(Collective collective) const;
  [[nodiscard]] std::vector<Row> list_rows(const ListCase& what, const PeerCall& peer,
                                           const std::vector<Outcome>& outcomes, std::optional<double> limit_us) const;

  const Options& options_;
  Job job_;
  std::optional<double> gpu_copy_gbs_;
  Memory memory_;
  Memory peer_memory_;
  Interleaving interleaving_;
  OwnComm peer_comm_;
  lockstep::Communicator communicator_;
  std::vector<Buffers> ours_;   // of each call of one measurement
  std::vector<Buffers> peers_;  // MPI's; NCCL works on ours
  std::unique_ptr<NcclGroup> nccl_;
};

}  // namespace perf

// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// From a case to its row: who takes turns in it.

#pragma once

#include "agenda.hpp"
#include "buffers.hpp"
#include "nccl_group.hpp"
#include "peer.hpp"
#include "turns.hpp"

#include <lockstep/collectives/communicator.hpp>

#include <memory>
#include <optional>
#include <vector>

namespace perf {

/// Runs cases and lists. Every rank makes the same calls.
class Measurement {
 public:
  /// Collective over the job. The buffers are as large as the largest case of `agenda` needs. `gpu_copy_gbs`: what a
  /// copy on the GPU reads and writes, where all replicas are on one.
  Measurement(const Options& options, const Job& job, const Agenda& agenda, std::optional<double> gpu_copy_gbs);
  /// Collective. The row is whole on rank 0 only.
  [[nodiscard]] Row run(const Case& what);
  /// A row for each mode of ours, in the order of ListMode. Collective.
  [[nodiscard]] std::vector<Row> run(const ListCase& what);

 private:
  /// The call that takes turns with ours; none where there is nobody to compare with.
  [[nodiscard]] std::unique_ptr<Contestant> contestant_of(const PeerCall& peer) const;
  [[nodiscard]] std::optional<double> floor_us(const Case& what) const;
  [[nodiscard]] double bus_factor(Collective collective) const;
  [[nodiscard]] std::vector<Row> list_rows(const ListCase& what, const PeerCall& peer,
                                           const std::vector<Outcome>& outcomes, std::optional<double> limit_us) const;

  const Options& options_;
  Job job_;
  std::optional<double> gpu_copy_gbs_;
  Memory memory_;
  Memory peer_memory_;
  Turns turns_;
  OwnComm peer_comm_;
  lockstep::Communicator communicator_;
  std::optional<Buffers> ours_;
  std::optional<Buffers> peers_;  // MPI's; NCCL works on ours
  std::unique_ptr<NcclGroup> nccl_;
};

}  // namespace perf

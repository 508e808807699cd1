// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0
//
// Calls of lockstep on one simulated rank: the transport over SimGrid's SMPI, the agreement, the schedules, and the
// operations by messages and in the memory of a node. The engine is left out, since it has threads.

#pragma once

#include <lockstep/cluster/replica_layout.hpp>

#include "collectives/engine/control_channel.hpp"
#include "collectives/engine/message_agreement.hpp"
#include "collectives/engine/operation.hpp"
#include "collectives/host/schedule_cache.hpp"
#include "scale/scaled_call.hpp"
#include "scale/simulated_time.hpp"
#include "transport/transport.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace lockstep::detail {

struct ScaledTime {
  std::string path;  ///< the radices of the schedule, or "direct", or "carried" by the agreement
  int segments = 1;
  double us = 0;        ///< simulated time of the slowest rank
  double model_us = 0;  ///< the same by the cost model; 0 if unknown
};

class SimulatedRank {
 public:
  /// Collective over MPI_COMM_WORLD.
  SimulatedRank();

  [[nodiscard]] int rank() const noexcept { return transport_->rank(); }
  [[nodiscard]] int ranks() const noexcept { return transport_->size(); }

  // The functions below are collective.

  /// What a communicator does in a call: the agreement, then the data, which may travel with the agreement.
  [[nodiscard]] ScaledTime run_call(ScaledCall& scaled, Copies copies);
  /// The data alone, after the agreement, never with it.
  [[nodiscard]] ScaledTime run_data(ScaledCall& scaled, Copies copies);
  /// An all_reduce by messages alone, without an agreement, and with free copies: that is what the cost model
  /// describes. `radices` as in LOCKSTEP_RADICES; empty: the planner chooses.
  [[nodiscard]] ScaledTime run_all_reduce(ScaledCall& scaled, const std::string& radices);

 private:
  struct Selected {
    std::shared_ptr<Operation> operation;
    ScaledTime time;
  };
  enum class Carried : std::uint8_t { never, if_small };
  /// As Communicator::State selects it.
  [[nodiscard]] Selected select(ScaledCall& scaled, Carried carried);
  [[nodiscard]] std::shared_ptr<const RankSchedule> schedule_of(const Call& call, const HostItem& item);
  void agree(Operation& operation);
  void move_data(Operation& operation);

  std::unique_ptr<Transport> transport_;
  ReplicaLayout layout_;
  NodePath path_;
  ControlChannel control_;
  MessageAgreement agreement_;
  ScheduleCache schedules_;
  std::shared_ptr<const CarrySteps> carry_steps_;
  Workspace workspace_;
  std::int64_t operations_ = 0;
};

}  // namespace lockstep::detail

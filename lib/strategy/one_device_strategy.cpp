// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#include <lockstep/strategy/one_device_strategy.hpp>

#include "context/replica_team.hpp"
#include "strategy/local_devices.hpp"
#include "strategy/strategy_access.hpp"

namespace lockstep {

OneDeviceStrategy::OneDeviceStrategy(std::string_view device) : OneDeviceStrategy(parse_device(device)) {}

OneDeviceStrategy::OneDeviceStrategy(Device device)
    : Strategy(
          StrategyOfTheLibrary{.team = std::make_shared<ReplicaTeam>(
                                   "OneDeviceStrategy", self_communicator({.name = "OneDeviceStrategy"}),
                                   checked_devices({device}, "OneDeviceStrategy"), ReplicaTeam::Kind::one_device)}) {}

}  // namespace lockstep

// SPDX-FileCopyrightText: The lockstep authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <lockstep/strategy/strategy.hpp>

#include <memory>
#include <span>

namespace lockstep {

/// The parts of a strategy.
struct StrategyOfTheLibrary {
  std::shared_ptr<ReplicaTeam> team;
  std::shared_ptr<CrossDeviceOps> ops = nullptr;  ///< reduces; null for the default, which depends on the devices
  CommunicationOptions options = {};
};

/// The library's own access to the reducer of a strategy.
struct StrategyAccess {
  [[nodiscard]] static ReplicaTeam& team(Strategy& strategy) noexcept { return *strategy.team_; }
  [[nodiscard]] static CrossDeviceOps& ops(Strategy& strategy) noexcept { return *strategy.ops_; }
  [[nodiscard]] static const CommunicationOptions& options(Strategy& strategy) noexcept {
    return strategy.communication_options_;
  }
};

/// Throws Error(invalid_argument) for an op whose reduction of one value that all replicas share is not that value:
/// mean, min, max, band and bor give the value itself.
void check_keeps_one_value(ReduceOp op, const char* kind);

/// StrategyHooks::all_gather and all_reduce_mixed of every strategy, in replica_collectives.cpp.
void all_gather_parts(void* none, std::span<const detail::MergePart> parts, Strategy& strategy);
void all_reduce_mixed_parts(void* none, std::span<const detail::MergePart> parts, Strategy& strategy);

}  // namespace lockstep
